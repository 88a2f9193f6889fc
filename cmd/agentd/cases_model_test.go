package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

// C024, C035: whatever was said before, and however little the model can read,
// each request carries num_ctx, begins with the system text, ends with the
// newest question, fits, and its calls and results belong together.
func TestCasesOfContext(t *testing.T) {
	for _, numCtx := range []int{2048, 2500, 3000, 4096, 8192} {
		t.Run(fmt.Sprint("C024 C035 num_ctx ", numCtx), func(t *testing.T) {
			inWorld(t, ollamatest.Config{Answer: func(r ollamatest.Request) ollamatest.Answer {
				last := r.Messages[len(r.Messages)-1]
				switch {
				case last.Role == "user" && strings.Contains(last.Content, "tools"):
					return ollamatest.Answer{ollamatest.Calls(
						ollamatest.ToolCall{Function: ollamatest.Function{Name: "word_count", Arguments: json.RawMessage(`{"text":"` + strings.Repeat("many words ", 200) + `"}`)}},
						ollamatest.ToolCall{Function: ollamatest.Function{Name: "calculator", Arguments: json.RawMessage(`{"expression":"1/0"}`)}})}
				case last.Role == "tool":
					return ollamatest.Answer{ollamatest.Text("Counted.")}
				}
				return ollamatest.Answer{ollamatest.Text(strings.Repeat("A long answer. ", 60))}
			}}, func(t *testing.T, w *world) {
				w.env["AGENT_NUM_CTX"] = fmt.Sprint(numCtx)
				w.running(t, func() {
					for i := range 30 {
						question := fmt.Sprintf("question %d: %s", i, strings.Repeat("blah ", 20*(i%7)))
						if i%3 == 1 {
							question = fmt.Sprintf("question %d with tools", i)
						}
						w.ask(question)
						pass(time.Minute)
					}
				})
				w.wellFormed(t)
				for i, r := range w.asked() {
					if got := string(r.Options["num_ctx"]); got != fmt.Sprint(numCtx) {
						t.Fatalf("request %d: num_ctx %s", i, got)
					}
					if r.Truncated || r.Tokens >= numCtx {
						t.Errorf("request %d: %d tokens of %d", i, r.Tokens, numCtx)
					}
				}
				asked := w.asked()
				if last := asked[len(asked)-1].LastUser(); !strings.Contains(last, "question 29") {
					t.Errorf("the last question is %q", last)
				}
				if n := len(w.tg.Chat(ann).FromBot()); n != 30 {
					t.Errorf("%d answers", n)
				}
			})
		})
	}
}

// C040 and its kin: a model that goes round in circles is stopped, says so once,
// and the next question works.
func TestCasesOfLoops(t *testing.T) {
	for name, call := range map[string]func(n int) ollamatest.Answer{
		"C040 the same call": func(int) ollamatest.Answer { return ollamatest.Answer{ollamatest.Call("word_count", `{"text":"ls"}`)} },
		"a call that fails": func(int) ollamatest.Answer {
			return ollamatest.Answer{ollamatest.Call("calculator", `{"expression":"1/0"}`)}
		},
		"no such tool": func(int) ollamatest.Answer { return ollamatest.Answer{ollamatest.Call("shell", `{"command":"ls"}`)} },
		"ever other calls": func(n int) ollamatest.Answer {
			return ollamatest.Answer{ollamatest.Call("calculator", fmt.Sprintf(`{"expression":"1+%d"}`, n))}
		},
		"two in turn": func(n int) ollamatest.Answer {
			return ollamatest.Answer{ollamatest.Call("word_count", fmt.Sprintf(`{"text":"%s"}`, strings.Repeat("a ", n%2+1)))}
		},
		"broken arguments": func(int) ollamatest.Answer {
			return ollamatest.Answer{ollamatest.Call("calculator", `"{\"expression\":"`)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			inWorld(t, ollamatest.Config{Answer: func(r ollamatest.Request) ollamatest.Answer {
				if strings.Contains(r.LastUser(), "next") {
					return ollamatest.Answer{ollamatest.Text("I am well.")}
				}
				n++
				return call(n)
			}}, func(t *testing.T, w *world) {
				w.running(t, func() {
					w.ask("look around")
					if asked := len(w.asked()); asked > 18 {
						t.Errorf("%d calls of the model", asked)
					}
					got := texts(w.tg.Chat(ann))
					if len(got) != 1 || !strings.Contains(got[0], "I stopped") {
						t.Errorf("the chat shows %q", got)
					}
					w.ask("next")
				})
				if got := lastOf(w.tg.Chat(ann)); got != "I am well." {
					t.Errorf("the next question gets %q", got)
				}
				w.wellFormed(t)
			})
		})
	}
}

// C078, C095: what the model's server sends, odd or broken, and what becomes of it.
func TestCasesOfStreams(t *testing.T) {
	file := func(name string) ollamatest.Answer {
		return ollamatest.Answer{ollamatest.Replay(corpus(t, "ollama", "testdata", name))}
	}
	call := ollamatest.Call("word_count", `{"text":"a b c"}`)
	for name, tc := range map[string]struct {
		answers []ollamatest.Answer // then it is fine
		runs    int                 // tools
		failure string              // in the chat instead of "Fine."
	}{
		"C078 arguments in a string": {[]ollamatest.Answer{{ollamatest.Call("word_count", `"{\"text\":\"a b c\"}"`)}}, 1, ""},
		"C078 in a string twice":     {[]ollamatest.Answer{{ollamatest.Call("word_count", `"\"{\\\"text\\\":\\\"a b c\\\"}\""`)}}, 1, ""},
		"C095 call, then nothing":    {[]ollamatest.Answer{{call, ollamatest.Tokens("")}}, 1, ""},
		"C095 call, then words":      {[]ollamatest.Answer{{call, ollamatest.Text("Let me count.")}}, 1, ""},
		"words, then call":           {[]ollamatest.Answer{{ollamatest.Text("Let me count."), call}}, 1, ""},
		"two calls, one wrong":       {[]ollamatest.Answer{{call, ollamatest.Call("nosuch", `{}`)}}, 1, ""},
		"C095 recorded call first":   {[]ollamatest.Answer{file("stream_tool_first.ndjson")}, 0, ""}, // of a tool that is not there yet,
		"C095 recorded error":        {[]ollamatest.Answer{file("stream_error_mid.ndjson")}, 0, ""},
		"C095 error midway":          {[]ollamatest.Answer{{ollamatest.Text("The half of"), ollamatest.Fail("unexpected EOF")}}, 0, ""},
		"C095 cut":                   {[]ollamatest.Answer{{ollamatest.Text("The half of"), ollamatest.Cut()}}, 0, ""},
		"C095 reset":                 {[]ollamatest.Answer{{ollamatest.Text("The half of"), ollamatest.Reset()}}, 0, ""},
		"cut after a call":           {[]ollamatest.Answer{{call, ollamatest.Cut()}}, 0, ""},
		"cut twice":                  {[]ollamatest.Answer{{ollamatest.Text("The half"), ollamatest.Cut()}, {ollamatest.Text("The other"), ollamatest.Cut()}}, 0, ""},
		"C095 cut for ever":          {[]ollamatest.Answer{{ollamatest.Text("The half"), ollamatest.Cut()}, {ollamatest.Text("The half"), ollamatest.Cut()}, {ollamatest.Text("The half"), ollamatest.Cut()}}, 0, "/retry"},
		"garbage":                    {[]ollamatest.Answer{{ollamatest.Raw("<html>\n")}}, 0, ""},
		"stops midway":               {[]ollamatest.Answer{{ollamatest.Text("The half of"), ollamatest.Hang()}}, 0, "2 min"},
		"busy":                       {[]ollamatest.Answer{{ollamatest.Refuse(503, "server busy, please try again.  maximum pending requests exceeded")}}, 0, ""},
		"the runner died":            {[]ollamatest.Answer{{ollamatest.Refuse(500, "model runner has unexpectedly stopped, this may be due to resource limitations")}}, 0, ""},
		"a gateway's page":           {[]ollamatest.Answer{{ollamatest.RefuseWith(502, "text/html", "<html>Bad Gateway</html>")}}, 0, ""},
		"refused":                    {[]ollamatest.Answer{{ollamatest.Refuse(400, "json: cannot unmarshal")}}, 0, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, says("Fine."), func(t *testing.T, w *world) {
				d := w.start(nil)
				pass(time.Second)
				w.llm.Queue(tc.answers...)
				w.ann().Send("go on")
				pass(5 * time.Minute)
				d.stop()
				want := "Fine."
				if tc.failure != "" {
					want = tc.failure
				}
				if got := texts(w.tg.Chat(ann)); len(got) != 1 || !strings.Contains(got[0], want) || strings.Contains(got[0], "half") || strings.Contains(got[0], "http://") {
					t.Errorf("the chat shows %q", got)
				}
				runs := strings.Count(d.log.String(), `"tool ran"`)
				if runs != tc.runs {
					t.Errorf("%d tools ran, want %d", runs, tc.runs)
				}
				w.wellFormed(t)
				for _, r := range w.asked() {
					for _, m := range r.Messages {
						for _, c := range m.ToolCalls {
							if !strings.HasPrefix(string(c.Function.Arguments), "{") {
								t.Errorf("arguments go back as %s", c.Function.Arguments)
							}
						}
						if m.Role == "assistant" && strings.Contains(m.Content, "half") {
							t.Errorf("half an answer is in the history: %q", m.Content)
						}
					}
				}
			})
		})
	}
}

// C088: each reason why the model cannot answer is one sentence, without
// addresses of ours but the one to look at, and all is well once it is mended.
func TestCasesOfNoModel(t *testing.T) {
	down := func(err error) func(*world, *bool) {
		return func(w *world, broken *bool) {
			w.dialOllama = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if *broken {
					return nil, &net.OpError{Op: "dial", Net: network, Err: err}
				}
				return w.llm.Dial(ctx, network, addr)
			}
		}
	}
	answers := func(step ollamatest.Step) func(*world, *bool) {
		return func(w *world, broken *bool) {
			w.llm.Script(func(r ollamatest.Request) ollamatest.Answer {
				if *broken {
					return ollamatest.Answer{step}
				}
				return nil
			})
		}
	}
	for name, tc := range map[string]struct {
		set  func(w *world, broken *bool)
		says string
	}{
		"C088 refused connection": {down(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "ollama.test:11434"},
		"C088 unknown name":       {down(&net.DNSError{Err: "no such host", Name: "ollama.test", IsNotFound: true}), "ollama.test:11434"},
		"no route":                {down(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "ollama.test:11434"},
		"C088 memory":             {answers(ollamatest.Refuse(500, "model requires more system memory (9.1 GiB) than is available (5.9 GiB)")), "9.1 GiB"},
		"C088 not found":          {answers(ollamatest.Refuse(404, "model \"x\" not found")), "ollama pull"},
		"says nothing":            {answers(ollamatest.Hang()), "10 min"},
		"embeds only":             {answers(ollamatest.Refuse(400, "\"x\" does not support chat")), "embeddings"},
		"something else":          {answers(ollamatest.Refuse(500, "something at http://127.0.0.1:39999/x broke")), "500"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, says("Fine."), func(t *testing.T, w *world) {
				broken := true
				tc.set(w, &broken)
				w.running(t, func() {
					for range 2 { // each question gets its own sentence
						w.ann().Send("well?")
						pass(15 * time.Minute)
					}
					broken = false
					pass(time.Minute)
					w.ask("/retry")
				})
				got := texts(w.tg.Chat(ann))
				if len(got) != 3 || !strings.Contains(got[0], tc.says) || got[1] != got[0] || got[2] != "Fine." {
					t.Errorf("the chat shows %q", got)
				}
			})
		})
	}
}

// C087: the model is loaded for minutes; one request waits for it, the person
// sees typing, and a configured limit ends it.
func TestLoadTimeout(t *testing.T) {
	inWorld(t, ollamatest.Config{Load: 9 * time.Minute}, func(t *testing.T, w *world) {
		w.running(t, func() {
			w.ann().Send("hello")
			pass(10 * time.Minute)
			if got := lastOf(w.tg.Chat(ann)); !strings.Contains(got, "hello") {
				t.Errorf("got %q", got)
			}
			if n := len(w.llm.Requests()); n > 2 {
				t.Errorf("%d requests", n)
			}
			typing := w.tg.Calls(bottest.Method("sendChatAction"))
			for i := range typing[1:] {
				if d := typing[i+1].At.Sub(typing[i].At); d > 5*time.Second {
					t.Errorf("no typing for %v", d)
				}
			}
		})
	})
}
