package textcall

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds the nesting of values.
const maxDepth = 100

// quotes open and close a string; the longer ones stand first. The first is
// Gemma 4's, the second FunctionGemma's; in these two nothing is escaped.
var quotes = []struct {
	mark string
	raw  bool
}{
	{`<|"|>`, true},
	{`<escape>`, true},
	{`"""`, false},
	{`'''`, false},
	{`"`, false},
	{`'`, false},
}

// lexer reads values as models write them and writes them as JSON. It takes
// JSON, what is left of it when a model is careless, and Python's literals:
// single quotes, trailing commas, bare keys, raw line breaks in strings, True
// and None, a backslash before a character that needs none. It never closes
// what was left open at the end of the text: that was cut. Numbers keep their
// digits.
type lexer struct {
	in  []byte
	pos int
	out bytes.Buffer
}

// readValue reads one value at the beginning of in and gives it as compact JSON
// with its length in in, 0 if there is none.
func readValue(in []byte) (json.RawMessage, int) {
	l := lexer{in: in}
	if !l.value(0) {
		return nil, 0
	}
	return l.out.Bytes(), l.pos
}

// space skips white space.
func (l *lexer) space() {
	for l.pos < len(l.in) && isSpace(l.in[l.pos]) {
		l.pos++
	}
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

// peek gives the next byte, 0 at the end.
func (l *lexer) peek() byte {
	if l.pos < len(l.in) {
		return l.in[l.pos]
	}
	return 0
}

// take skips one of the bytes, behind white space.
func (l *lexer) take(b byte) bool {
	l.space()
	if l.peek() != b {
		return false
	}
	l.pos++
	return true
}

func (l *lexer) value(depth int) bool {
	l.space()
	switch c := l.peek(); {
	case depth > maxDepth:
		return false
	case c == '{':
		return l.object(depth)
	case c == '[':
		return l.list(depth)
	case c == '-', c >= '0' && c <= '9':
		return l.number()
	default:
		return l.str() || l.word()
	}
}

// object reads an object. A brace that is missing before the closing tag of the
// call is added: small models forget the last one.
func (l *lexer) object(depth int) bool {
	l.pos++
	l.out.WriteByte('{')
	for n := 0; ; n++ {
		if l.take('}') {
			break
		}
		if n > 0 {
			l.out.WriteByte(',')
		}
		if !l.key() || !l.take(':') {
			return false
		}
		l.out.WriteByte(':')
		if !l.value(depth + 1) {
			return false
		}
		if l.take(',') {
			continue
		}
		if l.take('}') || closing(l.in[l.pos:]) {
			break
		}
		return false
	}
	l.out.WriteByte('}')
	return true
}

// closing tells whether in begins with a closing tag.
func closing(in []byte) bool {
	return bytes.HasPrefix(in, []byte("</")) || closeAt(in) > 0
}

// key reads a string or a bare name.
func (l *lexer) key() bool {
	l.space()
	if l.str() {
		return true
	}
	name := identifier(l.in[l.pos:])
	if name == "" {
		return false
	}
	l.pos += len(name)
	l.text([]byte(name), true)
	return true
}

func (l *lexer) list(depth int) bool {
	l.pos++
	l.out.WriteByte('[')
	for n := 0; !l.take(']'); n++ {
		if n > 0 {
			l.out.WriteByte(',')
		}
		if !l.value(depth + 1) {
			return false
		}
		if l.take(',') {
			continue
		}
		if !l.take(']') {
			return false
		}
		break
	}
	l.out.WriteByte(']')
	return true
}

func (l *lexer) number() bool {
	end := l.pos
	for end < len(l.in) && strings.IndexByte("+-.0123456789eE", l.in[end]) >= 0 {
		end++
	}
	number := l.in[l.pos:end]
	if !json.Valid(number) {
		return false
	}
	l.out.Write(number)
	l.pos = end
	return true
}

// words are the constants of JSON and Python.
var words = map[string]string{"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}

func (l *lexer) word() bool {
	name := identifier(l.in[l.pos:])
	word, ok := words[name]
	if ok {
		l.pos += len(name)
		l.out.WriteString(word)
	}
	return ok
}

// str reads a string in any of the quotes.
func (l *lexer) str() bool {
	for _, q := range quotes {
		rest, ok := bytes.CutPrefix(l.in[l.pos:], []byte(q.mark))
		if !ok {
			continue
		}
		n := endOfString(rest, q.mark, q.raw)
		if n < 0 {
			return false
		}
		l.text(rest[:n], q.raw)
		l.pos += n + 2*len(q.mark)
		return true
	}
	return false
}

// endOfString gives the place of the closing quote, -1 without one.
func endOfString(in []byte, quote string, raw bool) int {
	if raw {
		return bytes.Index(in, []byte(quote))
	}
	for i := 0; i < len(in); i++ {
		switch {
		case in[i] == '\\':
			i++
		case in[i] == quote[0] && bytes.HasPrefix(in[i:], []byte(quote)):
			return i
		}
	}
	return -1
}

// text writes the inside of a string as a JSON string. Escapes of JSON stay as
// they are; a backslash that begins none is one (`\d` in a pattern).
func (l *lexer) text(in []byte, raw bool) {
	const hex = "0123456789abcdef"
	l.out.WriteByte('"')
	for i := 0; i < len(in); i++ {
		c := in[i]
		switch {
		case c == '\\' && !raw && isEscape(in[i+1:]):
			l.out.Write(in[i : i+2])
			i++
		case c == '\\' && !raw && i+1 < len(in) && in[i+1] == '\'': // of Python
		case c == '"', c == '\\':
			l.out.Write([]byte{'\\', c})
		case c == '\n':
			l.out.WriteString(`\n`)
		case c < ' ':
			l.out.WriteString(`\u00`)
			l.out.WriteByte(hex[c>>4])
			l.out.WriteByte(hex[c&15])
		case c < utf8.RuneSelf:
			l.out.WriteByte(c)
		default:
			r, n := utf8.DecodeRune(in[i:])
			l.out.WriteRune(r)
			i += n - 1
		}
	}
	l.out.WriteByte('"')
}

// isEscape tells whether in is what follows the backslash of an escape of JSON.
func isEscape(in []byte) bool {
	if len(in) == 0 {
		return false
	}
	if in[0] == 'u' {
		return len(in) >= 5 && !slices.ContainsFunc(in[1:5], func(b byte) bool {
			return strings.IndexByte("0123456789abcdefABCDEF", b) < 0
		})
	}
	return strings.IndexByte(`"\/bfnrt`, in[0]) >= 0
}

// identifier gives the name that in begins with, "" without one.
func identifier(in []byte) string {
	n := 0
	for n < len(in) && (isLetter(in[n]) || n > 0 && in[n] >= '0' && in[n] <= '9') {
		n++
	}
	return string(in[:n])
}

func isLetter(b byte) bool { return b == '_' || b|0x20 >= 'a' && b|0x20 <= 'z' }

// readArguments reads what stands behind the opening bracket of a Python call,
// with the closing one: keyword arguments, or one dictionary, or one string,
// which is given as such, since only the tool's schema knows its name.
func readArguments(in []byte) (json.RawMessage, int) {
	l := lexer{in: in}
	if l.space(); l.peek() == '*' {
		l.pos = len(in) - len(bytes.TrimLeft(in[l.pos:], "*"))
	}
	start := l.pos
	if l.value(0) && l.take(')') {
		return slices.Clone(l.out.Bytes()), l.pos
	}
	l.pos = start
	l.out.Reset()
	l.out.WriteByte('{')
	for n := 0; !l.take(')'); n++ {
		if n > 0 {
			l.out.WriteByte(',')
		}
		if !l.key() || !l.take('=') {
			return nil, 0
		}
		l.out.WriteByte(':')
		if !l.value(0) {
			return nil, 0
		}
		if !l.take(',') && l.peek() != ')' {
			return nil, 0
		}
	}
	l.out.WriteByte('}')
	return l.out.Bytes(), l.pos
}
