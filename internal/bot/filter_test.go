package bot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

const (
	testToken  = "7000000001:AAtest-secret_half0123456789abcdef"
	testSecret = "AAtest-secret_half0123456789abcdef"
)

var testSecrets = []string{testToken, testSecret, "", "abcabd", "bdxyz"}

// filtered gives the finished text of a filter that got the pieces, and what it
// showed before the end.
func filtered(pieces ...string) (before, after string) {
	f := newFilter(testSecrets)
	for _, p := range pieces {
		f.add(p)
	}
	before = f.shown()
	return before, f.end()
}

func TestFilterText(t *testing.T) {
	for _, tt := range []struct{ name, in, before, after string }{
		{"plain", "Hello, *world*.", "Hello, *world*.", "Hello, *world*."},
		{"C080 think", "<think>the user wants 2+2</think>\n4", "4", "4"},
		{"C080 thinking", "<thinking>..</thinking>4", "4", "4"},
		{"C080 thought", "<thought>..</thought>4", "4", "4"},
		{"reasoning, upper case", "<REASONING>..</Reasoning> 4", "4", "4"},
		{"brackets", "[THINK]two and two[/THINK]4", "4", "4"},
		{"mixed tags", "<think>..</thinking>4", "4", "4"},
		{"two thoughts", "<think>a</think>\n<think>b</think>4", "4", "4"},
		{"C082 unclosed", "<think>The user wants", "", ""},
		{"unclosed after text", "Yes.\n<think>The user wants", "Yes.", "Yes."},
		{"C082 mention in code", "Wrap it in a `<think>` tag, then close it with `</think>`. Go on.", "Wrap it in a `<think>` tag, then close it with `</think>`. Go on.", "Wrap it in a `<think>` tag, then close it with `</think>`. Go on."},
		{"mention in two backticks", "``<think> ` `` goes on", "``<think> ` `` goes on", "``<think> ` `` goes on"},
		{"mention in a fence", "Like:\n```xml\n<note>\n<think>\n```\nGo on.", "Like:\n```xml\n<note>\n<think>\n```\nGo on.", "Like:\n```xml\n<note>\n<think>\n```\nGo on."},
		{"mention escaped", `A \<think> tag`, `A \<think> tag`, `A \<think> tag`},
		{"mention without code", "The <think> tag opens it.", "The", "The <think> tag opens it."},
		{"two mentions", "The <think> and <thought> tags.", "The", "The <think> and <thought> tags."},
		{"within a line", "Sure. <think>hm</think>4", "Sure. 4", "Sure. 4"},
		{"a lone backtick hides no thought", "It is 5` long\n<think>hm</think>4", "It is 5` long\n4", "It is 5` long\n4"},
		{"only the closing tag", "The user wants 2+2.\n</think>\n\n4", "4", "4"},
		{"partial tag", "a <thi", "a", "a <thi"},
		{"less than", "a < c", "a < c", "a < c"},
		{"operator", "f <| g", "f <| g", "f <| g"},
		{"operator at the end", "f <|", "f", "f <|"},
		{"blank", " \n\t", "", ""},

		{"list link", "[docs](https://example.org)", "[docs](https://example.org)", "[docs](https://example.org)"},
		{"task box", "[x] done", "[x] done", "[x] done"},
		{"numbers", "[1, 2]", "[1, 2]", "[1, 2]"},
		{"object that is no call", `{"city": "Bern"}`, `{"city": "Bern"}`, `{"city": "Bern"}`},
		{"object that may be one", `{"name": "Bern"}`, "", `{"name": "Bern"}`},
		{"braces", "{x | x > 0}", "{x | x > 0}", "{x | x > 0}"},
		{"python call", `[read_file(path="notes.txt")]`, "", `[read_file(path="notes.txt")]`},
		{"code fence", "```go\nx := 1\n```", "```go\nx := 1", "```go\nx := 1\n```"},
		{"bare fence", "```\nx := 1\n```\n", "```\nx := 1\n```", "```\nx := 1\n```"},
		{"json fence", "```json\n{\"city\": \"Bern\"}\n```\nSo.", "```json\n{\"city\": \"Bern\"}\n```\nSo.", "```json\n{\"city\": \"Bern\"}\n```\nSo."},
		{"json fence with a name", "Here:\n```json\n{\"name\": \"Bern\"}\n```\nSo.", "Here:\n```json\n{\"name\": \"Bern\"}\n```\nSo.", "Here:\n```json\n{\"name\": \"Bern\"}\n```\nSo."},
		{"json fence with a name, open", "Here:\n```json\n{\"name\": \"Be", "Here:", "Here:\n```json\n{\"name\": \"Be"},
		{"call in a fence after text", "I look.\n```json\n{\"name\": \"f\", \"arguments\": {}}\n```", "I look.", "I look.\n```json\n{\"name\": \"f\", \"arguments\": {}}\n```"},
		{"inline triple", "Use ```x``` here", "Use ```x``` here", "Use ```x``` here"},
		{"thought behind a call", "<tool_call>{}</tool_call>\n<think>x", "", "<tool_call>{}</tool_call>"},

		{"token", "It is " + testToken + ".", "It is [redacted].", "It is [redacted]."},
		{"secret half", "It is " + testSecret, "It is [redacted]", "It is [redacted]"},
		{"beginning of a secret", "It is 7000", "It is", "It is 7000"},
		{"no secret after all", "It is 7000 km", "It is 7000 km", "It is 7000 km"},
		{"overlap", "abcabcabdxyz", "abc[redacted]xyz", "abc[redacted]xyz"},
		{"a thought within", "7000000001:AAtest-se<think>x</think>cret_half0123456789abcdef", "[redacted]", "[redacted]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, after := filtered(tt.in)
			if before != tt.before || after != tt.after {
				t.Errorf("got %q, then %q; want %q, then %q", before, after, tt.before, tt.after)
			}
		})
	}
}

// TestFilterCalls sees that none of the families' tool calls is previewed, in
// however small pieces it comes.
func TestFilterCalls(t *testing.T) {
	files, err := filepath.Glob("testdata/filter/toolcall_*.txt")
	if err != nil || len(files) < 15 {
		t.Fatal(len(files), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if strings.HasSuffix(name, "_text_before.txt") {
				want = "I will look at it."
			}
			f := newFilter(nil)
			for _, r := range string(b) {
				f.add(string(r))
				if s := f.shown(); !strings.HasPrefix(want, s) {
					t.Fatalf("showed %q", s)
				}
			}
			if s := f.shown(); s != want {
				t.Errorf("showed %q, want %q", s, want)
			}
		})
	}
}

func TestFilterThoughts(t *testing.T) {
	for name, want := range map[string]string{
		"think_paired.txt":      "4",
		"think_unclosed.txt":    "",
		"think_mention.md":      "To hide reasoning, wrap it in a `<think>` tag, then close it with `</think>`. Everything after this sentence must arrive too.",
		"md_blank_variants.txt": "\u200b\n\t\u00a0\n⠀",
	} {
		b, err := os.ReadFile(filepath.Join("testdata/filter", name))
		if err != nil {
			t.Fatal(err)
		}
		if _, got := filtered(string(b)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// checkFilter sees that the pieces a text comes in make no difference, that what
// was shown stays, and that neither secrets nor what is surely a thought is shown.
func checkFilter(t interface{ Fatalf(string, ...any) }, pieces []string) {
	whole := strings.Join(pieces, "")
	before, after := filtered(whole)
	voids := false // a closing tag without its opening one takes back what was shown
	for _, tag := range thoughtEnds {
		voids = voids || strings.Contains(strings.ToLower(whole), tag)
	}
	f, last := newFilter(testSecrets), ""
	for _, p := range pieces {
		f.add(p)
		s := f.shown()
		if !voids && !strings.HasPrefix(s, last) {
			t.Fatalf("%q: %q became %q", pieces, last, s)
		}
		last = s
		for _, secret := range testSecrets {
			if secret != "" && strings.Contains(s, secret) {
				t.Fatalf("%q: showed the secret %q in %q", pieces, secret, s)
			}
		}
	}
	if last != before {
		t.Fatalf("%q: showed %q in pieces, %q at once", pieces, last, before)
	}
	end := f.end()
	if end != after {
		t.Fatalf("%q: ended with %q in pieces, %q at once", pieces, end, after)
	}
	if !voids && !strings.HasPrefix(end, last) {
		t.Fatalf("%q: showed %q, ended with %q", pieces, last, end)
	}
}

func TestFilterPieces(t *testing.T) {
	words := []string{
		"<think>", "</think>", "<thinking>", "<tho", "</thought>", "[THINK]", "[/think]", "`", "``", "```", "```json\n", "```go\n", "````",
		"\n", "\n\n", " ", "\\", "<", "[", "{", "\"", "{\"name\":", "\"arguments\": {}", "}", "<tool_call>", "<|x|>", "<|", "<｜", "[TOOL_CALLS]", "thought:",
		"a", "word ", "дом", "😀", testToken, testSecret[:9], testSecret[9:], "7000000001", ":", "abc", "abd", "xyz", "bd",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 30).Draw(t, "words"), "")
		var pieces []string
		for text != "" {
			n := rapid.IntRange(1, 12).Draw(t, "n")
			cut := len(text)
			for i := range text {
				if n--; n < 0 {
					cut = i
					break
				}
			}
			pieces = append(pieces, text[:cut])
			text = text[cut:]
		}
		checkFilter(t, pieces)
	})
}

func FuzzFilter(f *testing.F) {
	f.Add("<think>a</think>b `<think>` c", uint8(3))
	f.Add("I look.\n```json\n{\"name\": \"f\"}\n```\n"+testToken, uint8(1))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		if !utf8.ValidString(text) {
			t.Skip("deltas are JSON strings: whole runes")
		}
		var pieces []string
		start, n := 0, 0
		for i := range text {
			if n > int(size) {
				pieces = append(pieces, text[start:i])
				start, n = i, 0
			}
			n++
		}
		checkFilter(t, append(pieces, text[start:]))
	})
}

// BenchmarkFilter streams an answer of 100,000 bytes token by token: as text, and
// as the three things that are held back while they grow. The time grows with the
// length, not with its square.
func BenchmarkFilter(b *testing.B) {
	for name, head := range map[string]string{"prose": "", "thought": "<think>", "aside": "So <think> ", "call": "<tool_call>", "listing": "```json\n{\"name\": 1"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f := newFilter(testSecrets)
				f.add(head)
				for range 20000 {
					f.add("word ")
				}
				f.end()
			}
		})
	}
}
