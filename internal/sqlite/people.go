package sqlite

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"fmt"
	"time"

	"agentd/internal/agent"
)

// Limits on what strangers can make us do.
const (
	greetEvery    = 24 * time.Hour // the polite line to one stranger
	greetsAnHour  = 20             // polite lines in all
	openCards     = 5              // cards to the owner that wait for a decision
	pairingTries  = 5              // wrong codes
	pairingBarred = 10 * time.Minute

	greetedOnly agent.PersonState = "greeted" // got the line, but no card: too many were open
)

// Known gives all about whom something was decided, and who asked.
func (c *Channel) Known(ctx context.Context) (out []agent.Known, err error) {
	rows, err := c.read.query(ctx, `SELECT id, state, name, since FROM people WHERE channel = ? AND state <> 'greeted' ORDER BY since, id`, c.name)
	err = each(rows, err, func(r *sql.Rows) error {
		var k agent.Known
		var since int64
		err := r.Scan(&k.ID, &k.State, &k.Name, &since)
		k.Since = moment(since)
		out = append(out, k)
		return err
	})
	return out, err
}

// SetPerson stores a decision; an empty name leaves the known one. What somebody
// who may no longer talk has queued is dropped.
func (c *Channel) SetPerson(ctx context.Context, id int64, state agent.PersonState, name string) error {
	return c.do(ctx, "SetPerson", func(t *tx) error {
		if err := setPerson(t, c.name, id, state, name); err != nil {
			return err
		}
		switch state {
		case agent.PersonDenied, agent.PersonBlocked, agent.PersonRevoked:
			_, err := t.exec(`UPDATE inbox SET state = 'done', kind = 'ignored', note = ? WHERE state = 'queued' AND kind = 'message' AND channel = ? AND (sender = ? OR chat = ?)`,
				"the sender is now "+string(state), c.name, id, id)
			return err
		}
		return nil
	})
}

func setPerson(t *tx, channel string, id int64, state agent.PersonState, name string) error {
	_, err := t.exec(`INSERT INTO people (channel, id, state, name, since) VALUES (?,?,?,?,?) ON CONFLICT DO UPDATE
		SET state = excluded.state, since = excluded.since, name = CASE excluded.name WHEN '' THEN name ELSE excluded.name END`,
		channel, id, state, name, now())
	return err
}

// Greet decides about a stranger who writes in a private chat: whether they get
// the polite line now, and whether the owner gets a card about them.
func (c *Channel) Greet(ctx context.Context, id int64, name string, at time.Time) (line, card bool, err error) {
	err = c.do(ctx, "Greet", func(t *tx) error {
		var state agent.PersonState
		var greeted int64
		known, err := t.row(`SELECT state, greeted FROM people WHERE channel = ? AND id = ?`, []any{c.name, id}, &state, &greeted)
		if err != nil || state == agent.PersonBlocked {
			return err
		}
		var recent, cards int
		if _, err := t.row(`SELECT count(*) FILTER (WHERE greeted > ?), count(*) FILTER (WHERE state = 'asked') FROM people WHERE channel = ?`,
			[]any{millis(at.Add(-time.Hour)), c.name}, &recent, &cards); err != nil {
			return err
		}
		again := known && greeted == millis(at) // the process died before it could say so
		line = again || at.Sub(moment(greeted)) >= greetEvery && recent < greetsAnHour
		card = again && state == agent.PersonAsked || (!known || state == greetedOnly) && cards < openCards
		if line {
			greeted = millis(at)
		}
		if !line && !card {
			return nil
		}
		if card {
			state = agent.PersonAsked
		} else if !known {
			state = greetedOnly
		}
		_, err = t.exec(`INSERT INTO people (channel, id, state, name, greeted, since) VALUES (?,?,?,?,?,?)
			ON CONFLICT DO UPDATE SET state = excluded.state, greeted = excluded.greeted`, c.name, id, state, name, greeted, millis(at))
		return err
	})
	return line && err == nil, card && err == nil, err
}

// StartPairing stores the hash of a new code, valid until expires. Wrong tries of
// before still count against the bar.
func (c *Channel) StartPairing(ctx context.Context, hash string, expires time.Time) error {
	return c.do(ctx, "StartPairing", func(t *tx) error {
		_, err := t.exec(`INSERT INTO pairing (id, hash, expires) VALUES (1, ?, ?) ON CONFLICT DO UPDATE SET hash = excluded.hash, expires = excluded.expires`, hash, millis(expires))
		return err
	})
}

// Pair makes the person the owner when the hash of their code is right and in
// time, nobody is paired, and fewer than 5 wrong tries were made in all; after
// the fifth none counts for 10 minutes. The code works once.
func (c *Channel) Pair(ctx context.Context, id int64, name, hash string, at time.Time) (ok bool, err error) {
	err = c.do(ctx, "Pair", func(t *tx) error {
		var want string
		var expires, barred int64
		var tries int
		var owned bool
		found, err := t.row(`SELECT hash, expires, tries, barred, EXISTS (SELECT 1 FROM people WHERE channel = ? AND state = 'owner') FROM pairing`,
			[]any{c.name}, &want, &expires, &tries, &barred, &owned)
		if err != nil || !found || owned || at.Before(moment(barred)) || !at.Before(moment(expires)) {
			return err
		}
		if subtle.ConstantTimeCompare([]byte(want), []byte(hash)) != 1 {
			if tries++; tries >= pairingTries {
				tries, barred = 0, millis(at.Add(pairingBarred))
			}
			_, err = t.exec(`UPDATE pairing SET tries = ?, barred = ?`, tries, barred)
			return err
		}
		ok = true
		if _, err := t.exec(`DELETE FROM pairing`); err != nil {
			return err
		}
		return setPerson(t, c.name, id, agent.PersonOwner, name)
	})
	if err != nil {
		return false, fmt.Errorf("pairing: %w", err)
	}
	return ok, nil
}
