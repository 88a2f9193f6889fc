package textcall

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Call is a tool call.
type Call struct {
	// Name is that of a tool on the list, or what the model wrote if Unknown.
	Name string
	// Args is a JSON object, or a JSON string where the model wrote none: a single
	// text whose argument only the tool's schema can name, or what could not be
	// read. Numbers keep their digits.
	Args    json.RawMessage
	Unknown bool // there is no such tool (C022): not to be run, but to be answered
}

// Resolve gives the tool that a model means by name: "functions.read_file",
// "read_file<|channel|>commentary" (C084), "read_file:0" or "Read-File" for
// read_file. ok is false if there is none.
func Resolve(name string, tools []string) (tool string, ok bool) {
	if slices.Contains(tools, name) {
		return name, true
	}
	name, _, _ = strings.Cut(name, "<|")
	name = strings.Trim(name, " \t\r\n\"'`*()")
	if i := strings.LastIndexByte(name, ':'); i > 0 && strings.Trim(name[i+1:], "0123456789") == "" {
		name = name[:i]
	}
	if tool, ok = alike(name, tools); !ok {
		tool, ok = alike(name[strings.LastIndexAny(name, ".:/")+1:], tools)
	}
	return tool, ok
}

// alike finds the only tool that is called so but for case and hyphens.
func alike(name string, tools []string) (tool string, ok bool) {
	if slices.Contains(tools, name) {
		return name, true
	}
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "_")) }
	for _, t := range tools {
		if plain(t) == plain(name) {
			if ok {
				return "", false
			}
			tool, ok = t, true
		}
	}
	return tool, ok
}

// call begins a call of the tool with that name; false if it is no name at all.
func (r *reader) call(name string) (Call, bool) {
	if name == "" || len(name) >= nameMax || !isLetter(name[0]) {
		return Call{}, false
	}
	tool, ok := Resolve(name, r.tools)
	if !ok {
		return Call{Name: name, Unknown: true}, true
	}
	return Call{Name: tool}, true
}

// toolName gives the name that in begins with, "" without one; a longer one than
// nameMax is cut.
func toolName(in []byte) string {
	n := 0
	for n < min(len(in), nameMax) && (isLetter(in[n]) || strings.IndexByte("0123456789.:/-", in[n]) >= 0) {
		n++
	}
	return string(in[:n])
}

// Arguments gives a call's arguments as an object where they are one, also where
// the model wrote it into a string, once or twice (C078). Nothing is an empty
// object. Anything else is returned as it is.
func Arguments(raw json.RawMessage) json.RawMessage {
	args := bytes.TrimSpace(raw)
	for range 3 {
		var text string
		switch {
		case len(args) == 0, string(args) == "null":
			return json.RawMessage("{}")
		case args[0] != '"' || json.Unmarshal(args, &text) != nil:
			return args
		case strings.TrimSpace(text) == "":
			return json.RawMessage("{}")
		}
		inner, n := readValue([]byte(text))
		if n == 0 || !blank([]byte(text[n:])) || inner[0] != '{' && inner[0] != '"' {
			return args
		}
		args = inner
	}
	return args
}

// fromJSON gives the calls that a value is: an object, a list of them, or one
// that holds the list as tool_calls. strict: nothing marks it as calls, so that
// it must not be able to be anything else.
func (r *reader) fromJSON(value json.RawMessage, strict bool) []Call {
	if len(value) > 0 && value[0] == '[' {
		var list []json.RawMessage
		if json.Unmarshal(value, &list) != nil {
			return nil
		}
		var calls []Call
		for _, v := range list {
			call, ok := r.fromObject(v, strict)
			if !ok {
				return nil
			}
			calls = append(calls, call)
		}
		return calls
	}
	var wrapper struct {
		Calls json.RawMessage `json:"tool_calls"`
	}
	if json.Unmarshal(value, &wrapper) == nil && len(wrapper.Calls) > 0 && wrapper.Calls[0] == '[' {
		return r.fromJSON(wrapper.Calls, strict)
	}
	if call, ok := r.fromObject(value, strict); ok {
		return []Call{call}
	}
	return nil
}

// fromObject gives the call that an object is.
func (r *reader) fromObject(value json.RawMessage, strict bool) (Call, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(value, &fields) != nil {
		return Call{}, false
	}
	for _, key := range wrapKeys {
		if inner := fields[key]; len(inner) > 0 && inner[0] == '{' {
			value = inner
			fields = nil
			if json.Unmarshal(value, &fields) != nil {
				return Call{}, false
			}
			break
		}
	}
	nameKey, argKey := present(fields, nameKeys), present(fields, argKeys)
	var name string
	if nameKey == "" || json.Unmarshal(fields[nameKey], &name) != nil || strings.ContainsAny(name, " \n") {
		return Call{}, false
	}
	call, ok := r.call(name)
	if !ok {
		return Call{}, false
	}
	for key := range fields {
		if key != nameKey && key != argKey && !slices.Contains(restKeys, key) {
			return Call{}, false // data that has more to say
		}
	}
	call.Args = Arguments(fields[argKey])
	if strict {
		isObject := argKey != "" && call.Args[0] == '{'
		guessed := call.Unknown && (!slices.Contains(nameKeys[:3], nameKey) || !slices.Contains(argKeys[:2], argKey))
		if !isObject || guessed || isSchema(call.Args) {
			return Call{}, false
		}
	}
	return call, true
}

// present gives the first of the keys that there is, "" without one.
func present(fields map[string]json.RawMessage, keys []string) string {
	for _, key := range keys {
		if len(fields[key]) > 0 {
			return key
		}
	}
	return ""
}

// isSchema tells whether arguments are a JSON schema: then it is a tool that is
// described, not called.
func isSchema(args json.RawMessage) bool {
	var schema struct {
		Type       json.RawMessage `json:"type"`
		Properties json.RawMessage `json:"properties"`
	}
	return json.Unmarshal(args, &schema) == nil && string(schema.Type) == `"object"` && len(schema.Properties) > 0
}
