package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// cut gives where the part that begins at start ends, so that neither its text
// nor its plain text is longer than limit. The second half of what fits is
// searched for the best boundary first, so that parts are not needlessly short.
func (d *document) cut(start, limit int) int {
	most := d.reach(start, limit, true)
	if most == len(d.text) {
		return most
	}
	first, _ := trimSpace(d.text, start, most) // a boundary before it would give a blank part
	for _, least := range [...]int{max(first, start+(most-start)/2), first} {
		for _, boundary := range [...]func(least, most int) int{d.blockEnd, d.lineEnd, d.sentenceEnd, d.wordEnd} {
			if at := boundary(least, most); at > 0 {
				return at
			}
		}
	}
	return d.graphemeEnd(start, most)
}

// shorten gives where the text that begins at start ends when it must not be
// longer than limit: at a word's end if one is near.
func (d *document) shorten(start, limit int) int {
	const near = 64
	most := d.reach(start, limit, false)
	if at := d.wordEnd(max(start, most-near), most); at > start {
		return at
	}
	return d.graphemeEnd(start, most)
}

// reach gives the farthest end of a stretch from start of at most limit UTF-16
// units and MaxEntities styles (see Split); with plain, its plain text keeps the
// limit too. It covers at least one rune.
func (d *document) reach(start, limit int, plain bool) int {
	var (
		units, extra int // of the text; what plain text has more
		styles       int
		label        span // the link that is being passed
	)
	enter := func(s span) {
		styles++
		switch s.style {
		case fence:
			extra += Units(openFence(s, start, limit/4)) + Units(closeFence)
		case link:
			label = s
		}
	}
	spans := d.spans
	for ; len(spans) > 0 && spans[0].start < start; spans = spans[1:] {
		if spans[0].end > start {
			enter(spans[0])
		}
	}
	for at := start; at < len(d.text); {
		for ; len(spans) > 0 && spans[0].start <= at; spans = spans[1:] {
			enter(spans[0])
		}
		if styles > MaxEntities && units >= limit/4 {
			return at
		}
		r, size := utf8.DecodeRuneInString(d.text[at:])
		units += runeUnits(r)
		if label.end > 0 && label.end <= at+size {
			extra += Units(d.shownTarget(label))
			label = span{}
		}
		if at > start && (units > limit || plain && units+extra > limit) {
			return at
		}
		at += size
	}
	return len(d.text)
}

// blockEnd gives the last end of a block after least and up to most, 0 for none.
func (d *document) blockEnd(least, most int) int {
	for i := len(d.breaks) - 1; i >= 0 && d.breaks[i] > least; i-- {
		if d.breaks[i] <= most {
			return d.breaks[i]
		}
	}
	return 0
}

// lineEnd is blockEnd for lines.
func (d *document) lineEnd(least, most int) int {
	if i := strings.LastIndexByte(d.text[least:most+1], '\n'); i > 0 {
		return least + i
	}
	return 0
}

// sentenceEnd is blockEnd for sentences. A number's point ends none: it may be
// the marker of a list item.
func (d *document) sentenceEnd(least, most int) int {
	for at := most; at > least; at-- {
		before := d.text[:at]
		if strings.HasSuffix(before, "。") || strings.HasSuffix(before, "！") || strings.HasSuffix(before, "？") {
			return at
		}
		if d.text[at] != ' ' || !strings.ContainsRune(".!?", rune(before[at-1])) || at < 2 || before[at-2] >= '0' && before[at-2] <= '9' {
			continue
		}
		if !d.monospace(at) {
			return at
		}
	}
	return 0
}

// wordEnd is blockEnd for words.
func (d *document) wordEnd(least, most int) int {
	for at := most; at > least; at-- {
		if r, _ := utf8.DecodeRuneInString(d.text[at:]); unicode.IsSpace(r) && r != '\u00A0' {
			return at
		}
	}
	return 0
}

// graphemeEnd gives the last end of a whole grapheme between start and most; most
// when one grapheme is all that would fit.
func (d *document) graphemeEnd(start, most int) int {
	at, rest, state := start, d.text[start:], -1
	for rest != "" {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if at+len(cluster) > most {
			break
		}
		at += len(cluster)
	}
	if at == start {
		return most
	}
	return at
}

// trim moves start and end inwards over white space, which Telegram would remove
// itself, moving the offsets. Code keeps the indentation of its first line: up to
// the first entity Telegram removes nothing (TDLib, fix_formatted_text).
func (d *document) trim(start, end int) (int, int) {
	first, end := trimSpace(d.text, start, end)
	if s, ok := d.block(first); ok && first < end {
		line := strings.LastIndexByte(d.text[:first], '\n') + 1
		first = max(start, s.start, line)
	}
	return first, end
}

// monospace tells whether the byte at a position stands in a monospace block.
func (d *document) monospace(at int) bool {
	_, ok := d.block(at)
	return ok
}

// block gives the monospace block around a position.
func (d *document) block(at int) (span, bool) {
	for _, s := range d.spans {
		if s.start > at {
			break
		}
		if s.style >= fence && at < s.end {
			return s, true
		}
	}
	return span{}, false
}
