package ollama_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/agent"
	"agentd/internal/ollama"
	"agentd/internal/ollama/ollamatest"
)

// connect returns a client of a server over TCP.
func connect(t testing.TB, srv *ollamatest.Server, config ollama.Config) *ollama.Client {
	t.Helper()
	base, err := srv.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	config.Host = base
	return open(t, config)
}

// pipe returns a client of a server in memory, for synctest.
func pipe(t testing.TB, srv *ollamatest.Server, config ollama.Config) *ollama.Client {
	t.Helper()
	t.Cleanup(func() { _ = srv.Close() })
	config.Host, config.Dial = "http://model", srv.Dial
	return open(t, config)
}

func open(t testing.TB, config ollama.Config) *ollama.Client {
	t.Helper()
	c, err := ollama.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func text(role agent.Role, s string) agent.Message {
	return agent.Message{Role: role, Parts: []agent.Part{{Text: s}}}
}

func question(s string) agent.Request {
	return agent.Request{Messages: []agent.Message{text(agent.System, "rules"), text(agent.User, s)}}
}

// said returns the text of a reply.
func said(r agent.Reply) string {
	var b strings.Builder
	for _, p := range r.Message.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

func calls(r agent.Reply) (list []agent.Call) {
	for _, p := range r.Message.Parts {
		if p.Call != nil {
			list = append(list, *p.Call)
		}
	}
	return list
}

func corpus(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestGenerateStreams(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{})
	c := connect(t, srv, ollama.Config{})
	srv.Queue(ollamatest.Answer{ollamatest.Think("Let me see."), ollamatest.Text("It is noon."), ollamatest.Call("f", `{"n":12345678901234567890}`), ollamatest.Call("g", `{}`)})
	var shown, thought string
	reply, err := c.Generate(t.Context(), question("What time is it?"), func(d agent.Delta) { shown += d.Text; thought += d.Thought })
	if err != nil {
		t.Fatal(err)
	}
	if said(reply) != "It is noon." || shown != "It is noon." || thought != "Let me see." {
		t.Errorf("said %q, shown %q, thought %q", said(reply), shown, thought)
	}
	got := calls(reply)
	if len(got) != 2 || got[0].Name != "f" || string(got[0].Args) != `{"n":12345678901234567890}` || got[1].Name != "g" || got[0].ID != "call_00000001" {
		t.Errorf("calls: %+v", got)
	}
	if reply.Message.Role != agent.Assistant || reply.Cut || reply.Usage.Prompt == 0 || reply.Usage.Output != 8 {
		t.Errorf("%+v", reply)
	}
}

func TestRequestOnTheWire(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{Models: []ollamatest.Model{{Name: "m", Capabilities: []string{"completion", "tools", "vision"}}}})
	c := connect(t, srv, ollama.Config{Model: "m", Options: json.RawMessage(`{"temperature":0,"seed":9007199254740993,"num_ctx":5}`)})
	req := agent.Request{
		Messages: []agent.Message{
			{Role: agent.User, Parts: []agent.Part{{Text: "one <b>"}, {Text: "two"}, {Image: &agent.Image{Data: []byte("png")}}}},
			text(agent.System, "rules"),
			{Role: agent.Assistant, Parts: []agent.Part{{Text: "I look."}, {Call: &agent.Call{ID: "c1", Name: "f", Args: json.RawMessage(`{"id":12345678901234567890}`)}},
				{Call: &agent.Call{ID: "c2", Name: "g", Args: json.RawMessage(`"{broken"`)}}, {Call: &agent.Call{ID: "c3", Name: "h"}}}},
			{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{CallID: "c1", Name: "f", Text: "fine", Images: []agent.Image{{Data: []byte("jpg")}}}},
				{Result: &agent.Result{CallID: "c2", Name: "g", Text: "no such file", IsError: true}}}},
			{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{CallID: "c3", Name: "h", Text: "error: no", IsError: true}}}},
		},
		Tools: []agent.Spec{{Name: "f", Description: "does f", Schema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer","minimum":1}},"additionalProperties":false}`)}, {Name: "h"}},
	}
	for range 2 {
		if _, err := c.Generate(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
	}
	const want = `{"model":"m","stream":true,"keep_alive":"30m0s","truncate":false,"shift":false,` +
		`"options":{"num_ctx":16384,"seed":9007199254740993,"temperature":0},` +
		`"tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object","properties":{"id":{"type":"integer","minimum":1}},"additionalProperties":false}}},` +
		`{"type":"function","function":{"name":"h","description":"","parameters":{"type":"object","properties":{}}}}],` +
		`"messages":[{"role":"system","content":"rules"},` +
		`{"role":"user","content":"one <b>\n\ntwo","images":["cG5n"]},` +
		`{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","function":{"name":"f","arguments":{"id":12345678901234567890}}},` +
		`{"id":"c2","function":{"name":"g","arguments":{"invalid_arguments":"{broken"}}},{"id":"c3","function":{"name":"h","arguments":{}}}]},` +
		`{"role":"tool","content":"fine","images":["anBn"],"tool_name":"f","tool_call_id":"c1"},` +
		`{"role":"tool","content":"Error: no such file","tool_name":"g","tool_call_id":"c2"},` +
		`{"role":"tool","content":"error: no","tool_name":"h","tool_call_id":"c3"}]}`
	for i, r := range srv.Requests() {
		if string(r.Body) != want {
			t.Errorf("request %d:\n%s\nwant\n%s", i, r.Body, want)
		}
	}
}

// The next request of a conversation begins with nearly all bytes of the last
// one: only what closes the list of messages differs.
func TestNextRequestBeginsAsTheLast(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{})
	c := connect(t, srv, ollama.Config{})
	req := question("first")
	req.Tools = []agent.Spec{{Name: "f", Description: "does f"}}
	for range 4 {
		reply, err := c.Generate(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Messages = append(slices.Clone(req.Messages), reply.Message, text(agent.User, "and then?"))
	}
	requests := srv.Requests()
	for i := range len(requests) - 1 {
		prefix, _ := strings.CutSuffix(string(requests[i].Body), "]}")
		if !strings.HasPrefix(string(requests[i+1].Body), prefix) {
			t.Errorf("request %d does not begin as the one before:\n%s\n%s", i+1, prefix, requests[i+1].Body)
		}
	}
}

// C024: num_ctx goes with every request, whatever the model or the options say.
func TestNumCtxIsAlwaysSent(t *testing.T) {
	for name, test := range map[string]struct {
		numCtx, model, want int
	}{
		"configured":         {numCtx: 8192, model: 131072, want: 8192},
		"by default at most": {model: 131072, want: 16384},
		"small model":        {model: 2048, want: 2048},
		"more than it has":   {numCtx: 65536, model: 8192, want: 8192},
	} {
		t.Run(name, func(t *testing.T) {
			srv := ollamatest.New(ollamatest.Config{Models: []ollamatest.Model{{Name: "m", ContextLength: test.model}}})
			c := connect(t, srv, ollama.Config{NumCtx: test.numCtx})
			if _, err := c.Generate(t.Context(), question("x"), nil); err != nil {
				t.Fatal(err)
			}
			if err := c.WarmUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, r := range srv.Requests() {
				var got int
				if err := json.Unmarshal(r.Options["num_ctx"], &got); err != nil || got != test.want || r.Truncate || r.Shift {
					t.Errorf("num_ctx %d (%v), want %d; truncate %v shift %v", got, err, test.want, r.Truncate, r.Shift)
				}
			}
			if got, err := c.Limits(t.Context(), ""); err != nil || got != test.want {
				t.Errorf("Limits %d %v", got, err)
			}
			running, err := c.Running(t.Context())
			if err != nil || len(running) != 1 || running[0].Context != test.want || running[0].VRAM != 0.5 {
				t.Errorf("running: %+v %v", running, err)
			}
		})
	}
}

func TestRecordedAnswers(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{})
	c := connect(t, srv, ollama.Config{})
	replay := func(t *testing.T, file string) (agent.Reply, string, error) {
		srv.Queue(ollamatest.Answer{ollamatest.Replay(corpus(t, file))})
		var thought string
		reply, err := c.Generate(t.Context(), question("x"), func(d agent.Delta) { thought += d.Thought })
		return reply, thought, err
	}
	oneCall := func(t *testing.T, reply agent.Reply, err error) {
		t.Helper()
		got := calls(reply)
		if err != nil || len(got) != 1 || got[0].Name != "read_file" {
			t.Fatalf("%+v %v", got, err)
		}
		var args struct{ Path string }
		if err := json.Unmarshal(got[0].Args, &args); err != nil || args.Path != "notes.txt" {
			t.Errorf("arguments %s", got[0].Args)
		}
	}
	t.Run("C078 arguments as a string", func(t *testing.T) {
		reply, _, err := replay(t, "ollama_args_string.json")
		oneCall(t, reply, err)
		// The next request carries them as an object, which the server takes.
		req := question("x")
		req.Messages = append(req.Messages, reply.Message, agent.Message{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{CallID: calls(reply)[0].ID, Name: "read_file", Text: "ok"}}}})
		if _, err := c.Generate(t.Context(), req, nil); err != nil {
			t.Error(err)
		}
	})
	t.Run("C095 call in the first chunk", func(t *testing.T) {
		reply, _, err := replay(t, "stream_tool_first.ndjson")
		oneCall(t, reply, err)
	})
	t.Run("C095 error in mid-stream", func(t *testing.T) {
		reply, _, err := replay(t, "stream_error_mid.ndjson")
		if !errors.Is(err, agent.ErrTransient) || len(reply.Message.Parts) != 0 {
			t.Errorf("%+v %v", reply, err)
		}
	})
	t.Run("C026 thinking only", func(t *testing.T) {
		reply, thought, err := replay(t, "ollama_thinking_only.json")
		if err != nil || len(reply.Message.Parts) != 0 || thought != "I have finished the job." {
			t.Errorf("%+v %q %v", reply, thought, err)
		}
	})
}

// What is no JSON object stays with the call, in a form that can be stored.
func TestBrokenArguments(t *testing.T) {
	for wire, want := range map[string]string{
		`{"a": 1e400, "b": 12345678901234567890}`: `{"a": 1e400, "b": 12345678901234567890}`,
		`"{\"a\": 1}"`:         `{"a":1}`,
		`"\"{\\\"a\\\": 1}\""`: `{"a":1}`,
		`""`:                   `{}`,
		`null`:                 `{}`,
		`"{\"a\": <b"`:         `"{\"a\": <b"`,
		`[1]`:                  `"[1]"`,
		`"text"`:               `"text"`,
		`17`:                   `"17"`,
	} {
		srv := ollamatest.New(ollamatest.Config{})
		c := connect(t, srv, ollama.Config{})
		srv.Queue(ollamatest.Answer{ollamatest.Replay(`{"message":{"tool_calls":[{"function":{"name":"f","arguments":` + wire + `}}]},"done":true}` + "\n")})
		reply, err := c.Generate(t.Context(), question("x"), nil)
		if err != nil {
			t.Errorf("%s: %v", wire, err)
			continue
		}
		got := calls(reply)[0]
		if string(got.Args) != want || !json.Valid(got.Args) {
			t.Errorf("%s: got %s, want %s", wire, got.Args, want)
		}
		req := question("x")
		req.Messages = append(req.Messages, reply.Message)
		if _, err := c.Generate(t.Context(), req, nil); err != nil {
			t.Errorf("%s: the server refuses the history: %v", wire, err)
		}
	}
}

func TestCutStreams(t *testing.T) {
	half := ollamatest.Raw(`{"message":{"content":"never shown`)
	for name, answer := range map[string]ollamatest.Answer{
		"clean end":        {ollamatest.Text("half of it"), ollamatest.Cut()},
		"nothing at all":   {ollamatest.Cut()},
		"reset":            {ollamatest.Text("half of it"), ollamatest.Reset()},
		"reset at once":    {ollamatest.Reset()},
		"end in mid-line":  {ollamatest.Text("half of it"), half, ollamatest.Cut()},
		"torn in mid-line": {ollamatest.Text("half of it"), half, ollamatest.Reset()},
		"garbage":          {ollamatest.Text("half of it"), ollamatest.Raw("<html>\n"), ollamatest.Text("more")},
		"error line":       {ollamatest.Text("half of it"), ollamatest.Fail("model runner has unexpectedly stopped")},
		"error first":      {ollamatest.Fail("model runner has unexpectedly stopped")},
		"error as object":  {ollamatest.Raw(`{"error":{"message":"overloaded"}}` + "\n")},
		"endless line":     {ollamatest.Tokens(strings.Repeat("x", 17<<20))},
	} {
		t.Run(name, func(t *testing.T) {
			srv := ollamatest.New(ollamatest.Config{})
			c := connect(t, srv, ollama.Config{})
			srv.Queue(answer)
			reply, err := c.Generate(t.Context(), question("x"), func(agent.Delta) {})
			if !errors.Is(err, agent.ErrTransient) || len(reply.Message.Parts) != 0 {
				t.Errorf("%+v %v", reply, err)
			}
			if strings.Contains(err.Error(), "never shown") {
				t.Errorf("the error holds text of the answer: %v", err)
			}
			// The client is as good as new.
			if reply, err = c.Generate(t.Context(), question("x"), nil); err != nil || said(reply) != "You said: x" {
				t.Errorf("afterwards: %+v %v", reply, err)
			}
		})
	}
}

func TestLongLine(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{})
	c := connect(t, srv, ollama.Config{})
	srv.Queue(ollamatest.Answer{ollamatest.Raw(`{"message":{"content":"` + strings.Repeat("x", 9<<20) + `"},"done":true}` + "\n"), ollamatest.Cut()}, ollamatest.Answer{ollamatest.Raw("\n \r\n"), ollamatest.Raw(`{"message":{"content":"no break at the end"},"done":true}`), ollamatest.Cut()})
	if reply, err := c.Generate(t.Context(), question("x"), nil); err != nil || len(said(reply)) != 9<<20 {
		t.Errorf("%d bytes, %v", len(said(reply)), err)
	}
	if reply, err := c.Generate(t.Context(), question("x"), nil); err != nil || said(reply) != "no break at the end" {
		t.Errorf("%+v %v", reply, err)
	}
}

func TestOutputLimit(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{})
	c := connect(t, srv, ollama.Config{Options: json.RawMessage(`{"num_predict":2}`)})
	if reply, err := c.Generate(t.Context(), question("x"), nil); err != nil || !reply.Cut || said(reply) != "You said:" {
		t.Errorf("%+v %v", reply, err)
	}
}

// C087: a model may load for minutes; the one request waits.
func TestSlowFirstToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := ollamatest.New(ollamatest.Config{Load: 90 * time.Second, PerToken: 100 * time.Second})
		c := pipe(t, srv, ollama.Config{})
		begun := time.Now()
		reply, err := c.Generate(t.Context(), question("x"), nil)
		if err != nil || said(reply) != "You said: x" || time.Since(begun) != 290*time.Second {
			t.Errorf("%+v %v after %v", reply, err, time.Since(begun))
		}
		if n := len(srv.Requests()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestTimeouts(t *testing.T) {
	for name, test := range map[string]struct {
		config ollama.Config
		answer ollamatest.Answer
		code   agent.FaultCode
		limit  string
		after  time.Duration
	}{
		"no first token":      {ollama.Config{}, ollamatest.Answer{ollamatest.Hang()}, agent.FaultLoadTimeout, "10m", 10 * time.Minute},
		"none, as configured": {ollama.Config{LoadTimeout: 90 * time.Second}, ollamatest.Answer{ollamatest.Hang()}, agent.FaultLoadTimeout, "1m30s", 90 * time.Second},
		"no next token":       {ollama.Config{}, ollamatest.Answer{ollamatest.Wait(time.Minute), ollamatest.Text("a"), ollamatest.Hang()}, agent.FaultIdleTimeout, "2m", 3 * time.Minute},
		"no next, configured": {ollama.Config{IdleTimeout: time.Hour}, ollamatest.Answer{ollamatest.Text("a b"), ollamatest.Hang()}, agent.FaultIdleTimeout, "1h", time.Hour},
		"half a line":         {ollama.Config{}, ollamatest.Answer{ollamatest.Text("a"), ollamatest.Raw(`{"me`), ollamatest.Hang()}, agent.FaultIdleTimeout, "2m", 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := ollamatest.New(ollamatest.Config{})
				c := pipe(t, srv, test.config)
				srv.Queue(test.answer)
				begun := time.Now()
				_, err := c.Generate(t.Context(), question("x"), nil)
				var f *agent.Fault
				if !errors.As(err, &f) || f.Code != test.code || f.Args["limit"] != test.limit || errors.Is(err, agent.ErrTransient) {
					t.Fatalf("%v", err)
				}
				if d := time.Since(begun); d != test.after {
					t.Errorf("after %v, want %v", d, test.after)
				}
				if err := srv.Wait(t.Context(), func(s ollamatest.State) bool { return s.Gone == 1 }); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// A server that says done and keeps the connection open costs a second at most.
func TestServerHoldsTheEndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := ollamatest.New(ollamatest.Config{})
		c := pipe(t, srv, ollama.Config{})
		srv.Queue(ollamatest.Answer{ollamatest.Raw(`{"message":{"content":"all"},"done":true}` + "\n"), ollamatest.Hang()})
		begun := time.Now()
		if reply, err := c.Generate(t.Context(), question("x"), nil); err != nil || said(reply) != "all" || time.Since(begun) > time.Second {
			t.Errorf("%+v %v after %v", reply, err, time.Since(begun))
		}
	})
}

func TestCallerCancels(t *testing.T) {
	for name, answer := range map[string]ollamatest.Answer{
		"before the first token": {ollamatest.Hang()},
		"in mid-stream":          {ollamatest.Text("a"), ollamatest.Hang()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := ollamatest.New(ollamatest.Config{})
				c := pipe(t, srv, ollama.Config{})
				srv.Queue(answer)
				ctx, cancel := context.WithCancelCause(t.Context())
				failed := make(chan error, 1)
				go func() {
					_, err := c.Generate(ctx, question("x"), nil)
					failed <- err
				}()
				if err := srv.Wait(t.Context(), func(s ollamatest.State) bool { return s.Active == 1 }); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				cancel(agent.ErrStopped)
				if err := <-failed; !errors.Is(err, agent.ErrStopped) {
					t.Error(err)
				}
				if err := srv.Wait(t.Context(), func(s ollamatest.State) bool { return s.Gone == 1 }); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
	t.Run("deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := ollamatest.New(ollamatest.Config{})
			c := pipe(t, srv, ollama.Config{})
			srv.Queue(ollamatest.Answer{ollamatest.Hang()})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := c.Generate(ctx, question("x"), nil); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, agent.ErrTransient) {
				t.Error(err)
			}
		})
	})
}

// C031, C071: one request at a time unless configured, in the order of arrival,
// and who gives up waiting takes no slot.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := ollamatest.New(ollamatest.Config{PerToken: time.Second})
		c := pipe(t, srv, ollama.Config{Model: "test-model", Parallel: 2})
		if _, err := c.Limits(t.Context(), ""); err != nil { // asks /api/show
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 10)
		for i, name := range []string{"a", "b", "c", "gone", "d", "e", "f", "g"} {
			use := t.Context()
			if name == "gone" {
				use = ctx
			}
			go func() {
				_, err := c.Generate(use, question(name), nil)
				done <- err
			}()
			synctest.Wait()
			if want := min(i+1, 2); srv.State().Active != want {
				t.Errorf("%d requests at a time, want %d", srv.State().Active, want)
			}
		}
		cancel(agent.ErrStopped)
		for range 8 {
			if err := <-done; err != nil && !errors.Is(err, agent.ErrStopped) {
				t.Error(err)
			}
		}
		var order string
		for _, r := range srv.Requests() {
			order += r.LastUser()
		}
		// Two are let in at the same moment, and may overtake each other on the wire.
		b := []byte(order)
		for i := 0; i+1 < len(b); i += 2 {
			slices.Sort(b[i : i+2])
		}
		if string(b) != "abcdefg" || srv.State().Peak != 2 {
			t.Errorf("order %s, at most %d at a time", order, srv.State().Peak)
		}
	})
}

// The connections of a wave of requests serve the next one.
func TestIdleConnectionsAreReused(t *testing.T) {
	const wave = 10
	srv := ollamatest.New(ollamatest.Config{})
	t.Cleanup(func() { _ = srv.Close() })
	var dials atomic.Int32
	c := open(t, ollama.Config{Host: "model", Model: "test-model", Parallel: wave, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return srv.Dial(ctx, network, address)
	}})
	if _, err := c.Limits(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		all := make(chan struct{})
		var group sync.WaitGroup
		for range wave {
			srv.Queue(ollamatest.Answer{ollamatest.Until(all), ollamatest.Text("done")})
			group.Go(func() {
				if _, err := c.Generate(t.Context(), question("x"), nil); err != nil {
					t.Error(err)
				}
			})
		}
		if err := srv.Wait(t.Context(), func(s ollamatest.State) bool { return s.Active == wave }); err != nil {
			t.Fatal(err)
		}
		close(all)
		group.Wait()
		// The server's count may lag behind what the clients have read.
		if err := srv.Wait(t.Context(), func(s ollamatest.State) bool { return s.Active == 0 }); err != nil {
			t.Fatal(err)
		}
	}
	if n := dials.Load(); n != wave {
		t.Errorf("%d connections for waves of %d", n, wave)
	}
}

func BenchmarkGenerate(b *testing.B) {
	srv := ollamatest.New(ollamatest.Config{Forget: true})
	c := connect(b, srv, ollama.Config{Model: "test-model"})
	answer := ollamatest.Answer{ollamatest.Text(strings.Repeat("word ", 30))}
	srv.Script(func(ollamatest.Request) ollamatest.Answer { return answer })
	req := question("x")
	for range 20 {
		req.Messages = append(req.Messages, text(agent.Assistant, strings.Repeat("An answer. ", 30)), text(agent.User, strings.Repeat("A question? ", 10)))
	}
	req.Tools = []agent.Spec{{Name: "f", Description: strings.Repeat("does f ", 20)}, {Name: "g"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Generate(b.Context(), req, func(agent.Delta) {}); err != nil {
			b.Fatal(err)
		}
	}
}

// A stream without end is cut off, whatever it is made of.
func TestEndlessAnswers(t *testing.T) {
	for name, line := range map[string]string{
		"text":     `{"message":{"content":"and so on, "}}`,
		"thoughts": `{"message":{"thinking":"but wait, "}}`,
		"nothing":  `{"message":{"content":""}}`,
		"calls":    `{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":"b"}}}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			srv := ollamatest.New(ollamatest.Config{})
			c := connect(t, srv, ollama.Config{NumCtx: 64})
			srv.Queue(ollamatest.Answer{ollamatest.Raw(strings.Repeat(line+"\n", 1000)), ollamatest.Hang()})
			reply, err := c.Generate(t.Context(), question("tell"), nil)
			if err != nil || !reply.Cut || len(said(reply)) > 64*64 {
				t.Errorf("%d bytes, cut: %v, %v", len(said(reply)), reply.Cut, err)
			}
		})
	}
}

// Some servers send an empty error with every chunk.
func TestAnEmptyErrorIsNone(t *testing.T) {
	for _, none := range []string{`null`, `""`} {
		srv := ollamatest.New(ollamatest.Config{})
		c := connect(t, srv, ollama.Config{})
		srv.Queue(ollamatest.Answer{ollamatest.Replay(`{"message":{"content":"fine"},"error":` + none + "}\n" + `{"done":true,"error":` + none + "}\n")})
		if reply, err := c.Generate(t.Context(), question("hi"), nil); err != nil || said(reply) != "fine" {
			t.Errorf("%s: %q, %v", none, said(reply), err)
		}
	}
}
