package supervisor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"agentd/internal/agent"
)

// Stop ends the turn that runs at the address: on disk first, then its model
// call and its tools. See sqlite.Store.Stop for what is stored and the errors.
func (s *Supervisor) Stop(ctx context.Context, at agent.Address, by agent.Principal, update int64, answer func(agent.Turn) agent.Post) error {
	turn, err := s.store.Stop(ctx, at, by, update, func(turn agent.Turn) []agent.Post {
		return append([]agent.Post{answer(turn)}, s.channel.Remove(turn)...)
	})
	if err != nil {
		return err
	}
	if w := s.find(turn.Turn); w != nil {
		w.cancel(agent.ErrStopped)
	}
	return nil
}

// Retry starts a new turn with the question of the address' last one, which is
// superseded; what that one did already is told to the model.
func (s *Supervisor) Retry(ctx context.Context, at agent.Address, by agent.Principal, update int64) error {
	old, err := s.store.Retry(ctx, at, by, update, again)
	if err != nil {
		return err
	}
	s.histories.drop(old.Session)
	if w := s.find(old.Turn); w != nil {
		w.cancel(agent.ErrStopped)
	}
	s.reopen()
	s.lookAgain() // the store's wake may have been taken before reopened was set
	return nil
}

// again makes the question anew, with what was done about it before.
func again(old []agent.Entry) agent.Message {
	m := agent.Message{Role: agent.User}
	var done []string
	for _, e := range old {
		for _, p := range e.Parts {
			switch {
			case e.Role == agent.User:
				m.Parts = append(m.Parts, p)
			case p.Result != nil:
				status := "done"
				if p.Result.IsError {
					status = "failed"
				}
				done = append(done, p.Result.Name+" ("+status+")")
			}
		}
	}
	if len(done) > 0 {
		m.Parts = append(m.Parts, agent.Part{Text: fmt.Sprintf("[You are asked again. Before, these tools ran already: %s. Do not repeat what changed something.]", strings.Join(done, ", "))})
	} else {
		m.Parts = append(m.Parts, agent.Part{Text: "[You are asked again: the earlier answer was not what was wanted.]"})
	}
	return m
}

// Load is the work at hand.
type Load struct {
	Running int // turns being worked on
	Waiting int // messages that wait for a turn
	Tokens  int // of the address' last prompt; 0 unknown
}

// Load says what is being done now.
func (s *Supervisor) Load(ctx context.Context, at agent.Address) (Load, error) {
	waiting, _, err := s.store.Waiting(ctx, time.Now())
	if err != nil {
		return Load{}, err
	}
	tokens, err := s.store.Tokens(ctx, at)
	return Load{Running: s.running(), Waiting: waiting, Tokens: tokens}, err
}
