package bot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/agent"
	"agentd/internal/bot/bottest"
	"agentd/internal/sqlite"
)

const (
	olga   = 1003 // writes Russian
	member = 1004 // in the allowed group only
)

// reception is a bot that polls, answers commands and sends, on virtual time and
// the real store. The turns are the test's own.
type reception struct {
	*delivery
	bot    *Bot
	desk   *testDesk
	models *testModels
	stop   func()

	ann, bob, olga, member *bottest.Person
}

func withReception(t *testing.T, change func(*Config), test func(r *reception)) {
	t.Helper()
	withServer(t, bottest.Config{}, func(d *delivery) {
		r := &reception{delivery: d, models: newTestModels()}
		r.desk = &testDesk{disk: d.disk}
		d.cfg.Allowed = []int64{ann, bob, olga, group}
		if change != nil {
			change(&d.cfg)
		}
		r.ann, r.bob = d.srv.User(ann, "Ann", "en"), d.srv.User(bob, "Bob", "en")
		r.olga, r.member = d.srv.User(olga, "Olga", "ru-RU"), d.srv.User(member, "Max", "en")
		r.begin()
		defer func() { r.stop() }()
		test(r)
	})
}

// begin starts what a process runs.
func (r *reception) begin() {
	b, err := New(r.cfg, r.store, r.models)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{b.Poll, b.Send, func(ctx context.Context) error { return b.Controls(ctx, r.desk) }} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				r.t.Error(err)
			}
		})
	}
	r.bot = b
	r.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		b.api.poll.CloseIdleConnections()
		b.api.send.CloseIdleConnections()
	})
	r.pass(time.Second)
}

// last is the bot's newest message in a chat, after what was asked had its time.
func (r *reception) last(chat int64) bottest.Message {
	r.t.Helper()
	r.pass(5 * time.Second)
	sent := r.srv.Chat(chat).FromBot()
	if len(sent) == 0 {
		r.t.Fatalf("chat %d is silent\n%s", chat, r.log.String())
	}
	return sent[len(sent)-1]
}

func (r *reception) silent(chat int64, n int) {
	r.t.Helper()
	r.pass(5 * time.Second)
	if got := r.texts(chat); len(got) != n {
		r.t.Errorf("chat %d shows %q, want %d messages", chat, got, n)
	}
}

func (r *reception) wantLast(chat int64, words ...string) bottest.Message {
	r.t.Helper()
	m := r.last(chat)
	for _, w := range words {
		if !strings.Contains(m.Text, w) {
			r.t.Errorf("chat %d shows %q, want %q in it", chat, m.Text, w)
		}
	}
	return m
}

// notice presses a button and gives what is shown over the chat.
func (r *reception) notice(p *bottest.Person, m bottest.Message, data string) string {
	r.t.Helper()
	id := p.PressOld(m, data)
	r.pass(5 * time.Second)
	c, ok := r.srv.Callback(id)
	if !ok || !c.Answered {
		r.t.Errorf("the press of %q is not acknowledged", data)
	}
	return c.Text
}

func (r *reception) has(m bottest.Message, data string) bool {
	return slices.ContainsFunc(m.Buttons, func(row []bottest.Button) bool {
		return slices.ContainsFunc(row, func(b bottest.Button) bool { return b.Data == data })
	})
}

// question lets a person ask something and opens the turn for it.
func (r *reception) question(p *bottest.Person, chat int64, text string) agent.Turn {
	r.t.Helper()
	p.SendTo(chat, text)
	r.pass(time.Second)
	turn, ok, err := r.disk.Claim(r.ctx, time.Now(), composeTest)
	if err != nil || !ok {
		r.t.Fatalf("nothing to claim after %q: %v", text, err)
	}
	return turn
}

func composeTest(rows []agent.Incoming) agent.Message {
	m := agent.Message{Role: agent.User}
	for _, in := range rows {
		m.Parts = append(m.Parts, in.Parts...)
	}
	return m
}

// testDesk stops and retries turns as the supervisor does, in the real store.
type testDesk struct {
	disk     *sqlite.Store
	mu       sync.Mutex
	stopped  []int64
	retried  []int64
	load     Load
	failWith error
}

func (d *testDesk) Stop(ctx context.Context, a agent.Address, by agent.Principal, update int64, answer func(agent.Turn) agent.Post) error {
	turn, err := d.disk.Stop(ctx, a, by, update, func(t agent.Turn) []agent.Post { return []agent.Post{answer(t)} })
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.stopped = append(d.stopped, turn.Turn)
	}
	return err
}

func (d *testDesk) Retry(ctx context.Context, a agent.Address, by agent.Principal, update int64) error {
	turn, err := d.disk.Retry(ctx, a, by, update, func(e []agent.Entry) agent.Message { return e[0].Message })
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.retried = append(d.retried, turn.Turn)
	}
	return err
}

func (d *testDesk) Load(context.Context, agent.Address) (Load, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.load, d.failWith
}

// testModels is a model server in memory.
type testModels struct {
	mu        sync.Mutex
	installed []Model
	current   ModelState
	err       error
	hang      bool // does not answer
	broken    bool // panics
	pull      func(ctx context.Context, progress func(done, total int64)) error
	chosen    []string
	pulled    []string
}

func newTestModels() *testModels {
	return &testModels{
		installed: []Model{{Name: "qwen3:4b", Size: 2_600_000_000, Chat: true}, {Name: "nomic-embed-text", Size: 274_000_000}, {Name: "llama3.2:3b", Size: 2e9, Chat: true}},
		current:   ModelState{Name: "qwen3:4b", Loaded: true, Context: 16384, Size: 3_500_000_000, GPU: 0.5},
	}
}

func (m *testModels) Current(ctx context.Context) (ModelState, error) {
	m.mu.Lock()
	hang, broken, state, err := m.hang, m.broken, m.current, m.err
	m.mu.Unlock()
	if broken {
		panic("the model server's client is broken")
	}
	if hang {
		<-ctx.Done()
		return ModelState{}, ctx.Err()
	}
	return state, err
}

func (m *testModels) Installed(context.Context) ([]Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.installed), m.err
}

func (m *testModels) Pull(ctx context.Context, name string, progress func(done, total int64)) error {
	m.mu.Lock()
	m.pulled = append(m.pulled, name)
	pull := m.pull
	m.mu.Unlock()
	return pull(ctx, progress)
}

func (m *testModels) Choose(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chosen = append(m.chosen, name)
	return nil
}

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

func TestSessions(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		first := r.question(r.ann, ann, "about *cats*")
		r.ann.Send("/new")
		r.pass(time.Second)
		second := r.question(r.ann, ann, "about dogs")
		r.ann.Send("/stop")
		r.pass(5 * time.Second)
		r.ann.Send("/sessions")
		list := r.wantLast(ann, "about *cats*", "about dogs", "now")
		if len(list.Buttons) != 2 {
			t.Fatalf("buttons %v", list.Buttons)
		}

		r.ann.Press(list, fmt.Sprint("session:open:", first.Session))
		r.wantLast(ann, "Back in “about *cats*”")
		if again := r.question(r.ann, ann, "more"); again.Session != first.Session {
			t.Errorf("asked in session %d, want %d", again.Session, first.Session)
		}
		r.ann.Send("/stop")
		r.ann.Send("/sessions")
		list = r.wantLast(ann, "about dogs")
		r.ann.Press(list, fmt.Sprint("session:delete:", second.Session))
		asks := r.wantLast(ann, "Delete “about dogs” for good?")
		r.ann.Press(asks, "session:keep")
		list = r.wantLast(ann, "about dogs", "about *cats*")
		r.ann.Press(list, fmt.Sprint("session:delete:", second.Session))
		r.ann.Press(r.wantLast(ann, "for good?"), fmt.Sprint("session:erase:", second.Session))
		list = r.wantLast(ann, "about *cats*")
		if strings.Contains(list.Text, "dogs") {
			t.Errorf("still there: %q", list.Text)
		}
		for _, action := range []string{"open", "delete"} { // an old button
			if got := r.notice(r.ann, list, fmt.Sprint("session:", action, ":", second.Session)); !strings.Contains(got, "no longer here") {
				t.Errorf("%s of what is gone: %q", action, got)
			}
		}
		// Another chat's session is not to be had by its number.
		theirs := r.question(r.bob, bob, "a secret")
		for _, action := range []string{"open", "delete", "erase"} {
			r.notice(r.ann, list, fmt.Sprint("session:", action, ":", theirs.Session))
		}
		if s, err := r.store.Sessions(r.ctx, theirs.Address, 10); err != nil || len(s) != 1 {
			t.Errorf("bob has %v, %v", s, err)
		}
		// A running one is not deleted.
		running := r.question(r.ann, ann, "cats again")
		if got := r.notice(r.ann, list, fmt.Sprint("session:erase:", running.Session)); !strings.Contains(got, "/stop") {
			t.Errorf("erased while it runs: %q", got)
		}
	})
}

func TestMembersDeleteNothing(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		turn := r.question(r.member, group, "@"+r.srv.Username()+" hi")
		r.member.SendTo(group, "/stop")
		r.pass(time.Second)
		r.member.SendTo(group, "/sessions")
		list := r.last(group)
		if got := r.notice(r.member, list, fmt.Sprint("session:erase:", turn.Session)); !strings.Contains(got, "by name") {
			t.Errorf("a member's press: %q", got)
		}
		if got := r.notice(r.srv.User(3000, "Eve", "en"), list, "models"); got != "That button is not for you." {
			t.Errorf("a member's press of the owner's button: %q", got)
		}
	})
}

func TestStrangers(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		eve := r.srv.User(2001, "Eve *Evil* [x](http://e.example)", "ru")
		eve.Send("hello")
		eve.Send("hello?")
		r.pass(time.Minute)
		if got := r.texts(2001); len(got) != 1 || !strings.Contains(got[0], "2001") || !strings.Contains(got[0], "Здравствуйте") {
			t.Fatalf("the stranger sees %q", got)
		}
		card := r.wantLast(ann, "Eve *Evil* [x](http://e.example) (id 2001)")
		r.pass(25 * time.Hour)
		eve.Send("and now?")
		r.pass(time.Minute)
		if got := r.texts(2001); len(got) != 2 {
			t.Errorf("a day later the stranger sees %q", got)
		}
		if got := r.texts(ann); len(got) != 1 {
			t.Errorf("the owner got %q", got)
		}

		// Nobody but the owner decides.
		if got := r.notice(r.bob, card, "person:allow:2001"); got != "That button is not for you." {
			t.Errorf("bob's press: %q", got)
		}
		r.notice(eve, card, "person:allow:2001")
		r.ann.Press(card, "person:allow:2001")
		m := r.wantLast(ann, "may talk to me now")
		if m.ID != card.ID || len(m.Buttons) != 0 {
			t.Errorf("the card is now %+v", m)
		}
		r.wantLast(2001, "Теперь вы можете говорить со мной")
		r.question(eve, 2001, "hi")
		// Twice, late and after a restart: it counts once.
		sent := len(r.texts(2001))
		r.stop()
		r.begin()
		if got := r.notice(r.ann, card, "person:allow:2001"); got != "Done." {
			t.Errorf("the second press: %q", got)
		}
		r.silent(2001, sent)

		r.ann.Send("/users")
		list := r.wantLast(ann, "Eve *Evil*", "allowed by you", "1002", "by configuration")
		r.ann.Press(list, "person:revoke:2001")
		r.wantLast(ann, "no longer")
		eve.Send("still?")
		r.pass(time.Minute)
		if _, ok, err := r.disk.Claim(r.ctx, time.Now(), composeTest); ok || err != nil {
			t.Errorf("a revoked person's question: %v, %v", ok, err)
		}
		if got := r.texts(2001); len(got) != sent {
			t.Errorf("within a day of the last line: %q", got)
		}
		// The configuration is not overruled, and the owner cannot lock themselves out.
		r.notice(r.ann, list, "person:block:1002")
		r.wantLast(ann, "TELEGRAM_ALLOWED_USERS")
		if got := r.notice(r.ann, list, "person:block:1001"); got != "That button no longer does anything." {
			t.Errorf("locking oneself out: %q", got)
		}
	})
}

func TestBlockedStrangers(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		eve := r.srv.User(2001, "Eve", "en")
		eve.Send("hello")
		r.ann.Press(r.last(ann), "person:block:2001")
		r.wantLast(ann, "blocked")
		r.pass(25 * time.Hour)
		eve.Send("please")
		r.silent(2001, 1)
		r.ann.Send("/users")
		r.ann.Press(r.wantLast(ann, "blocked"), "person:allow:2001")
		r.wantLast(2001, "You may talk to me now")
	})
}

func TestManyStrangers(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		for i := range int64(30) {
			r.srv.User(5000+i, fmt.Sprint("S", i), "en").Send("hi")
		}
		r.pass(5 * time.Minute)
		lines := 0
		for i := range int64(30) {
			lines += len(r.texts(5000 + i))
		}
		if cards := len(r.texts(ann)); lines != 20 || cards != 5 {
			t.Errorf("%d polite lines and %d cards, want 20 and 5", lines, cards)
		}
	})
}

func TestStrangersInGroupsAndEdits(t *testing.T) {
	withReception(t, func(c *Config) { c.Allowed = []int64{ann} }, func(r *reception) {
		at := "@" + r.srv.Username()
		m := r.bob.SendTo(group, at+" hi")
		r.bob.SendTo(group, "/status")
		r.bob.Edit(m, at+" hi there")
		r.silent(group, 0)
		r.silent(ann, 0)
		p := r.bob.Send("x")
		r.pass(time.Second)
		r.bob.Edit(p, "y")
		r.silent(bob, 1)
	})
}

func TestPairing(t *testing.T) {
	unowned := func(c *Config) { c.Allowed = []int64{group} }
	withReception(t, unowned, func(r *reception) {
		code, err := r.bot.StartPairing(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		r.bob.SendTo(group, code) // not in public
		r.silent(group, 0)
		r.bob.Send("/start AAAA-AAAA-AAAA-AAA0")
		r.wantLast(bob, "agentd pair")
		r.bob.Send("/start " + strings.ToLower(code))
		r.wantLast(bob, "Welcome, Bob!", "owner")
		if r.bot.ownerID() != bob {
			t.Errorf("the owner is %d", r.bot.ownerID())
		}
		r.bob.Send("/users")
		r.wantLast(bob, "owner")
		r.ann.Send(code) // used up
		r.wantLast(ann, "people I know")
		if _, err := r.bot.StartPairing(r.ctx); !errors.Is(err, ErrOwned) {
			t.Errorf("another owner: %v", err)
		}
	})
	withReception(t, unowned, func(r *reception) { // too late
		code, err := r.bot.StartPairing(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		r.pass(10 * time.Minute)
		r.bob.Send(code)
		r.wantLast(bob, "agentd pair")
		if r.bot.ownerID() != 0 {
			t.Error("an old code paired")
		}
	})
	withReception(t, unowned, func(r *reception) { // guessed too often
		code, err := r.bot.StartPairing(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 7 {
			r.bob.Send(fmt.Sprintf("AAAA-AAAA-AAAA-AAA%d", i))
			r.pass(2 * time.Second)
		}
		if got := r.texts(bob); len(got) != 5 {
			t.Errorf("wrong codes were answered %d times, want 5", len(got))
		}
		r.ann.Send(code)
		r.pass(time.Minute)
		if r.bot.ownerID() != 0 {
			t.Error("paired while barred")
		}
		r.pass(10 * time.Minute)
		if code, err = r.bot.StartPairing(r.ctx); err != nil {
			t.Fatal(err)
		}
		r.ann.Send(code)
		r.wantLast(ann, "Welcome, Ann!")
	})
	withReception(t, func(c *Config) { c.Allowed, c.Everybody = nil, true }, func(r *reception) {
		r.bob.Send("/users")
		r.wantLast(bob, "agentd pair")
		code, err := r.bot.StartPairing(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		r.bob.Send(code)
		r.wantLast(bob, "Welcome, Bob!")
		r.ann.Send("/users") // everybody talks, one decides
		r.wantLast(ann, "Only the owner")
	})
}

func TestOwnerLanguage(t *testing.T) {
	withReception(t, func(c *Config) { c.Owner = olga }, func(r *reception) {
		r.olga.Send("/start")
		r.pass(time.Second)
		r.srv.User(2001, "Eve", "en").Send("hello")
		r.wantLast(2001, "I have asked my owner")
		r.wantLast(olga, "хочет со мной поговорить")
	})
}

func TestButtonsSurviveTelegram(t *testing.T) { // C115
	withReception(t, nil, func(r *reception) {
		r.srv.User(2001, "Eve", "en").Send("hello")
		card := r.last(ann)
		r.srv.Fault(bottest.Rule{Method: "answerCallbackQuery", Status: 400, Error: "Bad Request: query is too old and response timeout expired or query ID is invalid", Times: -1})
		r.ann.Press(card, "person:allow:2001")
		r.wantLast(ann, "may talk to me now")
		if r.bot.people.rights(2001, 2001) != agent.Person {
			t.Error("the decision was lost")
		}
		for _, data := range []string{"ok:1", "", "person:allow:x", "person:fly:2001", "session:open:", "resend:1", "resend:x:y", "resend:99:0", "pull:", "model:gone", strings.Repeat("x", 64)} {
			r.ann.PressOld(card, data)
		}
		r.pass(time.Minute)
		r.ann.Send("/id")
		r.wantLast(ann, "1001")
		if strings.Contains(r.log.String(), "command failed") {
			t.Error(r.log.String())
		}
	})
}

func TestResend(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		r.srv.Fault(bottest.Rule{Method: "sendMessage", Chat: bob, CutBefore: true})
		r.post("turn:1", bob, textPayload(r.bot.md.Render("the answer"), ""))
		notice := r.wantLast(bob, "cannot tell")
		data := notice.Buttons[0][0].Data
		if got := r.notice(r.srv.User(2001, "Eve", "en"), notice, data); got != "That button is not for you." {
			t.Errorf("a stranger's press: %q", got)
		}
		r.ann.PressOld(bottest.Message{Chat: ann, ID: 77}, data) // from another chat
		r.pass(time.Minute)
		if got := r.notice(r.bob, notice, data); got != "It is on its way once more." {
			t.Errorf("the press: %q", got)
		}
		r.pass(time.Minute)
		r.ann.PressOld(notice, data)
		r.bob.PressOld(notice, data)
		r.pass(time.Minute)
		got := r.texts(bob)
		if len(got) != 2 || got[1] != "the answer" {
			t.Errorf("bob sees %q", got)
		}
		if m, _ := r.srv.Chat(bob).Message(notice.ID); len(m.Buttons) != 0 {
			t.Error("the button stays")
		}
	})
}

func TestModelChoice(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		r.ann.Send("/model")
		m := r.wantLast(ann, "Now it is qwen3:4b")
		if !r.has(m, "model:qwen3:4b") || !r.has(m, "model:llama3.2:3b") || r.has(m, "model:nomic-embed-text") {
			t.Errorf("buttons %v", m.Buttons)
		}
		if got := r.notice(r.bob, m, "model:llama3.2:3b"); got != "That button is not for you." {
			t.Errorf("bob's press: %q", got)
		}
		r.ann.Press(m, "model:llama3.2:3b")
		r.wantLast(ann, "From now on llama3.2:3b answers.")
		if got := r.notice(r.ann, m, "model:nomic-embed-text"); !strings.Contains(got, "no longer installed") {
			t.Errorf("an embedding model: %q", got)
		}
		if !slices.Equal(r.models.chosen, []string{"llama3.2:3b"}) {
			t.Errorf("chosen %v", r.models.chosen)
		}
		r.models.err = &agent.Fault{Code: agent.FaultUnreachable, Args: map[string]string{"address": "127.0.0.1:11434"}}
		r.ann.Send("/model")
		r.wantLast(ann, "cannot reach", "127.0.0.1:11434")
		r.ann.Send("/status")
		r.wantLast(ann, "cannot reach", "127.0.0.1:11434", "Telegram:")
	})
}

func TestPull(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		r.models.pull = func(ctx context.Context, progress func(done, total int64)) error {
			for i := range int64(60) {
				progress(i*50e6, 3e9)
				if !sleep(ctx, time.Second) {
					return ctx.Err()
				}
			}
			progress(3e9, 3e9)
			return nil
		}
		fault := &agent.Fault{Code: agent.FaultModelAbsent, Args: map[string]string{"model": "qwen3:8b", "nearest": "qwen3:4b", "pull": "ollama pull qwen3:8b"}}
		turn := agent.Turn{Scope: agent.Scope{Principal: agent.Principal{ID: ann, Rights: agent.Owner}}, Lang: "en"}
		r.post("turn:1", ann, textPayload(r.bot.md.Render(r.bot.explain("en", fault)), "", withKeyboard(r.bot.remedy(turn, fault))))
		m := r.wantLast(ann, "not installed")
		r.ann.Press(m, "pull:qwen3:8b")
		r.pass(20 * time.Second)
		if got := r.texts(ann); len(got) != 3 || !strings.Contains(got[2], "of 3.0 GB") {
			t.Fatalf("in the middle: %q", got)
		}
		r.ann.Send("/id") // nothing is held up
		r.wantLast(ann, "1001")
		if got := r.notice(r.ann, m, "pull:gemma3:1b"); !strings.Contains(got, "still fetching qwen3:8b") {
			t.Errorf("a second pull: %q", got)
		}
		r.pass(time.Minute)
		got := r.texts(ann)
		if !strings.Contains(got[len(got)-1], "qwen3:8b is here (3.0 GB)") || slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, " of 3.0 GB") }) {
			t.Errorf("at the end: %q", got)
		}
		edits := r.srv.Calls(bottest.Method("editMessageText"))
		if len(edits) < 10 || len(edits) > 25 {
			t.Errorf("%d edits in a minute", len(edits))
		}
		if !slices.Equal(r.models.chosen, []string{"qwen3:8b"}) {
			t.Errorf("chosen %v", r.models.chosen)
		}
		if after, _ := r.srv.Chat(ann).Message(m.ID); len(after.Buttons) != 0 {
			t.Error("the button stays")
		}
	})
}

func TestPullEnds(t *testing.T) {
	press := func(r *reception) {
		r.ann.Send("/start")
		r.ann.PressOld(r.last(ann), "pull:qwen3:8b")
	}
	withReception(t, nil, func(r *reception) { // fails
		r.models.pull = func(context.Context, func(int64, int64)) error {
			return errors.New("pull model manifest: file does not exist")
		}
		press(r)
		r.wantLast(ann, "could not be fetched", "file does not exist")
		press(r) // may be tried again
		r.wantLast(ann, "could not be fetched")
		if len(r.models.pulled) != 2 || len(r.models.chosen) != 0 {
			t.Errorf("pulled %v, chosen %v", r.models.pulled, r.models.chosen)
		}
	})
	withReception(t, nil, func(r *reception) { // stalls
		r.models.pull = func(ctx context.Context, progress func(int64, int64)) error {
			progress(1, 3e9)
			<-ctx.Done()
			return ctx.Err()
		}
		press(r)
		r.pass(6 * time.Minute)
		r.wantLast(ann, "no progress for 5m")
	})
	withReception(t, nil, func(r *reception) { // the process ends in the middle
		r.models.pull = func(ctx context.Context, _ func(int64, int64)) error { <-ctx.Done(); return ctx.Err() }
		press(r)
		r.pass(time.Second)
		r.stop()
		r.models.pull = func(context.Context, func(int64, int64)) error { return nil }
		r.begin()
		r.wantLast(ann, "qwen3:8b is here")
		if len(r.models.pulled) != 2 {
			t.Errorf("pulled %v", r.models.pulled)
		}
		r.stop()
		r.begin() // and that was it
		r.pass(time.Minute)
		if len(r.models.pulled) != 2 {
			t.Errorf("pulled again: %v", r.models.pulled)
		}
	})
}

func TestRemedies(t *testing.T) {
	b := receptionist(t, Config{})
	owner, person := agent.Turn{}, agent.Turn{}
	owner.Principal.Rights, person.Principal.Rights = agent.Owner, agent.Person
	for _, c := range []struct {
		fault agent.Fault
		want  string
	}{
		{agent.Fault{Code: agent.FaultModelAbsent, Args: map[string]string{"model": "m", "nearest": "n"}}, "pull:m models"},
		{agent.Fault{Code: agent.FaultModelAbsent, Args: map[string]string{"model": "m"}}, "pull:m"},
		{agent.Fault{Code: agent.FaultModelAbsent, Args: map[string]string{"model": strings.Repeat("m", 59)}}, "pull:" + strings.Repeat("m", 59)},
		{agent.Fault{Code: agent.FaultModelAbsent, Args: map[string]string{"model": strings.Repeat("m", 60)}}, ""}, // over 64 bytes
		{agent.Fault{Code: agent.FaultNoModel, Args: map[string]string{"installed": "a, b"}}, "models"},
		{agent.Fault{Code: agent.FaultNoModel}, ""},
		{agent.Fault{Code: agent.FaultNoChat}, "models"},
		{agent.Fault{Code: agent.FaultMemory}, "models"},
		{agent.Fault{Code: agent.FaultCut}, ""},
	} {
		var got []string
		if k := b.remedy(owner, &c.fault); k != nil {
			for _, row := range k.InlineKeyboard {
				for _, button := range row {
					got = append(got, button.CallbackData)
				}
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v: %q, want %q", c.fault.Code, got, c.want)
		}
		if b.remedy(person, &c.fault) != nil {
			t.Errorf("%v: a person other than the owner gets buttons", c.fault.Code)
		}
	}
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

func TestChatsDoNotWait(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		r.models.hang = true
		r.ann.Send("/status")
		r.bob.Send("/id")
		r.pass(500 * time.Millisecond) // the model server has more time than that
		r.want(ann)
		r.want(bob, "Your id is 1002.")
		r.ann.Send("/id") // its own chat keeps the order
		r.pass(5 * time.Second)
		if got := r.texts(ann); len(got) != 2 || !strings.Contains(got[0], "in time") || !strings.Contains(got[1], "1001") {
			t.Errorf("ann sees %q", got)
		}
	})
}

func TestBroken(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		r.models.broken = true
		r.ann.Send("/status")
		r.wantLast(ann, "Something broke")
		if log := r.log.String(); !strings.Contains(log, "client is broken") || !strings.Contains(log, "control_test.go") {
			t.Error("the log does not say where it broke")
		}
		r.models.broken = false
		r.desk.failWith = errors.New("disk I/O error")
		r.olga.Send("/status")
		r.wantLast(olga, "Что-то сломалось")
		r.desk.failWith = nil
		r.ann.Send("/status")
		r.wantLast(ann, "qwen3:4b")
	})
}

// Wherever a handler dies, the next process says what was to be said, once.
func TestDeathInAHandler(t *testing.T) {
	for _, verb := range []string{"Greet", "SetPerson", "Pair", "SetSetting", "Handled"} {
		for _, committed := range []bool{false, true} {
			t.Run(fmt.Sprint(verb, " ", committed), func(t *testing.T) {
				withReception(t, func(c *Config) { c.Allowed = []int64{group} }, func(r *reception) {
					// dying breaks every transaction from the chosen one on, until the restart
					var armed, dead bool
					r.probe = func(v string, c bool) error {
						if armed && v == verb && c == committed {
							dead = true
						}
						if dead {
							return errors.New("killed")
						}
						return nil
					}
					act := func(what func()) {
						armed = true
						what()
						r.pass(10 * time.Second)
						r.stop()
						armed, dead = false, false
						r.begin()
						r.pass(10 * time.Second)
					}
					code, err := r.bot.StartPairing(r.ctx)
					if err != nil {
						t.Fatal(err)
					}
					act(func() { r.ann.Send(code) })
					r.wantLast(ann, "Welcome, Ann!")
					r.want(ann, r.texts(ann)[0])
					act(func() { r.srv.User(2001, "Eve", "en").Send("hello") })
					card := r.wantLast(ann, "Eve (id 2001) would like")
					if verb != "Greet" && len(r.texts(2001)) != 1 {
						t.Errorf("the stranger sees %q", r.texts(2001))
					}
					act(func() { r.ann.Press(card, "person:allow:2001") })
					if m := r.wantLast(ann, "Eve (id 2001) may talk to me now"); m.ID != card.ID {
						t.Error("the card was not edited")
					}
					r.wantLast(2001, "You may talk to me now")
					if got := r.texts(2001); len(got) > 2 {
						t.Errorf("the person sees %q", got)
					}
				})
			})
		}
	}
}

// A row that a dead process left is answered once by the next.
func TestLeftOver(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		var fail bool
		r.probe = func(verb string, committed bool) error {
			if fail && verb == "Handled" && !committed {
				return errors.New("killed")
			}
			return nil
		}
		fail = true
		r.ann.Send("/id")
		r.pass(time.Minute)
		r.stop()
		r.want(ann)
		fail = false
		r.begin()
		r.pass(time.Minute)
		r.want(ann, "Your id is 1001.")
		r.stop()
		r.begin()
		r.pass(time.Minute)
		r.want(ann, "Your id is 1001.")
	})
}

func TestBlockedInTheMiddle(t *testing.T) { // C104
	withReception(t, nil, func(r *reception) {
		turn := r.question(r.bob, bob, "count")
		other := r.question(r.ann, ann, "count")
		r.bob.Block()
		r.pass(time.Second)
		if !slices.Equal(r.desk.stopped, []int64{turn.Turn}) {
			t.Errorf("stopped %v, want %d and not %d", r.desk.stopped, turn.Turn, other.Turn)
		}
		r.pass(time.Hour)
		if calls := r.srv.Calls(bottest.InChat(bob)); len(calls) > 3 {
			t.Errorf("%d calls to a chat that is closed", len(calls))
		}
		r.want(ann)
		r.bob.Unblock()
		r.bob.Send("/id")
		r.wantLast(bob, "1002")
	})
}

func TestGroupMigrates(t *testing.T) { // C017
	const small, big = -4001, -1001557000333
	withReception(t, func(c *Config) { c.Allowed = []int64{ann, small} }, func(r *reception) {
		chat := r.srv.AddChat(small, "group", "Small", false)
		at := "@" + r.srv.Username()
		before := r.question(r.member, small, at+" remember")
		r.member.SendTo(small, "/stop")
		r.pass(time.Second)
		chat.Migrate(big)
		after := r.question(r.member, big, at+" what?")
		if after.Session != before.Session || after.Principal.Rights != agent.Member {
			t.Errorf("the turn is %+v, before it was %+v", after, before)
		}
		if got := r.texts(big); len(got) != 0 {
			t.Errorf("the service messages were answered: %q", got)
		}
		r.stop()
		r.begin()
		r.member.SendTo(big, "/stop")
		r.wantLast(big, "Stopped.")
	})
}

// TestControlsEnd is the leak check: Controls ends with ctx, whatever is under way.
func TestControlsEnd(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		r.models.hang = true
		r.models.pull = func(ctx context.Context, _ func(int64, int64)) error { <-ctx.Done(); return ctx.Err() }
		r.ann.Send("/start")
		m := r.last(ann)
		r.ann.PressOld(m, "pull:x")
		r.ann.Send("/status")
		sleep(r.ctx, 100*time.Millisecond)
		r.stop()
		synctest.Wait()
	})
}
