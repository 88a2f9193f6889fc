package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

// An answer of many parts of which one is in doubt: the line about it stands where
// the part belongs, the button brings the part, once, also after a restart.
func TestResendOfAPart(t *testing.T) {
	for name, tc := range map[string]struct {
		rule    bottest.Rule
		arrived bool
	}{
		"it had arrived":     {bottest.Rule{CutAfter: true}, true},
		"it had not arrived": {bottest.Rule{CutBefore: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			part := func(letter string) string { return strings.Repeat(letter, 4000) }
			inWorld(t, says(part("a")+"\n\n"+part("b")+"\n\n"+part("c")), func(t *testing.T, w *world) {
				tc.rule.Match = func(c bottest.Call) bool { return strings.HasPrefix(c.Text(), "b") }
				w.tg.Fault(tc.rule)
				w.running(t, func() { w.ask("go on") })
				letters := func() (out []string) {
					for _, text := range texts(w.tg.Chat(ann)) {
						out = append(out, text[:1])
					}
					return out
				}
				want := []string{"a", "I", "c"}
				if tc.arrived {
					want = []string{"a", "b", "I", "c"}
				}
				if got := letters(); !slices.Equal(got, want) {
					t.Fatalf("the chat shows %q", got)
				}
				w.running(t, func() {
					i := slices.Index(want, "I")
					m := w.tg.Chat(ann).FromBot()[i]
					w.ann().Press(m, m.Buttons[0][0].Data)
					pass(10 * time.Second)
					w.ann().PressOld(m, m.Buttons[0][0].Data)
					pass(time.Minute)
				})
				if got := letters(); !slices.Equal(got, append(want, "b")) {
					t.Errorf("after the button the chat shows %q", got)
				}
			})
		})
	}
}

// What streams is filtered before it shows: thoughts, calls written as text, secrets.
func TestNothingHiddenShows(t *testing.T) {
	for name, tc := range map[string]struct{ said, shown, secret string }{
		"a thought":      {"<think>the secret plan is to wait</think>\n" + strings.Repeat("word ", 60), strings.TrimSpace(strings.Repeat("word ", 60)), "plan"},
		"a late thought": {strings.Repeat("word ", 30) + "\n<think>the secret plan</think>\n" + strings.Repeat("more ", 30), "", "plan"},
		"the token":      {strings.Repeat("word ", 30) + "7000000001:TEST-token-abcdefghijklmnopqrstuv " + strings.Repeat("more ", 30), "", "TEST-token"},
		"half of it":     {strings.Repeat("word ", 30) + "it is **TEST-token**-abcdefghijklmnopqrstuv " + strings.Repeat("more ", 30), "", "abcdefghijklmnopqrstuv"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := ollamatest.Config{PerToken: 100 * time.Millisecond, Answer: func(ollamatest.Request) ollamatest.Answer {
				var letters []string
				for r := range slices.Chunk([]rune(tc.said), 3) { // cut anywhere
					letters = append(letters, string(r))
				}
				return ollamatest.Answer{ollamatest.Pace(30 * time.Millisecond), ollamatest.Tokens(letters...)}
			}}
			inWorld(t, cfg, func(t *testing.T, w *world) {
				w.running(t, func() { w.ask("go on") })
				got := texts(w.tg.Chat(ann))
				if len(got) != 1 || tc.shown != "" && got[0] != tc.shown {
					t.Errorf("the chat shows %q", got)
				}
				edits := 0
				for _, e := range w.tg.Chat(ann).History() {
					if e.Kind == "edit" {
						edits++
					}
					if strings.Contains(e.Message.Text, tc.secret) {
						t.Errorf("it showed %q", e.Message.Text)
					}
				}
				if edits < 2 {
					t.Errorf("%d edits: there was no preview", edits)
				}
			})
		})
	}
}
