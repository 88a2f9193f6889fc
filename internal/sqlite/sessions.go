package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"agentd/internal/agent"
)

func now() int64 { return time.Now().UnixMilli() }

// titleRunes bounds a session's title in a list.
const titleRunes = 60

// title is the first words of the message, for lists.
func title(m agent.Message) string {
	for _, p := range m.Parts {
		// The supervisor's own stamp stands in brackets before the words.
		if words := strings.Fields(p.Text); len(words) > 0 && !strings.HasPrefix(p.Text, "[") {
			r := []rune(strings.Join(words, " "))
			if len(r) > titleRunes {
				return string(r[:titleRunes-1]) + "…"
			}
			return string(r)
		}
	}
	return ""
}

// current gives the address' session, making one if there is none.
func current(t *tx, a agent.Address, title string, at time.Time) (id int64, err error) {
	found, err := t.row(`SELECT id FROM sessions WHERE current = 1 AND channel = ? AND chat = ? AND thread = ?`, []any{a.Channel, a.Chat, a.Thread}, &id)
	if err != nil {
		return 0, err
	}
	if found {
		_, err = t.exec(`UPDATE sessions SET title = ? WHERE id = ? AND title = ''`, title, id)
		return id, err
	}
	r, err := t.ExecContext(t.ctx, `INSERT INTO sessions (channel, chat, thread, current, title, created, used) VALUES (?,?,?,1,?,?,?)`,
		a.Channel, a.Chat, a.Thread, title, millis(at), millis(at))
	if err != nil {
		return 0, err
	}
	return r.LastInsertId()
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

// Sessions lists the address' conversations that have words in them, the newest first.
func (s *Store) Sessions(ctx context.Context, a agent.Address, limit int) (out []agent.Conversation, err error) {
	rows, err := s.read.QueryContext(ctx, `SELECT id, title, current, used, (SELECT count(*) FROM turns WHERE session = s.id) FROM sessions AS s
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

// DeleteSession erases a session with its words; false: it is not of this address, or a turn runs in it.
func (s *Store) DeleteSession(ctx context.Context, a agent.Address, id int64) (ok bool, err error) {
	err = s.do(ctx, "DeleteSession", func(t *tx) error {
		if ok, err = owned(t, a, id); err != nil || !ok {
			return err
		}
		n, err := t.exec(`DELETE FROM sessions WHERE id = ? AND NOT EXISTS (SELECT 1 FROM turns WHERE session = sessions.id AND state IN ('open', 'waiting'))`, id)
		ok = n > 0
		return err
	})
	return ok && err == nil, err
}

func owned(t *tx, a agent.Address, id int64) (yes bool, err error) {
	_, err = t.row(`SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ? AND channel = ? AND chat = ? AND thread = ? AND parent IS NULL)`,
		[]any{id, a.Channel, a.Chat, a.Thread}, &yes)
	return yes, err
}

// Tokens gives the size of the last prompt of the address' current session, as
// the model server counted it; 0 when unknown.
func (s *Store) Tokens(ctx context.Context, a agent.Address) (n int, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT t.tokens FROM turns AS t JOIN sessions AS s ON s.id = t.session
		WHERE s.current = 1 AND s.channel = ? AND s.chat = ? AND s.thread = ? AND t.tokens > 0 ORDER BY t.id DESC LIMIT 1`, a.Channel, a.Chat, a.Thread).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return n, err
}

// Setting reads a small choice; "" when it was never made.
func (s *Store) Setting(ctx context.Context, key string) (value string, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT value FROM settings WHERE key = ?`, key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
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
