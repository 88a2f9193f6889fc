package browser

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// process is a running "agentd demo", without an Ollama to think with.
type process struct {
	cmd  *exec.Cmd
	said string // up to the page's address
	url  string
	temp string // where it keeps its data
	logs *strings.Builder
	read chan struct{} // closed when its output has ended
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+/demo/\S+`)

func runDemo(t *testing.T) *process {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "agentd")
	build := exec.Command("go", "build", "-o", bin, "./cmd/agentd")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d := &process{cmd: exec.Command(bin, "demo"), temp: t.TempDir(), logs: &strings.Builder{}, read: make(chan struct{})}
	d.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + d.temp, "OLLAMA_HOST=127.0.0.1:1"} // nothing listens there
	d.cmd.Stderr = d.logs
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill() }) // if the test failed
	lines := bufio.NewScanner(out)
	for d.url == "" && lines.Scan() {
		d.said += lines.Text() + "\n"
		d.url = address.FindString(lines.Text())
	}
	if d.url == "" {
		_ = d.cmd.Wait()
		t.Fatalf("the demo ended before it had a page: %s%s", d.said, d.logs)
	}
	go func() {
		defer close(d.read)
		for lines.Scan() {
		}
	}()
	return d
}

// data lists what the demo keeps.
func (d *process) data(t *testing.T) []string {
	t.Helper()
	kept, err := filepath.Glob(filepath.Join(d.temp, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// stop ends the demo as Ctrl-C does.
func (d *process) stop(t *testing.T) {
	t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-d.read
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("the demo ended with %v", err)
	}
	if d.logs.Len() > 0 {
		t.Errorf("the demo logged\n%s", d.logs)
	}
}
