package ollamatest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ollama/ollama/api"

	"agentd/internal/ollama/ollamatest"
)

// official returns Ollama's own client on a started server.
func official(t *testing.T, srv *ollamatest.Server) *api.Client {
	t.Helper()
	base, err := srv.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return api.NewClient(u, &http.Client{Transport: transport})
}

func user(text string) []api.Message { return []api.Message{{Role: "user", Content: text}} }

func ask(c *api.Client, req api.ChatRequest) (text string, last api.ChatResponse, err error) {
	err = c.Chat(context.Background(), &req, func(r api.ChatResponse) error {
		text += r.Message.Content
		last = r
		return nil
	})
	return text, last, err
}

func TestChatStreamsToTheOfficialClient(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{})
	c := official(t, srv)
	srv.Queue(ollamatest.Answer{ollamatest.Text("Hello, dear world")})
	deltas := 0
	var thoughts, text string
	srv.Queue(ollamatest.Answer{ollamatest.Think("hm hm"), ollamatest.Text("A b c"), ollamatest.Call("calculator", `{"expression":"1"}`)})
	for range 2 {
		err := c.Chat(t.Context(), &api.ChatRequest{Model: "test-model", Messages: user("hi")}, func(r api.ChatResponse) error {
			deltas++
			text += r.Message.Content
			thoughts += r.Message.Thinking
			for _, call := range r.Message.ToolCalls {
				text += "[" + call.Function.Name + call.Function.Arguments.String() + call.ID + "]"
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := `Hello, dear worldA b c[calculator{"expression":"1"}call_00000001]`; text != want || thoughts != "hm hm" || deltas != 4+7 {
		t.Errorf("text %q, thoughts %q, %d deltas", text, thoughts, deltas)
	}
	if r := srv.Requests(); len(r) != 2 || r[0].LastUser() != "hi" || !r[0].Stream {
		t.Errorf("requests: %+v", r)
	}
}

func TestWholeAnswer(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{})
	c := official(t, srv)
	srv.Queue(ollamatest.Answer{ollamatest.Text("one two"), ollamatest.Call("f", `{}`)})
	no := false
	text, last, err := ask(c, api.ChatRequest{Model: "test-model", Messages: user("12345678"), Stream: &no})
	if err != nil || text != "one two" || len(last.Message.ToolCalls) != 1 {
		t.Fatalf("%q %+v %v", text, last, err)
	}
	if !last.Done || last.DoneReason != "stop" || last.EvalCount != 3 || last.PromptEvalCount != 6 || last.LoadDuration == 0 {
		t.Errorf("last line: %+v", last)
	}
}

func TestErrorsOfChat(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{Models: []ollamatest.Model{
		{Name: "test-model"}, {Name: "tiny", Capabilities: []string{"completion"}}, {Name: "bert", Capabilities: []string{"embedding"}},
	}})
	c := official(t, srv)
	tools := api.Tools{{Type: "function", Function: api.ToolFunction{Name: "f"}}}
	no := false
	long := user(strings.Repeat("word ", 5000))
	for name, test := range map[string]struct {
		req    api.ChatRequest
		status int
		text   string
	}{
		"absent":      {api.ChatRequest{Model: "absent", Messages: user("x")}, 404, "model 'absent' not found"},
		"no tools":    {api.ChatRequest{Model: "tiny", Messages: user("x"), Tools: tools}, 400, "registry.ollama.ai/library/tiny:latest does not support tools"},
		"no thinking": {api.ChatRequest{Model: "tiny", Messages: user("x"), Think: &api.ThinkValue{Value: true}}, 400, `"tiny" does not support thinking`},
		"max":         {api.ChatRequest{Model: "tiny", Messages: user("x"), Think: &api.ThinkValue{Value: "max"}}, 400, `invalid think value: "max" (must be "high", "medium", "low", true, or false)`},
		"no chat":     {api.ChatRequest{Model: "bert", Messages: user("x")}, 400, `"bert" does not support chat`},
		"option":      {api.ChatRequest{Model: "tiny", Messages: user("x"), Options: map[string]any{"num_ctx": "a"}}, 500, `option "num_ctx" must be of type integer`},
		"format":      {api.ChatRequest{Model: "tiny", Messages: user("x"), Format: json.RawMessage(`"yaml"`)}, 500, `invalid format: "yaml"; expected "json" or a valid JSON Schema object`},
		"too long":    {api.ChatRequest{Model: "tiny", Messages: long, Truncate: &no}, 400, "the input length exceeds the context length"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ask(c, test.req)
			var status api.StatusError
			if !errors.As(err, &status) || status.StatusCode != test.status || status.ErrorMessage != test.text {
				t.Errorf("got %v, want %d %s", err, test.status, test.text)
			}
		})
	}
}

func TestLongPromptIsCutInSilence(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{})
	c := official(t, srv)
	var seen ollamatest.Request
	srv.Script(func(r ollamatest.Request) ollamatest.Answer { seen = r; return ollamatest.Answer{} })
	messages := []api.Message{{Role: "system", Content: "rules"}}
	for range 20 {
		messages = append(messages, api.Message{Role: "user", Content: strings.Repeat("word ", 100)})
	}
	_, last, err := ask(c, api.ChatRequest{Model: "test-model", Messages: messages, Options: map[string]any{"num_ctx": 512}})
	if err != nil || last.PromptEvalCount != 512 {
		t.Fatalf("%+v %v", last, err)
	}
	if !seen.Truncated || seen.Messages[0].Role != "system" || len(seen.Messages) > 5 || len(srv.Requests()[0].Messages) != 21 {
		t.Errorf("the model saw %d messages, cut %v", len(seen.Messages), seen.Truncated)
	}
}

func TestNumPredictCutsTheAnswer(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{})
	c := official(t, srv)
	text, last, err := ask(c, api.ChatRequest{Model: "test-model", Messages: user("x"), Options: map[string]any{"num_predict": 2}})
	if err != nil || text != "You said:" || last.DoneReason != "length" {
		t.Errorf("%q %+v %v", text, last, err)
	}
}

func TestFullContextEndsTheAnswer(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{})
	c := official(t, srv)
	no := false
	for _, test := range []struct {
		shift  *bool
		reason string
		tokens int
	}{{nil, "stop", 30}, {&no, "length", 20}} {
		srv.Queue(ollamatest.Answer{ollamatest.Text(strings.Repeat(" word", 30))})
		_, last, err := ask(c, api.ChatRequest{Model: "test-model", Messages: user(strings.Repeat("x", 160)), Shift: test.shift, Options: map[string]any{"num_ctx": 64}})
		if err != nil || last.DoneReason != test.reason || last.EvalCount != test.tokens {
			t.Errorf("%+v %v, want %+v", last, err, test)
		}
	}
}

func TestLoadUnloadAndPs(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{})
	c := official(t, srv)
	req := api.ChatRequest{Model: "test-model", KeepAlive: &api.Duration{Duration: time.Hour}, Options: map[string]any{"num_ctx": 999999}}
	if _, last, err := ask(c, req); err != nil || last.DoneReason != "load" {
		t.Fatalf("%+v %v", last, err)
	}
	ps, err := c.ListRunning(t.Context())
	if err != nil || len(ps.Models) != 1 || ps.Models[0].ContextLength != 32768 || time.Until(ps.Models[0].ExpiresAt) < 50*time.Minute {
		t.Fatalf("%+v %v", ps, err)
	}
	if _, last, err := ask(c, api.ChatRequest{Model: "test-model", KeepAlive: &api.Duration{}}); err != nil || last.DoneReason != "unload" {
		t.Fatalf("%+v %v", last, err)
	}
	if ps, err = c.ListRunning(t.Context()); err != nil || len(ps.Models) != 0 {
		t.Errorf("%+v %v", ps, err)
	}
}

func TestModelsShowTagsPull(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{Library: []ollamatest.Model{{Name: "qwen3:8b", Size: 5000}}})
	c := official(t, srv)
	var shown []int64
	err := c.Pull(t.Context(), &api.PullRequest{Model: "qwen3:8b"}, func(p api.ProgressResponse) error {
		if p.Total > 0 {
			shown = append(shown, p.Completed, p.Total)
		}
		return nil
	})
	if err != nil || len(shown) != 12 || shown[10] != 5000 || shown[11] != 5000 {
		t.Fatalf("%v %v", shown, err)
	}
	if err := c.Pull(t.Context(), &api.PullRequest{Model: "nothing"}, func(api.ProgressResponse) error { return nil }); err == nil || !strings.Contains(err.Error(), "file does not exist") {
		t.Errorf("pull of nothing: %v", err)
	}
	list, err := c.List(t.Context())
	if err != nil || len(list.Models) != 2 || list.Models[1].Size != 5000 {
		t.Errorf("%+v %v", list, err)
	}
	show, err := c.Show(t.Context(), &api.ShowRequest{Model: "qwen3:8b"})
	if err != nil || len(show.Capabilities) != 2 || show.ModelInfo["llama.context_length"] != 32768.0 {
		t.Errorf("%+v %v", show, err)
	}
	if _, err := c.Show(t.Context(), &api.ShowRequest{Model: "nothing"}); err == nil || err.Error() != "model 'nothing' not found" {
		t.Errorf("show: %v", err)
	}
	if v, err := c.Version(t.Context()); err != nil || v != "0.17.4" {
		t.Errorf("%q %v", v, err)
	}
	if err := c.Heartbeat(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestEmbed(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{Models: []ollamatest.Model{{Name: "test-model"}, {Name: "bert", Capabilities: []string{"embedding"}}}})
	c := official(t, srv)
	r, err := c.Embed(t.Context(), &api.EmbedRequest{Model: "bert", Input: []string{"a", "b", "a"}})
	if err != nil || len(r.Embeddings) != 3 || r.Embeddings[0][0] != r.Embeddings[2][0] || r.Embeddings[0][0] == r.Embeddings[1][0] {
		t.Fatalf("%+v %v", r, err)
	}
	length := 0.0
	for _, x := range r.Embeddings[0] {
		length += float64(x * x)
	}
	if length < 0.999 || length > 1.001 {
		t.Errorf("length² %v", length)
	}
	var status api.StatusError
	if _, err = c.Embed(t.Context(), &api.EmbedRequest{Model: "test-model", Input: "a"}); !errors.As(err, &status) || status.StatusCode != 501 {
		t.Errorf("chat model: %v", err)
	}
}

func TestPlainRequests(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{})
	base, err := srv.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Close() }()
	post := func(body string) (int, string) {
		resp, err := http.Post(base+"/api/chat", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	if status, body := post(`{bad`); status != 400 || !strings.Contains(body, "invalid character 'b' looking for") {
		t.Errorf("bad JSON: %d %s", status, body)
	}
	if status, body := post(``); status != 400 || !strings.Contains(body, "missing request body") {
		t.Errorf("no body: %d %s", status, body)
	}
	// C078: arguments echoed as a string are refused for ever.
	status, body := post(`{"model":"test-model","messages":[{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}`)
	if status != 400 || !strings.Contains(body, "cannot unmarshal string into") || !strings.Contains(body, "arguments") {
		t.Errorf("arguments as string: %d %s", status, body)
	}
	srv.Queue(ollamatest.Answer{ollamatest.Raw("half a li")}, ollamatest.Answer{ollamatest.Fail("boom")},
		ollamatest.Answer{ollamatest.Text("x"), ollamatest.Fail("boom")}, ollamatest.Answer{ollamatest.Text("x"), ollamatest.Cut()},
		ollamatest.Answer{ollamatest.RefuseWith(502, "text/html", "<html>")})
	ask := `{"model":"test-model","messages":[{"role":"user","content":"x"}]}`
	if _, body := post(ask); !strings.HasPrefix(body, "half a li{") {
		t.Errorf("raw: %s", body)
	}
	if status, body := post(ask); status != 500 || body != `{"error":"boom"}`+"\n" {
		t.Errorf("failed before the first token: %d %s", status, body)
	}
	if status, body := post(ask); status != 200 || !strings.HasSuffix(body, "\n"+`{"error":"boom"}`+"\n") {
		t.Errorf("failed later: %d %s", status, body)
	}
	if status, body := post(ask); status != 200 || strings.Contains(body, `"done":true`) {
		t.Errorf("cut: %d %s", status, body)
	}
	if status, body := post(ask); status != 502 || body != "<html>" {
		t.Errorf("proxy: %d %s", status, body)
	}
}

func TestReset(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{})
	base, err := srv.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Close() }()
	srv.Queue(ollamatest.Answer{ollamatest.Text("x"), ollamatest.Reset()})
	resp, err := http.Post(base+"/api/chat", "application/json", strings.NewReader(`{"model":"test-model","messages":[{"role":"user","content":"x"}]}`))
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	if err == nil {
		t.Error("the connection was not torn")
	}
}

func TestRulesAndTheirOrder(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{Models: []ollamatest.Model{{Name: "a"}, {Name: "b"}}})
	c := official(t, srv)
	srv.OnModel("b:latest", ollamatest.Answer{ollamatest.Text("from b")})
	srv.When("hello", ollamatest.Answer{ollamatest.Text("well met")})
	srv.Queue(ollamatest.Answer{ollamatest.Text("first")})
	for _, test := range []struct{ model, text, want string }{
		{"a", "hello", "first"}, {"a", "oh hello", "well met"}, {"b", "x", "from b"}, {"a", "x", "You said: x"},
	} {
		if text, _, err := ask(c, api.ChatRequest{Model: test.model, Messages: user(test.text)}); err != nil || text != test.want {
			t.Errorf("%s %q: %q %v", test.model, test.text, text, err)
		}
	}
}

// In a bubble the model's time passes at once, and a client that leaves stops it.
func TestTimeAndLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := ollamatest.New(ollamatest.Config{Load: 5 * time.Second, FirstToken: 2 * time.Second, PerToken: time.Second})
		defer func() { _ = srv.Close() }()
		transport := &http.Transport{DialContext: srv.Dial}
		defer transport.CloseIdleConnections()
		c := api.NewClient(&url.URL{Scheme: "http", Host: "model"}, &http.Client{Transport: transport})

		srv.Queue(ollamatest.Answer{ollamatest.Text("one two three")})
		begun := time.Now()
		_, last, err := ask(c, api.ChatRequest{Model: "test-model", Messages: user("x")})
		if d := time.Since(begun); err != nil || d != 9*time.Second || last.LoadDuration != 5*time.Second || last.EvalDuration != 2*time.Second {
			t.Errorf("%v %v %+v", d, err, last.Metrics)
		}

		srv.Queue(ollamatest.Answer{ollamatest.Hang()}, ollamatest.Answer{ollamatest.Text("x"), ollamatest.Hang()})
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			left := make(chan struct{})
			go func() {
				defer close(left)
				_ = c.Chat(ctx, &api.ChatRequest{Model: "test-model", Messages: user("x")}, func(api.ChatResponse) error { return nil })
			}()
			if err := srv.Wait(t.Context(), func(s ollamatest.State) bool { return s.Active == 1 }); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			cancel()
			<-left
			if err := srv.Wait(t.Context(), func(s ollamatest.State) bool { return s.Active == 0 }); err != nil {
				t.Fatal(err)
			}
		}
		if s := srv.State(); s.Received != 3 || s.Served != 1 || s.Gone != 2 || s.Peak != 1 {
			t.Errorf("%+v", s)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := srv.Wait(ctx, func(ollamatest.State) bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: %v", err)
		}
	})
}
