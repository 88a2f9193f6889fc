package textcall

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// fence reads calls out of a fence: a whole answer, or one that is named for them.
func (r *reader) fence(in []byte, start bool) ([]Call, int) {
	ticks := len(in) - len(bytes.TrimLeft(in, "`"))
	line, _, ended := bytes.Cut(in[ticks:], []byte{'\n'})
	if !ended {
		return nil, 0
	}
	own := slices.Contains(fences, strings.ToLower(string(bytes.TrimSpace(line))))
	body := ticks + len(line) + 1
	pos := skip(in, body)
	var calls []Call
	var n int
	if k, _ := openAt(in[pos:]); k > 0 {
		calls, n = r.marked(in[pos:])
	} else if _, k := readValue(in[pos:]); k > 0 {
		calls, n = r.list(in[pos:], !own)
	} else if own {
		calls, n = r.script(in[pos:])
	}
	if n == 0 {
		return nil, 0
	}
	pos = skip(in, pos+n)
	if pos < len(in) { // an open fence at the end of the text is taken too
		if !bytes.HasPrefix(in[pos:], in[:ticks]) {
			return nil, 0
		}
		pos += ticks
	}
	if !own && !blank(in[pos:]) {
		return nil, 0
	}
	return calls, pos
}

// bare reads a whole answer that is nothing but calls as JSON or in Python's manner.
func (r *reader) bare(in []byte) ([]Call, int) {
	if len(r.tools) == 0 {
		return nil, 0
	}
	pos := 0
	if bytes.HasPrefix(in, []byte("functools[")) {
		pos = len("functools")
	}
	calls, n := r.list(in[pos:], true)
	if n == 0 || !blank(in[trailer(in, pos+n):]) {
		return nil, 0
	}
	return calls, len(in)
}

// list reads values, one behind the other, that are calls; or a list of Python calls.
func (r *reader) list(in []byte, strict bool) ([]Call, int) {
	var calls []Call
	pos := 0
	for {
		value, n := readValue(in[pos:])
		if n == 0 {
			break
		}
		found := r.fromJSON(value, strict)
		if len(found) == 0 {
			return nil, 0
		}
		calls = append(calls, found...)
		pos += n
		next := skip(in, pos)
		if next < len(in) && (in[next] == ';' || in[next] == ',') {
			next = skip(in, next+1)
		}
		if next == len(in) || in[next] != '{' && in[next] != '[' {
			return calls, pos
		}
		pos = next
	}
	if len(calls) == 0 && len(in) > 0 && in[0] == '[' {
		return r.python(in, strict)
	}
	return nil, 0
}

// python reads [name(argument=value), …]. strict: only tools that there are, with
// named arguments.
func (r *reader) python(in []byte, strict bool) ([]Call, int) {
	var calls []Call
	pos := 1
	for {
		pos = skip(in, pos)
		call, n := r.function(in[pos:])
		if n == 0 || strict && (call.Unknown || call.Args[0] != '{') {
			return nil, 0
		}
		calls = append(calls, call)
		pos = skip(in, pos+n)
		switch {
		case pos < len(in) && in[pos] == ',':
			pos++
		case pos < len(in) && in[pos] == ']':
			return calls, pos + 1
		default:
			return nil, 0
		}
	}
}

// function reads name(argument=value).
func (r *reader) function(in []byte) (Call, int) {
	name := toolName(in)
	call, ok := r.call(strings.TrimSuffix(name, ".call"))
	if !ok || len(in) == len(name) || in[len(name)] != '(' {
		return Call{}, 0
	}
	args, n := readArguments(in[len(name)+1:])
	call.Args = Arguments(args)
	return call, step(len(name)+1, n)
}

// assignment is what may stand before a call in Gemma's code.
var assignment = regexp.MustCompile(`^(?:[A-Za-z_]\w*\s*=\s*)?(print\()?`)

// script reads Gemma's tool_code: lines of calls, printed or not. Anything else
// in it is code that we do not run.
func (r *reader) script(in []byte) ([]Call, int) {
	if len(in) > 0 && in[0] == '[' {
		return r.python(in, false)
	}
	var calls []Call
	pos := 0
	for pos < len(in) && in[pos] != '`' {
		m := assignment.FindSubmatch(in[pos:min(len(in), pos+undecided)])
		at := pos + len(m[0])
		call, n := r.function(in[at:])
		if n == 0 {
			return nil, 0
		}
		calls = append(calls, call)
		pos = at + n
		if len(m[1]) > 0 {
			if pos == len(in) || in[pos] != ')' {
				return nil, 0
			}
			pos++
		}
		pos = skip(in, pos)
	}
	return calls, pos
}
