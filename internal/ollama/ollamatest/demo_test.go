package ollamatest_test

import (
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"agentd/internal/ollama/ollamatest"
)

const demoTools = `[{"type":"function","function":{"name":"current_time","parameters":{}}},` +
	`{"type":"function","function":{"name":"calculator","parameters":{}}},` +
	`{"type":"function","function":{"name":"delegate","parameters":{"properties":{"agent":{"enum":["analyst","writer"]}}}}}]`

// demoAsk lets the demo's model answer a history, at once.
func demoAsk(t *testing.T, tools string, messages ...ollamatest.Message) ollamatest.Message {
	t.Helper()
	config := ollamatest.Demo()
	config.FirstToken, config.PerToken = 0, 0
	body, err := json.Marshal(map[string]any{"model": config.Models[0].Name, "stream": false, "messages": messages, "tools": json.RawMessage(tools)})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	ollamatest.New(config).ServeHTTP(w, httptest.NewRequest("POST", "/api/chat", strings.NewReader(string(body))))
	b, _ := io.ReadAll(w.Result().Body)
	var answer struct{ Message ollamatest.Message }
	if err := json.Unmarshal(b, &answer); err != nil || w.Code != 200 {
		t.Fatalf("%d %s", w.Code, b)
	}
	return answer.Message
}

func says(role, content string) ollamatest.Message {
	return ollamatest.Message{Role: role, Content: content}
}

func TestDemoTalks(t *testing.T) {
	system := says("system", "You are agentd, an assistant.")
	const now = "[Tue 2026-12-01 10:00 UTC]\n\n"
	for text, want := range map[string]struct{ call, args, result, answer string }{
		"What time is it?":             {"current_time", `{"layout":"2006-01-02 15:04"}`, "2026-12-01 10:00", "My clock says **2026-12-01 10:00**."},
		"который час?":                 {"current_time", `{"layout":"2006-01-02 15:04"}`, "2026-12-01 10:00", "На моих часах **2026-12-01 10:00**."},
		"calculate 2+2*3":              {"calculator", `{"expression":"2+2*3"}`, "8", "`2+2*3` = **8**"},
		"2 + 2 * (3 - 1) = ?":          {"calculator", `{"expression":"2 + 2 * (3 - 1)"}`, "6", "`2 + 2 * (3 - 1)` = **6**"},
		"сколько будет 2/0":            {"calculator", `{"expression":"2/0"}`, "Error: division by zero", "Инструмент `calculator` не сработал: Error: division by zero"},
		"Ask a helper":                 {"delegate", `{"agent":"analyst","task":"Work out 17 * 23 + 5."}`, "396\nby sum", "I asked my helper **analyst**, who says:\n\n> 396\n> by sum"},
		"let the writer helper do 7*8": {"delegate", `{"agent":"writer","task":"Work out 7*8."}`, "56", "I asked my helper **writer**, who says:\n\n> 56"},
	} {
		asked := demoAsk(t, demoTools, system, says("user", now+text))
		if len(asked.ToolCalls) != 1 || asked.Content != "" {
			t.Errorf("%q: %+v", text, asked)
			continue
		}
		if f := asked.ToolCalls[0].Function; f.Name != want.call || string(f.Arguments) != want.args {
			t.Errorf("%q: %s %s", text, f.Name, f.Arguments)
		}
		answer := demoAsk(t, demoTools, system, says("user", now+text), asked, ollamatest.Message{Role: "tool", ToolName: want.call, Content: want.result})
		if answer.Content != want.answer {
			t.Errorf("%q: %q", text, answer.Content)
		}
		if refused := demoAsk(t, `[]`, system, says("user", now+text)); !strings.Contains(refused.Content, "`"+want.call+"`") {
			t.Errorf("%q without tools: %q", text, refused.Content)
		}
	}
	for text, want := range map[string]string{
		"hello":                 "Hello! There is no model behind me",
		"Привет!":               "Здравствуйте! За мной нет модели",
		"Who wrote Faust?":      "I cannot answer that. There is no model",
		"A long answer, please": "# A long answer",
		"":                      "I cannot answer that",
	} {
		answer := demoAsk(t, demoTools, system, says("user", now+text))
		if !strings.HasPrefix(answer.Content, want) || len(answer.ToolCalls) != 0 {
			t.Errorf("%q: %q", text, answer.Content)
		}
	}
}

// Messages that waited together are answered in one turn, each once.
func TestDemoAnswersSeveralQuestions(t *testing.T) {
	system := says("system", "You are agentd, an assistant.")
	user := says("user", "[now]\n\n2+2\n\nwhat time is it?\n\nhello\n\nhello")
	asked := demoAsk(t, demoTools, system, user)
	if len(asked.ToolCalls) != 2 {
		t.Fatalf("%+v", asked)
	}
	answer := demoAsk(t, demoTools, system, user, asked,
		ollamatest.Message{Role: "tool", ToolName: "current_time", Content: "noon"}, ollamatest.Message{Role: "tool", ToolName: "calculator", Content: "4"})
	if !strings.HasPrefix(answer.Content, "`2+2` = **4**\n\nMy clock says **noon**.\n\nHello!") || strings.Count(answer.Content, "Hello!") != 1 {
		t.Errorf("%q", answer.Content)
	}
}

func TestDemoPlaysTheHelper(t *testing.T) {
	system := says("system", "You are an analyst. You get one task and return one result.")
	user := says("user", "Work out 17 * 23 + 5.")
	asked := demoAsk(t, demoTools, system, user)
	if len(asked.ToolCalls) != 1 || string(asked.ToolCalls[0].Function.Arguments) != `{"expression":"17 * 23 + 5"}` {
		t.Fatalf("%+v", asked)
	}
	answer := demoAsk(t, demoTools, system, user, asked, ollamatest.Message{Role: "tool", ToolName: "calculator", Content: "396"})
	if !strings.HasPrefix(answer.Content, "396\n") {
		t.Errorf("%q", answer.Content)
	}
	if other := demoAsk(t, demoTools, system, says("user", "Write a poem.")); len(other.ToolCalls) != 0 || !strings.Contains(other.Content, "played by a script") {
		t.Errorf("%+v", other)
	}
}
