package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"agentd/internal/agent"
)

// Channel is the store as one channel sees it: besides the Store's own verbs,
// those about its chats, posts and people. Tests and wire.go make it by
// Store.Channel.
type Channel struct {
	*Store
	name string
}

// Channel gives the store as the named channel sees it.
func (s *Store) Channel(name string) *Channel { return &Channel{s, name} }

// Post stores posts; a key that exists already is left alone.
func (s *Store) Post(ctx context.Context, posts ...agent.Post) error {
	err := s.do(ctx, "Post", func(t *tx) error { return post(t, posts) })
	if err == nil {
		wake(s.outbox)
	}
	return err
}

func post(t *tx, posts []agent.Post) error {
	for _, p := range posts {
		id, fresh, err := postRow(t, "post", p)
		if err != nil {
			return err
		}
		if !fresh {
			continue
		}
		for i, part := range p.Parts {
			if _, err := t.exec(`INSERT INTO sends (post, part, state, idempotent, body) VALUES (?,?,'queued',?,?)`, id, 2*i, part.Idempotent, string(part.Body)); err != nil {
				return err
			}
		}
	}
	return nil
}

func postRow(t *tx, kind string, p agent.Post) (id int64, fresh bool, err error) {
	fresh, err = t.row(`INSERT INTO outbox (key, kind, channel, chat, thread, turn, lang, state, due, created) VALUES (?,?,?,?,?,?,?,'queued',0,?)
		ON CONFLICT (key) DO NOTHING RETURNING id`,
		[]any{p.Key, kind, p.Address.Channel, p.Address.Chat, p.Address.Thread, p.Turn, p.Lang, now()}, &id)
	return id, fresh, err
}

// Lanes gives the chats whose oldest post is due at now, and when the next of
// the others falls due (zero: nothing waits).
func (c *Channel) Lanes(ctx context.Context, at time.Time) (chats []int64, next time.Time, err error) {
	rows, err := c.read.QueryContext(ctx, `SELECT chat, due, min(id) FROM outbox WHERE state = 'queued' AND kind = 'post' AND channel = ? GROUP BY chat`, c.name)
	err = each(rows, err, func(r *sql.Rows) error {
		var chat, due, head int64
		if err := r.Scan(&chat, &due, &head); err != nil {
			return err
		}
		if d := moment(due); d.After(at) {
			if next.IsZero() || d.Before(next) {
				next = d
			}
		} else {
			chats = append(chats, chat)
		}
		return nil
	})
	return chats, next, err
}

// Next marks the oldest unsent part of the chat as on its way and returns it;
// false when the chat has nothing that is due.
func (c *Channel) Next(ctx context.Context, chat int64, at time.Time) (send agent.Send, ok bool, err error) {
	var head struct{ id, due int64 }
	err = c.read.QueryRowContext(ctx, `SELECT id, due FROM outbox WHERE state = 'queued' AND kind = 'post' AND channel = ? AND chat = ? ORDER BY id LIMIT 1`,
		c.name, chat).Scan(&head.id, &head.due)
	if err == sql.ErrNoRows || err == nil && moment(head.due).After(at) {
		return send, false, nil // the common end of a lane costs no write
	}
	if err != nil {
		return send, false, err
	}
	err = c.do(ctx, "Next", func(t *tx) error {
		var body string
		ok, err = t.row(`SELECT s.part, s.idempotent, s.tries, s.body, o.key, o.channel, o.chat, o.thread, o.turn, o.lang
			FROM sends AS s JOIN outbox AS o ON o.id = s.post WHERE s.post = ? AND s.state = 'queued' AND o.state = 'queued' ORDER BY s.part LIMIT 1`,
			[]any{head.id}, &send.Part, &send.Idempotent, &send.Tries, &body, &send.Key, &send.Address.Channel, &send.Address.Chat, &send.Address.Thread, &send.Turn, &send.Lang)
		if err != nil || !ok {
			return err
		}
		send.Post, send.Body = head.id, json.RawMessage(body)
		_, err = t.exec(`UPDATE sends SET state = 'sending', at = ? WHERE post = ? AND part = ?`, millis(at), send.Post, send.Part)
		return err
	})
	return send, ok && err == nil, err
}

// Settle stores what became of a part. The post is done with its last part; a
// part that is Failed or Uncertain does not hold up the others.
func (s *Store) Settle(ctx context.Context, send agent.Send, out agent.Outcome) error {
	err := s.do(ctx, "Settle", func(t *tx) error {
		state := string(out.Fate)
		switch out.Fate {
		case agent.Retry, agent.Parked:
			state = "queued"
		case agent.Uncertain:
			if out.Notice == nil {
				return fmt.Errorf("an uncertain part needs a notice")
			}
			if _, err := t.exec(`INSERT INTO sends (post, part, state, idempotent, body) VALUES (?,?,'queued',1,?) ON CONFLICT DO NOTHING`,
				send.Post, send.Part+1, string(out.Notice.Body)); err != nil {
				return err
			}
		}
		if _, err := t.exec(`UPDATE sends SET state = ?, message_id = ?, reason = ?, tries = tries + ? WHERE post = ? AND part = ?`,
			state, out.Message, out.Reason, out.Fate == agent.Retry, send.Post, send.Part); err != nil {
			return err
		}
		if out.Fate == agent.Parked {
			_, err := t.exec(`UPDATE outbox SET state = 'parked' WHERE state = 'queued' AND kind = 'post' AND channel = ? AND chat = ?`, send.Address.Channel, send.Address.Chat)
			return err
		}
		_, err := t.exec(`UPDATE outbox SET due = ?2, state = CASE WHEN EXISTS (SELECT 1 FROM sends WHERE post = ?1 AND state IN ('queued', 'sending')) THEN state ELSE 'done' END
			WHERE id = ?1`, send.Post, millis(out.Due))
		return err
	})
	if err == nil && out.Fate == agent.Retry {
		wake(s.outbox)
	}
	return err
}

// InFlight gives the parts that a dead process left on their way. Previews are
// not among them: their turn takes care of them.
func (c *Channel) InFlight(ctx context.Context) (out []agent.Send, err error) {
	rows, err := c.read.QueryContext(ctx, `SELECT s.post, s.part, s.idempotent, s.tries, s.body, o.key, o.channel, o.chat, o.thread, o.turn, o.lang
		FROM sends AS s JOIN outbox AS o ON o.id = s.post WHERE s.state = 'sending' AND o.kind = 'post' AND o.channel = ? ORDER BY s.post, s.part`, c.name)
	err = each(rows, err, func(r *sql.Rows) error {
		var s agent.Send
		var body string
		err := r.Scan(&s.Post, &s.Part, &s.Idempotent, &s.Tries, &body, &s.Key, &s.Address.Channel, &s.Address.Chat, &s.Address.Thread, &s.Turn, &s.Lang)
		s.Body = json.RawMessage(body)
		out = append(out, s)
		return err
	})
	return out, err
}

// Resend posts an uncertain part once more. Its key is made of the part, so a
// second press of the button does nothing. false: there is no such uncertain part.
func (c *Channel) Resend(ctx context.Context, chat, of int64, part int) (ok bool, err error) {
	err = c.do(ctx, "Resend", func(t *tx) error {
		var p agent.Post
		var body string
		ok, err = t.row(`SELECT o.thread, o.turn, o.lang, s.body FROM sends AS s JOIN outbox AS o ON o.id = s.post
			WHERE s.post = ? AND s.part = ? AND s.state = 'uncertain' AND o.channel = ? AND o.chat = ?`,
			[]any{of, part, c.name, chat}, &p.Address.Thread, &p.Turn, &p.Lang, &body)
		if err != nil || !ok {
			return err
		}
		p.Key = fmt.Sprintf("resend:%d:%d", of, part)
		p.Address.Channel, p.Address.Chat = c.name, chat
		p.Parts = []agent.Payload{{Body: json.RawMessage(body)}}
		return post(t, []agent.Post{p})
	})
	if err == nil && ok {
		wake(c.outbox)
	}
	return ok && err == nil, err
}

// OpenPreview stores that the turn's preview is about to be sent for the first
// time. agent.ErrStopped: the turn is over.
func (s *Store) OpenPreview(ctx context.Context, turn agent.Turn, silent bool) error {
	return s.do(ctx, "OpenPreview", func(t *tx) error {
		var open bool
		if _, err := t.row(`SELECT EXISTS (SELECT 1 FROM turns WHERE id = ? AND state = 'open')`, []any{turn.Turn}, &open); err != nil {
			return err
		}
		if !open {
			return agent.ErrStopped
		}
		key := fmt.Sprint("preview:", turn.Turn)
		if _, _, err := postRow(t, "preview", agent.Post{Key: key, Address: turn.Address, Turn: turn.Turn, Lang: turn.Lang}); err != nil {
			return err
		}
		_, err := t.exec(`INSERT INTO sends (post, part, state, idempotent, silent, at, body) SELECT id, 0, 'sending', 1, ?, ?, '' FROM outbox WHERE key = ?
			ON CONFLICT DO UPDATE SET state = 'sending', silent = excluded.silent, at = excluded.at, message_id = 0`, silent, now(), key)
		return err
	})
}

// SettlePreview stores the preview's message id; 0 says that it was surely not
// sent. When the turn ended meanwhile, its answer did not know the id, and
// removal is posted.
func (s *Store) SettlePreview(ctx context.Context, turn, message int64, removal agent.Payload) error {
	var removed bool
	err := s.do(ctx, "SettlePreview", func(t *tx) error {
		if message == 0 {
			_, err := t.exec(`DELETE FROM outbox WHERE key = ?`, fmt.Sprint("preview:", turn))
			return err
		}
		if _, err := t.exec(`UPDATE sends SET state = 'sent', message_id = ? WHERE post = (SELECT id FROM outbox WHERE key = ?)`, message, fmt.Sprint("preview:", turn)); err != nil {
			return err
		}
		var err error
		p := agent.Post{Key: fmt.Sprint("unpreview:", turn), Turn: turn, Parts: []agent.Payload{removal}}
		removed, err = t.row(`SELECT o.channel, o.chat, o.thread FROM outbox AS o JOIN turns AS t ON t.id = o.turn WHERE o.key = ? AND t.state NOT IN ('open', 'waiting')`,
			[]any{fmt.Sprint("preview:", turn)}, &p.Address.Channel, &p.Address.Chat, &p.Address.Thread)
		if err != nil || !removed {
			return err
		}
		return post(t, []agent.Post{p})
	})
	if err == nil && removed {
		wake(s.outbox)
	}
	return err
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
	}
	return err
}
