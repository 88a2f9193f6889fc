package sqlite

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"agentd/internal/agent"
)

func TestClaim(t *testing.T) {
	t.Run("the turn is of the last message", func(t *testing.T) {
		c := newStore(t)
		in := came(1500, 1500, text(2, 7, "b"))
		in.Address.Thread, in.Lang = 3, "ru"
		first := text(1, 7, "a")
		first.Address.Thread = 3
		accept1(t, c.Store, first, in)
		turn, ok, err := c.Claim(t.Context(), t0.Add(2*time.Second), compose)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		want := agent.Turn{
			Scope: agent.Scope{Session: 1, Turn: 1, Address: in.Address, Principal: in.Sender, Private: true},
			Asked: in.At, Question: 2, Lang: "ru",
		}
		if !reflect.DeepEqual(turn, want) {
			t.Errorf("got  %+v\nwant %+v", turn, want)
		}
		open := must(c.Open(t.Context()))(t)
		if len(open) != 1 || !reflect.DeepEqual(open[0], want) {
			t.Errorf("open %+v", open)
		}
		equal(t, told(t, c.Store, 1), "user: a+b")
	})
	t.Run("first due, first served", func(t *testing.T) {
		c := newStore(t)
		accept1(t, c.Store, came(-10, -10, text(1, 7, "a")), came(-10, -30, text(2, 8, "b")), came(-10, -20, text(3, 9, "c")))
		var order []int64
		for range 3 {
			order = append(order, claim(t, c.Store).Address.Chat)
		}
		if !slices.Equal(order, []int64{8, 9, 7}) {
			t.Errorf("order %v", order)
		}
		nothingToClaim(t, c.Store)
	})
	t.Run("in the order they came, whatever their numbers", func(t *testing.T) {
		c := newStore(t)
		accept1(t, c.Store, came(-20, -20, text(9, 7, "a")), came(-10, -10, text(2, 7, "b")))
		turn := claim(t, c.Store)
		equal(t, told(t, c.Store, turn.Session), "user: a+b")
		equal(t, turn.Question, 2)
	})
	t.Run("one open turn a session", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		accept1(t, c.Store, text(2, 7, "b"), by(8, text(3, group, "c")))
		equal(t, claim(t, c.Store).Address.Chat, group)
		nothingToClaim(t, c.Store)
		end(t, c.Store, turn, "A")
		second := claim(t, c.Store)
		equal(t, second.Session, turn.Session)
		equal(t, told(t, c.Store, turn.Session), "user: a | assistant: A | user: b")
	})
	t.Run("each sender has turns of their own", func(t *testing.T) {
		c := newStore(t)
		accept1(t, c.Store, by(7, text(1, group, "a1")), by(8, text(2, group, "b1")), by(7, text(3, group, "a2")))
		turn := claim(t, c.Store)
		equal(t, turn.Principal.ID, 7)
		equal(t, told(t, c.Store, turn.Session), "user: a1+a2")
		nothingToClaim(t, c.Store)
		end(t, c.Store, turn, "A")
		equal(t, claim(t, c.Store).Principal.ID, 8)
		equal(t, told(t, c.Store, turn.Session), "user: a1+a2 | assistant: A | user: b1")
	})
	t.Run("topics do not wait for each other", func(t *testing.T) {
		c := newStore(t)
		topic := by(7, text(1, group, "a"))
		topic.Address.Thread = 3
		accept1(t, c.Store, topic, by(7, text(2, group, "b")))
		if a, b := claim(t, c.Store), claim(t, c.Store); a.Session == b.Session {
			t.Error("one session")
		}
	})
	t.Run("what is held is not taken", func(t *testing.T) {
		c := newStore(t)
		accept1(t, c.Store, text(1, 7, "now"), by(7, came(0, 700, text(2, group, "held"))))
		equal(t, claim(t, c.Store).Address.Chat, 7)
		nothingToClaim(t, c.Store)
		if _, ok, err := c.Claim(t.Context(), t0.Add(700*time.Millisecond), compose); !ok || err != nil {
			t.Error(ok, err)
		}
	})
	t.Run("controls and ignored rows are not taken", func(t *testing.T) {
		c := newStore(t)
		accept1(t, c.Store, kind(agent.KindControl, text(1, 7, "/help")), kind(agent.KindIgnored, text(2, 7, "x")), kind(agent.KindEdit, text(3, 7, "y")))
		nothingToClaim(t, c.Store)
	})
}

// What follows a command waits until it is handled: after a crash both may be found together.
func TestMessagesWaitForEarlierCommands(t *testing.T) {
	c := newStore(t)
	turn := ask(t, c.Store, by(7, text(1, group, "a")))
	accept1(t, c.Store, by(7, text(2, group, "before")), by(7, kind(agent.KindControl, text(3, group, "/new"))), by(7, text(4, group, "after")), by(8, text(5, group, "other's")))
	equal(t, must(c.Pull(t.Context(), turn, t0, compose))(t).Text(), "before")
	if m := must(c.Pull(t.Context(), turn, t0, compose))(t); m != nil {
		t.Errorf("pulled %q", m.Text())
	}
	end(t, c.Store, turn, "A")
	other := claim(t, c.Store)
	equal(t, other.Principal.ID, 8)
	end(t, c.Store, other, "B")
	nothingToClaim(t, c.Store)
	check(t, c.NewSession(t.Context(), at(group)))
	woken(c.InboxWake())
	check(t, c.Handled(t.Context(), 3))
	if !woken(c.InboxWake()) {
		t.Error("nobody was told that it may be claimed")
	}
	equal(t, told(t, c.Store, claim(t, c.Store).Session), "user: after")
}

// 20 workers take what 100 chats wrote: each message once, in order.
func TestClaimAtOnce(t *testing.T) {
	c := newStore(t)
	const chats, each = 100, 3
	var in []agent.Incoming
	for n := range int64(each) {
		for chat := range int64(chats) {
			in = append(in, text(n*chats+chat, chat, fmt.Sprint(n)))
		}
	}
	accept1(t, c.Store, in...)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for {
				turn, ok, err := c.Claim(t.Context(), t0, compose)
				if err != nil {
					t.Error(err)
				}
				if !ok {
					return
				}
				if err := c.Finish(t.Context(), turn, ending(turn, "answer")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	equal(t, count(t, c.Store, `SELECT count(*) FROM turns WHERE state = 'done'`), chats)
	equal(t, count(t, c.Store, `SELECT count(*) FROM inbox WHERE state = 'done'`), chats*each)
	for _, s := range must(c.Sessions(t.Context(), at(42), 5))(t) {
		equal(t, told(t, c.Store, s.ID), "user: 0+1+2 | assistant: answer")
	}
}

func TestOneOpenTurnIsAConstraint(t *testing.T) {
	c := newStore(t)
	turn := ask(t, c.Store, text(1, 7, "a"))
	for _, state := range []string{"open", "waiting"} {
		_, err := c.write.conn.ExecContext(t.Context(), `INSERT INTO turns (session, principal, name, rights, private, lang, question, state, asked, started)
			SELECT session, principal, name, rights, private, lang, question, ?, asked, started FROM turns`, state)
		if err == nil {
			t.Errorf("a second turn of session %d is %s", turn.Session, state)
		}
	}
}

func TestPull(t *testing.T) {
	pull := func(t *testing.T, c *Channel, turn agent.Turn) string {
		t.Helper()
		newest, joins, err := c.Joins(t.Context(), turn, t0)
		check(t, err)
		m := must(c.Pull(t.Context(), turn, t0, compose))(t)
		equal(t, joins, m != nil)
		if open := must(c.Open(t.Context()))(t); joins && open[0].Question != newest {
			t.Errorf("the newest is said to be %d, and was %d", newest, open[0].Question)
		}
		if m == nil {
			return ""
		}
		return m.Text()
	}
	t.Run("what its person wrote meanwhile", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, by(7, text(1, group, "a")))
		equal(t, pull(t, c, turn), "")
		last := by(7, came(-5, -5, text(5, group, "c")))
		accept1(t, c.Store, by(8, text(2, group, "other's")), by(7, came(-9, -9, text(4, group, "b"))), last, by(7, came(0, 700, text(6, group, "held"))), text(7, 7, "private"))
		equal(t, pull(t, c, turn), "b+c")
		equal(t, pull(t, c, turn), "")
		equal(t, told(t, c.Store, turn.Session), "user: a | user: b+c")
		open := must(c.Open(t.Context()))(t)
		if len(open) != 1 || open[0].Question != 5 || !open[0].Asked.Equal(last.At) {
			t.Errorf("open %+v", open)
		}
		end(t, c.Store, turn, "A")
		equal(t, count(t, c.Store, `SELECT count(*) FROM inbox WHERE state = 'done' AND turn = ?`, turn.Turn), 3)
		equal(t, queued(t, c.Store), "other's@0 held@700 private@0")
	})
	t.Run("not into a turn that is over", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		end(t, c.Store, turn, "A")
		accept1(t, c.Store, text(2, 7, "b"))
		if _, err := c.Pull(t.Context(), turn, t0, compose); !errors.Is(err, agent.ErrStopped) {
			t.Errorf("got %v", err)
		}
		equal(t, claim(t, c.Store).Question, 2)
	})
	t.Run("not into the session of before /new", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		check(t, c.NewSession(t.Context(), at(7)))
		accept1(t, c.Store, text(2, 7, "b"))
		equal(t, pull(t, c, turn), "")
		fresh := claim(t, c.Store)
		equal(t, told(t, c.Store, fresh.Session), "user: b")
		equal(t, told(t, c.Store, turn.Session), "user: a")
	})
}
