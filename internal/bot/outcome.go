package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"

	"agentd/internal/agent"
)

// deliver sends a part and says what became of it. What Telegram refuses for a
// reason that can be mended goes once more at once without it. moved is the id
// that the chat has now, 0 if it has not moved.
func (s *sender) deliver(ctx context.Context, send agent.Send) (out agent.Outcome, moved int64) {
	var o outgoing
	if err := json.Unmarshal(send.Body, &o); err != nil {
		return agent.Outcome{Fate: agent.Failed, Reason: "the stored call cannot be read: " + err.Error()}, 0
	}
	for {
		id, err := s.api.post(ctx, send.Address, o)
		if err == nil {
			return agent.Outcome{Fate: agent.Sent, Message: id}, 0
		}
		refused := (*APIError)(nil)
		if !errors.As(err, &refused) {
			return s.unanswered(send, err), 0
		}
		method := o.Method
		if !mend(&o, &send, refused.Description) {
			return s.refused(send, o, refused)
		}
		if o.Method != method {
			return anew(o), 0
		}
		s.log.Debug("sent again without what was refused", "chat", send.Address.Chat, "key", send.Key, "err", err)
	}
}

// mend takes out of a call what Telegram refused; false when it was something
// else. Each mending is possible once, since it removes its own cause.
func mend(o *outgoing, send *agent.Send, description string) bool {
	var params map[string]json.RawMessage
	if json.Unmarshal(o.Params, &params) != nil {
		return false
	}
	_, isReply := params["reply_parameters"]
	_, styled := params["entities"]
	switch {
	case styled && says(description, "parse entities", "entit"):
		delete(params, "entities")
		if o.Plain != "" {
			params["text"], _ = json.Marshal(o.Plain)
		}
	case isReply && says(description, "to be replied not found", "replied message not found", "reply message", "REPLY_MESSAGE"):
		delete(params, "reply_parameters")
	case send.Address.Thread != 0 && says(description, "thread not found", "TOPIC_CLOSED", "TOPIC_DELETED", "TOPIC_ID_INVALID"):
		send.Address.Thread = 0
		delete(params, "reply_parameters") // the message was in the topic (C016)
	case o.Method == "editMessageText" && says(description, "message to edit not found", "message can't be edited", "MESSAGE_ID_INVALID"):
		// Somebody deleted it.
		o.Method = "sendMessage"
		delete(params, "message_id")
	default:
		return false
	}
	o.Params, _ = json.Marshal(params) // raw JSON throughout: it cannot fail
	return true
}

// anew has a message sent in the place of an edit. It is stored first: a new
// message is not to be repeated blindly, as an edit is.
func anew(o outgoing) agent.Outcome {
	body, err := json.Marshal(o)
	if err != nil {
		return agent.Outcome{Fate: agent.Failed, Reason: err.Error()}
	}
	return agent.Outcome{Fate: agent.Retry, Due: time.Now(), Reason: "the message to edit is gone", Instead: &agent.Payload{Body: body}}
}

// refused judges an answer {"ok":false}.
func (s *sender) refused(send agent.Send, o outgoing, err *APIError) (agent.Outcome, int64) {
	out := agent.Outcome{Fate: agent.Failed, Reason: err.Error()}
	said := err.Description
	switch {
	case err.Code == http.StatusTooManyRequests:
		out.Fate, out.Due = agent.Retry, time.Now().Add(max(err.RetryAfter, time.Second))
		s.gate.block(send.Address.Chat, out.Due)
	case err.MigrateTo != 0 && err.MigrateTo != send.Address.Chat:
		out.Fate = agent.Retry
		if send.Tries > 0 { // to and fro: not without pause
			out.Due = retryAt(send)
		}
		return out, err.MigrateTo
	case says(said, "message is not modified"):
		out.Fate, out.Message = agent.Sent, edited(o)
	case o.Method == "deleteMessage" && says(said, "message to delete not found", "message can't be deleted", "MESSAGE_ID_INVALID"):
		out.Fate = agent.Sent // it is gone, or too old for us to remove
	case err.Code == http.StatusForbidden,
		says(said, "chat not found", "PEER_ID_INVALID", "user is deactivated", "CHAT_WRITE_FORBIDDEN", "not enough rights to send", "have no rights to send"):
		out.Fate = agent.Parked
	case err.Code == http.StatusUnauthorized,
		// A token of the wrong form; the poll reports both.
		err.Code == http.StatusNotFound && send.Tries < wrongTries,
		err.Code >= http.StatusInternalServerError && send.Tries < serverTries:
		out.Fate, out.Due = agent.Retry, retryAt(send)
	}
	return out, 0
}

// unanswered judges a call without an answer of the Bot API.
func (s *sender) unanswered(send agent.Send, err error) agent.Outcome {
	call := (*callError)(nil)
	switch {
	case errors.As(err, &call) && call.status/100 == 4 && (call.status == http.StatusRequestEntityTooLarge || send.Tries >= wrongTries):
		return agent.Outcome{Fate: agent.Failed, Reason: err.Error()}
	case surelyFailed(err) || send.Idempotent:
		return agent.Outcome{Fate: agent.Retry, Due: retryAt(send), Reason: err.Error()}
	}
	return s.unknown(send, err.Error())
}

// unknown is the outcome of a part that may have been sent.
func (s *sender) unknown(send agent.Send, reason string) agent.Outcome {
	notice := s.notice(send.Lang, send.Post, send.Part)
	return agent.Outcome{Fate: agent.Uncertain, Reason: reason, Notice: &notice}
}

func retryAt(send agent.Send) time.Time {
	return time.Now().Add(min(retryFirst<<min(send.Tries, 10), retryMost))
}

// edited gives the id of the message that a call edits, 0 if it edits none.
func edited(o outgoing) int64 {
	var m struct {
		ID int64 `json:"message_id"`
	}
	_ = json.Unmarshal(o.Params, &m) // our own JSON
	return m.ID
}

func says(description string, phrases ...string) bool {
	for _, p := range phrases {
		if strings.Contains(strings.ToLower(description), strings.ToLower(p)) {
			return true
		}
	}
	return false
}

// uncertain is the line about a part of which nobody knows whether it was sent.
func (b *Bot) uncertain(lang string, post int64, part int) agent.Payload {
	return noticePayload(b.md.Render(b.say.say(lang, "uncertain")), withKeyboard(&models.InlineKeyboardMarkup{
		InlineKeyboard: [][]models.InlineKeyboardButton{{
			{Text: b.say.plain(lang, "button.resend"), CallbackData: fmt.Sprintf("resend:%d:%d", post, part)},
		}},
	}))
}

// failed tells the owner, and the chat for alarms, that a message was refused.
func (b *Bot) failed(ctx context.Context, send agent.Send, reason string) error {
	if strings.HasPrefix(send.Key, "failed:") {
		return nil // the alarm itself; it is logged
	}
	lang := orElse(b.ownerLang(ctx), send.Lang)
	text := b.md.Render(b.say.say(lang, "failed.owner", "chat", fmt.Sprint(send.Address.Chat), "reason", reason))
	var posts []agent.Post
	for _, chat := range []int64{b.people.ownerID(), b.cfg.Chat} {
		if chat != 0 && (len(posts) == 0 || posts[0].Address.Chat != chat) {
			posts = append(posts, agent.Post{
				Key:     fmt.Sprintf("failed:%d:%d:%d", send.Post, send.Part, chat),
				Address: agent.Address{Channel: Channel, Chat: chat}, Lang: lang, Parts: []agent.Payload{noticePayload(text)},
			})
		}
	}
	return b.store.Post(ctx, posts...)
}
