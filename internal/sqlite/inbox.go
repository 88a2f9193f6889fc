package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"agentd/internal/agent"
)

// longestHold parts a message on hold from one that is dated for later: only what
// falls due sooner than this waits for the rest of a paste.
const longestHold = 10 * time.Second

// Accept stores updates in their order and drops those whose key is there
// already. An edit replaces the queued message it edits. A message re-dates what
// its sender still has on hold, so that the pieces of a paste or an album fall
// due together. Whoever writes to us can be reached again: the parked posts of
// their chat are set free. It returns how many updates were new.
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
			messages = messages || u.Kind == agent.KindMessage
			controls = controls || u.Kind == agent.KindControl
			if u.Kind == agent.KindIgnored {
				continue // nobody wrote to us
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
	text, err := json.Marshal(u.Parts)
	if err != nil {
		return false, err
	}
	parts, kind, note, state := string(text), u.Kind, u.Note, "queued"
	switch u.Kind {
	case agent.KindEdit:
		kind, state, note = agent.KindIgnored, "done", "an edit of a message that was taken already"
	case agent.KindIgnored:
		state = "done"
	}
	n, err := t.exec(`INSERT INTO inbox (update_id, kind, channel, chat, thread, sender, name, rights, private, message_id, lang, at, due, state, parts, note, raw)
		VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`,
		u.Update, kind, u.Address.Channel, u.Address.Chat, u.Address.Thread, u.Sender.ID, u.Sender.Name, u.Sender.Rights, u.Private,
		u.Message, u.Lang, millis(u.At), millis(u.Due), state, parts, note, string(u.Raw))
	if err != nil || n == 0 {
		return false, err
	}
	switch u.Kind {
	case agent.KindMessage:
		_, err = t.exec(`UPDATE inbox SET due = ? WHERE state = 'queued' AND kind = 'message' AND channel = ? AND chat = ? AND thread = ? AND sender = ?
			AND due > ? AND due <= ?`, millis(u.Due), u.Address.Channel, u.Address.Chat, u.Address.Thread, u.Sender.ID,
			millis(u.At), millis(u.At.Add(longestHold)))
	case agent.KindEdit: // only now: an older edit that comes again must not undo a newer one
		if n, err = t.exec(`UPDATE inbox SET parts = ? WHERE state = 'queued' AND kind = 'message' AND channel = ? AND chat = ? AND thread = ? AND sender = ? AND message_id = ?`,
			parts, u.Address.Channel, u.Address.Chat, u.Address.Thread, u.Sender.ID, u.Message); err == nil && n > 0 {
			_, err = t.exec(`UPDATE inbox SET note = 'an edit, put in the place of the waiting message' WHERE update_id = ?`, u.Update)
		}
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

// Controls gives the control rows that wait, oldest first, at most 8 of a chat and
// 512 in all: a chat whose commands take long must not hide those of the others.
// A row stays until Handled.
func (s *Store) Controls(ctx context.Context) ([]agent.Incoming, error) {
	return s.incoming(ctx, `update_id IN (SELECT update_id FROM (
			SELECT update_id, row_number() OVER (PARTITION BY channel, chat ORDER BY at, update_id) AS n FROM inbox WHERE state = 'queued' AND kind = 'control')
		WHERE n <= 8) ORDER BY at, update_id LIMIT 512`)
}

// Handled closes a control row and posts what answers it.
func (s *Store) Handled(ctx context.Context, update int64, posts ...agent.Post) error {
	err := s.do(ctx, "Handled", func(t *tx) error {
		if err := handled(t, update); err != nil {
			return err
		}
		return post(t, posts)
	})
	if err == nil {
		wake(s.outbox)
		wake(s.inbox) // what was written after the command may be claimed now
	}
	return err
}

func handled(t *tx, update int64) error {
	_, err := t.exec(`UPDATE inbox SET state = 'done' WHERE update_id = ?`, update)
	return err
}

// Ignored gives the n newest updates that were ignored, newest first, with the reason in Note.
func (s *Store) Ignored(ctx context.Context, n int) ([]agent.Incoming, error) {
	return s.incoming(ctx, `state = 'done' AND kind = 'ignored' ORDER BY at DESC, update_id DESC LIMIT ?`, n)
}

func (s *Store) incoming(ctx context.Context, where string, args ...any) (out []agent.Incoming, err error) {
	rows, err := s.read.query(ctx, `SELECT `+inboxColumns+` FROM inbox WHERE `+where, args...)
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
	_, err = s.read.row(ctx, `SELECT count(*), min(CASE WHEN due > ? THEN due END) FROM inbox WHERE state = 'queued' AND kind = 'message'`,
		[]any{millis(now)}, &n, &due)
	return n, moment(due.Int64), err
}

// uncertainKept is how long the words of an uncertain part stay for its Resend button.
const uncertainKept = 30 * 24 * time.Hour

// Prune deletes what is handled and older than before: inbox rows, posts and
// strangers who were only told their id. What is unfinished stays, however old.
func (s *Store) Prune(ctx context.Context, before time.Time) error {
	return s.do(ctx, "Prune", func(t *tx) error {
		if _, err := t.exec(`DELETE FROM inbox WHERE state = 'done' AND at < ?`, millis(before)); err != nil {
			return err
		}
		if _, err := t.exec(`DELETE FROM people WHERE state = 'greeted' AND max(since, greeted) < ?`, millis(before)); err != nil {
			return err
		}
		_, err := t.exec(`DELETE FROM outbox WHERE state = 'done' AND created < ?
			AND NOT EXISTS (SELECT 1 FROM sends WHERE post = outbox.id AND state = 'uncertain' AND outbox.created > ?)`,
			millis(before), now()-uncertainKept.Milliseconds())
		return err
	})
}
