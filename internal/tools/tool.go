// Package tools holds what the agent can do, one tool a file, and the
// constructor that turns a typed function into an agent.Tool.
package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"agentd/internal/agent"

	"github.com/google/jsonschema-go/jsonschema"
)

// Call is a call whose arguments fit the tool's schema.
type Call[A any] struct {
	ID   string // unique in its session: the key of an Idempotent effect
	Args A
}

// Policy judges a call by its arguments. A nil function means the careful
// answer, SideEffect and Outside.
type Policy[A any] struct {
	Effect func(A) agent.Effect
	Reach  func(A) agent.Reach
}

// Always is the policy of a tool whose calls are all alike.
func Always[A any](effect agent.Effect, reach agent.Reach) Policy[A] {
	return Policy[A]{
		Effect: func(A) agent.Effect { return effect },
		Reach:  func(A) agent.Reach { return reach },
	}
}

// Func does the work of a tool. It is called from many goroutines at once and
// leaves CallID and Name of the result to the constructor. Its error is read by
// the model, so it says what to do differently.
type Func[A any] func(ctx context.Context, scope agent.Scope, call Call[A]) (agent.Result, error)

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// New makes a tool of run. The schema that the model sees comes from the struct
// A: names from its json tags, descriptions from its jsonschema tags; a field
// with omitempty is optional. Strings, bools, numbers, slices, maps with string
// keys and structs of these are possible.
//
// Arguments that do not fit are mended where their meaning is plain ("5" for 5,
// 5 for "5", null for an optional one that is absent; case C079). Else run is
// not called and the error names the parameter and what it must be.
func New[A any](name, description string, policy Policy[A], run Func[A]) (agent.Tool, error) {
	if !namePattern.MatchString(name) {
		return nil, fmt.Errorf("tools: %q is no name for a tool", name)
	}
	schema, err := jsonschema.For[A](nil)
	if err != nil {
		return nil, fmt.Errorf("tools: %s: %w", name, err)
	}
	if schema.Type != "object" {
		return nil, fmt.Errorf("tools: %s: the arguments are no struct", name)
	}
	if err := simplify(schema); err != nil {
		return nil, fmt.Errorf("tools: %s: %w", name, err)
	}
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("tools: %s: %w", name, err)
	}

	t := &tool[A]{schema: schema, run: run}
	t.spec = agent.Spec{Name: name, Description: strings.TrimSpace(description), Schema: text}
	// Arguments that do not fit are refused before anything happens.
	t.spec.Effect = judge(t, policy.Effect, agent.SideEffect, agent.ReadOnly)
	t.spec.Reach = judge(t, policy.Reach, agent.Outside, agent.Workspace)
	return t, nil
}

// judge turns a judgement of arguments into one of their JSON.
func judge[A, V any](t *tool[A], of func(A) V, unset, refused V) func(json.RawMessage) V {
	return func(raw json.RawMessage) V {
		if of == nil {
			return unset
		}
		args, err := t.decode(raw)
		if err != nil {
			return refused
		}
		return of(args)
	}
}

type tool[A any] struct {
	spec   agent.Spec
	schema *jsonschema.Schema
	run    Func[A]
}

func (t *tool[A]) Spec() agent.Spec { return t.spec }

func (t *tool[A]) Run(ctx context.Context, scope agent.Scope, call agent.Call) (agent.Result, error) {
	args, err := t.decode(call.Args)
	if err != nil {
		return agent.Result{}, err
	}
	result, err := t.run(ctx, scope, Call[A]{ID: call.ID, Args: args})
	result.CallID, result.Name = call.ID, t.spec.Name
	return result, err
}

func (t *tool[A]) decode(raw json.RawMessage) (args A, err error) {
	object, err := repair(t.schema, raw)
	if err != nil {
		return args, err
	}
	text, err := json.Marshal(object)
	if err != nil {
		return args, err
	}
	if err := json.Unmarshal(text, &args); err != nil {
		var none A
		return none, refuse(t.schema, err)
	}
	return args, nil
}
