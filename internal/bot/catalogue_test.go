package bot

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"agentd/internal/agent"
	"agentd/internal/bot/markdown"
)

func testCatalogue(t *testing.T) *catalogue {
	t.Helper()
	c, err := newCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var placeholder = regexp.MustCompile(`\{([^}]*)\}`)

func placeholders(sentence string) []string {
	found := make(map[string]bool)
	for _, m := range placeholder.FindAllStringSubmatch(sentence, -1) {
		found[m[1]] = true
	}
	return slices.Sorted(maps.Keys(found))
}

func TestLanguagesAgree(t *testing.T) {
	c := testCatalogue(t)
	if got := slices.Sorted(maps.Keys(c.languages)); !slices.Equal(got, []string{"en", "ru"}) {
		t.Fatalf("languages %v", got)
	}
	for lang, sentences := range c.languages {
		for other, others := range c.languages {
			for key, sentence := range sentences {
				if strings.TrimSpace(sentence) == "" || strings.Count(sentence, "`")%2 != 0 {
					t.Errorf("%s %s: blank, or an open backtick: %q", lang, key, sentence)
				}
				there, ok := others[key]
				if !ok {
					t.Errorf("%s lacks %s, which %s has", other, key, lang)
				} else if a, b := placeholders(sentence), placeholders(there); !slices.Equal(a, b) {
					t.Errorf("%s: %s has %v, %s has %v", key, lang, a, other, b)
				}
			}
		}
	}
	for key, sentence := range c.languages["ru"] {
		if !strings.ContainsFunc(placeholder.ReplaceAllString(sentence, ""), func(r rune) bool { return unicode.Is(unicode.Cyrillic, r) }) && key != "help.line" && key != "users.line" && key != "sessions.line" {
			t.Errorf("ru %s is not Russian: %q", key, sentence)
		}
	}
}

// spoken finds in the package's code every key that is said with a literal, and
// the names of the values given to it (nil when they are not literals).
func spoken(t *testing.T) (keys map[string][]string, literals map[string]bool) {
	t.Helper()
	keys, literals = make(map[string][]string), make(map[string]bool)
	files := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	look := func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			s, _ := strconv.Unquote(l.Value)
			literals[s] = true
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || method.Sel.Name != "say" && method.Sel.Name != "plain" && method.Sel.Name != "answer" || len(call.Args) < 2 {
			return true
		}
		key, ok := call.Args[1].(*ast.BasicLit)
		if !ok {
			return true
		}
		name, _ := strconv.Unquote(key.Value)
		var given []string
		if !call.Ellipsis.IsValid() {
			given = []string{}
			for i := 2; i < len(call.Args); i += 2 {
				l, ok := call.Args[i].(*ast.BasicLit)
				if !ok {
					t.Errorf("%s: the name of a value is no literal", name)
					continue
				}
				s, _ := strconv.Unquote(l.Value)
				given = append(given, s)
			}
			slices.Sort(given)
		}
		keys[name] = given
		return true
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, look)
	}
	return keys, literals
}

func TestKeysInCode(t *testing.T) {
	english := testCatalogue(t).languages["en"]
	keys, literals := spoken(t)
	if len(keys) < 40 {
		t.Fatalf("only %d keys found in the code", len(keys))
	}
	for key, given := range keys {
		sentence, ok := english[key]
		if !ok {
			if strings.HasSuffix(key, ".") { // a family: "command." + name
				continue
			}
			t.Errorf("the code says %q, which is not in the catalogue", key)
			continue
		}
		if want := placeholders(sentence); given != nil && !slices.Equal(given, want) {
			t.Errorf("%s is given %v, and its sentence has %v", key, given, want)
		}
	}
	for key := range english {
		family, _, _ := strings.Cut(key, ".")
		if !literals[key] && family != "fault" && family != "command" {
			t.Errorf("nobody says %q", key)
		}
	}
	for _, name := range menu() {
		if english["command."+name] == "" {
			t.Errorf("the menu's /%s has no description", name)
		}
	}
	if len(menu()) > 10 {
		t.Errorf("%d commands in the menu, want ten at most", len(menu()))
	}
}

// faultCodes reads the codes where they are declared, so that a new one cannot be
// forgotten here.
func faultCodes(t *testing.T) (codes []agent.FaultCode) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../agent/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "FaultCode" {
			s, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			codes = append(codes, agent.FaultCode(s))
		}
		return true
	})
	if len(codes) < 15 {
		t.Fatalf("only %d codes found", len(codes))
	}
	return codes
}

func TestEveryFaultIsExplained(t *testing.T) {
	c := testCatalogue(t)
	args := map[string]string{
		"installed": "qwen3:4b, llama3.2:3b", "model": "qwen9", "nearest": "qwen3:4b", "pull": "ollama pull qwen9", "address": "127.0.0.1:11434",
		"needed": "9.1 GiB", "available": "5.9 GiB", "limit": "10m0s", "status": "500", "text": "odd", "tokens": "9000", "attempts": "3",
		"turn": "17", "steps": "15", "tool": "calculator",
	}
	for _, code := range faultCodes(t) {
		for lang := range c.languages {
			for _, values := range []map[string]string{args, nil} {
				f := &agent.Fault{Code: code, Args: values}
				key := "fault." + string(code)
				if v := faultVariant(f); v != "" {
					key += "." + v
				}
				if _, ok := c.languages[lang][key]; !ok {
					t.Errorf("%s has no sentence %s", lang, key)
				}
				if values == nil {
					continue
				}
				for _, name := range placeholders(c.sentence(lang, key)) {
					if args[name] == "" {
						t.Errorf("%s %s uses {%s}, which no fault has", lang, key, name)
					}
				}
			}
		}
		if Explain(&agent.Fault{Code: code, Args: args}) == "" {
			t.Errorf("no operator's sentence for %s", code)
		}
	}
}

func TestExplain(t *testing.T) {
	c := testCatalogue(t)
	unreachable := &agent.Fault{Code: agent.FaultUnreachable, Args: map[string]string{"address": "127.0.0.1:11434", "hint": "container"}}
	for _, want := range []string{"127.0.0.1:11434", "host.docker.internal", "OLLAMA_HOST=0.0.0.0", "http://ollama:11434"} {
		for _, lang := range []string{"en", "ru"} {
			if got := c.explain(lang, unreachable); !strings.Contains(got, want) {
				t.Errorf("%s: %q lacks %q", lang, got, want)
			}
		}
	}
	bare := c.explain("en", &agent.Fault{Code: agent.FaultUnreachable, Args: map[string]string{"address": "10.0.0.9:11434"}})
	if strings.Contains(bare, "container") || !strings.Contains(bare, "10.0.0.9:11434") {
		t.Errorf("outside a container: %q", bare)
	}
	absent := c.explain("en", &agent.Fault{Code: agent.FaultModelAbsent, Args: map[string]string{"model": "qwen9", "nearest": "qwen3:4b", "pull": "ollama pull qwen9"}})
	for _, want := range []string{"`qwen9`", "`ollama pull qwen9`", "qwen3:4b"} {
		if !strings.Contains(absent, want) {
			t.Errorf("%q lacks %q", absent, want)
		}
	}
	slow := &agent.Fault{Code: agent.FaultLoadTimeout, Args: map[string]string{"limit": "10m0s"}}
	if got := c.explain("ru", slow); !strings.Contains(got, "за 10 мин.") {
		t.Errorf("a limit is told as %q", got)
	}
	long := &agent.Fault{Code: agent.FaultTooLong, Args: map[string]string{"tokens": "9000", "limit": "4096"}}
	if got := c.explain("en", long); !strings.Contains(got, "9000 tokens, and 4096 fit") {
		t.Errorf("a limit of tokens is told as %q", got)
	}
	if got := c.explain("en", &agent.Fault{Code: "never heard of"}); got != c.say("en", "broke") {
		t.Errorf("an unknown code is explained as %q", got)
	}
}

func TestLanguageTag(t *testing.T) {
	c := testCatalogue(t)
	for tag, want := range map[string]string{"ru": "ru", "ru-RU": "ru", "RU": "ru", "en-GB": "en", "de": "en", "": "en", "russian": "en", "-": "en"} {
		if got := c.say(tag, "stop"); got != c.languages[want]["stop"] {
			t.Errorf("%q gives %q", tag, got)
		}
	}
	if got := c.age("ru", 3*time.Hour); got != "3 ч" {
		t.Errorf("age is %q", got)
	}
}

// What strangers call themselves is shown as it is, and never becomes markup.
func TestValuesAreNotMarkup(t *testing.T) {
	c := testCatalogue(t)
	md := markdown.New()
	check := func(t interface{ Errorf(string, ...any) }, name string) {
		for _, key := range []string{"stranger.card", "users.line", "fault.model_refused"} {
			source := c.say("en", key, "name", name, "id", "1", "state", name, "text", name, "status", name)
			got := md.Render(source)
			shown := strings.Join(strings.Fields(name), " ")
			if !strings.Contains(got.Text, shown) {
				t.Errorf("%s: %q is shown as %q", key, shown, got.Text)
			}
			for _, e := range got.Entities {
				if e.Type != "code" {
					t.Errorf("%s: %q made a %s: %q", key, name, e.Type, got.Text)
				}
			}
		}
	}
	for _, name := range []string{
		"*Ann*", "_x_", "[me](http://evil.example)", "`rm`", "# big", "- item", "1. one", "1) one", "> quote", "~~no~~", "|a|b|", `\(x^2\)`, `\[x\]`,
		"$5 and $6", "a&lt;b", "<b>x</b>", "![i](u)", `back\slash`, "http://example.com/a_b_c", "||spoiler||", "Ann & Bob", "=== x", "[^1]: y", "a  b",
	} {
		check(t, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringOfN(rapid.RuneFrom([]rune("ab1 *_`[]()<>#~|$&!\\-+=.:/^{}")), 1, 12, -1).Draw(t, "name")
		if strings.TrimSpace(name) != "" && !strings.ContainsAny(name, "{}") {
			check(t, name)
		}
	})
}
