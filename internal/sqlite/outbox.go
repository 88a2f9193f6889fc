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

// postRow stores a post without its parts. A post for a chat that cannot be
// reached parks behind those that wait there already, so that the order holds.
func postRow(t *tx, kind string, p agent.Post) (id int64, fresh bool, err error) {
	fresh, err = t.row(`INSERT INTO outbox (key, kind, channel, chat, thread, turn, lang, state, due, created)
		VALUES (?1,?2,?3,?4,?5,?6,?7, CASE
			WHEN ?2 = 'post' AND ?9 = 0 THEN 'done'
			WHEN ?2 = 'post' AND EXISTS (SELECT 1 FROM outbox WHERE state = 'parked' AND channel = ?3 AND chat = ?4) THEN 'parked'
			ELSE 'queued' END, 0, ?8) ON CONFLICT (key) DO NOTHING RETURNING id`,
		[]any{p.Key, kind, p.Address.Channel, p.Address.Chat, p.Address.Thread, p.Turn, p.Lang, now(), len(p.Parts)}, &id)
	return id, fresh, err
}

// Lanes gives the chats whose oldest post is due at now, and when the next of
// the others falls due (zero: nothing waits).
func (c *Channel) Lanes(ctx context.Context, at time.Time) (chats []int64, next time.Time, err error) {
	rows, err := c.read.query(ctx, `SELECT chat, due, min(id) FROM outbox WHERE state = 'queued' AND kind = 'post' AND channel = ? GROUP BY chat`, c.name)
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

// sendColumns are read into sendFields.
const sendColumns = `s.post, s.part, s.idempotent, s.tries, s.body, o.key, o.channel, o.chat, o.thread, o.turn, o.lang`

func sendFields(s *agent.Send, body *string) []any {
	return []any{&s.Post, &s.Part, &s.Idempotent, &s.Tries, body, &s.Key, &s.Address.Channel, &s.Address.Chat, &s.Address.Thread, &s.Turn, &s.Lang}
}

// Next marks the oldest unsent part of the chat as on its way and returns it;
// false when the chat has nothing that is due, or a part of it is on its way
// already: what comes first is settled first.
func (c *Channel) Next(ctx context.Context, chat int64, at time.Time) (send agent.Send, ok bool, err error) {
	var head, due int64
	found, err := c.read.row(ctx, `SELECT id, due FROM outbox WHERE state = 'queued' AND kind = 'post' AND channel = ? AND chat = ? ORDER BY id LIMIT 1`,
		[]any{c.name, chat}, &head, &due)
	if err != nil || !found || moment(due).After(at) {
		return send, false, err // the common end of a lane costs no write
	}
	err = c.do(ctx, "Next", func(t *tx) error {
		var body, state string
		ok, err = t.row(`SELECT s.state, `+sendColumns+` FROM sends AS s JOIN outbox AS o ON o.id = s.post
			WHERE s.post = ? AND s.state IN ('queued', 'sending') AND o.state = 'queued' ORDER BY s.part LIMIT 1`,
			[]any{head}, append([]any{&state}, sendFields(&send, &body)...)...)
		if ok = ok && state == "queued"; err != nil || !ok {
			return err
		}
		send.Body = json.RawMessage(body)
		_, err = t.exec(`UPDATE sends SET state = 'sending', at = ? WHERE post = ? AND part = ?`, millis(at), send.Post, send.Part)
		return err
	})
	if !ok || err != nil {
		return agent.Send{}, false, err
	}
	return send, true, nil
}

// Settle stores what became of a part that Next or InFlight gave; settling it
// again does nothing. The post is done with its last part; a part that is Failed
// or Uncertain does not hold up the others. A notice is never uncertain: it is
// sent again.
func (s *Store) Settle(ctx context.Context, send agent.Send, out agent.Outcome) error {
	if out.Fate == agent.Uncertain && out.Notice == nil {
		return fmt.Errorf("Settle: an uncertain part needs a notice")
	}
	if notice := send.Part%2 == 1; notice && out.Fate == agent.Uncertain {
		out.Fate = agent.Retry
	}
	err := s.do(ctx, "Settle", func(t *tx) error { return settle(t, send, out) })
	if err == nil && out.Fate == agent.Retry {
		wake(s.outbox)
	}
	return err
}

func settle(t *tx, send agent.Send, out agent.Outcome) error {
	state := string(out.Fate)
	if out.Fate == agent.Retry || out.Fate == agent.Parked {
		state = "queued"
	}
	n, err := t.exec(`UPDATE sends SET state = ?, message_id = ?, reason = ?, tries = tries + ? WHERE post = ? AND part = ? AND state = 'sending'`,
		state, out.Message, out.Reason, out.Fate == agent.Retry, send.Post, send.Part)
	if err != nil || n == 0 {
		return err
	}
	switch {
	case out.Instead != nil:
		_, err = t.exec(`UPDATE sends SET body = ?, idempotent = ? WHERE post = ? AND part = ?`, string(out.Instead.Body), out.Instead.Idempotent, send.Post, send.Part)
	case out.Fate == agent.Uncertain:
		_, err = t.exec(`INSERT INTO sends (post, part, state, idempotent, body) VALUES (?,?,'queued',1,?)`, send.Post, send.Part+1, string(out.Notice.Body))
	case out.Fate == agent.Parked:
		// The chat is read from the row: it may have moved meanwhile.
		_, err = t.exec(`UPDATE outbox SET state = 'parked' WHERE state = 'queued' AND kind = 'post'
			AND (channel, chat) = (SELECT channel, chat FROM outbox WHERE id = ?)`, send.Post)
		return err
	}
	if err != nil {
		return err
	}
	_, err = t.exec(`UPDATE outbox SET due = ?2, state = CASE WHEN EXISTS (SELECT 1 FROM sends WHERE post = ?1 AND state IN ('queued', 'sending')) THEN state ELSE 'done' END
		WHERE id = ?1`, send.Post, millis(out.Due))
	return err
}

// InFlight gives the parts that a dead process left on their way. Previews are
// not among them: their turn takes care of them.
func (c *Channel) InFlight(ctx context.Context) (out []agent.Send, err error) {
	rows, err := c.read.query(ctx, `SELECT `+sendColumns+` FROM sends AS s JOIN outbox AS o ON o.id = s.post WHERE s.state = 'sending' AND o.kind = 'post' AND o.channel = ? ORDER BY s.post, s.part`, c.name)
	err = each(rows, err, func(r *sql.Rows) error {
		var s agent.Send
		var body string
		err := r.Scan(sendFields(&s, &body)...)
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
