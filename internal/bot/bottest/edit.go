package bottest

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"time"
)

const (
	notModified = "message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message"
	deleteLife  = 48 * time.Hour   // how long a message can be deleted
	queryLife   = 15 * time.Minute // how long a button press can be answered
)

// editable finds the bot's own message that a call names.
func (s *Server) editable(req *request) (*chat, Message, error) {
	if req.has("inline_message_id") {
		return nil, Message{}, badRequest("MESSAGE_ID_INVALID")
	}
	if !req.has("chat_id") || !req.has("message_id") {
		return nil, Message{}, badRequest("message identifier is not specified")
	}
	c, err := s.resolve(req.args, "chat_id")
	if err != nil {
		return nil, Message{}, err
	}
	i, found := c.find(int(req.int("message_id")))
	if !found {
		return nil, Message{}, badRequest("message to edit not found")
	}
	if !c.messages[i].FromBot {
		return nil, Message{}, badRequest("message can't be edited")
	}
	return c, c.messages[i], nil
}

// edit replaces the message by what change makes of it. An edit without
// reply_markup takes the buttons away.
func (s *Server) edit(req *request, change func(*Message) error) (any, error) {
	c, old, err := s.editable(req)
	if err != nil {
		return nil, err
	}
	m := old
	if m.markup, m.Buttons, err = buttons(req.obj("reply_markup")); err != nil {
		return nil, err
	}
	if err := change(&m); err != nil {
		return nil, err
	}
	if sameContent(old, m) {
		return nil, badRequest("%s", notModified)
	}
	m.Edited, m.Edits, m.raw = time.Now(), m.Edits+1, nil
	c.replace(m, "edit", s.cfg.Keep)
	req.call.Message = m.ID
	return s.messageJSON(c, m), nil
}

func sameContent(a, b Message) bool {
	keyboard := func(m Message) []byte {
		if len(m.Buttons) == 0 {
			return nil
		}
		return m.markup
	}
	return a.Text == b.Text && a.Kind == b.Kind && a.File == b.File && a.Preview == b.Preview &&
		bytes.Equal(keyboard(a), keyboard(b)) &&
		(len(a.Entities) == 0 && len(b.Entities) == 0 || reflect.DeepEqual(a.Entities, b.Entities))
}

func editMessageText(s *Server, req *request) (any, error) {
	return s.edit(req, func(m *Message) error {
		if m.Kind != "text" && m.Kind != "rich_message" {
			return badRequest("there is no text in the message to edit")
		}
		if rich := req.obj("rich_message"); rich != nil {
			text, err := richSource(rich)
			m.Kind, m.Text, m.Entities = "rich_message", text, nil
			m.media = map[string]any{"blocks": []any{map[string]any{"type": "paragraph", "text": text}}}
			return err
		}
		rt, err := req.body()
		m.Kind, m.Text, m.Entities, m.media = "text", rt.text, rt.entities, nil
		m.Preview = !req.obj("link_preview_options").bool("is_disabled")
		return err
	})
}

func editMessageCaption(s *Server, req *request) (any, error) {
	return s.edit(req, func(m *Message) error {
		if m.File == nil {
			return badRequest("there is no caption in the message to edit")
		}
		rt, err := req.caption()
		m.Text, m.Entities = rt.text, rt.entities
		return err
	})
}

func editMessageReplyMarkup(s *Server, req *request) (any, error) {
	return s.edit(req, func(*Message) error { return nil })
}

func editMessageMedia(s *Server, req *request) (any, error) {
	return s.edit(req, func(m *Message) error { return s.inputMedia(req, req.obj("media"), m) })
}

// deletable says why the bot may not delete a message, or nil.
func (s *Server) deletable(c *chat, m Message) error {
	admin := c.members[s.bot.ID] == "administrator" || c.private()
	if !m.FromBot && !admin {
		return badRequest("message can't be deleted")
	}
	if time.Since(m.At) > deleteLife {
		return badRequest("message can't be deleted for everyone")
	}
	return nil
}

func deleteMessage(s *Server, req *request) (any, error) {
	c, err := s.resolve(req.args, "chat_id")
	if err != nil {
		return nil, err
	}
	i, found := c.find(int(req.int("message_id")))
	if !found {
		return nil, badRequest("message to delete not found")
	}
	if err := s.deletable(c, c.messages[i]); err != nil {
		return nil, err
	}
	c.remove(i, s.cfg.Keep)
	return true, nil
}

// deleteMessages skips what is not there, as Telegram does.
func deleteMessages(s *Server, req *request) (any, error) {
	c, err := s.resolve(req.args, "chat_id")
	if err != nil {
		return nil, err
	}
	ids := req.list("message_ids")
	if len(ids) == 0 {
		return nil, badRequest("message identifiers are not specified")
	}
	if len(ids) > 100 {
		return nil, badRequest("too many message identifiers specified")
	}
	for _, id := range ids {
		if i, found := c.find(int(id.(int64))); found && s.deletable(c, c.messages[i]) == nil {
			c.remove(i, s.cfg.Keep)
		}
	}
	return true, nil
}

// The reactions that everybody may use.
var reactionEmoji = strings.Fields("❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤\u200d🔥 🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨\u200d💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷\u200d♂ 🤷 🤷\u200d♀ 😡")

func setMessageReaction(s *Server, req *request) (any, error) {
	c, err := s.resolve(req.args, "chat_id")
	if err != nil {
		return nil, err
	}
	i, found := c.find(int(req.int("message_id")))
	if !found {
		return nil, badRequest("message to react not found")
	}
	var emoji []string
	for _, v := range req.list("reaction") {
		r := args(v.(map[string]any))
		if r.str("type") != "emoji" || !slices.Contains(reactionEmoji, r.str("emoji")) {
			return nil, badRequest("REACTION_INVALID")
		}
		emoji = append(emoji, r.str("emoji"))
	}
	if len(emoji) > 1 { // bots are not Premium users
		return nil, badRequest("REACTIONS_TOO_MANY")
	}
	m := c.messages[i]
	m.Reactions = withReactions(m.Reactions, s.bot.ID, emoji)
	c.replace(m, "reaction", s.cfg.Keep)
	req.call.Message = m.ID
	return true, nil
}

func answerCallbackQuery(s *Server, req *request) (any, error) {
	q := s.callbacks[req.str("callback_query_id")]
	if q == nil || q.Answered || time.Since(q.At) > queryLife {
		return nil, badRequest("query is too old and response timeout expired or query ID is invalid")
	}
	if units(req.str("text")) > 200 {
		return nil, badRequest("MESSAGE_TOO_LONG")
	}
	q.Answered, q.Text, q.Alert = true, req.str("text"), req.bool("show_alert")
	if c := s.chats[q.chat]; c != nil && q.Text != "" {
		c.record(Event{At: time.Now(), Kind: "notice", Text: q.Text}, s.cfg.Keep)
	}
	return true, nil
}
