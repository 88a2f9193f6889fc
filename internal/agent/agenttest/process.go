package agenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"agentd/internal/agent"
)

// Process is a tool for tests that runs a real program: it shows that stopping,
// dying and starting again reach what a tool has started. Its effect is a
// SideEffect. It is no shell for an agent: nothing confines it.
type Process struct {
	Started chan int      // gets the process group of each run
	Ended   chan struct{} // gets a token when a run is over and its group is gone
}

// NewProcess makes the tool; its channels hold 16 runs.
func NewProcess() *Process {
	return &Process{Started: make(chan int, 16), Ended: make(chan struct{}, 16)}
}

// Spec implements agent.Tool.
func (*Process) Spec() agent.Spec {
	return agent.Spec{
		Name: "process", Description: "runs a command",
		Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`),
		Effect: func(json.RawMessage) agent.Effect { return agent.SideEffect },
		Reach:  func(json.RawMessage) agent.Reach { return agent.Machine },
	}
}

// Run implements agent.Tool.
func (p *Process) Run(ctx context.Context, _ agent.Scope, call agent.Call) (agent.Result, error) {
	var args struct{ Command string }
	if err := json.Unmarshal(call.Args, &args); err != nil {
		return agent.Result{}, err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", args.Command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a grandchild may hold the pipe
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		return agent.Result{}, err
	}
	p.Started <- cmd.Process.Pid
	err := cmd.Wait()
	p.Ended <- struct{}{}
	if ctx.Err() != nil {
		return agent.Result{}, context.Cause(ctx)
	}
	if err != nil {
		return agent.Result{}, fmt.Errorf("%w: %s", err, out.String())
	}
	return agent.Result{Text: out.String()}, nil
}
