package textcall

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Filter decides, as an answer streams in, how much of it may be shown. It leaves
// out thoughts, and holds back what may still become one or a call written as
// text. The pieces that the text comes in make no difference, and the work is
// linear in its length. The zero value is ready. It is for one answer and one
// goroutine.
//
// What stands in code mentions tags, it does not use them (C082): a single
// backtick reaches to the end of its line, three and more to their like.
type Filter struct {
	in     []byte // not decided yet
	mode   mode
	seen   int // bytes of in that were searched in vain for what ends the mode
	far    int // bytes of in that were searched in vain for the end of a line
	kind   int // of the thought we are in, an index of thoughts
	off    int // bytes of the text before in
	voided int // bytes of the text up to the last void

	code    byte                // the mark of the code we are in, 0 outside
	ticks   int                 // its length
	fence   bool                // it stands on lines of its own
	inline  bool                // something visible stands before on this line
	indent  int                 // columns of white space before on this line
	begun   bool                // something visible came before
	last    rune                // the last visible one
	plain   bool                // what looks like steps of ReAct at the beginning is none
	unended [len(thoughts)]bool // no closing tag of this kind comes any more

	shown   []byte
	void    bool
	thought []byte // kept if keep
	prior   int    // bytes of thought up to the last void
	keep    bool
	tempted bool // a call seemed to begin somewhere

	// read takes calls from the beginning of a finished text and gives their
	// length; nil while it streams.
	read func(in []byte) int
}

// mode is what the undecided text is taken for.
type mode int

const (
	inProse   mode = iota
	inThought      // left out up to its closing tag, or to the end
	inAside        // a thought that may be a mention, which it is if it is never closed
	inSteps        // of ReAct: what they are shows at the next label
	inListing      // a fence that may be a call: what it is shows when it closes
	inCall         // held back to the end
)

// Add takes the next piece of the answer, in whole runes, and gives what may be
// shown after what was given before. void says that all of that was a thought
// that came without its opening tag (some prompt templates end with it) and is
// to be taken back.
func (f *Filter) Add(text string) (show string, void bool) {
	f.in = append(f.in, text...)
	for f.step(false) {
	}
	return f.hand()
}

// End gives the rest of the finished answer. Nothing but thoughts is held back
// any more: whether it was a call is what Parse says.
func (f *Filter) End() (show string, void bool) {
	for f.step(true) {
	}
	return f.hand()
}

// hand gives out what was decided.
func (f *Filter) hand() (show string, void bool) {
	show, void = string(f.shown), f.void
	f.shown, f.void = f.shown[:0], false
	return show, void
}

// step decides about the next stretch of the text; false: nothing can be decided
// until more comes.
func (f *Filter) step(last bool) bool {
	if len(f.in) == 0 {
		return false
	}
	switch f.mode {
	case inThought, inAside:
		return f.stepThought(last)
	case inSteps:
		return f.stepSteps(last)
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
func (f *Filter) stepThought(last bool) bool {
	at, n, kept := thoughts[f.kind].end(f.in, f.seen)
	switch {
	case n > 0:
		f.think(at)
		if !kept {
			f.drop(n)
		}
		f.become(inProse)
		return true
	case last && f.mode == inThought:
		f.think(len(f.in))
		return false
	case last:
		f.unended[f.kind] = true
		f.become(inProse)
		return true
	case f.mode == inThought:
		f.think(at)
	default:
		f.seen = at
	}
	return false
}

// end gives the place and length of the first closing tag at or after from; kept:
// it belongs to what follows. Without one the length is 0 and the place is where
// one may have begun.
func (t thought) end(in []byte, from int) (at, n int, kept bool) {
	for ; from < len(in); from++ {
		i := bytes.IndexAny(in[from:], "<[aA")
		if i < 0 {
			break
		}
		from += i
		n, open := oneOf(in[from:], t.closes)
		if n > 0 || open {
			return from, n, false
		}
		if n, open = oneOf(in[from:], t.kept); n > 0 || open {
			return from, n, true
		}
	}
	return len(in), 0, false
}

// take lets the reader take calls.
func (f *Filter) take(in []byte) int {
	f.tempted = true
	if f.read == nil {
		return 0
	}
	return f.read(in)
}

// stepListing looks for the end of the fence and decides by what stands in it.
func (f *Filter) stepListing(last bool) bool {
	i := bytes.Index(f.in[f.seen:], bytes.Repeat([]byte{f.code}, f.ticks))
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
	if slices.ContainsFunc(listKeys, func(k string) bool { return bytes.Contains(body, []byte(k)) }) {
		f.code, f.ticks, f.fence = 0, 0, false
		return f.hold(inCall)
	}
	f.become(inProse)
	inline := !blank(body[bytes.LastIndexByte(body, '\n')+1:])
	f.show(len(body))
	f.inline = inline
	return true
}

// stepProse shows what comes before the next mark, or judges the mark.
func (f *Filter) stepProse(last bool) bool {
	n := bytes.IndexFunc(f.in, f.mark)
	switch {
	case n < 0:
		f.show(len(f.in))
		return true
	case n > 0:
		f.show(n)
		return true
	}
	switch c := f.in[0]; {
	case c == '\n':
		f.show(1)
		f.inline, f.indent = false, 0
		if f.ticks < 3 {
			f.code, f.ticks = 0, 0
		}
	case c == '`', c == '~' && !f.inline:
		return f.stepCode(last)
	case c == '~':
		f.show(1)
	default:
		return f.stepMark(last)
	}
	return true
}

// mark says whether r needs a closer look.
func (f *Filter) mark(r rune) bool {
	switch r {
	case '\n', '`', '~':
		return true
	case '\\', '<', '[':
		return f.ticks == 0
	case 'A', 'a', 'T', 't', 'F', 'f', '*', '>':
		if f.ticks == 0 && !f.inline {
			return true
		}
	}
	return !f.begun && !unicode.IsSpace(r)
}

// stepCode opens or closes code, unless a fence may hold a call.
func (f *Filter) stepCode(last bool) bool {
	c := f.in[0]
	n := len(f.in) - len(bytes.TrimLeft(f.in[f.seen:], string(c)))
	if n == len(f.in) && !last {
		f.seen = n
		return false // the run may go on
	}
	switch {
	case f.ticks > 0:
		if c == f.code && f.closes(n) {
			f.code, f.ticks, f.fence = 0, 0, false
		}
	case c == '~' && n < 3:
	case n >= 3 && !f.inline:
		switch verdict := f.fenced(n, last); {
		case verdict == unclear:
			return false
		case verdict == isCall && !last:
			return f.hold(inCall)
		case verdict == isCall:
			if taken := f.take(f.in); taken > 0 {
				f.drop(taken)
				return true
			}
		case verdict == mayBeCall:
			f.mode, f.seen = inListing, n
		}
		f.code, f.ticks, f.fence = c, n, true
		if f.mode == inListing {
			return true
		}
	default:
		f.code, f.ticks, f.fence = c, n, false
	}
	f.show(n)
	return true
}

// closes tells whether a run of n marks closes the code we are in: that of a
// fence stands at the beginning of a line.
func (f *Filter) closes(n int) bool {
	if f.fence {
		return n >= f.ticks && !f.inline
	}
	return n == f.ticks || f.ticks >= 3 && n > f.ticks
}

// stepMark judges what begins with a mark, outside of code.
func (f *Filter) stepMark(last bool) bool {
	verdict, n := f.judge(last)
	switch {
	case verdict == unclear && !last:
		return false
	case verdict == isCall && !last:
		return f.hold(inCall)
	case verdict == isCall:
		if taken := f.take(f.in); taken > 0 {
			f.drop(taken)
		} else {
			f.show(1)
		}
	case verdict == isSteps:
		f.become(inSteps)
	case verdict == isOpening && !f.inline && f.kind != bareThought:
		f.drop(n)
		f.become(inThought)
	case verdict == isOpening && !f.unended[f.kind]:
		f.mode, f.seen = inAside, n
	case verdict == isClosing:
		if f.keep {
			f.thought = append(f.thought, f.shown...)
		}
		f.prior = len(f.thought)
		f.shown, f.void = f.shown[:0], true
		f.begun, f.last = false, 0
		f.drop(n)
		f.voided = f.off
	case verdict == isNoise, verdict == unclear && n > 0:
		f.drop(n)
	default:
		f.show(max(n, 1))
	}
	return true
}

// become changes the mode.
func (f *Filter) become(m mode) { f.mode, f.seen, f.far = m, 0, 0 }

// hold changes to a mode that waits for more.
func (f *Filter) hold(m mode) bool {
	f.become(m)
	return false
}

// think leaves out the next n bytes as thoughts.
func (f *Filter) think(n int) {
	if f.keep {
		f.thought = append(append(f.thought, f.in[:n]...), '\n')
	}
	f.drop(n)
}

// drop leaves out the next n bytes.
func (f *Filter) drop(n int) {
	f.in, f.seen = f.in[n:], 0
	f.off += n
}

// show lets the next n bytes out.
func (f *Filter) show(n int) {
	piece := f.in[:n]
	if !f.inline {
		f.indent += columns(piece)
	}
	if trimmed := bytes.TrimRightFunc(piece, unicode.IsSpace); len(trimmed) > 0 {
		f.inline, f.begun = true, true
		f.last, _ = utf8.DecodeLastRune(trimmed)
	}
	f.shown = append(f.shown, piece...)
	f.drop(n)
}

// columns gives the width of the white space at the beginning of a line.
func columns(line []byte) int {
	n := 0
	for _, b := range line {
		switch b {
		case ' ':
			n++
		case '\t':
			n += 4
		default:
			return n
		}
	}
	return n
}

// afterSentence tells whether a sentence ends before this place.
func (f *Filter) afterSentence() bool { return strings.ContainsRune(".!?…。！？", f.last) }
