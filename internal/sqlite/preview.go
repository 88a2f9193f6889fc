package sqlite

import (
	"context"
	"fmt"

	"agentd/internal/agent"
)

func previewKey(turn int64) string { return fmt.Sprint("preview:", turn) }

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
		key := previewKey(turn.Turn)
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
// removal is posted, keyed "unpreview:<turn>". A power cut may take it back until
// the answer is on its way: then the preview stays where it is.
func (s *Store) SettlePreview(ctx context.Context, turn, message int64, removal agent.Payload) error {
	var late bool
	err := s.doLazily(ctx, "SettlePreview", func(t *tx) error {
		key := previewKey(turn)
		if message == 0 {
			_, err := t.exec(`DELETE FROM outbox WHERE key = ?`, key)
			return err
		}
		n, err := t.exec(`UPDATE sends SET state = 'sent', message_id = ? WHERE post = (SELECT id FROM outbox WHERE key = ?) AND state = 'sending'`, message, key)
		if err != nil || n == 0 {
			return err
		}
		p := agent.Post{Key: fmt.Sprint("unpreview:", turn), Turn: turn, Parts: []agent.Payload{removal}}
		late, err = t.row(`SELECT channel, chat, thread, lang FROM outbox WHERE key = ? AND state = 'done'`,
			[]any{key}, &p.Address.Channel, &p.Address.Chat, &p.Address.Thread, &p.Lang)
		if err != nil || !late {
			return err
		}
		return post(t, []agent.Post{p})
	})
	if err == nil && late {
		wake(s.outbox)
	}
	return err
}

// endPreview closes the preview of a turn that ends: whoever ended it knows the
// message, or SettlePreview removes it.
func endPreview(t *tx, turn int64) error {
	_, err := t.exec(`UPDATE outbox SET state = 'done' WHERE key = ?`, previewKey(turn))
	return err
}

// passPreview gives what an unfinished turn shows to the turn in its place, which
// goes on editing it.
func passPreview(t *tx, from, to int64) error {
	_, err := t.exec(`UPDATE outbox SET key = ?, turn = ? WHERE key = ? AND state = 'queued'
		AND EXISTS (SELECT 1 FROM sends WHERE post = outbox.id AND state = 'sent')`, previewKey(to), to, previewKey(from))
	return err
}
