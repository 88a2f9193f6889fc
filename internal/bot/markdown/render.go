package markdown

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// document renders the source. Link targets of more than longest bytes are
// written out, and so is all of a source of more than maxSource.
func (r *Renderer) document(source string, longest int) document {
	source = clean(source)
	if len(source) > maxSource {
		return document{text: strings.ReplaceAll(source, "\t", codeTab)}
	}
	b := []byte(source)
	root := r.parser.Parse(text.NewReader(b))
	w := walker{source: b, longest: longest, used: map[string]bool{}}
	w.references(root)
	w.blocks(root)
	return w.document()
}

// walker writes a syntax tree.
type walker struct {
	builder
	source  []byte
	longest int             // of a link's target, in bytes
	used    map[string]bool // targets of the reference links
	cell    bool            // in a table, where \| in code is a |
}

// references notes the targets that reference links lead to.
func (w *walker) references(n ast.Node) {
	if l, ok := n.(*ast.Link); ok && l.Reference != nil {
		w.used[string(l.Destination)] = true
	}
	if i, ok := n.(*ast.Image); ok && i.Reference != nil {
		w.used[string(i.Destination)] = true
	}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		w.references(c)
	}
}

// blocks writes the blocks in n. Blank lines are those of the source, but a heading
// has one before it and, if it is of level 1 or 2, after it.
func (w *walker) blocks(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if before := c.PreviousSibling(); before != nil {
			gap := 1
			if c.HasBlankPreviousLines() || c.Kind() == ast.KindHeading {
				gap = 2
			}
			if h, ok := before.(*ast.Heading); ok {
				gap = 1
				if h.Level <= 2 || c.Kind() == ast.KindHeading {
					gap = 2
				}
				w.keep = true
			}
			w.separate(gap)
		}
		w.element(c)
	}
}

func (w *walker) element(n ast.Node) {
	switch n := n.(type) {
	case *ast.Heading:
		w.styled(bold, "", func() { w.inlines(n) })
	case *ast.ThematicBreak:
		w.write("———")
	case *ast.FencedCodeBlock:
		w.block(fence, w.codeLines(n), language(n.Language(w.source)))
	case *ast.CodeBlock:
		w.block(fence, w.codeLines(n), "")
	case *mathBlock:
		if s, ok := unicodeMath(n.tex); ok {
			w.lines(s)
		} else {
			w.block(fence, strings.TrimSpace(n.tex), "latex")
		}
	case *ast.Blockquote:
		w.quote(n)
	case *ast.List:
		w.list(n)
	case *extast.Table:
		w.table(n)
	case *ast.LinkReferenceDefinition:
		if !w.used[string(n.Destination)] {
			w.write("[" + strings.TrimPrefix(unescape(n.Label), "^") + "]: " + unescape(n.Destination))
		}
	default: // paragraphs
		w.inlines(n)
	}
}

// codeTab stands for a tab in code: Telegram makes one space of it, and the
// indentation would all but go (C009).
const codeTab = "    "

// codeLines gives the lines of a code block without blank ones around them.
func (w *walker) codeLines(n ast.Node) string {
	var b bytes.Buffer
	lines := n.Lines()
	for i := range lines.Len() {
		line := lines.At(i)
		b.Write(line.Value(w.source))
	}
	s := strings.ReplaceAll(strings.TrimRight(b.String(), " \t\n"), "\t", codeTab)
	for {
		line, rest, ok := strings.Cut(s, "\n")
		if !ok || strings.TrimSpace(line) != "" {
			return s
		}
		s = rest
	}
}

// language gives a fence's language in the characters that clients know names by.
func language(info []byte) string {
	const longest = 32
	s := strings.Map(func(r rune) rune {
		if r < 0x80 && (isWord(r) || strings.ContainsRune("_+#.-", r)) {
			return r
		}
		return -1
	}, string(info))
	return s[:min(len(s), longest)]
}

// quote writes a block quotation. Telegram has no nested ones: inner ones are part
// of the outer.
func (w *walker) quote(n ast.Node) {
	indent := w.indent
	w.indent = ""
	w.separate(1)
	w.styled(quote, "", func() { w.blocks(n) })
	w.separate(1)
	w.indent = indent
}

func (w *walker) list(n *ast.List) {
	number := n.Start
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		if item.PreviousSibling() != nil {
			if item.HasBlankPreviousLines() {
				w.separate(2)
			}
			w.separate(1)
		}
		marker := "•"
		if n.IsOrdered() {
			marker = fmt.Sprintf("%d%c", number, n.Marker)
			number++
		} else if box := taskBox(item); box != nil {
			marker = checkMark(box)
		}
		w.item(item, marker)
	}
}

// maxIndent bounds the indentation of deeply nested lists, in bytes.
const maxIndent = 40

func (w *walker) item(n ast.Node, marker string) {
	w.write(marker)
	switch first := n.FirstChild(); {
	case first == nil:
		return
	case first.Kind() == ast.KindParagraph, first.Kind() == ast.KindTextBlock, first.Kind() == ast.KindHeading, first.Kind() == ast.KindList:
		w.write(" ")
	default:
		w.separate(1)
	}
	indent := w.indent
	if len(indent) < maxIndent {
		w.indent += "    "
	}
	w.blocks(n)
	w.indent = indent
}

// taskBox gives the box that an item begins with, nil for none.
func taskBox(item ast.Node) *extast.TaskCheckBox {
	if item.FirstChild() == nil {
		return nil
	}
	box, _ := item.FirstChild().FirstChild().(*extast.TaskCheckBox)
	return box
}

func checkMark(box *extast.TaskCheckBox) string {
	if box.IsChecked {
		return "☑"
	}
	return "☐"
}

// table writes a table as a monospace block if it is narrow enough, with the
// targets of its links in it or, numbered, below it; else as a list of each row's
// cells with their headers.
func (w *walker) table(n *extast.Table) {
	var cells [][]document
	var plain, short [][]string
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var docs []document
		var p, s []string
		for c := row.FirstChild(); c != nil; c = c.NextSibling() {
			sub := walker{source: w.source, longest: w.longest, used: w.used, cell: true}
			sub.inlines(c)
			d := sub.document()
			docs = append(docs, d)
			p = append(p, strings.TrimSpace(d.plain(0, len(d.text), 0)))
			s = append(s, strings.TrimSpace(d.text))
		}
		cells, plain, short = append(cells, docs), append(plain, p), append(short, s)
	}
	if g := newGrid(n.Alignments, plain); g.fits() {
		w.block(table, g.String(), "")
	} else if g := newGrid(n.Alignments, short); g.fits() {
		w.block(table, g.String(), "")
		w.targets(cells)
	} else {
		w.records(n)
	}
}

// targets lists the links of a table's cells.
func (w *walker) targets(rows [][]document) {
	number := 0
	for _, row := range rows {
		for _, d := range row {
			for _, s := range d.spans {
				if s.style == link && d.shownTarget(s) != "" {
					number++
					w.separate(1)
					w.write(fmt.Sprintf("%d. %s: %s", number, d.text[s.start:s.end], s.target))
				}
			}
		}
	}
}

// records writes each row of a table as a list.
func (w *walker) records(n *extast.Table) {
	header := n.FirstChild()
	w.cell = true
	for row := header.NextSibling(); row != nil; row = row.NextSibling() {
		if row != header.NextSibling() {
			w.separate(2)
		}
		title := header.FirstChild()
		for c := row.FirstChild(); c != nil; c = c.NextSibling() {
			if c.HasChildren() {
				w.separate(1)
				w.write("• ")
				if title != nil && title.HasChildren() {
					w.styled(bold, "", func() { w.inlines(title); w.write(":") })
					w.write(" ")
				}
				w.inlines(c)
			}
			if title != nil {
				title = title.NextSibling()
			}
		}
	}
	w.cell = false
	w.separate(1)
}

// lines writes text of several lines.
func (w *walker) lines(s string) {
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			w.newline()
		}
		w.write(line)
	}
}

// clickable tells whether Telegram makes the target a link: it drops those to
// hosts without a point, such as localhost (TDLib, LinkManager::check_link).
func clickable(target string) bool {
	u, err := url.Parse(target)
	if err != nil {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		return strings.ContainsAny(u.Host, ".[")
	case "tg":
		return u.Host != ""
	}
	return false
}
