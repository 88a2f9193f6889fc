package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

// The field cases (Cnnn) through the whole program; other cases_*_test.go files
// hold more of them, by theme. What they share is here.

const group, supergroup = -4001, -1001557000111

// says is a model that always answers the same.
func says(text string) ollamatest.Config {
	return ollamatest.Config{Answer: func(ollamatest.Request) ollamatest.Answer { return ollamatest.Answer{ollamatest.Text(text)} }}
}

// corpus reads a file that the packages' own tests use as well.
func corpus(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "internal"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// markdown reads an answer of the corpus.
func markdown(t *testing.T, name string) string {
	return corpus(t, "bot", "markdown", "testdata", name)
}

// inject gives the bot a raw update of the corpus. The replacements, pairs of old
// and new, change its compact JSON.
func (w *world) inject(t *testing.T, name string, replacements ...string) {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(corpus(t, "bot", "bottest", "testdata", name))); err != nil {
		t.Fatal(err)
	}
	raw := b.String()
	for pair := range slices.Chunk(replacements, 2) {
		if !strings.Contains(raw, pair[0]) {
			t.Fatalf("%s is not in %s", pair[0], raw)
		}
		raw = strings.ReplaceAll(raw, pair[0], pair[1])
	}
	if _, err := w.tg.Inject([]byte(raw)); err != nil {
		t.Fatal(err)
	}
}

// texts are the bot's messages that a person sees now.
func texts(c bottest.Chat) (out []string) {
	for _, m := range c.FromBot() {
		out = append(out, m.Text)
	}
	return out
}

// shows asserts what the bot's messages in the chat are now.
func shows(t *testing.T, c bottest.Chat, want ...string) {
	t.Helper()
	if got := texts(c); !slices.Equal(got, want) {
		t.Errorf("the chat shows\n%q\nwant\n%q", got, want)
	}
}

// answering are the calls that make or change messages.
func (w *world) answering(filters ...func(bottest.Call) bool) []bottest.Call {
	return w.tg.Calls(append(filters, bottest.Method("sendMessage", "editMessageText", "deleteMessage"))...)
}

// asked are the questions to the model, without the request that loads it.
func (w *world) asked() []ollamatest.Request {
	return slices.DeleteFunc(w.llm.Requests(), func(r ollamatest.Request) bool { return len(r.Messages) == 0 })
}

// roles are the roles of the messages of a request, with the person's words.
func roles(r ollamatest.Request) (out []string) {
	for _, m := range r.Messages {
		role := m.Role
		if role == "user" {
			_, said, _ := strings.Cut(m.Content, "]")
			role += " " + strings.TrimSpace(said)
		}
		out = append(out, role)
	}
	return out
}

// wellFormed asserts that calls and results of every request belong together
// (C035), and that it begins with the system text (C024).
func (w *world) wellFormed(t *testing.T) {
	t.Helper()
	for i, r := range w.asked() {
		if r.Messages[0].Role != "system" {
			t.Errorf("request %d begins with %s", i, r.Messages[0].Role)
		}
		var open []ollamatest.ToolCall
		for k, m := range r.Messages {
			if m.Role == "tool" {
				if len(open) == 0 || m.ToolName != open[0].Function.Name {
					t.Errorf("request %d, message %d: a result of %q without its call", i, k, m.ToolName)
					return
				}
				open = open[1:]
				continue
			}
			if len(open) > 0 {
				t.Errorf("request %d, message %d: %d calls have no result", i, k, len(open))
			}
			open = m.ToolCalls
		}
	}
}

// gaps asserts that between one call and the next at least so much time passes.
func gaps(t *testing.T, calls []bottest.Call, least time.Duration) {
	t.Helper()
	for i := 1; i < len(calls); i++ {
		if d := calls[i].At.Sub(calls[i-1].At); d < least {
			t.Errorf("%s comes %v after %s", calls[i].Method, d, calls[i-1].Method)
		}
	}
}

// ask writes as ann and gives the answer half a minute to come.
func (w *world) ask(text string) bottest.Chat {
	w.ann().Send(text)
	pass(30 * time.Second)
	return w.tg.Chat(ann)
}

// flood turns Telegram's own flood limits on. It comes first in a test.
func (w *world) flood(t *testing.T) {
	t.Helper()
	tg, err := bottest.New(bottest.Config{Token: w.tg.Token(), Flood: true})
	if err != nil {
		t.Fatal(err)
	}
	w.tg.Close()
	w.tg = tg
	t.Cleanup(func() { tg.Close() })
	tg.User(ann, "Ann Lee", "en")
}

// running starts the daemon for f and stops it again.
func (w *world) running(t *testing.T, f func()) {
	t.Helper()
	d := w.start(nil)
	pass(time.Second)
	f()
	if code := d.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func callLines(list []bottest.Call) string {
	var b strings.Builder
	for _, c := range list {
		fmt.Fprintf(&b, "%s %s chat=%d %d %s %.60q\n", c.At.Format("05.000"), c.Method, c.Chat, c.Code, c.Error, c.Text())
	}
	return b.String()
}
