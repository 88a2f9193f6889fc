package bottest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSpecIsWhole(t *testing.T) {
	sp, err := loadSpec()
	if err != nil {
		t.Fatal(err)
	}
	if sp.Version != "Bot API 10.1" || len(sp.Methods) != 180 || len(sp.Types) != 359 {
		t.Errorf("%s: %d methods, %d types", sp.Version, len(sp.Methods), len(sp.Types))
	}
}

func TestViolations(t *testing.T) {
	text := obj{"chat_id": miraID, "text": "x"}
	markup := func(m obj) obj { return with(text, obj{"reply_markup": m}) }
	for _, c := range []struct {
		method string
		params obj
		want   string
	}{
		{"sendMessage", obj{"chat_id": miraID}, "sendMessage: text is required"},
		{"sendMessage", with(text, obj{"disable_web_page_preview": true}), "sendMessage: unknown field disable_web_page_preview"},
		{"sendMessage", with(text, obj{"text": []int{1}}), "sendMessage: text must be of type String"},
		{"sendMessage", with(text, obj{"message_thread_id": 1.5}), "sendMessage: message_thread_id must be of type Integer"},
		{"sendMessage", with(text, obj{"disable_notification": "maybe"}), "sendMessage: disable_notification must be of type Boolean"},
		{"sendMessage", with(text, obj{"entities": obj{}}), "sendMessage: entities must be an Array"},
		{"sendMessage", with(text, obj{"entities": []any{obj{"type": "bold", "offset": "0", "length": 1}}}), "sendMessage: entities[0].offset must be of type Integer"},
		{"sendMessage", with(text, obj{"reply_parameters": obj{"message_id": 1, "quote_": "x"}}), "sendMessage: unknown field reply_parameters.quote_"},
		{"sendMessage", markup(obj{"inline_keyboard": []any{[]any{obj{"callback_data": "x"}}}}), "sendMessage: reply_markup.inline_keyboard[0][0].text is required"},
		{"sendMessage", markup(obj{"keyboard": []any{[]any{obj{"text": "x"}}}, "resize": true}), "sendMessage: unknown field reply_markup.resize"},
		{"setMessageReaction", obj{"chat_id": miraID, "message_id": 1, "reaction": []any{obj{"type": "emoji", "emoji_": "x"}}}, "setMessageReaction: reaction[0].emoji is required; unknown field reaction[0].emoji_"},
		{"setMyCommands", obj{"commands": []any{}, "scope": obj{"type": "chat"}}, "setMyCommands: scope.chat_id is required"},
		{"sendDocument", obj{"chat_id": miraID, "document": obj{}}, "sendDocument: document must be of type InputFile"},
		{"editMessageMedia", obj{"chat_id": miraID, "message_id": 1, "media": obj{"type": "photo"}}, "editMessageMedia: media.media is required"},
		{"sendTelepathy", obj{}, "sendTelepathy: no such method"},
	} {
		b := newBench(t, Config{})
		r := b.call(c.method, c.params)
		if got := b.Violations(); r.OK || !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: ok=%v, %q, want %q", c.method, r.OK, got, c.want)
		}
	}
}

// What the real server accepts in every kind of body.
func TestBodies(t *testing.T) {
	b := newBench(t, Config{})
	markup := `{"inline_keyboard":[[{"text":"B","callback_data":"b"}]]}`
	urlencoded := "chat_id=100200300&text=x&disable_notification=true&reply_markup=" + strings.ReplaceAll(markup, `"`, "%22")
	contentType, multipart := form(t, obj{"chat_id": miraID, "text": "x", "disable_notification": true, "reply_markup": markup})
	for _, c := range []struct{ query, contentType, body string }{
		{"", "application/json", `{"chat_id":100200300,"text":"x","disable_notification":true,"reply_markup":` + markup + `}`},
		{"", "application/json; charset=utf-8", `{"chat_id":"100200300","text":"x","disable_notification":"true","reply_markup":"` + strings.ReplaceAll(markup, `"`, `\"`) + `","entities":null}`},
		{"", "application/x-www-form-urlencoded", urlencoded},
		{"", contentType, multipart.String()},
		{"?" + urlencoded, "", ""},
		{"?chat_id=100200300&text=x&disable_notification=1", "application/json", `{"reply_markup":` + markup + `}`},
	} {
		r, err := b.post(t.Context(), "SENDmessage"+c.query, c.contentType, strings.NewReader(c.body))
		if err != nil || !r.OK {
			t.Fatalf("%s %s: %+v %v", c.contentType, c.query, r, err)
		}
		m := b.message(miraID, r.message(t).ID)
		if m.Text != "x" || !m.Silent || len(m.Buttons) != 1 || m.Buttons[0][0].Data != "b" {
			t.Errorf("%s: %+v", c.contentType, m)
		}
	}
	b.noViolations()
	for _, c := range []struct{ contentType, body string }{
		{"application/json", `{"chat_id":`}, {"application/json", `[]`}, {"application/json", `{} {}`}, {"text/plain", "x"},
		{"multipart/form-data", "x"}, {"multipart/form-data; boundary=b", "--b\r\nX"}, {"application/x-www-form-urlencoded", "%zz"}, {"a/b/c", "x"},
	} {
		if r, err := b.post(t.Context(), "getMe", c.contentType, strings.NewReader(c.body)); err != nil || r.Status != 400 {
			t.Errorf("%s %q: %+v %v", c.contentType, c.body, r, err)
		}
	}
}

// Every method of the specification answers something of its return type.
func TestEveryMethodAnswers(t *testing.T) {
	b := newBench(t, Config{})
	m := b.send(miraID, "x")
	fixed := obj{"chat_id": miraID, "from_chat_id": miraID, "user_id": miraID, "message_id": m.ID, "action": "typing"}
	skip := []string{"getUpdates", "setWebhook"}
	asked := 0
	for name, e := range b.spec.Methods {
		if slices.Contains(skip, name) || handlers[name] != nil {
			continue
		}
		params := obj{}
		for _, f := range e.Fields {
			if f.Required && !strings.Contains(f.Types, "InputFile") {
				if params[f.Name] = fixed[f.Name]; params[f.Name] == nil {
					params[f.Name] = b.spec.minimal(f.Types)
				}
			}
		}
		r := b.call(name, params)
		if !r.OK {
			if !strings.Contains(r.Description, "is required") { // an upload
				t.Errorf("%s %v: %s", name, params, r.Description)
			}
			continue
		}
		asked++
		b.conforms(e.Returns, r.Result)
	}
	if asked < 120 {
		t.Errorf("only %d methods were asked", asked)
	}
}

// conforms checks an answer or update of our own against the specification.
func (b *bench) conforms(types string, data []byte) {
	b.t.Helper()
	v, err := decodeJSON(data)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, bad := b.spec.value("it", types, v, false); len(bad) > 0 {
		b.t.Errorf("not a %s: %q in %s", types, bad, data)
	}
}

// Our own updates and messages keep to the specification as well.
func TestOurOwnShapes(t *testing.T) {
	b := newBench(t, Config{})
	b.must("getUpdates", obj{"allowed_updates": []string{"message", "edited_message", "callback_query", "message_reaction", "my_chat_member"}})
	asked := b.mira.Say(Say{Text: "/start see https://example.org #now", Forward: true})
	b.mira.Edit(asked, "other")
	b.mira.React(asked, "👍")
	for _, kind := range []string{"photo", "document", "voice", "audio", "video", "animation", "video_note", "sticker", "live_photo"} {
		m := b.mira.Say(Say{Kind: kind, Text: "caption", File: &File{Name: "x.bin", Data: []byte("x")}, ReplyTo: asked.ID, Quote: "oth"})
		r := b.must("copyMessage", obj{"chat_id": miraID, "from_chat_id": miraID, "message_id": m.ID})
		b.conforms("MessageId", r.Result)
		b.conforms("Message", b.must("forwardMessage", obj{"chat_id": miraID, "from_chat_id": miraID, "message_id": m.ID}).Result)
		b.conforms("File", b.must("getFile", obj{"file_id": m.File.ID}).Result)
	}
	b.mira.Say(Say{Chat: forumID, Thread: b.topic, Text: "x"})
	b.mira.Block()
	b.mira.Unblock()
	b.group.Migrate(-1009)
	for method, params := range map[string]obj{
		"sendMessage":     {"text": "x", "reply_parameters": obj{"message_id": asked.ID}, "reply_markup": obj{"inline_keyboard": []any{[]any{obj{"text": "B", "callback_data": "b"}}}}},
		"sendRichMessage": {"rich_message": obj{"markdown": "# x"}}, "sendVenue": {"latitude": 1, "longitude": 2, "title": "t", "address": "a"},
		"sendLocation": {"latitude": 1, "longitude": 2}, "sendContact": {"phone_number": "1", "first_name": "A"}, "sendDice": {},
		"sendPoll":    {"question": "?", "options": []any{obj{"text": "a"}, obj{"text": "b"}}},
		"sendInvoice": {"title": "t", "description": "d", "payload": "p", "currency": "XTR", "prices": []any{obj{"label": "l", "amount": 1}}},
		"sendGame":    {"game_short_name": "g"},
	} {
		r := b.must(method, with(params, obj{"chat_id": miraID}))
		if method != "sendGame" && method != "sendInvoice" { // their chat_id differs
			b.conforms("Message", r.Result)
		}
	}
	card, _ := b.mira.Chat().Last()
	b.mira.PressOld(card, "old")
	b.conforms("User", b.must("getMe", obj{}).Result)
	b.conforms("ChatFullInfo", b.must("getChat", obj{"chat_id": forumID}).Result)
	b.conforms("ChatMember", b.must("getChatMember", obj{"chat_id": forumID, "user_id": miraID}).Result)
	b.conforms("Array of ChatMember", b.must("getChatAdministrators", obj{"chat_id": forumID}).Result)
	b.conforms("WebhookInfo", b.must("getWebhookInfo", obj{}).Result)
	b.conforms("ForumTopic", b.must("createForumTopic", obj{"chat_id": forumID, "name": "New"}).Result)
	updates := b.must("getUpdates", obj{}).Result
	b.conforms("Array of Update", updates)
	var list []json.RawMessage
	if err := json.Unmarshal(updates, &list); err != nil || len(list) < 16 {
		t.Errorf("%d updates, %v", len(list), err)
	}
	b.noViolations()
}

// The corpus of field cases is taken in as it is, and can be answered.
func TestInjectCorpus(t *testing.T) {
	names, err := filepath.Glob("testdata/upd_*.json")
	if err != nil || len(names) < 20 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		b := newBench(t, Config{})
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		ids, err := b.Inject(raw)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := b.updates(obj{})
		if len(got) != len(ids) || int64(got[0]["update_id"].(float64)) != ids[0] {
			t.Errorf("%s: %d updates of %v", name, len(got), ids)
		}
		message, _ := got[0]["message"].(map[string]any)
		if message == nil || message["migrate_to_chat_id"] != nil || message["left_chat_member"] != nil {
			continue
		}
		chat := int64(message["chat"].(map[string]any)["id"].(float64))
		params := obj{"chat_id": chat, "text": "answer", "reply_parameters": obj{"message_id": message["message_id"]}}
		if topic, _ := message["is_topic_message"].(bool); topic && message["message_thread_id"] != 1.0 { // General takes none
			params["message_thread_id"] = message["message_thread_id"]
		}
		if r := b.call("sendMessage", params); !r.OK {
			t.Errorf("%s: %s", name, r.Description)
		}
	}
}

func TestInjected(t *testing.T) {
	b := newBench(t, Config{})
	inject := func(raw string) []int64 {
		ids, err := b.Inject([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	if ids := inject(`{"quantum_message_state":{"spin":1}}`); ids[0] != 810000001 {
		t.Errorf("%v", ids)
	}
	inject(`[{"update_id":900000000,"my_chat_member":{"chat":{"id":-100777,"type":"supergroup","title":"T"},"from":{"id":1,"is_bot":false,"first_name":"A"},"date":1,"new_chat_member":{"status":"kicked","user":{"id":7000000001}}}}]`)
	b.refused(403, "Forbidden: bot was kicked from the supergroup chat", "sendMessage", obj{"chat_id": -100777, "text": "x"})
	inject(`{"message":{"message_id":40,"date":1,"chat":{"id":-4001,"type":"group","title":"T"},"migrate_to_chat_id":-1004001}}`)
	if r := b.call("sendMessage", obj{"chat_id": -4001, "text": "x"}); r.Parameters["migrate_to_chat_id"] != -1004001.0 {
		t.Errorf("%+v", r)
	}
	b.send(-1004001, "moved")
	inject(`{"callback_query":{"id":"77","from":{"id":100200300,"is_bot":false,"first_name":"Mira"},"chat_instance":"1","data":"ok"}}`)
	b.must("answerCallbackQuery", obj{"callback_query_id": "77"})
	inject(`{"message":{"message_id":41,"date":1,"chat":{"id":100200300,"type":"private"},"document":{"file_id":"D1","file_size":5}}}`)
	b.SetFile("D1", []byte("bytes"))
	var f struct {
		Path string `json:"file_path"`
	}
	if err := json.Unmarshal(b.must("getFile", obj{"file_id": "D1"}).Result, &f); err != nil || b.download("http://api/file/bot"+b.Token()+"/"+f.Path) != "bytes" {
		t.Errorf("%+v %v", f, err)
	}
	for _, bad := range []string{``, `{`, `"x"`, `{"update_id":"x"}`, `{"message":5}`} {
		if _, err := b.Inject([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func FuzzRequest(f *testing.F) {
	f.Add("sendMessage", "application/json", []byte(`{"chat_id":100200300,"text":"x","entities":[{"type":"bold","offset":0,"length":1}]}`))
	f.Add("sendMediaGroup", "multipart/form-data; boundary=b", []byte("--b\r\nContent-Disposition: form-data; name=\"media\"\r\n\r\n[]\r\n--b--\r\n"))
	f.Add("sendPoll", "application/x-www-form-urlencoded", []byte("chat_id=100200300&question=%3F&options=[{}]"))
	f.Add("setMyCommands", "application/json", []byte(`{"commands":[{"command":"a","description":"b"}],"scope":{"type":"chat"}}`))
	f.Add("getUpdates", "application/json", []byte(`{"offset":-9223372036854775808,"limit":0}`))
	s, err := New(Config{})
	if err != nil {
		f.Fatal(err)
	}
	s.User(miraID, "Mira", "").Send("x")
	f.Fuzz(func(t *testing.T, method, contentType string, body []byte) {
		if strings.Contains(string(body), "timeout") || strings.EqualFold(method, "setWebhook") {
			t.Skip("would wait, or call out")
		}
		s.fuzz(method, contentType, body)
	})
}

// fuzz sends one request without a network; only a cut may panic.
func (s *Server) fuzz(method, contentType string, body []byte) {
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	r.URL.Path = "/bot" + s.Token() + "/" + method
	r.Header.Set("Content-Type", contentType)
	s.ServeHTTP(httptest.NewRecorder(), r)
}
