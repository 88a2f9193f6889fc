package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
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
		allowed, last := d.step(path.Base(r.URL.Path))
		if !allowed {
			return nil, errDead
		}
		resp, err := next.RoundTrip(r)
		if err == nil && last {
			_, _ = io.Copy(io.Discard, resp.Body) // Telegram has answered in full
			d.finish()
			return nil, errors.Join(errDead, resp.Body.Close())
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

// expectation says how many messages of the bot have a text.
type expectation struct {
	text     string
	min, max int
}

// expectations are those of the transcript, else that everything is said as
// often as without a crash.
func (tr transcript) expectations(t *testing.T, c bottest.Chat) (out []expectation) {
	t.Helper()
	for _, line := range tr.lines("crash") {
		var e expectation
		bounds, text, _ := strings.Cut(line, " ")
		if _, err := fmt.Sscanf(bounds, "%d..%d", &e.min, &e.max); err != nil {
			t.Fatalf("crash: %q: %v", line, err)
		}
		e.text = text
		out = append(out, e)
	}
	if out != nil {
		return out
	}
	count := map[string]int{}
	for _, m := range c.FromBot() {
		count[m.Text]++
	}
	for text, n := range count {
		out = append(out, expectation{text, n, n})
	}
	return out
}

// judge compares what a person sees with what is expected. A line with a Resend
// button stands for one answer that may be missing. With leftover, one message
// may be a preview that nothing could take away: the beginning of another.
func judge(want []expectation, c bottest.Chat, leftover bool) (faults []string) {
	notices, missing := 0, 0
	got := make([]int, len(want))
	messages := c.FromBot()
	if leftover {
		messages = withoutPreview(messages)
		leftover = len(messages) == len(c.FromBot())
	}
	for _, m := range messages {
		if len(m.Buttons) > 0 && strings.HasPrefix(m.Buttons[0][0].Data, "resend:") {
			notices++
			continue
		}
		known := false
		for i, e := range want {
			if strings.Contains(m.Text, e.text) {
				got[i]++
				known = true
			}
		}
		if !known && leftover { // of a turn that was stopped
			leftover = false
		} else if !known {
			faults = append(faults, fmt.Sprintf("left behind: %q", m.Text))
		}
	}
	for i, e := range want {
		if got[i] > e.max {
			faults = append(faults, fmt.Sprintf("%d times %q", got[i], e.text))
		}
		missing += max(0, e.min-got[i])
	}
	if missing > 0 && notices == 0 {
		faults = append(faults, fmt.Sprintf("%d answers are missing and nobody says so", missing))
	}
	if notices > 1 {
		faults = append(faults, fmt.Sprintf("%d notices", notices))
	}
	return faults
}

// withoutPreview leaves the first message out that is the beginning of a later one.
func withoutPreview(messages []bottest.Message) []bottest.Message {
	for i, m := range messages {
		for _, later := range messages[i+1:] {
			if m.Text != later.Text && strings.HasPrefix(later.Text, m.Text) {
				return slices.Delete(messages, i, i+1)
			}
		}
	}
	return messages
}

// TestCrashMatrix kills each transcript at every step, twice, restarts on the
// same data, and asserts what a person sees (design, convention 11).
func TestCrashMatrix(t *testing.T) {
	for _, tr := range transcripts(t) {
		t.Run(tr.name(), func(t *testing.T) {
			t.Parallel()
			var want []expectation
			var steps int
			synctest.Test(t, func(t *testing.T) {
				d := &death{kill: func() {}}
				w := tr.dyingWorld(t, d)
				p := w.start(d)
				pass(time.Second)
				tr.play(t, w)
				pass(settle)
				p.stop()
				want, steps = tr.expectations(t, w.tg.Chat(ann)), d.steps
				for _, fault := range judge(want, w.tg.Chat(ann), false) {
					t.Errorf("without a crash: %s\n%s", fault, seen(w.tg.Chat(ann)))
				}
			})
			if len(want) == 0 {
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
	w.llm.Script(d.answering(script(tr.rules(t)...)))
	return w
}

func (tr transcript) crash(t *testing.T, want []expectation, at int, after bool) {
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
		when := fmt.Sprintf("died %s step %d (%s)", map[bool]string{false: "before", true: "after"}[after], at, d.where)
		// Telegram had accepted a first preview and we did not learn its id: nothing can
		// take it away.
		leftover := after && d.where == "sendMessage" || !after && d.where == "SettlePreview"
		*d = death{kill: func() {}} // the next process lives
		second := w.start(nil)
		pass(settle)
		second.stop()

		if notes, _ := os.ReadFile(filepath.Join(w.dir, "notes")); strings.Count(string(notes), "\n") > 1 {
			t.Errorf("%s: the side effect happened twice:\n%s", when, notes)
		}
		for _, fault := range judge(want, w.tg.Chat(ann), leftover) {
			t.Errorf("%s: %s\n%s", when, fault, seen(w.tg.Chat(ann)))
		}
		if t.Failed() {
			t.Log(first.log.String(), "----\n", second.log.String())
		}
	})
}
