package textcall

import (
	"strings"
	"testing"
)

const (
	hermesCall = "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}\n</tool_call>"
	jsonCallOf = `{"name": "read_file", "arguments": {"path": "notes.txt"}}`
)

// harmless are answers that hold no call, though they speak of calls, look like
// them, or hold one as an example of a tool that the agent really has.
var harmless = []string{
	// Documentation of formats.
	"A model calls a tool like this:\n```xml\n" + hermesCall + "\n```\nThen the result comes back.",
	"A model calls a tool like this:\n```json\n" + jsonCallOf + "\n```",
	"```json\n" + jsonCallOf + "\n```\nThis is what a call looks like.",
	"A model calls a tool like this:\n\n" + hermesCall + "\n\nThen the result comes back.",
	"A call looks like this:\n" + hermesCall,
	"For example:\n" + hermesCall,
	"Here is an example call to read a file, as Hermes writes it:\n" + hermesCall,
	"Wrap the JSON in <tool_call> and </tool_call>.",
	"Wrap it: <tool_call>" + jsonCallOf + "</tool_call>",
	"The element <tool_call>" + jsonCallOf + "</tool_call> holds a call.",
	"Use `<tool_call>" + jsonCallOf + "</tool_call>` for it.",
	"Use ``<tool_call>" + jsonCallOf + "</tool_call>`` for it",
	"`" + jsonCallOf + "`",
	"Indented code:\n\n    <tool_call>" + jsonCallOf + "</tool_call>",
	"With a tab:\n\n\t<tool_call>" + jsonCallOf + "</tool_call>",
	"Tildes:\n~~~xml\n" + hermesCall + "\n~~~",
	"A fence in a fence:\n````markdown\n```xml\n" + hermesCall + "\n```\n" + hermesCall + "\n````",
	"A fence that is never closed:\n```\n" + hermesCall,
	"```python\nprint(\"```\")\n" + hermesCall + "\n```",
	"> <tool_call>" + jsonCallOf + "</tool_call>",
	"- <tool_call>" + jsonCallOf + "</tool_call>",
	"1. <function=read_file>{\"path\": \"notes.txt\"}</function>",
	"| tag | use |\n|---|---|\n| <tool_call> | " + jsonCallOf + " |",
	"\\<tool_call>" + jsonCallOf + "</tool_call>",
	"\"<tool_call>" + jsonCallOf + "</tool_call>\"",
	"&lt;tool_call&gt;" + jsonCallOf + "&lt;/tool_call&gt;",
	"Llama writes <|python_tag|>{\"name\": \"read_file\", \"parameters\": {\"path\": \"notes.txt\"}}",
	"Mistral's form is [TOOL_CALLS] [" + jsonCallOf + "]",
	"Mistral's form: [TOOL_CALLS]read_file[ARGS]{\"path\": \"notes.txt\"}",
	"In ChatML a message ends with <|im_end|>, then comes <|im_start|>assistant.",
	"gpt-oss writes <|channel|>commentary to=functions.read_file<|message|>{\"path\": \"notes.txt\"}<|call|>.",
	"DeepSeek uses <｜tool▁calls▁begin｜> and <｜tool▁sep｜>.",
	"<tool_call>\nis the opening tag.",
	"<tool_call></tool_call>",
	"[TOOL_CALLS] is a token of Mistral's.",
	"<function=read_file> is how Qwen begins a call.",
	"<invoke name=\"read_file\"> opens it; <parameter name=\"path\"> follows.",
	"```tool_code\n# nothing to do\n```",
	"```tool_code\nimport os\nos.remove('notes.txt')\n```",
	"```tool_code\nfor f in files:\n    read_file(path=f)\n```",

	// JSON, lists and code that people asked for.
	`{"name": "Bern", "population": 134794}`,
	`{"name": "read_file", "description": "Reads a file", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}`,
	`{"name": "read_file", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}`,
	`{"type": "function", "function": {"name": "read_file", "description": "Reads", "parameters": {"type": "object", "properties": {}}}}`,
	`[{"name": "read_file"}, {"name": "shell"}]`,
	`{"name": "shell"}`,
	`{"name": "John Smith", "arguments": {"for": 1, "against": 2}}`,
	`{"name": "shell", "parameters": ["a", "b"]}`,
	`{"action": "move", "input": {"x": 1}}`,
	`{"tool": "hammer", "args": {"weight": 2}}`,
	`{"type": "object", "properties": {"name": {"type": "string"}}}`,
	`{"id": 7, "type": "event", "name": "login"}`,
	"```json\n{\"name\": \"Bern\", \"type\": \"city\"}\n```",
	"```json\n[{\"name\": \"a\", \"parameters\": {\"x\": 1}, \"returns\": \"b\"}]\n```",
	"Here is the JSON:\n" + jsonCallOf,
	jsonCallOf + "\n\nThat is the call.",
	"The call is " + jsonCallOf,
	"Sure!\n\n" + jsonCallOf,
	`[1, 2, 3]`, `[x] done`, `["read_file", "shell"]`, "[docs](https://example.org)",
	`[f(x) for x in range(3)]`,
	`[print("a"), print("b")]`,
	`[read_file("notes.txt")]`,
	`[max(a=1)]`,
	"read_file(path=\"notes.txt\")",
	"```python\nread_file(path=\"notes.txt\")\n```",
	"```python\n[read_file(path=\"notes.txt\")]\n```",
	"```\n[read_file(path=\"notes.txt\")]\n```",
	"```sh\nshell rm -rf build\n```",
	"std::vector<function> f;\nauto g = a <| b;",
	"if (a < b && c > d) { shell(\"ls\"); }",
	">>> import os\n>>> os.listdir()\n['notes.txt']",
	">>>read_file is the recipient.",
	"> quoted\n>> twice\n>>> thrice",
	"functools.reduce(f, [1, 2])",
	"{x | x > 0}", "{", "[", "<", "\\", "`", "``` ", "~~~", "<|", ">>>",

	// Labels of ReAct as words.
	"Action: call Bob\nAction Input: none",
	"Action: Bob\nDeadline: Friday",
	"Thought: I should call Bob.\nAction: call Bob",
	"Thought: a man is what he reads.",
	"* Action: read the file\n* Owner: Ann",
	"Minutes\n\nAction: shell\nOwner: Ann",
	"In ReAct the model writes:\n\nThought: I need the file.\nAction: read_file\nAction Input: {\"path\": \"notes.txt\"}\nObservation: buy milk\nFinal Answer: Buy milk.\n\nThat is all.",
	"In ReAct the model writes, for example:\nAction: read_file\nAction Input: {\"path\": \"notes.txt\"}",
	"```\nThought: I need the file.\nAction: read_file\nAction Input: {\"path\": \"notes.txt\"}\n```",
	"2 + 2 = 4.\n\nFinal Answer: 4",
	"Analysis of the data follows.", "analysis paralysis is real", "analysisPlan is a variable.",

	// Other languages.
	"Ein Aufruf sieht so aus:\n" + hermesCall,
	"Zum Beispiel:\n" + hermesCall,
	"Так модель вызывает инструмент, например:\n" + hermesCall,
	"Вызов выглядит так:\n\n" + hermesCall + "\n\nЗатем приходит ответ.",
	"Par exemple :\n" + hermesCall,
	"Por ejemplo:\n" + hermesCall,
	"例えば:\n" + hermesCall,
	"例如：\n" + hermesCall,
	"예를 들어:\n" + hermesCall,
	"مثال:\n" + hermesCall,
	"工具调用写成 <tool_call>" + jsonCallOf + "</tool_call>",
	"Инструмент read_file читает файл; аргументы: {\"path\": \"notes.txt\"}.",
}

func TestHarmless(t *testing.T) {
	if len(harmless) < 100 {
		t.Fatal(len(harmless))
	}
	for _, text := range harmless {
		got := Parse(text, testTools)
		if len(got.Calls) > 0 {
			t.Errorf("%q calls %s", text, calls(got.Calls))
		}
		if got.Text != strings.TrimSpace(text) {
			t.Errorf("%q became %q", text, got.Text)
		}
	}
}

// TestInThoughts sees that nothing runs that stands in thoughts.
func TestInThoughts(t *testing.T) {
	for _, tt := range families {
		for _, around := range [][2]string{
			{"<think>\n", "\n</think>\nDone."},
			{"<think>\n", ""},
			{"", "\n</think>\n\nDone."},
			{"<|channel|>analysis<|message|>", ""},
			{"<|channel>thought\n", ""},
		} {
			if strings.Contains(tt.in, "think>") || strings.Contains(tt.in, "<|") && strings.Contains(around[0], "<|") {
				continue
			}
			if got := Parse(around[0]+tt.in+around[1], testTools); len(got.Calls) > 0 {
				t.Errorf("%s within %q: %s", tt.name, around, calls(got.Calls))
			}
		}
	}
}
