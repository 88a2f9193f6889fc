package sqlite

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"agentd/internal/agent"
)

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
	t.Run("what was not begun", func(t *testing.T) {
		c := newStore(t)
		other := ask(t, c.Store, by(8, text(1, group, "other's")))
		accept1(t, c.Store, by(7, text(2, group, "a")), by(7, came(0, 700, text(3, group, "held"))), by(8, text(4, group, "b")),
			by(7, kind(agent.KindControl, text(5, group, "/stop"))), by(7, text(6, group, "after")))
		stop := func(by agent.Principal, update int64) (agent.Turn, error) {
			return c.Stop(t.Context(), at(group), by, update, func(turn agent.Turn) []agent.Post { return []agent.Post{answer(turn, "stopped")} })
		}
		turn := must(stop(person(7), 5))(t)
		if turn.Turn != 0 || turn.Principal.ID != 7 || turn.Question != 3 || turn.Address != at(group) {
			t.Errorf("stopped %+v", turn)
		}
		equal(t, queued(t, c.Store), "b@0 after@0")
		equal(t, drain(t, c, group), "stopped")
		if _, err := stop(person(7), 5); !errors.Is(err, agent.ErrNotYours) {
			t.Errorf("again: %v", err)
		}
		step(t, c.Store, other, calls("1")) // another's turn goes on
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
