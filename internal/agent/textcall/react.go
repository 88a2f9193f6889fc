package textcall

import (
	"bytes"
	"encoding/json"
	"strings"
)

// labels of the ReAct text protocol.
type labelKind int

const (
	noLabel labelKind = iota
	thoughtLabel
	actionLabel
	inputLabel
	observationLabel
	finalLabel
)

var labelNames = []struct {
	name string
	kind labelKind
}{
	{"thought", thoughtLabel},
	{"action input", inputLabel},
	{"action", actionLabel},
	{"observation", observationLabel},
	{"final answer", finalLabel},
}

// decoration is what models put around a label: bold type and quotes.
const decoration = " \t*`\"'"

// label tells the label that a line begins with and where what it labels begins:
// "Action 1:", "**Action:**".
func label(line []byte) (labelKind, int) {
	rest := bytes.TrimLeft(line, " \t*")
	for _, l := range labelNames {
		n, _ := tagAt(rest, l.name)
		if n == 0 {
			continue
		}
		after := bytes.TrimLeft(rest[n:], " 0123456789*")
		if len(after) == 0 || after[0] != ':' {
			return noLabel, 0
		}
		after = bytes.TrimLeft(after[1:], " \t*")
		return l.kind, len(line) - len(after)
	}
	return noLabel, 0
}

// stepsMark judges whether in begins with the label of a thought, or, at the
// start of the message, with that of the answer.
func stepsMark(in []byte, start bool) verdict {
	names := []string{"thought", "final answer"}
	if !start {
		names = names[:1]
	}
	rest := bytes.TrimLeft(in[:min(len(in), undecided)], " \t*")
	n, open := oneOf(rest, names)
	rest = bytes.TrimLeft(rest[n:], " 0123456789*")
	switch {
	case open, len(rest) == 0 && len(in) < undecided:
		return unclear
	case n > 0 && len(rest) > 0 && rest[0] == ':':
		return isSteps
	}
	return isPlain
}

// actionMark judges whether in begins with an action of ReAct: its label and the
// name of a tool, with arguments behind it or under the next label. "Action: call
// Bob" is none.
func actionMark(in []byte, last bool) verdict {
	in, full := in[:min(len(in), undecided)], last || len(in) >= undecided
	open := unclear // what it is when the bytes end here
	if full {
		open = isPlain
	}
	line, rest, ended := bytes.Cut(in, []byte{'\n'})
	if !ended && !last {
		if mayBeAction(line) {
			return open
		}
		return isPlain
	}
	kind, n := label(line)
	if kind != actionLabel {
		return isPlain
	}
	value := bytes.Trim(line[n:], decoration)
	if len(value) == 0 || value[0] == '{' || value[0] == '[' || bytes.Contains(line[n:], []byte("```")) {
		return structured(in[n:], open)
	}
	name := toolName(value)
	after := bytes.TrimLeft(value[len(name):], decoration)
	rest = bytes.TrimSpace(rest)
	switch {
	case name == "" || strings.EqualFold(name, "none"):
		return isPlain
	case len(after) > 0 && (after[0] == '(' || after[0] == '{'):
		return isCall
	case len(after) > 0:
		return isPlain
	case len(rest) == 0 && last:
		return isCall // it may need no arguments
	}
	if kind, _ := label(rest); kind == inputLabel {
		return isCall
	} else if kind == observationLabel {
		return isCall
	}
	if n, more := oneOf(bytes.TrimLeft(rest, "*"), []string{"action input", "observation"}); n > 0 || more || len(rest) == 0 {
		return open
	}
	return isPlain
}

// mayBeAction tells whether a line that has not ended may begin with the label
// of an action.
func mayBeAction(line []byte) bool {
	rest := bytes.TrimLeft(line, " \t*")
	n, more := tagAt(rest, "action")
	return len(rest) == 0 || more || n > 0 && (len(rest) == n || strings.IndexByte(" :0123456789*", rest[n]) >= 0)
}

// structured judges what stands behind the label instead of a name: JSON, in a
// fence or bare (Command R, LangChain).
func structured(in []byte, open verdict) verdict {
	rest := bytes.TrimLeft(in, decoration+"\r\n")
	if info := bytes.TrimPrefix(rest, []byte("json")); len(info) < len(rest) {
		rest = bytes.TrimSpace(info)
	}
	switch {
	case len(rest) == 0:
		return open
	case rest[0] == '{', rest[0] == '[':
		return isCall
	case bytes.HasPrefix([]byte("json"), rest):
		return open
	}
	return isPlain
}

// action reads the call behind the label of an action.
func (r *reader) action(in []byte) ([]Call, int) {
	_, n := label(in)
	if structured(in[n:], isPlain) == isCall && toolName(bytes.TrimLeft(in[n:], decoration)) != "json" || bytes.HasPrefix(in[n:], []byte("```json")) {
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
	args, k2 := input(in[pos+k:])
	call.Args = args
	return []Call{call}, pos + k + k2
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
