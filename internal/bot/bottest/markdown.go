package bottest

import (
	"strings"
)

// MarkdownV2 and the old Markdown of parse_mode.

var markdownEnds = map[string]string{
	"bold": "*", "italic": "_", "underline": "__", "strikethrough": "~", "spoiler": "||", "code": "`", "pre": "```", "text_link": "]", "custom_emoji": "]",
}

// Names that Telegram's errors use.
var markdownNames = map[string]string{
	"bold": "Bold", "italic": "Italic", "underline": "Underline", "strikethrough": "Strikethrough", "spoiler": "Spoiler", "code": "Code",
	"pre": "Pre", "text_link": "TextUrl", "custom_emoji": "CustomEmoji", "blockquote": "BlockQuote",
}

func (m *markup) markdownV2() error {
	for m.pos < len(m.src) {
		if c := m.src[m.pos]; c == '\\' && m.pos+1 < len(m.src) && m.src[m.pos+1] > 0 && m.src[m.pos+1] <= 126 {
			m.pos++
			m.copyRune()
			continue
		}
		reserved := "_*[]()~`>#+-=|{}.!\n"
		if m.inside("code", "pre") {
			reserved = "`"
		}
		if strings.IndexByte(reserved, m.src[m.pos]) < 0 {
			m.copyRune()
			continue
		}
		var err error
		if m.atMarkdownEnd() {
			err = m.endMarkdown()
		} else {
			err = m.beginMarkdown()
		}
		if err != nil {
			return err
		}
	}
	if m.inside("blockquote") {
		m.pop()
	}
	return m.unclosed()
}

// unclosed is the error for the innermost open entity, if any.
func (m *markup) unclosed() error {
	if len(m.open) == 0 {
		return nil
	}
	e := m.open[len(m.open)-1]
	return wordingf("Can't find end of %s entity at byte offset %d", markdownNames[e.Type], e.begin)
}

func (m *markup) quoted() bool {
	for _, e := range m.open {
		if e.Type == "blockquote" {
			return true
		}
	}
	return false
}

func (m *markup) atMarkdownEnd() bool {
	if len(m.open) == 0 {
		return false
	}
	if m.has("\n") {
		return m.quoted() && !m.has("\n>")
	}
	typ := m.open[len(m.open)-1].Type
	if typ == "italic" && m.has("__") {
		return false
	}
	end := markdownEnds[typ]
	return end != "" && m.has(end)
}

func (m *markup) endMarkdown() error {
	e := &m.open[len(m.open)-1]
	if m.has("\n") {
		if e.Type != "blockquote" {
			return m.unclosed()
		}
		m.copyRune() // the quote keeps its last line feed
		m.pop()
		return nil
	}
	m.pos += len(markdownEnds[e.Type])
	switch e.Type {
	case "text_link":
		e.URL = m.out.String()[e.text:]
		if m.has("(") {
			url, err := m.target("a URL")
			if err != nil {
				return err
			}
			e.URL = url
		}
	case "custom_emoji":
		if !m.has("(") {
			return wordingf("Custom emoji entity must contain a tg://emoji URL")
		}
		url, err := m.target("a custom emoji URL")
		if err != nil {
			return err
		}
		e.CustomEmojiID = strings.TrimPrefix(url, "tg://emoji?id=")
	}
	m.pop()
	return nil
}

// target reads "(url)", in which a backslash escapes.
func (m *markup) target(what string) (string, error) {
	m.pos++
	begin := m.pos
	var url strings.Builder
	for m.pos < len(m.src) && m.src[m.pos] != ')' {
		if m.src[m.pos] == '\\' && m.pos+1 < len(m.src) && m.src[m.pos+1] <= 126 {
			m.pos++
		}
		url.WriteByte(m.src[m.pos])
		m.pos++
	}
	if m.pos >= len(m.src) {
		return "", wordingf("Can't find end of %s at byte offset %d", what, begin)
	}
	m.pos++
	return url.String(), nil
}

func (m *markup) beginMarkdown() error {
	e := openEntity{begin: m.pos}
	if m.has("\n") {
		m.copyRune()
		if m.has(">") {
			e.begin = m.pos
			m.pos++
			if !m.quoted() {
				e.Type = "blockquote"
				m.push(e)
			}
		}
		return nil
	}
	if m.pos == 0 && m.has(">") {
		m.pos++
		e.Type = "blockquote"
		m.push(e)
		return nil
	}
	for _, t := range []struct{ token, typ string }{
		{"```", "pre"}, {"`", "code"}, {"__", "underline"}, {"_", "italic"}, {"*", "bold"}, {"~", "strikethrough"},
		{"||", "spoiler"}, {"![", "custom_emoji"}, {"[", "text_link"},
	} {
		if !m.has(t.token) {
			continue
		}
		m.pos += len(t.token)
		e.Type = t.typ
		if t.typ == "pre" {
			e.Language = m.fenceLanguage()
		}
		m.push(e)
		return nil
	}
	return wordingf("Character '%c' is reserved and must be escaped with the preceding '\\'", m.src[m.pos])
}

// fenceLanguage reads the language after ``` and one line end.
func (m *markup) fenceLanguage() string {
	begin := m.pos
	language := m.until(" \t\r\n`")
	if m.pos >= len(m.src) || m.src[m.pos] == '`' {
		m.pos, language = begin, ""
	}
	for _, lineEnd := range []string{"\r\n", "\n\r", "\n", "\r"} {
		if m.has(lineEnd) {
			m.pos += len(lineEnd)
			break
		}
	}
	return language
}

// markdown is the old mode: nothing nests, a backslash escapes _*`[.
func (m *markup) markdown() error {
	for m.pos < len(m.src) {
		begin := m.pos
		if m.src[begin] == '\\' && begin+1 < len(m.src) && strings.IndexByte("_*`[", m.src[begin+1]) >= 0 {
			m.pos++
			m.copyRune()
			continue
		}
		e := openEntity{begin: begin}
		var end string
		switch {
		case m.has("```"):
			m.pos += 3
			e.Type, end, e.Language = "pre", "```", m.fenceLanguage()
		case m.has("`"):
			m.pos++
			e.Type, end = "code", "`"
		case m.has("*"):
			m.pos++
			e.Type, end = "bold", "*"
		case m.has("_"):
			m.pos++
			e.Type, end = "italic", "_"
		case m.has("["):
			m.pos++
			e.Type, end = "text_link", "]"
		default:
			m.copyRune()
			continue
		}
		m.push(e)
		for m.pos < len(m.src) && !m.has(end) {
			m.copyRune()
		}
		if m.pos >= len(m.src) {
			return wordingf("Can't find end of the entity starting at byte offset %d", begin)
		}
		m.pos += len(end)
		if e.Type == "text_link" && m.has("(") {
			url, err := m.target("a URL")
			if err != nil {
				return err
			}
			m.open[len(m.open)-1].URL = url
		}
		m.pop()
	}
	return nil
}
