package bot

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"agentd/internal/agent"
	"agentd/internal/bot/markdown"
)

const (
	holdBack       = 30 * time.Millisecond  // for the end of the answer: a short one is one message and one call
	gateRetry      = 250 * time.Millisecond // when the gate has no place for a preview
	previewTimeout = 10 * time.Second       // of one call
	previewSource  = 16 << 10               // bytes of an answer that are rendered: about as much as one message shows
)

// Progress shows a turn while it runs: that the bot types, and the answer as it
// grows. Its methods may be called from any goroutine.
type Progress struct {
	bot  *Bot
	turn agent.Turn
	end  context.CancelFunc
	run  sync.WaitGroup

	fresh   chan struct{} // something is in the fields below
	mu      sync.Mutex
	text    strings.Builder // came since it was last looked at
	restart bool            // what came before text is void

	preview *agent.Preview // with a known id; owned by show until it has ended
}

// Follow begins to show a turn. ctx is the turn's; Close must be called.
func (b *Bot) Follow(ctx context.Context, turn agent.Turn) *Progress {
	ctx, end := context.WithCancel(ctx)
	p := &Progress{bot: b, turn: turn, end: end, fresh: make(chan struct{}, 1)}
	if turn.Preview != nil && turn.Preview.Message != 0 {
		p.preview = new(*turn.Preview)
	}
	p.run.Go(func() { b.typing(ctx, turn.Address) })
	p.run.Go(func() { p.show(ctx) })
	return p
}

// Watch takes a piece of the answer as it streams. It never waits for Telegram.
func (p *Progress) Watch(d agent.Delta) {
	if d.Text == "" && !d.Restart {
		return
	}
	p.mu.Lock()
	if d.Restart {
		p.text.Reset()
		p.restart = true
	}
	p.text.WriteString(d.Text)
	p.mu.Unlock()
	select {
	case p.fresh <- struct{}{}:
	default:
	}
}

// Answer ends the showing and gives what is to be stored with the turn's end: the
// answer (under the key "turn:<id>") and, if it does not take the preview's place,
// the preview's removal. Faults are explained as the text, or in a note under it.
// It waits for a preview that is on its way, 10 s at most: only then is it known
// what the answer may edit.
func (p *Progress) Answer(_ context.Context, text string, faults ...*agent.Fault) []agent.Post {
	p.Close()
	return p.bot.compose(p.turn, p.preview, text, faults)
}

// Close ends the showing: when it returns, nothing more is sent. A preview on its
// way is waited for, as in Answer. Closing again does nothing.
func (p *Progress) Close() {
	p.end()
	p.run.Wait()
}

// show keeps the preview up to date until ctx ends, or no preview is possible any
// more.
func (p *Progress) show(ctx context.Context) {
	f := newFilter(p.bot.secrets())
	every := previewPace
	if p.turn.Address.Chat < 0 {
		every = groupPace
	}
	var next time.Time // not before
	var on string      // what the preview shows
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.fresh:
		}
		if f = p.take(f); f.shown() == "" {
			continue
		}
		if next.IsZero() {
			next = time.Now().Add(holdBack)
		}
		for { // until the preview shows what there is
			if !sleep(ctx, time.Until(next)) || ctx.Err() != nil { // both may have come
				return
			}
			f = p.take(f)
			t := p.bot.render(f.shown())
			if t.Text == "" || t.Text == on {
				break
			}
			if !p.bot.gate.try(p.turn.Address.Chat) {
				next = time.Now().Add(gateRetry)
				continue
			}
			next = time.Now().Add(every)
			err := p.put(context.WithoutCancel(ctx), t)
			if err == nil {
				on = t.Text
				break
			}
			p.bot.log.Debug("preview not shown", "chat", p.turn.Address.Chat, "turn", p.turn.Turn, "err", err)
			if p.hopeless(err) {
				return
			}
		}
	}
}

// take gives the filter with what Watch got since.
func (p *Progress) take(f *filter) *filter {
	p.mu.Lock()
	text, restart := p.text.String(), p.restart
	p.text.Reset()
	p.restart = false
	p.mu.Unlock()
	if restart {
		f = newFilter(p.bot.secrets())
	}
	f.add(text)
	return f
}

// render gives the beginning of an answer as one message.
func (b *Bot) render(source string) markdown.Text {
	if len(source) > previewSource {
		n := previewSource
		for !utf8.RuneStart(source[n]) {
			n--
		}
		source = source[:n]
	}
	t := b.md.Preview(source, messageUnits)
	return b.guard(markdown.Part{Text: t}).Text
}

// put sends the preview, or edits it. ctx does not end with the turn: whether
// there is a message has to be known.
func (p *Progress) put(ctx context.Context, t markdown.Text) error {
	link := withLinkPreview(p.bot.cfg.LinkPreview)
	if p.preview != nil {
		_, err := p.call(ctx, editPayload(p.preview.Message, t, "", link))
		refused := (*APIError)(nil)
		switch {
		case !errors.As(err, &refused):
		case says(refused.Description, "message is not modified"):
			return nil
		case says(refused.Description, "message to edit not found", "MESSAGE_ID_INVALID"):
			p.preview = nil // the person deleted it (C076)
		}
		return err
	}
	now := time.Now()
	shown := &agent.Preview{At: now, Silent: now.Sub(p.turn.Asked) > ringing}
	opts := append(p.bot.sending(p.turn, false), link)
	if shown.Silent {
		opts = append(opts, withSilence())
	}
	// Stored first: a crash must not leave a preview that nobody knows of.
	if err := p.bot.store.OpenPreview(ctx, p.turn, shown.Silent); err != nil {
		return err
	}
	id, err := p.call(ctx, textPayload(t, "", opts...))
	if err == nil && id == 0 { // nothing could be edited or removed
		err = &callError{method: "sendMessage", reached: true, err: errors.New("an answer without a message id")}
	}
	if err != nil && !surelyFailed(err) {
		return err // there may be a message: the store keeps it as unsettled
	}
	if err := p.bot.store.SettlePreview(ctx, p.turn.Turn, id, deletePayload(id)); err != nil {
		p.bot.log.Warn("a preview's message id is not stored", "chat", p.turn.Address.Chat, "turn", p.turn.Turn, "err", err)
	}
	if err == nil {
		shown.Message = id
		p.preview = shown
	}
	return err
}

// hopeless tells that after this failure the turn gets no more previews. A 429
// closes the gate for the time it names.
func (p *Progress) hopeless(err error) bool {
	if refused := (*APIError)(nil); errors.As(err, &refused) {
		if refused.Code == http.StatusTooManyRequests {
			p.bot.gate.block(p.turn.Address.Chat, time.Now().Add(refused.RetryAfter))
			return false
		}
		return refused.Code < http.StatusInternalServerError
	}
	if lost := (*callError)(nil); errors.As(err, &lost) {
		return p.preview == nil && !surelyFailed(err) // an edit may be repeated, a message not
	}
	return true // the store's
}

// call makes the call of a payload and gives the id of its message.
func (p *Progress) call(ctx context.Context, payload agent.Payload) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, previewTimeout)
	defer cancel()
	var out outgoing
	if err := json.Unmarshal(payload.Body, &out); err != nil {
		return 0, err
	}
	return p.bot.api.post(ctx, p.turn.Address, out)
}
