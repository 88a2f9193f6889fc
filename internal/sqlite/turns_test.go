package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/agent"
)

const group = -5

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

func call(id string) agent.Part { return agent.Part{Call: &agent.Call{ID: id, Name: "tool"}} }

func calls(ids ...string) agent.Message {
	m := agent.Message{Role: agent.Assistant}
	for _, id := range ids {
		m.Parts = append(m.Parts, call(id))
	}
	return m
}

func result(id, text string) agent.Message {
	return agent.Message{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{CallID: id, Name: "tool", Text: text}}}}
}

func step(tb testing.TB, s *Store, turn agent.Turn, m agent.Message) {
	tb.Helper()
	check(tb, s.Append(context.Background(), turn.Session, turn.Turn, m))
}

func TestAppend(t *testing.T) {
	t.Run("a result is there once", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		step(t, c.Store, turn, calls("1", "2"))
		step(t, c.Store, turn, result("2", "two"))
		step(t, c.Store, turn, result("1", "one"))
		step(t, c.Store, turn, result("2", "two again"))
		equal(t, told(t, c.Store, turn.Session), "user: a | assistant: call 1, call 2 | tool: 2=two | tool: 1=one")
	})
	t.Run("call ids are a session's own", func(t *testing.T) {
		c := newStore(t)
		for chat := range int64(2) {
			turn := ask(t, c.Store, text(chat, chat, "a"))
			step(t, c.Store, turn, calls("1"))
			step(t, c.Store, turn, result("1", "one"))
			equal(t, told(t, c.Store, turn.Session), "user: a | assistant: call 1 | tool: 1=one")
		}
	})
	t.Run("a message comes back as it was", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		m := agent.Message{Role: agent.ToolRole, Parts: []agent.Part{{Taint: []agent.Source{"https://example.org"}, Result: &agent.Result{
			CallID: "1", Name: "n", Text: "t \x00 <&> \u2028", Images: []agent.Image{{MIME: "image/png", Data: []byte{0, 1, 255}}}, IsError: true,
			Facts: []agent.Fact{{Claim: "c", SourceOrg: "o", SourceURL: "u", CollectedAt: t0, PayloadHash: "h"}},
		}}}}
		step(t, c.Store, turn, m)
		h := must(c.History(t.Context(), turn.Session, 1))(t)
		if len(h.Entries) != 1 || h.Entries[0].Seq != 2 || h.Entries[0].Turn != turn.Turn || !reflect.DeepEqual(h.Entries[0].Message, m) {
			t.Errorf("got %+v", h.Entries)
		}
	})
	t.Run("not after the end", func(t *testing.T) {
		for _, state := range []agent.TurnState{agent.TurnDone, agent.TurnFailed, agent.TurnStopped} {
			c := newStore(t)
			turn := ask(t, c.Store, text(1, 7, "a"))
			check(t, c.Finish(t.Context(), turn, agent.Ending{State: state}))
			if err := c.Append(t.Context(), turn.Session, turn.Turn, result("1", "late")); !errors.Is(err, agent.ErrStopped) {
				t.Errorf("%s: %v", state, err)
			}
			equal(t, told(t, c.Store, turn.Session), "user: a")
		}
	})
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

func TestFinish(t *testing.T) {
	t.Run("stores all of it", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		woken(c.InboxWake())
		end(t, c.Store, turn, "A")
		if !woken(c.InboxWake()) || !woken(c.OutboxWake()) {
			t.Error("nobody was woken")
		}
		equal(t, told(t, c.Store, turn.Session), "user: a | assistant: A")
		equal(t, drain(t, c, 7), "A")
		equal(t, must(c.Tokens(t.Context(), at(7)))(t), 10)
		equal(t, len(must(c.Open(t.Context()))(t)), 0)
		equal(t, count(t, c.Store, `SELECT count(*) FROM inbox WHERE state = 'done'`), 1)
	})
	t.Run("all or nothing", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		bad := ending(turn, "A")
		bad.State = "no such state"
		if err := c.Finish(t.Context(), turn, bad); err == nil {
			t.Error("stored")
		}
		equal(t, told(t, c.Store, turn.Session), "user: a")
		equal(t, drain(t, c, 7), "")
		end(t, c.Store, turn, "A")
	})
	t.Run("once, whoever is first", func(t *testing.T) {
		for range 20 {
			c := newStore(t)
			turn := ask(t, c.Store, text(1, 7, "a"))
			errs := make([]error, 4)
			var wg sync.WaitGroup
			for i := range errs {
				wg.Go(func() {
					if i%2 == 0 {
						errs[i] = c.Finish(t.Context(), turn, ending(turn, "finished"))
					} else {
						_, errs[i] = c.Stop(t.Context(), at(7), person(7), 9, func(turn agent.Turn) []agent.Post { return []agent.Post{answer(turn, "stopped")} })
					}
				})
			}
			wg.Wait()
			won := 0
			for i, err := range errs {
				if err == nil {
					won++
				} else if want := []error{agent.ErrStopped, agent.ErrNoTurn}[i%2]; !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			}
			equal(t, won, 1)
			if got := drain(t, c, 7); got != "finished" && got != "stopped" {
				t.Errorf("answers: %q", got)
			}
		}
	})
}

// A turn is given up after 3 deaths of the process without a new step.
func TestAttempts(t *testing.T) {
	die := func(c *Channel) error { return c.Recover(context.Background()) }
	leave := func(c *Channel) error {
		return errors.Join(c.Release(context.Background(), 1), c.Recover(context.Background()))
	}
	record := func(c *Channel) error {
		return c.Append(context.Background(), 1, 1, agent.TextMessage(agent.Assistant, "step"))
	}
	join := func(c *Channel) error {
		_, err := c.Accept(context.Background(), []agent.Incoming{text(time.Now().UnixNano(), 7, "more")})
		if err == nil {
			_, err = c.Pull(context.Background(), agent.Turn{Scope: agent.Scope{Session: 1, Turn: 1, Address: at(7), Principal: person(7)}}, t0, compose)
		}
		return err
	}
	for name, test := range map[string]struct {
		events   []func(*Channel) error
		attempts int
	}{
		"new":                            {nil, 0},
		"killed three times":             {[]func(*Channel) error{die, die, die}, 3},
		"left in good order":             {[]func(*Channel) error{leave, leave}, 0},
		"a good end forgives no death":   {[]func(*Channel) error{die, die, leave, die}, 3},
		"a step forgives":                {[]func(*Channel) error{die, die, record}, 0},
		"killed after a step":            {[]func(*Channel) error{die, die, record, die}, 1},
		"what is taken in is a step too": {[]func(*Channel) error{die, join}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "agentd.db")
			c := openAt(t, path).Channel("telegram")
			ask(t, c.Store, text(1, 7, "a"))
			for _, event := range test.events {
				check(t, event(c))
				check(t, c.Close())
				c = openAt(t, path).Channel("telegram")
			}
			open := must(c.Open(t.Context()))(t)
			if len(open) != 1 || open[0].Attempts != test.attempts {
				t.Errorf("open: %+v, want %d attempts", open, test.attempts)
			}
		})
	}
	t.Run("a turn that is over has none", func(t *testing.T) {
		c := newStore(t)
		end(t, c.Store, ask(t, c.Store, text(1, 7, "a")), "A")
		check(t, c.Recover(t.Context()))
		check(t, c.Release(t.Context(), 1))
		equal(t, count(t, c.Store, `SELECT attempts FROM turns`), 0)
	})
}

func stop(c *Channel, by agent.Principal) error {
	_, err := c.Stop(context.Background(), at(7), by, 9, func(turn agent.Turn) []agent.Post { return []agent.Post{answer(turn, "stopped")} })
	return err
}

func TestStop(t *testing.T) {
	control := kind(agent.KindControl, text(9, 7, "/stop"))
	t.Run("closes the open calls, the sub-agent's too", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		accept1(t, c.Store, control)
		step(t, c.Store, turn, calls("1", "2"))
		step(t, c.Store, turn, result("1", "done"))
		child := must(c.Child(t.Context(), turn.Scope, "2", "helper", agent.TextMessage(agent.User, "task")))(t)
		check(t, c.Append(t.Context(), child, turn.Turn, calls("1")))
		check(t, stop(c, person(7)))
		equal(t, told(t, c.Store, turn.Session), "user: a | assistant: call 1, call 2 | tool: 1=done | tool: 2=stopped by the person")
		equal(t, told(t, c.Store, child), "user: task | assistant: call 1 | tool: 1=stopped by the person")
		equal(t, drain(t, c, 7), "stopped")
		equal(t, len(must(c.Controls(t.Context()))(t)), 0)
		if err := c.Append(t.Context(), child, turn.Turn, result("1", "late")); !errors.Is(err, agent.ErrStopped) {
			t.Errorf("the child goes on: %v", err)
		}
		accept1(t, c.Store, text(2, 7, "b"))
		claim(t, c.Store)
	})
	t.Run("ids that look alike", func(t *testing.T) { // session 1 call "1x", session 11 call "x"
		c := newStore(t)
		var turn agent.Turn
		for i := range int64(11) {
			turn = ask(t, c.Store, text(i+1, i-3, "a")) // session 11 is chat 7's
		}
		equal(t, turn.Session, 11)
		step(t, c.Store, turn, calls("x"))
		check(t, c.Append(t.Context(), 1, turn.Turn, result("1x", "another's")))
		check(t, stop(c, person(7)))
		equal(t, told(t, c.Store, 11), "user: a | assistant: call x | tool: x=stopped by the person")
	})
	t.Run("whose it is", func(t *testing.T) {
		c := newStore(t)
		accept1(t, c.Store, control)
		if err := stop(c, person(7)); !errors.Is(err, agent.ErrNoTurn) {
			t.Errorf("nothing runs: %v", err)
		}
		turn := ask(t, c.Store, text(1, 7, "a"))
		if err := stop(c, person(8)); !errors.Is(err, agent.ErrNotYours) {
			t.Errorf("another's: %v", err)
		}
		equal(t, len(must(c.Controls(t.Context()))(t)), 1) // nothing was stored
		check(t, c.Append(t.Context(), turn.Session, turn.Turn, calls("1")))
		check(t, stop(c, owner))
		if err := stop(c, owner); !errors.Is(err, agent.ErrNoTurn) {
			t.Errorf("again: %v", err)
		}
		equal(t, drain(t, c, 7), "stopped")
	})
	t.Run("knows the preview", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		check(t, c.OpenPreview(t.Context(), turn, true))
		check(t, c.SettlePreview(t.Context(), turn.Turn, 55, agent.Payload{}))
		stopped := must(c.Stop(t.Context(), at(7), owner, 9, func(turn agent.Turn) []agent.Post {
			return []agent.Post{answer(turn, fmt.Sprint("instead of ", turn.Preview.Message))}
		}))(t)
		equal(t, stopped.Preview.Silent, true)
		equal(t, drain(t, c, 7), "instead of 55")
	})
	t.Run("what runs on after /new", func(t *testing.T) {
		c := newStore(t)
		old := ask(t, c.Store, text(1, 7, "a"))
		check(t, c.NewSession(t.Context(), at(7)))
		young := ask(t, c.Store, text(2, 7, "b"))
		for _, want := range []int64{young.Turn, old.Turn} {
			got := must(c.Stop(t.Context(), at(7), person(7), 9, func(agent.Turn) []agent.Post { return nil }))(t)
			equal(t, got.Turn, want)
		}
	})
}

// again repeats the question and says how many entries there were.
func again(old []agent.Entry) agent.Message {
	return agent.TextMessage(agent.User, fmt.Sprintf("%s again, after %d entries", old[0].Text(), len(old)))
}

func TestRetry(t *testing.T) {
	t.Run("of an answer", func(t *testing.T) {
		c := newStore(t)
		before := ask(t, c.Store, text(1, 7, "before"))
		end(t, c.Store, before, "B")
		turn := ask(t, c.Store, text(2, 7, "a"))
		step(t, c.Store, turn, calls("1"))
		step(t, c.Store, turn, result("1", "one"))
		end(t, c.Store, turn, "A")
		must(c.write.conn.ExecContext(t.Context(), `UPDATE turns SET ended = 5`))(t)
		accept1(t, c.Store, kind(agent.KindControl, text(9, 7, "/retry")))
		me := person(7)
		me.Rights = agent.Member // what they may do has changed since
		old := must(c.Retry(t.Context(), at(7), me, 9, again))(t)
		equal(t, old.Turn, turn.Turn)
		equal(t, count(t, c.Store, `SELECT ended FROM turns WHERE id = ?`, old.Turn), 5)
		equal(t, told(t, c.Store, turn.Session), "user: before | assistant: B | user: a again, after 4 entries")
		open := must(c.Open(t.Context()))(t)
		if len(open) != 1 || open[0].Turn == turn.Turn || open[0].Principal != me || open[0].Question != 2 || open[0].Attempts != 0 || !open[0].Private {
			t.Fatalf("open %+v", open)
		}
		equal(t, len(must(c.Controls(t.Context()))(t)), 0)
		end(t, c.Store, open[0], "A2")
		equal(t, drain(t, c, 7), "B A A2")
	})
	t.Run("of a turn that runs", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		step(t, c.Store, turn, calls("1"))
		must(c.Retry(t.Context(), at(7), owner, 9, again))(t)
		for what, err := range map[string]error{
			"append": c.Append(t.Context(), turn.Session, turn.Turn, result("1", "late")), "finish": c.Finish(t.Context(), turn, ending(turn, "late")),
		} {
			if !errors.Is(err, agent.ErrStopped) {
				t.Errorf("%s: %v", what, err)
			}
		}
		equal(t, told(t, c.Store, turn.Session), "user: a again, after 3 entries") // the call was closed
		equal(t, must(c.Open(t.Context()))(t)[0].Principal, turn.Principal)        // not the owner, who asked for it
		equal(t, count(t, c.Store, `SELECT count(*) FROM inbox WHERE state = 'taken'`), 0)
	})
	t.Run("twice", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		for range 2 {
			must(c.Retry(t.Context(), at(7), person(7), 9, again))(t)
		}
		equal(t, told(t, c.Store, turn.Session), "user: a again, after 1 entries again, after 1 entries")
		equal(t, len(must(c.Open(t.Context()))(t)), 1)
	})
	t.Run("the preview goes with it", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		check(t, c.OpenPreview(t.Context(), turn, false))
		check(t, c.SettlePreview(t.Context(), turn.Turn, 55, agent.Payload{}))
		must(c.Retry(t.Context(), at(7), person(7), 9, again))(t)
		open := must(c.Open(t.Context()))(t)
		if len(open) != 1 || open[0].Preview == nil || open[0].Preview.Message != 55 {
			t.Fatalf("open %+v", open)
		}
		end(t, c.Store, open[0], "A")
		old := must(c.Retry(t.Context(), at(7), person(7), 9, again))(t)
		if open := must(c.Open(t.Context()))(t); old.Preview != nil || open[0].Preview != nil {
			t.Errorf("message 55 is an answer now, not a preview: %+v, %+v", old.Preview, open[0].Preview)
		}
	})
	t.Run("a preview on its way is removed when it is there", func(t *testing.T) {
		c := newStore(t)
		turn := ask(t, c.Store, text(1, 7, "a"))
		check(t, c.OpenPreview(t.Context(), turn, false))
		must(c.Retry(t.Context(), at(7), person(7), 9, again))(t)
		equal(t, must(c.Open(t.Context()))(t)[0].Preview, nil)
		check(t, c.SettlePreview(t.Context(), turn.Turn, 55, agent.Payload{Body: []byte(`"remove 55"`)}))
		equal(t, drain(t, c, 7), "remove 55")
	})
	t.Run("whose it is", func(t *testing.T) {
		c := newStore(t)
		if _, err := c.Retry(t.Context(), at(7), owner, 9, again); !errors.Is(err, agent.ErrNoTurn) {
			t.Errorf("nothing ran: %v", err)
		}
		end(t, c.Store, ask(t, c.Store, text(1, 7, "a")), "A")
		if _, err := c.Retry(t.Context(), at(7), person(8), 9, again); !errors.Is(err, agent.ErrNotYours) {
			t.Errorf("another's: %v", err)
		}
		check(t, c.NewSession(t.Context(), at(7)))
		if _, err := c.Retry(t.Context(), at(7), owner, 9, again); !errors.Is(err, agent.ErrNoTurn) {
			t.Errorf("after /new: %v", err)
		}
	})
}

func TestChild(t *testing.T) {
	c := newStore(t)
	turn := ask(t, c.Store, text(1, 7, "a"))
	other := ask(t, c.Store, text(2, 8, "b"))
	task := agent.TextMessage(agent.User, "task")
	child := must(c.Child(t.Context(), turn.Scope, "1", "helper", task))(t)
	check(t, c.Append(t.Context(), child, turn.Turn, agent.TextMessage(agent.Assistant, "found")))
	equal(t, must(c.Child(t.Context(), turn.Scope, "1", "helper", task))(t), child)
	equal(t, told(t, c.Store, child), "user: task | assistant: found")
	seen := map[int64]bool{child: true}
	for _, s := range []struct {
		scope agent.Scope
		call  string
	}{{turn.Scope, "2"}, {other.Scope, "1"}} {
		id := must(c.Child(t.Context(), s.scope, s.call, "helper", task))(t)
		if seen[id] {
			t.Errorf("call %s of session %d got another's child", s.call, s.scope.Session)
		}
		seen[id] = true
	}
	equal(t, told(t, c.Store, turn.Session), "user: a")
	equal(t, len(must(c.Sessions(t.Context(), at(7), 10))(t)), 1)
	if ok := must(c.SwitchSession(t.Context(), at(7), child))(t); ok {
		t.Error("a person was let into the helper's session")
	}
}

func TestCut(t *testing.T) {
	c := newStore(t)
	turn := ask(t, c.Store, text(1, 7, "a"))
	for _, s := range strings.Fields("b c d") {
		step(t, c.Store, turn, agent.TextMessage(agent.Assistant, s))
	}
	for _, test := range []struct {
		from, results int64
		want          string
		cut           int64
	}{
		{3, 2, "assistant: c | assistant: d", 2}, {2, 4, "assistant: c | assistant: d", 4}, {4, 3, "assistant: d", 4}, {0, 0, "assistant: d", 4},
	} {
		check(t, c.Cut(t.Context(), turn.Session, test.from, test.results))
		equal(t, told(t, c.Store, turn.Session), test.want)
		equal(t, must(c.History(t.Context(), turn.Session, 0))(t).ResultsCutTo, test.cut)
	}
	if _, err := c.History(t.Context(), 999, 0); err == nil {
		t.Error("a history of nothing")
	}
}
