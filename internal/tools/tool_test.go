package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentd/internal/agent"
)

// sample has a parameter of every kind.
type sample struct {
	Text  string         `json:"text" jsonschema:"what to write"`
	Count int            `json:"count,omitempty"`
	Small uint8          `json:"small,omitempty"`
	Big   uint64         `json:"big,omitempty"`
	Ratio float64        `json:"ratio,omitempty"`
	On    bool           `json:"on,omitempty"`
	Exact json.Number    `json:"exact,omitempty"`
	Limit *int           `json:"limit,omitempty"`
	Tags  []string       `json:"tags,omitempty"`
	Box   *box           `json:"box,omitempty"`
	Heads map[string]int `json:"heads,omitempty"`
}

type box struct {
	Width int `json:"width"`
}

func call(t *testing.T, tool agent.Tool, args string) (string, error) {
	t.Helper()
	result, err := tool.Run(t.Context(), agent.Scope{}, agent.Call{ID: "c1", Name: tool.Spec().Name, Args: json.RawMessage(args)})
	if err == nil && (result.CallID != "c1" || result.Name != tool.Spec().Name) {
		t.Errorf("result of call %q by %q, want c1 by %q", result.CallID, result.Name, tool.Spec().Name)
	}
	return result.Text, err
}

// echo answers with its arguments as JSON.
func echo(t testing.TB) agent.Tool {
	t.Helper()
	tool, err := New("echo", "Echo.", Always[sample](agent.ReadOnly, agent.Workspace),
		func(_ context.Context, _ agent.Scope, call Call[sample]) (agent.Result, error) {
			text, err := json.Marshal(call.Args)
			return agent.Result{Text: string(text)}, err
		})
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// Case C079: what is plain is mended, anything else is named, and the tool never
// runs with made-up values.
func TestArguments(t *testing.T) {
	tool := echo(t)
	for _, test := range []struct {
		args string
		want string // the arguments as run got them
		err  string
	}{
		{args: `{"text":"a","count":5}`, want: `{"text":"a","count":5}`},
		{args: `{"text":"a","count":"5"}`, want: `{"text":"a","count":5}`},
		{args: `{"text":"a","count":" +5 "}`, want: `{"text":"a","count":5}`},
		{args: `{"text":"a","count":5.0}`, want: `{"text":"a","count":5}`},
		{args: `{"text":"a","count":1e3}`, want: `{"text":"a","count":1000}`},
		{args: `{"text":"a","count":9007199254740993}`, want: `{"text":"a","count":9007199254740993}`},
		{args: `{"text":"a","big":18446744073709551615}`, want: `{"text":"a","big":18446744073709551615}`},
		{args: `{"text":"a","ratio":"1.5"}`, want: `{"text":"a","ratio":1.5}`},
		{args: `{"text":"a","on":"True"}`, want: `{"text":"a","on":true}`},
		{args: `{"text":"a","on":"false"}`, want: `{"text":"a"}`},
		{args: `{"text":-1001234567890123456789}`, want: `{"text":"-1001234567890123456789"}`},
		{args: `{"text":1.50}`, want: `{"text":"1.50"}`},
		{args: `{"text":true}`, want: `{"text":"true"}`},
		{args: `{"text":""}`, want: `{"text":""}`},
		{args: `{"text":"a","exact":123456789012345678901234567890}`, want: `{"text":"a","exact":123456789012345678901234567890}`},
		{args: `{"text":"a","count":null,"limit":null,"tags":null,"box":null}`, want: `{"text":"a"}`},
		{args: `{"text":"a","limit":"3"}`, want: `{"text":"a","limit":3}`},
		{args: `{"text":"a","tags":["x",1]}`, want: `{"text":"a","tags":["x","1"]}`},
		{args: `{"text":"a","tags":"[\"x\",\"y\"]"}`, want: `{"text":"a","tags":["x","y"]}`},
		{args: `{"text":"a","box":{"width":"2","height":3}}`, want: `{"text":"a","box":{"width":2}}`},
		{args: `{"text":"a","box":"{\"width\":2}"}`, want: `{"text":"a","box":{"width":2}}`},
		{args: `{"text":"a","heads":{"x":"1"}}`, want: `{"text":"a","heads":{"x":1}}`},
		{args: `"{\"text\":\"a\"}"`, want: `{"text":"a"}`},
		{args: `{"text":"a","TEXT":"b","more":[1]}`, want: `{"text":"a"}`}, // Go alone would take TEXT for text
		{args: `{"text":"{\"a\":1}"}`, want: `{"text":"{\"a\":1}"}`},

		{args: ``, err: `text: missing, expected a string`},
		{args: `null`, err: `text: missing, expected a string`},
		{args: `{}`, err: `text: missing, expected a string`},
		{args: `{"text":null}`, err: `text: missing, expected a string`},
		{args: `[{"text":"a"}]`, err: `arguments: expected a JSON object with text, count`},
		{args: `"text"`, err: `arguments: expected a JSON object`},
		{args: `{"text":"a"`, err: `the arguments are not valid JSON; expected a JSON object with text`},
		{args: `{"text":"a"} {"text":"b"}`, err: `the arguments are not valid JSON`},
		{args: `{"text":{"a":1}}`, err: `text: expected a string, got a JSON object`},
		{args: `{"text":["a"]}`, err: `text: expected a string, got a JSON array`},
		{args: `{"text":"a","count":"five"}`, err: `count: expected a whole number, got "five"`},
		{args: `{"text":"a","count":"` + strings.Repeat("9", 50) + `"}`, err: `count: expected a whole number, got a string of 50 characters`},
		{args: `{"text":"a","count":5.5}`, err: `count: expected a whole number, got 5.5`},
		{args: `{"text":"a","count":""}`, err: `count: expected a whole number, got ""`},
		{args: `{"text":"a","count":true}`, err: `count: expected a whole number, got true`},
		{args: `{"text":"a","count":1e999999999}`, err: `count: expected a whole number, got 1e999999999`},
		{args: `{"text":"a","count":18446744073709551615}`, err: `count: expected a whole number that is not that large`},
		{args: `{"text":"a","small":256}`, err: `small: expected a whole number from 0 to 255, got 256`},
		{args: `{"text":"a","big":-1}`, err: `big: expected a whole number, 0 or more, got -1`},
		{args: `{"text":"a","ratio":"1,5"}`, err: `ratio: expected a number, got "1,5"`},
		{args: `{"text":"a","ratio":"NaN"}`, err: `ratio: expected a number, got "NaN"`},
		{args: `{"text":"a","ratio":"0x10"}`, err: `ratio: expected a number, got "0x10"`},
		{args: `{"text":"a","on":1}`, err: `on: expected true or false, got 1`},
		{args: `{"text":"a","exact":"many"}`, err: `arguments: expected a JSON object with text`},
		{args: `{"text":"a","tags":"x"}`, err: `tags: expected a JSON array, each item a string, got "x"`},
		{args: `{"text":"a","tags":["x",null]}`, err: `tags[1]: expected a string, got null`},
		{args: `{"text":"a","box":[]}`, err: `box: expected a JSON object with width, got a JSON array`},
		{args: `{"text":"a","box":{}}`, err: `box.width: missing, expected a whole number`},
		{args: `{"text":"a","heads":{"x":"y"}}`, err: `heads.x: expected a whole number, got "y"`},
		{args: `{"count":"x","on":"maybe"}`, err: `text: missing, expected a string; count: expected a whole number, got "x"; on: expected true or false, got "maybe"`},
	} {
		t.Run(test.args, func(t *testing.T) {
			got, err := call(t, tool, test.args)
			if test.err == "" {
				if err != nil || got != test.want {
					t.Errorf("got %s, %v, want %s", got, err, test.want)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), test.err) {
				t.Fatalf("got %s, error %v, want error %s", got, err, test.err)
			}
			if strings.Contains(err.Error(), "Go ") || strings.Contains(err.Error(), "json:") {
				t.Errorf("the error is the decoder's: %v", err)
			}
		})
	}
}

func FuzzArguments(f *testing.F) {
	tool := echo(f)
	for _, seed := range []string{``, `{}`, `{"text":1}`, `{"text":"a","count":"5","tags":"[1]","box":{"width":1e3}}`, `"{\"text\":null}"`, `{"text":"a","heads":{"":-0.0}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, args string) {
		got, err := call(t, tool, args)
		if err != nil {
			if strings.Contains(err.Error(), "Go ") || strings.Contains(err.Error(), "json:") {
				t.Errorf("the error is the decoder's: %v", err)
			}
			return
		}
		if again, err := call(t, tool, got); err != nil || again != got {
			t.Errorf("mended to %s, which is mended again to %s, %v", got, again, err)
		}
	})
}

func TestSchema(t *testing.T) {
	const want = `{"type":"object","properties":{"text":{"type":"string","description":"what to write"},"count":{"type":"integer"},` +
		`"small":{"type":"integer","minimum":0,"maximum":255},"big":{"type":"integer","minimum":0},"ratio":{"type":"number"},"on":{"type":"boolean"},` +
		`"exact":{"type":"string"},"limit":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}},` +
		`"box":{"type":"object","properties":{"width":{"type":"integer"}},"required":["width"]},` +
		`"heads":{"type":"object","additionalProperties":{"type":"integer"}}},"required":["text"]}`
	for range 20 { // the prompt cache wants the same bytes each time
		if got := string(echo(t).Spec().Schema); got != want {
			t.Fatalf("schema\n got %s\nwant %s", got, want)
		}
	}
}

func TestPolicy(t *testing.T) {
	run := func(context.Context, agent.Scope, Call[sample]) (agent.Result, error) { return agent.Result{}, nil }
	careful, err := New("x", "", Policy[sample]{}, run)
	if err != nil {
		t.Fatal(err)
	}
	byArgs, err := New("x", "", Policy[sample]{
		Effect: func(a sample) agent.Effect {
			if a.On {
				return agent.SideEffect
			}
			return agent.Idempotent
		},
		Reach: func(a sample) agent.Reach {
			if a.On {
				return agent.Outside
			}
			return agent.Machine
		},
	}, run)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		tool   agent.Tool
		args   string
		effect agent.Effect
		reach  agent.Reach
	}{
		{careful, `{"text":"a"}`, agent.SideEffect, agent.Outside},
		{byArgs, `{"text":"a"}`, agent.Idempotent, agent.Machine},
		{byArgs, `{"text":"a","on":"true"}`, agent.SideEffect, agent.Outside}, // judged as run will see it
		{byArgs, `{"on":true}`, agent.ReadOnly, agent.Workspace},              // refused before it does anything
		{echo(t), `{"text":"a"}`, agent.ReadOnly, agent.Workspace},
	} {
		spec := test.tool.Spec()
		if e, r := spec.Effect(json.RawMessage(test.args)), spec.Reach(json.RawMessage(test.args)); e != test.effect || r != test.reach {
			t.Errorf("%s %s: effect %d, reach %d, want %d, %d", spec.Name, test.args, e, r, test.effect, test.reach)
		}
	}
}

func TestRunSeesScopeAndErrors(t *testing.T) {
	broken := errors.New("broken")
	tool, err := New("x", " About x. \n", Policy[struct{}]{}, func(_ context.Context, scope agent.Scope, call Call[struct{}]) (agent.Result, error) {
		return agent.Result{Text: fmt.Sprint(scope.Turn, " ", call.ID), IsError: true}, broken
	})
	if err != nil {
		t.Fatal(err)
	}
	if spec := tool.Spec(); spec.Description != "About x." || string(spec.Schema) != `{"type":"object"}` {
		t.Errorf("spec %q %s", spec.Description, spec.Schema)
	}
	result, err := tool.Run(t.Context(), agent.Scope{Turn: 7}, agent.Call{ID: "c2", Args: json.RawMessage(`{"any":1}`)})
	if !errors.Is(err, broken) || result.Text != "7 c2" || !result.IsError || result.CallID != "c2" {
		t.Errorf("result %+v, error %v", result, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, err := range map[string]error{
		"name with a space": newError[sample]("a b"),
		"no name":           newError[sample](""),
		"no struct":         newError[[]string]("x"),
		"any":               newError[struct{ A any }]("x"),
		"fixed array":       newError[struct{ A [3]int }]("x"),
		"channel":           newError[struct{ A chan int }]("x"),
		"nested any":        newError[struct{ A []map[string]any }]("x"),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func newError[A any](name string) error {
	_, err := New(name, "", Policy[A]{}, func(context.Context, agent.Scope, Call[A]) (agent.Result, error) { return agent.Result{}, nil })
	return err
}

// The prompt of the smallest models has 4,200 bytes for the system text and four
// tools; more than this for one tool needs a reason.
func TestSizes(t *testing.T) {
	for _, make := range []func() (agent.Tool, error){
		NewCalculator, NewWordCount, func() (agent.Tool, error) { return NewCurrentTime(time.UTC) },
	} {
		tool, err := make()
		if err != nil {
			t.Fatal(err)
		}
		spec := tool.Spec()
		text, err := json.Marshal(map[string]any{"type": "function", "function": map[string]any{
			"name": spec.Name, "description": spec.Description, "parameters": spec.Schema}})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d %s", len(text), text)
		if len(text) > 450 {
			t.Errorf("%s takes %d bytes, the limit is 450", spec.Name, len(text))
		}
		if spec.Effect(nil) != agent.ReadOnly || spec.Reach(nil) != agent.Workspace {
			t.Errorf("%s is not harmless", spec.Name)
		}
	}
}
