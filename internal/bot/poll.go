package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agentd/internal/agent"
)

const (
	pollTimeout    = 50 * time.Second
	allowedUpdates = `["message","edited_message","channel_post","edited_channel_post","callback_query","message_reaction","my_chat_member"]`
)

// trouble is why polling does not work.
type trouble string

const (
	troubleConflict trouble = "conflict" // another poller or a webhook
	troubleFlood    trouble = "flood"    // 429
	troubleServer   trouble = "server"   // an answer that is none
	troubleNetwork  trouble = "network"
	troubleStore    trouble = "store" // what came cannot be stored
)

// poller takes updates from Telegram into the inbox. Asking for more is what
// confirms a batch, so it asks only when the batch is on disk.
type poller struct {
	api    *api
	inbox  Inbox
	me     *account
	ready  func(ctx context.Context) error // nil once it can be judged who may talk
	accept func(raw json.RawMessage, now time.Time) agent.Incoming
	delay  func(ctx context.Context, batch []agent.Incoming) // told of what cannot be stored now
	log    *slog.Logger

	last    atomic.Int64 // Unix ms of the end of the last finished getUpdates
	now     atomic.Pointer[trouble]
	offset  int64
	reports reports
}

// Poll takes updates until ctx ends, and then returns nil. The only error it
// gives up on wraps ErrUnauthorized.
func (b *Bot) Poll(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { b.me.ask(ctx, b.api, b.log) })
	return b.poller.run(ctx)
}

// LastPoll is when the last getUpdates that worked ended; zero before the first.
func (b *Bot) LastPoll() time.Time {
	if ms := b.poller.last.Load(); ms != 0 {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

// Trouble is why the bot hears nothing at present: "conflict" (another poller or
// a webhook), "flood", "server", "network", "store" (the disk); "" when it hears.
func (b *Bot) Trouble() string {
	if t := b.poller.now.Load(); t != nil {
		return string(*t)
	}
	return ""
}

func (p *poller) run(ctx context.Context) error {
	pause := backoff{first: 500 * time.Millisecond, most: 30 * time.Second}
	wait := time.Duration(0) // the first poll, and each after trouble, tells at once how things are
	stale := false           // the last batch held nothing new
	for {
		began := time.Now()
		updates, err := p.api.updates(ctx, p.offset, wait)
		if ctx.Err() != nil {
			return nil
		}
		fresh := 0
		if err == nil {
			p.last.Store(time.Now().UnixMilli())
			fresh, err = p.take(ctx, updates)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			if refused := (*APIError)(nil); errors.As(err, &refused) && (refused.Code == http.StatusUnauthorized || refused.Code == http.StatusNotFound) {
				// A token of the wrong form is answered "Not Found".
				return fmt.Errorf("%w (%d %s): get a valid one from @BotFather and set TELEGRAM_BOT_TOKEN", ErrUnauthorized, refused.Code, refused.Description)
			}
			wait = 0
			if !sleep(ctx, p.trouble(ctx, err, &pause)) {
				return nil
			}
			continue
		}
		if len(updates) == 0 {
			// All is confirmed. The next ids may be lower: Telegram begins anew at
			// random after a quiet week.
			p.offset = 0
		}
		p.recovered()
		pause.reset()
		// A server without long polls, or one that takes no offset, is not to be hammered.
		hurried := len(updates) == 0 && wait > 0 && time.Since(began) < time.Second
		repeats := len(updates) > 0 && fresh == 0
		if (hurried || repeats && stale) && !sleep(ctx, time.Second) {
			return nil
		}
		stale = repeats
		wait = pollTimeout
	}
}

// take stores a batch and gives how much of it was new; without an error the batch
// may be confirmed. While the store fails, Telegram is not asked for more.
func (p *poller) take(ctx context.Context, updates []json.RawMessage) (fresh int, err error) {
	if len(updates) == 0 {
		return 0, nil
	}
	select {
	case <-p.me.known: // who we are decides what is addressed to us
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	var batch []agent.Incoming
	var next int64
	pause := backoff{first: 500 * time.Millisecond, most: 30 * time.Second}
	for {
		err := p.ready(ctx)
		if err == nil && batch == nil {
			if batch, next = p.decode(updates); len(batch) == 0 { // asked again, they would come again at once
				return 0, &callError{method: "getUpdates", reached: true, err: errors.New("no update has an id")}
			}
		}
		if err == nil {
			fresh, err = p.inbox.Accept(ctx, batch)
		}
		if err == nil {
			p.offset = next
			return fresh, nil
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		p.now.Store(new(troubleStore))
		if p.reports.due(troubleStore, time.Hour) {
			p.log.Error("updates cannot be stored; Telegram keeps them and we try again", "updates", len(updates), "err", err)
			p.delay(ctx, batch)
		}
		if !sleep(ctx, pause.next()) {
			return 0, ctx.Err()
		}
	}
}

// decode makes rows of a batch, and gives the offset that confirms it. That is not
// above p.offset for sure: ids begin anew at random after a quiet week.
func (p *poller) decode(updates []json.RawMessage) (batch []agent.Incoming, next int64) {
	now := time.Now()
	batch = make([]agent.Incoming, 0, len(updates))
	for _, raw := range updates {
		var u struct {
			ID int64 `json:"update_id"`
		}
		if err := json.Unmarshal(raw, &u); err != nil || u.ID <= 0 || u.ID == math.MaxInt64 {
			p.log.Error("an update without an id is left out", "bytes", len(raw))
			continue
		}
		next = max(next, u.ID+1)
		batch = append(batch, p.accept(raw, now))
	}
	return batch, next
}

// mostTold bounds how many chats are told of a delay, one after the other.
const mostTold = 8

// delayed tells those who wrote that their messages cannot be stored now (C107),
// as far as it can.
func (b *Bot) delayed(ctx context.Context, batch []agent.Incoming) {
	told := map[agent.Address]bool{}
	for _, in := range batch {
		if in.Kind == agent.KindIgnored || in.Sender.Rights == agent.Stranger || told[in.Address] || len(told) == mostTold {
			continue
		}
		told[in.Address] = true
		if err := b.tell(ctx, in.Address, b.say.say(in.Lang, "delayed")); err != nil {
			b.log.Warn("a delay could not be told", "chat", in.Address.Chat, "err", err)
		}
	}
}

// trouble reports what went wrong and says how long to wait.
func (p *poller) trouble(ctx context.Context, err error, pause *backoff) time.Duration {
	kind, hint, again := troubleNetwork, "", 24*time.Hour
	delay := pause.next()
	refused, call := (*APIError)(nil), (*callError)(nil)
	switch {
	case errors.As(err, &refused) && refused.Code == http.StatusConflict:
		kind, again = troubleConflict, time.Minute
		delay = max(delay, time.Second)
		hint = "another process polls with this token; stop it, or get a new token from @BotFather"
		if strings.Contains(refused.Description, "webhook") {
			hint = "a webhook was set for this token; it is being removed"
			// Without drop_pending_updates: what waits is answered (C034).
			if err := p.api.call(ctx, "deleteWebhook", nil, nil); err != nil {
				hint = "a webhook is set for this token, and removing it failed: " + err.Error()
			}
		}
	case errors.As(err, &refused) && refused.Code == http.StatusTooManyRequests:
		kind = troubleFlood
		delay = max(delay, refused.RetryAfter)
	case errors.As(err, &refused) || errors.As(err, &call) && call.reached:
		kind = troubleServer
	}
	p.now.Store(&kind)
	if p.reports.due(kind, again) {
		args := []any{"trouble", kind, "retry_in", delay.Round(time.Millisecond), "err", err}
		if hint != "" {
			args = append(args, "hint", hint)
		}
		p.log.Warn("polling Telegram does not work", args...)
	}
	return delay
}

func (p *poller) recovered() {
	p.now.Store(nil)
	if since, ok := p.reports.reset(); ok {
		p.log.Info("polling Telegram works again", "after", time.Since(since).Round(time.Second))
	}
}

// reports keeps a lasting trouble from filling the log: one line for each kind,
// and again after a while.
type reports struct {
	since time.Time
	last  map[trouble]time.Time
}

func (r *reports) due(kind trouble, again time.Duration) bool {
	now := time.Now()
	if r.last == nil {
		r.last, r.since = map[trouble]time.Time{}, now
	}
	if at, seen := r.last[kind]; seen && now.Sub(at) < again {
		return false
	}
	r.last[kind] = now
	return true
}

// reset forgets; false when there was nothing.
func (r *reports) reset() (since time.Time, ok bool) {
	ok, since = r.last != nil, r.since
	r.last = nil
	return since, ok
}

// backoff gives pauses that double from first to most, each up to a quarter
// longer, so that many do not come back at the same moment.
type backoff struct {
	first, most time.Duration
	pause       time.Duration
}

func (b *backoff) next() time.Duration {
	b.pause = min(max(2*b.pause, b.first), b.most)
	return b.pause + rand.N(b.pause/4+1)
}

func (b *backoff) reset() { b.pause = 0 }

// sleep waits; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
