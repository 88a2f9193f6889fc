package sqlite

import (
	"fmt"
	"testing"
	"time"

	"agentd/internal/agent"
)

func TestSetPerson(t *testing.T) {
	for state, drops := range map[agent.PersonState]bool{
		agent.PersonDenied: true, agent.PersonBlocked: true, agent.PersonRevoked: true, agent.PersonAllowed: false, agent.PersonOwner: false,
	} {
		t.Run(string(state), func(t *testing.T) {
			c := newStore(t)
			running := ask(t, c.Store, text(1, 7, "runs"))
			accept1(t, c.Store, text(2, 7, "private"), by(7, text(3, group, "in a group")), by(8, text(4, group, "another's")), kind(agent.KindControl, text(5, 7, "/help")))
			check(t, c.SetPerson(t.Context(), 7, state, "Ann"))
			want := "private@0 in a group@0 another's@0 /help@0"
			if drops {
				want = "another's@0 /help@0"
				if in := must(c.Ignored(t.Context(), 9))(t); len(in) != 2 || in[0].Note == "" {
					t.Errorf("ignored %+v", in)
				}
			}
			equal(t, queued(t, c.Store), want)
			end(t, c.Store, running, "A")
		})
	}
	t.Run("a chat", func(t *testing.T) {
		c := newStore(t)
		accept1(t, c.Store, by(7, text(1, group, "a")), by(8, text(2, group, "b")), text(3, 7, "private"))
		check(t, c.SetPerson(t.Context(), group, agent.PersonRevoked, ""))
		equal(t, queued(t, c.Store), "private@0")
	})
	t.Run("the name stays when none is given", func(t *testing.T) {
		c := newStore(t)
		check(t, c.SetPerson(t.Context(), 7, agent.PersonAllowed, "Ann"))
		check(t, c.SetPerson(t.Context(), 7, agent.PersonRevoked, ""))
		known := must(c.Known(t.Context()))(t)
		if len(known) != 1 || known[0].Name != "Ann" || known[0].State != agent.PersonRevoked || known[0].Since.IsZero() {
			t.Errorf("known %+v", known)
		}
		equal(t, len(must(c.Store.Channel("other").Known(t.Context()))(t)), 0)
	})
}

// greet gives what a stranger gets: "line", "card", "line+card" or "".
func greet(t *testing.T, c *Channel, id int64, at time.Time) string {
	t.Helper()
	line, card, err := c.Greet(t.Context(), id, fmt.Sprint("p", id), at)
	check(t, err)
	switch {
	case line && card:
		return "line+card"
	case line:
		return "line"
	case card:
		return "card"
	}
	return ""
}

func TestGreet(t *testing.T) {
	t.Run("a line a day, one card", func(t *testing.T) {
		c := newStore(t)
		equal(t, greet(t, c, 7, t0), "line+card")
		equal(t, greet(t, c, 7, t0.Add(24*time.Hour-time.Millisecond)), "")
		equal(t, greet(t, c, 7, t0.Add(24*time.Hour)), "line")
		equal(t, greet(t, c, 7, t0.Add(25*time.Hour)), "")
	})
	t.Run("20 lines an hour in all", func(t *testing.T) {
		c := newStore(t)
		for i := range int64(20) {
			if got := greet(t, c, 100+i, t0); got != "line+card" && (i < openCards || got != "line") {
				t.Errorf("stranger %d got %q", i, got)
			}
		}
		equal(t, greet(t, c, 200, t0.Add(time.Hour-time.Millisecond)), "")
		equal(t, greet(t, c, 200, t0.Add(time.Hour)), "line")
	})
	t.Run("5 open cards", func(t *testing.T) {
		c := newStore(t)
		for i := range int64(openCards) {
			equal(t, greet(t, c, 100+i, t0), "line+card")
		}
		equal(t, greet(t, c, 200, t0), "line")
		equal(t, greet(t, c, 200, t0), "line") // the same message: its handler died
		equal(t, greet(t, c, 200, t0.Add(time.Second)), "")
		check(t, c.SetPerson(t.Context(), 102, agent.PersonDenied, ""))
		equal(t, greet(t, c, 200, t0.Add(2*time.Second)), "card") // now there is room
		equal(t, greet(t, c, 201, t0), "line")
	})
	t.Run("by what was decided", func(t *testing.T) {
		for state, want := range map[agent.PersonState]string{agent.PersonDenied: "line", agent.PersonRevoked: "line", agent.PersonBlocked: "", agent.PersonAsked: "line"} {
			c := newStore(t)
			check(t, c.SetPerson(t.Context(), 7, state, "Ann"))
			equal(t, greet(t, c, 7, t0), want)
			equal(t, must(c.Known(t.Context()))(t)[0].State, state)
		}
	})
	t.Run("who was only greeted is not known", func(t *testing.T) {
		c := newStore(t)
		for i := range int64(openCards + 2) {
			greet(t, c, 100+i, t0)
		}
		equal(t, len(must(c.Known(t.Context()))(t)), openCards)
	})
}

func TestPair(t *testing.T) {
	pair := func(t *testing.T, c *Channel, id int64, hash string, at time.Time) bool {
		t.Helper()
		return must(c.Pair(t.Context(), id, "Ann", hash, at))(t)
	}
	start := func(t *testing.T) *Channel {
		c := newStore(t)
		check(t, c.StartPairing(t.Context(), "right", t0.Add(10*time.Minute)))
		return c
	}
	t.Run("once", func(t *testing.T) {
		c := start(t)
		equal(t, pair(t, c, 7, "right", t0), true)
		if k := must(c.Known(t.Context()))(t); len(k) != 1 || k[0].ID != 7 || k[0].State != agent.PersonOwner || k[0].Name != "Ann" {
			t.Errorf("known %+v", k)
		}
		equal(t, pair(t, c, 8, "right", t0), false)
		check(t, c.SetPerson(t.Context(), 7, agent.PersonRevoked, ""))
		equal(t, pair(t, c, 8, "right", t0), false) // the code is used up
	})
	t.Run("not while there is an owner", func(t *testing.T) {
		c := start(t)
		check(t, c.SetPerson(t.Context(), 7, agent.PersonOwner, "Ann"))
		equal(t, pair(t, c, 8, "right", t0), false)
		check(t, c.SetPerson(t.Context(), 7, agent.PersonRevoked, ""))
		equal(t, pair(t, c, 8, "right", t0), true)
	})
	t.Run("in time", func(t *testing.T) {
		c := start(t)
		equal(t, pair(t, c, 7, "right", t0.Add(10*time.Minute)), false)
		equal(t, pair(t, c, 7, "right", t0.Add(10*time.Minute-time.Millisecond)), true)
	})
	t.Run("nothing was started", func(t *testing.T) {
		equal(t, pair(t, newStore(t), 7, "", t0), false)
	})
	t.Run("the bar after the fifth wrong try, whosoever", func(t *testing.T) {
		c := start(t)
		for i := range int64(pairingTries) {
			equal(t, pair(t, c, i, fmt.Sprint("wrong", i), t0), false)
		}
		equal(t, pair(t, c, 7, "right", t0), false)
		// A new code does not lift it.
		check(t, c.StartPairing(t.Context(), "new", t0.Add(30*time.Minute)))
		equal(t, pair(t, c, 7, "new", t0.Add(10*time.Minute-time.Millisecond)), false)
		equal(t, pair(t, c, 7, "right", t0.Add(10*time.Minute)), false) // the old code
		equal(t, pair(t, c, 7, "new", t0.Add(10*time.Minute)), true)
	})
	t.Run("four wrong tries are forgiven", func(t *testing.T) {
		c := start(t)
		for range pairingTries - 1 {
			equal(t, pair(t, c, 7, "wrong", t0), false)
		}
		equal(t, pair(t, c, 7, "right", t0), true)
	})
	t.Run("tries of before a new code count", func(t *testing.T) {
		c := start(t)
		for range pairingTries - 1 {
			pair(t, c, 7, "wrong", t0)
		}
		check(t, c.StartPairing(t.Context(), "new", t0.Add(30*time.Minute)))
		pair(t, c, 7, "wrong", t0)
		equal(t, pair(t, c, 7, "new", t0), false)
	})
}
