package bottest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// handlers answer the methods that have effects; Server.mu is held. All other
// methods of the specification are answered by generic.
var handlers = map[string]func(*Server, *request) (any, error){
	"getMe":                  getMe,
	"setWebhook":             setWebhook,
	"deleteWebhook":          deleteWebhook,
	"getWebhookInfo":         getWebhookInfo,
	"sendMessage":            sendMessage,
	"sendRichMessage":        sendRichMessage,
	"sendMessageDraft":       sendMessageDraft,
	"sendRichMessageDraft":   sendMessageDraft,
	"sendMediaGroup":         sendMediaGroup,
	"sendChatAction":         sendChatAction,
	"forwardMessage":         forwardMessage,
	"copyMessage":            copyMessage,
	"editMessageText":        editMessageText,
	"editMessageCaption":     editMessageCaption,
	"editMessageReplyMarkup": editMessageReplyMarkup,
	"editMessageMedia":       editMessageMedia,
	"deleteMessage":          deleteMessage,
	"deleteMessages":         deleteMessages,
	"setMessageReaction":     setMessageReaction,
	"answerCallbackQuery":    answerCallbackQuery,
	"setMyCommands":          setMyCommands,
	"deleteMyCommands":       deleteMyCommands,
	"getMyCommands":          getMyCommands,
	"getFile":                getFile,
	"getChat":                getChat,
	"getChatMember":          getChatMember,
	"getChatAdministrators":  getChatAdministrators,
	"getChatMemberCount":     getChatMemberCount,
	"leaveChat":              leaveChat,
	"createForumTopic":       createForumTopic,
	"editForumTopic":         editForumTopic,
	"closeForumTopic":        editForumTopic,
	"reopenForumTopic":       editForumTopic,
	"deleteForumTopic":       deleteForumTopic,
	"sendPhoto":              sendMedia, "sendDocument": sendMedia, "sendAudio": sendMedia, "sendVideo": sendMedia,
	"sendAnimation": sendMedia, "sendVoice": sendMedia, "sendVideoNote": sendMedia, "sendSticker": sendMedia, "sendLivePhoto": sendMedia,
	"sendLocation": sendObject, "sendVenue": sendObject, "sendContact": sendObject, "sendDice": sendObject, "sendPoll": sendObject,
	"sendInvoice": sendObject, "sendGame": sendObject, "sendChecklist": sendObject, "sendPaidMedia": sendObject,
}

// target checks all that every send has in common and begins the message.
func (s *Server) target(req *request) (*chat, Message, error) {
	c, err := s.resolve(req.args, "chat_id")
	if err != nil {
		return nil, Message{}, err
	}
	m := Message{From: s.bot.ID, FromBot: true, At: time.Now(), Silent: req.bool("disable_notification")}
	if m.Thread, err = c.topic(int(req.int("message_thread_id"))); err != nil {
		return nil, m, err
	}
	if reply := req.obj("reply_parameters"); reply != nil {
		if m.ReplyTo, m.Quote, err = s.reply(c, reply); err != nil {
			return nil, m, err
		}
	}
	if m.markup, m.Buttons, err = buttons(req.obj("reply_markup")); err != nil {
		return nil, m, err
	}
	return c, m, nil
}

// topic checks a message_thread_id. General has the id 1 in updates but is
// refused here, as the real server does (tdlib/telegram-bot-api#798).
func (c *chat) topic(thread int) (int, error) {
	if thread == 0 {
		return 0, nil
	}
	t := c.topics[thread]
	if t == nil {
		return 0, badRequest("message thread not found")
	}
	if t.closed {
		return 0, badRequest("TOPIC_CLOSED")
	}
	return thread, nil
}

func (s *Server) reply(c *chat, reply args) (id int, quote string, err error) {
	there := c
	if reply.has("chat_id") {
		if there, err = s.resolve(reply, "chat_id"); err != nil {
			return 0, "", err
		}
	}
	id = int(reply.int("message_id"))
	i, found := there.find(id)
	if !found {
		if reply.bool("allow_sending_without_reply") && there == c {
			return 0, "", nil
		}
		return 0, "", badRequest("message to be replied not found")
	}
	q, err := reply.formatted("quote", "quote_parse_mode", "quote_entities")
	if err != nil {
		return 0, "", err
	}
	if units(q.text) > MaxCaption || !strings.Contains(there.messages[i].Text, q.text) {
		return 0, "", badRequest("QUOTE_TEXT_INVALID")
	}
	if there != c {
		id = 0 // shown as an external reply
	}
	return id, q.text, nil
}

// buttons checks a reply_markup and reads an inline keyboard's buttons.
func buttons(markup args) (json.RawMessage, [][]Button, error) {
	if markup == nil {
		return nil, nil, nil
	}
	var rows [][]Button
	n := 0
	for _, r := range markup.list("inline_keyboard") {
		var row []Button
		for _, v := range r.([]any) {
			b := args(v.(map[string]any))
			if err := checkButton(b); err != nil {
				return nil, nil, err
			}
			row = append(row, Button{Text: b.str("text"), Data: b.str("callback_data"), URL: b.str("url")})
		}
		if n += len(row); len(row) > 0 {
			rows = append(rows, row)
		}
	}
	if n > 100 {
		return nil, nil, badRequest("reply markup is too long")
	}
	return mustJSON(markup), rows, nil
}

func checkButton(b args) error {
	if blank(b.str("text")) {
		return badRequest("can't parse inline keyboard button: Button text must be non-empty")
	}
	kinds := 0
	for name := range b {
		// go-telegram/bot v1.19.0 adds an empty copy_text to every button,
		// which Telegram overlooks.
		empty := name == "copy_text" && b.obj(name).str("text") == ""
		if name != "text" && name != "style" && name != "icon_custom_emoji_id" && !empty {
			kinds++
		}
	}
	switch data, url := b.str("callback_data"), b.str("url"); {
	case kinds == 0:
		return badRequest("can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard")
	case kinds > 1:
		return badRequest("can't parse inline keyboard button: exactly one of the optional fields must be used")
	case b.has("callback_data") && (data == "" || len(data) > 64):
		return badRequest("BUTTON_DATA_INVALID")
	case b.has("url") && !isLink(url):
		return badRequest("inline keyboard button URL '%s' is invalid: Wrong HTTP URL", url)
	}
	return nil
}

// body reads a message's text and checks its length.
func (a args) body() (richText, error) {
	rt, err := a.formatted("text", "parse_mode", "entities")
	if err != nil {
		return rt, err
	}
	if blank(rt.text) {
		return rt, badRequest("message text is empty")
	}
	if units(rt.text) > MaxText {
		return rt, badRequest("message is too long")
	}
	return rt, nil
}

func (a args) caption() (richText, error) {
	rt, err := a.formatted("caption", "parse_mode", "caption_entities")
	if err == nil && units(rt.text) > MaxCaption {
		err = badRequest("message caption is too long")
	}
	return rt, err
}

// post stores the message and answers it.
func (s *Server) post(req *request, c *chat, m Message) (any, error) {
	m = c.add(m, s.cfg.Keep)
	req.call.Message = m.ID
	return s.messageJSON(c, m), nil
}

func sendMessage(s *Server, req *request) (any, error) {
	rt, err := req.body()
	if err != nil {
		return nil, err
	}
	c, m, err := s.target(req)
	if err != nil {
		return nil, err
	}
	m.Kind, m.Text, m.Entities = "text", rt.text, rt.entities
	m.Preview = !req.obj("link_preview_options").bool("is_disabled")
	return s.post(req, c, m)
}

func richSource(rich args) (string, error) {
	text := rich.str("html")
	if text == "" {
		text = rich.str("markdown")
	}
	if blank(text) {
		return "", badRequest("rich message is empty")
	}
	if units(text) > MaxRich {
		return "", badRequest("message is too long")
	}
	return text, nil
}

func sendRichMessage(s *Server, req *request) (any, error) {
	text, err := richSource(req.obj("rich_message"))
	if err != nil {
		return nil, err
	}
	c, m, err := s.target(req)
	if err != nil {
		return nil, err
	}
	m.Kind, m.Text = "rich_message", text
	m.media = map[string]any{"blocks": []any{map[string]any{"type": "paragraph", "text": text}}}
	return s.post(req, c, m)
}

func sendMessageDraft(s *Server, req *request) (any, error) {
	c, err := s.resolve(req.args, "chat_id")
	if err != nil {
		return nil, err
	}
	if !c.private() {
		return nil, badRequest("message drafts can be sent to private chats only")
	}
	d := Draft{ID: req.int("draft_id"), At: time.Now()}
	if d.ID == 0 {
		return nil, badRequest("draft_id must be non-zero")
	}
	if d.Thread, err = c.topic(int(req.int("message_thread_id"))); err != nil {
		return nil, err
	}
	rt, err := req.formatted("text", "parse_mode", "entities")
	if err != nil {
		return nil, err
	}
	if rich := req.obj("rich_message"); rich != nil {
		if rt.text, err = richSource(rich); err != nil {
			return nil, err
		}
	} else if units(rt.text) > MaxText {
		return nil, badRequest("message is too long")
	}
	d.Text, d.Entities = rt.text, rt.entities
	c.drafts = slices.DeleteFunc(c.drafts, func(o Draft) bool { return o.ID == d.ID && o.Thread == d.Thread || time.Since(o.At) >= draftLife })
	c.drafts = append(c.drafts, d)
	c.record(Event{At: d.At, Kind: "draft", Draft: d}, s.cfg.Keep)
	return true, nil
}

var actions = []string{"typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice",
	"upload_document", "choose_sticker", "find_location", "record_video_note", "upload_video_note"}

func sendChatAction(s *Server, req *request) (any, error) {
	c, err := s.resolve(req.args, "chat_id")
	if err != nil {
		return nil, err
	}
	action := req.str("action")
	if !slices.Contains(actions, action) {
		return nil, badRequest("wrong parameter action in request")
	}
	if thread := int(req.int("message_thread_id")); thread != 1 { // General is fine here
		if c.thread, err = c.topic(thread); err != nil {
			return nil, err
		}
	}
	c.action, c.actionAt = action, time.Now()
	c.record(Event{At: c.actionAt, Kind: "action", Text: action}, s.cfg.Keep)
	return true, nil
}

func forwardMessage(s *Server, req *request) (any, error) {
	c, m, err := s.duplicate(req, "message to forward not found")
	if err != nil {
		return nil, err
	}
	m.Forwarded, m.markup, m.Buttons = true, nil, nil
	return s.post(req, c, m)
}

func copyMessage(s *Server, req *request) (any, error) {
	c, m, err := s.duplicate(req, "message to copy not found")
	if err != nil {
		return nil, err
	}
	if req.has("caption") {
		rt, err := req.caption()
		if err != nil {
			return nil, err
		}
		m.Text, m.Entities = rt.text, rt.entities
	}
	if _, err := s.post(req, c, m); err != nil {
		return nil, err
	}
	return map[string]any{"message_id": req.call.Message}, nil
}

// duplicate begins a message with the content of another.
func (s *Server) duplicate(req *request, missing string) (*chat, Message, error) {
	from, err := s.resolve(req.args, "from_chat_id")
	if err != nil {
		return nil, Message{}, err
	}
	i, found := from.find(int(req.int("message_id")))
	if !found {
		return nil, Message{}, badRequest("%s", missing)
	}
	c, m, err := s.target(req)
	if err != nil {
		return nil, m, err
	}
	src := from.messages[i]
	m.Text, m.Entities, m.Kind, m.File, m.media, m.Preview = src.Text, src.Entities, src.Kind, src.File, src.media, src.Preview
	return c, m, nil
}

func withReactions(all map[int64][]string, who int64, emoji []string) map[int64][]string {
	out := maps.Clone(all)
	if out == nil {
		out = map[int64][]string{}
	}
	if out[who] = emoji; len(emoji) == 0 {
		delete(out, who)
	}
	return out
}
