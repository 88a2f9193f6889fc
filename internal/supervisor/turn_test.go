package supervisor

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/agent"
	"agentd/internal/agent/agenttest"
	"agentd/internal/sqlite"
)

// attentive is a channel that notes what it was asked to acknowledge and to answer.
type attentive struct {
	silent
	mu       sync.Mutex
	seen     []int64
	answered []string
}

func (a *attentive) Follow(context.Context, agent.Turn) Progress { return a }

func (a *attentive) Answer(ctx context.Context, text string, faults ...*agent.Fault) []agent.Post {
	posts := a.silent.Answer(ctx, text, faults...)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answered = append(a.answered, posts[0].Key)
	return posts
}

func (a *attentive) Seen(_ context.Context, _ agent.Address, message int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = append(a.seen, message)
}

// chatty says a word, then waits.
type chatty struct{ windowed }

func (c chatty) Generate(ctx context.Context, r agent.Request, watch func(agent.Delta)) (agent.Reply, error) {
	watch(agent.Delta{Text: "Well"})
	return c.windowed.Generate(ctx, r, watch)
}

// scene is a supervisor at work, on virtual time.
type scene struct {
	*Supervisor
	t       *testing.T
	db      *sqlite.Store
	model   *agenttest.Model
	channel *attentive
	update  int64
}

// inScene plays a test with a model that plays the steps.
func inScene(t *testing.T, wrap func(windowed) Model, test func(t *testing.T, s *scene), steps ...agenttest.Step) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, db: newStore(t), model: agenttest.NewModel(steps...), channel: &attentive{}}
		var model Model = windowed{s.model, 8192}
		if wrap != nil {
			model = wrap(windowed{s.model, 8192})
		}
		s.Supervisor = New(s.db, model, s.channel, nil, Config{})
		runs(t, s.Supervisor, func() { pass(time.Millisecond); test(t, s) })
	})
}

// say writes something and lets so much time pass.
func (s *scene) say(text string, then time.Duration) {
	s.t.Helper()
	s.update++
	if _, err := s.db.Accept(s.t.Context(), []agent.Incoming{message(s.update, time.Now(), text)}); err != nil {
		s.t.Fatal(err)
	}
	pass(then)
}

// asked describes what the model was asked the n-th time.
func (s *scene) asked(n int) string {
	s.t.Helper()
	all := s.model.Asked()
	if n >= len(all) {
		s.t.Fatalf("the model was asked %d times", len(all))
	}
	var b strings.Builder
	for _, m := range all[n].Messages[1:] {
		fmt.Fprintf(&b, "%s: %s\n", m.Role, m.Text())
	}
	return b.String()
}

func (s *scene) askedTimes(n int) {
	s.t.Helper()
	if got := len(s.model.Asked()); got != n {
		s.t.Errorf("the model was asked %d times, want %d", got, n)
	}
}

func TestAMessageJoinsAYoungTurn(t *testing.T) {
	inScene(t, nil, func(t *testing.T, s *scene) {
		s.say("one", 300*time.Millisecond)
		s.say("two", time.Minute)
		s.askedTimes(2)
		if got := s.asked(1); !strings.Contains(got, "one") || !strings.Contains(got, "two") {
			t.Errorf("asked anew with %s", got)
		}
		if len(s.channel.seen) > 0 || s.running() > 0 {
			t.Errorf("seen %v, running %d", s.channel.seen, s.running())
		}
	}, agenttest.Step{Hang: true}, agenttest.Step{Text: "both"})
}

func TestALaterMessageWaits(t *testing.T) {
	inScene(t, nil, func(t *testing.T, s *scene) {
		s.say("one", 800*time.Millisecond)
		s.say("two", time.Minute)
		s.askedTimes(1)
		if len(s.channel.seen) != 1 || s.channel.seen[0] != 2 {
			t.Errorf("seen %v", s.channel.seen)
		}
	}, agenttest.Step{Hang: true})
}

func TestNothingJoinsAnAnswerThatHasBegun(t *testing.T) {
	inScene(t, func(w windowed) Model { return chatty{w} }, func(t *testing.T, s *scene) {
		s.say("one", 300*time.Millisecond)
		s.say("two", time.Minute)
		s.askedTimes(1)
	}, agenttest.Step{Hang: true})
}

func TestStopEndsTheModelCall(t *testing.T) {
	inScene(t, nil, func(t *testing.T, s *scene) {
		s.say("one", time.Second)
		err := s.Stop(t.Context(), home, owner, 99, func(turn agent.Turn) agent.Post { return agent.Post{Key: fmt.Sprint("turn:", turn.Turn)} })
		pass(time.Second)
		if err != nil || s.running() > 0 {
			t.Errorf("%v, running %d", err, s.running())
		}
		s.say("two", time.Second)
		s.askedTimes(2)
	}, agenttest.Step{Hang: true}, agenttest.Step{Text: "yes"})
}

// /retry, while the turn runs and after it has ended: the model is asked anew and
// does not see the old answer.
func TestRetryAsksAnew(t *testing.T) {
	for name, first := range map[string]agenttest.Step{"running": {Hang: true}, "ended": {Text: "a bad answer"}} {
		t.Run(name, func(t *testing.T) {
			inScene(t, nil, func(t *testing.T, s *scene) {
				s.say("before", time.Second)
				s.say("one", time.Second)
				if err := s.Retry(t.Context(), home, owner, 99); err != nil {
					t.Fatal(err)
				}
				pass(time.Second)
				s.askedTimes(3)
				got := s.asked(2)
				if !strings.Contains(got, "hello") || strings.Contains(got, "bad answer") || strings.Count(got, "one") != 1 || !strings.Contains(got, "You are asked again") {
					t.Errorf("asked anew with %s", got)
				}
				if s.running() > 0 {
					t.Errorf("%d turns run", s.running())
				}
			}, agenttest.Step{Text: "hello"}, first, agenttest.Step{Text: "better"})
		})
	}
}

// A turn that took three processes with it is given up; after two it is tried again.
func TestAttempts(t *testing.T) {
	for deaths, want := range map[int]int{2: 1, 3: 0} {
		synctest.Test(t, func(t *testing.T) {
			db, model := newStore(t), agenttest.NewModel(agenttest.Step{Text: "at last"})
			s := New(db, windowed{model, 8192}, silent{}, nil, Config{})
			if _, err := db.Accept(t.Context(), []agent.Incoming{message(1, time.Now(), "poison")}); err != nil {
				t.Fatal(err)
			}
			if _, ok, err := db.Claim(t.Context(), time.Now(), s.compose); !ok || err != nil {
				t.Fatal(ok, err)
			}
			for range deaths - 1 { // Run counts the last
				if err := db.Recover(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			runs(t, s, func() { pass(time.Second) })
			if n := len(model.Asked()); n != want {
				t.Errorf("after %d deaths the model was asked %d times", deaths, n)
			}
			if open, err := db.Open(t.Context()); err != nil || len(open) > 0 {
				t.Errorf("left open: %v, %v", open, err)
			}
		})
	}
}

// Our estimate follows the server's count, slowly and within bounds.
func TestCalibrate(t *testing.T) {
	s := New(nil, nil, nil, nil, Config{})
	near := func(want float64) {
		t.Helper()
		if got := s.scaleOf("m"); math.Abs(got-want) > 1e-9 {
			t.Errorf("scale %g, want %g", got, want)
		}
	}
	near(1)
	s.calibrate("m", 0, 100)
	s.calibrate("m", 100, 0)
	s.calibrate("other", 3500, 2000)
	near(1)
	s.calibrate("m", 3500, 2000) // twice our count
	near(2)
	s.calibrate("m", 3500, 1000)
	near(0.7*2 + 0.3)
	for range 100 {
		s.calibrate("m", 3500, 1_000_000)
	}
	near(3)
	for range 100 {
		s.calibrate("m", 3500, 1)
	}
	near(0.5)
}

// The budget shrinks with what was learnt.
func TestALearntScaleCuts(t *testing.T) {
	var steps []agenttest.Step
	for range 9 {
		steps = append(steps, agenttest.Step{Text: strings.Repeat("word ", 60)})
	}
	k := newTalk(t, 2048, nil, steps...)
	for range 8 {
		if _, err := k.say(t, "tell"); err != nil {
			t.Fatal(err)
		}
	}
	k.calibrate("", 3500, 2000)
	if _, err := k.say(t, "and?"); err != nil {
		t.Fatal(err)
	}
	asked := k.model.Asked()
	if before, after := bytesOf(asked[7]), bytesOf(asked[8]); float64(after) > 1536*bytesPerToken/2 || before < after {
		t.Errorf("%d bytes before, %d after", before, after)
	}
}

// fragile breaks at its first call.
type fragile struct {
	windowed
	calls *int
}

func (f fragile) Generate(ctx context.Context, r agent.Request, watch func(agent.Delta)) (agent.Reply, error) {
	if *f.calls++; *f.calls == 1 {
		panic("a nil map")
	}
	return f.windowed.Generate(ctx, r, watch)
}

// What breaks one turn ends neither the process nor the conversation.
func TestAPanicEndsOneTurn(t *testing.T) {
	wrap := func(w windowed) Model { return fragile{w, new(int)} }
	inScene(t, wrap, func(t *testing.T, s *scene) {
		s.say("one", time.Minute)
		s.say("two", time.Minute)
		s.askedTimes(1)
		open, err := s.db.Open(t.Context())
		if err != nil || len(open) > 0 || s.running() > 0 {
			t.Errorf("open %v, %v, running %d", open, err, s.running())
		}
		if got := fmt.Sprint(s.channel.answered); got != "[!broke here]" {
			t.Errorf("answered %s", got)
		}
	}, agenttest.Step{Text: "here"})
}
