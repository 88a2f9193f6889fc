package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

const forum = -1001557000222

// C014, C016: topics, the general one, and one that is deleted while the answer is made.
func TestCasesOfTopics(t *testing.T) {
	cfg, text := many(30)
	inWorld(t, cfg, func(t *testing.T, w *world) { // C014
		w.tg.AddChat(forum, "forum", "Test forum", false)
		w.tg.Fault(bottest.Rule{Times: -1, Status: 400, Error: "Bad Request: message thread not found",
			Match: func(c bottest.Call) bool {
				return c.Params["message_thread_id"] == int64(1) && c.Method != "sendChatAction"
			}})
		w.running(t, func() {
			w.inject(t, "upd_forum_general.json")
			pass(30 * time.Second)
		})
		shows(t, w.tg.Chat(forum), text)
	})
	for name, when := range map[string]time.Duration{"before the preview": 50 * time.Millisecond, "after the preview": 2 * time.Second} {
		t.Run("C016 deleted "+name, func(t *testing.T) {
			inWorld(t, cfg, func(t *testing.T, w *world) {
				chat := w.tg.AddChat(forum, "forum", "Test forum", false)
				topic := chat.AddTopic("Talk")
				w.running(t, func() {
					w.ann().Say(bottest.Say{Chat: forum, Thread: topic, Text: "@agent_test_bot go on"})
					pass(when)
					chat.DeleteTopic(topic)
					pass(time.Minute)
				})
				shows(t, chat, text)
			})
		})
	}
	t.Run("topics are conversations of their own", func(t *testing.T) {
		inWorld(t, ollamatest.Config{Answer: echo, FirstToken: 400 * time.Millisecond}, func(t *testing.T, w *world) {
			chat := w.tg.AddChat(forum, "forum", "Test forum", false)
			a, b := chat.AddTopic("A"), chat.AddTopic("B")
			w.running(t, func() {
				w.ann().Say(bottest.Say{Chat: forum, Thread: a, Text: "@agent_test_bot apples"})
				w.ann().Say(bottest.Say{Chat: forum, Thread: b, Text: "@agent_test_bot bananas"})
				pass(30 * time.Second)
			})
			for _, m := range chat.FromBot() {
				if want := map[int]string{a: "apples", b: "bananas"}[m.Thread]; want == "" || !strings.Contains(m.Text, want) || m.ReplyTo == 0 {
					t.Errorf("in topic %d: %q", m.Thread, m.Text)
				}
			}
			for _, r := range w.asked() {
				if body := string(r.Body); strings.Contains(body, "apples") == strings.Contains(body, "bananas") {
					t.Error("one topic's words are in the other's prompt")
				}
			}
			for _, c := range w.tg.Calls(bottest.Method("sendChatAction")) { // C108
				if c.Params["message_thread_id"] == nil {
					t.Error("typing without its topic")
				}
			}
		})
	})
}

// C017: a group becomes a supergroup before, while, and after an answer is made;
// the bot learns of it by a refusal alone, or by the service messages as well.
func TestCasesOfMigration(t *testing.T) {
	for _, allowed := range []string{fmt.Sprint(ann), fmt.Sprintf("%d,%d", ann, group)} {
		for when, after := range map[string]time.Duration{
			"before the question is answered": 100 * time.Millisecond, "while a preview shows": 3 * time.Second, "afterwards": time.Minute,
		} {
			t.Run(allowed+" "+when, func(t *testing.T) {
				cfg := ollamatest.Config{FirstToken: time.Second, PerToken: 100 * time.Millisecond, Answer: echo}
				inWorld(t, cfg, func(t *testing.T, w *world) {
					w.env["TELEGRAM_ALLOWED_USERS"] = allowed
					old := w.tg.AddChat(group, "group", "Small group", false)
					who := w.ann()
					if strings.Contains(allowed, ",") {
						who = w.tg.User(bob, "Bob", "en") // talks as a member
					}
					var chat bottest.Chat
					w.running(t, func() {
						who.SendTo(group, "@agent_test_bot apples")
						pass(after)
						chat = old.Migrate(supergroup)
						pass(time.Minute)
						who.SendTo(supergroup, "@agent_test_bot bananas")
						pass(time.Minute)
					})
					w.running(t, func() { // and the next process knows it all
						who.SendTo(supergroup, "@agent_test_bot cherries")
						pass(time.Minute)
					})
					var all []string
					for _, text := range append(texts(old), texts(chat)...) {
						if len(text) > 100 { // a preview may be left in the old group: nothing can be removed there
							all = append(all, text)
						}
					}
					if len(all) != 3 || !strings.Contains(all[0], "apples") || !strings.Contains(all[1], "bananas") || !strings.Contains(all[2], "cherries") {
						t.Fatalf("the groups show\n%s--\n%s", seen(old), seen(chat))
					}
					asked := w.asked()
					if last := string(asked[len(asked)-1].Body); !strings.Contains(last, "apples") || len(asked) != 3 {
						t.Errorf("%d questions to the model; the last one knows %s", len(asked), last)
					}
				})
			})
		}
	}
	t.Run("service messages ask nothing", func(t *testing.T) {
		inWorld(t, ollamatest.Config{}, func(t *testing.T, w *world) {
			w.env["TELEGRAM_ALLOWED_USERS"] = fmt.Sprintf("%d,%d", ann, group)
			w.running(t, func() {
				w.inject(t, "upd_migrate_to.json")
				w.inject(t, "upd_migrate_from.json")
				pass(time.Minute)
			})
			if n := len(w.asked()); n > 0 || len(w.answering()) > 0 {
				t.Errorf("%d questions, %d messages", n, len(w.answering()))
			}
		})
	})
}

// C104: a chat that may not be written to is left alone, whatever it was doing;
// others are served, and it works again afterwards.
func TestCasesOfForbiddenChats(t *testing.T) {
	for name, tc := range map[string]struct{ block, unblock func(*world) }{
		"C104 blocked":           {func(w *world) { w.ann().Block() }, func(w *world) { w.ann().Unblock() }},
		"C104 without an update": {func(w *world) { w.tg.Chat(ann).Refuse("bot was blocked by the user") }, func(w *world) { w.tg.Chat(ann).Refuse("") }},
		"C104 deactivated":       {func(w *world) { w.tg.Chat(ann).Refuse("user is deactivated") }, func(w *world) { w.tg.Chat(ann).Refuse("") }},
	} {
		for when, after := range map[string]time.Duration{"before the first word": 50 * time.Millisecond, "while a preview shows": 2 * time.Second} {
			t.Run(name+" "+when, func(t *testing.T) {
				cfg, text := many(50)
				inWorld(t, cfg, func(t *testing.T, w *world) {
					w.env["TELEGRAM_ALLOWED_USERS"], w.env["OLLAMA_NUM_PARALLEL"] = fmt.Sprintf("%d,%d", ann, bob), "4"
					bob := w.tg.User(bob, "Bob", "en")
					w.running(t, func() {
						w.ann().Send("a long one")
						pass(after)
						tc.block(w)
						bob.Send("a quick one")
						pass(10 * time.Minute)
						shows(t, bob.Chat(), "Quick.")
						refused := w.answering(bottest.InChat(ann), func(c bottest.Call) bool { return c.Code == 403 })
						if len(refused) > 2 { // a preview, and the answer
							t.Errorf("%d calls were refused:\n%s", len(refused), callLines(refused))
						}
						tc.unblock(w)
						pass(time.Minute)
						w.ann().Send("a quick one")
						pass(time.Minute)
					})
					first := text
					if strings.Contains(name, "blocked") {
						first = "Stopped." // by the update
					}
					shows(t, w.tg.Chat(ann), first, "Quick.")
				})
			})
		}
	}
	t.Run("C104 kicked from a supergroup", func(t *testing.T) {
		cfg, _ := many(50)
		inWorld(t, cfg, func(t *testing.T, w *world) {
			chat := w.tg.AddChat(supergroup, "supergroup", "Team", false)
			w.running(t, func() {
				w.ann().SendTo(supergroup, "@agent_test_bot a long one")
				pass(2 * time.Second)
				w.inject(t, "upd_my_chat_member_kicked.json", `"id":100200300,"first_name":"Mira","last_name":"Sample","username":"mira_sample","type":"private"`,
					fmt.Sprintf(`"id":%d,"title":"Team","type":"supergroup"`, supergroup))
				pass(10 * time.Minute)
				if n := len(w.answering(func(c bottest.Call) bool { return c.Code == 403 })); n > 2 {
					t.Errorf("%d calls were refused", n)
				}
				chat.Refuse("")
				w.ann().SendTo(supergroup, "@agent_test_bot a quick one")
				pass(time.Minute)
			})
			if got := lastOf(chat); got != "Quick." {
				t.Errorf("the group shows\n%s", seen(chat))
			}
		})
	})
}

// C092, C074, C110: who is nobody gets neither an answer nor the model, unless the
// group is allowed: there all but bots talk, as members.
func TestCasesOfSenders(t *testing.T) {
	bot := []string{`"id":1087968824`, `"id":4444`, "GroupAnonymousBot", "other_bot"}
	for name, tc := range map[string]struct {
		file         string
		replacements []string
		allowed      bool // answered in an allowed group
	}{
		"C092 anonymous admin":       {"upd_anonymous_admin.json", nil, true},
		"C092 channel as sender":     {"upd_channel_as_sender.json", nil, true},
		"C092 automatic forward":     {"upd_auto_forward.json", nil, true},
		"C074 without from":          {"upd_no_from.json", nil, true},
		"C074 channel post":          {"upd_channel_post.json", nil, false},
		"C074 unknown kind":          {"upd_unknown_kind.json", nil, false},
		"C110 another bot":           {"upd_anonymous_admin.json", bot, false},
		"C110 our own message":       {"upd_anonymous_admin.json", []string{`"id":1087968824`, `"id":7000000001`}, false},
		"C110 our own, in a channel": {"upd_channel_post.json", nil, false},
	} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, group allowed: %v", name, open), func(t *testing.T) {
				inWorld(t, ollamatest.Config{}, func(t *testing.T, w *world) {
					// The shared ids are in the list, as people put them there: they open nothing.
					w.env["TELEGRAM_ALLOWED_USERS"] = fmt.Sprintf("%d,1087968824,136817688,777000", ann)
					if open {
						w.env["TELEGRAM_ALLOWED_USERS"] += fmt.Sprintf(",%d", supergroup)
					}
					w.running(t, func() {
						w.inject(t, tc.file, tc.replacements...)
						pass(time.Minute)
						answered := len(w.asked()) > 0
						if want := open && tc.allowed; answered != want {
							t.Errorf("answered: %v, want %v", answered, want)
						}
						if !answered && len(w.answering()) > 0 {
							t.Errorf("it says\n%s", callLines(w.answering()))
						}
						if !strings.Contains(w.logs[0].String(), "uses it for the messages of many people") {
							t.Error("no warning about ids that are shared")
						}
						w.ask("later")
					})
					if got := lastOf(w.tg.Chat(ann)); !strings.Contains(got, "later") {
						t.Errorf("afterwards: %q", got)
					}
				})
			})
		}
	}
}

// C097: in a group it answers exactly when it is addressed.
func TestCasesOfMentions(t *testing.T) {
	me := func(c bottest.Chat) int { return c.FromBot()[0].ID }
	for name, tc := range map[string]struct {
		say  bottest.Say
		want bool
	}{
		"own mention":           {bottest.Say{Text: "@agent_test_bot hi"}, true},
		"in other letters":      {bottest.Say{Text: "@Agent_Test_Bot hi"}, true},
		"at the end":            {bottest.Say{Text: "hi 😀 @agent_test_bot"}, true},
		"a longer name":         {bottest.Say{Text: "@agent_test_bot2 hi"}, false},
		"another's command":     {bottest.Say{Text: "/status@other_bot"}, false},
		"own command":           {bottest.Say{Text: "/status@agent_test_bot"}, true},
		"own, in other letters": {bottest.Say{Text: "/status@AGENT_TEST_BOT"}, true},
		"a command of nobody's": {bottest.Say{Text: "/status"}, true},
		"a mail address":        {bottest.Say{Text: "mail x@agent_test_bot.example"}, false},
		"an address":            {bottest.Say{Text: "see https://t.me/agent_test_bot"}, false},
		"caption":               {bottest.Say{Text: "@agent_test_bot what is this?", Kind: "photo", File: &bottest.File{Name: "a.png", MIME: "image/png", Data: []byte("png")}}, true},
		"caption of others":     {bottest.Say{Text: "what is this?", Kind: "photo", File: &bottest.File{Name: "a.png", MIME: "image/png", Data: []byte("png")}}, false},
		"words alone":           {bottest.Say{Text: "hi all, stop"}, false},
		"stop, to nobody":       {bottest.Say{Text: "stop"}, false},
		"reply to it":           {bottest.Say{Text: "and now?", ReplyTo: -1}, true},
	} {
		t.Run("C097 "+name, func(t *testing.T) {
			inWorld(t, ollamatest.Config{}, func(t *testing.T, w *world) {
				chat := w.tg.AddChat(supergroup, "supergroup", "Team", false)
				w.running(t, func() {
					w.ann().SendTo(supergroup, "@agent_test_bot hello")
					pass(time.Minute)
					if tc.say.ReplyTo != 0 {
						tc.say.ReplyTo = me(chat)
					}
					tc.say.Chat = supergroup
					w.ann().Say(tc.say)
					pass(time.Minute)
				})
				if got := len(chat.FromBot()) == 2; got != tc.want {
					t.Errorf("answered: %v, want %v\n%s", got, tc.want, seen(chat))
				}
			})
		})
	}
	for name, id := range map[string]int64{"of it": bottest.DefaultBotID, "of another": bob} {
		t.Run("C097 text mention "+name, func(t *testing.T) {
			inWorld(t, ollamatest.Config{}, func(t *testing.T, w *world) {
				w.running(t, func() {
					w.inject(t, "upd_group_reply_to_bot.json", `"reply_to_message":{"message_id":109,"from":{"id":7000000001`,
						fmt.Sprintf(`"entities":[{"type":"text_mention","offset":4,"length":3,"user":{"id":%d,"is_bot":true,"first_name":"X"}}],
							"reply_to_message":{"message_id":109,"from":{"id":%d`, id, bob))
					pass(time.Minute)
				})
				if got := len(w.asked()) == 1; got != (id == bottest.DefaultBotID) {
					t.Errorf("answered: %v", got)
				}
			})
		})
	}
}
