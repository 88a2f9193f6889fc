package bot

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
)

// thoughtStarts and thoughtEnds are the tags of thoughts. Models mix them up, so any of the
// second closes any of the first.
var (
	thoughtStarts = []string{"<think>", "<thinking>", "<thought>", "<reasoning>", "[think]"}
	thoughtEnds   = []string{"</think>", "</thinking>", "</thought>", "</reasoning>", "[/think]"}
)

// callMarks are the marks by which the models' templates introduce a tool call; C083
// lists the families. callStarts are those that count at the start of an answer only.
var (
	callMarks  = []string{"<tool_call", "<function_call", "<function=", "<invoke name=", "<｜", "[tool_call"}
	callStarts = []string{"thought:", "action:", ">>>"}
)

// callKeys are the keys that a tool call written as JSON may begin with, argKeys
// those of which it has one.
var (
	callKeys = []string{"name", "tool", "tool_name", "tool_calls", "function", "function_call", "type", "id", "action", "arguments", "parameters"}
	argKeys  = []string{`"arguments"`, `"parameters"`, `"args"`, `"input"`, `"tool_input"`, `"action_input"`, `"tool_calls"`}
)

// undecided is how many bytes without a decision are waited for before something
// is taken for plain text.
const undecided = 256

// verdict is what a stretch of text turns out to be.
type verdict int

const (
	isPlain   verdict = iota
	unclear           // more is needed to know
	isOpening         // the opening tag of a thought
	isClosing         // the closing tag of a thought that was never opened
	isCall            // the beginning of a tool call
	mayBeCall         // JSON with the keys of one
)

// judge says what in begins with, and the length of a tag or of an escape.
func (f *filter) judge() (verdict, int) {
	var more bool
	// try tells whether in begins with one of the tags, and notes that it still may.
	try := func(tags []string) int {
		n, open := tagAt(f.in, tags)
		more = more || open
		return n
	}
	switch f.in[0] {
	case '\\':
		return backslash(f.in)
	case '<', '[':
		if n := try(thoughtStarts); n > 0 {
			return isOpening, n
		}
		if !f.inline {
			if n := try(thoughtEnds); n > 0 {
				return isClosing, n
			}
		}
		if try(callMarks) > 0 {
			return isCall, 0
		}
		if v := specialToken(f.in); v != isPlain {
			return v, 0
		}
	}
	if !f.begun {
		if try(callStarts) > 0 {
			return isCall, 0
		}
		switch v := jsonCall(f.in); v {
		case mayBeCall:
			return isCall, 0 // bare, it is held to the end anyway
		case isPlain:
		default:
			return v, 0
		}
	}
	if more {
		return unclear, 0
	}
	return isPlain, 0
}

// backslash judges a backslash: it takes the meaning from punctuation that follows.
func backslash(in []byte) (verdict, int) {
	switch {
	case len(in) < 2:
		return unclear, 0
	case strings.IndexByte("\\`<[", in[1]) >= 0:
		return isPlain, 2
	}
	return isPlain, 1
}

// specialToken judges the "<|name|>" of many templates. "<|" alone is an operator
// in several languages.
func specialToken(in []byte) verdict {
	rest, ok := bytes.CutPrefix(in, []byte("<|"))
	switch {
	case len(in) < 2 && in[0] == '<', ok && len(rest) == 0:
		return unclear
	case ok && (rest[0]|0x20 >= 'a' && rest[0]|0x20 <= 'z'):
		return isCall
	}
	return isPlain
}

// jsonCall judges whether in is a tool call as JSON, or a list of calls in the
// manner of Python: [name(argument=…)]. It gives isPlain, unclear or mayBeCall,
// and isCall for the latter, which has no other reading.
func jsonCall(in []byte) verdict {
	short := in[:min(len(in), undecided)]
	rest := bytes.TrimLeftFunc(short, unicode.IsSpace)
	list := bytes.HasPrefix(rest, []byte("["))
	if list {
		rest = bytes.TrimLeftFunc(rest[1:], unicode.IsSpace)
	}
	open := unclear // what it is when the bytes end here
	if len(in) >= undecided {
		open = isPlain
	}
	if len(rest) == 0 {
		return open
	}
	if rest[0] != '{' {
		if list {
			return pythonCall(rest, open)
		}
		return isPlain
	}
	rest = bytes.TrimLeftFunc(rest[1:], unicode.IsSpace)
	if len(rest) == 0 {
		return open
	}
	if rest[0] != '"' {
		return isPlain
	}
	key, _, closed := bytes.Cut(rest[1:], []byte{'"'})
	switch {
	case closed && slices.Contains(callKeys, string(key)):
		return mayBeCall
	case !closed && slices.ContainsFunc(callKeys, func(k string) bool { return strings.HasPrefix(k, string(key)) }):
		return open
	}
	return isPlain
}

// pythonCall judges what stands behind a bracket; open is the verdict on a name
// that has not ended.
func pythonCall(in []byte, open verdict) verdict {
	i := bytes.IndexFunc(in, func(r rune) bool { return r != '_' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	switch {
	case i < 0:
		return open
	case i > 0 && in[i] == '(':
		return isCall
	}
	return isPlain
}

// fencedCall judges what follows a fence's backticks: a call stands alone in a
// fence, under no name, that of JSON or one of its own.
func fencedCall(in []byte) verdict {
	short := in[:min(len(in), undecided)]
	line, body, ended := bytes.Cut(short, []byte{'\n'})
	info := strings.ToLower(string(bytes.TrimSpace(line)))
	switch {
	case strings.Contains(info, "`"):
		return isPlain // code within a line
	case !ended && len(in) >= undecided:
		return isPlain
	case !ended:
		return unclear
	case strings.HasPrefix(info, "tool_"), strings.HasPrefix(info, "function_call"):
		return isCall
	case info != "" && info != "json" && info != "xml":
		return isPlain
	}
	trimmed := bytes.TrimLeftFunc(body, unicode.IsSpace)
	if n, open := tagAt(trimmed, callMarks); n > 0 {
		return isCall
	} else if open && len(in) < undecided {
		return unclear
	}
	if v := jsonCall(in[len(line)+1:]); v != isCall {
		return v
	}
	return isPlain // in a fence, [f(x)] is code
}

// tagAt gives the length of the tag that in begins with, whatever the case; open
// tells that in may become one.
func tagAt(in []byte, tags []string) (n int, open bool) {
	for _, tag := range tags {
		m := min(len(in), len(tag))
		if !strings.EqualFold(string(in[:m]), tag[:m]) {
			continue
		}
		if m == len(tag) {
			return m, false
		}
		open = true
	}
	return 0, open
}

// findTag gives the place and length of the first of the tags at or after from.
// Without one the length is 0 and the place is where one may have begun.
func findTag(in []byte, from int, tags []string) (at, n int) {
	for from < len(in) {
		i := bytes.IndexAny(in[from:], "<[")
		if i < 0 {
			break
		}
		from += i
		n, open := tagAt(in[from:], tags)
		if n > 0 || open {
			return from, n
		}
		from++
	}
	return len(in), 0
}
