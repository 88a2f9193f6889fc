package markdown

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/util"
)

// clean makes any bytes fit to be sent: valid UTF-8, one kind of line end, no
// control characters and no characters that turn the direction of the text
// around (they can make a link or a file name look like another one).
func clean(source string) string {
	source = strings.ToValidUTF8(source, "\uFFFD")
	if strings.Contains(source, "\r") {
		source = strings.ReplaceAll(source, "\r\n", "\n")
		source = strings.ReplaceAll(source, "\r", "\n")
	}
	return strings.Map(cleanRune, source)
}

// cleanRune gives the rune that stands for r, -1 for none.
func cleanRune(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case r == 0x2028 || r == 0x2029: // line and paragraph separator, which Telegram removes
		return '\n'
	case r < 0x20, r >= 0x7F && r <= 0x9F:
		return -1
	case r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069, r == 0xFEFF:
		return -1
	}
	return r
}

// visible tells whether s shows anything. Telegram refuses a message without
// ("message text is empty"); the odd characters are those it counts as empty.
func visible(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		switch r {
		case 0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0, 0xFFFC: // Hangul fillers, blank Braille, object replacement
			return false
		}
		return !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Mn, r)
	})
}

// trimSpace moves start and end inwards over the white space of text.
func trimSpace(text string, start, end int) (int, int) {
	s := strings.TrimLeftFunc(text[start:end], unicode.IsSpace)
	start = end - len(s)
	return start, start + len(strings.TrimRightFunc(s, unicode.IsSpace))
}

// unescape resolves Markdown's backslash escapes and HTML's character references.
func unescape(b []byte) string {
	var out strings.Builder
	out.Grow(len(b))
	for i := 0; i < len(b); {
		switch {
		case b[i] == '\\' && i+1 < len(b) && util.IsPunct(b[i+1]):
			out.WriteByte(b[i+1])
			i += 2
			continue
		case b[i] == '&':
			if s, n := reference(b[i:]); n > 0 {
				out.WriteString(strings.Map(cleanRune, s))
				i += n
				continue
			}
		}
		out.WriteByte(b[i])
		i++
	}
	return out.String()
}

// reference decodes the character reference that b begins with and gives its
// length in bytes, 0 when b begins with none.
func reference(b []byte) (string, int) {
	const longest = 33 // "&CounterClockwiseContourIntegral;"
	end := bytes.IndexByte(b[:min(len(b), longest)], ';')
	if end < 2 {
		return "", 0
	}
	name := string(b[1:end])
	if name[0] != '#' {
		entity, ok := util.LookUpHTML5EntityByName(name)
		if !ok {
			return "", 0
		}
		return string(entity.Characters), end + 1
	}
	decoded := util.ResolveNumericReferences(b[:end+1])
	if len(decoded) > end { // left as it was: no number
		return "", 0
	}
	return string(decoded), end + 1
}
