package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"agentd/internal/agent"
)

// Compose makes the user message of a turn from the inbox rows that ask it. It
// is called inside the transaction and must be quick and pure.
type Compose func(rows []agent.Incoming) agent.Message

// Claim opens a turn for the due messages of one address and one sender whose
// session has none, oldest first, and appends the user message. false: nothing
// can be claimed.
func (s *Store) Claim(ctx context.Context, now time.Time, compose Compose) (turn agent.Turn, ok bool, err error) {
	err = s.do(ctx, "Claim", func(t *tx) error {
		var a agent.Address
		var sender int64
		found, err := t.row(`SELECT channel, chat, thread, sender FROM inbox AS i
			WHERE state = 'queued' AND kind = 'message' AND due <= ? AND NOT EXISTS (
				SELECT 1 FROM sessions AS s JOIN turns AS t ON t.session = s.id AND t.state IN ('open', 'waiting')
				WHERE s.current = 1 AND s.channel = i.channel AND s.chat = i.chat AND s.thread = i.thread)
			ORDER BY due, update_id LIMIT 1`, []any{millis(now)}, &a.Channel, &a.Chat, &a.Thread, &sender)
		if err != nil || !found {
			return err
		}
		rows, err := due(t, a, sender, now)
		if err != nil {
			return err
		}
		message := compose(rows)
		session, err := current(t, a, title(message), now)
		if err != nil {
			return err
		}
		last := rows[len(rows)-1]
		turn, err = openTurn(t, session, last, now)
		if err != nil {
			return err
		}
		if err := take(t, rows, turn.Turn); err != nil {
			return err
		}
		ok = true
		return appendMessage(t, session, turn.Turn, message, now)
	})
	return turn, ok && err == nil, err
}

// due reads the due rows of one sender at one address, in the order they came.
func due(t *tx, a agent.Address, sender int64, now time.Time) (out []agent.Incoming, err error) {
	rows, err := t.QueryContext(t.ctx, `SELECT `+inboxColumns+` FROM inbox
		WHERE state = 'queued' AND kind = 'message' AND channel = ? AND chat = ? AND thread = ? AND sender = ? AND due <= ?
		ORDER BY at, update_id`, a.Channel, a.Chat, a.Thread, sender, millis(now))
	err = each(rows, err, func(r *sql.Rows) error {
		u, err := scanIncoming(r)
		out = append(out, u)
		return err
	})
	return out, err
}

func take(t *tx, rows []agent.Incoming, turn int64) error {
	for _, r := range rows {
		if _, err := t.exec(`UPDATE inbox SET state = 'taken', turn = ? WHERE update_id = ?`, turn, r.Update); err != nil {
			return err
		}
	}
	return nil
}

func openTurn(t *tx, session int64, asked agent.Incoming, now time.Time) (agent.Turn, error) {
	turn := agent.Turn{
		Scope: agent.Scope{Session: session, Address: asked.Address, Principal: asked.Sender, Private: asked.Private},
		Asked: asked.At, Question: asked.Message, Lang: asked.Lang,
	}
	r, err := t.ExecContext(t.ctx, `INSERT INTO turns (session, principal, name, rights, private, lang, question, state, asked, started)
		VALUES (?,?,?,?,?,?,?,'open',?,?)`, session, asked.Sender.ID, asked.Sender.Name, asked.Sender.Rights, asked.Private,
		asked.Lang, asked.Message, millis(asked.At), millis(now))
	if err != nil {
		return turn, err
	}
	turn.Turn, err = r.LastInsertId()
	return turn, err
}

const openTurns = `SELECT t.id, t.session, s.channel, s.chat, s.thread, t.principal, t.name, t.rights, t.private, t.lang, t.question,
	t.attempts, t.asked, p.message_id, p.at, p.silent
	FROM turns AS t JOIN sessions AS s ON s.id = t.session
	LEFT JOIN outbox AS o ON o.key = 'preview:' || t.id LEFT JOIN sends AS p ON p.post = o.id
	WHERE t.state = 'open' `

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

// Recover counts an attempt for every open turn: the process that ran it died
// without releasing it. It is called once, before the first Open.
func (s *Store) Recover(ctx context.Context) error {
	return s.do(ctx, "Recover", func(t *tx) error {
		_, err := t.exec(`UPDATE turns SET attempts = attempts + 1 WHERE state = 'open'`)
		return err
	})
}

// Open gives the open turns, oldest first: those of a dead process, and those
// that something else than Claim opened.
func (s *Store) Open(ctx context.Context) (out []agent.Turn, err error) {
	rows, err := s.read.QueryContext(ctx, openTurns+`ORDER BY t.id`)
	err = each(rows, err, func(r *sql.Rows) error {
		turn, err := scanTurn(r)
		out = append(out, turn)
		return err
	})
	return out, err
}

// Release says that the process gave the turn up in good order: it stays open,
// and being resumed does not count as an attempt.
func (s *Store) Release(ctx context.Context, turn int64) error {
	return s.do(ctx, "Release", func(t *tx) error {
		_, err := t.exec(`UPDATE turns SET attempts = -1 WHERE id = ? AND state = 'open'`, turn)
		return err
	})
}

// Append adds a step of the turn to its session, or to a session of a sub-agent
// of it. A tool result that is there already (keyed by the call id) is left
// alone. agent.ErrStopped: the turn is over.
func (s *Store) Append(ctx context.Context, session, turn int64, m agent.Message) error {
	return s.do(ctx, "Append", func(t *tx) error {
		n, err := t.exec(`UPDATE turns SET attempts = 0 WHERE id = ? AND state = 'open'`, turn)
		if err != nil {
			return err
		}
		if n == 0 {
			return agent.ErrStopped
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

// Pull takes what the turn's principal wrote at its address since and appends it
// as a user message; nil when there is nothing. The turn's question and the time
// it was asked become those of the last message taken.
func (s *Store) Pull(ctx context.Context, turn agent.Turn, now time.Time, compose Compose) (*agent.Message, error) {
	if waiting, err := s.Joins(ctx, turn, now); err != nil || !waiting {
		return nil, err // the common case costs no write
	}
	var out *agent.Message
	err := s.do(ctx, "Pull", func(t *tx) error {
		rows, err := due(t, turn.Address, turn.Principal.ID, now)
		if err != nil || len(rows) == 0 {
			return err
		}
		last := rows[len(rows)-1]
		n, err := t.exec(`UPDATE turns SET question = ?, asked = ?, attempts = 0 WHERE id = ? AND state = 'open'`, last.Message, millis(last.At), turn.Turn)
		if err != nil {
			return err
		}
		if n == 0 {
			return agent.ErrStopped
		}
		if err := take(t, rows, turn.Turn); err != nil {
			return err
		}
		m := compose(rows)
		out = &m
		return appendMessage(t, turn.Session, turn.Turn, m, now)
	})
	return out, err
}

// Joins tells whether the turn's principal has written something at its address that is due.
func (s *Store) Joins(ctx context.Context, turn agent.Turn, now time.Time) (yes bool, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM inbox
		WHERE state = 'queued' AND kind = 'message' AND channel = ? AND chat = ? AND thread = ? AND sender = ? AND due <= ?)`,
		turn.Address.Channel, turn.Address.Chat, turn.Address.Thread, turn.Principal.ID, millis(now)).Scan(&yes)
	return yes, err
}

// Finish ends an open turn: its last message, its answer and its inbox rows, in
// one transaction. agent.ErrStopped: it is over already, and nothing was stored.
func (s *Store) Finish(ctx context.Context, turn agent.Turn, end agent.Ending) error {
	err := s.do(ctx, "Finish", func(t *tx) error { return finish(t, turn, end) })
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
	if _, err := t.exec(`UPDATE inbox SET state = 'done' WHERE turn = ? AND state = 'taken'`, turn.Turn); err != nil {
		return err
	}
	if _, err := t.exec(`UPDATE sessions SET used = ? WHERE id = ?`, millis(now), turn.Session); err != nil {
		return err
	}
	return post(t, end.Posts)
}

// find gives the turn that runs at an address, or with last the newest one of its session.
func find(t *tx, a agent.Address, last bool) (turn agent.Turn, err error) {
	var asked int64
	found, err := t.row(`SELECT t.id, t.session, t.principal, t.name, t.rights, t.private, t.lang, t.question, t.asked
		FROM turns AS t JOIN sessions AS s ON s.id = t.session
		WHERE s.current = 1 AND s.channel = ? AND s.chat = ? AND s.thread = ? AND (? OR t.state IN ('open', 'waiting')) ORDER BY t.id DESC LIMIT 1`,
		[]any{a.Channel, a.Chat, a.Thread, last}, &turn.Turn, &turn.Session, &turn.Principal.ID, &turn.Principal.Name, &turn.Principal.Rights,
		&turn.Private, &turn.Lang, &turn.Question, &asked)
	if err == nil && !found {
		err = agent.ErrNoTurn
	}
	turn.Address, turn.Asked = a, moment(asked)
	return turn, err
}

// Stop ends the turn that runs at the address: its open calls get a result that
// says so, answer(turn) becomes its answer, and the control row is handled, all
// in one transaction. agent.ErrNoTurn, or agent.ErrNotYours when by is neither
// its principal nor the owner.
func (s *Store) Stop(ctx context.Context, a agent.Address, by agent.Principal, update int64, answer func(agent.Turn) []agent.Post) (turn agent.Turn, err error) {
	err = s.do(ctx, "Stop", func(t *tx) error {
		if turn, err = find(t, a, false); err != nil {
			return err
		}
		if err := mine(turn, by); err != nil {
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

func mine(turn agent.Turn, by agent.Principal) error {
	if turn.Principal.ID != by.ID && by.Rights < agent.Owner {
		return agent.ErrNotYours
	}
	return nil
}

// closeCalls gives every call of the turn that has no result one that says why.
func closeCalls(t *tx, turn int64) error {
	type open struct {
		session int64
		call    agent.Call
	}
	var calls []open
	done := map[string]bool{}
	rows, err := t.QueryContext(t.ctx, `SELECT session, parts FROM messages WHERE turn = ? ORDER BY session, seq`, turn)
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
				done[fmt.Sprint(session, p.Result.CallID)] = true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, c := range calls {
		if done[fmt.Sprint(c.session, c.call.ID)] {
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
// old turn's entries. The control row is handled.
func (s *Store) Retry(ctx context.Context, a agent.Address, by agent.Principal, update int64, again func([]agent.Entry) agent.Message) (old agent.Turn, err error) {
	err = s.do(ctx, "Retry", func(t *tx) error {
		if old, err = find(t, a, true); err != nil {
			return err
		}
		if err := mine(old, by); err != nil {
			return err
		}
		if err := closeCalls(t, old.Turn); err != nil {
			return err
		}
		entries, err := entriesOf(t, old)
		if err != nil {
			return err
		}
		if _, err := t.exec(`UPDATE turns SET state = 'superseded', ended = coalesce(ended, ?) WHERE id = ?`, millis(time.Now()), old.Turn); err != nil {
			return err
		}
		if _, err := t.exec(`UPDATE inbox SET state = 'done' WHERE turn = ? AND state = 'taken'`, old.Turn); err != nil {
			return err
		}
		asked := agent.Incoming{Address: a, Sender: old.Principal, Private: old.Private, Message: old.Question, Lang: old.Lang, At: time.Now()}
		turn, err := openTurn(t, old.Session, asked, time.Now())
		if err != nil {
			return err
		}
		if err := appendMessage(t, old.Session, turn.Turn, again(entries), time.Now()); err != nil {
			return err
		}
		return handled(t, update)
	})
	if err == nil {
		wake(s.inbox)
	}
	return old, err
}
