package sqlite

import (
	"context"
	"database/sql"
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
// can be claimed. A power cut may take it back: nothing but a model is asked
// before Append, OpenPreview or Next follow.
func (s *Store) Claim(ctx context.Context, now time.Time, compose Compose) (turn agent.Turn, ok bool, err error) {
	var a agent.Address
	var sender int64
	// Most often there is nothing: that costs no write.
	found, err := s.read.row(ctx, claimable, []any{millis(now)}, &a.Channel, &a.Chat, &a.Thread, &sender)
	if err != nil || !found {
		return turn, false, err
	}
	err = s.doLazily(ctx, "Claim", func(t *tx) error {
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
