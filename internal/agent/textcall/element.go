package textcall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
)

// toolTag and parameterTag are the opening tags of calls and arguments in XML.
var (
	toolTag      = regexp.MustCompile(`^<(?:｜DSML｜)?(?:function|invoke)(?:=| name=)["']?([\w.:/-]+)["']?[^<>]*>`)
	parameterTag = regexp.MustCompile(`^<(｜DSML｜)?parameter(?:=| name=)["']?([\w.:-]+)["']?([^<>]*)>`)
)

// element reads a call in XML: <function=name> with JSON or <parameter=…> in it
// (Llama 3.1, Qwen 3 Coder), or <invoke name="…"> (MiniMax, DeepSeek 3.2).
func (r *reader) element(in []byte) ([]Call, int) {
	m := toolTag.FindSubmatch(in[:min(len(in), undecided)])
	if m == nil {
		return nil, 0
	}
	name, pos := string(m[1]), len(m[0])
	call, ok := r.call(name)
	if !ok {
		return nil, 0
	}
	var n int
	if body := skip(in, pos); body < len(in) && in[body] == '{' {
		call.Args, n = readValue(in[body:])
		n = step(body, n)
	} else {
		call.Args, n = parameters(in, pos)
	}
	if n > 0 {
		// Without its closing tag the call may have been cut behind a parameter.
		if end := skip(in, n); closeAt(in[end:]) > 0 || in[n-1] == '}' && end == len(in) {
			call.Args = Arguments(call.Args)
			return []Call{call}, end
		}
	}
	calls, n := r.unread(in[pos:], name)
	return calls, step(pos, n)
}

// parameters reads elements of arguments; pos is where the first may stand.
// Their text is taken as it is, without the line breaks next to the tags. What
// is no text by the tool's schema is for the caller to convert.
func parameters(in []byte, pos int) (json.RawMessage, int) {
	var args object
	for {
		at := skip(in, pos)
		m := parameterTag.FindSubmatch(in[at:min(len(in), at+undecided)])
		if m == nil {
			return args.json(), pos
		}
		at += len(m[0])
		body, _, closed := bytes.Cut(in[at:], fmt.Appendf(nil, "</%sparameter>", m[1]))
		if !closed {
			return nil, 0
		}
		text := bytes.TrimSuffix(bytes.TrimPrefix(body, []byte{'\n'}), []byte{'\n'})
		value := quoted(string(text))
		if bytes.Contains(m[3], []byte(`string="false"`)) {
			if typed, n := readValue(text); n > 0 && blank(text[n:]) {
				value = typed
			}
		}
		args.add(string(m[2]), value)
		pos = at + len(body) + len("</parameter>") + len(m[1])
	}
}

// object builds a JSON object in the order of its keys.
type object struct{ text []byte }

func (o *object) add(key string, value json.RawMessage) {
	if len(o.text) > 0 {
		o.text = append(o.text, ',')
	}
	o.text = append(append(append(o.text, quoted(key)...), ':'), value...)
}

func (o *object) json() json.RawMessage {
	return append(append([]byte{'{'}, o.text...), '}')
}

// quoted gives text as a JSON string.
func quoted(text string) json.RawMessage {
	var l lexer
	l.text([]byte(text), true)
	return l.out.Bytes()
}

// skip gives the place of the next byte at or after pos that is no white space.
func skip(in []byte, pos int) int {
	for pos < len(in) && isSpace(in[pos]) {
		pos++
	}
	return pos
}
