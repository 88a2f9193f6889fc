package textcall

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

const (
	nameMax  = 128     // bytes of a tool's name
	maxCalls = 64      // in one text; what follows is left out
	rawMax   = 4 << 10 // bytes of arguments that are given unread, for the model to see its fault
)

// reader reads calls out of text. Tools are the names that are known.
type reader struct {
	tools []string
}

// calls reads the calls that in begins with and gives their length, 0 if there
// are none. start: nothing visible stands before.
func (r *reader) calls(in []byte, start bool) ([]Call, int) {
	if kind, _ := label(in); kind == actionLabel {
		return r.protocol(in, start)
	}
	bareCall, _ := oneOf(in, bareCalls)
	switch {
	case in[0] == '`':
		return r.fence(in, start)
	case bytes.HasPrefix(in, []byte(">>>")):
		name := toolName(in[3:])
		return r.named(in, 3, name)
	case bareCall > 0, header(in) > 0:
		return r.harmony(in)
	}
	if n, _ := openAt(in); n > 0 {
		return r.marked(in)
	}
	if start {
		return r.bare(in)
	}
	return nil, 0
}

// marked reads a run of calls between the marks of formats.
func (r *reader) marked(in []byte) ([]Call, int) {
	var calls []Call
	end := 0 // of the last call with its closing marks
	for pos := opener(in, 0); pos < len(in); pos = opener(in, end) {
		found, n := r.body(in[pos:])
		if n == 0 {
			break
		}
		calls = append(calls, found...)
		end = trailer(in, pos+n)
		if len(calls) >= maxCalls {
			return calls, len(in)
		}
		if k, _ := openAt(in[end:]); k == 0 {
			break
		}
	}
	return calls, end
}

// opener skips opening marks, but for those that hold the tool's name.
func opener(in []byte, pos int) int {
	for {
		pos = skip(in, pos)
		n, _ := openAt(in[pos:])
		if n == 0 || in[pos+n-1] == '=' {
			return pos
		}
		pos += n
	}
}

// trailer skips closing marks and what separates calls.
func trailer(in []byte, pos int) int {
	for pos < len(in) {
		pos = skip(in, pos)
		n := closeAt(in[pos:])
		if n == 0 && pos < len(in) && strings.IndexByte(";,", in[pos]) >= 0 {
			n = 1
		}
		if n == 0 && pos+1 < len(in) && strings.IndexByte("}]", in[pos]) >= 0 && closeAt(in[pos+1:]) > 0 {
			n = 1 // a bracket too many
		}
		if n == 0 {
			break
		}
		pos += n
	}
	return pos
}

// body reads what stands between the marks.
func (r *reader) body(in []byte) ([]Call, int) {
	switch in[0] {
	case '{', '[':
		if calls, n := r.list(in, false); n > 0 {
			return calls, n
		}
		return r.broken(in)
	case '<':
		return r.element(in)
	}
	rest, _ := bytes.CutPrefix(in, []byte("call:")) // Gemma 4
	at := len(in) - len(rest)
	return r.named(in, at, toolName(rest))
}

// brokenName finds the tool's name in JSON that cannot be read.
var brokenName = regexp.MustCompile(`^[\[{\s]+["'](?:name|tool_name|tool|function)["']\s*:\s*["']([\w.:-]+)["']`)

// broken gives the call of a tool that there is whose JSON cannot be read: the
// model is told instead of the person.
func (r *reader) broken(in []byte) ([]Call, int) {
	m := brokenName.FindSubmatch(in[:min(len(in), undecided)])
	if m == nil {
		return nil, 0
	}
	return r.unread(in, string(m[1]))
}

// unread gives a call with the text up to its closing mark as its arguments, if
// it begins as arguments do.
func (r *reader) unread(in []byte, name string) ([]Call, int) {
	call, ok := r.call(name)
	at := skip(in, 0)
	if !ok || call.Unknown || at == len(in) || strings.IndexByte("{[(<", in[at]) < 0 {
		return nil, 0
	}
	end := 0
	for end < len(in) && closeAt(in[end:]) == 0 {
		next := bytes.IndexAny(in[end+1:], "<[")
		if next < 0 {
			end = len(in)
			break
		}
		end += 1 + next
	}
	call.Args = quoted(string(in[:min(end, rawMax)]))
	return []Call{call}, max(end, 1)
}

// named reads a tool's name and its arguments behind it. The name stands at pos.
func (r *reader) named(in []byte, pos int, name string) ([]Call, int) {
	pos = separator(in, pos+len(name))
	if name == "function" { // DeepSeek V3: the kind of the tool, its name follows
		if second := toolName(in[pos:]); second != "" {
			name = second
			pos = separator(in, pos+len(name))
		}
	}
	return r.arguments(in, pos, strings.TrimSuffix(name, ".call"))
}

// arguments reads the arguments at pos and gives the place behind them.
func (r *reader) arguments(in []byte, pos int, name string) ([]Call, int) {
	call, ok := r.call(name)
	if !ok {
		return nil, 0
	}
	rest := in[pos:]
	n := 0
	switch {
	case len(rest) > 0 && rest[0] == '{':
		call.Args, n = readValue(rest)
	case len(rest) > 0 && rest[0] == '(':
		call.Args, n = readArguments(rest[1:])
		n = step(1, n)
	case bytes.HasPrefix(rest, []byte("<arg_key>")):
		call.Args, n = pairs(rest)
	case !call.Unknown && (blank(rest) || closeAt(rest) > 0):
		call.Args = json.RawMessage("{}")
		return []Call{call}, pos
	}
	if n == 0 {
		calls, n := r.unread(rest, name)
		return calls, step(pos, n)
	}
	call.Args = Arguments(call.Args)
	pos += n
	if end := skip(in, pos); bytes.HasPrefix(in[end:], []byte("```")) {
		pos = end + 3
	}
	return []Call{call}, pos
}

// separator skips what stands between a name and its arguments.
func separator(in []byte, pos int) int {
	for {
		pos = skip(in, pos)
		n, _ := oneOf(in[pos:], separators)
		if k, _ := tagAt(in[pos:], "[call_id]"); k > 0 { // Mistral
			n = k + len(toolName(in[pos+k:]))
		}
		if n == 0 {
			return pos
		}
		pos += n
	}
}

// pairs reads the arguments of GLM: <arg_key>name</arg_key><arg_value>value</arg_value>.
func pairs(in []byte) (json.RawMessage, int) {
	var args object
	pos := 0
	for {
		at := skip(in, pos)
		key, n := between(in[at:], "<arg_key>", "</arg_key>")
		if n == 0 {
			return args.json(), pos
		}
		at = skip(in, at+n)
		value, n := between(in[at:], "<arg_value>", "</arg_value>")
		if n == 0 {
			return nil, 0
		}
		args.add(key, quoted(value))
		pos = at + n
	}
}

// between gives what stands between the tags that in begins with.
func between(in []byte, open, close string) (string, int) {
	rest, ok := bytes.CutPrefix(in, []byte(open))
	text, _, closed := bytes.Cut(rest, []byte(close))
	if !ok || !closed {
		return "", 0
	}
	return string(text), len(open) + len(text) + len(close)
}
