package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"agentd/internal/agent"
)

const group = -5

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
