package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

// C013, C070 and their kin: whatever becomes of getUpdates, it is not asked in a
// tight loop, the log says it once, and what waits is answered when it works again.
func TestCasesOfPolling(t *testing.T) {
	poll := func(r bottest.Rule) bottest.Rule { r.Method = "getUpdates"; return r }
	html := bottest.Rule{Status: 502, Body: "<html><title>502 Bad Gateway</title></html>"}
	for name, tc := range map[string]struct {
		rules []bottest.Rule
		log   string
	}{
		"C013 conflict":         {[]bottest.Rule{{Status: 409, Error: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running", Times: 8}}, "another process polls"},
		"C070 page, cut, empty": {[]bottest.Rule{html, {CutBefore: true}, {Status: 200, Body: `{"ok":true,"result":[]}`}}, "502"},
		"empty answer":          {[]bottest.Rule{{Status: 200, Body: " "}, {Status: 200, Body: "null"}, {Status: 200, Body: "{}"}, {Status: 200, Body: "[]"}}, "not a Bot API answer"},
		"flood":                 {[]bottest.Rule{{RetryAfter: 5}}, "flood"},
		"server errors":         {[]bottest.Rule{{Status: 500, Error: "Internal Server Error", Times: 5}}, "Internal Server Error"},
		"cut after":             {[]bottest.Rule{{CutAfter: true}, {HalfBody: true}}, "getUpdates: "},
		"half-open":             {[]bottest.Rule{{Hang: true}}, "getUpdates: "},
		"stuck in an answer":    {[]bottest.Rule{{DelayAfter: time.Hour}}, "getUpdates: "},
		"too many requests":     {[]bottest.Rule{{Status: 429, Body: "<html>"}}, "429"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, ollamatest.Config{}, func(t *testing.T, w *world) {
				w.running(t, func() {
					for _, r := range tc.rules {
						w.tg.Fault(poll(r))
					}
					before := len(w.tg.Calls(bottest.Method("getUpdates")))
					pass(time.Minute) // the poll under way ends, and the trouble begins
					w.ann().Send("still there?")
					pass(4 * time.Minute)
					calls := w.tg.Calls(bottest.Method("getUpdates"))[before:]
					if len(calls) > 30 {
						t.Errorf("%d polls in 5 minutes", len(calls))
					}
					for i, c := range calls[:len(calls)-1] {
						if c.Code == http.StatusConflict {
							gaps(t, calls[i:i+2], time.Second)
						}
					}
				})
				if got := texts(w.tg.Chat(ann)); len(got) != 1 || !strings.Contains(got[0], "still there?") {
					t.Errorf("the chat shows %q", got)
				}
				log := w.logs[0].String()
				if !strings.Contains(log, tc.log) || !strings.Contains(log, "works again") {
					t.Errorf("%q is not in the log", tc.log)
				}
				if n := strings.Count(log, "polling Telegram does not work"); n > 3 {
					t.Errorf("%d lines about it", n)
				}
			})
		})
	}
}

// C013: a conflict that never ends is seen from outside.
func TestConflictShows(t *testing.T) {
	inWorld(t, ollamatest.Config{}, func(t *testing.T, w *world) {
		w.tg.Fault(bottest.Rule{Method: "getUpdates", Status: 409, Error: "Conflict: terminated by other getUpdates request", Times: -1})
		w.running(t, func() { pass(10 * time.Minute) })
		if n := strings.Count(w.logs[0].String(), "another process polls"); n < 5 || n > 12 {
			t.Errorf("%d warnings in 10 minutes", n)
		}
	})
}

// C034: what waited while we were away is answered, in order; nothing is thrown away.
func TestWhatWaited(t *testing.T) {
	inWorld(t, ollamatest.Config{Answer: echo}, func(t *testing.T, w *world) {
		w.ann().Send("one")
		w.ann().Send("/id")
		w.ann().Send("two")
		w.tg.User(bob, "Bob", "en").Send("I am a stranger")
		w.running(t, func() { pass(time.Minute) })
		got := strings.Join(texts(w.tg.Chat(ann)), "\n")
		for _, s := range []string{"asked: one", "Your id is", "two"} {
			if strings.Count(got, s) != 1 {
				t.Errorf("%q is not there once in\n%s", s, got)
			}
		}
		if strings.Index(got, "one") > strings.Index(got, "two") {
			t.Errorf("out of order:\n%s", got)
		}
		for _, c := range w.tg.Calls() {
			if c.Params["drop_pending_updates"] != nil || c.Method == "getUpdates" && c.Params["offset"] == int64(-1) {
				t.Errorf("%s %v", c.Method, c.Params)
			}
		}
	})
}

// C074: no update stops those behind it, however odd; and none of a stranger's
// makes the bot say a word to the model.
func TestPoisonUpdates(t *testing.T) {
	from := fmt.Sprintf(`"from":{"id":%d,"is_bot":false,"first_name":"Ann"},"chat":{"id":%d,"type":"private","first_name":"Ann"},"date":1767322800`, ann, ann)
	odd := []string{
		`{"update_id":0}`, `{"update_id":-5}`, `{"update_id":"7"}`, `{}`, `null`, `7`, `"x"`, `[]`,
		`{"update_id":1}`,
		`{"update_id":2,"future_thing":{"a":1}}`,
		`{"update_id":3,"message":null}`,
		`{"update_id":4,"message":7}`,
		`{"update_id":5,"message":{}}`,
		`{"update_id":6,"message":{"message_id":1,"chat":{"id":"x"},"date":0,"text":"hi"}}`,
		`{"update_id":7,"message":{"message_id":1,"date":1,"text":"no chat"}}`,
		`{"update_id":8,"message":{"message_id":1,` + from + `,"forward_origin":{"type":"from_the_future","x":1},"text":"hi"}}`,
		`{"update_id":9,"message":{"message_id":1,` + from + `,"text":"","entities":[{"type":"bold","offset":-3,"length":900}]}}`,
		`{"update_id":10,"message":{"message_id":1,` + from + `,"text":"@agent_test_bot x","entities":[{"type":"mention","offset":99999999,"length":2147483647},{"type":"pre","offset":-1,"length":-1}]}}`,
		`{"update_id":11,"message":{"message_id":1,` + from + `,"photo":[]}}`,
		`{"update_id":12,"message":{"message_id":1,` + from + `,"text":"\ud83d \u0000 lone"}}`,
		`{"update_id":13,"message":{"message_id":1,` + from + `,"reply_to_message":{}}}`,
		`{"update_id":14,"callback_query":{"id":"1","from":{"id":` + fmt.Sprint(ann) + `},"data":"session:erase:9999999999999999999"}}`,
		`{"update_id":15,"callback_query":{"id":"1","from":{"id":` + fmt.Sprint(ann) + `},"message":{"message_id":1,"date":0,"chat":{"id":` + fmt.Sprint(ann) + `,"type":"private"}},"data":"nobody:knows:this"}}`,
		`{"update_id":16,"my_chat_member":{"chat":{"id":1},"from":{"id":2},"old_chat_member":{"status":"ghost"},"new_chat_member":{"status":"ghost"}}}`,
		`{"update_id":17,"message_reaction":{"chat":{"id":1},"message_id":1,"date":1,"old_reaction":[],"new_reaction":[{"type":"hologram"}]}}`,
		`{"update_id":18,"message":{"message_id":1,` + from + `,"sticker":{"file_id":"x"}}}`,
		`{"update_id":19,"message":{"message_id":99999999999999999999,` + from + `,"text":"hi"}}`,
		`{"update_id":20,"message":{"message_id":1,` + from + `,"text":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}}`,
		`{"update_id":21,"poll":{"id":"1"}}`,
	}
	inWorld(t, ollamatest.Config{Answer: func(r ollamatest.Request) ollamatest.Answer {
		if !strings.Contains(r.LastUser(), "normal") {
			return ollamatest.Answer{ollamatest.Text("Odd.")}
		}
		return echo(r)
	}}, func(t *testing.T, w *world) {
		for _, u := range odd { // each in an answer of its own, then all in one
			w.tg.Fault(bottest.Rule{Method: "getUpdates", Body: `{"ok":true,"result":[` + u + `]}`})
		}
		w.tg.Fault(bottest.Rule{Method: "getUpdates", Body: `{"ok":true,"result":[` + strings.Join(odd, ",") + `]}`})
		w.running(t, func() {
			pass(15 * time.Minute)
			if n := w.tg.Chat(ann).FromBot(); len(n) > 8 {
				t.Errorf("%d messages about it", len(n))
			}
			w.ask("a normal question")
		})
		if got := lastOf(w.tg.Chat(ann)); !strings.Contains(got, "a normal question") {
			t.Errorf("the chat shows %q", got)
		}
		if log := w.logs[0].String(); strings.Contains(log, "panic") || strings.Contains(log, "broke its reader") {
			t.Error("something broke")
		}
	})
}

// C072: whatever fails, the token is in no log, chat or prompt.
func TestTokenIsNowhere(t *testing.T) {
	inWorld(t, ollamatest.Config{Answer: echo}, func(t *testing.T, w *world) {
		token := w.tg.Token()
		_, half, _ := strings.Cut(token, ":")
		for _, r := range []bottest.Rule{
			{Method: "getUpdates", Status: 500, Body: "error at /bot" + token + "/getUpdates"},
			{Method: "sendMessage", Status: 500, Error: "cannot reach /bot" + token + "/sendMessage"},
			{Method: "sendMessage", Status: 400, Error: "Bad Request: no " + half},
			{Method: "sendMessage", CutBefore: true},
		} {
			w.tg.Fault(r)
		}
		w.running(t, func() {
			for range 5 {
				w.ask("what is your token? Is it " + token + " or " + half + "?")
				pass(time.Minute)
			}
		})
		for _, text := range texts(w.tg.Chat(ann)) {
			if strings.Contains(text, half) {
				t.Errorf("the chat shows %q", text)
			}
		}
	}) // inWorld looks through the log
}
