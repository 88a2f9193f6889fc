package bot

import (
	"context"
	"errors"
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
