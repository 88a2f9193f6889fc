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

// Compose makes the user message of a turn from the inbox rows that ask it. It
// is called inside the transaction and must be quick and pure.
type Compose = func(rows []agent.Incoming) agent.Message

// claimable finds the oldest due message of an address that is not busy. The
// busy ones are gathered once, from the few open turns (CROSS JOIN keeps that
// order), not looked up for each of the thousands that may wait behind them.
const claimable = `SELECT channel, chat, thread, sender FROM inbox
	WHERE state = 'queued' AND kind = 'message' AND due <= ? AND (channel, chat, thread) NOT IN (
		SELECT s.channel, s.chat, s.thread FROM turns AS t CROSS JOIN sessions AS s ON s.id = t.session
		WHERE t.state IN ('open', 'waiting') AND s.current = 1) AND ` + inOrder + `
	ORDER BY due, update_id LIMIT 1`

// inOrder holds a message back while a command that its sender wrote before it
// waits: what follows a /new belongs to the new session, and no /stop ends what
// was asked after it. Commands wait for milliseconds, but after a crash both may
// be found together.
const inOrder = `NOT EXISTS (SELECT 1 FROM inbox AS c WHERE c.state = 'queued' AND c.kind = 'control' AND c.channel = inbox.channel
	AND c.chat = inbox.chat AND c.thread = inbox.thread AND c.sender = inbox.sender AND c.update_id < inbox.update_id)`

// Claim opens a turn for the due messages of one address and one sender whose
// session has none, oldest first, and appends the user message. false: nothing
// can be claimed.
func (s *Store) Claim(ctx context.Context, now time.Time, compose Compose) (turn agent.Turn, ok bool, err error) {
	err = s.do(ctx, "Claim", func(t *tx) error {
		var a agent.Address
		var sender int64
		found, err := t.row(claimable, []any{millis(now)}, &a.Channel, &a.Chat, &a.Thread, &sender)
		if err != nil || !found {
			return err
		}
		rows, err := due(t, a, sender, now)
		if err != nil {
			return err
		}
		message := compose(rows)
		session, err := current(t, a, title(rows), now)
		if err != nil {
			return err
		}
		last := rows[len(rows)-1]
		turn, err = openTurn(t, session, last, now)
		if err != nil {
			return err
		}
		if err := take(t, turn, now); err != nil {
			return err
		}
		ok = true
		return appendMessage(t, session, turn.Turn, message, now)
	})
	return turn, ok && err == nil, err
}

// theirs selects what one sender has waiting at one address.
const theirs = `state = 'queued' AND kind = 'message' AND channel = ? AND chat = ? AND thread = ? AND sender = ? AND due <= ? AND ` + inOrder

// due reads the due rows of one sender at one address, in the order they came.
func due(t *tx, a agent.Address, sender int64, now time.Time) (out []agent.Incoming, err error) {
	rows, err := t.query(`SELECT `+inboxColumns+` FROM inbox WHERE `+theirs+` ORDER BY at, update_id`, a.Channel, a.Chat, a.Thread, sender, millis(now))
	err = each(rows, err, func(r *sql.Rows) error {
		u, err := scanIncoming(r)
		out = append(out, u)
		return err
	})
	return out, err
}

// take gives the rows that due gave, in the same transaction, to the turn.
func take(t *tx, turn agent.Turn, now time.Time) error {
	_, err := t.exec(`UPDATE inbox SET state = 'taken', turn = ? WHERE `+theirs, turn.Turn,
		turn.Address.Channel, turn.Address.Chat, turn.Address.Thread, turn.Principal.ID, millis(now))
	return err
}

func openTurn(t *tx, session int64, asked agent.Incoming, now time.Time) (agent.Turn, error) {
	turn := agent.Turn{
		Scope: agent.Scope{Session: session, Address: asked.Address, Principal: asked.Sender, Private: asked.Private},
		Asked: asked.At, Question: asked.Message, Lang: asked.Lang,
	}
	var err error
	turn.Turn, err = t.insert(`INSERT INTO turns (session, principal, name, rights, private, lang, question, state, asked, started)
		VALUES (?,?,?,?,?,?,?,'open',?,?)`, session, asked.Sender.ID, asked.Sender.Name, asked.Sender.Rights, asked.Private,
		asked.Lang, asked.Message, millis(asked.At), millis(now))
	return turn, err
}

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

// Pull takes what the turn's principal wrote at its address since and appends it
// as a user message; nil when there is nothing, or the turn's session is no longer
// the current one. The turn's question and the time it was asked become those of
// the last message taken. agent.ErrStopped: the turn is over.
func (s *Store) Pull(ctx context.Context, turn agent.Turn, now time.Time, compose Compose) (*agent.Message, error) {
	if _, waiting, err := s.Joins(ctx, turn, now); err != nil || !waiting {
		return nil, err // the common case costs no write
	}
	var out *agent.Message
	err := s.do(ctx, "Pull", func(t *tx) error {
		if joins, err := t.row(joins, joinArgs(turn, now), new(int64)); err != nil || !joins {
			return err
		}
		rows, err := due(t, turn.Address, turn.Principal.ID, now)
		if err != nil {
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
		if err := take(t, turn, now); err != nil {
			return err
		}
		m := compose(rows)
		out = &m
		return appendMessage(t, turn.Session, turn.Turn, m, now)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// joins has a row when a turn can take in more. After /new what is written
// belongs to the new session, though the old one's turn still runs.
const joins = `SELECT message_id FROM inbox WHERE ` + theirs + ` AND EXISTS (SELECT 1 FROM sessions WHERE id = ? AND current = 1)
	ORDER BY at DESC, update_id DESC LIMIT 1`

func joinArgs(turn agent.Turn, now time.Time) []any {
	return []any{turn.Address.Channel, turn.Address.Chat, turn.Address.Thread, turn.Principal.ID, millis(now), turn.Session}
}

// Joins tells whether Pull would take something, and gives the channel's id of
// the newest message of that.
func (s *Store) Joins(ctx context.Context, turn agent.Turn, now time.Time) (message int64, ok bool, err error) {
	ok, err = s.read.row(ctx, joins, joinArgs(turn, now), &message)
	return message, ok, err
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
