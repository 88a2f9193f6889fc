package bottest

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// parseMarkup turns a text with parse_mode html, markdownv2 or markdown into
// plain text and entities. Its errors are Telegram's, to be prefixed with
// "can't parse entities: ". Byte offsets are those of src.
func parseMarkup(mode, src string) (richText, error) {
	m := &markup{src: src}
	var err error
	switch mode {
	case "html":
		err = m.html()
	case "markdownv2":
		err = m.markdownV2()
	default:
		err = m.markdown()
	}
	if err != nil {
		return richText{}, err
	}
	slices.SortStableFunc(m.entities, byPosition)
	return richText{text: m.out.String(), entities: m.entities}, nil
}

// markup is a parser's state: what was read, what was written, what is open.
type markup struct {
	src      string
	pos      int
	out      strings.Builder
	at       int // UTF-16 length of out
	open     []openEntity
	entities []Entity
}

type openEntity struct {
	Entity
	name  string // HTML tag
	begin int    // byte offset in src
	text  int    // byte offset in out
}

func (m *markup) write(r rune) {
	m.out.WriteRune(r)
	m.at += utf16.RuneLen(r)
}

// copyRune copies one character from src to out.
func (m *markup) copyRune() {
	r, n := utf8.DecodeRuneInString(m.src[m.pos:])
	m.pos += n
	m.write(r)
}

func (m *markup) push(e openEntity) {
	e.Offset, e.text = m.at, m.out.Len()
	m.open = append(m.open, e)
}

// pop closes the innermost entity; empty ones and links without target leave
// no trace.
func (m *markup) pop() openEntity {
	e := m.open[len(m.open)-1]
	m.open = m.open[:len(m.open)-1]
	e.Length = m.at - e.Offset
	if e.Length > 0 && e.Type != "" && (e.Type != "text_link" || isLink(e.URL)) {
		m.entities = append(m.entities, e.Entity)
	}
	return e
}

func (m *markup) has(prefix string) bool { return strings.HasPrefix(m.src[m.pos:], prefix) }

func (m *markup) inside(types ...string) bool {
	return len(m.open) > 0 && slices.Contains(types, m.open[len(m.open)-1].Type)
}

// HTML

var htmlTags = map[string]string{
	"b": "bold", "strong": "bold", "i": "italic", "em": "italic", "u": "underline", "ins": "underline",
	"s": "strikethrough", "strike": "strikethrough", "del": "strikethrough", "tg-spoiler": "spoiler", "span": "spoiler",
	"a": "text_link", "code": "code", "pre": "pre", "blockquote": "blockquote", "tg-emoji": "custom_emoji", "tg-time": "date_time",
}

func (m *markup) html() error {
	for m.pos < len(m.src) {
		var err error
		switch {
		case m.has("</"):
			err = m.endTag()
		case m.has("<"):
			err = m.startTag()
		case m.has("&"):
			m.reference()
		default:
			m.copyRune()
		}
		if err != nil {
			return err
		}
	}
	if n := len(m.open); n > 0 {
		return wordingf("Can't find end tag corresponding to start tag %q", m.open[n-1].name)
	}
	return nil
}

// reference copies a character reference; Telegram knows the numeric ones and
// lt, gt, amp, quot, all else stays as it is.
func (m *markup) reference() {
	rest := m.src[m.pos:]
	if end := strings.IndexByte(rest, ';'); end > 0 && end < 12 {
		name := rest[1:end]
		if strings.HasPrefix(name, "#") || slices.Contains([]string{"lt", "gt", "amp", "quot"}, name) {
			if text := html.UnescapeString(rest[:end+1]); text != rest[:end+1] {
				m.pos += end + 1
				for _, r := range text {
					m.write(r)
				}
				return
			}
		}
	}
	m.copyRune()
}

func (m *markup) startTag() error {
	begin := m.pos
	length := strings.IndexAny(m.src[begin:], " \t\n>")
	if length < 0 {
		return wordingf("Unclosed start tag at byte offset %d", begin)
	}
	name := strings.ToLower(m.src[begin+1 : begin+length])
	typ, ok := htmlTags[name]
	if !ok {
		return wordingf("Unsupported start tag %q at byte offset %d", name, begin)
	}
	m.pos += length
	attrs, err := m.attributes(name, begin)
	if err != nil {
		return err
	}
	e := openEntity{Entity: Entity{Type: typ}, name: name, begin: begin}
	switch name {
	case "span":
		if attrs["class"] != "tg-spoiler" {
			return wordingf("Tag %q must have class %q at byte offset %d", "span", "tg-spoiler", begin)
		}
	case "a":
		e.URL = attrs["href"]
	case "code":
		e.Language = strings.TrimPrefix(attrs["class"], "language-")
	case "blockquote":
		if _, ok := attrs["expandable"]; ok {
			e.Type = "expandable_blockquote"
		}
	case "tg-emoji":
		e.CustomEmojiID = attrs["emoji-id"]
	}
	m.push(e)
	return nil
}

// attributes reads up to and over the closing ">".
func (m *markup) attributes(tag string, begin int) (map[string]string, error) {
	attrs := map[string]string{}
	for {
		m.skip(" \t\n")
		if m.pos >= len(m.src) {
			return nil, wordingf("Unclosed start tag %q at byte offset %d", tag, begin)
		}
		if m.has(">") {
			m.pos++
			return attrs, nil
		}
		name := strings.ToLower(m.until(" \t\n=>"))
		if name == "" {
			return nil, wordingf("Empty attribute name in the tag %q at byte offset %d", tag, begin)
		}
		m.skip(" \t\n")
		if !m.has("=") {
			attrs[name] = ""
			continue
		}
		m.pos++
		m.skip(" \t\n")
		value, err := m.attributeValue(tag, begin)
		if err != nil {
			return nil, err
		}
		attrs[name] = value
	}
}

func (m *markup) attributeValue(tag string, begin int) (string, error) {
	if m.pos >= len(m.src) {
		return "", wordingf("Unclosed start tag %q at byte offset %d", tag, begin)
	}
	if quote := m.src[m.pos : m.pos+1]; quote == `"` || quote == "'" {
		m.pos++
		value := m.until(quote)
		m.pos++
		if m.pos >= len(m.src) {
			return "", wordingf("Unclosed start tag at byte offset %d", begin)
		}
		return html.UnescapeString(value), nil
	}
	tokenBegin := m.pos
	for m.pos < len(m.src) && (isAlnum(m.src[m.pos]) || strings.IndexByte(".-", m.src[m.pos]) >= 0) {
		m.pos++
	}
	if m.pos >= len(m.src) || strings.IndexByte(" \t\n>", m.src[m.pos]) < 0 {
		return "", wordingf("Unexpected end of name token at byte offset %d", tokenBegin)
	}
	return strings.ToLower(m.src[tokenBegin:m.pos]), nil
}

func (m *markup) endTag() error {
	begin := m.pos
	if len(m.open) == 0 {
		return wordingf("Unexpected end tag at byte offset %d", begin)
	}
	m.pos += 2
	name := strings.ToLower(m.until(" \t\n>"))
	m.skip(" \t\n")
	if !m.has(">") {
		return wordingf("Unclosed end tag at byte offset %d", begin)
	}
	m.pos++
	if want := m.open[len(m.open)-1].name; name != "" && name != want {
		return wordingf("Unmatched end tag at byte offset %d, expected \"</%s>\", found \"</%s>\"", begin, want, name)
	}
	e := m.pop()
	m.mergeCode(e)
	return nil
}

// mergeCode makes one pre of <pre><code class="language-x">; code elsewhere
// has no language.
func (m *markup) mergeCode(e openEntity) {
	n := len(m.entities)
	switch {
	case e.Type == "code" && n > 0 && m.entities[n-1].Type == "code" && !m.inside("pre"):
		m.entities[n-1].Language = ""
	case e.Type == "pre" && n > 1 && m.entities[n-2].Type == "code" && m.entities[n-2].Offset == e.Offset && m.entities[n-2].Length == e.Length:
		e.Language = m.entities[n-2].Language
		m.entities = append(m.entities[:n-2], e.Entity)
	}
}

func (m *markup) skip(chars string) {
	for m.pos < len(m.src) && strings.IndexByte(chars, m.src[m.pos]) >= 0 {
		m.pos++
	}
}

// until reads up to one of chars, or to the end.
func (m *markup) until(chars string) string {
	begin := m.pos
	for m.pos < len(m.src) && strings.IndexByte(chars, m.src[m.pos]) < 0 {
		m.pos++
	}
	return m.src[begin:m.pos]
}

func isAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// wording is an error in Telegram's own words, which begin with a capital.
type wording string

func (e wording) Error() string { return string(e) }

func wordingf(format string, a ...any) error { return wording(fmt.Sprintf(format, a...)) }
