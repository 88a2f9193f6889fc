package deploy

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// image runs docker/entrypoint.sh with a script in agentd's place. What both
// print is read from out; when it ends, no process holds it open any more.
type image struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

func start(t *testing.T, agentd string, args ...string) image {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "agentd"), []byte("#!/bin/sh\n"+agentd), 0o755); err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", append([]string{"../../docker/entrypoint.sh"}, args...)...)
	cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin"}
	cmd.Stdout, cmd.Stderr = write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what a failed test left behind
		_ = read.Close()
	})
	return image{cmd, bufio.NewReader(read)}
}

// line waits for the next line.
func (i image) line(t *testing.T) string {
	t.Helper()
	line, err := i.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return strings.TrimSpace(line)
}

func (i image) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := i.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// end waits for the last process and gives the exit code and the rest printed.
func (i image) end(t *testing.T) (int, string) {
	t.Helper()
	rest, err := io.ReadAll(i.out)
	if err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := i.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return i.cmd.ProcessState.ExitCode(), string(rest)
}

func TestEntrypointHandsOnExitCodes(t *testing.T) {
	for _, c := range []struct {
		agentd string
		args   []string
		want   int
	}{
		{"exit 0", nil, 0},
		{"exit 1", nil, 1},
		{"exit 1", []string{"run"}, 1},
		{"exit 137", nil, 137},
		{"kill -KILL $$", nil, 137},
		// Other commands have nothing to hold for: a person waits for them.
		{"exit 2", []string{"pair"}, 2},
		{`[ "$*" = version ]`, []string{"version"}, 0},
	} {
		if got, out := start(t, c.agentd, c.args...).end(t); got != c.want {
			t.Errorf("agentd is %q, arguments %q: exit code %d, want %d (%s)", c.agentd, c.args, got, c.want, out)
		}
	}
}

// TestEntrypointHolds: after a fault in the settings the faults stay the last
// thing printed, with what to do, until the container is stopped.
func TestEntrypointHolds(t *testing.T) {
	for _, stop := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		i := start(t, "echo TELEGRAM_BOT_TOKEN: expected a token >&2; exit 2")
		if got := i.line(t); got != "TELEGRAM_BOT_TOKEN: expected a token" {
			t.Errorf("printed %q first", got)
		}
		if got := i.line(t); !strings.Contains(got, "until it is stopped") {
			t.Errorf("printed %q after the faults", got)
		}
		i.signal(t, stop)
		if code, out := i.end(t); code != 2 || out != "" {
			t.Errorf("stopped by %v: exit code %d, and printed %q", stop, code, out)
		}
	}
}

// TestEntrypointForwardsSignals: agentd gets to finish its turns, and its exit
// code counts, not the signal's. A second signal reaches it, too.
func TestEntrypointForwardsSignals(t *testing.T) {
	const agentd = `
n=0
trap 'n=$((n+1)); echo stop $n; [ $n -lt 2 ] || exit 5' TERM
echo up
while :; do sleep 0.01; done`
	i := start(t, agentd)
	for _, want := range []string{"up", "stop 1"} {
		if got := i.line(t); got != want {
			t.Fatalf("printed %q, want %q", got, want)
		}
		i.signal(t, syscall.SIGTERM)
	}
	if code, out := i.end(t); code != 5 || out != "stop 2\n" {
		t.Errorf("exit code %d, want 5; printed %q", code, out)
	}
}

// TestEntrypointStopsAfterFault: stopped while agentd finds its faults, the
// container must not hold.
func TestEntrypointStopsAfterFault(t *testing.T) {
	i := start(t, `trap 'exit 2' TERM; echo up; while :; do sleep 0.01; done`)
	if got := i.line(t); got != "up" {
		t.Fatalf("printed %q", got)
	}
	i.signal(t, syscall.SIGTERM)
	if code, out := i.end(t); code != 2 || out != "" {
		t.Errorf("exit code %d, want 2; printed %q", code, out)
	}
}
