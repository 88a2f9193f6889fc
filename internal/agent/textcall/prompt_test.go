package textcall

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPrompt(t *testing.T) {
	got := Prompt([]Tool{
		{"read_file", "Reads a file\nof the workspace.\n\nMore about it.", json.RawMessage(`{"type": "object", "properties": {"path": {"type": "string"}, "offset": {"type": ["integer", "null"]}, "as": {"enum": ["text", "lines"]}}, "required": ["path"]}`)},
		{"list_tools", "Lists the tools.", nil},
	})
	const want = `You can use these tools (? marks what may be left out):
- read_file {"path": string, "as"?: "text"|"lines", "offset"?: integer|null}: Reads a file of the workspace.
- list_tools {}: Lists the tools.

To use one, answer with these three lines and nothing behind them:
Thought: why you need it
Action: the name of one tool
Action Input: its arguments as one JSON object

Then you are told the result as "Observation: …". Never write an Observation yourself. When you need no tool, or none any more, answer with:
Final Answer: what you say to the person`
	if got != want {
		t.Errorf("got %s", got)
	}
	if got := Prompt(nil); got != "" {
		t.Errorf("without tools: %q", got)
	}
}

func TestProtocol(t *testing.T) {
	call := Call{Name: "read_file", Args: json.RawMessage(`{"path":"notes.txt"}`)}
	if got := Action("I look.", []Call{call}); got != "Thought: I look.\nAction: read_file\nAction Input: {\"path\":\"notes.txt\"}" {
		t.Errorf("got %q", got)
	}
	if got := Observation("a\nb"); got != "Observation: a\nb" {
		t.Errorf("got %q", got)
	}
	if !slices.Contains(Stops(), "Observation:") {
		t.Error("C085: the server does not stop before an observation")
	}
}

// TestActionReturns sees that what we write of a call is read as the same call.
func TestActionReturns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		args, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "args"))
		if err != nil {
			t.Fatal(err)
		}
		text := rapid.SampledFrom([]string{"", "I look.", "I look\nfor it."}).Draw(t, "text")
		got := Parse(Action(text, []Call{{Name: "shell", Args: args}}), testTools)
		if len(got.Calls) != 1 || got.Calls[0].Name != "shell" || got.Calls[0].Unknown || string(got.Calls[0].Args) != string(args) {
			t.Fatalf("%s became %+v", args, got)
		}
	})
}
