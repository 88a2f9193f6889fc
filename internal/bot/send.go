package bot

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"agentd/internal/agent"
)

const (
	sendSlots   = maxConns         // calls in flight at a time
	lastCalls   = 5 * time.Second  // for calls in flight when the sender is told to end
	retryFirst  = time.Second      // after a sure failure, doubling …
	retryMost   = 60 * time.Second // … to this
	serverTries = 100              // of a part that the server itself answers with 5xx: hours
	wrongTries  = 5                // of a part that is answered with what should pass by itself
)

// sender drains the outbox: one lane for each chat that has something to send,
// so that chats do not wait for each other and a chat's parts keep their order.
type sender struct {
	api    *api
	gate   *gate
	outbox Outbox
	log    *slog.Logger
	notice func(lang string, post int64, part int) agent.Payload           // about an uncertain part
	alarm  func(ctx context.Context, send agent.Send, reason string) error // about one that failed for good

	slots chan struct{}
	again chan struct{} // ask the outbox for lanes

	mu    sync.Mutex
	lanes map[int64]bool // running; true: something may have come meanwhile
}

func newSender(b *Bot) *sender {
	return &sender{
		api: b.api, gate: b.gate, outbox: b.store, log: b.log, notice: b.uncertain, alarm: b.failed,
		slots: make(chan struct{}, sendSlots), again: make(chan struct{}, 1), lanes: map[int64]bool{},
	}
}

// Send drains the outbox until ctx ends; then the calls in flight get 5 s to
// finish. It returns nil.
func (b *Bot) Send(ctx context.Context) error { return b.sender.run(ctx) }

func (s *sender) run(ctx context.Context) error {
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastCalls, cancel) })
	defer stop()
	var lanes sync.WaitGroup
	defer lanes.Wait()

	pause := backoff{first: 100 * time.Millisecond, most: 30 * time.Second}
	for err := s.recover(ctx); err != nil; err = s.recover(ctx) {
		s.log.Error("the outbox cannot be read", "err", err)
		if !sleep(ctx, pause.next()) {
			return nil
		}
	}
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.outbox.OutboxWake():
		case <-s.again:
		case <-due.C:
		}
		chats, next, err := s.outbox.Lanes(ctx, time.Now())
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.log.Error("the outbox cannot be read", "err", err)
			next = time.Now().Add(pause.next())
		default:
			pause.reset()
		}
		due.Stop()
		if !next.IsZero() {
			due.Reset(time.Until(next))
		}
		for _, chat := range chats {
			if s.begin(chat) {
				lanes.Go(func() { s.lane(ctx, calls, chat) })
			}
		}
	}
}

// recover settles what a dead process left on its way. What may be repeated is;
// about the rest the person is asked.
func (s *sender) recover(ctx context.Context) error {
	sends, err := s.outbox.InFlight(ctx)
	for _, send := range sends {
		out := agent.Outcome{Fate: agent.Retry, Reason: "the process died while it was on its way"}
		if !send.Idempotent {
			out = s.unknown(send, out.Reason)
		}
		if err := s.outbox.Settle(ctx, send, out); err != nil {
			return err
		}
		s.report(send, out)
	}
	return err
}

// begin says whether a lane for the chat must be started; one that runs is told
// that there may be more.
func (s *sender) begin(chat int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, runs := s.lanes[chat]
	s.lanes[chat] = runs
	return !runs
}

// end takes the lane out. A lane that found nothing goes on when something may
// have come since; one that must pause leaves its chat to the outbox's clock.
func (s *sender) end(chat int64, next step) bool {
	s.mu.Lock()
	more := s.lanes[chat]
	if more && next == stepEmpty {
		s.lanes[chat] = false
		s.mu.Unlock()
		return false
	}
	delete(s.lanes, chat)
	s.mu.Unlock()
	if more {
		select {
		case s.again <- struct{}{}:
		default:
		}
	}
	return true
}

// step is what a lane does next.
type step int

const (
	stepMore  step = iota // look for the next part
	stepEmpty             // there is none
	stepPause             // none may go before a time that the outbox knows
)

func (s *sender) lane(ctx, calls context.Context, chat int64) {
	for {
		next := stepPause
		// The gate comes before Next: what waits at the gate has surely not been
		// sent, so a crash there leaves nothing uncertain.
		if s.gate.wait(ctx, chat) == nil {
			select {
			case s.slots <- struct{}{}:
				next = s.step(ctx, calls, chat)
				<-s.slots
			case <-ctx.Done():
			}
		}
		if next != stepMore && s.end(chat, next) {
			return
		}
	}
}

// step sends one part.
func (s *sender) step(ctx, calls context.Context, chat int64) step {
	send, ok, err := s.outbox.Next(ctx, chat, time.Now())
	if err != nil || !ok {
		s.gate.giveBack(chat)
		if err == nil {
			return stepEmpty
		}
		if ctx.Err() == nil {
			s.log.Error("the outbox cannot be read", "chat", chat, "err", err)
			sleep(ctx, time.Second)
		}
		return stepMore // at the end of ctx the gate ends the lane
	}
	out, moved := s.deliver(calls, send)
	s.report(send, out)
	if out.Fate == agent.Failed {
		if err := s.alarm(calls, send, out.Reason); err != nil {
			s.log.Error("cannot tell the owner", "err", err)
		}
	}
	s.settle(calls, send, out)
	if moved != 0 { // only now: the part must be queued again before another lane may look
		if err := s.outbox.Migrate(calls, chat, moved); err != nil {
			s.log.Error("the chat cannot be moved to its new id", "chat", chat, "to", moved, "err", err)
		}
	}
	if out.Fate == agent.Retry || out.Fate == agent.Parked {
		return stepPause
	}
	return stepMore
}

// settle stores the outcome, however long the store needs: not knowing what is
// known would make a sent part uncertain.
func (s *sender) settle(calls context.Context, send agent.Send, out agent.Outcome) {
	pause := backoff{first: 100 * time.Millisecond, most: 5 * time.Second}
	for {
		// Not calls itself: when it ends the calls, their outcome is still stored.
		err := s.outbox.Settle(context.WithoutCancel(calls), send, out)
		if err == nil {
			return
		}
		s.log.Error("what became of a message cannot be stored", "chat", send.Address.Chat, "key", send.Key, "fate", out.Fate, "err", err)
		if !sleep(calls, pause.next()) {
			return
		}
	}
}

func (s *sender) report(send agent.Send, out agent.Outcome) {
	level := slog.LevelDebug
	switch {
	case out.Fate == agent.Failed:
		level = slog.LevelError
	case out.Fate == agent.Parked || out.Fate == agent.Uncertain || out.Fate == agent.Retry && send.Tries == 0:
		level = slog.LevelWarn
	}
	args := []any{"chat", send.Address.Chat, "key", send.Key, "part", send.Part, "fate", out.Fate}
	if out.Reason != "" {
		args = append(args, "reason", out.Reason)
	}
	if !out.Due.IsZero() {
		args = append(args, "due", out.Due)
	}
	s.log.Log(context.Background(), level, "message", args...)
}
