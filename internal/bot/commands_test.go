package bot

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/agent"
	"agentd/internal/bot/bottest"
)

func TestEveryCommand(t *testing.T) {
	for command, want := range map[string]struct{ en, ru []string }{
		"/start":         {[]string{"Hello, Ann!", "/help"}, []string{"Здравствуйте, Olga!", "/help"}},
		"/help":          {[]string{"/new", "/stop", "/retry", "/sessions", "/status", "/model", "/users", "/id"}, []string{"/new – начать", "/id – ваш номер"}},
		"/new":           {[]string{"fresh"}, []string{"Новая беседа"}},
		"/sessions":      {[]string{"no conversations"}, []string{"Бесед здесь пока нет"}},
		"/stop":          {[]string{"Nothing is running"}, []string{"ничего не выполняется"}},
		"stop":           {[]string{"Nothing is running"}, []string{"ничего не выполняется"}},
		"/retry":         {[]string{"nothing to retry"}, []string{"нечего повторять"}},
		"/id":            {[]string{"1001"}, []string{"1003"}},
		"/model":         {[]string{"Which model"}, []string{"только владелец"}},
		"/users":         {[]string{"Who may", "1003"}, []string{"только владелец"}},
		"/fly":           {[]string{"do not know /fly", "/help"}, []string{"не знаю", "/fly"}},
		"/FLY_to_a_b*c*": {[]string{}, []string{}},
		"/status":        {[]string{"qwen3:4b", "in memory (3.5 GB, 50 %", "3000 of 16384", "2 running", "version test"}, []string{"qwen3:4b", "3000 из 16384"}},
		"/id@ANN_bot":    {nil, nil},
	} {
		t.Run(command, func(t *testing.T) {
			withReception(t, nil, func(r *reception) {
				r.desk.load = Load{Running: 2, Waiting: 1, Tokens: 3000, Limit: 16384}
				r.ann.Send(command)
				r.olga.Send(command)
				r.pass(5 * time.Second)
				for chat, words := range map[int64][]string{ann: want.en, olga: want.ru} {
					if len(words) == 0 { // a question, or for another bot
						r.silent(chat, 0)
						continue
					}
					m := r.wantLast(chat, words...)
					if m.ReplyTo != 0 {
						t.Error("a private chat needs no reply")
					}
				}
			})
		})
	}
}

func TestMenu(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		r.pass(time.Minute)
		for lang, want := range map[string]string{"en": "stop what I am doing", "ru": "остановить работу", "de": "stop what I am doing"} {
			list := r.srv.Commands(ann, lang)
			if len(list) != len(menu()) || list[1].Description != want {
				t.Errorf("%s: %v", lang, list)
			}
		}
	})
	withServer(t, bottest.Config{}, func(d *delivery) { // harmless when it fails
		d.srv.Fault(bottest.Rule{Method: "setMyCommands", Status: 400, Error: "Bad Request: no", Times: -1})
		r := &reception{delivery: d, models: newTestModels(), desk: &testDesk{disk: d.disk}}
		r.ann = d.srv.User(ann, "Ann", "en")
		r.begin()
		defer r.stop()
		r.ann.Send("/id")
		r.wantLast(ann, "1001")
	})
}

func TestCommandsInGroups(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		asked := r.ann.SendTo(group, "/id")
		if m := r.wantLast(group, "1001", fmt.Sprint(group)); m.ReplyTo != asked.ID {
			t.Errorf("replies to %d, want %d", m.ReplyTo, asked.ID)
		}
		r.ann.SendTo(group, "/id@other_bot")
		r.ann.SendTo(group, "/id@"+r.srv.Username()+"2")
		r.silent(group, 1)
		thread := r.srv.Chat(group).AddTopic("Ops")
		r.ann.Say(bottest.Say{Chat: group, Thread: thread, Text: "/id@" + strings.ToUpper(r.srv.Username())})
		if m := r.wantLast(group, fmt.Sprint("topic’s ", thread)[:0], fmt.Sprint(thread)); m.Thread != thread {
			t.Errorf("answered in topic %d, want %d", m.Thread, thread)
		}
		r.member.SendTo(group, "/users")
		r.wantLast(group, "Only the owner")
		r.srv.User(2000, "Strange", "en").SendTo(group, "/id") // a member of an allowed chat
		r.wantLast(group, "2000")
	})
}

func TestStop(t *testing.T) {
	for _, word := range []string{"/stop", "Стоп!", "halt"} {
		withReception(t, nil, func(r *reception) {
			turn := r.question(r.ann, ann, "count to a million")
			r.ann.Send(word)
			r.pass(time.Second) // within a second
			r.want(ann, "Stopped.")
			if !slices.Equal(r.desk.stopped, []int64{turn.Turn}) {
				t.Errorf("%s stopped %v, want turn %d", word, r.desk.stopped, turn.Turn)
			}
			r.ann.Send(word)
			r.wantLast(ann, "Nothing is running")
		})
	}
}

func TestOthersTurns(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		at := "@" + r.srv.Username()
		turn := r.question(r.member, group, at+" hi")
		for _, text := range []string{"/stop", "/retry", "/new"} {
			r.bob.SendTo(group, text)
			r.wantLast(group, "only they or the owner")
		}
		r.bob.SendTo(group, at+" stop")
		r.wantLast(group, "only they or the owner")
		if len(r.desk.stopped)+len(r.desk.retried) != 0 {
			t.Fatal("somebody else's turn was touched")
		}
		r.member.SendTo(group, "/stop") // their own
		if m := r.wantLast(group, "Stopped."); int64(m.ReplyTo) != turn.Question {
			t.Errorf("replies to %d, want the question %d", m.ReplyTo, turn.Question)
		}
		second := r.question(r.member, group, at+" again")
		r.ann.SendTo(group, "/stop") // the owner
		r.wantLast(group, "Stopped.")
		if !slices.Equal(r.desk.stopped, []int64{turn.Turn, second.Turn}) {
			t.Errorf("stopped %v", r.desk.stopped)
		}
	})
}

func TestNewStopsOnesOwn(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		turn := r.question(r.ann, ann, "first")
		r.ann.Send("/new")
		r.pass(5 * time.Second)
		r.want(ann, "Stopped.", "A fresh conversation. The old one is kept: /sessions.")
		next := r.question(r.ann, ann, "second")
		if next.Session == turn.Session {
			t.Error("the same session")
		}
	})
}

// What waits when a new conversation begins is answered in it.
func TestNewKeepsWhatWaits(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		first := r.question(r.ann, ann, "first")
		r.ann.Send("second")
		r.ann.Send("/new")
		r.pass(5 * time.Second)
		turn, ok, err := r.disk.Claim(r.ctx, time.Now(), composeTest)
		if err != nil || !ok || turn.Session == first.Session {
			t.Errorf("claimed %+v, %v, %v; the first was %+v", turn, ok, err, first)
		}
	})
}

// A command counts with the rights that its sender has when it is answered.
func TestRightsOfNow(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		r.stop()
		in := r.bot.accept(privateFrom(bob, "/users"), time.Now())
		in.Sender.Rights = agent.Owner // as it was when it came
		if _, err := r.store.Accept(r.ctx, []agent.Incoming{in}); err != nil {
			t.Fatal(err)
		}
		r.begin()
		r.wantLast(bob, "Only the owner")
	})
}

func TestRetry(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		turn := r.question(r.ann, ann, "first")
		r.ann.Send("/retry")
		r.silent(ann, 0) // the new turn's answer is the reply
		if !slices.Equal(r.desk.retried, []int64{turn.Turn}) {
			t.Errorf("retried %v", r.desk.retried)
		}
	})
}

func TestStatusOfTheOwner(t *testing.T) {
	withReception(t, func(c *Config) { c.Allowed = []int64{ann, bob} }, func(r *reception) {
		r.member.SendTo(group, "@"+r.srv.Username()+" hi")
		if _, err := r.srv.Inject([]byte(`{"future_thing":{"a":1}}`)); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Second)
		r.ann.Send("/status")
		r.wantLast(ann, "Last ignored", "a stranger in a group", fmt.Sprint(int64(group)), "future_thing")
		r.bob.Send("/status")
		if m := r.last(bob); strings.Contains(m.Text, "ignored") {
			t.Errorf("bob sees %q", m.Text)
		}
		r.models.hang = true
		r.ann.Send("/status")
		r.wantLast(ann, "does not answer in time")
	})
}
