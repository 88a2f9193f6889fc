package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentd/internal/agent"
	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

// many is an answer that takes 100 ms a word.
func many(words int) (ollamatest.Config, string) {
	var b strings.Builder
	for i := range words {
		fmt.Fprintf(&b, "word%d ", i)
	}
	text := strings.TrimSpace(b.String())
	return ollamatest.Config{PerToken: 100 * time.Millisecond, Answer: func(r ollamatest.Request) ollamatest.Answer {
		if strings.Contains(r.LastUser(), "quick") {
			return ollamatest.Answer{ollamatest.Text("Quick.")}
		}
		return ollamatest.Answer{ollamatest.Text(text)}
	}}, text
}

// C011: a refusal with retry_after silences the chat for that time, previews and
// answer alike; then the whole answer is there, once. Other chats are served.
func TestCasesOfFloodPenalties(t *testing.T) {
	for name, rule := range map[string]bottest.Rule{
		"C011 third preview":   {Method: "editMessageText", After: 2, Chat: ann, RetryAfter: 3},
		"C011 first preview":   {Method: "sendMessage", Chat: ann, RetryAfter: 3},
		"C011 the answer":      {Match: func(c bottest.Call) bool { return strings.HasSuffix(c.Text(), "word29") }, Chat: ann, RetryAfter: 3},
		"without retry_after":  {Method: "editMessageText", Chat: ann, Status: 429, Error: "Too Many Requests"},
		"again and again":      {Method: "editMessageText", Chat: ann, RetryAfter: 3, Times: 3},
		"429 that is no JSON":  {Method: "editMessageText", Chat: ann, Status: 429, Body: "<html>slow down</html>"},
		"C108 of the typing":   {Method: "sendChatAction", Chat: ann, RetryAfter: 30, Times: -1},
		"C108 typing is wrong": {Method: "sendChatAction", Chat: ann, Status: 400, Error: "Bad Request: wrong", Times: -1},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, text := many(30)
			inWorld(t, cfg, func(t *testing.T, w *world) {
				w.env["TELEGRAM_ALLOWED_USERS"], w.env["OLLAMA_NUM_PARALLEL"] = fmt.Sprintf("%d,%d", ann, bob), "4"
				w.tg.Fault(rule)
				bob := w.tg.User(bob, "Bob", "en")
				w.running(t, func() {
					w.ann().Send("a long one")
					pass(2500 * time.Millisecond)
					bob.Send("a quick one")
					pass(500 * time.Millisecond)
					shows(t, bob.Chat(), "Quick.")
					pass(time.Minute)
				})
				shows(t, w.tg.Chat(ann), text)
				calls := w.answering(bottest.InChat(ann))
				for i, c := range calls[:len(calls)-1] {
					if c.Code == http.StatusTooManyRequests && rule.RetryAfter > 0 {
						gaps(t, calls[i:i+2], time.Duration(rule.RetryAfter)*time.Second)
					}
				}
				if len(calls) > 12 {
					t.Errorf("%d calls:\n%s", len(calls), callLines(calls))
				}
			})
		})
	}
}

// C012: a penalty of hours holds up neither other chats nor the end of the
// process, and the answer is sent when it is over, by whichever process.
func TestPenaltyOfHours(t *testing.T) {
	const hours = 13938
	inWorld(t, ollamatest.Config{}, func(t *testing.T, w *world) {
		w.env["TELEGRAM_ALLOWED_USERS"] = fmt.Sprintf("%d,%d", ann, bob)
		w.tg.Fault(bottest.Rule{Method: "sendMessage", Chat: ann, RetryAfter: hours})
		bob := w.tg.User(bob, "Bob", "en")
		w.running(t, func() {
			w.ask("first")
			bob.Send("and me?")
			pass(time.Second)
			if got := texts(bob.Chat()); len(got) != 1 {
				t.Errorf("the other chat shows %q", got)
			}
			w.ask("second") // is thought about, and waits behind the first
			if !strings.Contains(w.logs[0].String(), "retry after") {
				t.Error("the log says nothing")
			}
		})
		if n := len(w.answering(bottest.InChat(ann))); n != 1 {
			t.Errorf("%d calls within the penalty", n)
		}
		w.running(t, func() {
			pass(time.Minute)
			pass(hours * time.Second)
			got := texts(w.tg.Chat(ann))
			if len(got) != 2 || !strings.Contains(got[0], "first") || !strings.Contains(got[1], "second") {
				t.Errorf("after the penalty the chat shows %q", got)
			}
		})
	})
}

// C114: one answer a question, in order, whatever becomes of the first answer's call.
func TestOneAnswerAQuestion(t *testing.T) {
	for name, tc := range map[string]struct {
		rules     []bottest.Rule
		uncertain bool // the person is asked about the first answer
	}{
		"C114 slow, then refused": {[]bottest.Rule{{Method: "sendMessage", Status: 500, Error: "Internal Server Error"}, {Method: "sendMessage", DelayAfter: 3 * time.Second}}, false},
		"slow to be accepted":     {[]bottest.Rule{{Method: "sendMessage", DelayAfter: 20 * time.Second}}, false},
		"cut before":              {[]bottest.Rule{{Method: "sendMessage", CutBefore: true}}, true}, // nobody can know that it was before
		"cut after":               {[]bottest.Rule{{Method: "sendMessage", CutAfter: true}}, true},
		"half an answer":          {[]bottest.Rule{{Method: "sendMessage", HalfBody: true}}, true},
		"a gateway's page":        {[]bottest.Rule{{Method: "sendMessage", Accept: true, Status: 502, Body: "<html>Bad Gateway</html>"}}, true},
		"never answered":          {[]bottest.Rule{{Method: "sendMessage", DelayAfter: time.Hour}}, true},
		"five times refused":      {[]bottest.Rule{{Method: "sendMessage", Status: 500, Error: "Internal Server Error", Times: 5}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, ollamatest.Config{Answer: func(r ollamatest.Request) ollamatest.Answer {
				return ollamatest.Answer{ollamatest.Wait(time.Second), ollamatest.Text("Answer to " + words(r.LastUser()))}
			}}, func(t *testing.T, w *world) {
				for _, rule := range tc.rules {
					w.tg.Fault(rule)
				}
				w.running(t, func() {
					w.ann().Send("A")
					pass(900 * time.Millisecond)
					w.ann().Send("B")
					pass(5 * time.Minute)
				})
				a, b, notices := 0, 0, 0
				for i, m := range w.tg.Chat(ann).FromBot() {
					switch {
					case m.Text == "Answer to A" && i == 0:
						a++
					case m.Text == "Answer to B" && i > 0:
						b++
					case len(m.Buttons) > 0 && b == 0: // before what comes later
						notices++
					default:
						t.Errorf("message %d is %q", i, m.Text)
					}
				}
				if tc.uncertain && (notices != 1 || a+notices < 1 || b != 1) || !tc.uncertain && (a != 1 || b != 1 || notices != 0) {
					t.Errorf("the chat shows\n%s", seen(w.tg.Chat(ann)))
				}
			})
		})
	}
}

// words is what a person said, without the time before it.
func words(said string) string {
	_, text, _ := strings.Cut(said, "]")
	return strings.TrimSpace(text)
}

// Previews (point 5 of issue 3) as the person sees them: what rings, what goes.
func TestPreviews(t *testing.T) {
	for name, tc := range map[string]struct {
		first, perToken time.Duration
		words           int
		rings, stays    bool // the preview
	}{
		"quick: it becomes the answer":                   {time.Second, 200 * time.Millisecond, 30, true, true},
		"ends over 20 s after it: a new message rings":   {time.Second, time.Second, 25, true, false},
		"begins after 20 s: silent, a new message rings": {25 * time.Second, 100 * time.Millisecond, 30, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, text := many(tc.words)
			cfg := says(text)
			cfg.FirstToken, cfg.PerToken = tc.first, tc.perToken
			inWorld(t, cfg, func(t *testing.T, w *world) {
				w.running(t, func() { w.ask("well?"); pass(time.Minute) })
				shows(t, w.tg.Chat(ann), text)
				calls := w.answering(bottest.InChat(ann))
				if silent := calls[0].Params["disable_notification"] == true; silent == tc.rings {
					t.Errorf("the preview is silent: %v", silent)
				}
				m := w.tg.Chat(ann).FromBot()[0]
				if stays := m.ID == calls[0].Message; stays != tc.stays || m.Silent {
					t.Errorf("the answer took the preview's place: %v; silent: %v\n%s", stays, m.Silent, callLines(calls))
				}
				gaps(t, calls[:len(calls)-2], time.Second)
			})
		})
	}
}

// What a model says beside a call shows while the tool runs, and is not run
// together with the answer.
func TestWordsBesideCalls(t *testing.T) {
	cfg, text := many(30)
	final := cfg.Answer
	cfg.Answer = func(r ollamatest.Request) ollamatest.Answer {
		if r.Messages[len(r.Messages)-1].Role == "user" {
			return ollamatest.Answer{ollamatest.Text("Let me wait a moment."), ollamatest.Call("wait", `{}`)}
		}
		return final(r)
	}
	inWorld(t, cfg, func(t *testing.T, w *world) {
		w.tools = []agent.Tool{waiting()}
		w.running(t, func() {
			w.ann().Send("go on")
			pass(3 * time.Second)
			shows(t, w.tg.Chat(ann), "Let me wait a moment.")
			pass(time.Minute)
		})
		shows(t, w.tg.Chat(ann), text)
		for _, e := range w.tg.Chat(ann).History() {
			if shown := e.Message.Text; e.Message.FromBot && !strings.HasPrefix(text, shown) && !strings.HasPrefix("Let me wait a moment.", shown) {
				t.Errorf("the preview shows %q", shown)
			}
		}
	})
}

// A preview that somebody deletes, and a question: the answer comes all the same, once.
func TestDeletedMessages(t *testing.T) {
	for name, remove := range map[string]func(bottest.Chat){
		"C076 the preview":  func(c bottest.Chat) { c.Delete(c.FromBot()[0].ID) },
		"C016 the question": func(c bottest.Chat) { c.Delete(c.Messages()[0].ID) },
		"both":              func(c bottest.Chat) { c.Delete(c.FromBot()[0].ID); c.Delete(c.Messages()[0].ID) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg, text := many(100)
			inWorld(t, cfg, func(t *testing.T, w *world) {
				chat := w.tg.AddChat(group, "group", "Team", false)
				w.running(t, func() {
					w.ann().SendTo(group, "@agent_test_bot go on")
					pass(4 * time.Second)
					remove(chat)
					pass(time.Minute)
				})
				shows(t, chat, text)
				for _, c := range w.answering() {
					if c.Code != 200 && !strings.Contains(c.Error, "not found") {
						t.Errorf("%s: %s", c.Method, c.Error)
					}
				}
			})
		})
	}
}

// With Telegram's own flood limits on and everybody talking at once, no call is
// refused, the answers of a group keep their order, and previews leave them room.
func TestNoCallIsRefusedUnderFloodLimits(t *testing.T) {
	cfg, text := many(40) // 4 s each
	inWorld(t, cfg, func(t *testing.T, w *world) {
		w.flood(t)
		w.env["TELEGRAM_ALLOWED_USERS"], w.env["OLLAMA_NUM_PARALLEL"], w.env["AGENT_WORKERS"] = "*", "50", "50"
		chat := w.tg.AddChat(group, "group", "Team", false)
		w.running(t, func() {
			for i := range int64(40) {
				who := w.tg.User(1000+i, fmt.Sprint("Person ", i), "en")
				who.Send("a long one")
				if i < 12 {
					who.SendTo(group, "@agent_test_bot a long one")
				}
			}
			pass(3 * time.Minute)
		})
		for i := range int64(40) {
			shows(t, w.tg.Chat(1000+i), text)
		}
		if n := len(chat.FromBot()); n != 12 {
			t.Errorf("%d answers in the group", n)
		}
		for _, c := range w.tg.Calls(func(c bottest.Call) bool { return c.Code == http.StatusTooManyRequests }) {
			t.Errorf("%s in %d: %s", c.Method, c.Chat, c.Error)
		}
	})
}

// A message that Telegram refuses for a reason of its own is told to the owner, never dropped in silence.
func TestRefusalsAreTold(t *testing.T) {
	for name, rule := range map[string]bottest.Rule{
		"for a reason we do not know": {Status: 400, Error: "Bad Request: the moon is in the wrong quarter"},
		"too large for the server":    {Status: 413, Body: "<html>413 Request Entity Too Large</html>"},
		"again and again":             {Status: 500, Error: "Internal Server Error", Times: -1},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, ollamatest.Config{}, func(t *testing.T, w *world) {
				w.env["TELEGRAM_ALLOWED_USERS"] = fmt.Sprintf("%d,%d", ann, bob)
				rule.Method, rule.Chat = "sendMessage", bob
				w.tg.Fault(rule)
				w.running(t, func() {
					w.tg.User(bob, "Bob", "en").Send("hello")
					pass(24 * time.Hour)
				})
				if got := texts(w.tg.Chat(ann)); len(got) != 1 || !strings.Contains(got[0], "refused a message to chat "+fmt.Sprint(bob)) {
					t.Errorf("the owner reads %q", got)
				}
			})
		})
	}
}
