package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/agent"
	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

const ann, bob = 100200300, 100200301 // ann is the owner

// world is everything around a daemon: Telegram and Ollama, in memory, and a disk.
type world struct {
	tg    *bottest.Server
	llm   *ollamatest.Server
	dir   string
	env   map[string]string
	tools []agent.Tool
	logs  []*buffer // of the daemons that were started

	dialOllama func(context.Context, string, string) (net.Conn, error) // nil: the Ollama server's
	probe      func(verb string, committed bool) error                 // of the store; nil: none

	wrapTelegram func(http.RoundTripper) http.RoundTripper // nil: nothing
}

func newWorld(t testing.TB, cfg ollamatest.Config) *world {
	t.Helper()
	tg, err := bottest.New(bottest.Config{Token: "7000000001:TEST-token-abcdefghijklmnopqrstuv"})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{tg: tg, llm: ollamatest.New(cfg), dir: t.TempDir()}
	t.Cleanup(func() {
		tg.Close()
		if err := w.llm.Close(); err != nil {
			t.Error(err)
		}
	})
	w.env = map[string]string{
		"TELEGRAM_BOT_TOKEN": tg.Token(), "TELEGRAM_API_URL": "http://telegram.test", "OLLAMA_HOST": "ollama.test",
		"TELEGRAM_ALLOWED_USERS": fmt.Sprint(ann), "DATA_DIR": filepath.Join(w.dir, "data"), "LOG_LEVEL": "debug", "SHUTDOWN_GRACE": "5s",
	}
	tg.User(ann, "Ann Lee", "en")
	return w
}

// running is a daemon that runs the same code as main.
type running struct {
	ctx    context.Context
	cancel context.CancelFunc
	code   chan int
	log    *buffer
}

// start runs the daemon in this world; with d it dies when d says so.
func (w *world) start(d *death) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{ctx: ctx, cancel: cancel, code: make(chan int, 1), log: &buffer{}}
	w.logs = append(w.logs, r.log)
	p := w.process(r.log)
	if d != nil {
		d.kill = cancel
		p.wrapTelegram, p.probe = d.wrapTelegram, d.probe
	}
	go func() { r.code <- run(ctx, p) }()
	return r
}

// process is what a subcommand gets of this world.
func (w *world) process(out io.Writer) process {
	p := process{dir: w.dir, stdout: out, stderr: out, dialTelegram: w.tg.Dial, dialOllama: w.dialOllama, tools: w.tools, probe: w.probe, wrapTelegram: w.wrapTelegram}
	if p.dialOllama == nil {
		p.dialOllama = w.llm.Dial
	}
	for _, k := range slices.Sorted(maps.Keys(w.env)) {
		p.environ = append(p.environ, k+"="+w.env[k])
	}
	return p
}

// stop tells the daemon to stop, as SIGTERM does, and gives its exit code.
func (r *running) stop() int {
	r.cancel()
	return r.wait()
}

func (r *running) wait() int {
	code := <-r.code
	r.cancel()
	return code
}

// buffer is a log that two goroutines may touch.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// pass lets the bubble's clock run: everything that waits for less has happened.
func pass(d time.Duration) { <-time.After(d) }

// seen describes a chat as a person sees it now, a message a line.
func seen(c bottest.Chat) string {
	var b strings.Builder
	for _, m := range c.Messages() {
		who := "person"
		if m.FromBot {
			who = "bot"
		}
		fmt.Fprintf(&b, "%s: %s", who, strings.ReplaceAll(m.Text, "\n", "\n    "))
		if m.Silent {
			b.WriteString(" (silent)")
		}
		if m.ReplyTo != 0 {
			fmt.Fprintf(&b, " (reply to %d)", m.ReplyTo)
		}
		for _, row := range m.Buttons {
			for _, button := range row {
				fmt.Fprintf(&b, " [%s]", button.Text)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// script answers by the last message that the model is sent: the first rule
// whose key is in it. The model is asked again after a crash, so nothing may
// depend on how often it was asked.
func script(rules ...rule) func(ollamatest.Request) ollamatest.Answer {
	return func(r ollamatest.Request) ollamatest.Answer {
		last := r.Messages[len(r.Messages)-1].Content
		for _, rule := range rules {
			switch {
			case !strings.Contains(last, rule.key):
			case rule.answer == nil:
				return echo(r)
			default:
				return rule.answer
			}
		}
		return ollamatest.Answer{ollamatest.Text("No rule for: " + last)}
	}
}

type rule struct {
	key    string
	answer ollamatest.Answer // nil: echo
}

// echo names the questions since the last answer, so that it can be seen which
// of them an answer is for.
func echo(r ollamatest.Request) ollamatest.Answer {
	var asked []string
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == "assistant" && len(m.ToolCalls) == 0 {
			break
		}
		if m.Role == "user" {
			_, words, _ := strings.Cut(m.Content, "]")
			asked = append(asked, strings.Join(strings.Fields(words), " "))
		}
	}
	slices.Reverse(asked)
	return ollamatest.Answer{ollamatest.Text("You asked: " + strings.Join(asked, "; and: ") + ". That is a question that takes quite some words to answer, and here they come, one by one, as they do.")}
}
