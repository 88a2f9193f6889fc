package ollama_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ollama/ollama/api"

	"agentd/internal/agent"
	"agentd/internal/ollama"
	"agentd/internal/ollama/ollamatest"
)

// asFault returns the fault of an error, or fails.
func asFault(t *testing.T, err error) *agent.Fault {
	t.Helper()
	var f *agent.Fault
	if !errors.As(err, &f) {
		t.Fatalf("%v is no fault", err)
	}
	return f
}

func TestErrorsOfTheServer(t *testing.T) {
	const transient = agent.FaultCode("transient")
	for name, test := range map[string]struct {
		answer ollamatest.Step
		code   agent.FaultCode
		args   map[string]string
	}{
		"no tools":        {ollamatest.Refuse(400, "registry.example/library/m does not support tools"), agent.FaultModelRefused, map[string]string{"status": "400", "text": "registry.example/library/m does not support tools"}},
		"absent":          {ollamatest.Refuse(404, `model "nope:latest" not found, try pulling it first`), agent.FaultModelAbsent, map[string]string{"model": "m", "nearest": "m:latest", "pull": "ollama pull m"}},
		"no chat":         {ollamatest.Refuse(400, `"m" does not support chat`), agent.FaultNoChat, map[string]string{"model": "m"}},
		"no generate":     {ollamatest.Refuse(501, `"m" does not support generate`), agent.FaultNoChat, map[string]string{"model": "m"}},
		"memory":          {ollamatest.Refuse(500, "model requires more system memory (9.1 GiB) than is available (5.9 GiB)"), agent.FaultMemory, map[string]string{"model": "m", "needed": "9.1 GiB", "available": "5.9 GiB"}},
		"graphics memory": {ollamatest.Refuse(500, "llama runner process has terminated: cudaMalloc failed: out of memory"), agent.FaultMemory, map[string]string{"model": "m", "needed": "", "available": ""}},
		"too long":        {ollamatest.Refuse(400, "the input length exceeds the context length"), agent.FaultTooLong, map[string]string{"tokens": "", "limit": "16384"}},
		"no user query":   {ollamatest.Refuse(500, "no user query found in messages"), agent.FaultModelRefused, map[string]string{"status": "500", "text": "no user query found in messages"}},
		"no images":       {ollamatest.Refuse(400, "this model does not support image input"), agent.FaultModelRefused, map[string]string{"status": "400", "text": "this model does not support image input"}},
		"sign in":         {ollamatest.Refuse(401, "unauthorized"), agent.FaultModelRefused, map[string]string{"status": "401", "text": "unauthorized"}},
		"many lines":      {ollamatest.Refuse(500, "one\n two\t"+strings.Repeat("é", 300)), agent.FaultModelRefused, map[string]string{"status": "500", "text": "one two " + strings.Repeat("é", 96) + "…"}},
		"other server":    {ollamatest.RefuseWith(404, "text/plain", "404 page not found\n"), agent.FaultModelRefused, map[string]string{"status": "404", "text": "404 page not found"}},
		"error object":    {ollamatest.RefuseWith(400, "application/json", `{"error":{"message":"bad thing"}}`), agent.FaultModelRefused, map[string]string{"status": "400", "text": "bad thing"}},
		"empty":           {ollamatest.RefuseWith(403, "text/plain", ""), agent.FaultModelRefused, map[string]string{"status": "403", "text": ""}},
		"busy":            {ollamatest.Refuse(503, "server busy, please try again.  maximum pending requests exceeded"), transient, nil},
		"bad gateway":     {ollamatest.RefuseWith(502, "text/html", "<html><h1>502 Bad Gateway</h1></html>"), transient, nil},
		"gateway timeout": {ollamatest.RefuseWith(504, "text/html", "<html>"), transient, nil},
		"too many":        {ollamatest.Refuse(429, "slow down"), transient, nil},
		"runner died":     {ollamatest.Refuse(500, "model runner has unexpectedly stopped, this may be due to resource limitations"), transient, nil},
	} {
		t.Run(name, func(t *testing.T) {
			srv := ollamatest.New(ollamatest.Config{Models: []ollamatest.Model{{Name: "m"}}})
			c := connect(t, srv, ollama.Config{Model: "m"})
			srv.Queue(ollamatest.Answer{test.answer})
			_, err := c.Generate(t.Context(), question("x"), nil)
			var status api.StatusError
			if !errors.As(err, &status) || status.StatusCode < 400 {
				t.Errorf("no status in %v", err)
			}
			if got := errors.Is(err, agent.ErrTransient); got != (test.code == transient) {
				t.Fatalf("transient: %v (%v)", got, err)
			}
			if got := errors.Is(err, agent.ErrTooLong); got != (test.code == agent.FaultTooLong) {
				t.Errorf("too long: %v (%v)", got, err)
			}
			if test.code != transient {
				if f := asFault(t, err); f.Code != test.code || !maps.Equal(f.Args, test.args) {
					t.Errorf("%s %q", f.Code, f.Args)
				}
			}
			if n := len(srv.Requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// The error answers seen in the field are all understood.
func TestRecordedErrors(t *testing.T) {
	var recorded []struct {
		Status int
		Body   json.RawMessage
	}
	if err := json.Unmarshal([]byte(corpus(t, "ollama_errors.json")), &recorded); err != nil || len(recorded) != 7 {
		t.Fatal(err)
	}
	want := []agent.FaultCode{agent.FaultModelRefused, agent.FaultModelAbsent, agent.FaultMemory, agent.FaultModelRefused, agent.FaultModelRefused, "", ""}
	for i, r := range recorded {
		body := string(r.Body)
		var html string
		if json.Unmarshal(r.Body, &html) == nil {
			body = html
		}
		srv := ollamatest.New(ollamatest.Config{})
		c := connect(t, srv, ollama.Config{})
		srv.Queue(ollamatest.Answer{ollamatest.RefuseWith(r.Status, "application/json", body)})
		_, err := c.Generate(t.Context(), question("x"), nil)
		if want[i] == "" {
			if !errors.Is(err, agent.ErrTransient) {
				t.Errorf("%s: %v", body, err)
			}
		} else if f := asFault(t, err); f.Code != want[i] {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// C018: a model that takes no tools is asked again without, and the next turn
// does not send them at all; other refusals are not retried.
func TestModelWithoutTools(t *testing.T) {
	req := question("x")
	req.Tools = []agent.Spec{{Name: "f"}}
	t.Run("the server says so", func(t *testing.T) {
		srv := ollamatest.New(ollamatest.Config{})
		c := connect(t, srv, ollama.Config{})
		srv.Queue(ollamatest.Answer{ollamatest.Refuse(400, "registry.example/library/test-model does not support tools")})
		for range 2 {
			if reply, err := c.Generate(t.Context(), req, nil); err != nil || said(reply) != "You said: x" {
				t.Fatalf("%+v %v", reply, err)
			}
		}
		if r := srv.Requests(); len(r) != 3 || r[0].Tools == nil || r[1].Tools != nil || r[2].Tools != nil {
			t.Errorf("%d requests", len(r))
		}
	})
	t.Run("its capabilities say so", func(t *testing.T) {
		srv := ollamatest.New(ollamatest.Config{Models: []ollamatest.Model{{Name: "m", Capabilities: []string{"completion"}}}})
		c := connect(t, srv, ollama.Config{})
		if _, err := c.Generate(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
		if r := srv.Requests(); len(r) != 1 || r[0].Tools != nil {
			t.Errorf("%d requests", len(r))
		}
	})
	t.Run("refused without tools too", func(t *testing.T) {
		srv := ollamatest.New(ollamatest.Config{})
		c := connect(t, srv, ollama.Config{})
		refuse := ollamatest.Answer{ollamatest.Refuse(400, "x does not support tools")}
		srv.Queue(refuse, refuse, refuse)
		if _, err := c.Generate(t.Context(), req, nil); asFault(t, err).Code != agent.FaultModelRefused || len(srv.Requests()) != 2 {
			t.Errorf("%v after %d requests", err, len(srv.Requests()))
		}
	})
}

// C088: what never reached a server is told with its address, is not retried by
// the loop, and works as soon as the server is there.
func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	srv := ollamatest.New(ollamatest.Config{})
	t.Cleanup(func() { _ = srv.Close() })
	dial := (&net.Dialer{}).DialContext // to the closed port, until the server is there
	c := open(t, ollama.Config{Host: "http://ann:s3cret@" + address, Container: func() bool { return false },
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return dial(ctx, network, address)
		}})
	for name, call := range map[string]func() error{
		"generate":  func() error { _, err := c.Generate(t.Context(), question("x"), nil); return err },
		"named":     func() error { _, err := c.Generate(t.Context(), agent.Request{Model: "m"}, nil); return err },
		"resolve":   func() error { _, err := c.Resolve(t.Context()); return err },
		"installed": func() error { _, err := c.Installed(t.Context()); return err },
		"running":   func() error { _, err := c.Running(t.Context()); return err },
		"version":   func() error { _, err := c.Version(t.Context()); return err },
		"limits":    func() error { _, err := c.Limits(t.Context(), "m"); return err },
		"pull":      func() error { return c.Pull(t.Context(), "m", nil) },
		"warm up":   func() error { return c.WarmUp(t.Context()) },
	} {
		err := call()
		f := asFault(t, err)
		if f.Code != agent.FaultUnreachable || f.Args["address"] != address || f.Args["hint"] != "" || errors.Is(err, agent.ErrTransient) || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "ann:") {
			t.Errorf("%s: the error shows who signs in: %v", name, err)
		}
	}

	dial = srv.Dial
	if reply, err := c.Generate(t.Context(), question("x"), nil); err != nil || said(reply) != "You said: x" {
		t.Errorf("once it is there: %+v %v", reply, err)
	}
}

func TestUnreachableByOtherReasons(t *testing.T) {
	dns := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}}
	c := open(t, ollama.Config{Host: "nowhere.invalid", Container: func() bool { return true },
		Dial: func(context.Context, string, string) (net.Conn, error) { return nil, dns }})
	_, err := c.Version(t.Context())
	if f := asFault(t, err); f.Code != agent.FaultUnreachable || f.Args["hint"] != "container" || f.Args["address"] != "nowhere.invalid:11434" {
		t.Errorf("%v", err)
	}

	plain := httptest.NewServer(ollamatest.New(ollamatest.Config{}))
	defer plain.Close()
	c = open(t, ollama.Config{Host: strings.Replace(plain.URL, "http:", "https:", 1)})
	if _, err := c.Version(t.Context()); asFault(t, err).Code != agent.FaultUnreachable {
		t.Errorf("no TLS there: %v", err)
	}

	moved := httptest.NewServer(http.RedirectHandler("https://example.org/", http.StatusMovedPermanently))
	defer moved.Close()
	c = open(t, ollama.Config{Host: moved.URL})
	if _, err := c.Version(t.Context()); asFault(t, err).Args["text"] != "the server redirects to https://example.org/" {
		t.Errorf("moved: %v", err)
	}

	// A server that takes the connection and never answers.
	synctest.Test(t, func(t *testing.T) {
		c := open(t, ollama.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				b := make([]byte, 4096)
				for {
					if _, err := server.Read(b); err != nil {
						return
					}
				}
			}()
			return client, nil
		}})
		begun := time.Now()
		if _, err := c.Version(t.Context()); asFault(t, err).Code != agent.FaultUnreachable || time.Since(begun) != 30*time.Second {
			t.Errorf("silent: %v after %v", err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Version(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("own deadline: %v", err)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for name, config := range map[string]ollama.Config{
		"host":     {Host: "ftp://x"},
		"options":  {Options: json.RawMessage(`[1]`)},
		"null":     {Options: json.RawMessage(`null`)},
		"context":  {NumCtx: -1},
		"parallel": {Parallel: -1},
		"time-out": {LoadTimeout: -1},
	} {
		if _, err := ollama.New(config); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// What people and models write never reaches the log.
func TestLogHoldsNoText(t *testing.T) {
	var log strings.Builder
	srv := ollamatest.New(ollamatest.Config{})
	c := connect(t, srv, ollama.Config{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	srv.Queue(ollamatest.Answer{ollamatest.Refuse(400, "x does not support tools")})
	req := question("private question")
	req.Tools = []agent.Spec{{Name: "f"}}
	if _, err := c.Generate(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	if s := log.String(); !strings.Contains(s, "model answered") || strings.Contains(s, "private") {
		t.Error(fmt.Sprint("log: ", s))
	}
}
