package markdown

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// newParser gives CommonMark with GFM's strikethrough, tables and task boxes,
// changed where models write what CommonMark would lose or leave raw: HTML blocks
// are ordinary text, so that Markdown between tags works; definitions of
// footnotes are no link references; math is read before its _ and * could be
// styles; and styleParser and tableTransformer say what they do otherwise.
func newParser() parser.Parser {
	return parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(parser.NewSetextHeadingParser(), 100),
			util.Prioritized(parser.NewThematicBreakParser(), 200),
			util.Prioritized(parser.NewListParser(), 300),
			util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500),
			util.Prioritized(parser.NewATXHeadingParser(), 600),
			util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(mathBlockParser{}, 750),
			util.Prioritized(parser.NewBlockquoteParser(), 800),
			util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(
			util.Prioritized(mathParser{}, 50),
			util.Prioritized(parser.NewCodeSpanParser(), 100),
			util.Prioritized(extension.NewTaskCheckBoxParser(), 110),
			util.Prioritized(footnoteParser{}, 150),
			util.Prioritized(parser.NewLinkParser(), 200),
			util.Prioritized(parser.NewAutoLinkParser(), 300),
			util.Prioritized(parser.NewRawHTMLParser(), 400),
			util.Prioritized(styleParser{}, 500),
		),
		parser.WithParagraphTransformers(
			util.Prioritized(referenceTransformer{}, 100),
			util.Prioritized(tableTransformer{}, 200),
		),
	)
}

// styleParser reads *, _ and ~~ as goldmark's own parsers do, but for
//   - a single ~, and the stars of products (2*3*4, x**2) and file patterns
//     (src/**/*_test.go, *.md), which stay;
//   - markers inside a bare URL, and names such as __init__, which stay;
//   - ** after punctuation and before a letter (**Note:**text), which closes;
//   - Chinese, Japanese and Korean, which have no spaces for CommonMark's rules to
//     go by (**重点：**说明).
type styleParser struct{}

func (styleParser) Trigger() []byte { return []byte{'*', '_', '~'} }

func (styleParser) Parse(_ ast.Node, block text.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, segment := block.PeekLine()
	d := parser.ScanDelimiter(line, before, 1, styleProcessor(line[0]))
	if d == nil {
		return nil
	}
	n := d.OriginalLength
	after := ' '
	if n < len(line) {
		after, _ = utf8.DecodeRune(line[n:])
	}
	switch {
	case d.Char == '~' && n != 2,
		d.Char == '*' && (isFactor(before, after, n) || before == '/' && !isWord(after)),
		d.Char == '_' && n == 2 && isDunder(block.Source(), segment.Start),
		(d.Char != '*' || n < 2) && inURL(block.Source(), segment.Start):
		d.CanOpen, d.CanClose = false, false
	case d.Char == '*':
		d.CanOpen = (d.CanOpen || isCJK(before) && !util.IsSpaceRune(after)) && after != '/' && (after != '.' || n > 1)
		d.CanClose = d.CanClose || isCJK(after) && !util.IsSpaceRune(before) ||
			n >= 2 && util.IsPunctRune(before) && (unicode.IsLetter(after) || unicode.IsDigit(after))
	}
	d.Segment = segment.WithStop(segment.Start + n)
	block.Advance(n)
	pc.PushDelimiter(d)
	return d
}

// styleProcessor is the marker whose pairs it turns into nodes.
type styleProcessor byte

func (p styleProcessor) IsDelimiter(b byte) bool { return b == byte(p) }

func (p styleProcessor) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	return opener.Char == closer.Char
}

func (p styleProcessor) OnMatch(length int) ast.Node {
	if p == '~' {
		return extast.NewStrikethrough()
	}
	return ast.NewEmphasis(length)
}

// isFactor tells whether n stars between these characters multiply.
func isFactor(before, after rune, n int) bool {
	word := func(r rune) bool { return r < utf8.RuneSelf && util.IsAlphaNumeric(byte(r)) }
	digit := func(r rune) bool { return r >= '0' && r <= '9' }
	return word(before) && word(after) && (n == 1 || digit(before) || digit(after))
}

func isCJK(r rune) bool {
	return r >= 0x2E80 && r <= 0xD7FF || r >= 0xFF00 && r <= 0xFFEF || r >= 0x20000 && r <= 0x3FFFF
}

// isDunder tells whether the two underscores at a position stand before or after
// one of Python's special names; other words between two underscores are bold.
func isDunder(source []byte, at int) bool {
	const longest = 12
	before := string(source[max(0, at-longest):at])
	after := string(source[at+2 : min(at+2+longest, len(source))])
	following, _, closed := strings.Cut(after, "__")
	if closed && isSpecialName(following) {
		return true
	}
	open := strings.LastIndex(before, "__")
	return open >= 0 && isSpecialName(before[open+2:])
}

func isSpecialName(name string) bool {
	switch name {
	case "init", "main", "name", "file", "doc", "dict", "class", "str", "repr", "call", "len", "all",
		"enter", "exit", "new", "del", "getitem", "setitem", "getattr", "iter", "next", "eq", "hash",
		"version", "slots", "future", "import", "pycache":
		return true
	}
	return false
}

// inURL tells whether the marker at a position is part of a bare URL. Punctuation
// at a URL's end is not part of it.
func inURL(source []byte, at int) bool {
	const longest = 1024
	first := max(0, at-longest)
	token := source[first:at]
	if i := bytes.LastIndexAny(token, " \t\n<"); i >= 0 {
		token = token[i+1:]
	}
	if !bytes.Contains(token, []byte("://")) && !bytes.Contains(token, []byte("www.")) {
		return false
	}
	end := at
	for end < len(source) && source[end] > ' ' && source[end] < utf8.RuneSelf && source[end] != '<' {
		end++
	}
	return len(bytes.TrimRight(source[at:end], `?!.,:;*_~'")]`)) > 0
}

// footnoteParser reads [^1] as [1]. Footnotes stand where the model wrote them.
type footnoteParser struct{}

func (footnoteParser) Trigger() []byte { return []byte{'['} }

func (footnoteParser) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	line, _ := block.PeekLine()
	end := bytes.IndexByte(line, ']')
	if end < 3 || line[1] != '^' || bytes.ContainsAny(line[:end], " \t") {
		return nil
	}
	block.Advance(end + 1)
	return ast.NewString(append([]byte{'['}, line[2:end+1]...))
}

// referenceTransformer takes link reference definitions out of paragraphs, but
// not those of footnotes, which look the same ("[^1]: word").
type referenceTransformer struct{}

func (referenceTransformer) Transform(node *ast.Paragraph, reader text.Reader, pc parser.Context) {
	first := node.Lines().At(0)
	if bytes.HasPrefix(bytes.TrimLeft(first.Value(reader.Source()), " "), []byte("[^")) {
		return
	}
	parser.LinkReferenceParagraphTransformer.Transform(node, reader, pc)
}
