package markdown

import (
	"bytes"
	"strings"

	"github.com/rivo/uniseg"
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// tableTransformer finds GFM tables in paragraphs. Unlike goldmark's own it loses
// no text: cells beyond the header's stay, a row whose code holds an unescaped |
// is cut by its code if that gives the right number of cells (GFM would cut the
// code), and a line without any | ends the table.
type tableTransformer struct{}

func (tableTransformer) Transform(node *ast.Paragraph, reader text.Reader, _ parser.Context) {
	lines, source := node.Lines(), reader.Source()
	for i := 1; i < lines.Len(); i++ {
		header := lines.At(i - 1)
		alignments := delimiterRow(lines.At(i), source)
		if alignments == nil || !hasPipe(header, source) {
			continue
		}
		t := extast.NewTable()
		t.Alignments = alignments
		t.SetPos(header.Start)
		t.SetBlankPreviousLines(i == 1 && node.HasBlankPreviousLines())
		t.AppendChild(t, extast.NewTableHeader(tableRow(header, source, len(alignments))))
		end := i + 1
		for ; end < lines.Len() && hasPipe(lines.At(end), source); end++ {
			t.AppendChild(t, tableRow(lines.At(end), source, len(alignments)))
		}
		parent := node.Parent()
		parent.InsertAfter(parent, node, t)
		if end < lines.Len() {
			after := ast.NewParagraph()
			after.Lines().AppendAll(lines.Sliced(end, lines.Len()))
			trimLastLine(after, source)
			parent.InsertAfter(parent, t, after)
		}
		if i == 1 {
			parent.RemoveChild(parent, node)
			return
		}
		lines.SetSliced(0, i-1)
		trimLastLine(node, source)
		return
	}
}

// trimLastLine takes the line end off, which would show as a line break.
func trimLastLine(node *ast.Paragraph, source []byte) {
	lines := node.Lines()
	last := lines.At(lines.Len() - 1)
	lines.Set(lines.Len()-1, last.TrimRightSpace(source))
}

func hasPipe(line text.Segment, source []byte) bool {
	return bytes.IndexByte(line.Value(source), '|') >= 0
}

// delimiterRow gives the columns' alignments if the line is a table's second one.
func delimiterRow(line text.Segment, source []byte) []extast.Alignment {
	if !hasPipe(line, source) {
		return nil
	}
	var alignments []extast.Alignment
	for _, cell := range splitRow(line, source, false) {
		v := cell.Value(source)
		dashes := bytes.Trim(v, ":")
		if len(dashes) == 0 || len(bytes.Trim(dashes, "-")) > 0 {
			return nil
		}
		left, right := v[0] == ':', v[len(v)-1] == ':'
		switch {
		case left && right:
			alignments = append(alignments, extast.AlignCenter)
		case right:
			alignments = append(alignments, extast.AlignRight)
		default:
			alignments = append(alignments, extast.AlignLeft)
		}
	}
	return alignments
}

func tableRow(line text.Segment, source []byte, columns int) *extast.TableRow {
	cells := splitRow(line, source, false)
	if len(cells) != columns {
		if other := splitRow(line, source, true); len(other) == columns {
			cells = other
		}
	}
	row := extast.NewTableRow(nil)
	row.SetPos(line.Start)
	for _, c := range cells {
		cell := extast.NewTableCell()
		cell.SetPos(c.Start)
		cell.Lines().Append(c)
		row.AppendChild(row, cell)
	}
	return row
}

// splitRow cuts a line at its pipes, those in code left alone if keepCode.
func splitRow(line text.Segment, source []byte, keepCode bool) []text.Segment {
	line = line.TrimLeftSpace(source)
	line = line.TrimRightSpace(source)
	s := source[line.Start:line.Stop]
	var cells []text.Segment
	first := 0
	if len(s) > 0 && s[0] == '|' {
		first = 1
	}
	for i := first; i <= len(s); i++ {
		switch {
		case i < len(s) && s[i] == '\\':
			i++
		case i < len(s) && s[i] == '`' && keepCode:
			ticks := len(s[i:]) - len(bytes.TrimLeft(s[i:], "`"))
			i += ticks
			if j := bytes.Index(s[i:], bytes.Repeat([]byte{'`'}, ticks)); j >= 0 {
				i += j + ticks
			}
			i--
		case i == len(s) && first == len(s): // the closing pipe was the last character
		case i == len(s) || s[i] == '|':
			cell := text.NewSegment(line.Start+first, line.Start+i)
			cell = cell.TrimLeftSpace(source)
			cells = append(cells, cell.TrimRightSpace(source))
			first = i + 1
		}
	}
	return cells
}

// maxTableWidth is how many columns fit a phone's monospace line.
const maxTableWidth = 36

// grid is a table as text, the header first.
type grid struct {
	alignments []extast.Alignment
	rows       [][]string
	widths     []int
}

func newGrid(alignments []extast.Alignment, rows [][]string) grid {
	g := grid{alignments: alignments, rows: rows}
	for _, row := range rows {
		for len(g.widths) < len(row) {
			g.widths = append(g.widths, 0)
		}
		for i, cell := range row {
			g.widths[i] = max(g.widths[i], uniseg.StringWidth(cell))
		}
	}
	return g
}

// fits tells whether the grid is narrow enough for a monospace block. Wide
// characters count two.
func (g grid) fits() bool {
	total := 3 * (len(g.widths) - 1)
	for _, w := range g.widths {
		total += w
	}
	return total <= maxTableWidth
}

func (g grid) String() string {
	var b strings.Builder
	for n, row := range g.rows {
		if n == 0 && strings.Join(row, "") == "" {
			continue
		}
		var line strings.Builder
		for i, w := range g.widths {
			cell, align := "", extast.AlignLeft
			if i < len(row) {
				cell = row[i]
			}
			if i < len(g.alignments) {
				align = g.alignments[i]
			}
			if i > 0 {
				line.WriteString(" │ ")
			}
			line.WriteString(pad(cell, w, align))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		if n == 0 {
			for i, w := range g.widths {
				if i > 0 {
					b.WriteString("─┼─")
				}
				b.WriteString(strings.Repeat("─", w))
			}
			b.WriteByte('\n')
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func pad(cell string, width int, align extast.Alignment) string {
	space := width - uniseg.StringWidth(cell)
	left := 0
	switch align {
	case extast.AlignRight:
		left = space
	case extast.AlignCenter:
		left = space / 2
	}
	return strings.Repeat(" ", left) + cell + strings.Repeat(" ", space-left)
}
