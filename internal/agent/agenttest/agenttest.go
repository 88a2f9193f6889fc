// Package agenttest has what tests of the loop and of its neighbours need: a
// scripted model, tools whose every step the test controls, and a transcript in
// memory.
package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"agentd/internal/agent"
)

// Model answers from a script, one step a call, and remembers what it was asked.
type Model struct {
	mu    sync.Mutex
	steps []Step
	asked []agent.Request
}

// Step is one scripted reply: text, calls or an error. With Hang it waits until ctx ends.
type Step struct {
	Text  string
	Calls []agent.Call
	Err   error
	Hang  bool
	Cut   bool // the reply ran into the output limit
}

// NewModel makes a model that plays the steps; after the last it fails.
func NewModel(steps ...Step) *Model { return &Model{steps: steps} }

// Generate implements agent.Model.
func (m *Model) Generate(ctx context.Context, req agent.Request, watch func(agent.Delta)) (agent.Reply, error) {
	m.mu.Lock()
	req.Messages = slices.Clone(req.Messages)
	m.asked = append(m.asked, req)
	if len(m.steps) == 0 {
		m.mu.Unlock()
		return agent.Reply{}, errors.New("agenttest: the script is over")
	}
	step := m.steps[0]
	m.steps = m.steps[1:]
	m.mu.Unlock()
	if step.Hang {
		<-ctx.Done()
		return agent.Reply{}, context.Cause(ctx)
	}
	if step.Err != nil {
		return agent.Reply{}, step.Err
	}
	if watch != nil && step.Text != "" {
		watch(agent.Delta{Text: step.Text})
	}
	reply := agent.Reply{Message: agent.Message{Role: agent.Assistant}, Cut: step.Cut}
	if step.Text != "" || len(step.Calls) == 0 {
		reply.Message.Parts = append(reply.Message.Parts, agent.Part{Text: step.Text})
	}
	for _, c := range step.Calls {
		reply.Message.Parts = append(reply.Message.Parts, agent.Part{Call: &c})
	}
	return reply, nil
}

// Asked gives the requests so far.
func (m *Model) Asked() []agent.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// Call makes a call as models do, without an id.
func Call(name, args string) agent.Call {
	return agent.Call{Name: name, Args: json.RawMessage(args)}
}

// Transcript keeps a history in memory. Incoming is what Pull appends.
type Transcript struct {
	mu       sync.Mutex
	messages []agent.Message
	Incoming []agent.Message
	// RecordErr, when set, judges each message before it is recorded.
	RecordErr func(agent.Message) error
}

// NewTranscript makes a transcript with the messages in it.
func NewTranscript(messages ...agent.Message) *Transcript { return &Transcript{messages: messages} }

// History implements agent.Transcript.
func (t *Transcript) History() []agent.Message {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.messages)
}

// Prompt implements agent.Transcript: everything, behind a system text.
func (t *Transcript) Prompt(context.Context, int) ([]agent.Message, error) {
	return append([]agent.Message{agent.TextMessage(agent.System, "test")}, agent.Arrange(t.History())...), nil
}

// Record implements agent.Transcript.
func (t *Transcript) Record(_ context.Context, m agent.Message) error {
	if t.RecordErr != nil {
		if err := t.RecordErr(m); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages = append(t.messages, m)
	return nil
}

// Pull implements agent.Transcript.
func (t *Transcript) Pull(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages = append(t.messages, t.Incoming...)
	t.Incoming = nil
	return nil
}

// Tool is a tool made of a function.
type Tool struct {
	Name   string
	Effect agent.Effect
	Func   func(ctx context.Context, call agent.Call) (agent.Result, error)

	mu   sync.Mutex
	runs []agent.Call
}

// Spec implements agent.Tool.
func (t *Tool) Spec() agent.Spec {
	return agent.Spec{
		Name: t.Name, Description: "a tool of the tests", Schema: json.RawMessage(`{"type":"object"}`),
		Effect: func(json.RawMessage) agent.Effect { return t.Effect },
		Reach:  func(json.RawMessage) agent.Reach { return agent.Workspace },
	}
}

// Run implements agent.Tool.
func (t *Tool) Run(ctx context.Context, _ agent.Scope, call agent.Call) (agent.Result, error) {
	t.mu.Lock()
	t.runs = append(t.runs, call)
	t.mu.Unlock()
	return t.Func(ctx, call)
}

// Runs gives the calls that were run so far.
func (t *Tool) Runs() []agent.Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.runs)
}
