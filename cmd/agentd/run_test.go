package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
	"agentd/internal/sqlite"
)

// inWorld runs f in a bubble with a world in it, and asserts what holds
// everywhere: no call against the specification, no token in the log (C072).
func inWorld(t *testing.T, cfg ollamatest.Config, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cfg)
		f(t, w)
		for _, v := range w.tg.Violations() {
			t.Errorf("against the Bot API's specification: %s", v)
		}
		_, half, _ := strings.Cut(w.tg.Token(), ":")
		for _, log := range w.logs {
			if strings.Contains(log.String(), half) {
				t.Errorf("the token is in the log:\n%s", log)
			}
			if t.Failed() {
				t.Log(log.String())
			}
		}
	})
}

func (w *world) ann() *bottest.Person { return w.tg.User(ann, "Ann Lee", "en") }

func lastOf(c bottest.Chat) string {
	m, _ := c.Last()
	return m.Text
}

func TestFaultsAreListedAtOnce(t *testing.T) {
	var out buffer
	code := run(t.Context(), process{dir: t.TempDir(), stdout: &out, stderr: &out,
		environ: []string{"HOME=" + t.TempDir(), "TELEGRAM_RATE=fast", "TELEGRAM_BOT_TOKN=x", "AGENT_WORKERS=0", "OLLAMA_HOST=http://[bad"}})
	if code != exitConfig {
		t.Errorf("exit code %d", code)
	}
	for _, name := range []string{"TELEGRAM_BOT_TOKEN: ", "@BotFather", "agentd demo", "TELEGRAM_RATE: ", "AGENT_WORKERS: ", "OLLAMA_HOST: ", "TELEGRAM_BOT_TOKN"} {
		if !strings.Contains(out.String(), name) {
			t.Errorf("%q is missing in\n%s", name, out.String())
		}
	}
}

func TestUnknownCommand(t *testing.T) {
	var out buffer
	if code := run(t.Context(), process{args: []string{"start"}, stdout: &out, stderr: &out}); code != exitConfig || !strings.Contains(out.String(), "agentd help") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}

func TestRefusedToken(t *testing.T) {
	inWorld(t, ollamatest.Config{}, func(t *testing.T, w *world) {
		w.env["TELEGRAM_BOT_TOKEN"] = "7000000001:another-token-abcdefghijklmnop"
		d := w.start(nil)
		if code := d.wait(); code != exitConfig {
			t.Errorf("exit code %d", code)
		}
		if log := d.log.String(); !strings.Contains(log, "TELEGRAM_BOT_TOKEN: Telegram refuses this token") || strings.Contains(log, "another-token") {
			t.Error(log)
		}
	})
}

// C107: two daemons on one database.
func TestSecondDaemonIsRefused(t *testing.T) {
	inWorld(t, ollamatest.Config{}, func(t *testing.T, w *world) {
		first := w.start(nil)
		pass(time.Second)
		second := w.start(nil)
		if code := second.wait(); code != exitFailure || !strings.Contains(second.log.String(), "another agentd already uses") {
			t.Errorf("exit code %d: %s", code, second.log)
		}
		w.ann().Send("still there?")
		pass(time.Second)
		if got := lastOf(w.tg.Chat(ann)); !strings.Contains(got, "still there?") {
			t.Errorf("the first one answers %q", got)
		}
		first.stop()
	})
}

func TestDamagedDatabaseIsLeftAlone(t *testing.T) {
	inWorld(t, ollamatest.Config{}, func(t *testing.T, w *world) {
		path := filepath.Join(w.env["DATA_DIR"], "agentd.db")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		junk := strings.Repeat("not a database ", 500)
		if err := os.WriteFile(path, []byte(junk), 0o600); err != nil {
			t.Fatal(err)
		}
		d := w.start(nil)
		if code := d.wait(); code != exitFailure || !strings.Contains(d.log.String(), path) {
			t.Errorf("exit code %d: %s", code, d.log)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != junk {
			t.Error("the file was changed", err)
		}
	})
}

// C088: Ollama starts after the bot, goes away, and comes back.
func TestOllamaComesAndGoes(t *testing.T) {
	inWorld(t, ollamatest.Config{}, func(t *testing.T, w *world) {
		var up atomic.Bool
		w.dialOllama = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if !up.Load() {
				return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
			}
			return w.llm.Dial(ctx, network, addr)
		}
		d := w.start(nil)
		pass(time.Second)
		w.ann().Send("one")
		pass(time.Minute)
		if got := lastOf(w.tg.Chat(ann)); !strings.Contains(got, "ollama.test:11434") {
			t.Errorf("while it is down: %q", got)
		}
		if n := len(w.tg.Chat(ann).FromBot()); n != 1 {
			t.Errorf("%d messages for one question", n)
		}
		up.Store(true)
		w.ann().Send("two")
		pass(time.Minute)
		if got := lastOf(w.tg.Chat(ann)); !strings.Contains(got, "two") {
			t.Errorf("when it is back: %q", got)
		}
		if code := d.stop(); code != exitOK {
			t.Errorf("exit code %d", code)
		}
	})
}

// C087, C108: the model is loaded for 90 s; the person sees typing, one request is made.
func TestSlowLoad(t *testing.T) {
	inWorld(t, ollamatest.Config{Answer: func(ollamatest.Request) ollamatest.Answer {
		return ollamatest.Answer{ollamatest.Wait(90 * time.Second), ollamatest.Text("Here I am.")}
	}}, func(t *testing.T, w *world) {
		d := w.start(nil)
		pass(time.Second)
		w.ann().Send("hello")
		for range 18 {
			pass(5 * time.Second)
			if got := w.tg.Chat(ann).Action(); got != "typing" {
				t.Fatalf("no typing, but %q", got)
			}
		}
		pass(5 * time.Second)
		if got := lastOf(w.tg.Chat(ann)); got != "Here I am." {
			t.Errorf("got %q", got)
		}
		typing := len(w.tg.Calls(bottest.Method("sendChatAction")))
		pass(time.Minute)
		if n := len(w.tg.Calls(bottest.Method("sendChatAction"))); n != typing {
			t.Errorf("%d typing actions after the answer", n-typing)
		}
		d.stop()
		if n := len(w.llm.Requests()); n > 2 { // one warms up
			t.Errorf("%d requests for one question", n)
		}
	})
}

// C071, C031: a hanging turn holds up nobody else, and ends with a notice.
func TestHangingModelHoldsUpNobody(t *testing.T) {
	inWorld(t, ollamatest.Config{Answer: func(r ollamatest.Request) ollamatest.Answer {
		if strings.Contains(r.LastUser(), "hang") {
			return ollamatest.Answer{ollamatest.Hang()}
		}
		return ollamatest.Echo(r)
	}}, func(t *testing.T, w *world) {
		w.env["OLLAMA_NUM_PARALLEL"], w.env["AGENT_LOAD_TIMEOUT"] = "4", "2m"
		w.env["TELEGRAM_ALLOWED_USERS"] = "100200300,100200301"
		d := w.start(nil)
		pass(time.Second)
		w.ann().Send("hang")
		other := w.tg.User(bob, "Bob", "en")
		other.Send("hello")
		pass(2 * time.Second)
		if got := lastOf(other.Chat()); !strings.Contains(got, "hello") {
			t.Errorf("the other chat reads %q", got)
		}
		pass(3 * time.Minute)
		if got := w.tg.Chat(ann).FromBot(); len(got) != 1 || !strings.Contains(got[0].Text, "2m") && !strings.Contains(got[0].Text, "2 min") {
			t.Errorf("the hanging chat reads %q", seen(w.tg.Chat(ann)))
		}
		d.stop()
	})
}

// C109: told to stop while the model streams, the turn is finished.
func TestStopFinishesTheTurn(t *testing.T) {
	inWorld(t, ollamatest.Config{PerToken: 100 * time.Millisecond}, func(t *testing.T, w *world) {
		d := w.start(nil)
		pass(time.Second)
		w.ann().Send("one two three four five six seven")
		pass(300 * time.Millisecond)
		if code := d.stop(); code != exitOK {
			t.Errorf("exit code %d", code)
		}
		if got := lastOf(w.tg.Chat(ann)); !strings.HasSuffix(got, "seven") {
			t.Errorf("got %q", got)
		}
	})
}

// C109: a turn that outlasts the grace time is resumed, and being stopped in good order is no attempt.
func TestStopReleasesWhatTakesTooLong(t *testing.T) {
	inWorld(t, ollamatest.Config{PerToken: 5 * time.Second}, func(t *testing.T, w *world) {
		w.env["SHUTDOWN_GRACE"] = "1s"
		w.ann().Send("one two three four")
		for range 5 {
			d := w.start(nil)
			pass(10 * time.Second)
			if code := d.stop(); code != exitOK {
				t.Errorf("exit code %d", code)
			}
		}
		d := w.start(nil)
		pass(5 * time.Minute)
		d.stop()
		if got := w.tg.Chat(ann).FromBot(); len(got) != 1 || !strings.HasSuffix(got[0].Text, "four") {
			t.Errorf("the chat shows %q", seen(w.tg.Chat(ann)))
		}
	})
}

// A turn that takes the process with it three times is given up, and the person is told.
func TestPoisonedTurnIsGivenUp(t *testing.T) {
	inWorld(t, ollamatest.Config{FirstToken: time.Minute}, func(t *testing.T, w *world) {
		w.ann().Send("the question that kills")
		for range 3 {
			die := &death{}
			d := w.start(die)
			pass(10 * time.Second)
			die.finish()
			d.wait()
		}
		d := w.start(nil)
		pass(10 * time.Second)
		d.stop()
		if got := w.tg.Chat(ann).FromBot(); len(got) != 1 || !strings.Contains(got[0].Text, "3") {
			t.Errorf("the chat shows %q", seen(w.tg.Chat(ann)))
		}
	})
}

func TestPairing(t *testing.T) {
	inWorld(t, ollamatest.Config{}, func(t *testing.T, w *world) {
		delete(w.env, "TELEGRAM_ALLOWED_USERS")
		d := w.start(nil)
		pass(time.Second)
		code := regexp.MustCompile(`[0-9A-Z]{4}(-[0-9A-Z]{4}){3}`).FindString(d.log.String())
		if code == "" {
			t.Fatal("no code in the log")
		}
		other := w.tg.User(bob, "Bob", "en")
		other.Send("hello")
		w.ann().Send(code)
		pass(time.Second)
		w.ann().Send("hello")
		pass(time.Second)
		if got := lastOf(w.tg.Chat(ann)); !strings.HasSuffix(got, "hello") {
			t.Errorf("the owner reads %q", seen(w.tg.Chat(ann)))
		}
		other.Send(code)
		pass(time.Second)
		for _, r := range w.llm.Requests() {
			if strings.Contains(string(r.Body), "Bob") {
				t.Error("a stranger's words reached the model")
			}
		}
		d.stop()
		var out buffer
		p := w.process(&out)
		p.args = []string{"pair"}
		if exit := run(t.Context(), p); exit != exitFailure || !strings.Contains(out.String(), "has an owner") {
			t.Errorf("pair with an owner: exit code %d: %s", exit, out.String())
		}
	})
}

func TestPairPrintsANewCode(t *testing.T) {
	inWorld(t, ollamatest.Config{}, func(t *testing.T, w *world) {
		delete(w.env, "TELEGRAM_ALLOWED_USERS")
		d := w.start(nil)
		pass(time.Hour)
		var out buffer
		p := w.process(&out)
		p.args = []string{"pair"}
		if exit := run(t.Context(), p); exit != exitOK {
			t.Fatalf("exit code %d: %s", exit, out.String())
		}
		w.ann().Send(regexp.MustCompile(`[0-9A-Z]{4}(-[0-9A-Z]{4}){3}`).FindString(out.String()))
		pass(time.Second)
		w.ann().Send("hello")
		pass(time.Second)
		if got := lastOf(w.tg.Chat(ann)); !strings.HasSuffix(got, "hello") {
			t.Errorf("the new owner reads %q", seen(w.tg.Chat(ann)))
		}
		d.stop()
	})
}

// Somebody who is taken off the list while the daemon is down is not answered any
// more, neither what was begun nor what waits.
func TestRightsAreThoseOfNow(t *testing.T) {
	inWorld(t, ollamatest.Config{FirstToken: time.Minute}, func(t *testing.T, w *world) {
		w.env["TELEGRAM_ALLOWED_USERS"], w.env["SHUTDOWN_GRACE"] = "100200300,100200301", "0s"
		other := w.tg.User(bob, "Bob", "en")
		d := w.start(nil)
		pass(time.Second)
		other.Send("the first of Bob")
		pass(5 * time.Second)
		other.Send("the second of Bob")
		w.ann().Send("hello")
		pass(time.Second)
		d.stop()
		asked := len(w.llm.Requests())

		w.env["TELEGRAM_ALLOWED_USERS"] = "100200300"
		d = w.start(nil)
		pass(10 * time.Minute)
		d.stop()
		if got := other.Chat().FromBot(); len(got) > 0 {
			t.Errorf("Bob reads\n%s", seen(other.Chat()))
		}
		if got := lastOf(w.tg.Chat(ann)); !strings.HasSuffix(got, "hello") {
			t.Errorf("Ann reads %q", got)
		}
		for _, r := range w.llm.Requests()[asked:] {
			if strings.Contains(string(r.Body), "of Bob") {
				t.Error("Bob's words reached the model")
			}
		}
	})
}

// What is handled is deleted after two days, and the database is looked through.
func TestOldUpdatesAreDeleted(t *testing.T) {
	inWorld(t, ollamatest.Config{}, func(t *testing.T, w *world) {
		w.env["LOG_LEVEL"] = "info"
		ignored := func() int {
			store, err := sqlite.Open(t.Context(), filepath.Join(w.env["DATA_DIR"], "agentd.db"), sqlite.Config{})
			if err != nil {
				t.Fatal(err)
			}
			rows, err := store.Ignored(t.Context(), 10)
			if err := errors.Join(err, store.Close()); err != nil {
				t.Fatal(err)
			}
			return len(rows)
		}
		d := w.start(nil)
		pass(time.Second)
		w.tg.AddChat(-5001, "group", "Strangers", false)
		w.tg.User(bob, "Bob", "en").SendTo(-5001, "to nobody")
		pass(time.Hour)
		if n := ignored(); n != 1 {
			t.Errorf("%d ignored updates are kept", n)
		}
		pass(73 * time.Hour)
		if n := ignored(); n != 0 {
			t.Errorf("%d ignored updates are left after three days", n)
		}
		d.stop()
		if strings.Contains(d.log.String(), "damaged") {
			t.Error("a sound database is called damaged")
		}
	})
}

// One cause is one line, by the name of the setting that has it.
func TestDataDirIsAFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var out buffer
	code := run(t.Context(), process{dir: dir, stdout: &out, stderr: &out,
		environ: []string{"HOME=" + dir, "DATA_DIR=" + path, "TELEGRAM_BOT_TOKEN=7000000001:TEST-token-abcdefghijklmnopqrstuv"}})
	if want := "DATA_DIR: expected a folder (" + path + " is a file): choose another path\n"; code != exitConfig || out.String() != want {
		t.Errorf("exit code %d:\n%s", code, out.String())
	}
}
