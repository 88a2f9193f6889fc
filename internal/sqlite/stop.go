package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"agentd/internal/agent"
)

const (
	// After /new the old session's turn runs on; it is stopped when the new session has none.
	runningAt = selectTurns + `s.channel = ? AND s.chat = ? AND s.thread = ? AND t.state IN ('open', 'waiting') ORDER BY s.current DESC, t.id DESC LIMIT 1`
	lastAt    = selectTurns + `s.channel = ? AND s.chat = ? AND s.thread = ? AND s.current = 1 ORDER BY t.id DESC LIMIT 1`
)

// find gives the turn at the address if by may end it.
func find(t *tx, query string, a agent.Address, by agent.Principal) (turn agent.Turn, err error) {
	rows, err := t.query(query, a.Channel, a.Chat, a.Thread)
	err = each(rows, err, func(r *sql.Rows) error {
		turn, err = scanTurn(r)
		return err
	})
	switch {
	case err != nil:
		return turn, err
	case turn.Turn == 0:
		return turn, agent.ErrNoTurn
	case turn.Principal.ID != by.ID && by.Rights < agent.Owner:
		return turn, agent.ErrNotYours
	}
	return turn, nil
}

// Stop ends the turn that runs at the address: its open calls get a result that
// says so, answer(turn) becomes its answer, and the control row is handled, all
// in one transaction. agent.ErrNoTurn, or agent.ErrNotYours when by is neither
// its principal nor the owner.
//
// What the person wrote before the command and nobody began goes with it: with
// the answer it is answered. If that is all there is, the turn returned has no id.
func (s *Store) Stop(ctx context.Context, a agent.Address, by agent.Principal, update int64, answer func(agent.Turn) []agent.Post) (turn agent.Turn, err error) {
	err = s.do(ctx, "Stop", func(t *tx) error {
		waiting, err := dropWaiting(t, a, by, update)
		if err != nil {
			return err
		}
		turn, err = find(t, runningAt, a, by)
		if waiting != nil && (errors.Is(err, agent.ErrNoTurn) || errors.Is(err, agent.ErrNotYours)) {
			turn = *waiting
			posts := answer(turn)
			for i := range posts {
				posts[i].Key = fmt.Sprintf("ctl:%d:%d", update, i) // there is no turn to name it by
			}
			if err := handled(t, update); err != nil {
				return err
			}
			return post(t, posts)
		}
		if err != nil {
			return err
		}
		if err := closeCalls(t, turn.Turn); err != nil {
			return err
		}
		if err := handled(t, update); err != nil {
			return err
		}
		return finish(t, turn, agent.Ending{State: agent.TurnStopped, Posts: answer(turn)})
	})
	if err == nil {
		wake(s.outbox)
		wake(s.inbox)
	}
	return turn, err
}

// dropWaiting takes what a person wrote before the command update out of the
// queue. It gives a turn without an id that stands for it, nil when there was nothing.
func dropWaiting(t *tx, a agent.Address, by agent.Principal, update int64) (*agent.Turn, error) {
	const before = `state = 'queued' AND kind = 'message' AND channel = ? AND chat = ? AND thread = ? AND sender = ? AND update_id < ?`
	args := []any{a.Channel, a.Chat, a.Thread, by.ID, update}
	turn := agent.Turn{Scope: agent.Scope{Address: a, Principal: by}}
	found, err := t.row(`SELECT lang, private, message_id FROM inbox WHERE `+before+` ORDER BY at DESC, update_id DESC LIMIT 1`, args, &turn.Lang, &turn.Private, &turn.Question)
	if err != nil || !found {
		return nil, err
	}
	_, err = t.exec(`UPDATE inbox SET state = 'done', note = 'stopped before it was begun' WHERE `+before, args...)
	return &turn, err
}

// closeCalls gives every call of the turn that has no result one that says why.
func closeCalls(t *tx, turn int64) error {
	type open struct {
		session int64
		call    agent.Call
	}
	type key struct {
		session int64
		call    string
	}
	var calls []open
	done := map[key]bool{}
	rows, err := t.query(`SELECT session, parts FROM messages WHERE turn = ? ORDER BY session, seq`, turn)
	err = each(rows, err, func(r *sql.Rows) error {
		var session int64
		var text string
		var parts []agent.Part
		if err := r.Scan(&session, &text); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(text), &parts); err != nil {
			return err
		}
		for _, p := range parts {
			switch {
			case p.Call != nil:
				calls = append(calls, open{session, *p.Call})
			case p.Result != nil:
				done[key{session, p.Result.CallID}] = true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, c := range calls {
		if done[key{c.session, c.call.ID}] {
			continue
		}
		result := agent.Result{CallID: c.call.ID, Name: c.call.Name, Text: "stopped by the person", IsError: true}
		m := agent.Message{Role: agent.ToolRole, Parts: []agent.Part{{Result: &result}}}
		if err := appendMessage(t, c.session, turn, m, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// Retry opens a new turn with the question of the address' last one, which is
// superseded, whether it runs or not. again makes the new user message from the
// old turn's entries. The control row is handled. Errors as Stop's.
func (s *Store) Retry(ctx context.Context, a agent.Address, by agent.Principal, update int64, again func([]agent.Entry) agent.Message) (old agent.Turn, err error) {
	err = s.do(ctx, "Retry", func(t *tx) error {
		if old, err = find(t, lastAt, a, by); err != nil {
			return err
		}
		if err := closeCalls(t, old.Turn); err != nil {
			return err
		}
		entries, err := entriesOf(t, old)
		if err != nil {
			return err
		}
		now := time.Now()
		if _, err := t.exec(`UPDATE turns SET state = 'superseded', ended = coalesce(ended, ?) WHERE id = ?`, millis(now), old.Turn); err != nil {
			return err
		}
		asked := agent.Incoming{Address: a, Sender: old.Principal, Private: old.Private, Message: old.Question, Lang: old.Lang, At: now}
		if by.ID == old.Principal.ID {
			asked.Sender = by // with the rights they have now
		}
		turn, err := openTurn(t, old.Session, asked, now)
		if err != nil {
			return err
		}
		if err := passPreview(t, old.Turn, turn.Turn); err != nil {
			return err
		}
		if err := leave(t, old.Turn); err != nil {
			return err
		}
		if err := appendMessage(t, old.Session, turn.Turn, again(entries), now); err != nil {
			return err
		}
		return handled(t, update)
	})
	if err == nil {
		wake(s.inbox)
	}
	return old, err
}
