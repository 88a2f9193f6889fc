package bottest

import (
	"strings"
	"testing"
)

// Every refusal in Telegram's own words.
func TestRefusals(t *testing.T) {
	b := newBench(t, Config{})
	mine := b.send(miraID, "mine")
	theirs := b.mira.Send("theirs")
	photo := b.upload("sendDocument", obj{"chat_id": miraID, "document": &Upload{Name: "a.txt", Data: []byte("x")}}).message(t)
	inGroup := b.mira.SendTo(groupID, "theirs")
	stranger := b.User(5, "Stranger", "")
	stranger.Block()
	kicked := b.AddChat(-1001, "supergroup", "Kicked", false)
	kicked.Refuse("bot was kicked from the supergroup chat")
	old := b.AddChat(-4001, "group", "Old", false)
	old.Migrate(-1004001)
	answered := b.mira.Press(b.message(miraID, b.must("sendMessage", obj{"chat_id": miraID, "text": "?",
		"reply_markup": obj{"inline_keyboard": []any{[]any{obj{"text": "Yes", "callback_data": "y"}}}}}).message(t).ID), "y")
	b.must("answerCallbackQuery", obj{"callback_query_id": answered})

	to := obj{"chat_id": miraID}
	text := with(to, obj{"text": "x"})
	edit := func(id int, s string) obj { return obj{"chat_id": miraID, "message_id": id, "text": s} }
	entity := func(typ string, offset, length int) obj { return obj{"type": typ, "offset": offset, "length": length} }
	button := func(fields obj) obj {
		return with(text, obj{"reply_markup": obj{"inline_keyboard": []any{[]any{fields}}}})
	}
	const bad = "Bad Request: "
	for _, c := range []struct {
		name   string
		status int
		text   string
		method string
		params obj
	}{
		{"unknown chat", 400, bad + "chat not found", "sendMessage", obj{"chat_id": 42, "text": "x"}},
		{"unknown name", 400, bad + "chat not found", "sendMessage", obj{"chat_id": "@nobody", "text": "x"}},
		{"no chat", 400, bad + "chat_id is empty", "sendMessage", obj{"text": "x"}},
		{"no text", 400, bad + "message text is empty", "sendMessage", to},
		{"empty text", 400, bad + "message text is empty", "sendMessage", with(to, obj{"text": ""})},
		{"blank text", 400, bad + "message text is empty", "sendMessage", with(to, obj{"text": " \n\t "})},
		{"invisible text", 400, bad + "message text is empty", "sendMessage", with(to, obj{"text": "\u200b\u2800\ufeff"})},
		{"long text", 400, bad + "message is too long", "sendMessage", with(to, obj{"text": long(4097)})},
		{"long in UTF-16", 400, bad + "message is too long", "sendMessage", with(to, obj{"text": strings.Repeat("😀", 2049)})},
		{"long after parsing", 400, bad + "message is too long", "sendMessage", with(to, obj{"text": "<b>" + long(4097) + "</b>", "parse_mode": "HTML"})},
		{"long edit", 400, bad + "message is too long", "editMessageText", edit(mine.ID, long(4097))},
		{"long caption", 400, bad + "message caption is too long", "sendDocument", with(to, obj{"document": b.fileID(), "caption": long(1025)})},
		{"same text", 400, bad + notModified, "editMessageText", edit(mine.ID, "mine")},
		{"edit of nothing", 400, bad + "message to edit not found", "editMessageText", edit(9999, "x")},
		{"edit of theirs", 400, bad + "message can't be edited", "editMessageText", edit(theirs.ID, "x")},
		{"edit text of a file", 400, bad + "there is no text in the message to edit", "editMessageText", edit(photo.ID, "x")},
		{"edit caption of a text", 400, bad + "there is no caption in the message to edit", "editMessageCaption", obj{"chat_id": miraID, "message_id": mine.ID, "caption": "x"}},
		{"edit without an id", 400, bad + "message identifier is not specified", "editMessageText", text},
		{"delete of nothing", 400, bad + "message to delete not found", "deleteMessage", obj{"chat_id": miraID, "message_id": 9999}},
		{"delete of theirs", 400, bad + "message can't be deleted", "deleteMessage", obj{"chat_id": groupID, "message_id": inGroup.ID}},
		{"reply to nothing", 400, bad + "message to be replied not found", "sendMessage", with(text, obj{"reply_parameters": obj{"message_id": 9999}})},
		{"wrong quote", 400, bad + "QUOTE_TEXT_INVALID", "sendMessage", with(text, obj{"reply_parameters": obj{"message_id": theirs.ID, "quote": "others"}})},
		{"unknown topic", 400, bad + "message thread not found", "sendMessage", obj{"chat_id": forumID, "text": "x", "message_thread_id": 999}},
		{"General by id", 400, bad + "message thread not found", "sendMessage", obj{"chat_id": forumID, "text": "x", "message_thread_id": 1}},
		{"topic in a private chat", 400, bad + "message thread not found", "sendMessage", with(text, obj{"message_thread_id": 3})},
		{"button data too long", 400, bad + "BUTTON_DATA_INVALID", "sendMessage", button(obj{"text": "B", "callback_data": long(65)})},
		{"button data empty", 400, bad + "BUTTON_DATA_INVALID", "sendMessage", button(obj{"text": "B", "callback_data": ""})},
		{"button data counted in bytes", 400, bad + "BUTTON_DATA_INVALID", "sendMessage", button(obj{"text": "B", "callback_data": strings.Repeat("ж", 33)})},
		{"button without action", 400, bad + "can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard", "sendMessage", button(obj{"text": "B"})},
		{"button URL", 400, bad + "inline keyboard button URL 'nothing' is invalid: Wrong HTTP URL", "sendMessage", button(obj{"text": "B", "url": "nothing"})},
		{"answer to nothing", 400, bad + "query is too old and response timeout expired or query ID is invalid", "answerCallbackQuery", obj{"callback_query_id": "1"}},
		{"answer twice", 400, bad + "query is too old and response timeout expired or query ID is invalid", "answerCallbackQuery", obj{"callback_query_id": answered}},
		{"HTML", 400, bad + `can't parse entities: Unsupported start tag "t" at byte offset 3`, "sendMessage", with(to, obj{"text": "Vec<T>", "parse_mode": "HTML"})},
		{"MarkdownV2", 400, bad + `can't parse entities: Character '.' is reserved and must be escaped with the preceding '\'`, "sendMessage", with(to, obj{"text": "a.", "parse_mode": "MarkdownV2"})},
		{"Markdown", 400, bad + "can't parse entities: Can't find end of the entity starting at byte offset 2", "sendMessage", with(to, obj{"text": "my_file", "parse_mode": "Markdown"})},
		{"parse mode", 400, bad + "unsupported parse_mode", "sendMessage", with(text, obj{"parse_mode": "BBCode"})},
		{"entity beyond the text", 400, bad + "entity beginning at UTF-16 offset 0 ends after the end of the text at UTF-16 offset 2", "sendMessage", with(text, obj{"entities": []any{entity("bold", 0, 2)}})},
		{"entities cross", 400, bad + "entity beginning at UTF-16 offset 3 ends after the end of the text at UTF-16 offset 12", "sendMessage",
			with(to, obj{"text": long(20), "entities": []any{entity("bold", 0, 6), entity("italic", 3, 9)}})},
		{"entity before the text", 400, bad + "receive an entity with incorrect offset -1", "sendMessage", with(text, obj{"entities": []any{entity("bold", -1, 1)}})},
		{"entity too long for a number", 400, bad + "receive an entity with incorrect length 9223372036854775807", "sendMessage", with(text, obj{"entities": []any{entity("bold", 1, 1<<63-1)}})},
		{"entity in a surrogate pair", 400, bad + "entity beginning at UTF-16 offset 1 begins or ends in a middle of a UTF-16 symbol", "sendMessage", with(to, obj{"text": "😀", "entities": []any{entity("bold", 1, 1)}})},
		{"entity type", 400, bad + "can't parse MessageEntity: Unsupported type specified", "sendMessage", with(text, obj{"entities": []any{entity("sparkle", 0, 1)}})},
		{"code in bold", 400, bad + "can't parse entities: code at UTF-16 offset 1 can't be inside bold", "sendMessage", with(to, obj{"text": "abc", "entities": []any{entity("bold", 0, 3), entity("code", 1, 1)}})},
		{"quote in quote", 400, bad + "can't parse entities: blockquote at UTF-16 offset 1 can't be inside blockquote", "sendMessage", with(to, obj{"text": "abc", "entities": []any{entity("blockquote", 0, 3), entity("blockquote", 1, 1)}})},
		{"link without target", 400, bad + "entity URL '' is invalid: Wrong HTTP URL", "sendMessage", with(text, obj{"entities": []any{entity("text_link", 0, 1)}})},
		{"blocked", 403, "Forbidden: bot was blocked by the user", "sendMessage", obj{"chat_id": 5, "text": "x"}},
		{"blocked for actions too", 403, "Forbidden: bot was blocked by the user", "sendChatAction", obj{"chat_id": 5, "action": "typing"}},
		{"kicked", 403, "Forbidden: bot was kicked from the supergroup chat", "sendMessage", obj{"chat_id": -1001, "text": "x"}},
		{"migrated", 400, bad + "group chat was upgraded to a supergroup chat", "sendMessage", obj{"chat_id": -4001, "text": "x"}},
		{"unknown file", 400, bad + "wrong file identifier/HTTP URL specified", "sendDocument", with(to, obj{"document": "nofile"})},
		{"file by URL", 400, bad + "failed to get HTTP URL content", "sendDocument", with(to, obj{"document": "https://example.org/x"})},
		{"getFile of nothing", 400, bad + "wrong file_id or the file is temporarily unavailable", "getFile", obj{"file_id": "nofile"}},
		{"action", 400, bad + "wrong parameter action in request", "sendChatAction", with(to, obj{"action": "dancing"})},
		{"reaction", 400, bad + "REACTION_INVALID", "setMessageReaction", obj{"chat_id": miraID, "message_id": theirs.ID, "reaction": []any{obj{"type": "emoji", "emoji": "🥔"}}}},
		{"two reactions", 400, bad + "REACTIONS_TOO_MANY", "setMessageReaction", obj{"chat_id": miraID, "message_id": theirs.ID, "reaction": []any{obj{"type": "emoji", "emoji": "👍"}, obj{"type": "emoji", "emoji": "👎"}}}},
		{"draft in a group", 400, bad + "message drafts can be sent to private chats only", "sendMessageDraft", obj{"chat_id": groupID, "draft_id": 1, "text": "x"}},
		{"command name", 400, bad + "BOT_COMMAND_INVALID", "setMyCommands", obj{"commands": []any{obj{"command": "New", "description": "x"}}}},
		{"unknown method", 404, "Not Found", "sendTelepathy", obj{}},
		{"bad secret", 400, bad + "secret token contains unallowed characters", "setWebhook", obj{"url": "https://example.org/", "secret_token": "a b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.t = t
			b.refused(c.status, c.text, c.method, c.params)
		})
	}
	b.t = t
	if r := b.call("sendMessage", obj{"chat_id": -4001, "text": "x"}); r.Parameters["migrate_to_chat_id"] != -1004001.0 {
		t.Errorf("parameters %v", r.Parameters)
	}
	if n := len(b.Chat(miraID).FromBot()); n != 4 { // mine, the file, fileID's, the question
		t.Errorf("refused calls left messages: %d", n)
	}
}

// The limits themselves are allowed.
func TestLimitsAreInclusive(t *testing.T) {
	b := newBench(t, Config{})
	b.send(miraID, long(MaxText))
	b.send(miraID, strings.Repeat("😀", MaxText/2))
	b.must("sendMessage", obj{"chat_id": miraID, "text": "<b>" + long(MaxText) + "</b>", "parse_mode": "HTML"})
	b.must("sendDocument", obj{"chat_id": miraID, "document": b.fileID(), "caption": long(MaxCaption)})
	b.must("sendMessage", obj{"chat_id": miraID, "text": "x", "reply_markup": obj{"inline_keyboard": []any{[]any{obj{"text": "B", "callback_data": long(64)}}}}})
	b.noViolations()
}

func TestWrongToken(t *testing.T) {
	b := newBench(t, Config{})
	for _, path := range []string{"/bot1:wrong/getMe", "/file/bot1:wrong/x", "/botgetMe"} {
		resp, err := b.http.Get("http://api" + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 401 {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

// fileID uploads a document and returns its id.
func (b *bench) fileID() string {
	b.t.Helper()
	m := b.upload("sendDocument", obj{"chat_id": miraID, "document": &Upload{Name: "b.txt", Data: []byte("y")}}).message(b.t)
	return b.message(miraID, m.ID).File.ID
}

func (b *bench) message(chat int64, id int) Message {
	b.t.Helper()
	m, ok := b.Chat(chat).Message(id)
	if !ok {
		b.t.Fatalf("no message %d in %d", id, chat)
	}
	return m
}
