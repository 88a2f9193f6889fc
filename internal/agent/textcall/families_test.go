package textcall

import (
	"fmt"
	"strings"
	"testing"
)

// calls writes calls down for comparison.
func calls(list []Call) string {
	var out []string
	for _, c := range list {
		s := c.Name + string(c.Args)
		if c.Unknown {
			s = "?" + s
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

const readNotes = `read_file{"path":"notes.txt"}`

// families are spellings that must give calls (C083), with the text before them.
var families = []struct{ name, in, text, want string }{
	{"qwen 3 coder", "<tool_call>\n<function=read_file>\n<parameter=path>\nnotes.txt\n</parameter>\n</function>\n</tool_call>", "", readNotes},
	{"qwen 3 coder without the outer tag", "Let me look.\n\n<function=read_file>\n<parameter=path>\nnotes.txt\n</parameter>\n</function>\n</tool_call>", "Let me look.", readNotes},
	{"qwen 3 coder, lines in a parameter", "<function=write_file>\n<parameter=path>\na.go\n</parameter>\n<parameter=content>\npackage a\n\n// \"x\" </tool_call>\n</parameter>\n</function>", "", `write_file{"path":"a.go","content":"package a\n\n// \"x\" </tool_call>"}`},
	{"qwen 3 coder, no parameter", "<tool_call>\n<function=list_tools>\n</function>\n</tool_call>", "", `list_tools{}`},
	{"hermes, announced", "Let me read the file:\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}\n</tool_call>", "Let me read the file:", readNotes},
	{"two hermes calls", "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"list_tools\", \"arguments\": {}}\n</tool_call>", "", readNotes + " list_tools{}"},
	{"two objects in one tag", "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}\n{\"name\": \"list_tools\", \"arguments\": {}}\n</tool_call>", "", readNotes + " list_tools{}"},
	{"hermes without closing tag", "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}", "", readNotes},
	{"hermes, a brace missing", "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}\n</tool_call>", "", readNotes},
	{"hermes, a brace too many", "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}}\n</tool_call>", "", readNotes},
	{"hermes, template tokens behind", "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}\n</tool_call><|im_end|>", "", readNotes},
	{"hermes, invented result", "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}\n</tool_call>\n<tool_response>\nbuy milk\n</tool_response>\n<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"command\": \"rm notes.txt\"}}\n</tool_call>", "", readNotes},
	{"hermes, invented result as prose", "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}\n</tool_call>\nIt says: buy milk.\n<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"command\": \"rm notes.txt\"}}\n</tool_call>", "", readNotes},
	{"hermes, closing in capitals", "<TOOL_CALL>{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}</TOOL_CALL>", "", readNotes},
	{"qwen 2.5 coder tools", "<tools>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}\n</tools>", "", readNotes},
	{"nemotron", "<TOOLCALL>[{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}]</TOOLCALL>", "", readNotes},
	{"llama 3.1 two calls", "<|python_tag|>{\"name\": \"read_file\", \"parameters\": {\"path\": \"notes.txt\"}}; {\"name\": \"list_tools\", \"parameters\": {}}<|eom_id|>", "", readNotes + " list_tools{}"},
	{"llama 3.1 .call", "<|python_tag|>read_file.call(path=\"notes.txt\")<|eom_id|>", "", readNotes},
	{"llama 3.1 bare", "{\"name\": \"read_file\", \"parameters\": {\"path\": \"notes.txt\"}}<|eot_id|>", "", readNotes},
	{"llama 3.1 typed", "{\"type\": \"function\", \"name\": \"read_file\", \"parameters\": {\"path\": \"notes.txt\"}}", "", readNotes},
	{"llama 3.2 pythonic", "[read_file(path=\"notes.txt\"), list_tools()]", "", readNotes + " list_tools{}"},
	{"llama 4", "<|python_start|>[read_file(path='notes.txt')]<|python_end|><|eot|>", "", readNotes},
	{"lfm 2", "<|tool_call_start|>[read_file(path=\"notes.txt\")]<|tool_call_end|>", "", readNotes},
	{"mistral 3", "[TOOL_CALLS]read_file[ARGS]{\"path\": \"notes.txt\"}", "", readNotes},
	{"mistral 3 with an id", "[TOOL_CALLS]read_file[CALL_ID]abcDEF123[ARGS]{\"path\": \"notes.txt\"}</s>", "", readNotes},
	{"mistral, two", "[TOOL_CALLS]read_file[ARGS]{\"path\": \"notes.txt\"}[TOOL_CALLS]list_tools[ARGS]{}", "", readNotes + " list_tools{}"},
	{"mistral behind a sentence", "I'll check.[TOOL_CALLS]read_file{\"path\": \"notes.txt\"}", "I'll check.", readNotes},
	{"gemma 3, not printed", "```tool_code\nread_file(path='notes.txt')\n```", "", readNotes},
	{"gemma 3, two and a text", "I'll look.\n```tool_code\nprint(default_api.read_file(path=\"notes.txt\"))\nx = list_tools()\n```", "I'll look.", readNotes + " list_tools{}"},
	{"gemma 3, invented output", "```tool_code\nprint(read_file(path=\"notes.txt\"))\n```\n```tool_output\nbuy milk\n```\nIt says: buy milk.", "", readNotes},
	{"gemma 3, dictionary", "```tool_code\nread_file({'path': 'notes.txt'})\n```", "", readNotes},
	{"gemma 3, only argument without a name", "```tool_code\nread_file('notes.txt')\n```", "", `read_file"notes.txt"`},
	{"gemma 4", `<|tool_call>call:read_file{path:<|"|>notes.txt<|"|>}<tool_call|>`, "", readNotes},
	{"gemma 4, all kinds of values", `<|tool_call>call:shell{command:<|"|>echo "a\b" {x}<|"|>,n:3,deep:{on:true,list:[1,<|"|>b<|"|>]},none:null}<tool_call|>`, "", `shell{"command":"echo \"a\\b\" {x}","n":3,"deep":{"on":true,"list":[1,"b"]},"none":null}`},
	{"gemma 4 behind thoughts", "<|channel>thought\nI need it.\n<channel|><|tool_call>call:read_file{path:<|\"|>notes.txt<|\"|>}<tool_call|><turn|>", "", readNotes},
	{"gemma 4 behind text", "I look it up.<|tool_call>call:read_file{path:<|\"|>notes.txt<|\"|>}<tool_call|><|tool_response>", "I look it up.", readNotes},
	{"functiongemma", "<start_function_call>call:read_file{path:<escape>notes.txt<escape>}<end_function_call>", "", readNotes},
	{"deepseek v3.1", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{\"path\": \"notes.txt\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>", "", readNotes},
	{"deepseek v3, two", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n{\"path\": \"notes.txt\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>list_tools\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "", readNotes + " list_tools{}"},
	{"deepseek v3.2", "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"shell\">\n<｜DSML｜parameter name=\"command\" string=\"true\">5</｜DSML｜parameter>\n<｜DSML｜parameter name=\"timeout\" string=\"false\">5</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>", "", `shell{"command":"5","timeout":5}`},
	{"granite 3", "<|tool_call|>[{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}]", "", readNotes},
	{"granite 4", "<tool_call>[{\"arguments\": {\"path\": \"notes.txt\"}, \"name\": \"read_file\"}]</tool_call><|end_of_text|>", "", readNotes},
	{"glm 4.5", "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>notes.txt</arg_value>\n</tool_call>", "", readNotes},
	{"glm 4.7, two", "<tool_call>write_file<arg_key>path</arg_key><arg_value>a</arg_value><arg_key>content</arg_key><arg_value><b>1</b>\n</arg_value></tool_call><tool_call>list_tools</tool_call>", "", `write_file{"path":"a","content":"<b>1</b>\n"} list_tools{}`},
	{"kimi k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{\"path\": \"notes.txt\"}<|tool_call_end|><|tool_calls_section_end|>", "", readNotes},
	{"kimi k2, two", "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0 <|tool_call_argument_begin|> {\"path\": \"notes.txt\"} <|tool_call_end|><|tool_call_begin|>functions.list_tools:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>", "", readNotes + " list_tools{}"},
	{"harmony, recipient in the role", "<|start|>assistant to=functions.read_file<|channel|>commentary <|constrain|>json<|message|>{\"path\": \"notes.txt\"}<|call|>", "", readNotes},
	{"harmony, preamble", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>{\"path\": \"notes.txt\"}<|call|>", "I look.", readNotes},
	{"harmony, two", "<|channel|>commentary to=functions.read_file<|message|>{\"path\": \"notes.txt\"}<|call|><|start|>assistant<|channel|>commentary to=functions.list_tools<|message|>{}<|call|>", "", readNotes + " list_tools{}"},
	{"harmony, invented answer", "<|channel|>commentary to=functions.read_file<|message|>{\"path\": \"notes.txt\"}<|call|><|start|>assistant<|channel|>final<|message|>It says: buy milk.<|return|>", "", readNotes},
	{"C084 harmony without its tokens", "analysisWe need the file.assistantcommentary to=functions.read_file json{\"path\": \"notes.txt\"}", "", readNotes},
	{"command r, with a plan", "Plan: I will look.\nAction: ```json\n[\n    {\n        \"tool_name\": \"read_file\",\n        \"parameters\": {\"path\": \"notes.txt\"}\n    }\n]\n```", "Plan: I will look.", readNotes},
	{"command r7b", "<|START_THINKING|>I will look.<|END_THINKING|><|START_ACTION|>[\n{\"tool_call_id\": \"0\", \"tool_name\": \"read_file\", \"parameters\": {\"path\": \"notes.txt\"}}\n]<|END_ACTION|>", "", readNotes},
	{"functionary 3.2, text and two calls", ">>>all\nI look.\n>>>read_file\n{\"path\": \"notes.txt\"}\n>>>list_tools\n{}", "I look.", readNotes + " list_tools{}"},
	{"functionary 2", "<|recipient|>read_file\n<|content|>{\"path\": \"notes.txt\"}<|stop|>", "", readNotes},
	{"internlm", "I look.<|action_start|><|plugin|>\n{\"name\": \"read_file\", \"parameters\": {\"path\": \"notes.txt\"}}<|action_end|>", "I look.", readNotes},
	{"phi 4 mini", "functools[{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}]", "", readNotes},
	{"invoke", "<function_calls>\n<invoke name=\"read_file\">\n<parameter name=\"path\">notes.txt</parameter>\n</invoke>\n</function_calls>", "", readNotes},
	{"minimax, two", "<minimax:tool_call>\n<invoke name=\"read_file\">\n<parameter name=\"path\">notes.txt</parameter>\n</invoke>\n<invoke name=\"list_tools\">\n</invoke>\n</minimax:tool_call>", "", readNotes + " list_tools{}"},
	{"seed", "<seed:think>Hm.</seed:think>\n<seed:tool_call>\n<function=read_file>\n<parameter=path>notes.txt</parameter>\n</function>\n</seed:tool_call>", "", readNotes},
	{"function tag, numbers", `<function=shell>{"command": "x", "id": 12345678901234567890}</function>`, "", `shell{"command":"x","id":12345678901234567890}`},

	{"openai list", `{"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": "{\"path\": \"notes.txt\"}"}}]}`, "", readNotes},
	{"list of objects", `[{"name": "read_file", "arguments": {"path": "notes.txt"}}, {"name": "list_tools", "arguments": {}}]`, "", readNotes + " list_tools{}"},
	{"objects line by line", "{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}\n{\"name\": \"list_tools\", \"arguments\": {}}", "", readNotes + " list_tools{}"},
	{"other keys", `{"tool": "read_file", "tool_input": {"path": "notes.txt"}}`, "", readNotes},
	{"langchain", `{"action": "read_file", "action_input": {"path": "notes.txt"}}`, "", readNotes},
	{"function with a name", `{"function": "read_file", "parameters": {"path": "notes.txt"}}`, "", readNotes},
	{"single quotes", `{'name': 'read_file', 'arguments': {'path': 'notes.txt',},}`, "", readNotes},
	{"python constants", `{"name": "shell", "arguments": {"command": "x", "a": True, "b": None}}`, "", `shell{"command":"x","a":true,"b":null}`},
	{"a line break in a string", "{\"name\": \"write_file\", \"arguments\": {\"content\": \"a\nb\tc\"}}", "", `write_file{"content":"a\nb\u0009c"}`},
	{"a pattern's backslash", `{"name": "shell", "arguments": {"command": "grep \d \'x\'"}}`, "", `shell{"command":"grep \\d 'x'"}`},
	{"large numbers", `{"name": "shell", "arguments": {"chat": -1001557000111999999, "x": 1.10, "y": 1e400}}`, "", `shell{"chat":-1001557000111999999,"x":1.10,"y":1e400}`},
	{"fence without a name", "```\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}\n```", "", readNotes},
	{"fence not closed", "```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}", "", readNotes},
	{"tag in a fence that is all", "```xml\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}\n</tool_call>\n```", "", readNotes},
	{"fence in the string of a call", "{\"name\": \"write_file\", \"arguments\": {\"content\": \"```go\\nx\\n```\"}}", "", "write_file{\"content\":\"```go\\nx\\n```\"}"},
	{"thoughts in the string of a call", "<tool_call>{\"name\": \"write_file\", \"arguments\": {\"content\": \"<think>x</think>\"}}</tool_call>", "", `write_file{"content":"<think>x</think>"}`},
	{"a name with its namespace", `{"name": "functions.read_file", "arguments": {"path": "notes.txt"}}`, "", readNotes},

	{"C022 unknown in a tag", "<tool_call>{\"name\": \"Skill\", \"arguments\": {}}</tool_call>", "", `?Skill{}`},
	{"C022 unknown of ReAct", "Thought: hm\nAction: Skill\nAction Input: {}", "", `?Skill{}`},
	{"C079 broken JSON", "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": notes.txt}}</tool_call>", "", `read_file"{\"name\": \"read_file\", \"arguments\": {\"path\": notes.txt}}"`},
	{"C079 cut JSON", "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"no", "", `read_file"{\"name\": \"read_file\", \"arguments\": {\"path\": \"no"`},
	{"C079 cut parameter", "<function=write_file>\n<parameter=path>\na\n</parameter>\n", "", `write_file"\n<parameter=path>\na\n</parameter>\n"`},
	{"C079 a list", `<tool_call>{"name": "read_file", "arguments": ["notes.txt"]}</tool_call>`, "", `read_file["notes.txt"]`},
	{"C078 arguments twice in a string", `<tool_call>{"name": "read_file", "arguments": "\"{\\\"path\\\": \\\"notes.txt\\\"}\""}</tool_call>`, "", readNotes},

	{"react, bold labels", "**Thought:** hm\n**Action:** `read_file`\n**Action Input:** {\"path\": \"notes.txt\"}", "", readNotes},
	{"react, prose before", "I need the file.\nAction: read_file\nAction Input: {\"path\": \"notes.txt\"}", "I need the file.", readNotes},
	{"react, prose and thought before", "Sure!\nThought: I need the file.\nAction: read_file\nAction Input: {\"path\": \"notes.txt\"}", "Sure!", readNotes},
	{"react, fenced input", "Thought: hm\nAction: read_file\nAction Input:\n```json\n{\"path\": \"notes.txt\"}\n```", "", readNotes},
	{"react, numbered", "Thought 1: hm\nAction 1: read_file\nAction Input 1: {\"path\": \"notes.txt\"}\nObservation 1: x", "", readNotes},
	{"react, arguments in brackets", "Thought: hm\nAction: read_file(path=\"notes.txt\")", "", readNotes},
	{"react, arguments behind the name", "Thought: hm\nAction: read_file {\"path\": \"notes.txt\"}", "", readNotes},
	{"react, text as input", "Thought: hm\nAction: read_file\nAction Input: notes.txt\nObservation: x", "", `read_file"notes.txt"`},
	{"react, no input", "Thought: hm\nAction: list_tools\nObservation: x", "", `list_tools{}`},
	{"react, JSON instead of a name", "Thought: hm\nAction:\n```json\n{\"action\": \"read_file\", \"action_input\": {\"path\": \"notes.txt\"}}\n```", "", readNotes},
	{"react behind thoughts", "<think>hm</think>\nThought: hm\nAction: read_file\nAction Input: {\"path\": \"notes.txt\"}", "", readNotes},
	{"C085 both action and answer", "Thought: hm\nAction: read_file\nAction Input: {\"path\": \"notes.txt\"}\nFinal Answer: It says x.", "", readNotes},
}

func TestFamilies(t *testing.T) {
	for _, tt := range families {
		t.Run(tt.name, func(t *testing.T) {
			got := Parse(tt.in, testTools)
			if calls(got.Calls) != tt.want || got.Text != tt.text {
				t.Errorf("got %s and %q, want %s and %q", calls(got.Calls), got.Text, tt.want, tt.text)
			}
		})
	}
}

// TestFilterCalls sees that none of the calls is previewed, in however small
// pieces it comes.
func TestFilterCalls(t *testing.T) {
	for _, tt := range families {
		t.Run(tt.name, func(t *testing.T) {
			var f Filter
			shown := ""
			for _, r := range tt.in {
				s, void := f.Add(string(r))
				if void {
					shown = ""
				}
				if shown += s; !strings.HasPrefix(tt.text, strings.TrimSpace(shown)) {
					t.Fatalf("showed %q", shown)
				}
			}
		})
	}
}

func TestLimits(t *testing.T) {
	one := "<tool_call>{\"name\": \"list_tools\", \"arguments\": {}}</tool_call>\n"
	if got := Parse(strings.Repeat(one, 1000), testTools); len(got.Calls) != maxCalls || got.Text != "" {
		t.Errorf("%d calls and %q", len(got.Calls), got.Text)
	}
	if got := Parse("<tool_call>"+strings.Repeat("[", 1000)+"</tool_call>", testTools); len(got.Calls) != 0 {
		t.Error(got)
	}
	long := fmt.Sprintf(`{"name": "%s", "arguments": {}}`, strings.Repeat("x", 10000))
	if got := Parse(long, testTools); len(got.Calls) != 0 {
		t.Error(got)
	}
	if got := Parse(`{"name": "read_file", "arguments": {"path": "notes.txt"}}`, nil); len(got.Calls) != 0 {
		t.Error("an agent without tools calls", got)
	}
}
