package bot

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"agentd/internal/agent"
)

//go:embed catalogue/*.json
var catalogueFiles embed.FS

// fallbackLanguage is complete by test, so that every key has a sentence.
const fallbackLanguage = "en"

// catalogue holds every sentence that the bot itself says, by language and key.
// A sentence is CommonMark with {placeholders}. Languages are files: a new one is
// catalogue/<tag>.json.
type catalogue struct {
	languages map[string]map[string]string
}

func newCatalogue() (*catalogue, error) {
	files, err := catalogueFiles.ReadDir("catalogue")
	if err != nil {
		return nil, fmt.Errorf("catalogue: %w", err)
	}
	c := &catalogue{languages: make(map[string]map[string]string, len(files))}
	for _, f := range files {
		raw, err := catalogueFiles.ReadFile("catalogue/" + f.Name())
		if err != nil {
			return nil, fmt.Errorf("catalogue: %w", err)
		}
		sentences := make(map[string]string)
		if err := json.Unmarshal(raw, &sentences); err != nil {
			return nil, fmt.Errorf("catalogue: %s: %w", f.Name(), err)
		}
		c.languages[strings.TrimSuffix(f.Name(), ".json")] = sentences
	}
	return c, nil
}

// sentence gives the template for an IETF tag: "ru-RU" finds "ru", what is not
// there finds English.
func (c *catalogue) sentence(lang, key string) string {
	primary, _, _ := strings.Cut(strings.ToLower(lang), "-")
	if s, ok := c.languages[primary][key]; ok {
		return s
	}
	if s, ok := c.languages[fallbackLanguage][key]; ok {
		return s
	}
	return key
}

// say gives a sentence as CommonMark. args are pairs of a placeholder's name and
// its value; a value is plain text (often a stranger's, such as a name) and is
// escaped, so it can never become markup.
func (c *catalogue) say(lang, key string, args ...string) string {
	return fill(c.sentence(lang, key), args, escape)
}

// plain gives a sentence for what is not rendered: buttons, notices, the menu of
// commands.
func (c *catalogue) plain(lang, key string, args ...string) string {
	return fill(c.sentence(lang, key), args, nil)
}

// fill puts values in their places. Between backticks a value stays as it is,
// without backticks of its own.
func fill(template string, args []string, escape func(string) string) string {
	var b strings.Builder
	code := false
	for {
		i := strings.IndexAny(template, "{`")
		if i < 0 {
			b.WriteString(template)
			return b.String()
		}
		b.WriteString(template[:i])
		if template[i] == '`' {
			code = !code
			b.WriteByte('`')
			template = template[i+1:]
			continue
		}
		name, rest, _ := strings.Cut(template[i+1:], "}")
		value := strings.Join(strings.Fields(argument(args, name)), " ")
		switch {
		case code:
			value = strings.ReplaceAll(value, "`", "'")
		case escape != nil:
			value = escape(value)
		}
		b.WriteString(value)
		template = rest
	}
}

func argument(args []string, name string) string {
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == name {
			return args[i+1]
		}
	}
	return ""
}

// escape makes plain text safe within CommonMark. Opening brackets are left
// alone: `\(` and `\[` begin mathematics in what models write, and without their
// closing partner they mean nothing.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte("\\`*_^])}<>#~|$&!-+=.", s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// explain gives a fault's sentence as CommonMark. It falls back to the sentence
// for what nobody foresaw.
func (c *catalogue) explain(lang string, f *agent.Fault) string {
	key, args := c.fault(lang, f)
	return c.say(lang, key, args...)
}

// Explain gives the operator's sentence for a fault, in English, with its cause.
func Explain(f *agent.Fault) string {
	c, err := newCatalogue()
	if err != nil || f.Code == agent.FaultBroke {
		return f.Error()
	}
	key, args := c.fault(fallbackLanguage, f)
	sentence := c.plain(fallbackLanguage, key, args...)
	if f.Err != nil {
		sentence += " (" + f.Err.Error() + ")"
	}
	return sentence
}

// fault gives the key of a fault's sentence and the values for it.
func (c *catalogue) fault(lang string, f *agent.Fault) (key string, args []string) {
	key = "fault." + string(f.Code)
	if variant := faultVariant(f); variant != "" {
		key += "." + variant
	}
	if _, ok := c.languages[fallbackLanguage][key]; !ok {
		return "broke", nil
	}
	for name, value := range f.Args {
		if d, err := time.ParseDuration(value); err == nil && name == "limit" {
			value = c.age(lang, d)
		}
		args = append(args, name, value)
	}
	return key, args
}

// faultVariant picks the sentence that fits what is known about a fault.
func faultVariant(f *agent.Fault) string {
	switch {
	case f.Code == agent.FaultNoModel && f.Args["installed"] == "":
		return "none"
	case f.Code == agent.FaultModelAbsent && f.Args["nearest"] == "",
		f.Code == agent.FaultMemory && f.Args["needed"] == "",
		f.Code == agent.FaultTooLong && f.Args["tokens"] == "":
		return "bare"
	case f.Code == agent.FaultUnreachable && f.Args["hint"] == "container":
		return "container"
	}
	return ""
}

// explain gives the person's sentence for a fault, as CommonMark.
func (b *Bot) explain(lang string, f *agent.Fault) string { return b.say.explain(lang, f) }

// age says roughly how long something took, in the language's short units.
func (c *catalogue) age(lang string, d time.Duration) string {
	n := func(unit time.Duration) string { return fmt.Sprint(int64(d / unit)) }
	switch {
	case d < time.Minute:
		return c.plain(lang, "unit.seconds", "n", n(time.Second))
	case d < time.Hour:
		return c.plain(lang, "unit.minutes", "n", n(time.Minute))
	case d < 48*time.Hour:
		return c.plain(lang, "unit.hours", "n", n(time.Hour))
	}
	return c.plain(lang, "unit.days", "n", n(24*time.Hour))
}

// sizeText says how big something is, as people say it: 4.7 GB.
func sizeText(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d B", n)
}
