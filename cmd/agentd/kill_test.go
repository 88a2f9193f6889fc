package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

var killSeed = flag.Uint64("seed", 0, "of TestKill's moments; 0 takes a new one")

// TestKill really kills the program, again and again, while many chats wait for
// answers, and then looks at what the people have.
func TestKill(t *testing.T) {
	const people = 15
	kills := 10
	if testing.Short() {
		kills = 4
	}
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("run again with -seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	w := newRealWorld(t, bottest.Config{}, ollamatest.Config{Answer: slowly})
	c := w.crowd(people)
	d := w.start()
	lives := []*child{d}
	for kill := range kills {
		// Each person has a question without an answer, so at least two requests
		// for each person come: to the model, and to Telegram.
		at, when := 1+random.IntN(2*people), moment(random.IntN(int(moments)))
		twice := random.Perm(people)[:people/2]
		ask := func() {
			c.askAll()
			for _, i := range twice {
				c.ask(i)
			}
		}
		w.trap.set(d, at, when, time.Duration(random.IntN(3000))*time.Microsecond, ask)
		ask()
		d.wait()
		t.Logf("killed %s request %d", when, at)
		d = w.start()
		lives = append(lives, d)
		if kill%2 == 1 { // a third death would park the turns, which is told to the people but no answer
			c.askAll()
			w.waitAnswered(c)
		}
	}
	w.judgeAll(c, lives)
	w.resend(c)
	d.terminate()
	if code := d.wait(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	for _, v := range w.tg.Violations() {
		t.Errorf("against the Bot API's specification: %s", v)
	}
	if t.Failed() {
		t.Log(w.logTail())
	}
}

// TestKillShowing kills the program while previews are shown whose messages it
// knows: the next process puts the answers in their place.
func TestKillShowing(t *testing.T) {
	const people = 5
	var goOn atomic.Bool
	w := newRealWorld(t, bottest.Config{}, ollamatest.Config{Answer: func(r ollamatest.Request) ollamatest.Answer {
		if goOn.Load() || strings.HasPrefix(waitingTokens(r)[0], fmt.Sprintf("p%dq", people)) {
			return answerTokens(r)
		}
		return ollamatest.Answer{ollamatest.Text(answerBegin + " what"), ollamatest.Hang()}
	}})
	c := w.crowd(people + 1)
	d := w.start()
	for i := range people {
		c.ask(i)
	}
	w.wait("the previews", func() bool {
		return !slices.ContainsFunc(c.people[:people], func(p *bottest.Person) bool { return len(p.Chat().FromBot()) == 0 })
	})
	// Transactions are done in their order: when somebody else has been answered,
	// the previews' ids are stored.
	c.ask(people)
	w.wait("the other answer", func() bool { return c.answered(people) })
	d.kill()
	goOn.Store(true)
	w.start()
	w.waitAnswered(c)
	for i, p := range c.people[:people] {
		if s := c.state(i); len(s.answered) != 1 || len(p.Chat().FromBot()) != 1 {
			t.Errorf("the chat shows\n%s", seen(p.Chat()))
		}
	}
}

// resend presses all buttons that offer to send an answer again: then everybody
// has everything, and twice only what they asked for.
func (w *realWorld) resend(c *crowd) {
	w.Helper()
	pressed := make([][]string, len(c.people))
	for i, p := range c.people {
		for _, m := range c.state(i).notices {
			pressed[i] = append(pressed[i], p.Press(m, resendData(m)))
		}
	}
	w.wait("what was sent again", func() bool {
		for i := range c.people {
			if questions, _ := c.missing(i, c.state(i)); len(questions) > 0 {
				return false
			}
			for _, id := range pressed[i] {
				if press, _ := w.tg.Callback(id); !press.Answered {
					return false
				}
			}
		}
		return true
	})
	for i, p := range c.people {
		if _, doubled := c.state(i).doubled(); doubled > len(pressed[i]) {
			w.Errorf("%d buttons pressed, %d answers twice\n%s", len(pressed[i]), doubled, seen(p.Chat()))
		}
	}
}

// slowly answers some questions at once, some after a tool, and some word by word,
// so that there is a preview.
func slowly(r ollamatest.Request) ollamatest.Answer {
	open := waitingTokens(r)
	if len(open) == 0 {
		return ollamatest.Answer{ollamatest.Text("Nobody asked anything.")}
	}
	kind := len(open[0]) + int(open[0][len(open[0])-1])
	switch {
	case kind%3 == 0 && !slices.ContainsFunc(sinceAnswer(r), func(m ollamatest.Message) bool { return m.Role == "tool" }):
		return ollamatest.Answer{ollamatest.Call("calculator", `{"expression":"6*7"}`)}
	case kind%3 == 1:
		return append(ollamatest.Answer{ollamatest.Pace(20 * time.Millisecond)}, answerTokens(r)...)
	}
	return answerTokens(r)
}

// judgeAll judges what everybody has.
func (w *realWorld) judgeAll(c *crowd, lives []*child) {
	w.Helper()
	var notices, strays int
	for i := range c.people {
		s := c.state(i)
		w.judge(c, i, s, lives)
		notices += len(s.notices)
		strays += len(s.strays)
	}
	w.Logf("%d notices, %d previews left", notices, strays)
}

// judge asserts that a person was answered once and in order, and that what may
// be missing is said. lives are all processes; all but the last were killed.
func (w *realWorld) judge(c *crowd, person int, s chatState, lives []*child) {
	w.Helper()
	chat := c.people[person].Chat()
	bad := func(format string, args ...any) {
		w.Helper()
		w.Errorf("person %d: %s\n%s", person, fmt.Sprintf(format, args...), seen(chat))
	}
	if questions, _ := s.doubled(); questions > 0 {
		bad("%d questions are answered twice", questions)
	}
	if !slices.IsSortedFunc(s.answered, byQuestion) {
		bad("the order is not that of the questions: %v", s.answered)
	}
	if questions, answers := c.missing(person, s); answers > len(s.notices) {
		bad("%d notices, but without an answer: %v", len(s.notices), questions)
	}
	if len(s.notices) >= len(lives) {
		bad("%d notices after %d deaths", len(s.notices), len(lives)-1)
	}
	for _, m := range s.strays {
		if !strings.HasPrefix(answerBegin, m.Text) && !strings.HasPrefix(m.Text, answerBegin) {
			bad("not an answer: %q", m.Text)
		} else if !w.unavoidable(m, lives) {
			bad("a preview was left behind: %q", m.Text)
		}
	}
}

// unavoidable says that nobody can know of a preview: the process died before it
// learned the id, so what is done next in the chat is done by a later one.
func (w *realWorld) unavoidable(m bottest.Message, lives []*child) bool {
	calls := w.tg.Calls(bottest.InChat(m.Chat), func(c bottest.Call) bool { return c.Method != "sendChatAction" && c.Method != "setMessageReaction" })
	i := slices.IndexFunc(calls, func(c bottest.Call) bool { return c.Method == "sendMessage" && c.Message == m.ID })
	if i < 0 || i == len(calls)-1 {
		return false
	}
	greetings := w.tg.Calls(bottest.Method("getMe")) // at the start of each process
	return slices.ContainsFunc(lives[1:], func(l *child) bool {
		// What the dead one wrote into its connection may be read a little after its death.
		g := slices.IndexFunc(greetings, func(c bottest.Call) bool { return c.At.After(l.began) })
		return g >= 0 && calls[i].At.Before(greetings[g].At) && calls[i+1].At.After(l.began)
	})
}

func byQuestion(a, b string) int { return question(a) - question(b) }

func question(token string) (n int) {
	_, number, _ := strings.Cut(token, "q")
	_, _ = fmt.Sscan(number, &n) // the pattern says that it is a number
	return n
}

// TestTerminate stops the program as systemd and docker do (C109).
func TestTerminate(t *testing.T) {
	// once asserts that after the next start the question has one answer.
	once := func(t *testing.T, w *realWorld, c *crowd) {
		t.Helper()
		d := w.start()
		d.waitIdle() // before that, a signal may find no handler
		w.waitAnswered(c)
		d.terminate()
		if code := d.wait(); code != exitOK {
			t.Errorf("exit code %d", code)
		}
		if s := c.state(0); len(s.answered) != 1 || len(s.notices)+len(s.strays) > 0 {
			t.Errorf("the chat shows\n%s", seen(c.people[0].Chat()))
		}
		if n := w.tg.Pending(); n > 0 {
			t.Errorf("%d updates are not confirmed", n)
		}
	}
	// asking has a turn in the model call, and a long poll that only a signal ends.
	asking := func(t *testing.T, grace string, answer func(ollamatest.Request) ollamatest.Answer) (*realWorld, *crowd, *child) {
		w := newRealWorld(t, bottest.Config{}, ollamatest.Config{Answer: answer})
		w.env["SHUTDOWN_GRACE"] = grace
		c := w.crowd(1)
		d := w.start()
		d.waitIdle()
		c.ask(0)
		w.wait("the next long poll", func() bool { return w.tg.Polling() && w.tg.Pending() == 0 })
		w.waitModel("the model call", func(s ollamatest.State) bool { return s.Active > 0 })
		return w, c, d
	}

	t.Run("while it starts", func(t *testing.T) {
		w := newRealWorld(t, bottest.Config{}, ollamatest.Config{Answer: answerTokens})
		c := w.crowd(1)
		d := w.start()
		w.wait("the first call", func() bool { return len(w.tg.Calls()) > 0 })
		d.terminate()
		if code := d.wait(); code != exitOK {
			t.Errorf("exit code %d", code)
		}
		c.ask(0)
		once(t, w, c)
	})
	t.Run("the answer is finished", func(t *testing.T) {
		goOn := make(chan struct{})
		w, c, d := asking(t, "1m", func(r ollamatest.Request) ollamatest.Answer {
			return append(ollamatest.Answer{ollamatest.Text(answerBegin), ollamatest.Until(goOn), ollamatest.Tokens(" ")}, answerTokens(r)...)
		})
		w.wait("a preview", func() bool { return len(c.people[0].Chat().FromBot()) > 0 })
		d.terminate()
		w.wait("the end of polling", func() bool { return !w.tg.Polling() })
		close(goOn)
		if code := d.wait(); code != exitOK {
			t.Errorf("exit code %d", code)
		}
		if !c.answered(0) {
			t.Errorf("the turn was not finished: the chat shows\n%s", seen(c.people[0].Chat()))
		}
		once(t, w, c)
	})
	t.Run("the grace time passes", func(t *testing.T) {
		var goOn atomic.Bool
		w, c, d := asking(t, "100ms", func(r ollamatest.Request) ollamatest.Answer {
			if !goOn.Load() {
				return ollamatest.Answer{ollamatest.Text(answerBegin), ollamatest.Hang()}
			}
			return answerTokens(r)
		})
		w.wait("a preview", func() bool { return len(c.people[0].Chat().FromBot()) > 0 })
		d.terminate()
		if code := d.wait(); code != exitOK {
			t.Errorf("exit code %d", code)
		}
		goOn.Store(true)
		once(t, w, c)
	})
	t.Run("a second signal", func(t *testing.T) {
		var goOn atomic.Bool
		w, c, d := asking(t, "1h", func(r ollamatest.Request) ollamatest.Answer {
			if !goOn.Load() {
				return ollamatest.Answer{ollamatest.Hang()}
			}
			return answerTokens(r)
		})
		d.terminate()
		w.wait("the end of polling", func() bool { return !w.tg.Polling() })
		d.terminate()
		if code := d.wait(); code != exitFailure {
			t.Errorf("exit code %d", code)
		}
		goOn.Store(true)
		once(t, w, c)
	})
}
