package bot

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
)

// filter decides, as an answer streams in, how much of it may be shown. It
// leaves out thoughts and secrets, and holds back what may still become one of
// them or a tool call that the model wrote as text. What was shown once stays the
// beginning of what is shown later, however the text was cut into pieces. The one
// exception is a thought without its opening tag (some prompt templates end with
// it): its closing tag, on a line of its own, voids what came before.
//
// What stands between backticks mentions tags, it does not use them (C082); a
// single backtick reaches to the end of its line, three and more to their like.
//
// The work is linear in the length of the text.
type filter struct {
	mode    filterMode
	in      []byte // not decided yet
	seen    int    // bytes of in that were searched in vain for what ends the mode
	ticks   int    // length of the backtick run that opened the code we are in, 0 outside
	inline  bool   // something visible stands before on this line
	begun   bool   // something visible came before
	unended bool   // no closing tag comes any more
	out     redactor
}

// filterMode is what the undecided text is taken for.
type filterMode int

const (
	inProse   filterMode = iota
	inThought            // left out up to its closing tag, or to the end
	inAside              // a thought that begins within a line: if it is never closed, it is a mention
	inListing            // fenced JSON that may be a call: what it is shows when the fence closes
	inCall               // held back to the end
)

// newFilter returns a filter that redacts the given secrets; empty ones are ignored.
func newFilter(secrets []string) *filter {
	return &filter{out: newRedactor(secrets)}
}

// add takes the next piece of the answer, in whole runes.
func (f *filter) add(text string) {
	f.in = append(f.in, text...)
	for f.step(false) {
	}
}

// shown gives what may be shown so far, without white space around it.
func (f *filter) shown() string { return strings.TrimSpace(f.out.String()) }

// end gives what is shown of the finished answer. Nothing is held back any more:
// whether it was a tool call has been found out elsewhere.
func (f *filter) end() string {
	for f.step(true) {
	}
	f.out.end()
	return f.shown()
}

// step decides about the next stretch of the text; false: nothing can be decided
// until more comes.
func (f *filter) step(last bool) bool {
	if len(f.in) == 0 {
		return false
	}
	switch f.mode {
	case inThought, inAside:
		return f.stepThought(last)
	case inListing:
		return f.stepListing(last)
	case inCall:
		if !last {
			return false
		}
		f.become(inProse)
	}
	return f.stepProse(last)
}

// stepThought looks for the closing tag.
func (f *filter) stepThought(last bool) bool {
	at, n := findTag(f.in, f.seen, thoughtEnds)
	switch {
	case n > 0:
		f.drop(at + n)
		f.become(inProse)
		return true
	case last && f.mode == inThought:
		f.drop(len(f.in))
		return false
	case last:
		f.unended = true
		f.become(inProse)
		return true
	case f.mode == inThought:
		f.drop(at)
	default:
		f.seen = at
	}
	return false
}

// stepListing looks for the end of the fence and decides by what stands before it.
func (f *filter) stepListing(last bool) bool {
	i := bytes.Index(f.in[f.seen:], bytes.Repeat([]byte{'`'}, f.ticks))
	switch {
	case i < 0 && last:
		f.become(inProse)
		f.show(f.ticks)
		return true
	case i < 0:
		f.seen = max(f.seen, len(f.in)-f.ticks+1)
		return false
	}
	body := f.in[:f.seen+i]
	if slices.ContainsFunc(argKeys, func(k string) bool { return bytes.Contains(body, []byte(k)) }) {
		return f.hold(inCall)
	}
	f.become(inProse)
	f.show(len(body))
	return true
}

// stepProse shows what comes before the next mark, or judges the mark.
func (f *filter) stepProse(last bool) bool {
	n := bytes.IndexFunc(f.in, f.mark)
	switch {
	case n < 0:
		f.show(len(f.in))
		return true
	case n > 0:
		f.show(n)
		return true
	}
	switch f.in[0] {
	case '\n':
		f.show(1)
		f.inline = false
		if f.ticks < 3 {
			f.ticks = 0
		}
	case '`':
		return f.stepTicks(last)
	default:
		return f.stepMark(last)
	}
	return true
}

// mark says whether r needs a closer look.
func (f *filter) mark(r rune) bool {
	switch r {
	case '\n', '`':
		return true
	case '\\', '<', '[':
		return f.ticks == 0
	}
	return !f.begun && !unicode.IsSpace(r)
}

// stepTicks opens or closes code, unless a fence may hold a call.
func (f *filter) stepTicks(last bool) bool {
	n := len(f.in) - len(bytes.TrimLeft(f.in, "`"))
	if n == len(f.in) && !last {
		return false // the run may go on
	}
	if f.ticks == 0 && n >= 3 && !last {
		switch fencedCall(f.in[n:]) {
		case unclear:
			return false
		case isCall:
			return f.hold(inCall)
		case mayBeCall:
			f.mode, f.seen, f.ticks = inListing, n, n
			return true
		}
	}
	switch {
	case f.ticks == 0:
		f.ticks = n
	case n == f.ticks, f.ticks >= 3 && n > f.ticks:
		f.ticks = 0
	}
	f.show(n)
	return true
}

// stepMark judges what begins with a mark, outside of code.
func (f *filter) stepMark(last bool) bool {
	verdict, n := f.judge()
	switch {
	case verdict == unclear && !last:
		return false
	case verdict == isCall && !last:
		return f.hold(inCall)
	case verdict == isOpening && !f.inline:
		f.mode, f.seen = inThought, n
	case verdict == isOpening && !f.unended:
		f.mode, f.seen = inAside, n
	case verdict == isClosing:
		f.out.reset()
		f.begun = false
		f.drop(n)
	default:
		f.show(max(n, 1))
	}
	return true
}

// become changes the mode.
func (f *filter) become(m filterMode) { f.mode, f.seen = m, 0 }

// hold changes to a mode that waits for more.
func (f *filter) hold(m filterMode) bool {
	f.become(m)
	return false
}

// drop leaves out the next n bytes.
func (f *filter) drop(n int) { f.in, f.seen = f.in[n:], 0 }

// show lets the next n bytes out.
func (f *filter) show(n int) {
	if bytes.ContainsFunc(f.in[:n], func(r rune) bool { return !unicode.IsSpace(r) }) {
		f.inline, f.begun = true, true
	}
	f.out.write(f.in[:n])
	f.drop(n)
}
