package markdown

import (
	"slices"
	"strings"
)

// builder collects text and spans in reading order. White space between blocks
// is owed until something follows it, so a document neither begins nor ends with
// any.
type builder struct {
	buf    []byte
	spans  []span
	open   []span // outermost first; start is -1 while nothing is written in it
	breaks []int

	gap    int    // line ends owed before the next text
	keep   bool   // the gap is no place to cut: a heading stands before it
	indent string // stands before each line of the list item being written
}

// separate asks for at least n line ends before the next text.
func (b *builder) separate(n int) {
	b.gap = max(b.gap, n)
}

// begin pays the owed line ends and starts the open spans that have no text yet.
func (b *builder) begin(indent string) {
	if b.gap > 0 && len(b.buf) > 0 {
		if b.gap > 1 && !b.keep {
			b.breaks = append(b.breaks, len(b.buf))
		}
		b.buf = append(b.buf, "\n\n"[:b.gap]...)
		b.buf = append(b.buf, indent...)
	}
	b.gap, b.keep = 0, false
	for i := len(b.open) - 1; i >= 0 && b.open[i].start < 0; i-- {
		b.open[i].start = len(b.buf)
	}
}

// write adds text.
func (b *builder) write(s string) {
	if s != "" {
		b.begin(b.indent)
		b.buf = append(b.buf, s...)
	}
}

// newline ends a line inside a block.
func (b *builder) newline() {
	b.write("\n")
	b.buf = append(b.buf, b.indent...)
}

// styled gives what write adds a style. The same style within itself counts once,
// and a link holds no other link.
func (b *builder) styled(st style, target string, write func()) {
	if b.within(st) {
		write()
		return
	}
	b.open = append(b.open, span{start: -1, style: st, target: target})
	write()
	last := len(b.open) - 1
	b.close(b.open[last])
	b.open = b.open[:last]
}

func (b *builder) within(st style) bool {
	return slices.ContainsFunc(b.open, func(s span) bool { return s.style == st })
}

// close ends a span here.
func (b *builder) close(s span) {
	if s.start < 0 {
		return
	}
	if s.style == quote { // trimmed when cut: it may begin with code
		s.end = len(b.buf)
		b.spans = append(b.spans, s)
		return
	}
	text := string(b.buf[s.start:])
	if start, end := trimSpace(text, 0, len(text)); start < end {
		s.start, s.end = s.start+start, s.start+end
		b.spans = append(b.spans, s)
	}
}

// code adds inline code. Telegram lets code stand in no other style, so styles
// end before it and go on after it; in a link it is text, since the target is
// worth more than the font.
func (b *builder) code(s string) {
	if b.within(link) || strings.TrimSpace(s) == "" {
		b.write(s)
		return
	}
	b.begin(b.indent)
	for i := range b.open {
		if b.open[i].style != quote {
			b.close(b.open[i])
			b.open[i].start = -1
		}
	}
	start, end := trimSpace(s, 0, len(s))
	at := len(b.buf)
	b.buf = append(b.buf, s...)
	b.spans = append(b.spans, span{start: at + start, end: at + end, style: code})
}

// block adds a monospace block on lines of its own, without indentation.
func (b *builder) block(st style, s, language string) {
	if strings.TrimSpace(s) == "" {
		return
	}
	b.separate(1)
	b.begin("")
	start := len(b.buf)
	b.buf = append(b.buf, s...)
	b.spans = append(b.spans, span{start: start, end: len(b.buf), style: st, target: language})
	b.separate(1)
}

// document gives what has been written.
func (b *builder) document() document {
	slices.SortStableFunc(b.spans, compareSpans)
	return document{text: string(b.buf), spans: b.spans, breaks: b.breaks}
}
