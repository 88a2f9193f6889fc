package bot

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/go-telegram/bot/models"

	"agentd/internal/agent"
	"agentd/internal/bot/markdown"
)

// outgoing is what an agent.Payload's body holds: one call without its address.
type outgoing struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`          // a JSON object
	Plain  string          `json:"plain,omitempty"` // sent instead, without entities, when Telegram refuses the entities
}

// addressed gives the call's parameters with the address in front.
func (o outgoing) addressed(to agent.Address) json.RawMessage {
	b := append(make([]byte, 0, len(o.Params)+64), `{"chat_id":`...)
	b = strconv.AppendInt(b, to.Chat, 10)
	// Only sends take a thread, and none takes the general topic's: its id, 1, is
	// refused as "message thread not found" (C014).
	if to.Thread > 1 && strings.HasPrefix(o.Method, "send") {
		b = append(b, `,"message_thread_id":`...)
		b = strconv.AppendInt(b, to.Thread, 10)
	}
	if len(o.Params) > 2 {
		b = append(b, ',')
		return append(b, o.Params[1:]...)
	}
	return append(b, '}')
}

// message holds the parameters of sendMessage and editMessageText that we use.
// https://core.telegram.org/bots/api#sendmessage
type message struct {
	MessageID   int64                  `json:"message_id,omitempty"`
	Text        string                 `json:"text"`
	Entities    []models.MessageEntity `json:"entities,omitempty"`
	LinkPreview *linkPreview           `json:"link_preview_options,omitempty"`
	Silent      bool                   `json:"disable_notification,omitempty"`
	Reply       *replyTo               `json:"reply_parameters,omitempty"`
	Keyboard    *keyboard              `json:"reply_markup,omitempty"`
}

// keyboard and button stand in for the library's, whose buttons always carry an
// empty copy_text beside what they are (v1.19.0): two uses where one is allowed.
type keyboard struct {
	Rows [][]button `json:"inline_keyboard"`
}

type button struct {
	Text  string `json:"text"`
	Style string `json:"style,omitempty"`
	URL   string `json:"url,omitempty"`
	Data  string `json:"callback_data,omitempty"`
}

type linkPreview struct {
	Disabled bool `json:"is_disabled"`
}

type replyTo struct {
	MessageID int64 `json:"message_id"`
	Anyway    bool  `json:"allow_sending_without_reply"`
}

// option changes a message.
type option func(*message)

// withSilence sends without a sound.
func withSilence() option { return func(m *message) { m.Silent = true } }

// withReply answers a message of the chat; 0 answers none, and a message that is gone is no obstacle.
func withReply(id int64) option {
	return func(m *message) {
		if id != 0 {
			m.Reply = &replyTo{id, true}
		}
	}
}

// withKeyboard puts buttons under the message, those with a URL or callback data;
// nil puts none. In an edit, no rows take the buttons away.
func withKeyboard(k *models.InlineKeyboardMarkup) option {
	return func(m *message) {
		if k == nil {
			return
		}
		m.Keyboard = &keyboard{Rows: make([][]button, len(k.InlineKeyboard))}
		for i, row := range k.InlineKeyboard {
			for _, b := range row {
				m.Keyboard.Rows[i] = append(m.Keyboard.Rows[i], button{b.Text, b.Style, b.URL, b.CallbackData})
			}
		}
	}
}

// withLinkPreview shows the first link's page under the message when on; without this option it is off.
func withLinkPreview(on bool) option {
	return func(m *message) {
		if on {
			m.LinkPreview = nil
		}
	}
}

// textPayload is a new message. plain is the source text for the case that the
// entities are refused; "" means the text itself.
func textPayload(t markdown.Text, plain string, opts ...option) agent.Payload {
	return payload("sendMessage", message{Text: t.Text, Entities: t.Entities}, plain, opts)
}

// noticePayload is a new message that is sent again when its fate is unknown:
// short lines that do no harm when they come twice.
func noticePayload(t markdown.Text, opts ...option) agent.Payload {
	p := textPayload(t, "", opts...)
	p.Idempotent = true
	return p
}

// editPayload makes the text the one of a message that is there. Should it be
// gone, the text is sent as a new message.
func editPayload(id int64, t markdown.Text, plain string, opts ...option) agent.Payload {
	p := payload("editMessageText", message{MessageID: id, Text: t.Text, Entities: t.Entities}, plain, opts)
	p.Idempotent = true
	return p
}

// deletePayload removes a message; it is no failure that it is gone already.
func deletePayload(id int64) agent.Payload {
	body := `{"method":"deleteMessage","params":{"message_id":` + strconv.FormatInt(id, 10) + `}}`
	return agent.Payload{Body: json.RawMessage(body), Idempotent: true}
}

func payload(method string, m message, plain string, opts []option) agent.Payload {
	m.LinkPreview = &linkPreview{Disabled: true}
	for _, o := range opts {
		o(&m)
	}
	if plain == m.Text {
		plain = ""
	}
	body, err := json.Marshal(struct {
		Method string  `json:"method"`
		Params message `json:"params"`
		Plain  string  `json:"plain,omitempty"`
	}{method, m, plain})
	if err != nil { // strings and numbers only; a keyboard's values are plain data too
		panic("bot: " + err.Error())
	}
	return agent.Payload{Body: body}
}
