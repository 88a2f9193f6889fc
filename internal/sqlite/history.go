package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"agentd/internal/agent"
)

const historyQuery = `SELECT m.seq, m.turn, m.role, m.parts FROM messages AS m LEFT JOIN turns AS t ON t.id = m.turn WHERE m.session = ? `

func scanEntry(rows *sql.Rows) (e agent.Entry, err error) {
	var parts []byte
	if err := rows.Scan(&e.Seq, &e.Turn, &e.Role, &parts); err != nil {
		return e, err
	}
	if err := json.Unmarshal(parts, &e.Parts); err != nil {
		return e, fmt.Errorf("message %d: %w", e.Seq, err)
	}
	return e, nil
}

// History gives what the model may be sent of a session, after the entry with
// seq after (0: all of the window).
func (s *Store) History(ctx context.Context, session, after int64) (h agent.History, err error) {
	var from int64
	there, err := s.read.row(ctx, `SELECT window_from, results_cut_to FROM sessions WHERE id = ?`, []any{session}, &from, &h.ResultsCutTo)
	if err != nil {
		return h, err
	}
	if !there {
		return h, fmt.Errorf("there is no session %d", session)
	}
	rows, err := s.read.query(ctx, historyQuery+`AND m.seq >= max(?, ? + 1) AND coalesce(t.state, '') <> 'superseded' ORDER BY m.seq`, session, from, after)
	err = each(rows, err, func(r *sql.Rows) error {
		e, err := scanEntry(r)
		h.Entries = append(h.Entries, e)
		return err
	})
	return h, err
}

func entriesOf(t *tx, turn agent.Turn) (out []agent.Entry, err error) {
	rows, err := t.query(historyQuery+`AND m.turn = ? ORDER BY m.seq`, turn.Session, turn.Turn)
	err = each(rows, err, func(r *sql.Rows) error {
		e, err := scanEntry(r)
		out = append(out, e)
		return err
	})
	return out, err
}

// Cut moves the session's window: the model is sent entries from seq from on,
// and the tool results below resultsTo shortened. Neither moves back.
func (s *Store) Cut(ctx context.Context, session, from, resultsTo int64) error {
	return s.do(ctx, "Cut", func(t *tx) error {
		_, err := t.exec(`UPDATE sessions SET window_from = max(window_from, ?), results_cut_to = max(results_cut_to, ?) WHERE id = ?`, from, resultsTo, session)
		return err
	})
}

// Child gives the session of the sub-agent that the call made, making it with
// the task as its first message when it is new: a resumed parent finds the same child.
func (s *Store) Child(ctx context.Context, parent agent.Scope, call, name string, task agent.Message) (session int64, err error) {
	err = s.do(ctx, "Child", func(t *tx) error {
		found, err := t.row(`SELECT id FROM sessions WHERE parent = ? AND parent_call = ?`, []any{parent.Session, call}, &session)
		if err != nil || found {
			return err
		}
		now := now()
		session, err = t.insert(`INSERT INTO sessions (channel, chat, thread, parent, parent_call, agent, created, used) VALUES (?,?,?,?,?,?,?,?)`,
			parent.Address.Channel, parent.Address.Chat, parent.Address.Thread, parent.Session, call, name, now, now)
		if err != nil {
			return err
		}
		return appendMessage(t, session, parent.Turn, task, moment(now))
	})
	return session, err
}
