package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/internal/agent/textcall"
)

// Defaults and bounds of the loop.
const (
	DefaultMaxSteps = 15

	sameCalls    = 3 // the same call with the same result this often is a loop (C040)
	tries        = 3 // of one model call whose failure may pass
	parallelRuns = 8 // read-only tools side by side

	callsAtOnce = 32  // in one message; a model that makes more has gone wrong
	nameBytes   = 128 // of a tool that there is not, in what the model and the log are told
)

// Agent answers with a model and tools. The zero values of the optional fields work.
type Agent struct {
	Name      string // "" for the supervisor itself
	Model     Model
	ModelName string // "" the configured one
	Tools     []Tool
	MaxSteps  int          // rounds of tools in one turn; 0 means DefaultMaxSteps
	Log       *slog.Logger // nil discards
}

// Run works on the transcript until the model answers without a tool call, and
// returns that answer unrecorded. It may be called again on the same transcript
// after a crash: calls that have no result yet are run again if that is
// harmless, else answered as interrupted.
//
// Together with an answer it may return a *Fault that is a note under it
// (FaultStepLimit, FaultLoop, FaultUnfinished). Other errors come without an answer; the cause of
// a cancelled ctx is returned as it is.
func (a *Agent) Run(ctx context.Context, scope Scope, t Transcript, watch func(Delta)) (Reply, error) {
	if watch == nil {
		watch = func(Delta) {}
	}
	r := &run{Agent: a, scope: scope, transcript: t, watch: watch, tools: map[string]Tool{}, log: a.Log}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.log = r.log.With("chat", scope.Address.Chat, "turn", scope.Turn)
	for _, tool := range a.Tools {
		spec := tool.Spec()
		r.specs = append(r.specs, spec)
		r.tools[spec.Name] = tool
	}
	reply, err := r.loop(ctx)
	if err != nil && ctx.Err() != nil {
		return Reply{}, context.Cause(ctx)
	}
	return reply, err
}

type run struct {
	*Agent
	scope      Scope
	transcript Transcript
	watch      func(Delta)
	specs      []Spec
	tools      map[string]Tool
	log        *slog.Logger
}

func (r *run) loop(ctx context.Context) (Reply, error) {
	if err := r.closeOpenCalls(ctx); err != nil {
		return Reply{}, err
	}
	for {
		if note := r.exhausted(); note != nil {
			return r.lastWords(ctx, note)
		}
		reply, err := r.ask(ctx, "")
		if err != nil {
			return Reply{}, err
		}
		calls := reply.Message.Calls()
		if len(calls) == 0 {
			if reply.Cut {
				return reply, &Fault{Code: FaultUnfinished}
			}
			return reply, nil
		}
		r.adopt(&reply.Message)
		if err := r.transcript.Record(ctx, reply.Message); err != nil {
			return Reply{}, err
		}
		if err := r.runCalls(ctx, reply.Message.Calls(), false); err != nil {
			return Reply{}, err
		}
		if err := r.transcript.Pull(ctx); err != nil {
			return Reply{}, err
		}
		r.watch(Delta{Restart: true}) // what was said beside the calls is not the answer's beginning
	}
}

// ask gets a reply that says something, retrying what may pass.
func (r *run) ask(ctx context.Context, nudge string) (Reply, error) {
	for empty := 0; ; empty++ {
		reply, err := r.generate(ctx, nudge)
		if err != nil || strings.TrimSpace(reply.Message.Text()) != "" || len(reply.Message.Calls()) > 0 {
			return reply, err
		}
		if empty > 0 {
			return Reply{}, &Fault{Code: FaultEmpty}
		}
		r.watch(Delta{Restart: true})
		nudge = "Your last reply was empty. Answer the person now, in words."
	}
}

// generate makes one model call. The nudge stands behind the history and is not
// recorded: the next prompt begins with the same bytes.
func (r *run) generate(ctx context.Context, nudge string) (Reply, error) {
	var failed, tighter int
	for {
		prompt, err := r.transcript.Prompt(ctx, tighter)
		if err != nil {
			return Reply{}, err
		}
		if nudge != "" {
			prompt = append(prompt, TextMessage(User, nudge))
		}
		reply, err := r.Model.Generate(ctx, Request{Model: r.ModelName, Messages: prompt, Tools: r.specs}, r.watch)
		switch {
		case err == nil:
			r.understand(&reply)
			return reply, nil
		case ctx.Err() != nil:
			return Reply{}, context.Cause(ctx)
		case errors.Is(err, ErrTooLong) && tighter < 2:
			tighter++
		case errors.Is(err, ErrTransient) && failed < tries-1:
			failed++
			r.log.Warn("model call failed, trying again", "err", err)
			if err := wait(ctx, time.Duration(failed)*500*time.Millisecond); err != nil {
				return Reply{}, err
			}
		case errors.Is(err, ErrTransient):
			return Reply{}, &Fault{Code: FaultCut, Err: err}
		default:
			return Reply{}, err
		}
		r.watch(Delta{Restart: true})
	}
}

// understand takes out of a reply what its model wrote as words because the
// server did not know better: thoughts, which are never stored or sent back
// (C080), and, where there are no others, calls (C019, C083). Calls of a reply
// that ran into the output limit may lack their end, and are not run.
func (r *run) understand(reply *Reply) {
	text, calls, names := reply.Message.Text(), reply.Message.Calls(), r.names()
	if len(calls) > 0 {
		_, text = textcall.Thoughts(text)
		for i, c := range calls {
			if name, ok := textcall.Resolve(c.Name, names); ok { // what models leave on a name (C084)
				calls[i].Name = name
			}
		}
	} else {
		answer := textcall.Parse(text, names)
		text = answer.Text
		for _, c := range answer.Calls {
			if !reply.Cut {
				calls = append(calls, Call{Name: c.Name, Args: c.Args})
			}
		}
	}
	m := Message{Role: Assistant}
	if text != "" {
		m.Parts = append(m.Parts, Part{Text: text})
	}
	for _, c := range calls {
		m.Parts = append(m.Parts, Part{Call: &c})
	}
	reply.Message = m
}

// lastWords asks for an answer when no more tools may run. The tools stay in the
// request, so that the prompt keeps its beginning; calls are not run.
func (r *run) lastWords(ctx context.Context, note *Fault) (Reply, error) {
	reply, err := r.ask(ctx, "You cannot use tools any more in this answer. Say what you found, and say plainly what you did not do.")
	if err != nil {
		var f *Fault
		if errors.As(err, &f) && f.Code == FaultEmpty {
			return Reply{}, note
		}
		return Reply{}, err
	}
	text := strings.TrimSpace(reply.Message.Text())
	if text == "" { // calls only
		return Reply{}, note
	}
	reply.Message = TextMessage(Assistant, text)
	return reply, note
}

// exhausted tells why no more tools may run in this turn, or nil. It judges by
// the history alone, so that a restart changes nothing.
func (r *run) exhausted() *Fault {
	limit := r.MaxSteps
	if limit == 0 {
		limit = DefaultMaxSteps
	}
	steps, same := 0, map[string]int{}
	keys := map[string]string{}
	for _, m := range r.transcript.History() {
		mine := false
		for _, p := range m.Parts {
			switch {
			case p.Call != nil && strings.HasPrefix(p.Call.ID, r.prefix()):
				mine = true
				keys[p.Call.ID] = p.Call.Name + "\x00" + string(p.Call.Args)
			case p.Result != nil && keys[p.Result.CallID] != "":
				key := keys[p.Result.CallID] + "\x00" + p.Result.Text
				if same[key]++; same[key] >= sameCalls {
					return &Fault{Code: FaultLoop, Args: map[string]string{"tool": p.Result.Name}, Err: ErrBudget}
				}
			}
		}
		if mine {
			steps++
		}
	}
	if steps >= limit {
		return &Fault{Code: FaultStepLimit, Args: map[string]string{"steps": fmt.Sprint(limit)}, Err: ErrBudget}
	}
	return nil
}

// prefix begins the ids of the calls of this turn in this session.
func (r *run) prefix() string { return fmt.Sprintf("%d.%d.", r.scope.Session, r.scope.Turn) }

// adopt gives the message's calls ids of our own: providers give none, or the
// same ones again. Calls beyond callsAtOnce were never made: the model sees that
// they are not there, and makes those anew that it needs.
func (r *run) adopt(m *Message) {
	if made := len(m.Calls()); made > callsAtOnce {
		r.log.Warn("too many tool calls in one message; the rest is left out", "calls", made, "kept", callsAtOnce)
		kept := 0
		m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p Part) bool {
			if p.Call != nil {
				kept++
			}
			return p.Call != nil && kept > callsAtOnce
		})
	}
	n := 0
	for _, h := range r.transcript.History() {
		for _, c := range h.Calls() {
			if strings.HasPrefix(c.ID, r.prefix()) {
				n++
			}
		}
	}
	for i, p := range m.Parts {
		if p.Call != nil {
			n++
			call := *p.Call
			call.ID = fmt.Sprint(r.prefix(), n)
			call.Name = strings.ToValidUTF8(call.Name[:min(len(call.Name), nameBytes)], "")
			m.Parts[i].Call = &call
		}
	}
}

// closeOpenCalls takes up a turn that died among its tools.
func (r *run) closeOpenCalls(ctx context.Context) error {
	return r.runCalls(ctx, OpenCalls(r.transcript.History()), true)
}

// runCalls runs the calls in their order, neighbours that only read side by
// side, and records each result when it is there.
func (r *run) runCalls(ctx context.Context, calls []Call, resumed bool) error {
	for len(calls) > 0 {
		n := 1
		for r.effect(calls[0]) == ReadOnly && n < len(calls) && n < parallelRuns && r.effect(calls[n]) == ReadOnly {
			n++
		}
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i, c := range calls[:n] {
			wg.Go(func() { errs[i] = r.runCall(ctx, c, resumed) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		calls = calls[n:]
	}
	return nil
}

func (r *run) effect(c Call) Effect {
	tool, ok := r.tools[c.Name]
	if !ok {
		return ReadOnly // it is answered, not run
	}
	spec := tool.Spec()
	if spec.Effect == nil {
		return SideEffect
	}
	return spec.Effect(c.Args)
}

func (r *run) runCall(ctx context.Context, c Call, resumed bool) error {
	var result Result
	if resumed && r.effect(c) == SideEffect {
		result = Result{Text: "interrupted, outcome unknown; check before repeating", IsError: true}
	} else {
		var err error
		if result, err = r.execute(ctx, c); err != nil {
			if ctx.Err() != nil || errors.Is(err, ErrStopped) || errors.Is(err, ErrShutdown) {
				return err
			}
			result = Result{Text: err.Error(), IsError: true}
		}
	}
	result.CallID, result.Name = c.ID, c.Name
	return r.transcript.Record(ctx, Message{Role: ToolRole, Parts: []Part{{Result: &result}}})
}

// execute runs one tool; a panic in it is an error like another.
func (r *run) execute(ctx context.Context, c Call) (result Result, err error) {
	tool, ok := r.tools[c.Name]
	if !ok {
		return Result{}, r.unknown(c.Name)
	}
	started := time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the tool %s broke: %v", c.Name, p)
		}
		r.log.Info("tool ran", "tool", c.Name, "call", c.ID, "took", time.Since(started), "failed", err != nil || result.IsError)
	}()
	return tool.Run(ctx, r.scope, c)
}

func (r *run) names() []string {
	names := make([]string, len(r.specs))
	for i, s := range r.specs {
		names[i] = s.Name
	}
	return names
}

// unknown is what a call of a tool that is not there is told.
func (r *run) unknown(name string) error {
	if len(r.specs) == 0 {
		return fmt.Errorf("there is no tool %q; you have no tools at all", name)
	}
	return fmt.Errorf("there is no tool %q; you have: %s", name, strings.Join(r.names(), ", "))
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
