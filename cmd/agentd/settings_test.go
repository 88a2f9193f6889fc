package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

// What is configured reaches the place where it counts.
func TestSettingsCount(t *testing.T) {
	inWorld(t, ollamatest.Config{Answer: func(r ollamatest.Request) ollamatest.Answer {
		if strings.Contains(r.LastUser(), "loop") && r.Messages[len(r.Messages)-1].Content != "" && len(r.Tools) > 0 {
			return ollamatest.Answer{ollamatest.Call("calculator", fmt.Sprintf(`{"expression":"1+%d"}`, len(r.Messages)))}
		}
		return ollamatest.Answer{ollamatest.Text("See https://example.org/.")}
	}}, func(t *testing.T, w *world) {
		prompt := filepath.Join(w.dir, "AGENT.md")
		if err := os.WriteFile(prompt, []byte("Always speak of ships."), 0o600); err != nil {
			t.Fatal(err)
		}
		agents := filepath.Join(w.dir, "agents")
		if err := os.Mkdir(agents, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(agents, "pilot.md"), []byte("---\nname: pilot\ndescription: steers ships\n---\nSteer.\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"AGENT_PROMPT_FILE": prompt, "AGENTS_DIR": agents, "AGENT_TZ": "Asia/Tokyo", "AGENT_OPTIONS": `{"temperature":0.25,"seed":12345678901234567890}`,
			"AGENT_KEEP_ALIVE": "7m", "AGENT_NUM_CTX": "6000", "AGENT_MAX_STEPS": "2", "LINK_PREVIEW": "true",
		} {
			w.env[name] = value
		}
		w.running(t, func() {
			w.ask("hello")
			w.ask("loop")
		})
		first := w.asked()[0]
		for _, s := range []string{"Always speak of ships.", "pilot: steers ships", "09:00 JST", `"seed":12345678901234567890`, `"temperature":0.25`, `"num_ctx":6000`} {
			if !strings.Contains(string(first.Body), s) {
				t.Errorf("%s is not in %s", s, first.Body)
			}
		}
		var keep string
		if err := json.Unmarshal(first.KeepAlive, &keep); err != nil || !strings.HasPrefix(keep, "7m") {
			t.Errorf("keep_alive is %s", first.KeepAlive)
		}
		if m := w.tg.Chat(ann).FromBot(); !m[0].Preview || !strings.Contains(m[1].Text, "2 steps") {
			t.Errorf("link preview %v; the limit of steps says %q", m[0].Preview, m[1].Text)
		}
	})
}

// Without AGENT_MODEL the only model answers; of several, the owner chooses by a
// button, once for all, and only the owner.
func TestModelIsChosen(t *testing.T) {
	cfg := ollamatest.Config{Models: []ollamatest.Model{{Name: "small:1b"}, {Name: "large:70b"}, {Name: "embedder", Capabilities: []string{"embedding"}}}}
	inWorld(t, cfg, func(t *testing.T, w *world) {
		w.env["TELEGRAM_ALLOWED_USERS"] = fmt.Sprintf("%d,%d", ann, bob)
		bob := w.tg.User(bob, "Bob", "en")
		w.running(t, func() {
			bob.Send("hello")
			pass(10 * time.Second)
			if got := lastOf(bob.Chat()); !strings.Contains(got, "small:1b") || !strings.Contains(got, "/model") {
				t.Errorf("without a model: %q", got)
			}
			bob.Send("/model")
			pass(10 * time.Second)
			if m, _ := bob.Chat().Last(); len(m.Buttons) > 0 {
				t.Errorf("somebody else may choose: %v", m.Buttons)
			}
			w.ask("/model")
			if got := seen(w.tg.Chat(ann)); strings.Contains(got, "embedder") {
				t.Errorf("a model that cannot chat is offered:\n%s", got)
			}
			press(t, w.ann(), "large:70b")
			pass(10 * time.Second)
			bob.Send("/retry")
			pass(10 * time.Second)
			if got := lastOf(bob.Chat()); !strings.Contains(got, "hello") {
				t.Errorf("with a model: %q", got)
			}
		})
		w.running(t, func() { w.ask("still the same?") })
		asked := w.asked()
		if got := asked[len(asked)-1].Model; got != "large:70b" {
			t.Errorf("after a restart %s is asked", got)
		}
	})
}

// An alarm goes to the owner and to TELEGRAM_CHAT_ID.
func TestAlarmsGoToTheChatForAlarms(t *testing.T) {
	inWorld(t, ollamatest.Config{}, func(t *testing.T, w *world) {
		const alarms = -1009
		chat := w.tg.AddChat(alarms, "supergroup", "Alarms", true)
		w.env["TELEGRAM_ALLOWED_USERS"], w.env["TELEGRAM_CHAT_ID"] = fmt.Sprintf("%d,%d", ann, bob), fmt.Sprint(alarms)
		w.tg.Fault(bottest.Rule{Method: "sendMessage", Chat: bob, Status: 400, Error: "Bad Request: the moon is in the wrong quarter"})
		w.running(t, func() {
			w.tg.User(bob, "Bob", "en").Send("hello")
			pass(time.Minute)
		})
		for _, c := range []bottest.Chat{w.tg.Chat(ann), chat} {
			if got := texts(c); len(got) != 1 || !strings.Contains(got[0], "the moon") {
				t.Errorf("it reads %q", got)
			}
		}
	})
}
