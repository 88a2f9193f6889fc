package main

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf16"

	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

// Whatever the model writes arrives, and can be read.
func TestCasesOfFormatting(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string
		want   []string // must be visible
		never  []string // must not
	}{
		"C001": {"Set MAX_RETRY_COUNT in my_config_file.py; then 2 * 3 * 4 and *maybe later",
			[]string{"MAX_RETRY_COUNT", "my_config_file.py", "2 * 3 * 4 and *maybe later"}, nil},
		"C001 corpus":       {markdown(t, "md_stray_markers.md"), []string{"MAX_RETRY_COUNT", "my_config_file.py", "2 * 3 * 4"}, nil},
		"C001 addresses":    {markdown(t, "md_urls_bare.md"), []string{"https://"}, nil},
		"C001 specials":     {markdown(t, "md_markdownv2_specials.md"), nil, nil},
		"C001 formulas":     {markdown(t, "md_math.md"), nil, nil},
		"C002":              {"Here is the text:\n```\nUse parse_mode MarkdownV2", []string{"Use parse_mode MarkdownV2"}, []string{"```"}},
		"C002 corpus":       {markdown(t, "md_unclosed_fence.md"), nil, []string{"```", "Bad Request"}},
		"C003":              {"**From:** Ann Lee <ann.lee@example.org>\n**Re:** Q1 & Q2 </b> totals <100", []string{"<ann.lee@example.org>", "Q1 & Q2 </b>", "<100"}, []string{"**", "&lt;"}},
		"C003 corpus":       {markdown(t, "md_angle_brackets.md"), []string{"<ann.lee@example.org>", "</b>"}, nil},
		"C004":              {"Vec<T> and map<string, <your-token>> plus a < b && c > d, tag <3", []string{"Vec<T> and map<string, <your-token>> plus a < b && c > d, tag <3"}, nil},
		"C004 corpus":       {markdown(t, "md_generics.md"), []string{"Vec<T>"}, []string{"&amp;"}},
		"C102 table":        {markdown(t, "md_table.md"), nil, []string{"**", "<!--"}},
		"C102 lists":        {markdown(t, "md_lists.md"), []string{"<!-- hidden comment -->"}, []string{"**"}},
		"C102 nested links": {markdown(t, "md_links_nested.md"), nil, []string{"**"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, says(tc.answer), func(t *testing.T, w *world) {
				w.running(t, func() { w.ask("go on") })
				got := w.tg.Chat(ann).FromBot()
				if len(got) != 1 {
					t.Fatalf("%d messages: %s", len(got), seen(w.tg.Chat(ann)))
				}
				for _, c := range w.answering() {
					if c.Code != 200 || c.Params["parse_mode"] != nil {
						t.Errorf("%s was answered %d %s", c.Method, c.Code, c.Error)
					}
				}
				for _, s := range tc.want {
					if !strings.Contains(got[0].Text, s) {
						t.Errorf("%q is missing in\n%s", s, got[0].Text)
					}
				}
				for _, s := range tc.never {
					if outside := withoutCode(got[0]); strings.Contains(outside, s) {
						t.Errorf("%q is in\n%s", s, outside)
					}
				}
			})
		})
	}
}

// withoutCode gives a message's text but for what is shown as code.
func withoutCode(m bottest.Message) string {
	units := utf16.Encode([]rune(m.Text))
	for _, e := range slices.Backward(m.Entities) {
		if e.Type == "pre" || e.Type == "code" {
			units = slices.Delete(units, e.Offset, e.Offset+e.Length)
		}
	}
	return string(utf16.Decode(units))
}

// C001, C006: Telegram refuses all entities. The same parts go as the text that
// the model wrote; nothing is lost, doubled, or shown as markup of ours.
func TestRefusedEntities(t *testing.T) {
	for name, answer := range map[string]string{
		"C001 short": "Set **MAX_RETRY_COUNT**, see [docs](https://example.org/a_(b)?x=1&y=2).",
		"C006 long":  markdown(t, "md_long_mixed.md"),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, says(answer), func(t *testing.T, w *world) {
				w.tg.Fault(bottest.Rule{Times: -1, Status: 400, Error: "Bad Request: can't parse entities: Can't find end of the entity starting at byte offset 7",
					Match: func(c bottest.Call) bool { return c.Params["entities"] != nil || c.Params["parse_mode"] != nil }})
				w.running(t, func() { w.ask("go on"); pass(time.Minute) })
				var all strings.Builder
				for _, m := range w.tg.Chat(ann).FromBot() {
					if n := len(utf16.Encode([]rune(m.Text))); n > 4096 {
						t.Errorf("a message of %d units", n)
					}
					all.WriteString(m.Text + "\n")
				}
				for _, s := range []string{"<b>", "</i>", "<a href", "&lt;", "&amp;"} {
					if !strings.Contains(answer, s) && strings.Contains(all.String(), s) {
						t.Errorf("%q is visible", s)
					}
				}
				words := func(s string) []string {
					s = strings.ReplaceAll(s, "```python", "```") // each part of a fence names its language
					return strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
				}
				if got, want := words(all.String()), words(answer); !slices.Equal(got, want) {
					t.Errorf("%d words arrived of %d\n%s", len(got), len(want), all.String())
				}
			})
		})
	}
}

// C008, C009 and what comes with a preview: an answer of many messages, streamed.
func TestLongAnswers(t *testing.T) {
	code := markdown(t, "md_long_code.md")
	lines := strings.NewReplacer("\t", "    ", "`", "").Replace(code)
	bold := "**" + strings.Repeat("all of this is bold ", 300) + "end**\n\n> quoted\n\n- one\n- two"
	for name, tc := range map[string]struct {
		answer string
		least  int
		style  string // that each message is in, as a whole
		lines  []string
	}{
		"C008": {bold, 2, "bold", nil},
		"C009": {code, 3, "pre", strings.Split(lines, "\n")},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := says(tc.answer)
			cfg.PerToken = 10 * time.Millisecond
			inWorld(t, cfg, func(t *testing.T, w *world) {
				w.running(t, func() { w.ask("go on"); pass(2 * time.Minute) })
				got := w.tg.Chat(ann).FromBot()
				if len(got) < tc.least {
					t.Fatalf("%d messages", len(got))
				}
				var all strings.Builder
				for i, m := range got {
					if n := len(utf16.Encode([]rune(m.Text))); n > 4096 {
						t.Errorf("message %d has %d units", i, n)
					}
					if !slices.ContainsFunc(m.Entities, func(e bottest.Entity) bool {
						return e.Type == tc.style && (tc.style != "pre" || e.Language == "go")
					}) {
						t.Errorf("message %d has the entities %+v", i, m.Entities)
					}
					all.WriteString(m.Text + "\n")
				}
				from := 0
				for _, line := range tc.lines {
					if line == "go" || strings.TrimSpace(line) == "" {
						continue
					}
					at := strings.Index(all.String()[from:], line)
					if at < 0 {
						t.Fatalf("the line %q is lost, or out of its place", line)
					}
					from += at + len(line)
				}
				for _, c := range w.answering() {
					if c.Code != 200 {
						t.Errorf("%s: %d %s", c.Method, c.Code, c.Error)
					}
				}
			})
		})
	}
}

// C026: blank answers never become a message; the model is asked once more, and
// then the person is told. Thoughts are not the answer.
func TestCasesOfEmptyAnswers(t *testing.T) {
	think := ollamatest.Answer{ollamatest.Think("they want to know the secret plan")}
	var thinkingOnly ollamatest.Answer
	for line := range strings.Lines(corpus(t, "ollama", "testdata", "ollama_thinking_only.json")) {
		thinkingOnly = append(thinkingOnly, ollamatest.Raw(line))
	}
	for name, answer := range map[string]ollamatest.Answer{
		"C026a thoughts only": think, "C026a recorded": append(thinkingOnly, ollamatest.Cut()),
		"C026b white space": {ollamatest.Text("\n \n")}, "C026b invisible": {ollamatest.Text("\u200b\u2060 \u00a0\n")},
		"C026c nothing": {}, "thoughts as text": {ollamatest.Text("<think>they want the secret plan</think>\n")},
	} {
		for _, after := range []string{"at once", "after a tool"} {
			t.Run(name+" "+after, func(t *testing.T) {
				inWorld(t, ollamatest.Config{Answer: func(r ollamatest.Request) ollamatest.Answer {
					if after == "after a tool" && r.Messages[len(r.Messages)-1].Role == "user" && !strings.Contains(r.LastUser(), "empty") {
						return ollamatest.Answer{ollamatest.Call("word_count", `{"text":"a b"}`)}
					}
					return answer
				}}, func(t *testing.T, w *world) {
					w.running(t, func() { w.ask("well?") })
					if got := texts(w.tg.Chat(ann)); len(got) != 1 || !strings.Contains(got[0], "empty answer") || strings.Contains(got[0], "plan") {
						t.Errorf("the chat shows %q", got)
					}
					for _, c := range w.answering() {
						if strings.TrimSpace(c.Text()) == "" || c.Code != 200 {
							t.Errorf("%s of %q: %d %s", c.Method, c.Text(), c.Code, c.Error)
						}
					}
					if n := len(w.asked()); n > 3 {
						t.Errorf("the model was asked %d times", n)
					}
				})
			})
		}
	}
}
