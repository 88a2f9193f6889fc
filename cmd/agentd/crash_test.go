package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

// death lets a daemon die at its at-th step, counting from 1: before the step
// takes effect, or after it took effect and before the daemon learns of it.
// Steps are the transactions of the store and the calls to Telegram and Ollama.
// From then on nothing that the daemon does has an effect.
type death struct {
	at    int
	after bool
	kill  func()

	mu    sync.Mutex
	steps int
	dead  bool
	where string // the step it died at
}

var errDead = errors.New("the process is dead")

// step counts a step and tells whether it may take effect, and whether the daemon dies right after it.
func (d *death) step(name string) (allowed, last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return false, false
	}
	d.steps++
	if d.steps != d.at {
		return true, false
	}
	d.where = name
	if !d.after {
		d.die()
		return false, false
	}
	return true, true
}

func (d *death) die() {
	d.dead = true
	d.kill()
}

func (d *death) finish() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.die()
}

// probe is sqlite.Config.Probe. Writers queue for one connection, so the two calls of one
// transaction are matched by name.
func (d *death) probe(verb string, committed bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return errDead
	}
	if !committed {
		d.steps++
		if d.steps == d.at && !d.after {
			d.where = verb
			d.die()
			return errDead
		}
		if d.steps == d.at {
			d.where = verb
		}
		return nil
	}
	if d.after && d.where == verb {
		d.die()
		return errDead
	}
	return nil
}

// wrapTelegram is bot.Config.Wrap.
func (d *death) wrapTelegram(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		method := path.Base(r.URL.Path)
		if method == "getUpdates" && d.steps > 0 && d.at == 0 {
			return next.RoundTrip(r)
		}
		allowed, last := d.step(method)
		if !allowed {
			return nil, errDead
		}
		resp, err := next.RoundTrip(r)
		if err == nil && last {
			_, _ = io.Copy(io.Discard, resp.Body) // Telegram has answered in full
			resp.Body.Close()
			d.finish()
			return nil, errDead
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering wraps the model's script: asking it is a step too.
func (d *death) answering(next func(ollamatest.Request) ollamatest.Answer) func(ollamatest.Request) ollamatest.Answer {
	return func(r ollamatest.Request) ollamatest.Answer {
		allowed, last := d.step("chat")
		if !allowed {
			return ollamatest.Answer{ollamatest.Cut()}
		}
		if last {
			d.finish()
		}
		return next(r)
	}
}

// outcome is what a person has after a crash, in words that the test judges.
type outcome struct {
	answers map[string]int // how often each text of the bot is there
	notices int            // lines that say that a message may be missing
}

func outcomeOf(c bottest.Chat) outcome {
	o := outcome{answers: map[string]int{}}
	for _, m := range c.FromBot() {
		if len(m.Buttons) > 0 && strings.HasPrefix(m.Buttons[0][0].Data, "resend:") {
			o.notices++
			continue
		}
		o.answers[m.Text]++
	}
	return o
}

// TestCrashMatrix kills each transcript at every step, twice, restarts on the
// same data, and asserts what a person sees (design, convention 11).
func TestCrashMatrix(t *testing.T) {
	for _, tr := range transcripts(t) {
		t.Run(tr.name(), func(t *testing.T) {
			t.Parallel()
			var want outcome
			var steps int
			synctest.Test(t, func(t *testing.T) {
				d := &death{kill: func() {}}
				w := tr.dyingWorld(t, d)
				p := w.start(d)
				pass(time.Second)
				tr.play(t, w)
				pass(settle)
				p.stop()
				want, steps = outcomeOf(w.tg.Chat(ann)), d.steps
			})
			if len(want.answers) == 0 {
				t.Fatal("nothing was answered without a crash")
			}
			for at := 1; at <= steps; at++ {
				for _, after := range []bool{false, true} {
					tr.crash(t, want, at, after)
				}
			}
		})
	}
}

func (tr transcript) dyingWorld(t *testing.T, d *death) *world {
	w := tr.world(t)
	var rules []rule
	for _, line := range tr.lines("model") {
		key, answer, _ := strings.Cut(line, " => ")
		rules = append(rules, rule{key, parseAnswer(t, answer)})
	}
	w.llm.Script(d.answering(script(rules...)))
	return w
}

func (tr transcript) crash(t *testing.T, want outcome, at int, after bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &death{at: at, after: after}
		w := tr.dyingWorld(t, d)
		first := w.start(d)
		pass(time.Second)
		tr.play(t, w)
		pass(settle)
		d.finish()
		first.wait()
		*d = death{kill: func() {}} // the next process lives
		second := w.start(nil)
		pass(settle)
		second.stop()

		got := outcomeOf(w.tg.Chat(ann))
		when := fmt.Sprintf("died %s step %d (%s)", map[bool]string{false: "before", true: "after"}[after], at, d.where)
		missing := 0
		for text, n := range want.answers {
			switch {
			case got.answers[text] > n:
				t.Errorf("%s: %d times %q", when, got.answers[text], text)
			case got.answers[text] < n:
				missing += n - got.answers[text]
			}
		}
		if missing > got.notices {
			t.Errorf("%s: %d answers are missing, %d notices\n%s", when, missing, got.notices, seen(w.tg.Chat(ann)))
		}
		if got.notices > 1 {
			t.Errorf("%s: %d notices", when, got.notices)
		}
		for text := range got.answers {
			if want.answers[text] == 0 {
				t.Errorf("%s: left behind: %q", when, text)
			}
		}
		if t.Failed() {
			t.Log(first.log.String(), "----\n", second.log.String())
		}
	})
}
