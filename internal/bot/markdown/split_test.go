package markdown

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/go-telegram/bot/models"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestCodeOverParts is case C009: each part holds a whole pre block with the
// language, and every line comes once, with its indentation.
func TestCodeOverParts(t *testing.T) {
	source := read(t, "testdata/md_long_code.md")
	parts := New().Split(source, telegramLimit)
	checkParts(t, parts, telegramLimit)
	if len(parts) < 3 {
		t.Fatalf("%d parts", len(parts))
	}
	_, code, _ := strings.Cut(source, "```go\n")
	code, _, _ = strings.Cut(code, "\n```")
	code = strings.ReplaceAll(code, "\t", codeTab)
	var got []string
	for i, p := range parts {
		var pre *models.MessageEntity
		for _, e := range p.Entities {
			if e.Type == models.MessageEntityTypePre {
				pre = &e
			}
		}
		if pre == nil || pre.Language != "go" {
			t.Fatalf("part %d: pre = %+v", i, pre)
		}
		got = append(got, string(p.Text.Text[pre.Offset:pre.Offset+pre.Length])) // the file is ASCII
		if n := strings.Count(p.Source, "```"); n != 2 {
			t.Errorf("part %d: %d fences in the source", i, n)
		}
	}
	if diff := cmp.Diff(code, strings.Join(got, "\n")); diff != "" {
		t.Error(diff)
	}
}

// TestStyleOverParts is case C008.
func TestStyleOverParts(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("letter ", 6000/7))
	parts := New().Split("**"+long+"**\n\n> quoted *words*\n\n- one\n- two", telegramLimit)
	checkParts(t, parts, telegramLimit)
	if len(parts) != 2 {
		t.Fatalf("%d parts", len(parts))
	}
	first, second := styled(parts[0].Text), styled(parts[1].Text)
	if diff := cmp.Diff([]string{"bold:" + parts[0].Text.Text}, first); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(second[0], "bold:letter ") || len(second) != 3 || second[1] != "blockquote:quoted words" || second[2] != "italic:words" {
		t.Errorf("second part: %q", second)
	}
	if got := parts[0].Text.Text + " " + strings.Split(parts[1].Text.Text, "\n")[0]; got != long {
		t.Error("the bold text is not whole")
	}
}

// TestPlainFallback is case C006.
func TestPlainFallback(t *testing.T) {
	source := read(t, "testdata/md_long_mixed.md")
	var all []string
	for _, p := range New().Split(source, telegramLimit) {
		for _, no := range []string{"<b>", "</i>", "<a href", "&lt;", "&amp;", "**", "]("} {
			if strings.Contains(p.Source, no) {
				t.Errorf("%q in %q", no, p.Source)
			}
		}
		all = append(all, p.Source)
	}
	if diff := cmp.Diff(words(source), words(strings.Join(all, "\n"))); diff != "" {
		t.Error(diff)
	}
}

// words gives the runs of letters and digits.
func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func TestBlankSource(t *testing.T) {
	lines := strings.Split(read(t, "testdata/md_blank_variants.txt"), "\n")
	for _, s := range append(lines, strings.Join(lines, "\n"), "", "\n \n", "&nbsp;", "```\n```", ">", "\u202E") {
		if parts := New().Split(s, telegramLimit); parts != nil {
			t.Errorf("Split(%q) = %+v", s, parts)
		}
		if got := New().Preview(s, telegramLimit); got.Text != "" {
			t.Errorf("Preview(%q) = %+v", s, got)
		}
	}
}

func TestBoundaries(t *testing.T) {
	tests := []struct {
		name, source string
		limit        int
		want         []string
	}{
		{"block", "First line.\nOther one.\n\nSecond block that is long.", 40, []string{"First line.\nOther one.", "Second block that is long."}},
		{"heading stays with its text", "Some words.\n\nMore of them.\n\n### Head\nText here.", 40, []string{"Some words.\n\nMore of them.", "Head\nText here."}},
		{"line", "aaaa bbbb cccc.\ndddd eeee. ffff\ngggg hhhh", 36, []string{"aaaa bbbb cccc.\ndddd eeee. ffff", "gggg hhhh"}},
		{"sentence", "One two three four. Five six seven eight", 30, []string{"One two three four.", "Five six seven eight"}},
		{"word", "one two three four five six", 20, []string{"one two three four", "five six"}},
		{"cjk sentence", "这是第一句话，它很长。这是第二句话，它也长。", 20, []string{"这是第一句话，它很长。", "这是第二句话，它也长。"}},
		{"rune", strings.Repeat("x", 45), 20, []string{strings.Repeat("x", 20), strings.Repeat("x", 20), "xxxxx"}},
		{"grapheme", strings.Repeat("👩‍👩‍👧", 4), 20, []string{"👩‍👩‍👧👩‍👩‍👧", "👩‍👩‍👧👩‍👩‍👧"}},
		{"surrogates", strings.Repeat("𝔸", 15), 21, []string{strings.Repeat("𝔸", 10), strings.Repeat("𝔸", 5)}},
		{"code indentation", "```\nif x:\n    aaaaaa\n\n    bbbbbb\n```", 26, []string{"if x:\n    aaaaaa", "    bbbbbb"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			parts := New().Split(tt.source, tt.limit)
			checkParts(t, parts, tt.limit)
			var got []string
			for _, p := range parts {
				got = append(got, p.Text.Text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestManyEntities: a part ends before the 101st entity, unless it is still short.
func TestManyEntities(t *testing.T) {
	count := func(source string) (parts, entities int) {
		all := New().Split(source, telegramLimit)
		checkParts(t, all, telegramLimit)
		for _, p := range all {
			entities += len(p.Entities)
		}
		return len(all), entities
	}
	if parts, entities := count(strings.Repeat("**bold** and some words, ", 150)); parts != 2 || entities != 150 {
		t.Errorf("%d parts, %d entities", parts, entities)
	}
	if parts, entities := count(strings.Repeat("`a` ", 4000)); parts > 8 || entities > parts*MaxEntities {
		t.Errorf("%d parts, %d entities", parts, entities)
	}
}

func TestLongTargets(t *testing.T) {
	target := "https://example.org/" + strings.Repeat("a", 5000)
	parts := New().Split("[docs]("+target+") end", telegramLimit)
	checkParts(t, parts, telegramLimit)
	var text, source strings.Builder
	for _, p := range parts {
		text.WriteString(p.Text.Text)
		source.WriteString(p.Source)
	}
	if !strings.Contains(text.String(), target) || !strings.Contains(source.String(), target) {
		t.Error("the target is not whole")
	}
}

func TestPreview(t *testing.T) {
	r := New()
	short := r.Preview("**a** [b](https://e.org)\n```go\nx := ", telegramLimit)
	checkText(t, short, telegramLimit)
	if diff := cmp.Diff([]string{"bold:a", "text_link:bhttps://e.org", "pre:x :=go"}, styled(short)); diff != "" {
		t.Error(diff)
	}
	long := r.Preview(strings.Repeat("**word** ", 1000), 100)
	checkText(t, long, 100)
	if want := strings.TrimSpace(strings.Repeat("word ", 20)) + "…"; long.Text != want {
		t.Errorf("got %q", long.Text)
	}
	exact := strings.Repeat("x", 100)
	if got := r.Preview(exact, 100); got.Text != exact {
		t.Errorf("got %q", got.Text)
	}
	if got := r.Preview(exact+"y", 100); got.Text != exact[1:]+"…" {
		t.Errorf("got %q", got.Text)
	}
}

// markdownSource draws Markdown in which every word is new, with the words in the
// order in which they are read.
func markdownSource(t *rapid.T) (string, []string) {
	var all []string
	word := func() string {
		w := fmt.Sprintf("w%dz", len(all))
		all = append(all, w)
		return w
	}
	var inline func(depth int) string
	inline = func(depth int) string {
		kinds := 11
		if depth == 0 {
			kinds = 5
		}
		switch rapid.IntRange(0, kinds).Draw(t, "inline") {
		case 0:
			return "`" + word() + " " + word() + "`"
		case 1:
			return word() + rapid.SampledFrom([]string{"😀", "é", "漢字。", "👩‍👩‍👧", " * ", " _ ", "\\*", " < ", " & ", "$", "  \n", "\n", "|", "[", "]", "~", "."}).Draw(t, "odd")
		case 6:
			return "**" + inline(depth-1) + "**"
		case 7:
			return "*" + inline(depth-1) + "*"
		case 8:
			return "~~" + word() + " " + inline(depth-1) + " " + word() + "~~"
		case 9:
			return "[" + inline(depth-1) + "](https://e.org/" + strings.Repeat("_", rapid.IntRange(0, 9).Draw(t, "target")) + ")"
		case 10, 11:
			return inline(depth-1) + " " + inline(depth-1)
		default:
			return word()
		}
	}
	indent := func(s, first, rest string) string {
		return first + strings.ReplaceAll(s, "\n", "\n"+rest)
	}
	var block func(depth int) string
	block = func(depth int) string {
		kinds := 10
		if depth == 0 {
			kinds = 5
		}
		switch rapid.IntRange(0, kinds).Draw(t, "block") {
		case 0:
			return strings.Repeat("#", rapid.IntRange(1, 6).Draw(t, "level")) + " " + strings.ReplaceAll(inline(2), "\n", " ")
		case 1:
			lines := rapid.IntRange(1, 6).Draw(t, "lines")
			code := "```" + rapid.SampledFrom([]string{"", "go", "c++ x"}).Draw(t, "language")
			for range lines {
				code += "\n" + strings.Repeat(" ", rapid.IntRange(0, 5).Draw(t, "indent")) + word() + " <b> **x"
			}
			return code + "\n```"
		case 2:
			return "---"
		case 6:
			return indent(block(depth-1), "> ", "> ")
		case 7:
			return indent(block(depth-1), "- ", "  ") + "\n" + indent(block(depth-1), "- ", "  ")
		case 8:
			return indent(block(depth-1), "1. ", "   ") + "\n\n" + indent(block(depth-1), "2. ", "   ")
		case 9, 10:
			return block(depth-1) + "\n\n" + block(depth-1)
		default:
			return inline(3)
		}
	}
	var blocks []string
	for range rapid.IntRange(1, 8).Draw(t, "blocks") {
		blocks = append(blocks, block(3))
	}
	return strings.Join(blocks, "\n\n"), all
}

// generated keeps the words of markdownSource.
func generated(s string) []string {
	return strings.FieldsFunc(strings.Join(strings.Fields(s), " "), func(r rune) bool {
		return r != 'w' && r != 'z' && (r < '0' || r > '9')
	})
}

func onlyWords(s string) []string {
	var kept []string
	for _, w := range generated(s) {
		if strings.HasPrefix(w, "w") && strings.HasSuffix(w, "z") {
			kept = append(kept, w)
		}
	}
	return kept
}

// TestEveryWordOnce: whatever the Markdown and the limit, the parts hold Telegram's
// rules and every word once, in order, and so do their plain texts.
func TestEveryWordOnce(t *testing.T) {
	r := New()
	rapid.Check(t, func(t *rapid.T) {
		source, want := markdownSource(t)
		limit := rapid.SampledFrom([]int{20, 30, 64, 200, telegramLimit}).Draw(t, "limit")
		parts := r.Split(source, limit)
		checkParts(t, parts, limit)
		var texts, sources []string
		for _, p := range parts {
			texts = append(texts, p.Text.Text)
			sources = append(sources, p.Source)
		}
		if diff := cmp.Diff(want, onlyWords(strings.Join(texts, "\n"))); diff != "" {
			t.Fatalf("%q\nparts %q\n%s", source, texts, diff)
		}
		if diff := cmp.Diff(want, onlyWords(strings.Join(sources, "\n"))); diff != "" {
			t.Fatalf("%q\nsources %q\n%s", source, sources, diff)
		}
		if diff := cmp.Diff(parts, r.Split(source, limit)); diff != "" {
			t.Fatalf("not the same twice: %s", diff)
		}
	})
}

var alphabet = []rune("ab1 \t\n*_~`#>-+=|[](){}!<>&;:\\/.,$^\"'1²漢。😀👩\u200d\u0301\u200b\u00a0\u202e\x00\uFFFDxyz")

// TestAnyBytes: nothing breaks the rules, also for what no one would write.
func TestAnyBytes(t *testing.T) {
	r := New()
	rapid.Check(t, func(t *rapid.T) {
		var source string
		if rapid.Bool().Draw(t, "bytes") {
			source = string(rapid.SliceOf(rapid.Byte()).Draw(t, "source"))
		} else {
			source = rapid.StringOf(rapid.SampledFrom(alphabet)).Draw(t, "source")
		}
		limit := rapid.SampledFrom([]int{20, 33, telegramLimit}).Draw(t, "limit")
		checkParts(t, r.Split(source, limit), limit)
		preview := r.Preview(source, limit)
		checkText(t, preview, limit)
		whole := r.Render(source)
		checkText(t, whole, 1<<20)
		if (preview.Text == "") != (len(r.Split(source, limit)) == 0) {
			t.Fatalf("preview %q, %d parts", preview.Text, len(r.Split(source, limit)))
		}
	})
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{"**a** `b`", "| a |\n|---|\n| b |", "> - ```\n> x", "$$\nx^2\n$$", "[a](b) ![c](d)"} {
		f.Add(s, 40)
	}
	r := New()
	f.Fuzz(func(t *testing.T, source string, limit int) {
		limit = min(max(limit, minLimit), telegramLimit)
		checkParts(t, r.Split(source, limit), limit)
		checkText(t, r.Preview(source, limit), limit)
	})
}

func BenchmarkSplit16000(b *testing.B) {
	source, r := read(b, "testdata/md_long_mixed.md"), New()
	b.ReportAllocs()
	for b.Loop() {
		r.Split(source, telegramLimit)
	}
}

func BenchmarkPreview4000(b *testing.B) {
	source, r := read(b, "testdata/md_long_mixed.md")[:4000], New()
	b.ReportAllocs()
	for b.Loop() {
		r.Preview(source, telegramLimit)
	}
}

// What no chat answer is as long as is shown as it was written: the parser would
// be at it for hours.
func TestBeyondMarkdown(t *testing.T) {
	for _, piece := range []string{"[a](", "[a](b", ">", "**a*b", "\\[", "word ", "\u0645\u0631\u062d\u0628\u0627"} {
		source := strings.Repeat(piece, 1<<20/len(piece))
		parts := New().Split(source, telegramLimit)
		checkParts(t, parts, telegramLimit)
		var words strings.Builder
		for _, p := range parts {
			if len(p.Entities) > 0 {
				t.Fatalf("%q: entities %v", piece, p.Entities)
			}
			words.WriteString(p.Text.Text)
		}
		if got, want := strings.ReplaceAll(words.String(), " ", ""), strings.ReplaceAll(source, " ", ""); got != want {
			t.Errorf("%q: %d bytes of %d", piece, len(got), len(want))
		}
	}
}
