package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
	defer log.Close()
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

// cpu gives the processor time used so far, in steps of 10 ms (the kernel's
// USER_HZ is 100 on all machines that Go runs on).
func (c *child) cpu() time.Duration {
	c.w.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		c.w.Fatal(err)
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // field 3 of proc(5) on
	var ticks int64
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			c.w.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// door is a TCP server in front of a test server. It sees every request and
// counts connections.
type door struct {
	url  string
	next http.Handler
	w    *realWorld

	mu           sync.Mutex
	conns        map[net.Conn]bool
	opened, peak int // connections ever, and at a time
	calls        map[string]int
	busy         time.Duration
}

func (w *realWorld) door(next http.Handler) *door {
	w.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	d := &door{url: "http://" + l.Addr().String(), next: next, w: w, conns: map[net.Conn]bool{}, calls: map[string]int{}}
	server := &http.Server{Handler: d, ConnState: d.connState, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		_ = server.Serve(l) // always ErrServerClosed, by the cleanup
		close(served)
	}()
	w.Cleanup(func() { _ = server.Close(); <-served })
	return d
}

func (d *door) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	began := time.Now()
	d.mu.Lock()
	d.calls[name]++
	d.mu.Unlock()
	d.w.trap.around(name, func() { d.next.ServeHTTP(rw, r) })
	d.mu.Lock()
	d.busy += time.Since(began)
	d.mu.Unlock()
}

func (d *door) connState(c net.Conn, state http.ConnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch state {
	case http.StateNew:
		d.opened++
		d.conns[c] = true
		d.peak = max(d.peak, len(d.conns))
	case http.StateClosed, http.StateHijacked:
		delete(d.conns, c)
	}
}

// count gives how often a method was called.
func (d *door) count(method string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[method]
}

// taken gives the time that the server took for all calls so far.
func (d *door) taken() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.busy
}

// connections gives how many were ever opened, were open at a time at most, and are open.
func (d *door) connections() (opened, peak, open int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened, d.peak, len(d.conns)
}

// trap kills a daemon at one of its requests.
type trap struct {
	mu     sync.Mutex
	victim *child
	at     int    // requests until then
	half   int    // and until
	midway func() // is called
	when   moment
	later  time.Duration // of moment later
}

// moment says when, around its last request, a daemon dies.
type moment int

const (
	before  moment = iota // the request has no effect
	after                 // it has, and the daemon does not learn of it
	later                 // a little after it came
	moments               // how many there are
)

func (m moment) String() string { return [...]string{"before", "after", "later than"}[m] }

func (t *trap) set(victim *child, at int, when moment, delay time.Duration, midway func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.victim, t.at, t.half, t.when, t.later, t.midway = victim, at, at/2, when, delay, midway
}

// sprung counts a request and gives the daemon that dies at it.
func (t *trap) sprung() (victim *child, when moment, delay time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.victim == nil {
		return nil, 0, 0
	}
	if t.at--; t.midway != nil && t.at <= t.half {
		t.midway()
		t.midway = nil
	}
	if t.at > 0 {
		return nil, 0, 0
	}
	victim, t.victim = t.victim, nil
	return victim, t.when, t.later
}

func (t *trap) around(method string, serve func()) {
	victim, when, delay := t.sprung()
	switch {
	case victim == nil:
		serve()
	case when == later:
		time.AfterFunc(delay, victim.kill)
		serve()
	case when == before || method == "getUpdates": // an answer to that may be long in coming
		victim.kill()
		panic(http.ErrAbortHandler)
	default:
		serve()
		victim.kill()
		panic(http.ErrAbortHandler)
	}
}

// crowd is people who ask in their private chats. Each question has a token,
// which its answer must repeat.
type crowd struct {
	people []*bottest.Person

	mu    sync.Mutex
	asked []int // questions so far, by person
}

func (w *realWorld) crowd(n int) *crowd {
	c := &crowd{asked: make([]int, n)}
	for i := range n {
		c.people = append(c.people, w.tg.User(int64(1000+i), fmt.Sprint("Person ", i), "en"))
	}
	return c
}

func token(person, question int) string { return fmt.Sprintf("p%dq%d", person, question) }

// tokens finds the tokens of a text. Whole words: half a token of an answer that
// still grows is none.
var tokens = regexp.MustCompile(`\bp[0-9]+q[0-9]+\b`)

// The ends of an answer: what lacks the second is a preview.
const answerBegin, answerEnd = "This answers", "and nothing else."

// ask lets a person ask the next question.
func (c *crowd) ask(person int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.asked[person]
	c.asked[person]++
	c.people[person].Send("Question " + token(person, n))
}

func (c *crowd) askAll() {
	for i := range c.people {
		c.ask(i)
	}
}

// questions gives how many the person asked.
func (c *crowd) questions(person int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[person]
}

// answered says that the person's last question is answered. The answer may
// stand above the question, in the place of a preview.
func (c *crowd) answered(person int) bool {
	chat, want := c.people[person].Chat(), token(person, c.questions(person)-1)
	last, _ := chat.Last()
	for id := last.ID; id > 0; id-- {
		if m, ok := chat.Message(id); ok && m.FromBot && strings.HasSuffix(m.Text, answerEnd) {
			return slices.Contains(tokens.FindAllString(m.Text, -1), want)
		}
	}
	return false
}

// waitAnswered waits until everybody's last question is answered.
func (w *realWorld) waitAnswered(c *crowd) {
	w.Helper()
	i := 0
	defer func() {
		if i < len(c.people) {
			w.Logf("person %d still waits:\n%s", i, seen(c.people[i].Chat()))
		}
	}()
	w.wait("all answers", func() bool {
		for i < len(c.people) && c.answered(i) {
			i++
		}
		return i == len(c.people)
	})
}

// chatState is what a person sees of their questions.
type chatState struct {
	answered []string          // tokens, in the order of the answers
	notices  []bottest.Message // "may be missing", with a button
	strays   []bottest.Message // previews that nobody removed, and anything else
}

func (c *crowd) state(person int) (s chatState) {
	for _, m := range c.people[person].Chat().FromBot() {
		switch {
		case resendData(m) != "":
			s.notices = append(s.notices, m)
		case strings.HasPrefix(m.Text, answerBegin) && strings.HasSuffix(m.Text, answerEnd):
			s.answered = append(s.answered, tokens.FindAllString(m.Text, -1)...)
		default:
			s.strays = append(s.strays, m)
		}
	}
	return s
}

// missing gives the person's questions without an answer, and how many answers
// they lack at least: one may be to several questions that waited together.
func (c *crowd) missing(person int, s chatState) (questions []string, answers int) {
	last := -2
	for n := range c.questions(person) {
		t := token(person, n)
		if slices.Contains(s.answered, t) {
			continue
		}
		if questions = append(questions, t); n > last+1 {
			answers++
		}
		last = n
	}
	return questions, answers
}

// doubled counts the questions that were answered again, and the answers that did.
func (s chatState) doubled() (questions, answers int) {
	seen := map[string]bool{}
	again := false
	for _, t := range s.answered {
		if seen[t] {
			questions++
			if !again {
				answers++
			}
		}
		again = seen[t]
		seen[t] = true
	}
	return questions, answers
}

func resendData(m bottest.Message) string {
	for _, row := range m.Buttons {
		for _, b := range row {
			if strings.HasPrefix(b.Data, "resend:") {
				return b.Data
			}
		}
	}
	return ""
}

// sinceAnswer gives the messages of a prompt that came after the last answer.
func sinceAnswer(r ollamatest.Request) []ollamatest.Message {
	for i, m := range slices.Backward(r.Messages) {
		if m.Role == "assistant" && len(m.ToolCalls) == 0 {
			return r.Messages[i+1:]
		}
	}
	return r.Messages
}

// waitingTokens gives the tokens of the questions that a prompt leaves open.
func waitingTokens(r ollamatest.Request) (out []string) {
	for _, m := range sinceAnswer(r) {
		if m.Role == "user" {
			out = append(out, tokens.FindAllString(m.Content, -1)...)
		}
	}
	return out
}

// answerTokens answers a prompt's open questions.
func answerTokens(r ollamatest.Request) ollamatest.Answer {
	text := fmt.Sprintf("%s %s, %s", answerBegin, strings.Join(waitingTokens(r), ", "), answerEnd)
	return ollamatest.Answer{ollamatest.Text(text)}
}
