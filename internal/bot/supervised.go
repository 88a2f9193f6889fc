package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"agentd/internal/agent"
)

// What the supervisor wants of its channel besides Follow.

// courtesyTimeout bounds a call that nothing depends on.
const courtesyTimeout = 5 * time.Second

// Rights gives what the turn's principal may do now.
func (b *Bot) Rights(ctx context.Context, turn agent.Turn) (agent.Rights, error) {
	if err := b.people.ensure(ctx); err != nil {
		return agent.Stranger, err
	}
	return b.people.rights(turn.Principal.ID, turn.Address.Chat), nil
}

// Remove gives the post that takes away a turn's preview, if one is known.
func (b *Bot) Remove(turn agent.Turn) []agent.Post {
	if turn.Preview == nil || turn.Preview.Message == 0 {
		return nil
	}
	return []agent.Post{{
		Key: fmt.Sprint("unpreview:", turn.Turn), Address: turn.Address, Turn: turn.Turn, Lang: turn.Lang,
		Parts: []agent.Payload{deletePayload(turn.Preview.Message)},
	}}
}

// Tell sends the sentence of a fault at once and past the outbox, for when the
// outbox cannot be written. It may be lost.
func (b *Bot) Tell(ctx context.Context, turn agent.Turn, f *agent.Fault) {
	if err := b.tell(ctx, turn.Address, b.explain(turn.Lang, f)); err != nil {
		b.log.Warn("a fault could not be told", "chat", turn.Address.Chat, "turn", turn.Turn, "err", err)
	}
}

// tell sends a sentence at once and past the outbox.
func (b *Bot) tell(ctx context.Context, to agent.Address, sentence string) error {
	t := b.md.Render(sentence)
	params, err := json.Marshal(message{Text: t.Text, Entities: t.Entities, LinkPreview: &linkPreview{true}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, courtesyTimeout)
	defer cancel()
	_, err = b.api.post(ctx, to, outgoing{Method: "sendMessage", Params: params})
	return err
}

// Seen shows the person that their message waits for the turn that runs. It is a
// courtesy and may be lost.
// https://core.telegram.org/bots/api#setmessagereaction
func (b *Bot) Seen(ctx context.Context, to agent.Address, message int64) {
	seen := outgoing{Method: "setMessageReaction", Params: json.RawMessage(fmt.Sprintf(`{"message_id":%d,"reaction":[{"type":"emoji","emoji":"👀"}]}`, message))}
	ctx, cancel := context.WithTimeout(ctx, courtesyTimeout)
	defer cancel()
	if _, err := b.api.post(ctx, to, seen); err != nil {
		b.log.Debug("not shown as seen", "chat", to.Chat, "err", err)
	}
}
