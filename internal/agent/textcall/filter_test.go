package textcall

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// screen is what a person sees of a filter's output.
type screen struct {
	Filter
	text  string
	voids int
}

func (s *screen) add(text string) { s.put(s.Add(text)) }
func (s *screen) finish()         { s.put(s.End()) }

func (s *screen) put(show string, void bool) {
	if void {
		s.text = ""
		s.voids++
	}
	s.text += show
}

func TestFilter(t *testing.T) {
	for _, tt := range []struct{ name, in, before, after string }{
		{"plain", "Hello, *world*.", "Hello, *world*.", "Hello, *world*."},
		{"C080 think", "<think>the user wants 2+2</think>\n4", "4", "4"},
		{"C080 thinking", "<thinking>..</thinking>4", "4", "4"},
		{"C080 thought", "<thought>..</thought>4", "4", "4"},
		{"reasoning, upper case", "<REASONING>..</Reasoning> 4", "4", "4"},
		{"brackets", "[THINK]two and two[/THINK]4", "4", "4"},
		{"mixed tags", "<think>..</thinking>4", "4", "4"},
		{"two thoughts", "<think>a</think>\n<think>b</think>4", "4", "4"},
		{"gemma 4", "<|channel>thought\nhm\n<channel|>4<turn|>", "4", "4"},
		{"command r", "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>4<|END_RESPONSE|>", "4", "4"},
		{"harmony", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>4<|return|>", "4", "4"},
		{"harmony, no end", "<|channel|>analysis<|message|>hm<|channel|>final<|message|>4", "4", "4"},
		{"C084 harmony without its tokens", "analysisWe need 2+2.assistantfinal4", "4", "4"},
		{"C084 a word that begins so", "analysisWe is no word.", "", "analysisWe is no word."},
		{"C082 unclosed", "<think>The user wants", "", ""},
		{"unclosed after text", "Yes.\n<think>The user wants", "Yes.", "Yes."},
		{"C082 mention in code", "Wrap it in a `<think>` tag, then close it with `</think>`. Go on.", "Wrap it in a `<think>` tag, then close it with `</think>`. Go on.", "Wrap it in a `<think>` tag, then close it with `</think>`. Go on."},
		{"mention in two backticks", "``<think> ` `` goes on", "``<think> ` `` goes on", "``<think> ` `` goes on"},
		{"mention in a fence", "Like:\n```xml\n<note>\n<think>\n```\nGo on.", "Like:\n```xml\n<note>\n<think>\n```\nGo on.", "Like:\n```xml\n<note>\n<think>\n```\nGo on."},
		{"mention behind a fence in a line of it", "```sh\necho '```'\n<think>\n```\nGo on.", "```sh\necho '```'\n<think>\n```\nGo on.", "```sh\necho '```'\n<think>\n```\nGo on."},
		{"mention escaped", `A \<think> tag`, `A \<think> tag`, `A \<think> tag`},
		{"mention without code", "The <think> tag opens it.", "The", "The <think> tag opens it."},
		{"two mentions", "The <think> and <thought> tags.", "The", "The <think> and <thought> tags."},
		{"mention of the closing tag", "It ends with </think> and goes on.", "It ends with </think> and goes on.", "It ends with </think> and goes on."},
		{"within a line", "Sure. <think>hm</think>4", "Sure. 4", "Sure. 4"},
		{"a lone backtick hides no thought", "It is 5` long\n<think>hm</think>4", "It is 5` long\n4", "It is 5` long\n4"},
		{"only the closing tag", "The user wants 2+2.\n</think>\n\n4", "4", "4"},
		{"only the closing tag, at the end of a line", "The user wants 2+2.</think>\n\n4", "4", "4"},
		{"partial tag", "a <thi", "a", "a <thi"},
		{"less than", "a < c", "a < c", "a < c"},
		{"operator", "f <| g", "f <| g", "f <| g"},
		{"operator at the end", "f <|", "f", "f <|"},
		{"blank", " \n\t", "", ""},
		{"end of a template", "4<|im_end|>\n", "4", "4"},
		{"mention of a template's end", "It is <|im_end|> there", "It is <|im_end|> there", "It is <|im_end|> there"},

		{"list link", "[docs](https://example.org)", "[docs](https://example.org)", "[docs](https://example.org)"},
		{"task box", "[x] done", "[x] done", "[x] done"},
		{"numbers", "[1, 2]", "[1, 2]", "[1, 2]"},
		{"object that is no call", `{"city": "Bern"}`, `{"city": "Bern"}`, `{"city": "Bern"}`},
		{"object that may be one", `{"name": "Bern"}`, "", `{"name": "Bern"}`},
		{"braces", "{x | x > 0}", "{x | x > 0}", "{x | x > 0}"},
		{"python call", `[read_file(path="notes.txt")]`, "", `[read_file(path="notes.txt")]`},
		{"code fence", "```go\nx := 1\n```", "```go\nx := 1\n", "```go\nx := 1\n```"},
		{"bare fence", "```\nx := 1\n```\n", "```\nx := 1\n```", "```\nx := 1\n```"},
		{"json fence", "```json\n{\"city\": \"Bern\"}\n```\nSo.", "```json\n{\"city\": \"Bern\"}\n```\nSo.", "```json\n{\"city\": \"Bern\"}\n```\nSo."},
		{"json fence with a name", "```json\n{\"name\": \"Bern\"}\n```\nSo.", "```json\n{\"name\": \"Bern\"}\n```\nSo.", "```json\n{\"name\": \"Bern\"}\n```\nSo."},
		{"json fence with a name, open", "```json\n{\"name\": \"Be", "", "```json\n{\"name\": \"Be"},
		{"json fence behind text", "Here:\n```json\n{\"name\": \"f\", \"arguments\": {}}\n", "Here:\n```json\n{\"name\": \"f\", \"arguments\": {}}", "Here:\n```json\n{\"name\": \"f\", \"arguments\": {}}"},
		{"call in a fence", "```json\n{\"name\": \"f\", \"arguments\": {}}\n```", "", "```json\n{\"name\": \"f\", \"arguments\": {}}\n```"},
		{"tool_code behind text", "I look.\n```tool_code\nf()\n```", "I look.", "I look.\n```tool_code\nf()\n```"},
		{"inline triple", "Use ```x``` here", "Use ```x``` here", "Use ```x``` here"},
		{"a tag within a line", "Use <tool_call> here", "Use <tool_call> here", "Use <tool_call> here"},
		{"thought behind a call", "<tool_call>{}</tool_call>\n<think>x", "", "<tool_call>{}</tool_call>"},
		{"steps to an answer", "Thought: hm\nFinal Answer: It is\n4.", "It is\n4.", "It is\n4."},
		{"bold steps to an answer", "**Thought:** hm\n\n**Final Answer:** 4", "4", "4"},
		{"only an answer", "Final Answer: 4", "4", "4"},
		{"an action of no tool", "Action: call Bob", "", "Action: call Bob"},
		{"a list of actions", "* Act\n* Action: call Bob\n", "* Act\n* Action: call Bob", "* Act\n* Action: call Bob"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s screen
			s.add(tt.in)
			before := strings.TrimSpace(s.text)
			s.finish()
			after := strings.TrimSpace(s.text)
			if before != strings.TrimSpace(tt.before) || after != tt.after {
				t.Errorf("got %q, then %q; want %q, then %q", before, after, tt.before, tt.after)
			}
			if _, rest := Thoughts(tt.in); rest != after {
				t.Errorf("Thoughts leaves %q, the filter %q", rest, after)
			}
		})
	}
}

func TestThoughts(t *testing.T) {
	for _, tt := range []struct{ name, in, thought, rest string }{
		{"C080 paired", corpus(t, "think_paired.txt"), "The user wants 2+2. That is 4.", "4"},
		{"C082 unclosed", corpus(t, "think_unclosed.txt"), "The user wants the file list, I will call the tool now and then", ""},
		{"C082 mention", corpus(t, "think_mention.md"), "", strings.TrimSpace(corpus(t, "think_mention.md"))},
		{"lone", "The user wants 2+2.\n</think>\n\n4", "The user wants 2+2.", "4"},
		{"two", "<think>a</think>\n<think>b</think>4", "a\nb", "4"},
		{"harmony", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>4<|return|>", "hm", "4"},
		{"gemma 4", "<|channel>thought\nhm\n<channel|>4", "hm", "4"},
		{"none", "4", "", "4"},
		{"bad UTF-8", "<think>\xff</think>\xfe4", "\uFFFD", "\uFFFD4"},
	} {
		if thought, rest := Thoughts(tt.in); thought != tt.thought || rest != tt.rest {
			t.Errorf("%s: got %q and %q, want %q and %q", tt.name, thought, rest, tt.thought, tt.rest)
		}
	}
}

// checkFilter sees that the pieces a text comes in make no difference, and that
// the end agrees with Thoughts.
func checkFilter(t interface{ Fatalf(string, ...any) }, pieces []string) {
	var whole, parts screen
	text := strings.Join(pieces, "")
	whole.add(text)
	for _, p := range pieces {
		parts.add(p)
	}
	if whole.text != parts.text {
		t.Fatalf("%q: showed %q in pieces, %q at once", pieces, parts.text, whole.text)
	}
	whole.finish()
	parts.finish()
	if whole.text != parts.text {
		t.Fatalf("%q: ended with %q in pieces, %q at once", pieces, parts.text, whole.text)
	}
	if _, rest := Thoughts(text); rest != strings.TrimSpace(whole.text) {
		t.Fatalf("%q: ended with %q, Thoughts leaves %q", pieces, whole.text, rest)
	}
	answer := Parse(text, testTools)
	for _, c := range answer.Calls {
		if c.Name == "" || len(c.Args) == 0 {
			t.Fatalf("%q: call %+v", text, c)
		}
	}
}

// fragments are what texts are made of in the property test.
func fragments() []string {
	words := []string{
		"`", "``", "```", "```json\n", "```go\n", "```tool_code\n", "````", "~~~", "\n", "\n\n", " ", "    ", "\\", "<", "<|", "[", "{", "}", "\"", "'",
		"{\"name\":", "\"read_file\"", "\"arguments\": {}", ">>>", ">>>read_file\n{", "a", "word ", "дом", "😀", ".", "to=", "json", "read_file", "(path=\"x\")",
		"Thought:", "**Thought:** ", "Thought 1", "Action:", "Action: read_file\n", "Action Input:", "Action Input: {}\n", "Observation:", "Final Answer:", "*", "analysis", "analysisWe", "assistantfinal",
		"assistantcommentary to=", "<|message|>", "<parameter=path>", "</parameter>", hermesCall, jsonCallOf,
	}
	for _, f := range formats {
		words = append(words, f.open, f.close)
	}
	for _, th := range thoughts {
		words = slices.Concat(words, th.opens, th.closes, th.kept)
	}
	words = slices.Concat(words, ends, heads, results, separators)
	return slices.DeleteFunc(words, func(s string) bool { return s == "" })
}

func TestPieces(t *testing.T) {
	words := fragments()
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

func FuzzPieces(f *testing.F) {
	for _, tt := range families {
		f.Add(tt.in, uint8(3))
	}
	for _, text := range harmless {
		f.Add(text, uint8(1))
	}
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		Parse(text, testTools) // whatever its bytes
		if !utf8.ValidString(text) {
			return // deltas are JSON strings: whole runes
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
