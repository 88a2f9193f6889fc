package bot

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"agentd/internal/agent"
)

const (
	typingAfter = 300 * time.Millisecond  // a short answer needs no other call
	typingEvery = 4500 * time.Millisecond // Telegram shows it for 5 s (C108)
)

// typing shows the chat that the bot is at work until ctx ends. It is a
// courtesy: failures are ignored, and it takes no place at the flood gate.
// https://core.telegram.org/bots/api#sendchataction
func (b *Bot) typing(ctx context.Context, to agent.Address) {
	action := outgoing{Method: "sendChatAction", Params: json.RawMessage(`{"action":"typing"}`)}
	for pause := typingAfter; sleep(ctx, pause); {
		pause = typingEvery
		if b.gate.penalized(to.Chat) {
			continue
		}
		began := time.Now()
		call, cancel := context.WithTimeout(ctx, typingEvery)
		_, err := b.api.post(call, to, action)
		cancel()
		pause -= time.Since(began)
		refused := (*APIError)(nil)
		switch {
		case err == nil:
			continue
		case errors.As(err, &refused) && refused.Code == http.StatusForbidden:
			return // the answer will find out, and park the chat
		case errors.As(err, &refused):
			pause = max(pause, refused.RetryAfter)
		}
		b.log.Debug("typing not shown", "chat", to.Chat, "err", err)
	}
}
