package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

// program is the daemon as it is shipped, built when the first test asks for it.
var program struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if program.dir != "" {
		_ = os.RemoveAll(program.dir)
	}
	printMeasured(os.Stdout)
	os.Exit(code)
}

// executable gives the path of the program, built as "make build" builds it.
func executable(tb testing.TB) string {
	tb.Helper()
	program.once.Do(func() {
		if program.dir, program.err = os.MkdirTemp("", "agentd-test-"); program.err != nil {
			return
		}
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(program.dir, "agentd"), ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			program.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if program.err != nil {
		tb.Fatal("the program cannot be built: ", program.err)
	}
	return filepath.Join(program.dir, "agentd")
}

// realWorld is what surrounds a daemon that is a process of its own: the test
// servers on TCP, and a folder. It outlives the daemons that are started in it.
type realWorld struct {
	testing.TB
	tg       *bottest.Server
	llm      *ollamatest.Server
	telegram *door
	ollama   *door
	dir      string
	env      map[string]string
	trap     trap
}

// newRealWorld makes a world whose daemons have Telegram's flood gates off.
func newRealWorld(tb testing.TB, tg bottest.Config, llm ollamatest.Config) *realWorld {
	tb.Helper()
	tg.Token = "7000000001:TEST-token-abcdefghijklmnopqrstuv"
	server, err := bottest.New(tg)
	if err != nil {
		tb.Fatal(err)
	}
	w := &realWorld{TB: tb, tg: server, llm: ollamatest.New(llm), dir: tb.TempDir()}
	w.telegram, w.ollama = w.door(w.tg), w.door(w.llm)
	tb.Cleanup(w.tg.Close)
	w.env = map[string]string{
		"TELEGRAM_BOT_TOKEN": w.tg.Token(), "TELEGRAM_API_URL": w.telegram.url, "OLLAMA_HOST": w.ollama.url,
		"TELEGRAM_ALLOWED_USERS": "*", "TELEGRAM_RATE": "0", "TELEGRAM_CHAT_RATE": "0", "TELEGRAM_GROUP_RATE": "0",
		"AGENT_WORKERS": "20", "OLLAMA_NUM_PARALLEL": "20",
		"DATA_DIR": filepath.Join(w.dir, "data"), "LOG_LEVEL": "warn",
	}
	return w
}

// patience is how long a test waits for what must happen.
const patience = time.Minute

// wait waits until cond holds, which is asked at every change of the Bot API server.
func (w *realWorld) wait(what string, cond func() bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if err := w.tg.Wait(ctx, func(*bottest.Server) bool { return cond() }); err != nil {
		w.Fatalf("waited for %s: %v\n%s", what, err, w.logTail())
	}
}

// waitModel waits until cond holds, which is asked at every change of the Ollama server.
func (w *realWorld) waitModel(what string, cond func(ollamatest.State) bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if err := w.llm.Wait(ctx, cond); err != nil {
		w.Fatalf("waited for %s: %v\n%s", what, err, w.logTail())
	}
}

func (w *realWorld) logPath() string { return filepath.Join(w.dir, "log") }

func (w *realWorld) logTail() string {
	text, err := os.ReadFile(w.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-8<<10):])
}

// child is a daemon that runs as a process.
type child struct {
	w             *realWorld
	cmd           *exec.Cmd
	began         time.Time
	exited        chan struct{}
	polls, served int // of earlier daemons
}

// start starts a daemon.
func (w *realWorld) start() *child {
	w.Helper()
	log, err := os.OpenFile(w.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	c := &child{
		w: w, cmd: exec.Command(executable(w)), exited: make(chan struct{}),
		polls: w.telegram.count("getUpdates"), served: w.llm.State().Served,
	}
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = w.dir, log, log
	c.cmd.Env = []string{}
	for name, value := range w.env {
		c.cmd.Env = append(c.cmd.Env, name+"="+value)
	}
	c.began = time.Now()
	if err := c.cmd.Start(); err != nil {
		w.Fatal(err)
	}
	go func() {
		_ = c.cmd.Wait() // its exit code tells
		close(c.exited)
	}()
	w.Cleanup(c.kill)
	return c
}

// kill ends the process without a word to it, and returns when it is dead.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may be dead already
	<-c.exited
}

// waitIdle waits until the daemon has loaded the model and waits in a long poll.
func (c *child) waitIdle() {
	c.w.Helper()
	c.w.waitModel("the model to be loaded", func(s ollamatest.State) bool { return s.Served > c.served && s.Active == 0 })
	// The first poll of a process does not wait.
	c.w.wait("a long poll", func() bool { return c.w.tg.Polling() && c.w.telegram.count("getUpdates") >= c.polls+2 })
}

func (c *child) terminate() {
	c.w.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.w.Error(err)
	}
}

// wait gives the exit code; -1 when it was killed.
func (c *child) wait() int {
	c.w.Helper()
	select {
	case <-c.exited:
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		c.w.Fatal("the daemon does not end\n", c.w.logTail())
		return 0
	}
}

// memory gives a line of /proc/PID/status in MB: VmRSS is what is resident,
// VmHWM the most that ever was.
func (c *child) memory(line string) float64 {
	c.w.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		c.w.Fatal(err)
	}
	_, rest, _ := bytes.Cut(status, []byte(line+":"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		c.w.Fatalf("no %s in %s", line, status)
	}
	kB, err := strconv.ParseFloat(string(fields[0]), 64)
	if err != nil {
		c.w.Fatal(err)
	}
	return kB / 1024
}

// cpu gives the processor time that the process' threads have used so far: the
// first number of each one's schedstat, in nanoseconds. Go ends next to no threads.
func (c *child) cpu() time.Duration {
	c.w.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", c.cmd.Process.Pid))
	if err != nil || len(paths) == 0 {
		c.w.Fatal("no threads", err)
	}
	var total time.Duration
	for _, p := range paths {
		stat, err := os.ReadFile(p)
		if err != nil {
			continue // the thread has just ended
		}
		var ns int64
		if _, err := fmt.Sscan(string(stat), &ns); err != nil {
			c.w.Fatal(err)
		}
		total += time.Duration(ns)
	}
	return total
}
