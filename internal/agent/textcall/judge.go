package textcall

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
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
	isCall            // the beginning of a call
	mayBeCall         // JSON with the keys of one
	isSteps           // the first step of ReAct
	isNoise           // a token of the template that means nothing
)

// judge says what the text begins with, and the length of a tag or of an escape.
func (f *Filter) judge(last bool) (v verdict, n int) {
	switch f.in[0] {
	case '\\':
		return backslash(f.in)
	case '<', '[':
		v, n = f.tag()
	case 'A', 'a', 'T', 't', 'F', 'f', '*':
		if v = f.labelled(last); v != isPlain {
			return v, 0
		}
	case '>':
		if !f.inline && f.placed(false) {
			v, n = recipient(f.in, f.begun)
		}
	}
	if v != isPlain || n > 0 || f.begun {
		return v, n
	}
	return f.beginning()
}

// labelled judges what may be a label of ReAct.
func (f *Filter) labelled(last bool) verdict {
	if f.inline || !f.placed(false) {
		return isPlain
	}
	v := stepsMark(f.in, !f.begun)
	if v == isSteps && f.plain {
		v = isPlain
	}
	if action := actionMark(f.in, last); action > v {
		return action
	}
	return v
}

// placed tells whether a call may begin here: on a line of its own that is not
// indented code, or, if its mark is a token that nobody writes, behind a sentence.
func (f *Filter) placed(token bool) bool {
	return !f.begun || !f.inline && f.indent < 4 || token && f.inline && f.afterSentence()
}

// tag judges what begins with a bracket.
func (f *Filter) tag() (verdict, int) {
	more := false
	for i, t := range thoughts {
		n, open := oneOf(f.in, t.opens)
		if n > 0 {
			f.kind = i
			return isOpening, n
		}
		more = more || open
	}
	if v, n := f.lone(); v != isPlain {
		return v, n
	}
	if v, n := f.harmony(); v != isPlain {
		return v, n
	}
	if n, open := oneOf(f.in, heads); n > 0 {
		return isNoise, n
	} else if open {
		more = true
	}
	n, open := openAt(f.in)
	if n > 0 && f.placed(special(f.in)) {
		return isCall, 0
	}
	more = more || open && f.placed(true)
	if n, open = oneOf(f.in, ends); n > 0 {
		return ending(f.in, n)
	}
	if more || open {
		return unclear, 0
	}
	return isPlain, 0
}

// ending judges a token of n bytes that ends an answer: it is noise if nothing
// but another token follows.
func ending(in []byte, n int) (verdict, int) {
	rest := bytes.TrimSpace(in[n:min(len(in), n+undecided)])
	switch {
	case len(rest) == 0 && len(in) < n+undecided, string(rest) == "<":
		return unclear, n
	case len(rest) == 0, bytes.HasPrefix(rest, []byte("<|")):
		return isNoise, n
	}
	return isPlain, 0
}

// lone judges a closing tag whose opening one never came: it stands on a line of
// its own, or ends a paragraph.
func (f *Filter) lone() (verdict, int) {
	for _, t := range thoughts[:harmonyThought] {
		n, open := oneOf(f.in, t.closes)
		if open {
			return unclear, 0
		}
		if n == 0 {
			continue
		}
		if !f.inline {
			return isClosing, n
		}
		line, _, ended := bytes.Cut(f.in[n:min(len(f.in), n+undecided)], []byte("\n\n"))
		switch {
		case !blank(line):
		case ended:
			return isClosing, n
		case len(f.in) < n+undecided:
			return unclear, 0
		}
	}
	return isPlain, 0
}

// beginning judges the first visible thing of an answer.
func (f *Filter) beginning() (verdict, int) {
	n, more := oneOf(f.in, bareCalls)
	if n > 0 {
		return isCall, 0
	}
	if v := bareAnalysis(f.in); v == isOpening {
		f.kind = bareThought
		return v, len("analysis")
	} else if v == unclear {
		more = true
	}
	switch v := jsonCall(f.in); v {
	case isPlain:
	case mayBeCall:
		return isCall, 0 // bare, it is held to the end anyway
	default:
		return v, 0
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
	case strings.IndexByte("\\`~<[", in[1]) >= 0:
		return isPlain, 2
	}
	return isPlain, 1
}

// recipient judges the ">>>" of Functionary 3.2: a tool's name follows and, on
// the next line, its arguments; under the name "all" stands text.
func recipient(in []byte, begun bool) (verdict, int) {
	if len(in) < 3 && strings.HasPrefix(">>>", string(in)) {
		return unclear, 0
	}
	rest, ok := bytes.CutPrefix(in[:min(len(in), undecided)], []byte(">>>"))
	if !ok {
		return isPlain, 0
	}
	name := toolName(rest)
	rest = rest[len(name):]
	open := unclear // what it is when the bytes end here
	if len(in) >= undecided {
		open = isPlain
	}
	switch {
	case len(rest) == 0:
		return open, 0
	case name == "" || rest[0] != '\n':
		return isPlain, 0
	case name == "all" && !begun:
		return isNoise, len(">>>all\n")
	}
	rest = bytes.TrimSpace(rest)
	switch {
	case len(rest) == 0:
		return open, 0
	case rest[0] == '{':
		return isCall, 0
	}
	return isPlain, 0
}

// jsonCall judges whether in is a call as JSON, or a list of calls in the manner
// of Python: [name(argument=…)]. It gives isPlain, unclear or mayBeCall, and
// isCall for the latter, which has no other reading.
func jsonCall(in []byte) verdict {
	short := in[:min(len(in), undecided)]
	rest := bytes.TrimLeftFunc(short, unicode.IsSpace)
	open := unclear // what it is when the bytes end here
	if len(in) >= undecided {
		open = isPlain
	}
	if n, more := tagAt(rest, "functools["); n > 0 {
		return isCall
	} else if more {
		return open
	}
	list := bytes.HasPrefix(rest, []byte("["))
	if list {
		rest = bytes.TrimLeftFunc(rest[1:], unicode.IsSpace)
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
	quote := rest[:1]
	if quote[0] != '"' && quote[0] != '\'' {
		return isPlain
	}
	key, _, closed := bytes.Cut(rest[1:], quote)
	switch {
	case closed && isCallKey(string(key)):
		return mayBeCall
	case !closed && beginsCallKey(string(key)):
		return open
	}
	return isPlain
}

func isCallKey(key string) bool {
	return slices.Contains(argKeys, key) || slices.Contains(nameKeys, key) || slices.Contains(wrapKeys, key) || slices.Contains(restKeys, key)
}

func beginsCallKey(key string) bool {
	for _, keys := range [][]string{argKeys, nameKeys, wrapKeys, restKeys} {
		if slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, key) }) {
			return true
		}
	}
	return false
}

// pythonCall judges what stands behind a bracket; open is the verdict on a name
// that has not ended.
func pythonCall(in []byte, open verdict) verdict {
	name := toolName(in)
	switch {
	case len(name) == len(in):
		return open
	case name != "" && in[len(name)] == '(':
		return isCall
	}
	return isPlain
}

// fenced judges a fence of n marks: a call stands alone in one, as the whole
// answer or under a name of its own.
func (f *Filter) fenced(n int, last bool) verdict {
	in := f.in[n:]
	if f.in[0] != '`' || !f.placed(false) {
		return isPlain
	}
	line, body, ended := bytes.Cut(in[:min(len(in), undecided)], []byte{'\n'})
	info := strings.ToLower(string(bytes.TrimSpace(line)))
	switch {
	case !ended && !last && len(in) < undecided:
		return unclear
	case !ended:
		return isPlain
	case slices.Contains(fences, info):
		return isCall
	case f.begun || !slices.Contains(wholeFences, info):
		return isPlain
	case last:
		return isCall
	}
	trimmed := bytes.TrimLeftFunc(body, unicode.IsSpace)
	if n, open := openAt(trimmed); n > 0 {
		return isCall
	} else if open && len(in) < undecided {
		return unclear
	}
	if v := jsonCall(in[len(line)+1:]); v != isCall {
		return v
	}
	return isPlain // in a fence, [f(x)] is code
}
