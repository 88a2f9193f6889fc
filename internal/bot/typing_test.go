package bot

import (
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/bot/bottest"
)

// TestTyping is C108.
func TestTyping(t *testing.T) {
	for name, rule := range map[string]bottest.Rule{
		"":        {Method: "none"},
		"refused": {Method: "sendChatAction", Times: -1, Status: 400, Error: "Bad Request: some error"},
		"hangs":   {Method: "sendChatAction", Times: -1, Hang: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, ann)
				s.srv.Fault(rule)
				began := time.Now()
				p := s.bot.Follow(t.Context(), s.ask(ann, 0, 0))
				pass(30 * time.Second)
				ended := time.Now()
				s.finish(p, "Done.")
				s.shows("Done.")
				last := began
				for _, c := range s.srv.Calls(bottest.Method("sendChatAction")) {
					if d := c.At.Sub(last); d > 5*time.Second {
						t.Errorf("no typing for %v", d)
					}
					if last = c.At; last.After(ended) {
						t.Error("typing after the answer")
					}
				}
				if d := ended.Sub(last); d > 5*time.Second {
					t.Errorf("no typing for the last %v", d)
				}
			})
		})
	}
}

func TestTypingKeepsPenalties(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, ann)
		s.srv.Fault(bottest.Rule{Method: "sendChatAction", RetryAfter: 20})
		p := s.bot.Follow(t.Context(), s.ask(ann, 0, 0))
		pass(30 * time.Second)
		typed := s.srv.Calls(bottest.Method("sendChatAction"))
		spaced(t, typed[:2], 20*time.Second)
		s.bot.gate.block(ann, time.Now().Add(time.Minute))
		pass(50 * time.Second)
		if again := s.srv.Calls(bottest.Method("sendChatAction")); len(again) != len(typed) {
			t.Errorf("%d typings in a penalty", len(again)-len(typed))
		}
		s.finish(p, "Done.")
		s.shows("Done.")
	})
}

func TestTypingEndsWhenForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, ann)
		s.srv.Fault(bottest.Rule{Method: "sendChatAction", Status: 403, Error: "Forbidden: bot was blocked by the user"})
		p := s.bot.Follow(t.Context(), s.ask(ann, 0, 0))
		pass(30 * time.Second)
		p.Close()
		p.Close() // harmless
		if n := len(s.srv.Calls()); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}
