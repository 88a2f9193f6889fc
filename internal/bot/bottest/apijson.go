package bottest

import (
	"encoding/json"
)

// The API's own shapes, as far as answers and updates need them.

type apiUser struct {
	ID           int64  `json:"id"`
	IsBot        bool   `json:"is_bot"`
	FirstName    string `json:"first_name"`
	LastName     string `json:"last_name,omitempty"`
	Username     string `json:"username,omitempty"`
	LanguageCode string `json:"language_code,omitempty"`
}

type apiChat struct {
	ID        int64  `json:"id"`
	Type      string `json:"type"`
	Title     string `json:"title,omitempty"`
	Username  string `json:"username,omitempty"`
	FirstName string `json:"first_name,omitempty"`
	LastName  string `json:"last_name,omitempty"`
	IsForum   bool   `json:"is_forum,omitempty"`
}

type apiMessage struct {
	ID              int             `json:"message_id"`
	Thread          int             `json:"message_thread_id,omitempty"`
	From            *apiUser        `json:"from,omitempty"`
	SenderChat      *apiChat        `json:"sender_chat,omitempty"`
	Date            int64           `json:"date"`
	Chat            apiChat         `json:"chat"`
	ForwardOrigin   any             `json:"forward_origin,omitempty"`
	IsTopic         bool            `json:"is_topic_message,omitempty"`
	ReplyTo         json.RawMessage `json:"reply_to_message,omitempty"`
	Quote           map[string]any  `json:"quote,omitempty"`
	EditDate        int64           `json:"edit_date,omitempty"`
	MediaGroup      string          `json:"media_group_id,omitempty"`
	Text            string          `json:"text,omitempty"`
	Entities        []Entity        `json:"entities,omitempty"`
	Caption         string          `json:"caption,omitempty"`
	CaptionEntities []Entity        `json:"caption_entities,omitempty"`
	ReplyMarkup     json.RawMessage `json:"reply_markup,omitempty"`
}

// messageJSON is the message as the API tells it.
func (s *Server) messageJSON(c *chat, m Message) json.RawMessage { return s.encodeMessage(c, m, true) }

func (s *Server) encodeMessage(c *chat, m Message, withReply bool) json.RawMessage {
	if m.raw != nil {
		return m.raw
	}
	out := apiMessage{ID: m.ID, Date: m.At.Unix(), Chat: c.apiChat, Thread: m.Thread, IsTopic: m.Thread != 0, MediaGroup: m.Group}
	switch {
	case m.FromBot:
		out.From = &s.bot
	case s.people[m.From] != nil:
		out.From = &s.people[m.From].apiUser
	case c.Type == "channel":
		out.SenderChat = &c.apiChat
	}
	if !m.Edited.IsZero() {
		out.EditDate = m.Edited.Unix()
	}
	if len(m.Buttons) > 0 {
		out.ReplyMarkup = m.markup
	}
	if m.Kind == "text" {
		out.Text, out.Entities = m.Text, m.Entities
	} else {
		out.Caption, out.CaptionEntities = m.Text, m.Entities
	}
	if m.Forwarded {
		out.ForwardOrigin = map[string]any{"type": "hidden_user", "sender_user_name": "Somebody", "date": m.At.Unix()}
	}
	if i, found := c.find(m.ReplyTo); found && withReply {
		out.ReplyTo = s.encodeMessage(c, c.messages[i], false)
		if m.Quote != "" {
			out.Quote = map[string]any{"text": m.Quote, "position": 0, "is_manual": true}
		}
	}
	if m.Kind == "text" {
		return mustJSON(out)
	}
	return s.withMedia(mustJSON(out), m)
}

// withMedia adds the field named after the message's kind.
func (s *Server) withMedia(encoded json.RawMessage, m Message) json.RawMessage {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &all); err != nil {
		panic("bottest: " + err.Error())
	}
	var value any = m.media
	if v, single := m.media[""]; single { // service messages
		value = v
	}
	all[m.Kind] = mustJSON(value)
	switch m.Kind {
	case "animation": // stands in both fields
		all["document"] = mustJSON(s.fileJSON(m.File, "Document"))
	case "photo":
		all["photo"] = mustJSON([]any{m.media})
	}
	return mustJSON(all)
}
