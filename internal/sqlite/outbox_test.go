package sqlite

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/agent"
)

// lanes renders Lanes: the chats, and when the next of the others is due.
func lanes(t *testing.T, c *Channel) string {
	t.Helper()
	chats, next, err := c.Lanes(t.Context(), t0)
	check(t, err)
	slices.Sort(chats)
	if next.IsZero() {
		return fmt.Sprint(chats)
	}
	return fmt.Sprint(chats, " ", next.Sub(t0))
}

// fates renders what became of a post's parts: "0 sent 1 queued".
func fates(t *testing.T, c *Channel, key string) string {
	t.Helper()
	rows, err := c.read.db.Query(`SELECT part, s.state, o.state FROM sends AS s JOIN outbox AS o ON o.id = s.post WHERE key = ? ORDER BY part`, key)
	check(t, err)
	defer closed(t, rows)
	var out []string
	var post string
	for rows.Next() {
		var part int
		var state string
		check(t, rows.Scan(&part, &state, &post))
		out = append(out, fmt.Sprint(part, " ", state))
	}
	return strings.Join(append(out, post), ", ")
}

func TestPostsGoOutInOrder(t *testing.T) {
	c := newStore(t)
	check(t, c.Post(t.Context(), letter("a", at(7), 0, "a1", "a2"), letter("b", at(8), 0, "b1")))
	if !woken(c.OutboxWake()) {
		t.Error("the sender was not woken")
	}
	check(t, c.Post(t.Context(), letter("c", at(7), 0, "c1"), letter("a", at(7), 0, "a again"), letter("empty", at(7), 0), letter("d", at(7), 0, "d1")))
	equal(t, lanes(t, c), "[7 8]")
	equal(t, lanes(t, c.Store.Channel("other")), "[]")
	send, body := next(t, c, 7)
	equal(t, body, "a1")
	if _, ok, err := c.Next(t.Context(), 7, t0); ok || err != nil {
		t.Errorf("the next part went out before the first was settled: %v", err)
	}
	settled(t, c.Store, send, agent.Sent)
	equal(t, drain(t, c, 7), "a2 c1 d1")
	equal(t, drain(t, c, 8), "b1")
	equal(t, drain(t, c, 7), "")
	equal(t, lanes(t, c), "[]")
	equal(t, fates(t, c, "a"), "0 sent, 2 sent, done")
}

func TestNextGivesAllOfThePost(t *testing.T) {
	c := newStore(t)
	p := letter("a", agent.Address{Channel: "telegram", Chat: 7, Thread: 3}, 5, "one")
	p.Parts[0].Idempotent = true
	check(t, c.Post(t.Context(), p))
	send, _ := next(t, c, 7)
	want := agent.Send{Post: 1, Key: "a", Address: p.Address, Turn: 5, Lang: "en", Payload: p.Parts[0]}
	equal(t, fmt.Sprintf("%+v", send), fmt.Sprintf("%+v", want))
	flying := must(c.InFlight(t.Context()))(t)
	equal(t, fmt.Sprintf("%+v", flying), fmt.Sprintf("%+v", []agent.Send{want}))
	equal(t, len(must(c.Store.Channel("other").InFlight(t.Context()))(t)), 0)
}

func TestSettle(t *testing.T) {
	two := func(t *testing.T) (*Channel, agent.Send) {
		c := newStore(t)
		check(t, c.Post(t.Context(), letter("a", at(7), 0, "a1", "a2"), letter("b", at(7), 0, "b1"), letter("other", at(8), 0, "o1")))
		send, _ := next(t, c, 7)
		woken(c.OutboxWake())
		return c, send
	}
	t.Run("sent", func(t *testing.T) {
		c, send := two(t)
		check(t, c.Settle(t.Context(), send, agent.Outcome{Fate: agent.Sent, Message: 99}))
		equal(t, count(t, c.Store, `SELECT message_id FROM sends WHERE post = ? AND part = 0`, send.Post), 99)
		equal(t, drain(t, c, 7), "a2 b1")
	})
	t.Run("again later: the chat waits, others do not", func(t *testing.T) {
		c, send := two(t)
		due := t0.Add(time.Minute)
		check(t, c.Settle(t.Context(), send, agent.Outcome{Fate: agent.Retry, Due: due, Reason: "flood"}))
		if !woken(c.OutboxWake()) {
			t.Error("the sender knows no time")
		}
		equal(t, lanes(t, c), "[8] 1m0s")
		equal(t, drain(t, c, 7), "")
		equal(t, drain(t, c, 8), "o1")
		send, ok, err := c.Next(t.Context(), 7, due)
		if !ok || err != nil || send.Tries != 1 {
			t.Fatalf("%+v, %v, %v", send, ok, err)
		}
		settled(t, c.Store, send, agent.Sent)
		equal(t, drain(t, c, 7), "a2 b1") // its own time is over, too
	})
	t.Run("failed: the rest goes on", func(t *testing.T) {
		c, send := two(t)
		settled(t, c.Store, send, agent.Failed)
		equal(t, drain(t, c, 7), "a2 b1")
		equal(t, fates(t, c, "a"), "0 failed, 2 sent, done")
	})
	t.Run("uncertain: the notice comes before the rest", func(t *testing.T) {
		c, send := two(t)
		settled(t, c.Store, send, agent.Uncertain)
		notice, body := next(t, c, 7)
		equal(t, body, "notice")
		if !notice.Idempotent {
			t.Error("the notice may not be repeated")
		}
		settled(t, c.Store, notice, agent.Uncertain) // nobody knows: it is sent again
		equal(t, drain(t, c, 7), "notice a2 b1")
		equal(t, fates(t, c, "a"), "0 uncertain, 1 sent, 2 sent, done")
	})
	t.Run("uncertain, the last part", func(t *testing.T) {
		c, _ := two(t)
		send, _ := next(t, c, 8)
		settled(t, c.Store, send, agent.Uncertain)
		equal(t, fates(t, c, "other"), "0 uncertain, 1 queued, queued")
		equal(t, drain(t, c, 8), "notice")
		equal(t, fates(t, c, "other"), "0 uncertain, 1 sent, done")
	})
	t.Run("uncertain without a notice is a mistake", func(t *testing.T) {
		c, send := two(t)
		if err := c.Settle(t.Context(), send, agent.Outcome{Fate: agent.Uncertain}); err == nil {
			t.Error("settled")
		}
		equal(t, fates(t, c, "a"), "0 sending, 2 queued, queued")
	})
	t.Run("parked: the whole chat, and what comes for it", func(t *testing.T) {
		c, send := two(t)
		settled(t, c.Store, send, agent.Parked)
		check(t, c.Post(t.Context(), letter("c", at(7), 0, "c1")))
		equal(t, lanes(t, c), "[8]")
		equal(t, drain(t, c, 7), "")
		equal(t, fates(t, c, "c"), "0 queued, parked")
		accept1(t, c.Store, text(1, 7, "I am back"))
		equal(t, drain(t, c, 7), "a1 a2 b1 c1")
	})
	t.Run("once", func(t *testing.T) {
		c, send := two(t)
		settled(t, c.Store, send, agent.Sent)
		for _, fate := range []agent.Fate{agent.Retry, agent.Uncertain, agent.Parked, agent.Failed} {
			settled(t, c.Store, send, fate)
		}
		equal(t, fates(t, c, "a"), "0 sent, 2 queued, queued")
		equal(t, drain(t, c, 7), "a2 b1")
	})
}

// What the process was sending when it died is settled by the next one.
func TestInFlightAfterADeath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agentd.db")
	c := openAt(t, path).Channel("telegram")
	check(t, c.Post(t.Context(), letter("a", at(7), 0, "a1", "a2"), letter("b", at(8), 0, "b1")))
	turn := ask(t, c.Store, text(1, 9, "hi"))
	check(t, c.OpenPreview(t.Context(), turn, false)) // its turn takes care of it
	next(t, c, 7)
	next(t, c, 8)
	check(t, c.Close())

	c = openAt(t, path).Channel("telegram")
	equal(t, drain(t, c, 7), "") // not before it is settled
	flying := must(c.InFlight(t.Context()))(t)
	equal(t, len(flying), 2)
	for _, send := range flying {
		settled(t, c.Store, send, agent.Uncertain)
	}
	equal(t, drain(t, c, 7), "notice a2")
	equal(t, drain(t, c, 8), "notice")
	equal(t, len(must(c.InFlight(t.Context()))(t)), 0)
}

func TestResend(t *testing.T) {
	c := newStore(t)
	to := agent.Address{Channel: "telegram", Chat: 7, Thread: 3}
	check(t, c.Post(t.Context(), letter("a", to, 5, "a1", "a2")))
	send, _ := next(t, c, 7)
	settled(t, c.Store, send, agent.Uncertain)
	equal(t, drain(t, c, 7), "notice a2")
	for what, ok := range map[string]bool{
		"another chat's": must(c.Resend(t.Context(), 8, send.Post, 0))(t), "a part that is sent": must(c.Resend(t.Context(), 7, send.Post, 2))(t),
		"the notice": must(c.Resend(t.Context(), 7, send.Post, 1))(t), "no part": must(c.Resend(t.Context(), 7, send.Post, 4))(t),
		"another channel's": must(c.Store.Channel("other").Resend(t.Context(), 7, send.Post, 0))(t),
	} {
		if ok {
			t.Errorf("%s was sent", what)
		}
	}
	woken(c.OutboxWake())
	for range 2 {
		equal(t, must(c.Resend(t.Context(), 7, send.Post, 0))(t), true)
	}
	if !woken(c.OutboxWake()) {
		t.Error("the sender was not woken")
	}
	again, body := next(t, c, 7)
	equal(t, body, "a1")
	if again.Address != to || again.Turn != 5 || again.Idempotent {
		t.Errorf("got %+v", again)
	}
	settled(t, c.Store, again, agent.Uncertain) // it has a notice and a button of its own
	equal(t, drain(t, c, 7), "notice")
	equal(t, must(c.Resend(t.Context(), 7, again.Post, 0))(t), true)
	equal(t, drain(t, c, 7), "a1")
	equal(t, must(c.Resend(t.Context(), 7, send.Post, 0))(t), true)
	equal(t, drain(t, c, 7), "")
}

func TestPreviews(t *testing.T) {
	removal := agent.Payload{Body: json.RawMessage(`"remove"`), Idempotent: true}
	preview := func(t *testing.T, c *Channel) *agent.Preview {
		t.Helper()
		return must(c.Open(t.Context()))(t)[0].Preview
	}
	t.Run("a turn that is resumed knows it", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		if p := preview(t, c); p != nil {
			t.Errorf("before it is sent: %+v", p)
		}
		check(t, c.OpenPreview(t.Context(), turn, true))
		if p := preview(t, c); p == nil || p.Message != 0 || !p.Silent || p.At.IsZero() {
			t.Errorf("on its way: %+v", p)
		}
		check(t, c.SettlePreview(t.Context(), turn.Turn, 55, removal))
		if p := preview(t, c); p == nil || p.Message != 55 {
			t.Errorf("sent: %+v", p)
		}
		equal(t, drain(t, c, 7), "")

		check(t, c.OpenPreview(t.Context(), turn, false)) // the person deleted it, and it is sent anew
		if p := preview(t, c); p.Message != 0 || p.Silent {
			t.Errorf("replaced: %+v", p)
		}
		check(t, c.SettlePreview(t.Context(), turn.Turn, 0, removal))
		if p := preview(t, c); p != nil {
			t.Errorf("surely not sent: %+v", p)
		}
		check(t, c.OpenPreview(t.Context(), turn, false))
		check(t, c.SettlePreview(t.Context(), turn.Turn, 56, removal))
		equal(t, preview(t, c).Message, 56)
	})
	t.Run("settled after the end it is removed, after the answer", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		check(t, c.OpenPreview(t.Context(), turn, false))
		end(t, c.Store, turn, "A")
		woken(c.OutboxWake())
		for range 2 {
			check(t, c.SettlePreview(t.Context(), turn.Turn, 55, removal))
		}
		if !woken(c.OutboxWake()) {
			t.Error("the sender was not woken")
		}
		equal(t, drain(t, c, 7), "A remove")
	})
	t.Run("settled before the end it is the answer's to take away", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		check(t, c.OpenPreview(t.Context(), turn, false))
		check(t, c.SettlePreview(t.Context(), turn.Turn, 55, removal))
		end(t, c.Store, turn, "A")
		check(t, c.SettlePreview(t.Context(), turn.Turn, 55, removal)) // again, when it may be the answer
		equal(t, drain(t, c, 7), "A")
	})
	t.Run("none after the end", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		end(t, c.Store, turn, "A")
		if err := c.OpenPreview(t.Context(), turn, false); err == nil {
			t.Error("opened")
		}
		check(t, c.SettlePreview(t.Context(), turn.Turn, 55, removal)) // of no preview
		equal(t, drain(t, c, 7), "A")
	})
	t.Run("nothing of it is left behind", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		check(t, c.OpenPreview(t.Context(), turn, false))
		end(t, c.Store, turn, "A")
		drain(t, c, 7)
		check(t, c.Prune(t.Context(), time.Now().Add(time.Hour)))
		equal(t, count(t, c.Store, `SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM sends)`), 0)
	})
}
