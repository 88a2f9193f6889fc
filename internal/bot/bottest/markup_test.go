package bottest

import (
	"reflect"
	"testing"
)

func TestMarkup(t *testing.T) {
	e := func(typ string, offset, length int) Entity { return Entity{Type: typ, Offset: offset, Length: length} }
	link := func(offset, length int, url string) Entity {
		return Entity{Type: "text_link", Offset: offset, Length: length, URL: url}
	}
	for _, c := range []struct {
		mode, src, text, err string
		entities             []Entity
	}{
		{mode: "html", src: "plain", text: "plain"},
		{mode: "html", src: "<b>a</b><i>b</i><u>c</u><s>d</s><tg-spoiler>e</tg-spoiler><code>f</code>", text: "abcdef", entities: []Entity{
			e("bold", 0, 1), e("italic", 1, 1), e("underline", 2, 1), e("strikethrough", 3, 1), e("spoiler", 4, 1), e("code", 5, 1)}},
		{mode: "html", src: "😀<b>a<i>b</i></b>", text: "😀ab", entities: []Entity{e("bold", 2, 2), e("italic", 3, 1)}},
		{mode: "html", src: `<a href="https://example.org/?a=1&amp;b=2">x</a>`, text: "x", entities: []Entity{link(0, 1, "https://example.org/?a=1&b=2")}},
		{mode: "html", src: `<pre><code class="language-go">a := 1</code></pre>`, text: "a := 1", entities: []Entity{{Type: "pre", Offset: 0, Length: 6, Language: "go"}}},
		{mode: "html", src: "<blockquote>q</blockquote><blockquote expandable>r</blockquote>", text: "qr", entities: []Entity{e("blockquote", 0, 1), e("expandable_blockquote", 1, 1)}},
		{mode: "html", src: "&lt;&gt;&amp;&quot;&#128512;&laquo;&", text: "<>&\"😀&laquo;&"},
		{mode: "html", src: "<b></b>x", text: "x"},
		{mode: "html", src: "a < b", err: `Unsupported start tag "" at byte offset 2`},
		{mode: "html", src: "a <b", err: `Unclosed start tag at byte offset 2`},
		{mode: "html", src: "😀<abac>", err: `Unsupported start tag "abac" at byte offset 4`},
		{mode: "html", src: "<b>x", err: `Can't find end tag corresponding to start tag "b"`},
		{mode: "html", src: "x</b>", err: `Unexpected end tag at byte offset 1`},
		{mode: "html", src: "<i>a</em>", err: `Unmatched end tag at byte offset 4, expected "</i>", found "</em>"`},
		{mode: "html", src: "<i>a</i  ", err: `Unclosed end tag at byte offset 4`},
		{mode: "html", src: "<i a=1_2>", err: `Unexpected end of name token at byte offset 5`},
		{mode: "html", src: `<i a="1`, err: `Unclosed start tag at byte offset 0`},
		{mode: "html", src: `<span>x</span>`, err: `Tag "span" must have class "tg-spoiler" at byte offset 0`},

		{mode: "markdownv2", src: "*b* _i_ __u__ ~s~ ||p|| `c`", text: "b i u s p c", entities: []Entity{
			e("bold", 0, 1), e("italic", 2, 1), e("underline", 4, 1), e("strikethrough", 6, 1), e("spoiler", 8, 1), e("code", 10, 1)}},
		{mode: "markdownv2", src: "*b _i_*", text: "b i", entities: []Entity{e("bold", 0, 3), e("italic", 2, 1)}},
		{mode: "markdownv2", src: `a\.b\_c`, text: "a.b_c"},
		{mode: "markdownv2", src: "```go\nx.y()\n```", text: "x.y()\n", entities: []Entity{{Type: "pre", Offset: 0, Length: 6, Language: "go"}}},
		{mode: "markdownv2", src: `[x](https://example.org/a_\(b\))`, text: "x", entities: []Entity{link(0, 1, "https://example.org/a_(b)")}},
		{mode: "markdownv2", src: ">q\n>r\nz", text: "q\nr\nz", entities: []Entity{e("blockquote", 0, 4)}},
		{mode: "markdownv2", src: ">q", text: "q", entities: []Entity{e("blockquote", 0, 1)}},
		{mode: "markdownv2", src: "a.b", err: `Character '.' is reserved and must be escaped with the preceding '\'`},
		{mode: "markdownv2", src: "x *b", err: "Can't find end of Bold entity at byte offset 2"},
		{mode: "markdownv2", src: "`b", err: "Can't find end of Code entity at byte offset 0"},
		{mode: "markdownv2", src: "[x](y", err: "Can't find end of a URL at byte offset 4"},
		{mode: "markdownv2", src: ">*q\n", err: "Can't find end of Bold entity at byte offset 1"},

		{mode: "markdown", src: "*b* _i_ `c` [x](https://example.org) \\_", text: "b i c x _", entities: []Entity{
			e("bold", 0, 1), e("italic", 2, 1), e("code", 4, 1), link(6, 1, "https://example.org")}},
		{mode: "markdown", src: "```\nx_y\n```", text: "x_y\n", entities: []Entity{e("pre", 0, 4)}},
		{mode: "markdown", src: "snake_case", err: "Can't find end of the entity starting at byte offset 5"},
	} {
		rt, err := parseMarkup(c.mode, c.src)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s %q: %v, want %s", c.mode, c.src, err, c.err)
			}
			continue
		}
		if err != nil || rt.text != c.text || !reflect.DeepEqual(rt.entities, c.entities) {
			t.Errorf("%s %q: %q %+v %v", c.mode, c.src, rt.text, rt.entities, err)
		}
	}
}

func TestTextIsCleaned(t *testing.T) {
	b := newBench(t, Config{})
	m := b.must("sendMessage", obj{"chat_id": miraID, "text": " \n\ta\r\nb\x01c  \n", "entities": []any{
		obj{"type": "bold", "offset": 3, "length": 3}, obj{"type": "italic", "offset": 9, "length": 3}}}).message(t)
	if m.Text != "a\nb c" || len(m.Entities) != 1 || m.Entities[0].Offset != 0 || m.Entities[0].Length != 2 {
		t.Errorf("%q %+v", m.Text, m.Entities)
	}
	m = b.must("sendMessage", obj{"chat_id": miraID, "text": "  indented", "entities": []any{obj{"type": "pre", "offset": 0, "length": 10}}}).message(t)
	if m.Text != "  indented" {
		t.Errorf("%q", m.Text)
	}
}

func FuzzMarkup(f *testing.F) {
	for _, s := range []string{"<b>x</b>", "*b* _i_", "```go\nx```", "[a](b)", ">q\n", "<a href='x", "&#0;", "![x](tg://emoji?id=1)", "\xff<"} {
		f.Add("html", s)
		f.Add("markdownv2", s)
		f.Add("markdown", s)
	}
	f.Fuzz(func(t *testing.T, mode, s string) {
		if rt, err := parseMarkup(mode, s); err == nil {
			if err := checkEntities(rt); err == nil {
				rt.clean()
			}
		}
	})
}
