package main

import (
	"strings"
	"testing"
	"time"

	"agentd/internal/ollama/ollamatest"
)

// C018, C085: a model without tool calls is told the text protocol; the result it
// invents is not believed, and the protocol's words are not shown.
func TestCasesOfTheTextProtocol(t *testing.T) {
	cfg := ollamatest.Config{
		Models: []ollamatest.Model{{Name: "plain", Capabilities: []string{"completion"}}},
		Answer: func(r ollamatest.Request) ollamatest.Answer {
			switch last := r.Messages[len(r.Messages)-1].Content; {
			case strings.Contains(last, "Observation: 42"):
				return ollamatest.Answer{ollamatest.Text("Thought: I know it.\nFinal Answer: It is 42.\nThat is all.")}
			case strings.Contains(last, "6 * 7"):
				return ollamatest.Answer{ollamatest.Text("Thought: I calculate.\nAction: calculator\nAction Input: {\"expression\": \"6 * 7\"}\nObservation: 41\nThought: Good.\nFinal Answer: It is 41.")}
			default:
				return ollamatest.Answer{ollamatest.Text("Hello, there is nothing to do.")}
			}
		},
	}
	inWorld(t, cfg, func(t *testing.T, w *world) {
		d := w.start(nil)
		pass(time.Second)
		w.ann().Send("what is 6 * 7?")
		pass(time.Minute)
		w.ann().Send("thanks")
		pass(time.Minute)
		d.stop()
		if got := seen(w.tg.Chat(ann)); got != "person: what is 6 * 7?\nbot: It is 42.\n    That is all.\nperson: thanks\nbot: Hello, there is nothing to do.\n" {
			t.Errorf("the chat shows\n%s", got)
		}
		for _, r := range w.llm.Requests() {
			if len(r.Messages) == 0 {
				continue // it warms up
			}
			system := r.Messages[0]
			if len(r.Tools) > 0 || system.Role != "system" || !strings.Contains(system.Content, "calculator") || !strings.Contains(string(r.Options["stop"]), "Observation:") {
				t.Errorf("a request has tools %s, stop %s, and begins with %.200s", r.Tools, r.Options["stop"], system.Content)
			}
			for _, m := range r.Messages {
				if m.Role == "tool" || len(m.ToolCalls) > 0 || strings.Contains(m.Content, "41") {
					t.Errorf("a request holds %+v", m)
				}
			}
		}
	})
}
