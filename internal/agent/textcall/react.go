package textcall

import (
	"bytes"
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

// stepSteps looks for the label that tells what the steps of ReAct lead to.
func (f *Filter) stepSteps(last bool) bool {
	for f.seen < len(f.in) {
		i := bytes.IndexByte(f.in[max(f.seen, f.far):], '\n')
		line := f.in[f.seen:]
		if i >= 0 {
			line = f.in[f.seen : max(f.seen, f.far)+i]
		}
		kind, n := label(line)
		if kind == finalLabel && f.begun {
			kind = noLabel // behind other text it is part of it
		}
		switch {
		case i < 0 && !last && (kind != finalLabel || n == len(line)):
			f.far = len(f.in)
			return false
		case kind == finalLabel:
			f.thinkSteps(f.seen)
			f.drop(n)
			f.become(inProse)
			return true
		case kind == actionLabel:
			switch verdict := actionMark(f.in[f.seen:], last); {
			case verdict == unclear:
				return false
			case verdict == isCall && !last:
				return f.hold(inCall)
			case verdict == isCall:
				return f.act()
			}
		}
		f.seen += len(line) + 1
	}
	if last {
		f.plain = true
		f.become(inProse)
	}
	return last
}

// act takes the action behind the steps, if it is one.
func (f *Filter) act() bool {
	at := f.seen
	f.become(inProse)
	if n := f.take(f.in[at:]); n > 0 {
		f.thinkSteps(at)
		f.drop(n)
	} else {
		f.plain = true
	}
	return true
}

// thinkSteps is think without the first label.
func (f *Filter) thinkSteps(n int) {
	if _, k := label(f.in); k <= n {
		f.drop(k)
		n -= k
	}
	f.think(n)
}
