package sqlite

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"agentd/internal/agent"
)

func now() int64 { return time.Now().UnixMilli() }

// titleRunes bounds a session's title in a list.
const titleRunes = 60

// wordless is the title of a conversation that began without words, with a picture for one.
const wordless = "…"

// title is the first words of a turn's first message, for lists.
func title(rows []agent.Incoming) string {
	for _, p := range rows[0].Parts {
		if words := strings.Fields(p.Text); len(words) > 0 {
			r := []rune(strings.Join(words, " "))
			if len(r) > titleRunes {
				return string(r[:titleRunes-1]) + "…"
			}
			return string(r)
		}
	}
	return wordless
}

// current gives the address' session, making one if there is none.
func current(t *tx, a agent.Address, title string, at time.Time) (id int64, err error) {
	found, err := t.row(`SELECT id FROM sessions WHERE current = 1 AND channel = ? AND chat = ? AND thread = ?`, []any{a.Channel, a.Chat, a.Thread}, &id)
	if err != nil {
		return 0, err
	}
	if found {
		_, err = t.exec(`UPDATE sessions SET title = ? WHERE id = ? AND title IN ('', ?)`, title, id, wordless)
		return id, err
	}
	return t.insert(`INSERT INTO sessions (channel, chat, thread, current, title, created, used) VALUES (?,?,?,1,?,?,?)`,
		a.Channel, a.Chat, a.Thread, title, millis(at), millis(at))
}

// NewSession makes a fresh session the current one of the address. The old one
// is kept; a current one without a message stays. A turn that runs goes on in
// the old session.
func (s *Store) NewSession(ctx context.Context, a agent.Address) error {
	return s.do(ctx, "NewSession", func(t *tx) error {
		var used bool
		_, err := t.row(`SELECT EXISTS (SELECT 1 FROM messages WHERE session = s.id) FROM sessions AS s WHERE current = 1 AND channel = ? AND chat = ? AND thread = ?`,
			[]any{a.Channel, a.Chat, a.Thread}, &used)
		if err != nil || !used {
			return err
		}
		if err := retire(t, a); err != nil {
			return err
		}
		_, err = current(t, a, "", time.Now())
		return err
	})
}

func retire(t *tx, a agent.Address) error {
	_, err := t.exec(`UPDATE sessions SET current = 0 WHERE current = 1 AND channel = ? AND chat = ? AND thread = ?`, a.Channel, a.Chat, a.Thread)
	return err
}

// Sessions lists the address' conversations that have begun, the last used first.
func (s *Store) Sessions(ctx context.Context, a agent.Address, limit int) (out []agent.Conversation, err error) {
	rows, err := s.read.query(ctx, `SELECT id, title, current, used, (SELECT count(*) FROM turns WHERE session = s.id) FROM sessions AS s
		WHERE channel = ? AND chat = ? AND thread = ? AND parent IS NULL AND title <> '' ORDER BY used DESC, id DESC LIMIT ?`, a.Channel, a.Chat, a.Thread, limit)
	err = each(rows, err, func(r *sql.Rows) error {
		var c agent.Conversation
		var used int64
		err := r.Scan(&c.ID, &c.Title, &c.Current, &used, &c.Turns)
		c.Used = moment(used)
		out = append(out, c)
		return err
	})
	return out, err
}

// SwitchSession makes an old session the address' current one; false: it is not of this address.
func (s *Store) SwitchSession(ctx context.Context, a agent.Address, id int64) (ok bool, err error) {
	err = s.do(ctx, "SwitchSession", func(t *tx) error {
		if ok, err = owned(t, a, id); err != nil || !ok {
			return err
		}
		if err := retire(t, a); err != nil {
			return err
		}
		_, err := t.exec(`UPDATE sessions SET current = 1 WHERE id = ?`, id)
		return err
	})
	return ok && err == nil, err
}

// DeleteSession erases a session with its words, those in the inbox and the
// outbox included; false: it is not of this address, or a turn runs in it. What
// is still to be sent is sent.
func (s *Store) DeleteSession(ctx context.Context, a agent.Address, id int64) (ok bool, err error) {
	err = s.do(ctx, "DeleteSession", func(t *tx) error {
		if ok, err = owned(t, a, id); err != nil || !ok {
			return err
		}
		var runs bool
		if _, err := t.row(`SELECT EXISTS (SELECT 1 FROM turns WHERE session = ? AND state IN ('open', 'waiting'))`, []any{id}, &runs); err != nil || runs {
			ok = false
			return err
		}
		for _, q := range []string{
			`UPDATE inbox SET parts = '[]', raw = '{}' WHERE turn IN (SELECT id FROM turns WHERE session = ?)`, // the row stays: it refuses repeats
			`DELETE FROM outbox WHERE state = 'done' AND turn IN (SELECT id FROM turns WHERE session = ?)`,
			`DELETE FROM sessions WHERE id = ?`,
		} {
			if _, err := t.exec(q, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || !ok {
		return false, err
	}
	return true, s.write.truncateLog(ctx)
}

func owned(t *tx, a agent.Address, id int64) (yes bool, err error) {
	_, err = t.row(`SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ? AND channel = ? AND chat = ? AND thread = ? AND parent IS NULL)`,
		[]any{id, a.Channel, a.Chat, a.Thread}, &yes)
	return yes, err
}

// Tokens gives the size of the last prompt of the address' current session, as
// the model server counted it; 0 when unknown.
func (s *Store) Tokens(ctx context.Context, a agent.Address) (n int, err error) {
	_, err = s.read.row(ctx, `SELECT t.tokens FROM turns AS t JOIN sessions AS s ON s.id = t.session
		WHERE s.current = 1 AND s.channel = ? AND s.chat = ? AND s.thread = ? AND t.tokens > 0 ORDER BY t.id DESC LIMIT 1`, []any{a.Channel, a.Chat, a.Thread}, &n)
	return n, err
}

// Setting reads a small choice; "" when it was never made.
func (s *Store) Setting(ctx context.Context, key string) (value string, err error) {
	_, err = s.read.row(ctx, `SELECT value FROM settings WHERE key = ?`, []any{key}, &value)
	return value, err
}

// SetSetting stores a small choice; "" forgets it.
func (s *Store) SetSetting(ctx context.Context, key, value string) error {
	return s.do(ctx, "SetSetting", func(t *tx) error {
		if value == "" {
			_, err := t.exec(`DELETE FROM settings WHERE key = ?`, key)
			return err
		}
		_, err := t.exec(`INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
		return err
	})
}

// Migrate moves all that belongs to a chat to the id that the channel gave it.
// Where the new id has a current session already, that one stays current.
func (c *Channel) Migrate(ctx context.Context, old, new int64) error {
	err := c.do(ctx, "Migrate", func(t *tx) error {
		if _, err := t.exec(`UPDATE sessions SET current = 0 WHERE channel = ?1 AND chat = ?2 AND current = 1
			AND EXISTS (SELECT 1 FROM sessions AS n WHERE n.channel = ?1 AND n.chat = ?3 AND n.thread = sessions.thread AND n.current = 1)`, c.name, old, new); err != nil {
			return err
		}
		for _, q := range []string{
			`UPDATE sessions SET chat = ?3 WHERE channel = ?1 AND chat = ?2`,
			`UPDATE inbox SET chat = ?3 WHERE channel = ?1 AND chat = ?2`,
			`UPDATE outbox SET chat = ?3, state = CASE state WHEN 'parked' THEN 'queued' ELSE state END WHERE channel = ?1 AND chat = ?2`,
			`INSERT INTO people (channel, id, state, name, since) SELECT channel, ?3, state, name, since FROM people WHERE channel = ?1 AND id = ?2 ON CONFLICT DO NOTHING`,
			`DELETE FROM people WHERE channel = ?1 AND id = ?2`,
		} {
			if _, err := t.exec(q, c.name, old, new); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		wake(c.outbox)
		wake(c.inbox)
	}
	return err
}
