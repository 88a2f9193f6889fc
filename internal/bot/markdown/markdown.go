// Package markdown turns a model's CommonMark/GFM into what Telegram shows:
// plain text with entities, cut into messages.
//
// Entities are given instead of a parse mode, so nothing needs escaping and
// Telegram can never answer "can't parse entities". Offsets, lengths and limits
// are in UTF-16 units, as Telegram counts them. The entities keep the rules of
// https://core.telegram.org/bots/api#messageentity: sorted, not empty, without
// white space at their ends (except inside pre), properly nested; code and pre
// hold and stand in nothing but a blockquote.
package markdown

import (
	"slices"
	"strings"

	"github.com/go-telegram/bot/models"
	"github.com/yuin/goldmark/parser"
)

// MaxEntities is how many entities of one message Telegram honours; it ignores
// the rest (https://core.telegram.org/method/messages.sendMessage).
const MaxEntities = 100

// minLimit is the smallest message Split and Preview work with, in UTF-16 units.
// It leaves room for a pair of fences and a link's target beside the text.
const minLimit = 20

// maxTarget is the longest link target, in bytes, that becomes a link; longer
// ones are written out, so that they can be cut like any other text.
const maxTarget = 2048

// maxSource is the longest Markdown, in bytes, that is read as such. A longer text
// is shown as it was written: the parser needs the square of some texts' length
// ("[a](" again and again took minutes), and 16 messages are no chat any more.
const maxSource = 64 << 10

// Text is what one Telegram message shows: plain text and its styles, with
// offsets and lengths in UTF-16 units.
type Text struct {
	Text     string
	Entities []models.MessageEntity
}

// Part is one message of an answer.
type Part struct {
	Text
	// Source is the same stretch for a message without entities, sent when Telegram
	// refuses the Text's. It has the Text's words; code stands in fences, and a
	// link's target follows its label in parentheses. It keeps the same limit.
	Source string
}

// Renderer renders Markdown. It has no state that changes and may be used by
// many goroutines.
type Renderer struct {
	parser parser.Parser
}

// New returns a Renderer.
func New() *Renderer {
	return &Renderer{parser: newParser()}
}

// Render gives the whole source as one Text, however long; for a source that shows
// nothing, an empty one. Only the first MaxEntities styles are kept.
func (r *Renderer) Render(source string) Text {
	d := r.document(source, maxTarget)
	start, end := d.trim(0, len(d.text))
	return d.slice(start, end)
}

// Split renders the source and cuts it into messages of at most limit UTF-16
// units (20 at least; Telegram's is 4096), at good boundaries: between blocks,
// else lines, sentences, words. Styles and code carry over a cut, with the
// language. No part is blank; a source that shows nothing gives none.
//
// A part ends early rather than holding more than MaxEntities, but never below a
// quarter of the limit: what is still too much there loses its style.
func (r *Renderer) Split(source string, limit int) []Part {
	limit = max(limit, minLimit)
	d := r.document(source, min(maxTarget, limit/4))
	var parts []Part
	at, all := d.trim(0, len(d.text))
	for at < all {
		next := min(d.cut(at, limit), all)
		if _, end := d.trim(at, next); visible(d.text[at:end]) {
			parts = append(parts, Part{d.slice(at, end), d.plain(at, end, limit/4)})
		}
		at, _ = d.trim(next, all)
	}
	return parts
}

// Preview renders an answer that is still being written, as one message of at
// most limit UTF-16 units (20 at least). Of a longer one it shows the beginning,
// closed by "…". What the model has opened and not closed yet is shown as far as
// Markdown goes: a fence is code to the end, a lone ** is two stars.
func (r *Renderer) Preview(source string, limit int) Text {
	limit = max(limit, minLimit)
	d := r.document(source, maxTarget)
	start, end := d.trim(0, len(d.text))
	if !visible(d.text[start:end]) {
		return Text{}
	}
	if Units(d.text[start:end]) <= limit {
		return d.slice(start, end)
	}
	start, end = d.trim(start, d.shorten(start, limit-1))
	t := d.slice(start, end)
	t.Text += "…"
	return t
}

// Units gives the length of s in UTF-16 units.
func Units(s string) int {
	n := 0
	for _, r := range s {
		n += runeUnits(r)
	}
	return n
}

func runeUnits(r rune) int {
	if r > 0xFFFF {
		return 2
	}
	return 1
}

// style is the kind of a span. The order is the one in which spans of the same
// stretch nest, outermost first.
type style uint8

const (
	quote style = iota
	bold
	italic
	strike
	link
	code
	fence // code block
	table // aligned monospace
)

func (s style) entityType() models.MessageEntityType {
	switch s {
	case quote:
		return models.MessageEntityTypeBlockquote
	case bold:
		return models.MessageEntityTypeBold
	case italic:
		return models.MessageEntityTypeItalic
	case strike:
		return models.MessageEntityTypeStrikethrough
	case link:
		return models.MessageEntityTypeTextLink
	case code:
		return models.MessageEntityTypeCode
	default:
		return models.MessageEntityTypePre
	}
}

// span is a styled stretch of a document, in bytes.
type span struct {
	start, end int
	style      style
	target     string // a link's URL, a fence's language
}

// document is rendered Markdown of any length.
type document struct {
	text   string
	spans  []span // sorted by start, outermost first
	breaks []int  // ends of blocks that a blank line follows, headings excepted
}

// compareSpans orders spans as Telegram wants its entities.
func compareSpans(a, b span) int {
	switch {
	case a.start != b.start:
		return a.start - b.start
	case a.end != b.end:
		return b.end - a.end
	default:
		return int(a.style) - int(b.style)
	}
}

// slice gives the stretch of the document from start to end, its spans clipped.
func (d *document) slice(start, end int) Text {
	t := Text{Text: d.text[start:end]}
	spans := d.clip(start, end)
	if len(spans) > MaxEntities {
		spans = spans[:MaxEntities]
	}
	at, units := start, 0
	for _, s := range spans {
		units += Units(d.text[at:s.start])
		at = s.start
		e := models.MessageEntity{Type: s.style.entityType(), Offset: units, Length: Units(d.text[s.start:s.end])}
		switch s.style {
		case link:
			e.URL = s.target
		case fence:
			e.Language = s.target
		}
		t.Entities = append(t.Entities, e)
	}
	return t
}

// clip gives what the spans cover between start and end, in order.
func (d *document) clip(start, end int) []span {
	var spans []span
	for _, s := range d.spans {
		if s.start >= end {
			break
		}
		if s.end <= start {
			continue
		}
		s.start, s.end = max(s.start, start), min(s.end, end)
		switch s.style {
		case fence, table:
		case quote: // may begin with code, whose indentation stays
			s.start, s.end = d.trim(s.start, s.end)
		default:
			s.start, s.end = trimSpace(d.text, s.start, s.end)
		}
		if strings.TrimSpace(d.text[s.start:s.end]) != "" {
			spans = append(spans, s)
		}
	}
	slices.SortFunc(spans, compareSpans)
	return spans
}

// plain gives the stretch from start to end without styles: code between fences,
// link targets behind their labels. A language longer than room, in bytes, is
// left out.
func (d *document) plain(start, end, room int) string {
	var b strings.Builder
	at := start
	upTo := func(pos int) {
		if pos > at {
			b.WriteString(d.text[at:pos])
			at = pos
		}
	}
	for _, s := range d.spans {
		switch {
		case s.start >= end || s.end <= start:
		case s.style == fence:
			upTo(s.start)
			b.WriteString(openFence(s, start, room))
			upTo(min(s.end, end))
			b.WriteString(closeFence)
		case s.style == link && s.end <= end:
			if target := d.shownTarget(s); target != "" {
				upTo(s.end)
				b.WriteString(target)
			}
		}
	}
	upTo(end)
	return b.String()
}

const closeFence = "\n```"

// openFence is the line before the code of s in a stretch that begins at start.
// The language stands only where the block begins, so that no word comes twice.
func openFence(s span, start, room int) string {
	if s.start < start || len(s.target) > room {
		return "```\n"
	}
	return "```" + s.target + "\n"
}

// shownTarget is what plain text adds behind the label of a link; nothing when
// the label is the target.
func (d *document) shownTarget(s span) string {
	if d.text[s.start:s.end] == s.target {
		return ""
	}
	return " (" + s.target + ")"
}
