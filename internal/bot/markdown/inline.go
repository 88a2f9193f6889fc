package markdown

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

// inlines writes the text in a block or an inline node.
func (w *walker) inlines(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		w.inline(c)
	}
}

func (w *walker) inline(n ast.Node) {
	switch n := n.(type) {
	case *ast.Text:
		w.write(unescape(n.Segment.Value(w.source)))
		if n.SoftLineBreak() || n.HardLineBreak() { // models end a line where they want it to end
			w.newline()
		}
	case *ast.String:
		w.write(string(n.Value))
	case *ast.CodeSpan:
		w.codeSpan(n)
	case *ast.Emphasis:
		st := italic
		if n.Level == 2 {
			st = bold
		}
		w.styled(st, "", func() { w.inlines(n) })
	case *extast.Strikethrough:
		w.styled(strike, "", func() { w.inlines(n) })
	case *extast.TaskCheckBox:
		if list, ok := n.Parent().Parent().Parent().(*ast.List); ok && list.IsOrdered() {
			w.write(checkMark(n) + " ")
		}
	case *ast.Link:
		w.link(n, unescape(n.Destination), isNumber(n.Reference))
	case *ast.Image:
		w.link(n, unescape(n.Destination), false)
	case *ast.AutoLink:
		w.autoLink(string(n.Label(w.source)))
	case *ast.RawHTML: // stays what the model wrote
		for i := range n.Segments.Len() {
			s := n.Segments.At(i)
			w.write(string(s.Value(w.source)))
		}
	case *mathInline:
		if s, ok := unicodeMath(n.tex); ok {
			w.write(strings.ReplaceAll(s, "\n", " "))
		} else {
			w.code(n.tex)
		}
	default:
		w.inlines(n)
	}
}

func (w *walker) codeSpan(n ast.Node) {
	var b bytes.Buffer
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(w.source))
		}
	}
	s := strings.ReplaceAll(b.String(), "\n", " ")
	if w.cell {
		s = strings.ReplaceAll(s, `\|`, "|")
	}
	w.code(s)
}

// isNumber tells whether a link is a bare [1], which keeps its brackets.
func isNumber(r *ast.ReferenceLink) bool {
	return r != nil && r.Type != ast.ReferenceLinkFull && len(bytes.Trim(r.Value, "0123456789")) == 0
}

// link writes a link or an image. What Telegram would not make a link, or a person
// should not follow unseen (javascript:, data:, file:), shows its target.
func (w *walker) link(n ast.Node, target string, brackets bool) {
	label := func() {
		if brackets {
			w.write("[")
		}
		before := len(w.buf)
		if w.inlines(n); len(w.buf) == before {
			w.write(target)
		}
		if brackets {
			w.write("]")
		}
	}
	if len(target) <= w.longest && clickable(target) {
		w.styled(link, target, label)
		return
	}
	label()
	shown := strings.TrimPrefix(strings.TrimPrefix(target, "mailto:"), "tel:")
	if shown != "" && !strings.HasPrefix(shown, "#") && !bytes.HasSuffix(w.buf, []byte(shown)) {
		w.write(" (" + shown + ")")
	}
}

// autoLink writes <https://example.org> without its brackets, since Telegram makes
// it a link by itself; all else in angle brackets may be no link at all
// (<ann@example.org> behind a name, map<string:int>) and keeps them.
func (w *walker) autoLink(label string) {
	for _, scheme := range [...]string{"http://", "https://", "ftp://", "tg://", "mailto:"} {
		if strings.HasPrefix(strings.ToLower(label), scheme) {
			w.write(label)
			return
		}
	}
	w.write("<" + label + ">")
}
