package textcall

import (
	"bytes"
	"strings"
)

// format is how a family of models marks its tool calls. What stands behind the
// opening mark is read by what it looks like, not by whose mark it is: models
// and fine-tunes mix them up.
type format struct {
	open, close string
}

// formats are the marks around calls (C083). Those without their
// closing bracket go on with the tool's name.
var formats = []format{
	{"<tool_call>", "</tool_call>"},   // Hermes, Qwen, GLM, Granite 4
	{"<tool_calls>", "</tool_calls>"}, // Hunyuan, Jamba
	{"<function_call>", "</function_call>"},
	{"<function_calls>", "</function_calls>"}, // around <invoke>
	{"<tools>", "</tools>"},                   // Qwen 2.5 Coder
	{"<toolcall>", "</toolcall>"},             // Nemotron
	{"<minimax:tool_call>", "</minimax:tool_call>"},
	{"<seed:tool_call>", "</seed:tool_call>"},
	{"<function=", "</function>"}, // Qwen 3 Coder, Llama 3.1, Functionary 3.1
	{"<function name=", "</function>"},
	{"<invoke name=", "</invoke>"},                   // MiniMax
	{"<|tool_call|>", "<|/tool_call|>"},              // Granite 3, Phi 4
	{"<|tool_call>", "<tool_call|>"},                 // Gemma 4
	{"<start_function_call>", "<end_function_call>"}, // FunctionGemma
	{"<|tool_call_start|>", "<|tool_call_end|>"},     // LFM 2
	{"<|python_tag|>", "<|eom_id|>"},                 // Llama 3
	{"<|python_start|>", "<|python_end|>"},           // Llama 4
	{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},   // DeepSeek
	{"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"},
	{"<｜DSML｜function_calls>", "</｜DSML｜function_calls>"}, // DeepSeek 3.2
	{"<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"},
	{"<｜DSML｜invoke name=", "</｜DSML｜invoke>"},
	{"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"}, // Kimi
	{"<|tool_call_begin|>", "<|tool_call_end|>"},
	{"<|start_action|>", "<|end_action|>"}, // Command R7B
	{"<|action_start|>", "<|action_end|>"}, // InternLM
	{"<|plugin|>", "<|action_end|>"},
	{"<|recipient|>", "<|stop|>"},     // Functionary 2
	{"[tool_calls]", "[/tool_calls]"}, // Mistral
}

// separators stand between a tool's name and its arguments.
var separators = []string{
	"[args]", "<|tool_call_argument_begin|>", "<｜tool▁sep｜>", "<|content|>", "<|message|>", "<|constrain|>json", "```json", "```",
}

// fences are the names under which a fence is a call wherever it stands (Gemma 3),
// wholeFences those under which it is one if it is the whole answer.
var (
	fences      = []string{"tool_code", "tool_call", "tool_calls", "function_call"}
	wholeFences = []string{"", "json", "xml"}
)

// thought is how a family marks its thoughts. Within one entry any closing tag
// closes what any opening tag opened: models mix them up (C080).
type thought struct {
	opens, closes []string
	kept          []string // what closes it too and belongs to what follows
}

var thoughts = [...]thought{
	{
		opens:  []string{"<think>", "<thinking>", "<thought>", "<reasoning>", "[think]", "<seed:think>"},
		closes: []string{"</think>", "</thinking>", "</thought>", "</reasoning>", "[/think]", "</seed:think>"},
	},
	{opens: []string{"<|channel>thought"}, closes: []string{"<channel|>"}}, // Gemma 4
	{opens: []string{"<|start_thinking|>"}, closes: []string{"<|end_thinking|>"}},
	{opens: []string{"<|begin_of_thought|>"}, closes: []string{"<|end_of_thought|>"}},
	// The two below are not opened by a tag: see harmony and bareAnalysis.
	{closes: []string{"<|end|>", "<|return|>"}, kept: []string{"<|start|>", "<|channel|>"}},
	{closes: []string{"assistantfinal"}, kept: []string{"assistantcommentary to="}},
}

const (
	harmonyThought = 4
	bareThought    = 5
)

// argKeys are the keys of a call's arguments, nameKeys those of its tool's name,
// callKeys all that a call written as JSON may have. The first argKeys and
// nameKeys are those by which a call of an unknown tool is told from data.
var (
	argKeys  = []string{"arguments", "parameters", "args", "input", "tool_input", "action_input", "params"}
	nameKeys = []string{"name", "tool_name", "function", "tool", "action"}
	wrapKeys = []string{"function", "function_call", "tool_call"}
	listKeys = []string{`"arguments"`, `"parameters"`, `"args"`, `"input"`, `"tool_input"`, `"action_input"`, `"tool_calls"`} // in a fence
	restKeys = []string{"id", "type", "index", "call_id", "tool_call_id", "thought", "tool_calls"}
)

// bareCalls begin a call of harmony when a server drops its tokens (C084).
var bareCalls = []string{"commentary to=", "assistantcommentary to="}

// ends are what a template puts behind an answer: nothing at its end.
var ends = []string{
	"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|end|>", "<|return|>", "<|call|>", "<|endoftext|>", "<|end_of_text|>",
	"<end_of_turn>", "<turn|>", "</s>", "<｜end▁of▁sentence｜>", "<|end_of_turn_token|>", "<|end_response|>", "<|end_of_solution|>", "<|stop|>",
}

// heads stand before the answer proper.
var heads = []string{"<|start_response|>", "<|begin_of_solution|>"}

// results begin what a model invents when it does not wait for a call's result.
var results = []string{
	"<tool_response", "<tool_result", "<tool_output", "<function_result", "<function_response", "<start_function_response", "[tool_results]",
	"observation:", "```tool_output", "<|", "<｜", "<end_of_turn>", "<start_of_turn>", "<turn|>", "</s>",
}

// examplePhrases announce an example when they stand in the line before it.
var examplePhrases = []string{
	"for example", "for instance", "an example", "example:", "example call", "e.g.", "looks like this", "look like this",
	"zum beispiel", "beispiel:", "z. b.", "z.b.", "sieht so aus", "par exemple", "exemple :", "exemple:", "por ejemplo", "ejemplo:",
	"per esempio", "esempio:", "por exemplo", "exemplo:", "bijvoorbeeld", "voorbeeld:", "na przykład", "przykład:", "örneğin", "örnek:",
	"например", "пример:", "выглядит так", "наприклад", "приклад:", "例えば", "例:", "例：", "例如", "比如", "예를 들어", "예:", "مثال", "على سبيل المثال",
	"उदाहरण", "ví dụ", "misalnya", "contoh:",
}

// openAt gives the length of the opening mark of a call that in begins with;
// open tells that in may become one.
func openAt(in []byte) (n int, open bool) {
	for _, f := range formats {
		k, more := tagAt(in, f.open)
		n, open = max(n, k), open || more
	}
	return n, open && n == 0
}

// closeAt gives the length of the closing mark of a call that in begins with.
func closeAt(in []byte) int {
	for _, f := range formats {
		if n, _ := tagAt(in, f.close); n > 0 {
			return n
		}
	}
	n, _ := oneOf(in, ends)
	return n
}

// special tells whether a mark that begins like in is a token of its own in the
// models' vocabulary; nobody writes one by hand but to explain it.
func special(in []byte) bool {
	for _, s := range []string{"<|", "<｜", "</｜", "<start_function_call>", "[tool_calls]"} {
		if n, _ := tagAt(in, s); n > 0 {
			return true
		}
	}
	return false
}

// tagAt gives the length of tag if in begins with it, whatever the case; open
// tells that in may become it.
func tagAt(in []byte, tag string) (n int, open bool) {
	m := min(len(in), len(tag))
	for i := range min(m, 2) { // most fail here
		if in[i]|0x20 != tag[i]|0x20 {
			return 0, false
		}
	}
	if tag == "" || !strings.EqualFold(string(in[:m]), tag[:m]) {
		return 0, false
	}
	if m < len(tag) {
		return 0, true
	}
	return m, false
}

// oneOf is tagAt for the first of the tags that fits.
func oneOf(in []byte, tags []string) (n int, open bool) {
	for _, tag := range tags {
		k, more := tagAt(in, tag)
		if k > 0 {
			return k, false
		}
		open = open || more
	}
	return 0, open
}

// blank tells whether there is nothing but white space in b.
func blank(b []byte) bool { return len(bytes.TrimSpace(b)) == 0 }
