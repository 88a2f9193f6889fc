package bot

import (
	"strings"

	"agentd/internal/agent/textcall"
)

// filter decides, as an answer streams in, how much of it may be shown: no
// thoughts, no secrets, and nothing that may still become one of them or a tool
// call that the model wrote as text. What was shown once stays the beginning of
// what is shown later; the one exception is a thought that came without its
// opening tag, see textcall.Filter.
type filter struct {
	text textcall.Filter
	out  redactor
}

// newFilter returns a filter that redacts the given secrets; empty ones are ignored.
func newFilter(secrets []string) *filter { return &filter{out: newRedactor(secrets)} }

// add takes the next piece of the answer, in whole runes.
func (f *filter) add(text string) { f.put(f.text.Add(text)) }

// shown gives what may be shown so far, without white space around it.
func (f *filter) shown() string { return strings.TrimSpace(f.out.String()) }

// end gives what is shown of the finished answer. Calls are not held back any
// more: whether there are any, the loop has found out.
func (f *filter) end() string {
	f.put(f.text.End())
	f.out.end()
	return f.shown()
}

func (f *filter) put(text string, void bool) {
	if void {
		f.out.reset()
	}
	f.out.write([]byte(text))
}
