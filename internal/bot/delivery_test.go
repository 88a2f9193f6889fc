package bot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/agent"
	"agentd/internal/bot/bottest"
	"agentd/internal/bot/markdown"
	"agentd/internal/sqlite"
)

const (
	ann   = 1001
	bob   = 1002
	group = -1001557000222
)

// delivery is a bot on a real store against the Bot API server, in memory. At
// the end of the bubble nothing of it may still run: that is the leak check.
type delivery struct {
	t     *testing.T
	ctx   context.Context
	srv   *bottest.Server
	disk  *sqlite.Store
	store *sqlite.Channel
	cfg   Config
	log   logBuffer
	probe func(verb string, committed bool) error // set before start
}

// withDelivery runs a test on virtual time.
func withDelivery(t *testing.T, test func(d *delivery)) {
	t.Helper()
	withServer(t, bottest.Config{}, test)
}

func withServer(t *testing.T, server bottest.Config, test func(d *delivery)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agentd.db")
	synctest.Test(t, func(t *testing.T) {
		srv, err := bottest.New(server)
		if err != nil {
			t.Fatal(err)
		}
		defer srv.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
		defer cancel()
		d := &delivery{t: t, ctx: ctx, srv: srv}
		d.cfg = Config{
			Token: srv.Token(), URL: "http://telegram.test", Dial: srv.Dial, Allowed: []int64{ann, group}, Version: "test",
			Log: slog.New(slog.NewTextHandler(&d.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		}
		d.disk, err = sqlite.Open(ctx, path, sqlite.Config{Probe: func(verb string, committed bool) error {
			if d.probe != nil {
				return d.probe(verb, committed)
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := d.disk.Close(); err != nil {
				t.Error(err)
			}
		}()
		d.store = d.disk.Channel(Channel)
		srv.User(ann, "Ann", "en")
		srv.User(bob, "Bob", "en")
		srv.AddChat(group, "supergroup", "Team", false)
		test(d)
		for _, v := range srv.Violations() {
			t.Error("against the specification:", v)
		}
		_, secret, _ := strings.Cut(d.cfg.Token, ":")
		if strings.Contains(d.log.String(), secret) {
			t.Errorf("the token is in the log:\n%s", d.log.String())
		}
	})
}

// start runs what a process runs; the function it gives ends the process.
func (d *delivery) start(run ...func(*Bot, context.Context) error) (b *Bot, stop func()) {
	d.t.Helper()
	b, err := New(d.cfg, d.store, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(d.ctx)
	var wg sync.WaitGroup
	for _, r := range run {
		wg.Go(func() {
			if err := r(b, ctx); err != nil {
				d.t.Error(err)
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		b.api.poll.CloseIdleConnections()
		b.api.send.CloseIdleConnections()
	})
	return b, stop
}

func (d *delivery) sending() (*Bot, func()) { return d.start((*Bot).Send) }

func (d *delivery) post(key string, chat int64, parts ...agent.Payload) {
	d.t.Helper()
	d.postTo(key, agent.Address{Channel: Channel, Chat: chat}, parts...)
}

func (d *delivery) postTo(key string, to agent.Address, parts ...agent.Payload) {
	d.t.Helper()
	if err := d.store.Post(d.ctx, agent.Post{Key: key, Address: to, Lang: "en", Parts: parts}); err != nil {
		d.t.Fatal(err)
	}
}

// pass lets the virtual time pass.
func (d *delivery) pass(t time.Duration) {
	sleep(d.ctx, t)
	synctest.Wait()
}

// texts is what the bot's messages in a chat say now.
func (d *delivery) texts(chat int64) (out []string) {
	for _, m := range d.srv.Chat(chat).FromBot() {
		out = append(out, m.Text)
	}
	return out
}

func (d *delivery) want(chat int64, want ...string) {
	d.t.Helper()
	if got := d.texts(chat); fmt.Sprint(got) != fmt.Sprint(want) {
		d.t.Fatalf("chat %d shows %q, want %q\n%s", chat, got, want, d.log.String())
	}
}

// idle asserts that the outbox holds nothing that waits.
func (d *delivery) idle() {
	d.t.Helper()
	chats, next, err := d.store.Lanes(d.ctx, time.Now().Add(1000*time.Hour))
	if err != nil || len(chats) != 0 {
		d.t.Errorf("the outbox still holds something for %v (next %v), err %v", chats, next, err)
	}
	if left, err := d.store.InFlight(d.ctx); err != nil || len(left) != 0 {
		d.t.Errorf("parts are on their way: %v, err %v", left, err)
	}
}

// calls counts the calls of a method to a chat.
func (d *delivery) calls(method string, chat int64) int {
	return len(d.srv.Calls(bottest.Method(method), bottest.InChat(chat)))
}

func say(text string) agent.Payload { return textPayload(markdown.Text{Text: text}, "") }

// existing puts a message of the bot into a chat.
func (d *delivery) existing(b *Bot, chat int64, text string) int64 {
	d.t.Helper()
	var o outgoing
	decodeBody(d.t, say(text), &o)
	id, err := b.api.post(d.ctx, agent.Address{Channel: Channel, Chat: chat}, o)
	if err != nil {
		d.t.Fatal(err)
	}
	return id
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// count says how many lines hold all of the words.
func (l *logBuffer) count(words ...string) (n int) {
lines:
	for line := range strings.Lines(l.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		n++
	}
	return n
}

// refusing fails so many dials, then lets through.
func refusing(n int, dial func(context.Context, string, string) (net.Conn, error)) (func(context.Context, string, string) (net.Conn, error), func() int) {
	var mu sync.Mutex
	tried := 0
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			tried++
			refuse := tried <= n
			mu.Unlock()
			if refuse {
				return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
			}
			return dial(ctx, network, addr)
		}, func() int {
			mu.Lock()
			defer mu.Unlock()
			return tried
		}
}

var errDisk = errors.New("database or disk is full")
