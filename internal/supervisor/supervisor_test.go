package supervisor

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/agent"
	"agentd/internal/agent/agenttest"
	"agentd/internal/sqlite"
)

// tripped is a store in which a test may let something happen behind a call.
type tripped struct {
	*sqlite.Store
	claimed, opened func()
}

func (s tripped) Claim(ctx context.Context, now time.Time, compose func([]agent.Incoming) agent.Message) (agent.Turn, bool, error) {
	turn, ok, err := s.Store.Claim(ctx, now, compose)
	if s.claimed != nil {
		s.claimed()
	}
	return turn, ok, err
}

func (s tripped) Open(ctx context.Context) ([]agent.Turn, error) {
	open, err := s.Store.Open(ctx)
	if s.opened != nil {
		s.opened()
	}
	return open, err
}

// message is what the owner writes at home.
func message(update int64, due time.Time, text string) agent.Incoming {
	return agent.Incoming{Update: update, Kind: agent.KindMessage, Address: home, Sender: owner, Private: true, Message: update,
		At: time.Now(), Due: due, Parts: []agent.Part{{Text: text}}, Raw: json.RawMessage(`{}`)}
}

var owner = agent.Principal{ID: 9, Rights: agent.Owner}

// runs runs the supervisor until the test's function has returned.
func runs(t *testing.T, s *Supervisor, test func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	test()
	cancel()
	running.Wait()
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// What falls due while the store is looked at is not forgotten until the next wake.
func TestWhatFallsDueMeanwhileIsClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, model := newStore(t), agenttest.NewModel(agenttest.Step{Text: "yes"})
		store := tripped{Store: db, claimed: func() { <-time.After(5 * time.Millisecond) }}
		if _, err := db.Accept(t.Context(), []agent.Incoming{message(1, time.Now().Add(3*time.Millisecond), "held")}); err != nil {
			t.Fatal(err)
		}
		<-db.InboxWake()
		s := New(store, windowed{model, 8192}, silent{}, nil, Config{})
		runs(t, s, func() { pass(time.Minute) })
		if n := len(model.Asked()); n != 1 {
			t.Errorf("the model was asked %d times", n)
		}
	})
}

// A turn that /retry opens while open turns are looked for is found.
func TestRetryWhileLookingForOpenTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, model := newStore(t), agenttest.NewModel(agenttest.Step{Text: "one"}, agenttest.Step{Text: "two"}, agenttest.Step{Text: "three"})
		var s *Supervisor
		again := func() {}
		s = New(tripped{Store: db, opened: func() { again() }}, windowed{model, 8192}, silent{}, nil, Config{})
		retry := func() {
			if err := s.Retry(t.Context(), home, owner, 0); err != nil {
				t.Error(err)
			}
		}
		runs(t, s, func() {
			pass(time.Second)
			if _, err := db.Accept(t.Context(), []agent.Incoming{message(1, time.Now(), "hello")}); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
			first := true
			again = func() {
				if first {
					first = false
					retry()
				}
			}
			s.reopen() // as by the /retry of another chat
			s.again <- struct{}{}
			pass(time.Second)
		})
		if n := len(model.Asked()); n != 2 {
			t.Errorf("the model was asked %d times", n)
		}
		if open, err := db.Open(t.Context()); err != nil || len(open) > 0 {
			t.Errorf("left open: %+v, %v", open, err)
		}
	})
}

// A turn that ends while open turns are looked for is not run once more.
func TestATurnThatEndsMeanwhileIsNotForlorn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, model := newStore(t), agenttest.NewModel(agenttest.Step{Text: "one"}, agenttest.Step{Text: "once more"})
		if _, err := db.Accept(t.Context(), []agent.Incoming{message(1, time.Now(), "hello")}); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := db.Claim(t.Context(), time.Now(), func([]agent.Incoming) agent.Message { return agent.TextMessage(agent.User, "hello") }); !ok || err != nil {
			t.Fatal(ok, err) // as a dead process left it
		}
		s := New(tripped{Store: db, opened: func() { <-time.After(time.Second) }}, windowed{model, 8192}, silent{}, nil, Config{})
		runs(t, s, func() { pass(time.Minute) })
		if n := len(model.Asked()); n != 1 {
			t.Errorf("the model was asked %d times", n)
		}
	})
}

// Told to stop before it has begun, the supervisor ends without an error.
func TestStoppedBeforeItBegins(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := New(newStore(t), windowed{agenttest.NewModel(), 8192}, silent{}, nil, Config{})
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
}

// A turn that was stopped may still read its history when the next one begins.
func TestHistoryIsSharedSafely(t *testing.T) {
	k := newTalk(t, 8192, nil, agenttest.Step{Text: "hello"})
	if _, err := k.say(t, "hi"); err != nil {
		t.Fatal(err)
	}
	turn := agent.Turn{Scope: agent.Scope{Session: 1, Turn: 1, Address: home, Principal: owner}}
	k.histories.drop(1)
	var both sync.WaitGroup
	for range 8 {
		both.Go(func() {
			b, err := k.transcript(t.Context(), newWork(t.Context(), turn), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := b.Prompt(t.Context(), 0); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if n := len(k.histories.take(1).entries); n != 2 {
		t.Errorf("the history has %d messages", n)
	}
}
