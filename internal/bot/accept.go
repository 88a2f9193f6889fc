package bot

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/go-telegram/bot/models"

	"agentd/internal/agent"
)

// A text that fills a whole message may be the first piece of a paste, and an
// album comes as a message for each picture: both wait a moment for the rest (C099).
const (
	holdTime  = 700 * time.Millisecond
	holdUnits = 4000 // UTF-16 units; apps cut at 4,096, on a word's end
)

// accept makes an Incoming of an update. It never fails: what it cannot decode, or
// does not know, is kept as ignored, with the reason, so that one odd update does
// not stop those behind it (C074).
func (b *Bot) accept(raw json.RawMessage, now time.Time) (in agent.Incoming) {
	in = agent.Incoming{Kind: agent.KindIgnored, Address: agent.Address{Channel: Channel}, At: now, Due: now, Raw: raw}
	defer func() {
		if p := recover(); p != nil {
			b.log.Error("an update broke its reader", "update", in.Update, "err", p, "stack", string(debug.Stack()))
			in.Kind, in.Parts, in.Note = agent.KindIgnored, nil, "it broke its reader"
		}
	}()
	var u models.Update
	if err := json.Unmarshal(raw, &u); err != nil {
		var id struct {
			Update int64 `json:"update_id"`
		}
		_ = json.Unmarshal(raw, &id)
		in.Update, in.Note = id.Update, "cannot be decoded: "+err.Error()
		b.log.Warn("ignored an update that cannot be decoded", "update", in.Update, "err", err)
		return in
	}
	in.Update = u.ID
	me := b.identity()
	switch {
	case u.Message != nil:
		b.acceptMessage(&in, me, u.Message, false)
	case u.EditedMessage != nil:
		b.acceptMessage(&in, me, u.EditedMessage, true)
	case u.CallbackQuery != nil:
		b.acceptButton(&in, u.CallbackQuery)
	case u.MyChatMember != nil:
		b.acceptMembership(&in, u.MyChatMember)
	case u.ChannelPost != nil:
		in.Address.Chat, in.Note = u.ChannelPost.Chat.ID, "a channel's post"
	case u.EditedChannelPost != nil:
		in.Address.Chat, in.Note = u.EditedChannelPost.Chat.ID, "a channel's post"
	default:
		in.Note = "not of use: " + strings.Join(keysBut(raw, "update_id"), ", ")
	}
	return in
}

func (b *Bot) identity() identity {
	id, username := b.Me()
	return identity{id, username}
}

func (b *Bot) acceptMessage(in *agent.Incoming, me identity, m *models.Message, edited bool) {
	in.Address.Chat, in.Address.Thread = m.Chat.ID, thread(m)
	in.Private = m.Chat.Type == models.ChatTypePrivate
	in.Message = int64(m.ID)
	if m.From != nil {
		in.Lang = language(m.From)
	}
	if m.MigrateToChatID != 0 {
		b.people.move(m.Chat.ID, m.MigrateToChatID)
		in.Kind = agent.KindControl
		return
	}
	in.Sender = b.people.sender(m)
	if in.Note = b.unanswerable(in, me, m); in.Note != "" {
		return
	}
	if in.Sender.Rights == agent.Stranger {
		switch {
		case !in.Private:
			in.Note = "a stranger in a group"
		case in.Sender.ID <= 0:
			in.Note = "a sender that many share"
		case edited:
			in.Note = "a stranger's edit"
		case b.people.state(in.Sender.ID) == agent.PersonBlocked:
			in.Note = "blocked"
		default: // gets a polite line, unless it is the pairing code
			in.Kind = agent.KindControl
		}
		return
	}
	if !edited && m.ForwardOrigin == nil && m.ViaBot == nil {
		if cmd, ok := parseCommand(me.unmentioned(m.Text)); ok && !me.named(cmd.bot) {
			in.Note = "a command for another bot"
			return
		}
		if b.isControl(in, me, m) {
			in.Kind = agent.KindControl
			return
		}
	}
	in.Parts = b.parts(me, m)
	if len(in.Parts) == 0 {
		in.Note = "no content: " + strings.Join(contentKeys(in.Raw), ", ")
		return
	}
	if in.Kind = agent.KindMessage; edited {
		in.Kind = agent.KindEdit
	}
	if m.MediaGroupID != "" || units(m.Text) >= holdUnits {
		in.Due = in.At.Add(holdTime)
	}
}

// unanswerable gives the reason why a message is nobody's question; "" there is none.
func (b *Bot) unanswerable(in *agent.Incoming, me identity, m *models.Message) string {
	switch {
	case m.From != nil && m.From.ID == me.id:
		return "my own message"
	case m.From != nil && m.From.IsBot && !shared(m.From.ID):
		return "another bot's message" // two bots would answer each other without end (C110)
	case m.Chat.ID == 0:
		return "without a chat"
	case !hasContent(m):
		return "no content: " + strings.Join(contentKeys(in.Raw), ", ")
	case in.Private:
		return ""
	case m.Chat.Type == models.ChatTypeChannel:
		return "a channel's post"
	case !me.addressed(m):
		return "not addressed to me"
	}
	return ""
}

// isControl says that a message is a command, a word that stops, or the code of a
// pairing. A forwarded or edited one never is, nor one that an inline bot wrote.
func (b *Bot) isControl(in *agent.Incoming, me identity, m *models.Message) bool {
	text := me.unmentioned(m.Text)
	if _, ok := parseCommand(text); ok || isStop(text) {
		return true
	}
	_, code := parseCode(text)
	return code && in.Private && b.people.ownerID() == 0
}

func (b *Bot) acceptButton(in *agent.Incoming, q *models.CallbackQuery) {
	in.Lang = language(&q.From)
	in.Sender = agent.Principal{ID: q.From.ID, Name: userName(&q.From)}
	switch {
	case q.Message.Message != nil:
		m := q.Message.Message
		in.Address.Chat, in.Address.Thread = m.Chat.ID, thread(m)
		in.Private, in.Message = m.Chat.Type == models.ChatTypePrivate, int64(m.ID)
	case q.Message.InaccessibleMessage != nil: // too old for Telegram to show it to us
		m := q.Message.InaccessibleMessage
		in.Address.Chat, in.Private, in.Message = m.Chat.ID, m.Chat.Type == models.ChatTypePrivate, int64(m.MessageID)
	}
	if in.Address.Chat == 0 {
		in.Note = "a button without a chat"
		return
	}
	in.Sender.Rights = b.people.rights(q.From.ID, in.Address.Chat)
	in.Kind = agent.KindControl
}

// acceptMembership looks for the one change that matters: we can no longer write to the chat.
func (b *Bot) acceptMembership(in *agent.Incoming, u *models.ChatMemberUpdated) {
	in.Address.Chat, in.Private = u.Chat.ID, u.Chat.Type == models.ChatTypePrivate
	in.Lang = language(&u.From)
	in.Sender = agent.Principal{ID: u.From.ID, Name: userName(&u.From), Rights: b.people.rights(u.From.ID, u.Chat.ID)}
	if gone(u) {
		in.Kind = agent.KindControl
		return
	}
	in.Note = "my membership is now: " + string(u.NewChatMember.Type)
}

// gone says that the bot was blocked, or thrown out of the chat.
func gone(u *models.ChatMemberUpdated) bool {
	return u.NewChatMember.Type == models.ChatMemberTypeBanned || u.NewChatMember.Type == models.ChatMemberTypeLeft
}

// thread gives the topic. Replies carry a thread id outside of forums too, and the
// general topic's id, 1, is refused when sent (C014).
func thread(m *models.Message) int64 {
	if m.IsTopicMessage && m.MessageThreadID != 1 {
		return int64(m.MessageThreadID)
	}
	return 0
}

func language(u *models.User) string {
	if len(u.LanguageCode) > 35 { // the longest tag of RFC 5646
		return ""
	}
	return cleanName(u.LanguageCode)
}

// units counts as Telegram does.
func units(s string) int {
	if len(s) < holdUnits {
		return len(s) // only ever compared with holdUnits; no fewer bytes than units
	}
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// contentKeys names what a message holds beyond its envelope, for the reason why
// it was ignored.
func contentKeys(raw json.RawMessage) []string {
	var u struct {
		Message json.RawMessage `json:"message"`
		Edited  json.RawMessage `json:"edited_message"`
	}
	_ = json.Unmarshal(raw, &u)
	if u.Message == nil {
		u.Message = u.Edited
	}
	keys := keysBut(u.Message, "message_id", "from", "chat", "date", "edit_date", "sender_chat", "message_thread_id",
		"is_topic_message", "reply_to_message", "author_signature", "sender_boost_count", "has_protected_content")
	if len(keys) == 0 {
		return []string{"nothing"}
	}
	return keys
}

// keysBut names a JSON object's keys, at most eight, each cut: they are somebody else's text.
func keysBut(raw json.RawMessage, known ...string) []string {
	var object map[string]json.RawMessage
	_ = json.Unmarshal(raw, &object)
	keys := slices.Sorted(maps.Keys(object))
	keys = slices.DeleteFunc(keys, func(k string) bool { return slices.Contains(known, k) })
	keys = keys[:min(len(keys), 8)]
	for i, k := range keys {
		keys[i] = cleanName(k)
	}
	return keys
}

func seconds(n int) string { return fmt.Sprintf("%d s", n) }
