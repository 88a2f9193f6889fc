// Package textcall finds the tool calls and thoughts that models write into the
// text of their answers: because a server does not know the model's format, a
// template lacks it, or the model has no format of its own and was told ReAct's
// text protocol. It knows the formats of many families in one table, and imports
// the standard library only.
//
// A call runs something, so that in doubt there is none. What a text explains is
// told from what it does by these rules:
//   - Code is never a call: backticks, fences, indented lines, but for a fence that
//     is the whole answer or is named for calls.
//   - Tags that people write too (<tool_call>) need a line of their own; tokens that
//     only models write may also follow a sentence.
//   - What no mark tells from data (JSON, a Python list) must be the whole answer.
//   - A call ends the answer or begins it: prose on both sides explains it. So does
//     a line before it that says "for example".
//   - Only the first run of calls counts: what follows was written without its
//     results (C085).
//   - Thoughts are taken out first (C080, C082): nothing in them runs.
package textcall

import (
	"bytes"
	"slices"
	"strings"
)

// attempts bounds the marks at which calls are looked for in one text.
const attempts = 50

// Answer is what the text of a model's message comes to.
type Answer struct {
	Thought string // what the model thought, without tags
	Text    string // for the person: without thoughts, calls, labels and the template's tokens
	Calls   []Call // in their order; empty: Text is the answer
}

// Parse takes a complete message apart. tools are the names of the tools that the
// agent holds; calls of others are marked unknown. The work is linear in the
// length of the text.
func Parse(text string, tools []string) Answer {
	text = strings.ToValidUTF8(text, "\uFFFD")
	f := Filter{keep: true}
	f.finish(text)
	answer := Answer{Thought: clean(f.thought), Text: clean(f.shown)}
	if !f.tempted {
		return answer
	}

	p := parser{reader: reader{tools: tools}}
	p.keep = true
	p.Filter.read = p.take
	p.finish(text[f.voided:])
	if len(p.calls) > 0 && p.genuine() {
		answer.Thought = clean(slices.Concat(f.thought[:f.prior], p.thought))
		answer.Text, answer.Calls = clean(p.shown[:p.before]), p.calls
	}
	return answer
}

// Thoughts splits a complete message whose calls are known already into what the
// model thought and the rest.
func Thoughts(text string) (thought, rest string) {
	f := Filter{keep: true}
	f.finish(strings.ToValidUTF8(text, "\uFFFD"))
	return clean(f.thought), clean(f.shown)
}

func clean(b []byte) string { return string(bytes.TrimSpace(b)) }

// finish decides about a complete text.
func (f *Filter) finish(text string) {
	f.in = []byte(text)
	for f.step(true) {
	}
}

// parser is a filter that takes calls out of a finished text.
type parser struct {
	Filter
	reader
	calls  []Call
	before int // bytes shown before the first run of calls
	end    int // bytes shown before the end of the last run
	tries  int
}

// take reads the calls that in begins with, gives their length and keeps those
// of the first run.
func (p *parser) take(in []byte) int {
	if p.tries == attempts {
		return 0
	}
	calls, n := p.reader.calls(in, !p.begun)
	if n == 0 {
		p.tries++
		return 0
	}
	switch {
	case len(p.calls) == 0:
		p.before = len(p.shown)
		p.calls = calls
	case p.end <= len(p.shown) && blank(p.shown[p.end:]):
		p.calls = append(p.calls, calls...)
	}
	p.end = len(p.shown)
	if invented, _ := oneOf(bytes.TrimSpace(in[n:]), results); invented > 0 {
		return len(in)
	}
	return n
}

// genuine tells whether the calls are meant: neither explained nor thought.
func (p *parser) genuine() bool {
	if p.void {
		return false // a closing tag of thoughts stands behind them
	}
	before, tail := p.shown[:p.before], p.shown[p.end:]
	if !blank(before) && !blank(tail) {
		return false
	}
	lines := strings.Split(strings.ToLower(clean(before)), "\n")
	line := lines[len(lines)-1]
	return !slices.ContainsFunc(examplePhrases, func(s string) bool { return strings.Contains(line, s) })
}
