package main

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/ollama/ollamatest"
)

// promptLimit is what the system text and the tools may weigh together, in
// bytes: reading the prompt is the wait that people with small machines feel.
const promptLimit = 4200

func TestPromptSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ollamatest.Config{})
		d := w.start(nil)
		w.tg.User(ann, "Ann Lee", "en").Send("hello")
		pass(time.Second)
		d.stop()
		for _, r := range w.llm.Requests() {
			if len(r.Messages) == 0 {
				continue
			}
			var tools []json.RawMessage
			if err := json.Unmarshal(r.Tools, &tools); err != nil || len(tools) != 4 {
				t.Fatalf("%d tools, %v", len(tools), err)
			}
			if n := len(r.Messages[0].Content) + len(r.Tools); n > promptLimit {
				t.Errorf("system text %d + tools %d = %d bytes, more than %d", len(r.Messages[0].Content), len(r.Tools), n, promptLimit)
			} else {
				t.Logf("system text %d + tools %d = %d bytes", len(r.Messages[0].Content), len(r.Tools), n)
			}
			return
		}
		t.Fatal("the model was not asked")
	})
}
