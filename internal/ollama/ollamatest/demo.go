package ollamatest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

//go:embed demo_long.md
var demoLong string

// Demo configures a server whose model is played by a script, for people who
// want to see the agent without a model. It answers in English and Russian,
// calls the tools current_time, calculator and delegate when it is asked
// something that needs them, plays the helper it delegated to, writes one long
// answer, and says of itself that it is no model.
func Demo() Config {
	return Config{
		Models:     []Model{{Name: "scripted-stand-in"}},
		FirstToken: 300 * time.Millisecond,
		PerToken:   25 * time.Millisecond,
		Answer:     demo,
	}
}

// demo answers as the supervisor, whose prompt names agentd, or as its helper.
func demo(r Request) Answer {
	if system := r.System(); system != "" && !strings.Contains(system, "You are agentd") {
		return demoHelper(r)
	}
	var wishes []wish
	for _, text := range questions(r.LastUser()) {
		wishes = append(wishes, understand(text, r))
	}
	results := r.results()
	if len(results) == 0 {
		var calls []ToolCall
		for _, w := range wishes {
			if w.call != nil {
				calls = append(calls, *w.call)
			}
		}
		if len(calls) > 0 {
			return Answer{Calls(calls...)}
		}
	}
	var said []string
	for _, w := range wishes {
		text := w.text
		if w.call != nil {
			i := slices.IndexFunc(results, func(m Message) bool { return m.ToolName == w.call.Function.Name })
			if i < 0 {
				continue
			}
			text = w.report(results[i].Content)
			results = slices.Delete(results, i, i+1)
		}
		if !slices.Contains(said, text) {
			said = append(said, text)
		}
	}
	return Answer{Text(strings.Join(said, "\n\n"))}
}

// results returns what tools answered since the last user message.
func (r Request) results() (list []Message) {
	for _, m := range slices.Backward(r.Messages) {
		switch m.Role {
		case "user":
			slices.Reverse(list)
			return list
		case "tool":
			list = append(list, m)
		}
	}
	return nil
}

// stamp is what the agent puts before what the person wrote.
var stamp = regexp.MustCompile(`^\[[^\]\n]*\]\s*`)

// questions are the paragraphs of a user message.
func questions(text string) []string {
	var list []string
	for _, p := range strings.Split(stamp.ReplaceAllString(text, ""), "\n\n") {
		if p = strings.TrimSpace(p); p != "" {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return []string{""}
	}
	return list
}

// wish is what a person wants: a text, or a call and what is said of its result.
type wish struct {
	text   string
	call   *ToolCall
	report func(result string) string
}

var (
	wantsHelper = regexp.MustCompile(`(?i)delegate|helper|sub-?agent|analyst|помощник|поручи|делегир|аналитик`)
	wantsLong   = regexp.MustCompile(`(?i)\blong\b|\btable\b|markdown|длинн|таблиц`)
	wantsSum    = regexp.MustCompile(`(?i)calc|comput|how much|what is|what's|work out|посчита|вычисли|сколько`)
	wantsTime   = regexp.MustCompile(`(?i)\btime\b|\bdate\b|\bclock\b|what day|врем|который час|какое сегодня|какой сегодня`)
	wantsHello  = regexp.MustCompile(`(?i)^(hi|hello|hey|good (morning|day|evening)|привет|здравствуй|добр(ый|ое|ая))(\P{L}|те\P{L}|$)`)
	expression  = regexp.MustCompile(`[-(\d][-+*/^%×÷().,\s\d]*[-+*/^%×÷][-+*/^%×÷().,\s\d]*[\d)]`)
)

// understand finds out what one question wants. What needs a tool that is not
// offered is answered in words.
func understand(text string, r Request) wish {
	ru := strings.ContainsFunc(text, func(c rune) bool { return unicode.Is(unicode.Cyrillic, c) })
	say := func(en, russian string) string {
		if ru {
			return russian
		}
		return en
	}
	sum := strings.TrimSpace(expression.FindString(text))
	switch {
	case wantsHelper.MatchString(text):
		task := "Work out 17 * 23 + 5."
		if sum != "" {
			task = "Work out " + sum + "."
		}
		who := helper(text, r)
		return call(r, "delegate", map[string]string{"agent": who, "task": task}, say,
			func(s string) string {
				return fmt.Sprintf(say("I asked my helper **%s**, who says:\n\n%s", "Я спросил помощника **%s**, вот его ответ:\n\n%s"), who, quote(s))
			})
	case sum != "" && (wantsSum.MatchString(text) || sum == strings.TrimRight(text, " =?.!")):
		return call(r, "calculator", map[string]string{"expression": sum}, say,
			func(s string) string { return fmt.Sprintf("`%s` = **%s**", sum, s) })
	case wantsLong.MatchString(text):
		return wish{text: demoLong}
	case wantsTime.MatchString(text):
		return call(r, "current_time", map[string]string{"layout": "2006-01-02 15:04"}, say,
			func(s string) string {
				return fmt.Sprintf(say("My clock says **%s**.", "На моих часах **%s**."), s)
			})
	case wantsHello.MatchString(text):
		return wish{text: say("Hello! ", "Здравствуйте! ") + say(introEN, introRU)}
	}
	return wish{text: say("I cannot answer that. ", "На это я ответить не могу. ") + say(introEN, introRU)}
}

const (
	introEN = "There is no model behind me, only a script that stands in for one, because no Ollama answered. What I can show:\n\n" +
		"- **What time is it?** calls a tool\n- **Calculate 2+2*3** calls another\n- **Ask a helper** hands a task to a sub-agent\n" +
		"- **A long answer, please** streams, with a table and code\n\nFor real answers start Ollama, pull a model, and start me again."
	introRU = "За мной нет модели, только сценарий вместо неё, потому что Ollama не отвечает. Что я могу показать:\n\n" +
		"- **Который час?** вызывает инструмент\n- **Посчитай 2+2*3** вызывает другой\n- **Спроси помощника** поручает задачу субагенту\n" +
		"- **Длинный ответ** печатается постепенно, с таблицей и кодом\n\nЧтобы получать настоящие ответы, запустите Ollama, загрузите модель и перезапустите меня."
)

// call wants a tool, if it is offered. A failed call is reported as it is.
func call(r Request, name string, args map[string]string, say func(en, ru string) string, report func(string) string) wish {
	if !slices.ContainsFunc(r.Offered(), func(t Tool) bool { return t.Name == name }) {
		return wish{text: fmt.Sprintf(say("For that I need the tool `%s`, which I was not given.", "Для этого нужен инструмент `%s`, а его мне не дали."), name)}
	}
	raw, _ := json.Marshal(args) // strings always encode
	return wish{
		call: &ToolCall{Function: Function{Name: name, Arguments: raw}},
		report: func(result string) string {
			if strings.HasPrefix(strings.ToLower(result), "error") {
				return fmt.Sprintf(say("The tool `%s` failed: %s", "Инструмент `%s` не сработал: %s"), name, result)
			}
			return report(result)
		},
	}
}

// helper picks whom to delegate to: who is named in the text, else the first.
func helper(text string, r Request) string {
	for _, t := range r.Offered() {
		var schema struct {
			Properties struct{ Agent struct{ Enum []string } }
		}
		if t.Name != "delegate" || json.Unmarshal(t.Parameters, &schema) != nil {
			continue
		}
		names := schema.Properties.Agent.Enum
		for _, name := range names {
			if strings.Contains(strings.ToLower(text), name) {
				return name
			}
		}
		if len(names) > 0 {
			return names[0]
		}
	}
	return ""
}

// demoHelper plays the sub-agent: it does the sum in its task by the calculator.
func demoHelper(r Request) Answer {
	sum := strings.TrimSpace(expression.FindString(r.LastUser()))
	english := func(en, _ string) string { return en }
	if sum == "" {
		return Answer{Text("There is no sum in my task. I am played by a script, and can do nothing else.")}
	}
	w := call(r, "calculator", map[string]string{"expression": sum}, english, func(s string) string {
		return fmt.Sprintf("%s\n\nI gave `%s` to the calculator and copied what it said. I am played by a script, too.", s, sum)
	})
	results := r.results()
	switch {
	case w.call == nil:
		return Answer{Text(w.text)}
	case len(results) == 0:
		return Answer{Calls(*w.call)}
	}
	return Answer{Text(w.report(results[len(results)-1].Content))}
}

func quote(s string) string {
	return "> " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n> ")
}
