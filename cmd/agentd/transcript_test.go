package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/tools/txtar"

	"agentd/internal/agent"
	"agentd/internal/agent/agenttest"
	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

var update = flag.Bool("update", false, "write what the chats show into the transcripts")

// A transcript is a conversation with the whole program. Its sections:
//
//	-- updates --   what people do, a line each:
//	                  NAME: text            writes in the private chat (ann, bob); \n is a line break
//	                  NAME@CHAT: text       writes in a group
//	                  NAME edits "old": new changes a message of theirs
//	                  NAME presses "text"   presses the newest button with this text
//	                  wait 5s               time passes
//	-- env --       settings beyond the usual ones, NAME=value
//	-- model --     the model's rules: KEY => text, KEY => call NAME {args},
//	                KEY => error STATUS text, KEY => echo (names the questions that
//	                have no answer yet); the first whose key is in the last message
//	                answers; \n is a line break
//	-- crash --     where a crash may change what is said: MIN..MAX text; each text is
//	                in so many messages of the bot, and each message has one of the texts
//	-- telegram --  what the chats show at the end
type transcript struct {
	path    string
	archive *txtar.Archive
}

func transcripts(t *testing.T) (out []transcript) {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, p := range paths {
		a, err := txtar.ParseFile(p)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, transcript{p, a})
	}
	return out
}

func (tr transcript) name() string { return strings.TrimSuffix(filepath.Base(tr.path), ".txtar") }

func (tr transcript) section(name string) string {
	for _, f := range tr.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func (tr transcript) lines(section string) (out []string) {
	sc := bufio.NewScanner(strings.NewReader(tr.section(section)))
	for sc.Scan() {
		if line := strings.TrimSpace(sc.Text()); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// rules reads the model's part.
func (tr transcript) rules(t *testing.T) (rules []rule) {
	t.Helper()
	for _, line := range tr.lines("model") {
		key, answer, ok := strings.Cut(line, " => ")
		if !ok {
			t.Fatalf("model: %q", line)
		}
		rules = append(rules, rule{key, parseAnswer(t, answer)})
	}
	return rules
}

// world makes the transcript's world.
func (tr transcript) world(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, ollamatest.Config{Answer: script(tr.rules(t)...), FirstToken: 100 * time.Millisecond, PerToken: 50 * time.Millisecond})
	w.tg.User(bob, "Bob", "ru")
	w.tools = []agent.Tool{waiting(), noting(filepath.Join(w.dir, "notes"))}
	for _, line := range tr.lines("env") {
		name, value, _ := strings.Cut(line, "=")
		w.env[name] = value
	}
	return w
}

// waiting is a tool that takes its time.
func waiting() *agenttest.Tool {
	return &agenttest.Tool{Name: "wait", Effect: agent.ReadOnly, Func: func(ctx context.Context, _ agent.Call) (agent.Result, error) {
		select {
		case <-ctx.Done():
			return agent.Result{}, ctx.Err()
		case <-time.After(5 * time.Second):
			return agent.Result{Text: "waited"}, nil
		}
	}}
}

// noting is a tool whose effect must not be repeated: it appends a line to a file.
func noting(path string) *agenttest.Tool {
	return &agenttest.Tool{Name: "note", Effect: agent.SideEffect, Func: func(_ context.Context, c agent.Call) (agent.Result, error) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return agent.Result{}, err
		}
		_, err = fmt.Fprintf(f, "%s\n", c.Args)
		return agent.Result{Text: "noted"}, errors.Join(err, f.Close())
	}}
}

func parseAnswer(t *testing.T, s string) ollamatest.Answer {
	t.Helper()
	if rest, ok := strings.CutPrefix(s, "call "); ok {
		name, args, _ := strings.Cut(rest, " ")
		return ollamatest.Answer{ollamatest.Call(name, args)}
	}
	if rest, ok := strings.CutPrefix(s, "error "); ok {
		var status int
		var text string
		if _, err := fmt.Sscanf(rest, "%d %q", &status, &text); err != nil {
			t.Fatalf("model: %q: %v", s, err)
		}
		return ollamatest.Answer{ollamatest.Refuse(status, text)}
	}
	if s == "echo" {
		return nil
	}
	return ollamatest.Answer{ollamatest.Text(strings.ReplaceAll(s, `\n`, "\n"))}
}

// play does what the people of the transcript do.
func (tr transcript) play(t *testing.T, w *world) {
	t.Helper()
	people := map[string]*bottest.Person{"ann": w.tg.User(ann, "Ann Lee", "en"), "bob": w.tg.User(bob, "Bob", "ru")}
	for _, line := range tr.lines("updates") {
		if rest, ok := strings.CutPrefix(line, "wait "); ok {
			d, err := time.ParseDuration(rest)
			if err != nil {
				t.Fatal(err)
			}
			pass(d)
			continue
		}
		head, text, _ := strings.Cut(line, ": ")
		text = strings.ReplaceAll(text, `\n`, "\n")
		name, rest, _ := strings.Cut(head, " ")
		name, chat, inGroup := strings.Cut(name, "@")
		person := people[name]
		if person == nil {
			t.Fatalf("updates: %q", line)
		}
		switch {
		case strings.HasPrefix(rest, "edits "):
			old := strings.Trim(strings.TrimPrefix(rest, "edits "), `"`)
			for _, m := range person.Chat().Messages() {
				if m.Text == old {
					person.Edit(m, text)
				}
			}
		case strings.HasPrefix(rest, "presses "):
			press(t, person, strings.Trim(strings.TrimPrefix(rest, "presses "), `"`))
		case inGroup:
			var id int64
			if _, err := fmt.Sscan(chat, &id); err != nil {
				t.Fatalf("updates: %q", line)
			}
			person.SendTo(id, text)
		default:
			person.Send(text)
		}
	}
}

// press presses the newest button with the text, if there is one.
func press(t *testing.T, p *bottest.Person, text string) {
	t.Helper()
	messages := p.Chat().FromBot()
	for i := len(messages) - 1; i >= 0; i-- {
		for _, row := range messages[i].Buttons {
			for _, b := range row {
				if strings.Contains(b.Text, text) {
					p.Press(messages[i], b.Data)
					return
				}
			}
		}
	}
}

// settle is how long everything is given to come to rest.
const settle = 2 * time.Minute

func TestTranscripts(t *testing.T) {
	for _, tr := range transcripts(t) {
		t.Run(tr.name(), func(t *testing.T) {
			var got string
			synctest.Test(t, func(t *testing.T) {
				w := tr.world(t)
				d := w.start(nil)
				pass(time.Second)
				tr.play(t, w)
				pass(settle)
				if code := d.stop(); code != exitOK {
					t.Errorf("exit code %d", code)
				}
				got = seen(w.tg.Chat(ann))
				if other := seen(w.tg.Chat(bob)); other != "" {
					got += "== bob ==\n" + other
				}
				for _, v := range w.tg.Violations() {
					t.Errorf("against the Bot API's specification: %s", v)
				}
				if t.Failed() || testing.Verbose() {
					t.Log(d.log.String())
				}
			})
			if *update {
				for i, f := range tr.archive.Files {
					if f.Name == "telegram" {
						tr.archive.Files[i].Data = []byte(got)
					}
				}
				if err := os.WriteFile(tr.path, txtar.Format(tr.archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := tr.section("telegram"); got != want {
				t.Errorf("the chat shows\n%s\nwant\n%s", got, want)
			}
		})
	}
}
