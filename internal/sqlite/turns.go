package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"agentd/internal/agent"
)

// selectTurns is completed by a condition and read by scanTurn. A preview is
// there until its turn ends.
const selectTurns = `SELECT t.id, t.session, s.channel, s.chat, s.thread, t.principal, t.name, t.rights, t.private, t.lang, t.question,
	t.attempts, t.asked, p.message_id, p.at, p.silent
	FROM turns AS t JOIN sessions AS s ON s.id = t.session
	LEFT JOIN outbox AS o ON o.key = 'preview:' || t.id AND o.state = 'queued' LEFT JOIN sends AS p ON p.post = o.id WHERE `

func scanTurn(rows *sql.Rows) (turn agent.Turn, err error) {
	var asked int64
	var message, at, silent sql.NullInt64
	err = rows.Scan(&turn.Turn, &turn.Session, &turn.Address.Channel, &turn.Address.Chat, &turn.Address.Thread, &turn.Principal.ID,
		&turn.Principal.Name, &turn.Principal.Rights, &turn.Private, &turn.Lang, &turn.Question, &turn.Attempts, &asked, &message, &at, &silent)
	turn.Asked = moment(asked)
	if at.Valid {
		turn.Preview = &agent.Preview{Message: message.Int64, At: moment(at.Int64), Silent: silent.Int64 != 0}
	}
	return turn, err
}

// The condition of the index turns_open is repeated where only one of its states
// is meant: SQLite does not see that one implies the other, and would read through
// all turns there ever were. So it would for ORDER BY t.id without the plus.

// Recover counts an attempt for every open turn: the process that ran it died
// without releasing it. It is called once, before the first Open.
func (s *Store) Recover(ctx context.Context) error {
	return s.do(ctx, "Recover", func(t *tx) error {
		_, err := t.exec(`UPDATE turns SET attempts = attempts + 1 WHERE state IN ('open', 'waiting') AND state = 'open'`)
		return err
	})
}

// Open gives the open turns, oldest first: those of a dead process, and those
// that something else than Claim opened.
func (s *Store) Open(ctx context.Context) (out []agent.Turn, err error) {
	rows, err := s.read.query(ctx, selectTurns+`t.state IN ('open', 'waiting') AND t.state = 'open' ORDER BY +t.id`)
	err = each(rows, err, func(r *sql.Rows) error {
		turn, err := scanTurn(r)
		out = append(out, turn)
		return err
	})
	return out, err
}

// Release says, once, that the process gives the turn up in good order: it stays
// open, and the attempt that Recover will count is taken off beforehand.
func (s *Store) Release(ctx context.Context, turn int64) error {
	return s.do(ctx, "Release", func(t *tx) error {
		_, err := t.exec(`UPDATE turns SET attempts = attempts - 1 WHERE id = ? AND state = 'open'`, turn)
		return err
	})
}

// Append adds a step of the turn to its session, or to a session of a sub-agent
// of it. A tool result that is there already (keyed by the call id) is left
// alone. agent.ErrStopped: the turn is over.
func (s *Store) Append(ctx context.Context, session, turn int64, m agent.Message) error {
	return s.do(ctx, "Append", func(t *tx) error {
		var attempts int
		open, err := t.row(`SELECT attempts FROM turns WHERE id = ? AND state = 'open'`, []any{turn}, &attempts)
		if err != nil {
			return err
		}
		if !open {
			return agent.ErrStopped
		}
		if attempts != 0 { // seldom: the common step writes one page less
			if _, err := t.exec(`UPDATE turns SET attempts = 0 WHERE id = ?`, turn); err != nil {
				return err
			}
		}
		return appendMessage(t, session, turn, m, time.Now())
	})
}

func appendMessage(t *tx, session, turn int64, m agent.Message, now time.Time) error {
	parts, err := json.Marshal(m.Parts)
	if err != nil {
		return err
	}
	var call *string
	if len(m.Parts) == 1 && m.Parts[0].Result != nil {
		call = &m.Parts[0].Result.CallID
	}
	_, err = t.exec(`INSERT INTO messages (session, seq, turn, role, call, parts, created)
		VALUES (?1, (SELECT coalesce(max(seq), 0) + 1 FROM messages WHERE session = ?1), ?2, ?3, ?4, ?5, ?6)
		ON CONFLICT (session, call) WHERE call IS NOT NULL DO NOTHING`, session, turn, m.Role, call, string(parts), millis(now))
	return err
}

// Finish ends an open turn: its last message, its answer and its inbox rows, in
// one transaction. agent.ErrStopped: it is over already, and nothing was stored.
// A power cut may take it back until Next says that the answer is on its way: then
// the turn is resumed.
func (s *Store) Finish(ctx context.Context, turn agent.Turn, end agent.Ending) error {
	err := s.doLazily(ctx, "Finish", func(t *tx) error { return finish(t, turn, end) })
	if err == nil {
		wake(s.outbox)
		wake(s.inbox) // the address is free for the next turn
	}
	return err
}

func finish(t *tx, turn agent.Turn, end agent.Ending) error {
	now := time.Now()
	n, err := t.exec(`UPDATE turns SET state = ?, ended = ?, tokens = ? WHERE id = ? AND state IN ('open', 'waiting')`,
		end.State, millis(now), end.Tokens, turn.Turn)
	if err != nil {
		return err
	}
	if n == 0 {
		return agent.ErrStopped
	}
	if end.Message != nil {
		if err := appendMessage(t, turn.Session, turn.Turn, *end.Message, now); err != nil {
			return err
		}
	}
	if err := leave(t, turn.Turn); err != nil {
		return err
	}
	if _, err := t.exec(`UPDATE sessions SET used = ? WHERE id = ?`, millis(now), turn.Session); err != nil {
		return err
	}
	return post(t, end.Posts)
}

// leave closes what belongs to a turn that ends: its inbox rows and its preview.
func leave(t *tx, turn int64) error {
	if _, err := t.exec(`UPDATE inbox SET state = 'done' WHERE turn = ? AND state = 'taken'`, turn); err != nil {
		return err
	}
	return endPreview(t, turn)
}
