package bot

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Rates are Telegram's flood limits, as much of them as we use. Edits count
// like messages. 0 turns a limit off, for local servers.
// https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this
type Rates struct {
	All   float64 // messages a second in all chats together; Telegram's limit is about 30
	Chat  float64 // messages a second in one private chat, after a burst of 3; about 1
	Group float64 // messages a minute in one group; 20
}

const (
	chatBurst     = 3
	groupReserve  = 5               // slots of a group's minute that previews leave to answers
	previewPace   = time.Second     // between the previews of a private chat
	groupPace     = 6 * time.Second // and of a group
	refusedChats  = 3               // so many chats refused within a second: the limit of all chats is meant
	penaltyForAll = 30 * time.Second
	idlePaces     = 256 // chats kept before idle ones are looked for
)

// gate is the one flood gate: answers wait at it, previews try it. A place
// counts from when the gate gives it.
type gate struct {
	rates Rates

	mu      sync.Mutex
	all     window
	penalty time.Time           // for all chats
	refused map[int64]time.Time // chats that met a 429 lately
	chats   map[int64]*pace
	sweepAt int       // len(chats) at which idle ones are dropped
	queue   []*waiter // in the order of their coming
	timer   *time.Timer
}

// pace is what one chat has used up.
type pace struct {
	tokens  float64 // private chats: a bucket of chatBurst …
	filled  time.Time
	minute  window // … and groups
	penalty time.Time
	preview time.Time // the last one
	waiting int       // in the queue
}

type waiter struct {
	chat int64
	pace *pace
	open chan struct{} // closed when the place is given
}

func newGate(rates Rates) *gate {
	g := &gate{rates: rates, all: newWindow(rates.All, time.Second), refused: map[int64]time.Time{}, chats: map[int64]*pace{}, sweepAt: idlePaces}
	g.timer = time.AfterFunc(time.Hour, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.dispatch(time.Now())
	})
	g.timer.Stop()
	return g
}

// wait returns when an answer may go to the chat. Who then finds nothing to
// send calls giveBack.
func (g *gate) wait(ctx context.Context, chat int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	now := time.Now()
	p := g.pace(chat, now)
	if p.waiting == 0 && !g.ready(chat, p).After(now) {
		g.take(chat, p, now)
		g.mu.Unlock()
		return nil
	}
	w := &waiter{chat, p, make(chan struct{})}
	p.waiting++
	g.queue = append(g.queue, w)
	g.dispatch(now)
	g.mu.Unlock()

	select {
	case <-w.open:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.queue, w); i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
		p.waiting--
	} else { // the place came at the same moment
		g.restore(chat)
	}
	return ctx.Err()
}

// giveBack returns a place that wait gave and nobody used.
func (g *gate) giveBack(chat int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.restore(chat)
}

// try takes a preview's place, if there is one at this moment: never in a
// penalty, never before a waiting answer, at most once a second in a private
// chat and once in 6 s in a group, and always leaving room for answers.
func (g *gate) try(chat int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	p := g.pace(chat, now)
	every := previewPace
	if chat < 0 {
		every = groupPace
	}
	switch {
	case p.waiting > 0 || g.ready(chat, p).After(now) || now.Before(p.preview.Add(every)):
		return false
	case g.rates.All >= 3 && g.all.used(now) >= g.all.size*2/3:
		return false
	case chat > 0 && g.rates.Chat > 0 && p.tokens < 2:
		return false
	case chat < 0 && g.rates.Group > 0 && p.minute.used(now) >= p.minute.size-groupReserve:
		return false
	}
	g.take(chat, p, now)
	p.preview = now
	return true
}

// penalized says that Telegram forbade sending to the chat for a while.
func (g *gate) penalized(chat int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	p, known := g.chats[chat]
	return g.penalty.After(now) || known && p.penalty.After(now)
}

// block closes the gate of a chat after a 429. Telegram does not say whether it
// meant the chat or all of them: when several chats are refused at once, all
// pause, but never for longer than 30 s, since one chat's penalty may last
// hours (C012).
func (g *gate) block(chat int64, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	p := g.pace(chat, now)
	p.penalty = later(p.penalty, until)
	for c, at := range g.refused {
		if now.Sub(at) > time.Second {
			delete(g.refused, c)
		}
	}
	g.refused[chat] = now
	if len(g.refused) >= refusedChats {
		end := now.Add(penaltyForAll)
		if until.Before(end) {
			end = until
		}
		g.penalty = later(g.penalty, end)
	}
}

// dispatch gives places to those in the queue who may go now, in the order of
// their coming, and sets the timer to when the next one may.
func (g *gate) dispatch(now time.Time) {
	var next time.Time
	g.queue = slices.DeleteFunc(g.queue, func(w *waiter) bool {
		at := g.ready(w.chat, g.pace(w.chat, now))
		if at.After(now) {
			if next.IsZero() || at.Before(next) {
				next = at
			}
			return false
		}
		g.take(w.chat, w.pace, now)
		w.pace.waiting--
		close(w.open)
		return true
	})
	g.timer.Stop()
	if !next.IsZero() {
		g.timer.Reset(next.Sub(now))
	}
}

// ready says from when the chat may be sent a message.
func (g *gate) ready(chat int64, p *pace) time.Time {
	at := later(later(g.penalty, p.penalty), g.all.ready())
	switch {
	case chat < 0:
		at = later(at, p.minute.ready())
	case g.rates.Chat > 0 && p.tokens < 1-1e-6: // sums of fractions fall short of a whole
		at = later(at, p.filled.Add(time.Duration((1-p.tokens)/g.rates.Chat*float64(time.Second))))
	}
	return at
}

func (g *gate) take(chat int64, p *pace, now time.Time) {
	g.all.add(now)
	if chat < 0 {
		p.minute.add(now)
	} else {
		p.tokens--
	}
}

func (g *gate) restore(chat int64) {
	now := time.Now()
	p := g.pace(chat, now)
	g.all.drop()
	if chat < 0 {
		p.minute.drop()
	} else {
		p.tokens = min(chatBurst, p.tokens+1)
	}
	g.dispatch(now)
}

// pace gives a chat's state as of now, dropping that of idle chats now and then.
func (g *gate) pace(chat int64, now time.Time) *pace {
	p := g.chats[chat]
	if p == nil {
		if len(g.chats) >= g.sweepAt {
			for c, p := range g.chats {
				if g.idle(p, now) {
					delete(g.chats, c)
				}
			}
			g.sweepAt = max(idlePaces, 2*len(g.chats))
		}
		p = &pace{tokens: chatBurst, filled: now, minute: newWindow(g.rates.Group, time.Minute)}
		g.chats[chat] = p
	}
	if g.rates.Chat > 0 {
		p.tokens = min(chatBurst, p.tokens+now.Sub(p.filled).Seconds()*g.rates.Chat)
	} else {
		p.tokens = chatBurst
	}
	p.filled = now
	return p
}

func (g *gate) idle(p *pace, now time.Time) bool {
	full := g.rates.Chat == 0 || p.tokens+now.Sub(p.filled).Seconds()*g.rates.Chat >= chatBurst
	return full && p.waiting == 0 && now.After(p.penalty) && now.Sub(p.preview) > groupPace && p.minute.used(now) == 0
}

// window allows size events in any stretch of span; size 0 allows all. Places
// are counted, not tokens, so a burst is never followed by another at once.
type window struct {
	span time.Duration
	size int
	at   []time.Time // of the last events, oldest first
}

// newWindow allows n events in a stretch of per, which is taken a twentieth
// longer: two calls may arrive closer together than they were sent.
func newWindow(n float64, per time.Duration) window {
	if n <= 0 {
		return window{}
	}
	if n < 1 {
		n, per = 1, time.Duration(float64(per)/n)
	}
	return window{span: per + per/20, size: int(n)}
}

func (w *window) ready() time.Time {
	if w.size == 0 || len(w.at) < w.size {
		return time.Time{}
	}
	return w.at[len(w.at)-w.size].Add(w.span)
}

func (w *window) used(now time.Time) int {
	n := 0
	for _, at := range w.at {
		if now.Sub(at) < w.span {
			n++
		}
	}
	return n
}

func (w *window) add(now time.Time) {
	if w.size == 0 {
		return
	}
	if len(w.at) == w.size {
		w.at = slices.Delete(w.at, 0, 1)
	}
	w.at = append(w.at, now)
}

func (w *window) drop() {
	if n := len(w.at); n > 0 {
		w.at = w.at[:n-1]
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
