package textcall

import (
	"strings"
	"testing"
)

// fill repeats a unit up to n bytes.
func fill(unit string, n int) string { return strings.Repeat(unit, n/len(unit)) }

// heavy are beginnings and the units that they go on with, which tempt a parser
// to look at the same bytes again and again.
var heavy = []struct{ head, unit string }{
	{"", "word "}, {"", "\n"}, {"", " "}, {"", "a"}, {"", "`"}, {"", "<"}, {"", "["}, {"", "{"}, {"", "\\"}, {"", "~"}, {"", "*"}, {"", "* a\n"},
	{"<think>", "word "}, {"So <think> ", "word "}, {"<tool_call>", "word "}, {"```json\n{\"name\": 1", "word "}, {"Thought:", "word "}, {"Thought:", "word\n"},
	{"", "<think>"}, {"", "</think>"}, {"", "</think>\n"}, {"", "x</think> "}, {"", "<think>a</think>"}, {"", "a <think> "}, {"analysisWe", "assistant"},
	{"", "<tool_call>"}, {"", "<tool_call>{"}, {"", "<tool_call>{\"a\":"}, {"", "<tool_call>[\""}, {"", "\n<tool_call>['"}, {"<tool_call>", "["}, {"<tool_call>", "{\"a\":"}, {"<tool_call>[", "1,"},
	{"", hermesCall + "\n"}, {"", "a\n" + hermesCall + "\n"}, {"", jsonCallOf + "\n"}, {"[", jsonCallOf + ","}, {"[", "read_file(path=\"a\"),"},
	{"<tool_call>", jsonCallOf + "\n"}, {"", "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"a\": '"}, {"", "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"a\": x</tool_call>\n"},
	{"<function=shell>\n", "<parameter=a>b</parameter>\n"}, {"<function=shell>\n", "<parameter=a>"}, {"", "<function=shell>\n<parameter=a>\n"}, {"<tool_call>shell", "<arg_key>a</arg_key><arg_value>b</arg_value>"},
	{"", "<|channel|>"}, {"", "<|channel|>final<|message|>"}, {"", "<|channel|>commentary to=shell<|message|>{}<|call|>"}, {"", "<|channel|>analysis<|message|>a<|end|>"},
	{"<|im_end|>", " "}, {"", "<|im_end|>"}, {"a", "<|im_end|>\n"}, {"", ">>>shell\n"}, {">>>shell\n", "\n"}, {"", ">>>shell\n{}\n"}, {"", ">>>"},
	{"", "Action: shell\n"}, {"", "Action: shell\nAction Input: {}\n"}, {"a\n", "Action: shell\nAction Input: {}\n"}, {"Thought: a\n", "Action: call Bob\n"}, {"Thought: a\n", "Action: shell\n"}, {"Action: shell\n", "\n"},
	{"", "Thought: a\n"}, {"a\n", "Thought: a\n"}, {"", "Final Answer: a\n"}, {"Thought: a\nAction: shell\nAction Input: ", "word\n"},
	{"", "```json\n"}, {"", "```tool_code\n"}, {"", "```tool_code\nshell()\n```\n"}, {"```tool_code\n", "shell()\n"}, {"```json\n", "a`` "}, {"", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>"}, {"<tool_call>shell", "[ARGS]"}, {"[TOOL_CALLS]", "shell"},
	{"{\"name\": \"", "\\"}, {"{\"name\": \"shell\", \"arguments\": \"", "\\\""}, {"{\"name\": \"shell\", \"arguments\": {", "\"a\": 1, "},
}

// TestHeavy takes such texts apart, whole and in small pieces. It finishes in
// seconds; work that grew with the square of the length would take many minutes.
// BenchmarkHeavy shows the speed at 1 MB.
func TestHeavy(t *testing.T) {
	for _, h := range heavy {
		text := h.head + fill(h.unit, 1<<17)
		Parse(text, testTools)
		var f Filter
		for i := 0; i < len(text); {
			end := min(i+20, len(text))
			for end < len(text) && text[end]&0xC0 == 0x80 {
				end++
			}
			f.Add(text[i:end])
			i = end
		}
		f.End()
	}
}

func BenchmarkHeavy(b *testing.B) {
	for _, h := range heavy {
		text := h.head + fill(h.unit, 1<<20)
		b.Run(h.head+"+"+h.unit, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Parse(text, testTools)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for name, text := range map[string]string{
		"prose":    fill("The quick *brown* fox, `code`, and a [link](https://example.org).\n", 100_000),
		"code":     "```go\n" + fill("x := map[string]int{\"a\": 1} // <-\n", 100_000) + "```\n",
		"thoughts": "<think>" + fill("The user wants the file. ", 100_000) + "</think>\n4",
		"call":     `<tool_call>{"name": "write_file", "arguments": {"path": "a", "content": "` + fill(`The quick brown fox.\n`, 100_000) + `"}}</tool_call>`,
		"steps":    "Thought: " + fill("The user wants the file.\n", 100_000) + "Final Answer: 4",
		"small":    hermesCall,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				Parse(text, testTools)
			}
		})
	}
}

// BenchmarkFilter streams an answer of 100,000 bytes token by token: as text, and
// as what is held back while it grows.
func BenchmarkFilter(b *testing.B) {
	for name, head := range map[string]string{
		"prose": "", "thought": "<think>", "aside": "So <think> ", "call": "<tool_call>", "listing": "```json\n{\"name\": 1", "steps": "Thought: ",
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(100_000)
			b.ReportAllocs()
			for b.Loop() {
				var f Filter
				f.Add(head)
				for range 20_000 {
					f.Add("word ")
				}
				f.End()
			}
		})
	}
}
