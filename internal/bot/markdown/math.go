package markdown

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// mathInline is LaTeX in a line of text.
type mathInline struct {
	ast.BaseInline
	tex string
}

var kindMathInline = ast.NewNodeKind("MathInline")

func (*mathInline) Kind() ast.NodeKind              { return kindMathInline }
func (m *mathInline) Dump(source []byte, level int) { ast.DumpHelper(m, source, level, nil, nil) }

// mathParser reads $…$, $$…$$, \(…\) and \[…\] within one line. As in Pandoc, $
// must stand against its content and no letter or digit outside, so that amounts
// of money and shell variables stay text.
type mathParser struct{}

func (mathParser) Trigger() []byte { return []byte{'$', '\\'} }

func (mathParser) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	line, _ := block.PeekLine()
	open, closer := mathFence(line)
	if open == 0 {
		if line[0] != '$' || isWord(block.PrecendingCharacter()) {
			return nil
		}
		open, closer = 1, "$"
	}
	length := bytes.Index(line[open:], []byte(closer))
	if length < 1 {
		return nil
	}
	tex := string(line[open : open+length])
	end := open + length + len(closer)
	if closer == "$" && !dollarMath(tex, line[end:]) {
		return nil
	}
	tex = strings.TrimSpace(tex)
	if !looksMath(tex) || closer == `\]` && !hasOperator(tex) { // \[1\] and \[x\] are escaped brackets
		return nil
	}
	block.Advance(end)
	return &mathInline{tex: tex}
}

// mathFence gives the length of the two-character opener that a line begins with
// and the closer that belongs to it.
func mathFence(line []byte) (int, string) {
	switch {
	case bytes.HasPrefix(line, []byte("$$")):
		return 2, "$$"
	case bytes.HasPrefix(line, []byte(`\(`)):
		return 2, `\)`
	case bytes.HasPrefix(line, []byte(`\[`)):
		return 2, `\]`
	}
	return 0, ""
}

// dollarMath tells whether what stands between two dollars is math, given what follows.
func dollarMath(tex string, rest []byte) bool {
	next, _ := utf8.DecodeRune(rest)
	if strings.TrimSpace(tex) != tex || len(rest) > 0 && (isWord(next) || next == '$') {
		return false
	}
	amount := tex[0] >= '0' && tex[0] <= '9' && strings.Contains(tex, " ")
	return !amount || strings.ContainsAny(tex, `\^_=`)
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// looksMath tells a formula from words in brackets: it has an operator, or no
// word of more than two letters.
func looksMath(tex string) bool {
	if hasOperator(tex) {
		return true
	}
	letters := 0
	for _, r := range tex {
		if !unicode.IsLetter(r) {
			letters = 0
			continue
		}
		if letters++; letters > 2 {
			return false
		}
	}
	return tex != ""
}

func hasOperator(tex string) bool { return strings.ContainsAny(tex, `\^_=+<>{|*/`) }

// mathBlock is LaTeX on lines of its own.
type mathBlock struct {
	ast.BaseBlock
	closer string
	tex    string
	closed bool
}

var kindMathBlock = ast.NewNodeKind("MathBlock")

func (*mathBlock) Kind() ast.NodeKind              { return kindMathBlock }
func (*mathBlock) IsRaw() bool                     { return true }
func (m *mathBlock) Dump(source []byte, level int) { ast.DumpHelper(m, source, level, nil, nil) }

// mathBlockParser reads $$ or \[ at a line's beginning up to the closer at a
// line's end, if that comes before the next blank line.
type mathBlockParser struct{}

func (mathBlockParser) Trigger() []byte { return []byte{'$', '\\'} }

func (mathBlockParser) Open(_ ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	line, segment := reader.PeekLine()
	pos := pc.BlockOffset()
	if pos < 0 {
		return nil, parser.NoChildren
	}
	open, closer := mathFence(line[pos:])
	if open == 0 || closer == `\)` {
		return nil, parser.NoChildren
	}
	first := string(bytes.TrimSpace(line[pos+open:]))
	node := &mathBlock{closer: closer}
	if tex, _, found := strings.Cut(first, closer); found {
		if !strings.HasSuffix(first, closer) || len(tex)+len(closer) != len(first) || tex == "" {
			return nil, parser.NoChildren // text follows: mathParser reads the line
		}
		node.closed = true
		first = tex
	} else if !closesBeforeBlank(reader.Source()[segment.Stop:], closer) {
		return nil, parser.NoChildren
	}
	node.tex = first
	return node, parser.NoChildren
}

// closesBeforeBlank tells whether one of the lines up to the first blank one ends
// with closer. It does not look farther than a formula is long.
func closesBeforeBlank(rest []byte, closer string) bool {
	const longest = 4096
	rest = rest[:min(len(rest), longest)]
	for line := range bytes.Lines(rest) {
		line = bytes.TrimSpace(line)
		if len(bytes.TrimLeft(line, "> ")) == 0 {
			return false
		}
		if bytes.HasSuffix(line, []byte(closer)) {
			return true
		}
	}
	return false
}

func (mathBlockParser) Continue(node ast.Node, reader text.Reader, _ parser.Context) parser.State {
	m := node.(*mathBlock)
	line, _ := reader.PeekLine()
	if m.closed || util.IsBlank(line) {
		return parser.Close
	}
	tex, closed := strings.CutSuffix(strings.TrimSpace(string(line)), m.closer)
	m.tex += "\n" + tex
	reader.AdvanceToEOL()
	if closed {
		m.closed = true
		return parser.Close
	}
	return parser.Continue | parser.NoChildren
}

func (mathBlockParser) Close(ast.Node, text.Reader, parser.Context) {}
func (mathBlockParser) CanInterruptParagraph() bool                 { return true }
func (mathBlockParser) CanAcceptIndentedLine() bool                 { return false }
