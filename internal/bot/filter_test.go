package bot

import (
	"strings"
	"testing"

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
		{"C082 unclosed", "<think>The user wants", "", ""},
		{"C082 mention in code", "Wrap it in a `<think>` tag, then close it with `</think>`. Go on.", "Wrap it in a `<think>` tag, then close it with `</think>`. Go on.", "Wrap it in a `<think>` tag, then close it with `</think>`. Go on."},
		{"only the closing tag", "The user wants 2+2.\n</think>\n\n4", "4", "4"},
		{"partial tag", "a <thi", "a", "a <thi"},
		{"blank", " \n\t", "", ""},

		{"python call", `[read_file(path="notes.txt")]`, "", `[read_file(path="notes.txt")]`},
		{"json fence", "```json\n{\"city\": \"Bern\"}\n```\nSo.", "```json\n{\"city\": \"Bern\"}\n```\nSo.", "```json\n{\"city\": \"Bern\"}\n```\nSo."},
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

// checkFilter sees that the pieces a text comes in make no difference, that what
// was shown stays, and that neither secrets nor what is surely a thought is shown.
func checkFilter(t interface{ Fatalf(string, ...any) }, pieces []string) {
	whole := strings.Join(pieces, "")
	before, after := filtered(whole)
	voids := false // a closing tag without its opening one takes back what was shown
	for _, tag := range []string{"</think>", "</thinking>", "</thought>", "</reasoning>", "[/think]"} {
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
