package supervisor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"agentd/internal/agent"
)

// work is a turn that this process works on.
type work struct {
	turn    agent.Turn
	ctx     context.Context
	cancel  context.CancelCauseFunc
	started time.Time

	mu      sync.Mutex
	spoke   bool                    // the model said something, or a tool ran
	attempt context.CancelCauseFunc // ends the running model call only
	said    map[string]bool         // what the person was told aside the answer

	outsized bool // the question does not fit the model; owned by who works on the turn
}

func newWork(ctx context.Context, turn agent.Turn) *work {
	w := &work{turn: turn, started: time.Now()}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	return w
}

// begin gives the context of one run of the loop.
func (w *work) begin() context.Context {
	ctx, cancel := context.WithCancelCause(w.ctx)
	w.mu.Lock()
	w.attempt = cancel
	w.mu.Unlock()
	return ctx
}

// speak notes that the turn has begun to have effects: nothing joins it any more.
func (w *work) speak() {
	w.mu.Lock()
	w.spoke = true
	w.mu.Unlock()
}

// interrupt ends the running model call so that what was written joins it; false: it has begun to speak.
func (w *work) interrupt() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.spoke || w.attempt == nil {
		return false
	}
	w.attempt(agent.ErrJoined)
	return true
}

// once calls f the first time that it is called for what.
func (w *work) once(what string, f func()) {
	w.mu.Lock()
	said := w.said[what]
	if w.said == nil {
		w.said = map[string]bool{}
	}
	w.said[what] = true
	w.mu.Unlock()
	if !said {
		f()
	}
}

// work makes the turn's answer and finishes it.
func (s *Supervisor) work(w *work) {
	log := s.log.With("chat", w.turn.Address.Chat, "turn", w.turn.Turn)
	progress := s.channel.Follow(w.ctx, w.turn)
	defer progress.Close()

	reply, err := guarded(func() (agent.Reply, error) { return s.answer(w, progress) })
	switch {
	case errors.Is(err, agent.ErrStopped):
		return // whoever stopped it has answered
	case errors.Is(err, agent.ErrShutdown):
		if err := s.store.Release(context.WithoutCancel(w.ctx), w.turn.Turn); err != nil {
			log.Error("release the turn", "err", err)
		}
		return
	}
	end := agent.Ending{State: agent.TurnDone, Tokens: reply.Usage.Prompt}
	var faults []*agent.Fault
	if err != nil {
		f := asFault(err)
		if f == nil {
			f = broke(w.turn)
		}
		log.Warn("the turn has a fault", "err", err)
		faults = append(faults, f)
	}
	text := reply.Message.Text()
	switch {
	case text != "":
		end.Message = &reply.Message
	case w.outsized: // left in the history, it would push out all that came before it
		end.State = agent.TurnSuperseded
		s.histories.drop(w.turn.Session)
	default:
		end.State = agent.TurnFailed
	}
	end.Posts, err = guarded(func() ([]agent.Post, error) { return progress.Answer(w.ctx, text, faults...), nil })
	if err != nil {
		log.Error("the answer cannot be shown", "err", err)
		end.Posts = progress.Answer(w.ctx, "", broke(w.turn))
	}
	s.finish(w, end)
}

// guarded makes a panic an error: what breaks one turn must not end those of all
// others, nor count as their attempts.
func guarded[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// broke is what a person is told about what nobody foresaw.
func broke(turn agent.Turn) *agent.Fault {
	return &agent.Fault{Code: agent.FaultBroke, Args: map[string]string{"turn": fmt.Sprint(turn.Turn)}}
}

// answer runs the loop until it has an answer, taking in what joins it.
func (s *Supervisor) answer(w *work, progress Progress) (agent.Reply, error) {
	if w.turn.Attempts >= maxAttempts {
		return agent.Reply{}, &agent.Fault{Code: agent.FaultParked, Args: map[string]string{"attempts": fmt.Sprint(w.turn.Attempts)}}
	}
	scope, err := s.admit(w)
	if err != nil {
		return agent.Reply{}, err
	}
	for {
		ctx := w.begin()
		reply, err := s.attempt(ctx, w, scope, progress)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx) // whatever it broke, this is why
		}
		if !errors.Is(err, agent.ErrJoined) {
			return reply, err
		}
		err = s.insist(w.ctx, w.turn.Turn, func() error {
			_, err := s.store.Pull(w.ctx, w.turn, time.Now(), s.compose)
			return err
		})
		if err != nil {
			return agent.Reply{}, err
		}
	}
}

// admit gives the turn's scope with the rights of now. The turn of somebody who may
// no longer talk ends without an answer, as what they write now gets none:
// agent.ErrStopped.
func (s *Supervisor) admit(w *work) (agent.Scope, error) {
	scope := w.turn.Scope
	rights, err := s.channel.Rights(w.ctx, w.turn)
	if err != nil {
		return scope, err
	}
	if rights == agent.Stranger {
		s.log.Info("whoever asked may no longer talk", "chat", scope.Address.Chat, "turn", scope.Turn)
		s.finish(w, agent.Ending{State: agent.TurnStopped, Posts: s.channel.Remove(w.turn)})
		return scope, agent.ErrStopped
	}
	scope.Principal.Rights = rights
	return scope, nil
}

// attempt runs the loop on the stored history.
func (s *Supervisor) attempt(ctx context.Context, w *work, scope agent.Scope, progress Progress) (agent.Reply, error) {
	a := &agent.Agent{Model: s.model, Tools: s.tools, MaxSteps: s.cfg.MaxSteps, Log: s.log}
	t, err := s.transcript(ctx, w, a.Tools)
	if err != nil {
		return agent.Reply{}, err
	}
	reply, err := a.Run(ctx, scope, t, func(d agent.Delta) {
		w.speak()
		progress.Watch(d)
	})
	s.calibrate(a.ModelName, t.estimated, reply.Usage.Prompt)
	w.outsized = errors.Is(err, agent.ErrTooLong) && t.unbegun()
	return reply, err
}

// finish stores the ending. A store that fails (a full disk) is tried again
// until the turn is cancelled: then it stays open and is resumed.
func (s *Supervisor) finish(w *work, end agent.Ending) {
	ctx := context.WithoutCancel(w.ctx)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		err := s.store.Finish(ctx, w.turn, end)
		if err == nil || errors.Is(err, agent.ErrStopped) {
			return
		}
		if s.cfg.Full(err) {
			s.tellFull(w, err)
		} else {
			s.log.Error("store the answer", "turn", w.turn.Turn, "err", err)
		}
		select {
		case <-w.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// insist stores a step of a turn. While the disk is full it tries again until ctx
// ends: what the model said and what a tool did is not to be thrown away (C107).
func (s *Supervisor) insist(ctx context.Context, turn int64, store func() error) error {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		err := store()
		if err == nil || !s.cfg.Full(err) {
			return err
		}
		if w := s.find(turn); w != nil {
			s.tellFull(w, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// tellFull tells the person and the log of a full disk, once a turn.
func (s *Supervisor) tellFull(w *work, err error) {
	w.once("disk", func() {
		s.log.Error("the disk is full; what the turn has so far is kept and stored when there is room", "turn", w.turn.Turn, "err", err)
		s.channel.Tell(context.WithoutCancel(w.ctx), w.turn, &agent.Fault{Code: agent.FaultDiskFull, Err: err})
	})
}
