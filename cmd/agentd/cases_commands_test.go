package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/agent"
	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

// Point 7 of issue 3: which commands are ours.
func TestCommandsOfOthers(t *testing.T) {
	for text, want := range map[string]string{ // "" silence, "model" a question
		"/id@agent_test_bot": "Your id is", "/ID": "Your id is", "/id@other_bot": "", "/start@AGENT_TEST_BOT": "Hello, Ann Lee",
		"/dance": "I do not know /dance", "/etc/passwd is what?": "model", "/": "model", "stop it": "model", "/help now": "/retry",
		"@agent_test_bot /id": "Your id is", "Стоп!": "Nothing is running", "停": "Nothing is running", "Cancel.": "Nothing is running",
	} {
		t.Run(text, func(t *testing.T) {
			inWorld(t, says("I am the model."), func(t *testing.T, w *world) {
				w.running(t, func() { w.ask(text) })
				got := strings.Join(texts(w.tg.Chat(ann)), "\n")
				if want == "model" {
					want = "I am the model."
				}
				if want == "" && got != "" || !strings.Contains(got, want) || len(w.asked()) > 0 != (want == "I am the model.") {
					t.Errorf("the chat shows %q", got)
				}
			})
		})
	}
}

// Forwarded and quoted commands are words, not commands.
func TestForwardedCommandsDoNothing(t *testing.T) {
	inWorld(t, ollamatest.Config{Answer: echo, PerToken: 100 * time.Millisecond}, func(t *testing.T, w *world) {
		w.running(t, func() {
			w.ann().Send("one")
			pass(time.Second)
			w.ann().Say(bottest.Say{Text: "/stop", Forward: true})
			w.ann().Say(bottest.Say{Text: "стоп", Forward: true})
			pass(time.Minute)
		})
		got := texts(w.tg.Chat(ann))
		if len(got) != 2 || !strings.Contains(got[0], "as they do.") || !strings.Contains(got[1], "/stop") {
			t.Errorf("the chat shows %q", got)
		}
	})
}

// /stop gives open calls a result, kills the model's call, and no late answer comes.
func TestStopInATool(t *testing.T) {
	inWorld(t, ollamatest.Config{Answer: func(r ollamatest.Request) ollamatest.Answer {
		if strings.Contains(r.LastUser(), "use a tool") {
			return ollamatest.Answer{ollamatest.Call("wait", `{}`)}
		}
		return echo(r)
	}}, func(t *testing.T, w *world) {
		w.tools = []agent.Tool{waiting()}
		w.running(t, func() {
			w.ann().Send("use a tool")
			pass(2 * time.Second)
			w.ann().Send("/stop")
			pass(time.Second)
			shows(t, w.tg.Chat(ann), "Stopped.")
			if got := w.tg.Chat(ann).Action(); got == "typing" && w.llm.State().Active > 0 {
				t.Error("it is still at work")
			}
			pass(time.Minute)
			shows(t, w.tg.Chat(ann), "Stopped.")
			w.ask("and now?")
		})
		last := w.asked()[len(w.asked())-1]
		if !strings.Contains(string(last.Body), "stopped by the person") {
			t.Errorf("the model is sent %s", last.Body)
		}
		w.wellFormed(t)
	})
}

// /retry asks the same question anew; the model is told what was done already,
// and what is superseded is no longer sent.
func TestRetryTellsWhatWasDone(t *testing.T) {
	for _, when := range []string{"after the answer", "while it runs", "twice", "after a restart"} {
		t.Run(when, func(t *testing.T) {
			inWorld(t, ollamatest.Config{FirstToken: 300 * time.Millisecond, Answer: func(r ollamatest.Request) ollamatest.Answer {
				last := r.Messages[len(r.Messages)-1]
				switch {
				case strings.Contains(last.Content, "asked again"):
					return ollamatest.Answer{ollamatest.Text("A second answer.")}
				case last.Role == "user":
					return ollamatest.Answer{ollamatest.Call("note", `{"text":"x"}`)}
				case when == "while it runs":
					return ollamatest.Answer{ollamatest.Text("A first answer that nobody sees."), ollamatest.Wait(time.Minute)}
				}
				return ollamatest.Answer{ollamatest.Text("A first answer.")}
			}}, func(t *testing.T, w *world) {
				notes := filepath.Join(t.TempDir(), "notes")
				w.tools = []agent.Tool{noting(notes)}
				w.running(t, func() {
					w.ann().Send("note x")
					pass(3 * time.Second)
					if when != "after a restart" {
						w.ask("/retry")
					}
				})
				w.running(t, func() {
					if when == "twice" || when == "after a restart" {
						w.ask("/retry")
					}
				})
				got := texts(w.tg.Chat(ann))
				if got[len(got)-1] != "A second answer." || when == "while it runs" && len(got) != 1 {
					t.Errorf("the chat shows\n%s", seen(w.tg.Chat(ann)))
				}
				if b, _ := os.ReadFile(notes); strings.Count(string(b), "\n") != 1 {
					t.Errorf("the tool left %q", b)
				}
				last := w.asked()[len(w.asked())-1]
				if said := last.LastUser(); !strings.Contains(said, "note x") || !strings.Contains(said, "note (done)") {
					t.Errorf("the model is asked %q", said)
				}
				if len(last.Messages) != 2 {
					t.Errorf("the model is sent %q", roles(last))
				}
			})
		})
	}
}

// /new and /sessions: a fresh conversation knows nothing, an old one is taken up
// where it was, and a deleted one is gone.
func TestSessionsAreResumedAndDeleted(t *testing.T) {
	inWorld(t, ollamatest.Config{Answer: echo}, func(t *testing.T, w *world) {
		knows := func(word string) bool {
			return strings.Contains(string(w.asked()[len(w.asked())-1].Body), word)
		}
		w.running(t, func() {
			w.ask("apples")
			w.ask("/new")
			w.ask("bananas")
			if knows("apples") {
				t.Error("the new conversation knows the old one")
			}
			w.ask("/sessions")
			press(t, w.ann(), "apples")
			pass(5 * time.Second)
			w.ask("cherries")
			if !knows("apples") || knows("bananas") {
				t.Errorf("the resumed conversation is sent %q", roles(w.asked()[len(w.asked())-1]))
			}
			list := w.ask("/sessions")
			m, _ := list.Last()
			bin := slices.IndexFunc(m.Buttons, func(row []bottest.Button) bool { return strings.Contains(row[0].Text, "bananas") })
			w.ann().Press(m, m.Buttons[bin][1].Data)
			pass(5 * time.Second)
			press(t, w.ann(), "Delete")
			pass(5 * time.Second)
			if got := lastOf(w.ask("/sessions")); strings.Contains(got, "bananas") || !strings.Contains(got, "apples") {
				t.Errorf("the list is %q", got)
			}
		})
	})
}

// Every sentence of the bot's own is in the language of who it is for.
func TestTwoLanguages(t *testing.T) {
	for lang, want := range map[string][]string{
		"ru": {"Здравствуйте", "Я не знаю", "Сейчас ничего", "модел"}, "ru-RU": {"Здравствуйте", "Я не знаю", "Сейчас ничего", "модел"},
		"en": {"Hello", "do not know", "Nothing is running", "model"}, "de": {"Hello", "do not know", "Nothing is running", "model"}, "": {"Hello", "do not know", "Nothing is running", "model"},
	} {
		t.Run("lang "+lang, func(t *testing.T) {
			inWorld(t, ollamatest.Config{Answer: func(ollamatest.Request) ollamatest.Answer {
				return ollamatest.Answer{ollamatest.Refuse(500, "model requires more system memory (9.1 GiB) than is available (5.9 GiB)")}
			}}, func(t *testing.T, w *world) {
				who := w.tg.User(ann, "Ann Lee", lang)
				w.running(t, func() {
					for _, text := range []string{"/start", "/dance", "/stop", "a question"} {
						who.Send(text)
						pass(10 * time.Second)
					}
				})
				got := texts(w.tg.Chat(ann))
				if len(got) != len(want) {
					t.Fatalf("the chat shows %q", got)
				}
				for i := range want {
					if !strings.Contains(got[i], want[i]) {
						t.Errorf("%q does not say %q", got[i], want[i])
					}
				}
			})
		})
	}
}
