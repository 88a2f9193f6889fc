package supervisor

import (
	"context"
	"strings"
	"testing"
	"time"

	"agentd/internal/agent"
	"agentd/internal/agent/agenttest"
)

// helping gives the delegate tool of a supervisor with one helper, and a turn to use it in.
func helping(t *testing.T, steps ...agenttest.Step) (*talk, agent.Tool, agent.Scope) {
	t.Helper()
	look := &agenttest.Tool{Name: "look", Effect: agent.ReadOnly, Func: func(context.Context, agent.Call) (agent.Result, error) { return agent.Result{Text: "a cat"}, nil }}
	k := newTalk(t, 8192, nil)
	k.model = agenttest.NewModel(steps...)
	k.Supervisor = New(k.store, windowed{k.model, 8192}, silent{}, []agent.Tool{look}, Config{
		Roster: []SubAgent{{Name: "helper", Description: "looks", Tools: []string{"look"}, MaxSteps: 1, Prompt: "You look."}},
	})
	if _, err := k.store.Accept(t.Context(), []agent.Incoming{message(1, time.Now(), "hi")}); err != nil {
		t.Fatal(err)
	}
	turn, ok, err := k.store.Claim(t.Context(), time.Now(), k.compose)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return k, k.tools[1], turn.Scope
}

func task(id, args string) agent.Call {
	return agent.Call{ID: id, Name: "delegate", Args: []byte(args)}
}

// A resumed parent finds its child where it was: one that had finished is not run again.
func TestAChildIsRunOnce(t *testing.T) {
	k, delegate, scope := helping(t, agenttest.Step{Calls: []agent.Call{agenttest.Call("look", `{}`)}}, agenttest.Step{Text: "It is a cat."}, agenttest.Step{Text: "It is a dog."})
	for range 2 {
		result, err := delegate.Run(t.Context(), scope, task("1.1.1", `{"agent":"helper","task":"what is it?"}`))
		if err != nil || !strings.HasPrefix(result.Text, "It is a cat.") {
			t.Fatalf("%q, %v", result.Text, err)
		}
	}
	asked := k.model.Asked()
	if len(asked) != 2 || asked[0].Messages[0].Text() != "You look." || asked[0].Messages[1].Text() != "what is it?" || len(asked[0].Messages) != 2 {
		t.Fatalf("asked %d times, first %v", len(asked), asked[0].Messages)
	}
	// In a session of its own: its calls are not the parent's.
	if id := asked[1].Messages[2].Calls()[0].ID; !strings.HasPrefix(id, "2.1.") {
		t.Errorf("the child's call is %s", id)
	}
	other, err := delegate.Run(t.Context(), scope, task("1.1.2", `{"agent":"helper","task":"and that?"}`))
	if err != nil || other.Text != "It is a dog." {
		t.Errorf("another call: %q, %v", other.Text, err)
	}
}

// A helper that runs out of steps says so; wrong arguments are explained to the model.
func TestDelegateTellsTheModel(t *testing.T) {
	_, delegate, scope := helping(t, agenttest.Step{Calls: []agent.Call{agenttest.Call("look", `{}`)}}, agenttest.Step{Text: "Half of it."})
	result, err := delegate.Run(t.Context(), scope, task("1.1.1", `{"agent":"helper","task":"look"}`))
	if err != nil || !strings.Contains(result.Text, "Half of it.\n[stopped early: step_limit") {
		t.Errorf("%q, %v", result.Text, err)
	}
	for args, want := range map[string]string{
		`{"agent":"cook","task":"x"}`: `no helper "cook"; there are: helper`, `{"agent":"helper","task":" "}`: `needs "agent" and "task"`, `"x"`: `needs "agent" and "task"`,
	} {
		if _, err := delegate.Run(t.Context(), scope, task("1.1.9", args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
	if _, err := delegate.Run(t.Context(), scope, task("1.1.3", `{"agent":"helper","task":"no script"}`)); err == nil {
		t.Error("a model that fails: no error")
	}
}
