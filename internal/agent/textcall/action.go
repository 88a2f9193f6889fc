package textcall

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// protocol reads an action of ReAct. Only the first counts, what follows was
// written without its result (C085). Behind other text it must end the answer
// and name a tool that there is.
func (r *reader) protocol(in []byte, start bool) ([]Call, int) {
	calls, n := r.action(in)
	switch {
	case n == 0:
		return nil, 0
	case start:
		return calls, len(in)
	case !blank(in[n:]) || slices.ContainsFunc(calls, func(c Call) bool { return c.Unknown }):
		return nil, 0
	}
	return calls, n
}

// action reads the call behind the label of an action.
func (r *reader) action(in []byte) ([]Call, int) {
	_, n := label(in)
	if structured(in[n:], isPlain) == isCall {
		return r.structured(in, n)
	}
	pos := len(in) - len(bytes.TrimLeft(in[n:], decoration))
	name := toolName(in[pos:])
	pos = len(in) - len(bytes.TrimLeft(in[pos+len(name):], decoration))
	call, ok := r.call(name)
	if !ok {
		return nil, 0
	}
	if at := in[pos:]; len(at) > 0 && at[0] == '(' {
		args, k := readArguments(at[1:])
		call.Args = args
		return []Call{call}, step(pos+1, k)
	} else if len(at) > 0 && at[0] == '{' {
		args, k := readValue(at)
		call.Args = args
		return []Call{call}, step(pos, k)
	}
	pos = len(in) - len(bytes.TrimLeft(in[pos:], " \t\r\n"))
	kind, k := label(in[pos:])
	if kind != inputLabel {
		call.Args = json.RawMessage("{}")
		return []Call{call}, pos
	}
	args, length := input(in[pos+k:])
	call.Args = args
	return []Call{call}, pos + k + length
}

// step adds a length to a place; 0 stays 0.
func step(pos, n int) int {
	if n == 0 {
		return 0
	}
	return pos + n
}

// structured reads the JSON behind the label that ends at n.
func (r *reader) structured(in []byte, n int) ([]Call, int) {
	pos := n + bytes.IndexAny(in[n:], "{[")
	value, k := readValue(in[pos:])
	calls := r.fromJSON(value, false)
	if k == 0 || len(calls) == 0 {
		return nil, 0
	}
	return calls, len(in) - len(bytes.TrimLeft(in[pos+k:], " \t\r\n`"))
}

// input reads the arguments of an action: a value, or else the text up to the
// next label, as a string.
func input(in []byte) (json.RawMessage, int) {
	pos := len(in) - len(bytes.TrimLeft(in, " \t\r\n`"))
	if rest, ok := bytes.CutPrefix(in[pos:], []byte("json\n")); ok {
		pos = len(in) - len(rest)
	}
	if value, k := readValue(in[pos:]); k > 0 {
		end := len(in) - len(bytes.TrimLeft(in[pos+k:], " \t`"))
		if end == len(in) || in[end] == '\n' || in[end] == '\r' {
			return Arguments(value), end
		}
	}
	end := 0
	for end < len(in) {
		line, _, _ := bytes.Cut(in[end:], []byte{'\n'})
		if kind, _ := label(line); kind != noLabel {
			break
		}
		end = min(end+len(line)+1, len(in))
	}
	text := strings.Trim(string(bytes.TrimSpace(in[:end])), "`")
	if text == "" || strings.EqualFold(text, "none") || strings.EqualFold(text, "n/a") {
		return json.RawMessage("{}"), end
	}
	return quoted(text), end
}
