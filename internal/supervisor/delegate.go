package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/internal/agent"
)

// delegate is the tool by which the supervisor hands a task to a sub-agent. The
// child works in a session of its own, keyed by the call, so that a resumed
// parent finds the same child where it was.
type delegate struct {
	s      *Supervisor
	roster []SubAgent
	tools  map[string]agent.Tool
	spec   agent.Spec
}

// delegate gives the tool, or nothing when the roster is empty.
func (s *Supervisor) delegate(tools []agent.Tool) []agent.Tool {
	if len(s.cfg.Roster) == 0 {
		return nil
	}
	d := &delegate{s: s, roster: s.cfg.Roster, tools: map[string]agent.Tool{}}
	for _, t := range tools {
		d.tools[t.Spec().Name] = t
	}
	var names []string
	text := "Hand a task to a helper that sees only what you write in it; its result comes back to you."
	for _, a := range d.roster {
		names = append(names, a.Name)
		text += fmt.Sprintf(" %s: %s.", a.Name, strings.TrimSuffix(a.Description, "."))
	}
	enum, _ := json.Marshal(names) // strings always encode
	d.spec = agent.Spec{
		Name: "delegate", Description: text,
		Schema: json.RawMessage(`{"type":"object","properties":{"agent":{"type":"string","enum":` + string(enum) +
			`},"task":{"type":"string","description":"all it needs to know"}},"required":["agent","task"]}`),
		Effect: func(json.RawMessage) agent.Effect { return agent.Idempotent },
		Reach:  func(json.RawMessage) agent.Reach { return agent.Workspace },
	}
	return []agent.Tool{d}
}

func (d *delegate) Spec() agent.Spec { return d.spec }

func (d *delegate) Run(ctx context.Context, scope agent.Scope, call agent.Call) (agent.Result, error) {
	var args struct{ Agent, Task string }
	if err := json.Unmarshal(call.Args, &args); err != nil || strings.TrimSpace(args.Task) == "" {
		return agent.Result{}, errors.New(`delegate needs "agent" and "task", both texts`)
	}
	i := slices.IndexFunc(d.roster, func(a SubAgent) bool { return a.Name == args.Agent })
	if i < 0 {
		var names []string
		for _, a := range d.roster {
			names = append(names, a.Name)
		}
		return agent.Result{}, fmt.Errorf("there is no helper %q; there are: %s", args.Agent, strings.Join(names, ", "))
	}
	text, err := d.run(ctx, scope, call.ID, d.roster[i], args.Task)
	if err != nil && text == "" {
		if f := asFault(err); f != nil {
			return agent.Result{}, fmt.Errorf("%s could not do it: %w", args.Agent, f)
		}
		return agent.Result{}, err
	}
	if err != nil {
		text += "\n[stopped early: " + err.Error() + "]"
	}
	return agent.Result{Text: text}, nil
}

// run makes or takes up the child and gives its last words.
func (d *delegate) run(ctx context.Context, scope agent.Scope, call string, who SubAgent, task string) (string, error) {
	session, err := d.s.store.Child(ctx, scope, call, who.Name, agent.TextMessage(agent.User, task))
	if err != nil {
		return "", err
	}
	a := &agent.Agent{Name: who.Name, Model: d.s.model, ModelName: who.Model, MaxSteps: who.MaxSteps, Log: d.s.log.With("agent", who.Name)}
	for _, name := range who.Tools {
		a.Tools = append(a.Tools, d.tools[name])
	}
	t := d.s.newTranscript(&history{session: session}, scope.Turn, who.Model, agent.TextMessage(agent.System, who.Prompt), a.Tools)
	if err := t.sync(ctx); err != nil {
		return "", err
	}
	h := t.History()
	if last := h[len(h)-1]; last.Role == agent.Assistant && len(last.Calls()) == 0 {
		return last.Text(), nil // it had finished before the parent died
	}
	scope.Session = session
	reply, err := a.Run(ctx, scope, t, nil)
	text := reply.Message.Text()
	if text == "" {
		return "", err
	}
	if recorded := t.Record(ctx, reply.Message); recorded != nil {
		return "", recorded
	}
	return text, err
}
