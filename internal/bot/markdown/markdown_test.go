package markdown

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"

	"github.com/go-telegram/bot/models"
	"github.com/google/go-cmp/cmp"
)

const telegramLimit = 4096

var update = flag.Bool("update", false, "rewrite the golden files")

// TestCorpus renders every field case and compares with what was checked by eye.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/md_*.*")
	if err != nil || len(files) == 0 {
		t.Fatal("no corpus", err)
	}
	for _, file := range files {
		if filepath.Ext(file) == ".golden" {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			parts := New().Split(read(t, file), telegramLimit)
			checkParts(t, parts, telegramLimit)
			got := describe(parts)
			golden := strings.TrimSuffix(file, filepath.Ext(file)) + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(read(t, golden), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func read(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// describe writes parts for people: the text, each entity with what it covers,
// and the plain text where it differs.
func describe(parts []Part) string {
	var b strings.Builder
	for i, p := range parts {
		fmt.Fprintf(&b, "-- part %d: text --\n%s\n", i+1, p.Text.Text)
		if len(p.Entities) > 0 {
			fmt.Fprintf(&b, "-- part %d: entities --\n", i+1)
		}
		for _, e := range p.Entities {
			covered := units(p.Text.Text)[e.Offset : e.Offset+e.Length]
			line := fmt.Sprintf("%s %d+%d %s", e.Type, e.Offset, e.Length, shorten(string(utf16.Decode(covered))))
			b.WriteString(strings.Join(strings.Fields(line+" "+e.URL+" "+e.Language), " ") + "\n")
		}
		if p.Source != p.Text.Text {
			fmt.Fprintf(&b, "-- part %d: source --\n%s\n", i+1, p.Source)
		}
	}
	return b.String()
}

func shorten(s string) string {
	const most = 30
	if r := []rune(s); len(r) > 2*most {
		s = string(r[:most]) + " [...] " + string(r[len(r)-most:])
	}
	return fmt.Sprintf("%q", s)
}

func units(s string) []uint16 { return utf16.Encode([]rune(s)) }

// checkParts asserts what holds for the parts of any source.
func checkParts(t reporter, parts []Part, limit int) {
	t.Helper()
	for i, p := range parts {
		if !visible(p.Text.Text) {
			t.Errorf("part %d is blank: %q", i, p.Text.Text)
		}
		if n := len(units(p.Source)); n > limit {
			t.Errorf("part %d: source of %d units", i, n)
		}
		checkText(t, p.Text, limit)
	}
}

// checkText asserts Telegram's rules for one message.
func checkText(t reporter, text Text, limit int) {
	t.Helper()
	u := units(text.Text)
	if len(u) > limit {
		t.Errorf("%d units, limit %d", len(u), limit)
	}
	if Units(text.Text) != len(u) {
		t.Errorf("Units = %d, want %d", Units(text.Text), len(u))
	}
	if len(text.Entities) > MaxEntities {
		t.Errorf("%d entities", len(text.Entities))
	}
	kept := strings.TrimRightFunc(text.Text, unicode.IsSpace)
	if !beginsWithPre(text, 0) {
		kept = strings.TrimSpace(kept)
	}
	if kept != text.Text {
		t.Errorf("white space around %q", text.Text)
	}
	if i := strings.IndexFunc(text.Text, func(r rune) bool { return cleanRune(r) != r }); i >= 0 {
		t.Errorf("unwanted character at byte %d of %q", i, text.Text)
	}
	var around []models.MessageEntity
	for i, e := range text.Entities {
		if e.Offset < 0 || e.Length <= 0 || e.Offset+e.Length > len(u) {
			t.Fatalf("entity %d out of bounds: %+v", i, e)
		}
		if low(u, e.Offset) || low(u, e.Offset+e.Length) {
			t.Errorf("entity %d cuts a surrogate pair: %+v", i, e)
		}
		covered := string(utf16.Decode(u[e.Offset : e.Offset+e.Length]))
		if strings.TrimSpace(covered) == "" || e.Type != models.MessageEntityTypePre && strings.TrimRightFunc(covered, unicode.IsSpace) != covered ||
			!beginsWithPre(text, e.Offset) && strings.TrimSpace(covered) != covered {
			t.Errorf("entity %d has white space around: %q", i, covered)
		}
		if (e.Type == models.MessageEntityTypeTextLink) != (e.URL != "") {
			t.Errorf("entity %d: type and URL: %+v", i, e)
		}
		if i > 0 {
			before := text.Entities[i-1]
			if e.Offset < before.Offset || e.Offset == before.Offset && e.Length > before.Length {
				t.Errorf("entities %d and %d out of order: %+v %+v", i-1, i, before, e)
			}
		}
		around = slices.DeleteFunc(around, func(o models.MessageEntity) bool { return o.Offset+o.Length <= e.Offset })
		for _, outer := range around {
			if e.Offset+e.Length > outer.Offset+outer.Length {
				t.Errorf("entities overlap: %+v %+v", outer, e)
			}
			if !mayNest(outer.Type, e.Type) {
				t.Errorf("%s in %s", e.Type, outer.Type)
			}
		}
		around = append(around, e)
	}
}

// beginsWithPre tells whether code begins at the offset: it keeps its indentation.
func beginsWithPre(text Text, at int) bool {
	return slices.ContainsFunc(text.Entities, func(e models.MessageEntity) bool {
		return e.Type == models.MessageEntityTypePre && e.Offset == at
	})
}

// low tells whether a surrogate pair's second half stands at the offset.
func low(u []uint16, at int) bool { return at < len(u) && u[at] >= 0xDC00 && u[at] <= 0xDFFF }

// mayNest is the Bot API's rule for nested entities.
func mayNest(outer, inner models.MessageEntityType) bool {
	plain := []models.MessageEntityType{
		models.MessageEntityTypeBold, models.MessageEntityTypeItalic, models.MessageEntityTypeStrikethrough,
	}
	switch outer {
	case models.MessageEntityTypePre, models.MessageEntityTypeCode:
		return false
	case models.MessageEntityTypeBlockquote:
		return inner != models.MessageEntityTypeBlockquote
	case models.MessageEntityTypeTextLink:
		return slices.Contains(plain, inner)
	default:
		return outer != inner && (slices.Contains(plain, inner) || inner == models.MessageEntityTypeTextLink)
	}
}

// styled lists a text's entities as "type:covered".
func styled(text Text) []string {
	var all []string
	for _, e := range text.Entities {
		covered := units(text.Text)[e.Offset : e.Offset+e.Length]
		all = append(all, string(e.Type)+":"+string(utf16.Decode(covered))+e.URL+e.Language)
	}
	return all
}

func TestRender(t *testing.T) {
	tests := []struct {
		name, source, want string
		styles             []string
	}{
		{"styles", "**b** *i* ***bi*** ~~s~~ `c`", "b i bi s c",
			[]string{"bold:b", "italic:i", "bold:bi", "italic:bi", "strikethrough:s", "code:c"}},
		{"same style twice", "# a **b** c", "a b c", []string{"bold:a b c"}},
		{"code splits bold", "**a `b` c**", "a b c", []string{"bold:a", "code:b", "bold:c"}},
		{"link wins over code", "**see [a `b`](https://e.org) now**", "see a b now",
			[]string{"bold:see a b now", "text_link:a bhttps://e.org"}},
		{"headings", "# One\ntext\n### Three\ntext", "One\n\ntext\n\nThree\ntext", []string{"bold:One", "bold:Three"}},
		{"rule", "a\n\n---\n\nb", "a\n\n———\n\nb", nil},
		{"lines", "a\nb  \nc\\\nd", "a\nb\nc\nd", nil},
		{"lists", "- a\n  - b\n    1. c\n- d\n\n3. e\n4. f", "• a\n    • b\n        1. c\n• d\n\n3. e\n4. f", nil},
		{"tasks", "- [x] a\n- [ ] b\n1. [x] c", "☑ a\n☐ b\n1. ☑ c", nil},
		{"fence in item", "1. a\n   ```go\n   x\n     y\n   ```\n   b\n2. c", "1. a\nx\n  y\n    b\n2. c", []string{"pre:x\n  ygo"}},
		{"indented code", "a\n\n\tx\n\t\ty\n", "a\n\nx\n    y", []string{"pre:x\n    y"}},
		{"code keeps first indent", "```\n\n  x\ny\n\n```", "  x\ny", []string{"pre:  x\ny"}},
		{"language", "```c++ title=<x>\nx\n```", "x", []string{"pre:xc++"}},
		{"quote", "> a **b**\n> > c `d`\n>\n> ```go\n> e\n> ```", "a b\nc d\n\ne",
			[]string{"blockquote:a b\nc d\n\ne", "bold:b", "code:d", "pre:ego"}},
		{"empty quote", "a\n\n>\n\nb", "a\n\nb", nil},
		{"image", "![alt](https://e.org/i.png) ![](https://e.org/j.png)", "alt https://e.org/j.png",
			[]string{"text_link:althttps://e.org/i.png", "text_link:https://e.org/j.pnghttps://e.org/j.png"}},
		{"linked image", "[![alt](https://e.org/i.png)](https://e.org)", "alt", []string{"text_link:althttps://e.org"}},
		{"unsafe targets", "[a](javascript:x) [b](data:y) [c](file:///z) [d](JAVASCRIPT:x)",
			"a (javascript:x) b (data:y) c (file:///z) d (JAVASCRIPT:x)", nil},
		{"addresses", "[a](mailto:a@e.org) [b](tel:+1) [a@e.org](mailto:a@e.org)", "a (a@e.org) b (+1) a@e.org", nil},
		{"no link for Telegram", "[a](http://localhost:80/) [b](docs/x.md) [c](#part)", "a (http://localhost:80/) b (docs/x.md) c", nil},
		{"tg link", "[a](tg://user?id=1)", "a", []string{"text_link:atg://user?id=1"}},
		{"references", "[a][1], [2] and [9]\n\n[1]: https://e.org/1\n[2]: https://e.org/2\n[3]: https://e.org/3",
			"a, [2] and [9]\n\n[3]: https://e.org/3", []string{"text_link:ahttps://e.org/1", "text_link:[2]https://e.org/2"}},
		{"footnotes", "a[^1] b[^n]\n\n[^1]: https://e.org\n\n[^n]: more words", "a[1] b[n]\n\n[1]: https://e.org\n\n[n]: more words", nil},
		{"autolinks", "<https://e.org/a_b_> <a_b_c@e.org> <x:y>", "https://e.org/a_b_ <a_b_c@e.org> <x:y>", nil},
		{"url in bold", "**https://e.org/a_b_c** *https://e.org/?a=*1*", "https://e.org/a_b_c https://e.org/?a=*1",
			[]string{"bold:https://e.org/a_b_c", "italic:https://e.org/?a=*1"}},
		{"html", "<b>a</b> <!-- *c* -->\n\n<div class=\"x_y_\">\n**d**\n</div>", "<b>a</b> <!-- *c* -->\n\n<div class=\"x_y_\">\nd\n</div>", []string{"bold:d"}},
		{"references to characters", "a &lt;b&gt; &amp;amp; &#65; &copy; &nope; \\&lt; `&lt;`", "a <b> &amp; A © &nope; &lt; &lt;", []string{"code:&lt;"}},
		{"products and patterns", "2*3*4 x**2 + y**2 *.md and *.txt src/**/*_test.go f(a)*g(b)*h", "2*3*4 x**2 + y**2 *.md and *.txt src/**/*_test.go f(a)*g(b)*h", nil},
		{"names", "a_b_c _x __init__ __main__.py __b__ ~5~", "a_b_c _x __init__ __main__.py b ~5~", []string{"bold:b"}},
		{"bold against letters", "**Note:**text **重点：**说明 是**“引号”**吗 **a**/**b**", "Note:text 重点：说明 是“引号”吗 a/b",
			[]string{"bold:Note:", "bold:重点：", "bold:“引号”", "bold:a", "bold:b"}},
		{"utf-16", "👩‍👩‍👧 **𝔸b** `😀`", "👩‍👩‍👧 𝔸b 😀", []string{"bold:𝔸b", "code:😀"}},
		{"unwanted characters", "a\x00b\u202Ec\u2066d\xed\xa0\x80e\r\nf\u2028g\x1b", "abcd\uFFFDe\nf\ng", nil},
		{"unwanted references", "a&#8238;b&#0;c&#27;d", "ab\uFFFDcd", nil},
		{"empty fence", "```go\n```\n\n---\n```\n\n```", "———", nil},
	}
	r := New()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := r.Render(tt.source)
			checkText(t, got, telegramLimit)
			if diff := cmp.Diff(tt.want, got.Text); diff != "" {
				t.Errorf("text -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tt.styles, styled(got)); diff != "" {
				t.Errorf("entities -want +got:\n%s", diff)
			}
		})
	}
}

func TestTable(t *testing.T) {
	tests := []struct {
		name, source, want string
		styles             []string
	}{
		{"aligned", "| a | b | c |\n|---|--:|:-:|\n| 漢字 | 1 | x |\n| **y** | 22 | abc |",
			"a    │  b │  c\n─────┼────┼────\n漢字 │  1 │  x\ny    │ 22 │ abc",
			[]string{"pre:a    │  b │  c\n─────┼────┼────\n漢字 │  1 │  x\ny    │ 22 │ abc"}},
		{"link fits", "| a |\n|---|\n| [b](https://e.org/c) |", "a\n───────────────────\nb (https://e.org/c)",
			[]string{"pre:a\n───────────────────\nb (https://e.org/c)"}},
		{"link below", "| a | b |\n|---|---|\n| [first](https://example.org/page) | 1234567890 |",
			"a     │ b\n──────┼───────────\nfirst │ 1234567890\n1. first: https://example.org/page",
			[]string{"pre:a     │ b\n──────┼───────────\nfirst │ 1234567890"}},
		{"36 columns", "| a | b |\n|---|---|\n| 漢字漢字漢字漢字 | 12345678901234567 |",
			"a                │ b\n─────────────────┼──────────────────\n漢字漢字漢字漢字 │ 12345678901234567",
			[]string{"pre:a                │ b\n─────────────────┼──────────────────\n漢字漢字漢字漢字 │ 12345678901234567"}},
		{"37 columns", "| a | b |\n|---|---|\n| 漢字漢字漢字漢字 | *123456789012345678* |\n| c | |\n| | `d` |",
			"• a: 漢字漢字漢字漢字\n• b: 123456789012345678\n\n• a: c\n\n• b: d",
			[]string{"bold:a:", "bold:b:", "italic:123456789012345678", "bold:a:", "bold:b:", "code:d"}},
		{"pipes", "| a | b |\n|---|---|\n| x\\|y | `c\\|d` |\n| `e|f` | g |\n| h | i | j |\n| k |",
			"a   │ b   │\n────┼─────┼──\nx|y │ c|d │\ne|f │ g   │\nh   │ i   │ j\nk   │     │",
			[]string{"pre:a   │ b   │\n────┼─────┼──\nx|y │ c|d │\ne|f │ g   │\nh   │ i   │ j\nk   │     │"}},
		{"text around", "before\n| a | b |\n|---|---|\n| 1 | 2 |\nafter", "before\na │ b\n──┼──\n1 │ 2\nafter",
			[]string{"pre:a │ b\n──┼──\n1 │ 2"}},
		{"no table", "a | b\n\nc\n---\n| d |", "a | b\n\nc\n\n| d |", []string{"bold:c"}},
	}
	r := New()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := r.Render(tt.source)
			checkText(t, got, telegramLimit)
			if diff := cmp.Diff(tt.want, got.Text); diff != "" {
				t.Errorf("text -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tt.styles, styled(got)); diff != "" {
				t.Errorf("entities -want +got:\n%s", diff)
			}
		})
	}
}

func TestMath(t *testing.T) {
	tests := []struct {
		source, want string
		styles       []string
	}{
		{`$e^{ix} = \cos x + i\sin x$`, "eⁱˣ = cos x + i sin x", nil},
		{`\(a_1 * b_2 * c_3\)`, "a₁ * b₂ * c₃", nil},
		{`$\alpha\leq\beta \times 2 \to \infty$`, "α ≤ β × 2 → ∞", nil},
		{`$\frac{a+b}{2a} \pm \sqrt{x^2+1} \ne \sqrt[3]{x}$`, "(a+b)/(2a) ± √(x²+1) ≠ ∛x", nil},
		{`$x \in \mathbb{R}^n, \text{if } 90^\circ$`, "x ∈ ℝⁿ, if 90°", nil},
		{"\\[\n\\sum_{i=1}^{n} i\n\\]", "∑ᵢ₌₁ⁿ i", nil},
		{"$$\nx\n- y\n$$", "x - y", nil},
		{"> $$\n> x\n> $$", "x", []string{"blockquote:x"}},
		{`so $$a^2 = b$$ holds`, "so a² = b holds", nil},
		{`$e^{i\pi}$ and $\vec{v}$`, `e^{i\pi} and \vec{v}`, []string{`code:e^{i\pi}`, `code:\vec{v}`}},
		{"$$\n\\begin{aligned}\na &= b\n\\end{aligned}\n$$", "\\begin{aligned}\na &= b\n\\end{aligned}",
			[]string{"pre:\\begin{aligned}\na &= b\n\\end{aligned}latex"}},
		{"$5 and $6, $5-$10, US$ 5, 3$", "$5 and $6, $5-$10, US$ 5, 3$", nil},
		{"$HOME/$USER $PATH:$HOME `$x$`", "$HOME/$USER $PATH:$HOME $x$", []string{"code:$x$"}},
		{`\(see below\) \[x\] \[1\] \$x\$`, `(see below) [x] [1] $x$`, nil},
		{"$$ is the shell's own id\n\n*a*", "$$ is the shell's own id\n\na", []string{"italic:a"}},
		{`$\frac{1}{$ and $x^{$`, `\frac{1}{ and x^{`, []string{`code:\frac{1}{`, "code:x^{"}},
	}
	r := New()
	for _, tt := range tests {
		t.Run(tt.source, func(t *testing.T) {
			got := r.Render(tt.source)
			checkText(t, got, telegramLimit)
			if diff := cmp.Diff(tt.want, got.Text); diff != "" {
				t.Errorf("text -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tt.styles, styled(got)); diff != "" {
				t.Errorf("entities -want +got:\n%s", diff)
			}
		})
	}
}

// reporter is what the checks need of a test or a property.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}
