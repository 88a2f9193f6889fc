package textcall

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Tool describes a tool to a model that has no tools of its own.
type Tool struct {
	Name        string
	Description string          // its first paragraph is told
	Schema      json.RawMessage // JSON schema of the arguments, an object
}

//go:embed react.md
var reactPrompt string

// Prompt gives the part of the system text that teaches a model without tool
// calls ReAct's text protocol (C018). The same tools in the same order give the
// same bytes. Without tools it is empty.
func Prompt(tools []Tool) string {
	if len(tools) == 0 {
		return ""
	}
	lines := make([]string, len(tools))
	for i, t := range tools {
		about, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n\n")
		lines[i] = "- " + t.Name + " " + signature(t.Schema) + ": " + strings.Join(strings.Fields(about), " ")
	}
	return strings.TrimSpace(strings.Replace(reactPrompt, "{tools}", strings.Join(lines, "\n"), 1))
}

// Stops gives the strings at which a server is to end the answer of a model that
// follows the protocol, so that it does not invent a result (C085).
func Stops() []string { return []string{"Observation:"} }

// Action gives a message of the model as the protocol writes it: what it said,
// and its calls.
func Action(text string, calls []Call) string {
	var b strings.Builder
	if text = strings.TrimSpace(text); text != "" {
		b.WriteString("Thought: " + text + "\n")
	}
	for _, c := range calls {
		b.WriteString("Action: " + c.Name + "\nAction Input: " + string(c.Args) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Observation gives a tool's result as the protocol tells it to the model.
func Observation(result string) string { return "Observation: " + result }

// signature gives arguments and their types, those that are required first.
func signature(schema json.RawMessage) string {
	var object struct {
		Required   []string                   `json:"required"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &object) != nil {
		return "{}"
	}
	var args []string
	for _, name := range object.Required {
		if p, ok := object.Properties[name]; ok {
			args = append(args, `"`+name+`": `+kind(p))
			delete(object.Properties, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object.Properties)) {
		args = append(args, `"`+name+`"?: `+kind(object.Properties[name]))
	}
	return "{" + strings.Join(args, ", ") + "}"
}

// kind names the type of a property, or the values that it may have.
func kind(schema json.RawMessage) string {
	var p struct {
		Type json.RawMessage   `json:"type"`
		Enum []json.RawMessage `json:"enum"`
	}
	if json.Unmarshal(schema, &p) != nil {
		return "any"
	}
	if len(p.Enum) > 0 {
		values := make([]string, len(p.Enum))
		for i, v := range p.Enum {
			values[i] = string(v)
		}
		return strings.Join(values, "|")
	}
	var one string
	var several []string
	switch {
	case json.Unmarshal(p.Type, &one) == nil && one != "":
		return one
	case json.Unmarshal(p.Type, &several) == nil && len(several) > 0:
		return strings.Join(several, "|")
	}
	return "any"
}
