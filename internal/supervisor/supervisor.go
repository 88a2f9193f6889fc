// Package supervisor makes turns of what waits in the inbox: it claims, fits the
// history to the model, runs the agent, and finishes. It knows neither the
// channel nor the provider.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"agentd/internal/agent"
)

// Store is what the supervisor keeps. Every method is one transaction.
type Store interface {
	Recover(ctx context.Context) error
	Open(ctx context.Context) ([]agent.Turn, error)
	Claim(ctx context.Context, now time.Time, compose func([]agent.Incoming) agent.Message) (agent.Turn, bool, error)
	Joins(ctx context.Context, turn agent.Turn, now time.Time) (message int64, ok bool, err error)
	Pull(ctx context.Context, turn agent.Turn, now time.Time, compose func([]agent.Incoming) agent.Message) (*agent.Message, error)
	Append(ctx context.Context, session, turn int64, m agent.Message) error
	History(ctx context.Context, session, after int64) (agent.History, error)
	Cut(ctx context.Context, session, from, resultsTo int64) error
	Child(ctx context.Context, parent agent.Scope, call, name string, task agent.Message) (int64, error)
	Finish(ctx context.Context, turn agent.Turn, end agent.Ending) error
	Release(ctx context.Context, turn int64) error
	Stop(ctx context.Context, a agent.Address, by agent.Principal, update int64, answer func(agent.Turn) []agent.Post) (agent.Turn, error)
	Retry(ctx context.Context, a agent.Address, by agent.Principal, update int64, again func([]agent.Entry) agent.Message) (agent.Turn, error)
	Waiting(ctx context.Context, now time.Time) (n int, next time.Time, err error)
	Tokens(ctx context.Context, a agent.Address) (int, error)
	InboxWake() <-chan struct{}
}

// Model is an agent.Model that knows how much it can read.
type Model interface {
	agent.Model
	// Window gives the model's context in tokens, prompt and answer together; ""
	// is the configured model.
	Window(ctx context.Context, model string) (int, error)
}

// Channel is where the person sees what goes on.
type Channel interface {
	// Follow shows that the turn is being worked on until the Progress is closed.
	Follow(ctx context.Context, turn agent.Turn) Progress
	// Rights gives what the turn's principal may do now, which may have changed since
	// they asked. It is always at hand, but for a store that cannot be read.
	Rights(ctx context.Context, turn agent.Turn) (agent.Rights, error)
	// Remove gives the posts that take away what is shown of a turn that will have no answer of its own.
	Remove(turn agent.Turn) []agent.Post
	// Tell says at once, without a promise, what cannot be stored.
	Tell(ctx context.Context, turn agent.Turn, f *agent.Fault)
	// Seen acknowledges a message that waits while a turn runs, without a promise.
	Seen(ctx context.Context, at agent.Address, message int64)
}

// Progress is one turn as the person sees it.
type Progress interface {
	Watch(agent.Delta) // never blocks
	// Answer makes the turn's answer, keyed "turn:<id>", and what goes with it. With
	// an empty text the faults are the answer, else notes under it.
	Answer(ctx context.Context, text string, faults ...*agent.Fault) []agent.Post
	Close()
}

// Config holds what a Supervisor can do without.
type Config struct {
	Workers  int              // turns at a time; 0 means 4
	MaxSteps int              // rounds of tools in a turn; 0 means agent.DefaultMaxSteps
	Prompt   string           // the owner's own instructions, appended to the system text
	Roster   []SubAgent       // whom the supervisor may delegate to
	Grace    time.Duration    // what running turns get when the process is told to stop
	Zone     *time.Location   // of the times that the model reads; nil means UTC
	Full     func(error) bool // tells a full disk from other failures of the store; nil: none is
	Log      *slog.Logger     // nil discards
}

// joinWindow is how long after a turn's start a further message of its person
// still joins it, if the model has not said anything yet.
const joinWindow = 700 * time.Millisecond

// maxAttempts is how often a turn may take the process with it before it is given up.
const maxAttempts = 3

// Supervisor works on the inbox.
type Supervisor struct {
	cfg     Config
	store   Store
	model   Model
	channel Channel
	tools   []agent.Tool
	system  string
	log     *slog.Logger

	mu        sync.Mutex
	live      map[int64]*work // by turn
	histories *cache
	scale     map[string]float64 // prompt tokens counted by the server to ours, by model
	again     chan struct{}      // look for work again: a worker is free, or a turn was reopened
	reopened  bool               // the store may have open turns that nobody works on

	turns      sync.WaitGroup // that are worked on
	claimPause time.Duration  // after a claim that failed; used by Run alone
}

// New makes a supervisor; nothing runs until Run.
func New(store Store, model Model, channel Channel, tools []agent.Tool, cfg Config) *Supervisor {
	if cfg.Workers == 0 {
		cfg.Workers = 4
	}
	if cfg.Zone == nil {
		cfg.Zone = time.UTC
	}
	if cfg.Full == nil {
		cfg.Full = func(error) bool { return false }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Supervisor{
		cfg: cfg, store: store, model: model, channel: channel, log: cfg.Log,
		system: systemText(cfg.Prompt), live: map[int64]*work{}, histories: newCache(),
		scale: map[string]float64{}, again: make(chan struct{}, 1),
	}
	s.tools = append(tools[:len(tools):len(tools)], s.delegate(tools)...)
	return s
}

// Run works until ctx ends. Then nothing new is claimed, running turns get the
// grace time, and what still runs is released, to be resumed by the next process.
func (s *Supervisor) Run(ctx context.Context) error {
	if err := s.store.Recover(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop before anything was begun
		}
		return err
	}
	s.reopen()
	turns, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	for ctx.Err() == nil {
		s.interruptJoined(ctx)
		next := s.fill(ctx, turns)
		s.pause(ctx, next)
	}
	grace := time.AfterFunc(s.cfg.Grace, func() { cancel(agent.ErrShutdown) })
	defer grace.Stop()
	s.turns.Wait()
	return nil
}

// pause waits until there may be something to do.
func (s *Supervisor) pause(ctx context.Context, next time.Time) {
	var due <-chan time.Time
	if !next.IsZero() {
		t := time.NewTimer(time.Until(next))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-ctx.Done():
	case <-s.store.InboxWake():
	case <-s.again:
	case <-due:
	}
}

// fill starts turns while there are free workers, and gives the time when more falls due.
func (s *Supervisor) fill(ctx, turns context.Context) (next time.Time) {
	for s.running() < s.cfg.Workers {
		now := time.Now() // one for both: what fell due between two would be seen by neither
		turn, ok, err := s.next(ctx, now)
		if err != nil {
			if ctx.Err() == nil {
				s.log.Error("claim a turn", "err", err)
			}
			s.claimPause = min(max(2*s.claimPause, time.Second), 30*time.Second)
			return now.Add(s.claimPause)
		}
		s.claimPause = 0
		if !ok {
			if _, next, err = s.store.Waiting(ctx, now); err != nil && ctx.Err() == nil {
				s.log.Error("look for due messages", "err", err)
				next = now.Add(time.Second)
			}
			return next
		}
		s.start(turns, turn)
	}
	return time.Time{} // the worker that is free first wakes us
}

// next gives a turn to work on: one that is open and forlorn, else a new one.
func (s *Supervisor) next(ctx context.Context, now time.Time) (agent.Turn, bool, error) {
	s.mu.Lock()
	reopened := s.reopened
	s.reopened = false // before looking: what is opened while we look is looked for again
	live := maps.Clone(s.live)
	s.mu.Unlock()
	if reopened {
		open, err := s.store.Open(ctx)
		if err != nil {
			s.reopen()
			return agent.Turn{}, false, err
		}
		for _, t := range open {
			if live[t.Turn] == nil { // before looking, too: one that ends meanwhile was open when we looked
				s.reopen()
				return t, true, nil
			}
		}
	}
	return s.store.Claim(ctx, now, s.compose)
}

// reopen has next look for open turns that nobody works on.
func (s *Supervisor) reopen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reopened = true
}

// interruptJoined cancels the model calls of young turns whose person has
// written more: the call is made anew with all of it.
func (s *Supervisor) interruptJoined(ctx context.Context) {
	for _, w := range s.works() {
		message, more, err := s.store.Joins(ctx, w.turn, time.Now())
		if err != nil || !more {
			continue // what cannot be read now waits in the table
		}
		if time.Since(w.started) < joinWindow && w.interrupt() {
			continue
		}
		w.once(fmt.Sprint("seen ", message), func() { go s.channel.Seen(ctx, w.turn.Address, message) })
	}
}

func (s *Supervisor) works() []*work {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*work, 0, len(s.live))
	for _, w := range s.live {
		out = append(out, w)
	}
	return out
}

func (s *Supervisor) find(turn int64) *work {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[turn]
}

func (s *Supervisor) running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// start works on the turn in a goroutine of its own.
func (s *Supervisor) start(ctx context.Context, turn agent.Turn) {
	w := newWork(ctx, turn)
	s.mu.Lock()
	s.live[turn.Turn] = w
	s.mu.Unlock()
	s.turns.Go(func() {
		defer func() {
			w.cancel(nil)
			s.mu.Lock()
			full := len(s.live) >= s.cfg.Workers
			delete(s.live, turn.Turn)
			s.mu.Unlock()
			if full { // else the store's wake was heard
				s.lookAgain()
			}
		}()
		s.work(w)
	})
}

func (s *Supervisor) lookAgain() {
	select {
	case s.again <- struct{}{}:
	default:
	}
}

// asFault says what a person can be told about err.
func asFault(err error) *agent.Fault {
	var f *agent.Fault
	if errors.As(err, &f) {
		return f
	}
	return nil
}
