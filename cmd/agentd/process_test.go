package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/internal/agent"
	"agentd/internal/agent/agenttest"
	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

// These tests run real processes, so they run in real time.

// eventually waits until the servers show what cond wants.
func eventually(t *testing.T, w *world, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.tg.Wait(ctx, func(*bottest.Server) bool { return cond() }); err != nil {
		t.Fatalf("%s: %v\n%s", what, err, seen(w.tg.Chat(ann)))
	}
}

// mustGo waits until no process of the group runs any more. Killed ones that
// nobody has waited for are dead: their parent is the machine's init.
func mustGo(t *testing.T, group int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		left := members(t, group)
		if len(left) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("processes are left: %q", left)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// members gives the living processes of a group, by their line in /proc.
func members(t *testing.T, group int) (out []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		stat, err := os.ReadFile(p)
		if err != nil {
			continue // it has just ended
		}
		line := string(stat)
		var state string
		var parent, pgrp int
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ')')+1:], &state, &parent, &pgrp); err != nil {
			t.Fatal(err)
		}
		if pgrp == group && state != "Z" && state != "X" {
			out = append(out, line)
		}
	}
	return out
}

func processWorld(t *testing.T, command string) (*world, *agenttest.Process) {
	t.Helper()
	w := newWorld(t, ollamatest.Config{Answer: script(
		rule{"run it", ollamatest.Answer{ollamatest.Call("process", fmt.Sprintf("{\"command\":%q}", command))}},
		rule{"outcome unknown", ollamatest.Answer{ollamatest.Text("It was interrupted; I did not run it again.")}},
		rule{"and now", ollamatest.Answer{ollamatest.Text("I am here.")}},
		rule{"", ollamatest.Answer{ollamatest.Text("It ran.")}},
	)})
	tool := agenttest.NewProcess()
	w.tools = []agent.Tool{tool}
	return w, tool
}

// C089, C090: /stop kills the tool and all it started, deaf to signals or not,
// and the chat goes on.
func TestStopKillsTheToolsProcesses(t *testing.T) {
	w, tool := processWorld(t, "trap '' TERM INT; sleep 300 & sleep 301")
	d := w.start(nil)
	w.ann().Send("run it")
	group := <-tool.Started
	w.ann().Send("/stop")
	eventually(t, w, "the acknowledgement", func() bool { return len(w.tg.Chat(ann).FromBot()) == 1 })
	<-tool.Ended
	mustGo(t, group)
	w.ann().Send("and now?")
	eventually(t, w, "the next answer", func() bool { return lastOf(w.tg.Chat(ann)) == "I am here." })
	if n := len(w.tg.Chat(ann).FromBot()); n != 2 {
		t.Errorf("the chat shows\n%s", seen(w.tg.Chat(ann)))
	}
	if code := d.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// C109: told to go down, the daemon leaves no process behind; the next one tells
// the model that the outcome is unknown, and runs nothing again (C033).
func TestShutdownKillsTheToolsProcesses(t *testing.T) {
	w, tool := processWorld(t, "sleep 300")
	w.env["SHUTDOWN_GRACE"] = "100ms"
	d := w.start(nil)
	w.ann().Send("run it")
	group := <-tool.Started
	if code := d.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	<-tool.Ended
	mustGo(t, group)
	d = w.start(nil)
	eventually(t, w, "the answer", func() bool { return strings.Contains(lastOf(w.tg.Chat(ann)), "interrupted") })
	d.stop()
	if len(tool.Started) > 0 {
		t.Error("the command ran again")
	}
}

// C033: a tool that makes the daemon go down is not run again at each start.
func TestARestartByAToolIsNoLoop(t *testing.T) {
	w, tool := processWorld(t, "echo restarted")
	die := &death{}
	d := w.start(die)
	w.ann().Send("run it")
	<-tool.Started
	die.finish() // before its result is recorded, or after: neither may run it again
	d.wait()
	for range 3 {
		d := w.start(nil)
		eventually(t, w, "the answer", func() bool { return len(w.tg.Chat(ann).FromBot()) == 1 })
		d.stop()
	}
	if len(tool.Started) > 0 {
		t.Errorf("the command ran %d times more", len(tool.Started))
	}
}
