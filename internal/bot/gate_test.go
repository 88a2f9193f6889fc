package bot

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// gateBench is a gate and who waits at it.
type gateBench struct {
	*gate
	t       *testing.T
	ctx     context.Context
	began   time.Time
	wg      sync.WaitGroup
	mu      sync.Mutex
	granted map[int64][]time.Duration
	served  int
}

func withGate(t *testing.T, rates Rates, test func(b *gateBench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := &gateBench{gate: newGate(rates), t: t, ctx: ctx, began: time.Now(), granted: map[int64][]time.Duration{}}
		test(b)
		cancel()
		b.wg.Wait()
		if len(b.queue) != 0 {
			t.Errorf("%d wait still", len(b.queue))
		}
	})
}

// answers lets n answers wait for a chat, one after the other, as a lane does.
func (b *gateBench) answers(chat int64, n int) {
	b.wg.Go(func() {
		for range n {
			if b.wait(b.ctx, chat) != nil {
				return
			}
			b.mu.Lock()
			b.granted[chat] = append(b.granted[chat], time.Since(b.began))
			b.served++
			b.mu.Unlock()
		}
	})
}

func (b *gateBench) pass(d time.Duration) {
	sleep(b.ctx, d)
	synctest.Wait()
}

func (b *gateBench) times(chat int64) []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.granted[chat])
}

func TestGatePrivateChat(t *testing.T) {
	withGate(t, Rates{Chat: 1}, func(b *gateBench) {
		b.answers(ann, 6)
		b.pass(time.Minute)
		for i, at := range b.times(ann) {
			if want := time.Duration(max(0, i-2)) * time.Second; at < want || at > want+time.Millisecond {
				t.Errorf("answer %d at %v, want %v", i, at, want)
			}
		}
	})
}

// No stretch of a minute holds more than 20 messages to a group, edits included.
func TestGateGroup(t *testing.T) {
	withGate(t, Rates{Group: 20}, func(b *gateBench) {
		previews := 0
		for range 100 { // 10 s of a streaming answer
			if b.try(group) {
				previews++
			}
			b.pass(100 * time.Millisecond)
		}
		if previews != 2 {
			t.Errorf("%d previews in 10 s", previews)
		}
		b.answers(group, 40)
		b.pass(3 * time.Minute)
		times := b.times(group)
		if len(times) != 40 || times[17] > 10*time.Second+time.Millisecond || times[18] < time.Minute {
			t.Errorf("answers at %v", times)
		}
		for i := range len(times) - 20 {
			if d := times[i+20] - times[i]; d < time.Minute {
				t.Errorf("21 messages in %v", d)
			}
		}
	})
}

// Previews leave the last five places of a group's minute to answers.
func TestGateGroupReserve(t *testing.T) {
	withGate(t, Rates{Group: 20}, func(b *gateBench) {
		b.answers(group, 15)
		b.pass(0)
		if b.try(group) {
			t.Error("a preview took an answer's place")
		}
		b.answers(group, 5)
		b.pass(0)
		if n := len(b.times(group)); n != 20 {
			t.Errorf("%d answers", n)
		}
	})
}

// All chats together: no second holds more than 30, and nobody is passed over.
func TestGateAll(t *testing.T) {
	withGate(t, Rates{All: 30, Chat: 1, Group: 20}, func(b *gateBench) {
		for chat := range int64(300) {
			b.answers(chat+1, 1)
			synctest.Wait()
		}
		b.pass(0)
		if b.served != 30 {
			t.Errorf("%d at once", b.served)
		}
		if b.try(ann) {
			t.Error("a preview went before waiting answers")
		}
		b.pass(11 * time.Second)
		last := time.Duration(0)
		for chat := range int64(300) {
			times := b.times(chat + 1)
			if len(times) != 1 || times[0] < last {
				t.Fatalf("chat %d was served at %v, the one before at %v", chat+1, times, last)
			}
			last = times[0]
		}
	})
}

// A place that is given back goes to the next one at once.
func TestGateGiveBack(t *testing.T) {
	for name, test := range map[string]struct {
		rates Rates
		chat  int64
	}{"all": {Rates{All: 1}, ann}, "group": {Rates{Group: 1}, group}, "private": {Rates{Chat: 1}, ann}} {
		t.Run(name, func(t *testing.T) {
			withGate(t, test.rates, func(b *gateBench) {
				burst := 1
				if test.rates.Chat > 0 {
					burst = chatBurst
				}
				b.answers(test.chat, burst)
				b.pass(0)
				b.answers(test.chat, 1)
				b.pass(time.Millisecond)
				if n := len(b.times(test.chat)); n != burst {
					t.Fatalf("%d places", n)
				}
				b.giveBack(test.chat)
				b.pass(0)
				if n := len(b.times(test.chat)); n != burst+1 {
					t.Errorf("%d places after one was given back", n)
				}
			})
		})
	}
}

func TestGatePreviews(t *testing.T) {
	withGate(t, Rates{All: 30, Chat: 1, Group: 20}, func(b *gateBench) {
		shown := 0
		for range 600 {
			if b.try(ann) {
				shown++
			}
			b.pass(100 * time.Millisecond)
		}
		if shown != 60 {
			t.Errorf("%d previews in a minute", shown)
		}
		b.answers(ann, 1) // finds its place free
		b.pass(0)
		if n := len(b.times(ann)); n != 1 {
			t.Error("the answer had to wait for the previews")
		}
	})
}

func TestGatePenalty(t *testing.T) {
	withGate(t, Rates{All: 30, Chat: 1, Group: 20}, func(b *gateBench) {
		b.block(ann, time.Now().Add(time.Hour))
		b.block(ann, time.Now().Add(time.Second)) // a shorter one changes nothing
		b.answers(ann, 1)
		b.answers(bob, 1)
		b.pass(time.Hour - time.Second)
		if b.try(ann) || !b.penalized(ann) || b.penalized(bob) || len(b.times(ann)) != 0 || len(b.times(bob)) != 1 {
			t.Errorf("in the penalty: ann %v, bob %v", b.times(ann), b.times(bob))
		}
		b.pass(time.Second)
		if b.penalized(ann) || len(b.times(ann)) != 1 {
			t.Errorf("after the penalty: %v", b.times(ann))
		}
	})
}

// Several chats refused at once mean all; but hours are one chat's own affair.
func TestGatePenaltyForAll(t *testing.T) {
	withGate(t, Rates{}, func(b *gateBench) {
		for chat := range int64(3) {
			b.block(chat+1, time.Now().Add(10*time.Hour))
		}
		b.answers(ann, 1)
		b.pass(29 * time.Second)
		if !b.penalized(ann) || len(b.times(ann)) != 0 {
			t.Error("the others go on")
		}
		b.pass(2 * time.Second)
		if len(b.times(ann)) != 1 || b.try(1) {
			t.Errorf("ann %v, try(1) %v", b.times(ann), b.try(1))
		}
	})
}

func TestGateEndsWithContext(t *testing.T) {
	withGate(t, Rates{Chat: 1}, func(b *gateBench) {
		b.block(ann, time.Now().Add(time.Hour))
		ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
		defer cancel()
		if err := b.wait(ctx, ann); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: %v", err)
		}
		if err := b.wait(ctx, bob); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait with an ended context: %v", err)
		}
	})
}

// What is kept of chats that are silent again is dropped.
func TestGateForgets(t *testing.T) {
	withGate(t, Rates{All: 30, Chat: 1, Group: 20}, func(b *gateBench) {
		for chat := range int64(10 * idlePaces) {
			if chat%7 == 0 {
				b.block(chat+1, time.Now().Add(time.Second))
			} else {
				b.try(chat%2*2*chat - chat)
			}
			b.pass(time.Second)
		}
		if n := len(b.chats); n > idlePaces {
			t.Errorf("%d chats are kept", n)
		}
	})
}

// Gates that are off cost nothing and stop nobody.
func TestGateOff(t *testing.T) {
	withGate(t, Rates{}, func(b *gateBench) {
		b.answers(ann, 1000)
		b.answers(group, 1000)
		b.pass(0)
		if len(b.times(ann)) != 1000 || len(b.times(group)) != 1000 {
			t.Error("somebody waits")
		}
	})
}

func BenchmarkGate(b *testing.B) {
	g := newGate(Rates{})
	b.ReportAllocs()
	for b.Loop() {
		if err := g.wait(b.Context(), ann); err != nil {
			b.Fatal(err)
		}
	}
}
