package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"agentd/internal/agent"
)

// Accept stores updates in their order and drops those whose key is there
// already. An edit replaces the queued message it edits. A message re-dates what
// its sender still has on hold, so that the pieces of a paste or an album fall
// due together. Whoever writes can be reached again: their parked posts are set
// free. It returns how many updates were new.
func (s *Store) Accept(ctx context.Context, in []agent.Incoming) (fresh int, err error) {
	var messages, controls, freed bool
	err = s.do(ctx, "Accept", func(t *tx) error {
		for _, u := range in {
			isNew, err := accept(t, u)
			if err != nil {
				return err
			}
			if !isNew {
				continue
			}
			fresh++
			switch u.Kind {
			case agent.KindMessage:
				messages = true
			case agent.KindControl:
				controls = true
			}
			n, err := t.exec(`UPDATE outbox SET state = 'queued', due = 0 WHERE state = 'parked' AND channel = ? AND chat = ?`,
				u.Address.Channel, u.Address.Chat)
			if err != nil {
				return err
			}
			freed = freed || n > 0
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if messages {
		wake(s.inbox)
	}
	if controls {
		wake(s.control)
	}
	if freed {
		wake(s.outbox)
	}
	return fresh, nil
}

func accept(t *tx, u agent.Incoming) (isNew bool, err error) {
	parts, err := json.Marshal(u.Parts)
	if err != nil {
		return false, err
	}
	kind, note, state := u.Kind, u.Note, "queued"
	if u.Kind == agent.KindEdit {
		kind, state = agent.KindIgnored, "done"
		n, err := t.exec(`UPDATE inbox SET parts = ? WHERE state = 'queued' AND kind = 'message' AND channel = ? AND chat = ? AND thread = ? AND sender = ? AND message_id = ?`,
			string(parts), u.Address.Channel, u.Address.Chat, u.Address.Thread, u.Sender.ID, u.Message)
		if err != nil {
			return false, err
		}
		if note = "an edit of a message that is answered already"; n > 0 {
			note = "an edit, put in the place of the waiting message"
		}
	}
	if u.Kind == agent.KindIgnored {
		state = "done"
	}
	n, err := t.exec(`INSERT INTO inbox (update_id, kind, channel, chat, thread, sender, name, rights, private, message_id, lang, at, due, state, parts, note, raw)
		VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`,
		u.Update, kind, u.Address.Channel, u.Address.Chat, u.Address.Thread, u.Sender.ID, u.Sender.Name, u.Sender.Rights, u.Private,
		u.Message, u.Lang, millis(u.At), millis(u.Due), state, string(parts), note, string(u.Raw))
	if err != nil || n == 0 {
		return false, err
	}
	if u.Kind == agent.KindMessage {
		_, err = t.exec(`UPDATE inbox SET due = ? WHERE state = 'queued' AND kind = 'message' AND channel = ? AND chat = ? AND thread = ? AND sender = ? AND due > ?`,
			millis(u.Due), u.Address.Channel, u.Address.Chat, u.Address.Thread, u.Sender.ID, millis(u.At))
	}
	return true, err
}

const inboxColumns = `update_id, kind, channel, chat, thread, sender, name, rights, private, message_id, lang, at, due, parts, note, raw`

func scanIncoming(rows *sql.Rows) (u agent.Incoming, err error) {
	var at, due int64
	var parts, raw string
	err = rows.Scan(&u.Update, &u.Kind, &u.Address.Channel, &u.Address.Chat, &u.Address.Thread, &u.Sender.ID, &u.Sender.Name,
		&u.Sender.Rights, &u.Private, &u.Message, &u.Lang, &at, &due, &parts, &u.Note, &raw)
	if err != nil {
		return u, err
	}
	u.At, u.Due, u.Raw = moment(at), moment(due), json.RawMessage(raw)
	if err := json.Unmarshal([]byte(parts), &u.Parts); err != nil {
		return u, fmt.Errorf("inbox row %d: %w", u.Update, err)
	}
	return u, nil
}

// Controls gives the control rows that wait, oldest first, at most 64. A row
// stays until Handled.
func (s *Store) Controls(ctx context.Context) ([]agent.Incoming, error) {
	return s.incoming(ctx, `state = 'queued' AND kind = 'control' ORDER BY at, update_id LIMIT 64`)
}

// Handled closes a control row and posts what answers it.
func (s *Store) Handled(ctx context.Context, update int64, posts ...agent.Post) error {
	err := s.do(ctx, "Handled", func(t *tx) error {
		if err := handled(t, update); err != nil {
			return err
		}
		return post(t, posts)
	})
	if err == nil && len(posts) > 0 {
		wake(s.outbox)
	}
	return err
}

func handled(t *tx, update int64) error {
	_, err := t.exec(`UPDATE inbox SET state = 'done' WHERE update_id = ?`, update)
	return err
}

// Ignored gives the n newest updates that were ignored, newest first, with the reason in Note.
func (s *Store) Ignored(ctx context.Context, n int) ([]agent.Incoming, error) {
	return s.incoming(ctx, `kind = 'ignored' ORDER BY at DESC, update_id DESC LIMIT ?`, n)
}

func (s *Store) incoming(ctx context.Context, where string, args ...any) (out []agent.Incoming, err error) {
	rows, err := s.read.QueryContext(ctx, `SELECT `+inboxColumns+` FROM inbox WHERE `+where, args...)
	err = each(rows, err, func(r *sql.Rows) error {
		u, err := scanIncoming(r)
		out = append(out, u)
		return err
	})
	return out, err
}

// Waiting counts the messages that wait for a turn, and tells when the next one
// that is not due yet will be (zero: none).
func (s *Store) Waiting(ctx context.Context, now time.Time) (n int, next time.Time, err error) {
	var due sql.NullInt64
	err = s.read.QueryRowContext(ctx, `SELECT count(*), min(CASE WHEN due > ? THEN due END) FROM inbox WHERE state = 'queued' AND kind = 'message'`,
		millis(now)).Scan(&n, &due)
	return n, moment(due.Int64), err
}

// Prune deletes what is handled and older than before: inbox rows and posts.
func (s *Store) Prune(ctx context.Context, before time.Time) error {
	return s.do(ctx, "Prune", func(t *tx) error {
		if _, err := t.exec(`DELETE FROM inbox WHERE state = 'done' AND at < ?`, millis(before)); err != nil {
			return err
		}
		// An uncertain part keeps its post: the Resend button needs the words.
		_, err := t.exec(`DELETE FROM outbox WHERE state = 'done' AND created < ?
			AND NOT EXISTS (SELECT 1 FROM sends WHERE post = outbox.id AND state = 'uncertain' AND outbox.created > ?)`,
			millis(before), millis(before.Add(-30*24*time.Hour)))
		return err
	})
}
