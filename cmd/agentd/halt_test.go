package main

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/bot/bottest"
)

// halt tells a daemon to stop at its at-th step, counting from 1. Steps are the
// transactions of the store and the calls to Telegram, before and after.
type halt struct {
	at   int
	stop func()

	mu    sync.Mutex
	steps int
}

func (h *halt) step() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.steps++; h.steps == h.at {
		h.stop()
	}
}

// watch sets what is told to stop, and at which step: 0 never.
func (h *halt) watch(at int, stop func()) (steps int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at, h.stop = at, stop
	return h.steps
}

// TestHaltMatrix tells each of some transcripts to stop at every step, as SIGTERM
// does (C109), and starts it again on the same data. It ends in order and in time;
// nothing is lost, doubled, or left in doubt, and the person need not be asked.
func TestHaltMatrix(t *testing.T) {
	chosen := []string{"delegate", "effect", "long", "stop"}
	for _, tr := range transcripts(t) {
		if !slices.Contains(chosen, tr.name()) {
			continue
		}
		t.Run(tr.name(), func(t *testing.T) {
			t.Parallel()
			var want []expectation // as without a stop
			for at, steps := 0, 1; at <= steps; at++ {
				synctest.Test(t, func(t *testing.T) {
					h := &halt{}
					w := tr.world(t)
					w.env["SHUTDOWN_GRACE"] = "1s"
					w.probe = func(string, bool) error { h.step(); return nil }
					w.wrapTelegram = func(next http.RoundTripper) http.RoundTripper {
						return roundTripper(func(r *http.Request) (*http.Response, error) {
							h.step()
							defer h.step()
							return next.RoundTrip(r)
						})
					}
					first := w.start(nil)
					h.watch(at, first.cancel)
					var stopped time.Duration
					ended := make(chan int, 1)
					go func() {
						<-first.ctx.Done()
						began := time.Now()
						code := <-first.code
						stopped = time.Since(began)
						ended <- code
					}()
					pass(time.Second)
					tr.play(t, w)
					pass(settle)
					first.cancel()
					if code := <-ended; code != exitOK || stopped > 10*time.Second {
						t.Errorf("stopped at step %d: exit code %d after %v", at, code, stopped)
					}
					if done := h.watch(0, nil); at == 0 {
						if steps, want = done, tr.expectations(t, w.tg.Chat(ann)); len(want) == 0 {
							t.Fatal("nothing was answered")
						}
					}
					w.running(t, func() { pass(settle) })
					for _, fault := range judge(want, w.tg.Chat(ann), false) {
						t.Errorf("stopped at step %d: %s\n%s", at, fault, seen(w.tg.Chat(ann)))
					}
					for _, m := range w.tg.Chat(ann).FromBot() {
						if slices.ContainsFunc(m.Buttons, func(row []bottest.Button) bool { return row[0].Text == "Send again" }) {
							t.Errorf("stopped at step %d: something is in doubt\n%s", at, seen(w.tg.Chat(ann)))
						}
					}
					if t.Failed() {
						t.Log(w.logs[0].String(), "----\n", w.logs[1].String())
					}
				})
				if t.Failed() {
					break
				}
			}
		})
	}
}
