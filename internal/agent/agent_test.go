package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"agentd/internal/agent"
	"agentd/internal/agent/agenttest"
)

var scope = agent.Scope{Session: 7, Turn: 3}

func user(text string) agent.Message { return agent.TextMessage(agent.User, text) }

func echo(name string, effect agent.Effect) *agenttest.Tool {
	return &agenttest.Tool{Name: name, Effect: effect, Func: func(_ context.Context, c agent.Call) (agent.Result, error) {
		return agent.Result{Text: name + string(c.Args)}, nil
	}}
}

func results(m []agent.Message) (out []string) {
	for _, m := range m {
		for _, p := range m.Parts {
			if p.Result != nil {
				out = append(out, p.Result.CallID+" "+p.Result.Text)
			}
		}
	}
	return out
}

func TestAnswerWithoutTools(t *testing.T) {
	model := agenttest.NewModel(agenttest.Step{Text: "Hello."})
	a := agent.Agent{Model: model}
	tr := agenttest.NewTranscript(user("hi"))
	reply, err := a.Run(t.Context(), scope, tr, nil)
	if err != nil || reply.Message.Text() != "Hello." {
		t.Fatalf("got %q, %v", reply.Message.Text(), err)
	}
	if n := len(tr.History()); n != 1 {
		t.Errorf("the answer was recorded by the loop: %d messages", n)
	}
}

func TestToolsRunAndReturnInCallOrder(t *testing.T) {
	second := make(chan struct{})
	slow := &agenttest.Tool{Name: "slow", Effect: agent.ReadOnly, Func: func(context.Context, agent.Call) (agent.Result, error) {
		<-second
		return agent.Result{Text: "slow"}, nil
	}}
	fails := &agenttest.Tool{Name: "fails", Effect: agent.ReadOnly, Func: func(context.Context, agent.Call) (agent.Result, error) {
		close(second)
		return agent.Result{}, errors.New("no such file")
	}}
	model := agenttest.NewModel(
		agenttest.Step{Calls: []agent.Call{agenttest.Call("slow", `{}`), agenttest.Call("fails", `{}`), agenttest.Call("unknown", `{}`)}},
		agenttest.Step{Text: "done"})
	a := agent.Agent{Model: model, Tools: []agent.Tool{slow, fails}}
	if _, err := a.Run(t.Context(), scope, agenttest.NewTranscript(user("go")), nil); err != nil {
		t.Fatal(err)
	}
	prompt := model.Asked()[1].Messages
	got := strings.Join(results(prompt), "\n")
	want := "7.3.1 slow\n7.3.2 no such file\n7.3.3 there is no tool \"unknown\"; you have: slow, fails"
	if got != want {
		t.Errorf("results\n%s\nwant\n%s", got, want)
	}
}

func TestSideEffectsRunOneAfterAnother(t *testing.T) {
	running := 0
	tool := &agenttest.Tool{Name: "act", Effect: agent.SideEffect, Func: func(context.Context, agent.Call) (agent.Result, error) {
		running++ // the race detector sees what runs side by side
		return agent.Result{Text: fmt.Sprint(running)}, nil
	}}
	model := agenttest.NewModel(agenttest.Step{Calls: []agent.Call{agenttest.Call("act", `{}`), agenttest.Call("act", `{"n":1}`)}}, agenttest.Step{Text: "ok"})
	a := agent.Agent{Model: model, Tools: []agent.Tool{tool}}
	if _, err := a.Run(t.Context(), scope, agenttest.NewTranscript(user("go")), nil); err != nil {
		t.Fatal(err)
	}
	if running != 2 {
		t.Errorf("%d runs", running)
	}
}

func TestResume(t *testing.T) {
	call := func(id, name string) agent.Part {
		return agent.Part{Call: &agent.Call{ID: id, Name: name, Args: json.RawMessage(`{}`)}}
	}
	read, act := echo("read", agent.ReadOnly), echo("act", agent.SideEffect)
	tr := agenttest.NewTranscript(user("go"),
		agent.Message{Role: agent.Assistant, Parts: []agent.Part{call("7.3.1", "read"), call("7.3.2", "act"), call("7.3.3", "read")}},
		agent.Message{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{CallID: "7.3.1", Name: "read", Text: "from before"}}}})
	model := agenttest.NewModel(agenttest.Step{Calls: []agent.Call{agenttest.Call("read", `{"again":1}`)}}, agenttest.Step{Text: "done"})
	a := agent.Agent{Model: model, Tools: []agent.Tool{read, act}}
	if _, err := a.Run(t.Context(), scope, tr, nil); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(results(agent.Arrange(tr.History())), "\n")
	want := "7.3.1 from before\n7.3.2 interrupted, outcome unknown; check before repeating\n7.3.3 read{}\n7.3.4 read{\"again\":1}"
	if got != want {
		t.Errorf("results\n%s\nwant\n%s", got, want)
	}
	if len(act.Runs()) != 0 {
		t.Error("the side effect was repeated")
	}
}

// C040: the model asks for the same thing for ever.
func TestLoopIsCut(t *testing.T) {
	same := agenttest.Step{Calls: []agent.Call{agenttest.Call("ls", `{"command":"ls"}`)}}
	tool := echo("ls", agent.SideEffect)
	for name, last := range map[string]agenttest.Step{"words at last": {Text: "I looked."}, "calls to the end": same} {
		t.Run(name, func(t *testing.T) {
			model := agenttest.NewModel(same, same, same, last)
			a := agent.Agent{Model: model, Tools: []agent.Tool{tool}}
			tr := agenttest.NewTranscript(user("look"))
			reply, err := a.Run(t.Context(), scope, tr, nil)
			var f *agent.Fault
			if !errors.As(err, &f) || f.Code != agent.FaultLoop || !errors.Is(err, agent.ErrBudget) {
				t.Fatalf("error %v", err)
			}
			if got := reply.Message.Text(); got != last.Text {
				t.Errorf("answer %q", got)
			}
			if open := agent.OpenCalls(tr.History()); len(open) != 0 {
				t.Errorf("open calls %v", open)
			}
		})
	}
}

func TestStepLimit(t *testing.T) {
	var steps []agenttest.Step
	for i := range 4 {
		steps = append(steps, agenttest.Step{Calls: []agent.Call{agenttest.Call("look", fmt.Sprintf(`{"n":%d}`, i))}})
	}
	model := agenttest.NewModel(append(steps, agenttest.Step{Text: "so far"})...)
	a := agent.Agent{Model: model, Tools: []agent.Tool{echo("look", agent.ReadOnly)}, MaxSteps: 4}
	reply, err := a.Run(t.Context(), scope, agenttest.NewTranscript(user("look")), nil)
	var f *agent.Fault
	if !errors.As(err, &f) || f.Code != agent.FaultStepLimit || reply.Message.Text() != "so far" {
		t.Fatalf("got %q, %v", reply.Message.Text(), err)
	}
}

// C026: empty, blank and thinking-only answers.
func TestEmptyAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		steps []agenttest.Step
		want  string
		fault agent.FaultCode
	}{
		"once":  {[]agenttest.Step{{Text: "\n \n"}, {Text: "Here."}}, "Here.", ""},
		"twice": {[]agenttest.Step{{}, {Text: " "}}, "", agent.FaultEmpty},
	} {
		t.Run(name, func(t *testing.T) {
			a := agent.Agent{Model: agenttest.NewModel(tc.steps...)}
			reply, err := a.Run(t.Context(), scope, agenttest.NewTranscript(user("hi")), nil)
			var f *agent.Fault
			if errors.As(err, &f) != (tc.fault != "") || f != nil && f.Code != tc.fault || reply.Message.Text() != tc.want {
				t.Errorf("got %q, %v", reply.Message.Text(), err)
			}
		})
	}
}

// C095: a broken stream is tried again, and never an answer.
func TestTransientFailures(t *testing.T) {
	broken := agenttest.Step{Err: fmt.Errorf("cut: %w", agent.ErrTransient)}
	for name, tc := range map[string]struct {
		steps []agenttest.Step
		fault agent.FaultCode
	}{
		"passes": {[]agenttest.Step{broken, broken, {Text: "there"}}, ""},
		"stays":  {[]agenttest.Step{broken, broken, broken, {Text: "never asked"}}, agent.FaultCut},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var restarts int
				a := agent.Agent{Model: agenttest.NewModel(tc.steps...)}
				reply, err := a.Run(t.Context(), scope, agenttest.NewTranscript(user("hi")), func(d agent.Delta) {
					if d.Restart {
						restarts++
					}
				})
				var f *agent.Fault
				if errors.As(err, &f) != (tc.fault != "") || f != nil && f.Code != tc.fault {
					t.Errorf("got %q, %v", reply.Message.Text(), err)
				}
				if restarts != 2 {
					t.Errorf("the watcher was told of %d restarts", restarts)
				}
			})
		})
	}
}

func TestCauseOfCancellation(t *testing.T) {
	for _, cause := range []error{agent.ErrStopped, agent.ErrShutdown, agent.ErrJoined} {
		t.Run(cause.Error(), func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			tool := &agenttest.Tool{Name: "long", Func: func(ctx context.Context, _ agent.Call) (agent.Result, error) {
				cancel(cause)
				<-ctx.Done()
				return agent.Result{}, ctx.Err()
			}}
			a := agent.Agent{Model: agenttest.NewModel(agenttest.Step{Calls: []agent.Call{agenttest.Call("long", `{}`)}}), Tools: []agent.Tool{tool}}
			tr := agenttest.NewTranscript(user("go"))
			if _, err := a.Run(ctx, scope, tr, nil); !errors.Is(err, cause) {
				t.Fatalf("error %v", err)
			}
			if n := len(agent.OpenCalls(tr.History())); n != 1 {
				t.Errorf("%d open calls: an interrupted call must stay open", n)
			}
		})
	}
}

func TestPulledMessagesFollowTheResults(t *testing.T) {
	tr := agenttest.NewTranscript(user("go"))
	tool := &agenttest.Tool{Name: "work", Func: func(context.Context, agent.Call) (agent.Result, error) {
		tr.Incoming = []agent.Message{user("and this")}
		return agent.Result{Text: "worked"}, nil
	}}
	model := agenttest.NewModel(agenttest.Step{Calls: []agent.Call{agenttest.Call("work", `{}`)}}, agenttest.Step{Text: "both"})
	a := agent.Agent{Model: model, Tools: []agent.Tool{tool}}
	if _, err := a.Run(t.Context(), scope, tr, nil); err != nil {
		t.Fatal(err)
	}
	asked := model.Asked()[1].Messages
	if got := asked[len(asked)-1].Text(); got != "and this" {
		t.Errorf("last message %q", got)
	}
}

func TestAPanicIsAToolError(t *testing.T) {
	tool := &agenttest.Tool{Name: "bad", Func: func(context.Context, agent.Call) (agent.Result, error) { panic("nil map") }}
	model := agenttest.NewModel(agenttest.Step{Calls: []agent.Call{agenttest.Call("bad", `{}`)}}, agenttest.Step{Text: "sorry"})
	a := agent.Agent{Model: model, Tools: []agent.Tool{tool}}
	tr := agenttest.NewTranscript(user("go"))
	if _, err := a.Run(t.Context(), scope, tr, nil); err != nil {
		t.Fatal(err)
	}
	if got := results(tr.History()); len(got) != 1 || !strings.Contains(got[0], "the tool bad broke: nil map") {
		t.Errorf("results %q", got)
	}
}

// C035: wherever a history is cut, what is sent is well formed.
func TestArrangeIsWellFormedAtEveryCut(t *testing.T) {
	var h []agent.Message
	for i := range 4 {
		c := func(n int) agent.Part {
			return agent.Part{Call: &agent.Call{ID: fmt.Sprintf("%d-%d", i, n), Name: "x"}}
		}
		r := func(n int) agent.Message {
			return agent.Message{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{CallID: fmt.Sprintf("%d-%d", i, n)}}}}
		}
		h = append(h, user("q"), agent.Message{Role: agent.Assistant, Parts: []agent.Part{c(1), c(2)}}, r(2), r(1), agent.TextMessage(agent.Assistant, "a"))
	}
	for from := range h {
		for to := from; to <= len(h); to++ {
			var want []string
			for _, m := range agent.Arrange(h[from:to]) {
				for _, p := range m.Parts {
					switch {
					case p.Call != nil:
						want = append(want, p.Call.ID)
					case p.Result != nil:
						if len(want) == 0 || want[0] != p.Result.CallID {
							t.Fatalf("[%d:%d] result %s, open are %v", from, to, p.Result.CallID, want)
						}
						want = want[1:]
					case len(want) > 0:
						t.Fatalf("[%d:%d] calls %v have no results", from, to, want)
					}
				}
			}
			if len(want) > 0 {
				t.Fatalf("[%d:%d] calls %v have no results", from, to, want)
			}
		}
	}
}

// A thousand calls in one message are a model gone wrong, and so is a name of a megabyte.
func TestCallsInOneMessageAreBounded(t *testing.T) {
	calls := []agent.Call{agenttest.Call(strings.Repeat("n", 1<<20), `{}`)}
	for i := range 1000 {
		calls = append(calls, agenttest.Call("look", fmt.Sprint(i)))
	}
	look := echo("look", agent.ReadOnly)
	a := agent.Agent{Model: agenttest.NewModel(agenttest.Step{Text: "So.", Calls: calls}, agenttest.Step{Text: "Done."}), Tools: []agent.Tool{look}}
	tr := agenttest.NewTranscript(user("hi"))
	reply, err := a.Run(t.Context(), scope, tr, nil)
	if err != nil || reply.Message.Text() != "Done." {
		t.Fatalf("got %q, %v", reply.Message.Text(), err)
	}
	if n := len(look.Runs()); n != 31 {
		t.Errorf("%d calls ran", n)
	}
	step := tr.History()[1]
	if n := len(step.Calls()); n != 32 || step.Text() != "So." {
		t.Errorf("%d calls are in the history, beside %q", n, step.Text())
	}
	for _, r := range results(tr.History()) {
		if len(r) > 1000 {
			t.Errorf("a result of %d bytes", len(r))
		}
	}
}

// An answer that ran into the model's limit is not passed off as a whole one.
func TestACutAnswerSaysSo(t *testing.T) {
	a := agent.Agent{Model: agenttest.NewModel(agenttest.Step{Text: "First, you", Cut: true})}
	reply, err := a.Run(t.Context(), scope, agenttest.NewTranscript(user("hi")), nil)
	var f *agent.Fault
	if reply.Message.Text() != "First, you" || !errors.As(err, &f) || f.Code != agent.FaultUnfinished {
		t.Errorf("got %q, %v", reply.Message.Text(), err)
	}
}

// squeezed is a transcript that notes how tight the prompts had to be.
type squeezed struct {
	*agenttest.Transcript
	tight []int
}

func (s *squeezed) Prompt(ctx context.Context, tighter int) ([]agent.Message, error) {
	s.tight = append(s.tight, tighter)
	return s.Transcript.Prompt(ctx, tighter)
}

// A prompt that the model refuses as too long is made shorter twice, then given up.
func TestTooLongIsTriedShorter(t *testing.T) {
	refused := agenttest.Step{Err: fmt.Errorf("400: %w", agent.ErrTooLong)}
	for _, tc := range []struct {
		steps []agenttest.Step
		tight []int
		want  error
	}{
		{[]agenttest.Step{refused, refused, {Text: "fits"}}, []int{0, 1, 2}, nil},
		{[]agenttest.Step{refused, refused, refused, {Text: "never"}}, []int{0, 1, 2}, agent.ErrTooLong},
	} {
		tr := &squeezed{Transcript: agenttest.NewTranscript(user("hi"))}
		a := agent.Agent{Model: agenttest.NewModel(tc.steps...)}
		if _, err := a.Run(t.Context(), scope, tr, nil); !errors.Is(err, tc.want) || !slices.Equal(tr.tight, tc.tight) {
			t.Errorf("%v, prompts %v", err, tr.tight)
		}
	}
}

// A tool that says that the turn is over ends it; its call stays open.
func TestToolsMayEndTheTurn(t *testing.T) {
	for _, end := range []error{agent.ErrStopped, agent.ErrShutdown} {
		tool := &agenttest.Tool{Name: "x", Func: func(context.Context, agent.Call) (agent.Result, error) {
			return agent.Result{}, fmt.Errorf("in the child: %w", end)
		}}
		tr := agenttest.NewTranscript(user("hi"))
		a := agent.Agent{Model: agenttest.NewModel(agenttest.Step{Calls: []agent.Call{agenttest.Call("x", `{}`)}}), Tools: []agent.Tool{tool}}
		if _, err := a.Run(t.Context(), scope, tr, nil); !errors.Is(err, end) || len(agent.OpenCalls(tr.History())) != 1 {
			t.Errorf("%v, open: %v", err, agent.OpenCalls(tr.History()))
		}
	}
}

// Only the newest message's calls are open, and only while nothing but results follows.
func TestOpenCalls(t *testing.T) {
	call := agent.Call{ID: "1"}
	step := agent.Message{Role: agent.Assistant, Parts: []agent.Part{{Call: &call}}}
	result := agent.Message{Role: agent.ToolRole, Parts: []agent.Part{{Result: &agent.Result{CallID: "1"}}}}
	for name, tc := range map[string]struct {
		history []agent.Message
		open    int
	}{
		"at the end":        {[]agent.Message{user("a"), step}, 1},
		"answered":          {[]agent.Message{user("a"), step, result}, 0},
		"before a question": {[]agent.Message{user("a"), step, user("b")}, 0},
		"nothing":           {nil, 0},
	} {
		if got := agent.OpenCalls(tc.history); len(got) != tc.open {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// C019, C022, C080, C083: calls and thoughts that the server left in the text.
func TestCallsAndThoughtsInTheText(t *testing.T) {
	tool := echo("read_file", agent.ReadOnly)
	model := agenttest.NewModel(
		agenttest.Step{Text: "<think>I could call <tool_call></think>\nI look.\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}\n</tool_call>"},
		agenttest.Step{Text: `{"name": "Skill", "arguments": {"name": "none"}}`},
		agenttest.Step{Text: "<think>done</think>The notes say: `{\"name\": \"read_file\", \"arguments\": {}}` is a call."})
	a := agent.Agent{Model: model, Tools: []agent.Tool{tool}}
	tr := agenttest.NewTranscript(user("what do my notes say?"))
	reply, err := a.Run(t.Context(), scope, tr, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := reply.Message.Text(); got != "The notes say: `{\"name\": \"read_file\", \"arguments\": {}}` is a call." {
		t.Errorf("answer %q", got)
	}
	if runs := tool.Runs(); len(runs) != 1 || string(runs[0].Args) != `{"path":"notes.txt"}` {
		t.Errorf("ran %v", runs)
	}
	if got := results(tr.History()); len(got) != 2 || !strings.Contains(got[1], `there is no tool "Skill"; you have: read_file`) {
		t.Errorf("results %q", got)
	}
	for _, m := range tr.History() {
		if text := m.Text(); strings.Contains(text, "think") || strings.Contains(text, "tool_call") {
			t.Errorf("the history keeps %q", text)
		}
	}
}

// C084: what a model leaves on the names of native calls.
func TestNamesOfNativeCalls(t *testing.T) {
	tool := echo("read_file", agent.ReadOnly)
	model := agenttest.NewModel(
		agenttest.Step{Calls: []agent.Call{agenttest.Call("read_file<|channel|>commentary", `{"path":"a"}`), agenttest.Call("functions.read_file", `{"path":"b"}`), agenttest.Call("read_mail", `{}`)}},
		agenttest.Step{Text: "done"})
	a := agent.Agent{Model: model, Tools: []agent.Tool{tool}}
	tr := agenttest.NewTranscript(user("look"))
	if _, err := a.Run(t.Context(), scope, tr, nil); err != nil {
		t.Fatal(err)
	}
	if n := len(tool.Runs()); n != 2 {
		t.Errorf("%d runs", n)
	}
	var names []string
	for _, c := range tr.History()[1].Calls() {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); got != "read_file read_file read_mail" {
		t.Errorf("the history has %s", got)
	}
}
