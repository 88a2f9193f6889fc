package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/agent"
	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

// C031: messages of one chat are answered in their order, each once; another
// chat does not wait.
func TestCasesOfConcurrency(t *testing.T) {
	for name, tc := range map[string]struct {
		second time.Duration // after the first
		want   []string      // who speaks in the last prompt
		turns  int
	}{
		"C031 15 ms apart: they join (point 8)": {15 * time.Millisecond, []string{"system", "user one", "user two"}, 1},
		"C031 a second apart":                   {time.Second, []string{"system", "user one", "assistant", "user two"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, ollamatest.Config{Answer: echo, FirstToken: 2 * time.Second}, func(t *testing.T, w *world) {
				w.env["TELEGRAM_ALLOWED_USERS"], w.env["OLLAMA_NUM_PARALLEL"] = fmt.Sprintf("%d,%d", ann, bob), "4"
				bob := w.tg.User(bob, "Bob", "en")
				w.running(t, func() {
					w.ann().Send("one")
					pass(tc.second)
					w.ann().Send("two")
					bob.Send("three")
					pass(2100 * time.Millisecond)
					if got := texts(bob.Chat()); len(got) != 1 || !strings.Contains(got[0], "three") {
						t.Errorf("the other chat shows %q", got)
					}
					pass(time.Minute)
				})
				got := texts(w.tg.Chat(ann))
				if len(got) != tc.turns || !strings.Contains(got[0], "one") || !strings.Contains(got[len(got)-1], "two") {
					t.Errorf("the chat shows %q", got)
				}
				var last ollamatest.Request
				for _, r := range w.asked() {
					if strings.Contains(string(r.Body), "two") {
						last = r
					}
				}
				if got := roles(last); !slices.Equal(got, tc.want) {
					t.Errorf("the last prompt is %q", got)
				}
			})
		})
	}
}

// Point 8 of issue 3: what a person writes while a turn runs.
func TestMessagesDuringATurn(t *testing.T) {
	tooled := func(r ollamatest.Request) ollamatest.Answer {
		if strings.HasSuffix(words(r.LastUser()), "one") && r.Messages[len(r.Messages)-1].Role == "user" {
			return ollamatest.Answer{ollamatest.Call("wait", `{}`)}
		}
		return echo(r)
	}
	seen := func(w *world) (n int) {
		return len(w.tg.Calls(bottest.Method("setMessageReaction")))
	}
	t.Run("after tool results it is pulled in, and acknowledged before", func(t *testing.T) {
		inWorld(t, ollamatest.Config{Answer: tooled, FirstToken: 300 * time.Millisecond}, func(t *testing.T, w *world) {
			w.tools = []agent.Tool{waiting()}
			w.running(t, func() {
				w.ann().Send("one")
				pass(2 * time.Second) // in the tool
				w.ann().Send("two")
				pass(time.Second)
				w.ann().Send("three")
				pass(time.Second)
				if seen(w) != 2 {
					t.Errorf("%d acknowledgements", seen(w))
				}
				pass(time.Minute)
			})
			got := texts(w.tg.Chat(ann))
			if len(got) != 1 || !strings.Contains(got[0], "one; and: two three") {
				t.Errorf("the chat shows %q", got)
			}
			w.wellFormed(t)
		})
	})
	t.Run("during the final call it is the next turn, all that waits in one", func(t *testing.T) {
		inWorld(t, ollamatest.Config{Answer: echo, FirstToken: 3 * time.Second}, func(t *testing.T, w *world) {
			w.running(t, func() {
				w.ann().Send("one")
				pass(time.Second)
				w.ann().Send("two")
				pass(time.Second)
				w.ann().Send("three")
				pass(time.Minute)
			})
			got := texts(w.tg.Chat(ann))
			if len(got) != 2 || !strings.Contains(got[0], "one") || strings.Contains(got[0], "two") || !strings.Contains(got[1], "two three") {
				t.Errorf("the chat shows %q", got)
			}
			if n := len(w.asked()); n != 2 {
				t.Errorf("%d model calls", n)
			}
		})
	})
	t.Run("edited twice while it waits, and once too late", func(t *testing.T) {
		inWorld(t, ollamatest.Config{Answer: echo, FirstToken: 3 * time.Second}, func(t *testing.T, w *world) {
			w.running(t, func() {
				first := w.ann().Send("one")
				pass(time.Second)
				m := w.ann().Send("tow")
				w.ann().Edit(m, "twoo")
				w.ann().Edit(m, "two")
				w.ann().Edit(first, "won")
				pass(time.Minute)
			})
			got := texts(w.tg.Chat(ann))
			if len(got) != 2 || !strings.Contains(got[0], "one") || !strings.Contains(got[1], "asked: two.") {
				t.Errorf("the chat shows %q", got)
			}
		})
	})
	t.Run("another member of the group waits for a turn of their own", func(t *testing.T) {
		inWorld(t, ollamatest.Config{Answer: tooled, FirstToken: 300 * time.Millisecond}, func(t *testing.T, w *world) {
			w.env["TELEGRAM_ALLOWED_USERS"] = fmt.Sprintf("%d,%d", ann, group)
			w.tools = []agent.Tool{waiting()}
			chat := w.tg.AddChat(group, "group", "Team", false)
			bob := w.tg.User(bob, "Bob", "ru")
			w.running(t, func() {
				w.ann().SendTo(group, "@agent_test_bot one")
				pass(time.Second)
				bob.SendTo(group, "@agent_test_bot two")
				bob.SendTo(group, "/stop")
				bob.SendTo(group, "/retry@agent_test_bot")
				pass(time.Minute)
				w.ann().SendTo(group, "/stop") // the owner's, with nothing to stop
				pass(time.Minute)
			})
			var answers []string
			for _, m := range chat.FromBot() {
				q, _ := chat.Message(m.ReplyTo)
				answers = append(answers, q.Text+" → "+m.Text)
			}
			all := strings.Join(answers, "\n")
			if strings.Count(all, "You asked: @agent_test_bot one.") != 1 || strings.Contains(all, "one; and: ") || len(answers) != 4 {
				t.Errorf("the group shows\n%s", all)
			}
		})
	})
}

// C099: a paste in pieces is one question without loss, whether the pieces come
// in one batch or in two; a short message does not wait.
func TestCasesOfPastes(t *testing.T) {
	first := strings.Repeat("0123456789abcdef", 4096/16-1) + "cut in mid-sent" // 4095
	first += "e"
	tail := "nce, and this is the tail"
	for name, pause := range map[string]time.Duration{"C099 at once": 0, "C099 60 ms apart": 60 * time.Millisecond, "C099 half a second apart": 500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, says("Read."), func(t *testing.T, w *world) {
				w.running(t, func() {
					w.ann().Send(first)
					pass(pause)
					w.ann().Send(tail)
					pass(time.Minute)
				})
				shows(t, w.tg.Chat(ann), "Read.")
				asked := w.asked()
				if len(asked) != 1 || words(asked[0].LastUser()) != first+tail {
					t.Errorf("%d calls; the question is %.60q … %q", len(asked), asked[0].LastUser(), asked[0].LastUser()[4000:])
				}
			})
		})
	}
	t.Run("C099 the recorded paste", func(t *testing.T) {
		inWorld(t, says("Read."), func(t *testing.T, w *world) {
			w.running(t, func() {
				w.inject(t, "upd_long_paste_parts.json")
				pass(time.Minute)
			})
			shows(t, w.tg.Chat(ann), "Read.")
			if n := len(w.asked()); n != 1 {
				t.Errorf("%d calls", n)
			}
		})
	})
	t.Run("a short message does not wait", func(t *testing.T) {
		inWorld(t, says("Read."), func(t *testing.T, w *world) {
			w.running(t, func() {
				w.ann().Send("short")
				pass(100 * time.Millisecond)
				shows(t, w.tg.Chat(ann), "Read.")
			})
		})
	})
	t.Run("an album is one question", func(t *testing.T) {
		inWorld(t, says("Seen."), func(t *testing.T, w *world) {
			w.running(t, func() {
				for i := range 3 {
					w.ann().Say(bottest.Say{Group: "9", Kind: "photo", Text: []string{"look", "", ""}[i], File: &bottest.File{Name: "a.png", MIME: "image/png", Data: []byte("png")}})
					pass(200 * time.Millisecond)
				}
				pass(time.Minute)
			})
			shows(t, w.tg.Chat(ann), "Seen.")
			if asked := w.asked(); len(asked) != 1 || strings.Count(asked[0].LastUser(), "photo") != 3 {
				t.Errorf("%d calls", len(asked))
			}
		})
	})
}
