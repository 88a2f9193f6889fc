package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/agent"
	"agentd/internal/bot/bottest"
)

// Which failures are sure decides what may be sent again.
func TestSurelyFailed(t *testing.T) {
	tests := map[string]struct {
		rule *bottest.Rule
		cfg  func(*Config)
		sure bool
	}{
		"refused":                         {&bottest.Rule{Status: 400}, nil, true},
		"flood":                           {&bottest.Rule{RetryAfter: 3}, nil, true},
		"server error in JSON":            {&bottest.Rule{Status: 500}, nil, true},
		"page 413":                        {&bottest.Rule{Status: 413, Body: "<html>"}, nil, true},
		"page 502":                        {&bottest.Rule{Status: 502, Body: "<html>"}, nil, false},
		"empty 200":                       {&bottest.Rule{Status: 200, Body: " "}, nil, false},
		"cut":                             {&bottest.Rule{CutBefore: true}, nil, false},
		"half":                            {&bottest.Rule{HalfBody: true}, nil, false},
		"hangs":                           {&bottest.Rule{Hang: true}, nil, false},
		"no connection":                   {nil, func(c *Config) { c.Dial, _ = refusing(1, nil) }, true},
		"TLS with a server that has none": {nil, func(c *Config) { c.URL = "https://telegram.test" }, true},
		"proxy that refuses": {nil, func(c *Config) {
			c.URL, c.Proxy = "https://telegram.test", "http://user:secret@proxy.test:8080"
		}, true},
		"hook before": {nil, func(c *Config) { c.Wrap = func(http.RoundTripper) http.RoundTripper { return echoing{} } }, true},
		"hook after": {nil, func(c *Config) {
			c.Wrap = func(rt http.RoundTripper) http.RoundTripper { return forgetting{rt} }
		}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			withDelivery(t, func(d *delivery) {
				if test.rule != nil {
					d.srv.Fault(*test.rule)
				}
				if test.cfg != nil {
					test.cfg(&d.cfg)
				}
				b, stop := d.start()
				defer stop()
				err := b.api.call(d.ctx, "getMe", nil, nil)
				if err == nil || surelyFailed(err) != test.sure {
					t.Errorf("%v: sure is %v", err, surelyFailed(err))
				}
				if strings.Contains(fmt.Sprint(err), "secret") {
					t.Errorf("a password in %v", err)
				}
			})
		})
	}
	if surelyFailed(context.Canceled) || surelyFailed(nil) {
		t.Error("what is not known to have failed is not sure")
	}
}

// forgetting loses the answer.
type forgetting struct{ http.RoundTripper }

func (f forgetting) RoundTrip(r *http.Request) (*http.Response, error) {
	if resp, err := f.RoundTripper.RoundTrip(r); err == nil {
		_ = resp.Body.Close()
	}
	return nil, errors.New("lost")
}

// A connection that the server closed while it was idle is no failure.
func TestCallOnClosedIdleConnection(t *testing.T) {
	var mu sync.Mutex
	var conns []net.Conn
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"ok":true,"result":true}`)
	}))
	idle := make(chan struct{}, 1)
	srv.Config.ConnState = func(c net.Conn, s http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if s == http.StateIdle {
			conns = append(conns, c)
			idle <- struct{}{}
		}
	}
	srv.Start()
	defer srv.Close()
	a, err := newAPI(Config{Token: "1:x", URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer a.send.CloseIdleConnections()
	for range 20 {
		if err := a.call(t.Context(), "getMe", nil, nil); err != nil && surelyFailed(err) {
			t.Errorf("a call that may have been written is called a sure failure: %v", err)
		} else if err == nil {
			<-idle
		}
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		conns = nil
		mu.Unlock()
	}
}

func TestCallGivesUp(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		d.srv.Fault(bottest.Rule{Method: "getMe", Hang: true})
		b, stop := d.start()
		defer stop()
		began := time.Now()
		if err := b.api.call(d.ctx, "getMe", nil, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != callTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestCallDecodes(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		b, stop := d.start()
		defer stop()
		for name, params := range map[string]any{
			"raw": json.RawMessage(`{"chat_id":1001,"text":"<x>"}`), "map": map[string]any{"chat_id": ann, "text": "<x>"},
		} {
			var m struct{ Text string }
			if err := b.api.call(d.ctx, "sendMessage", params, &m); err != nil || m.Text != "<x>" {
				t.Errorf("%s: %q, %v", name, m.Text, err)
			}
		}
		refused := (*APIError)(nil)
		d.srv.Fault(bottest.Rule{Method: "sendMessage", MigrateTo: -1001557000111})
		err := b.api.call(d.ctx, "sendMessage", json.RawMessage(`{"chat_id":1001,"text":"x"}`), nil)
		if !errors.As(err, &refused) || refused.MigrateTo != -1001557000111 || refused.Code != 400 || refused.Method != "sendMessage" {
			t.Errorf("%+v", err)
		}
		var n int
		if err := b.api.call(d.ctx, "getMe", nil, &n); err == nil || surelyFailed(err) {
			t.Errorf("an answer of the wrong type: %v", err)
		}
		if err := b.api.call(d.ctx, "getMe", func() {}, nil); !surelyFailed(err) {
			t.Errorf("parameters that are no JSON: %v", err)
		}
	})
}

func TestAnswerIsLimited(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		d.srv.Fault(bottest.Rule{Method: "getMe", Status: 200, Body: `{"ok":true,"result":"` + strings.Repeat("x", maxAnswer) + `"}`})
		b, stop := d.start()
		defer stop()
		if err := b.api.call(d.ctx, "getMe", nil, nil); err == nil || !strings.Contains(err.Error(), "4 MiB") {
			t.Errorf("call: %v", err)
		}
	})
}

// A redirect is not followed: it would carry the token and the text elsewhere.
func TestNoRedirect(t *testing.T) {
	var hits []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits = append(hits, r.URL.Path)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	a, err := newAPI(Config{Token: "1:x", URL: srv.URL + "/prefix/"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.send.CloseIdleConnections()
	if err := a.call(t.Context(), "getMe", nil, nil); err == nil || surelyFailed(err) {
		t.Errorf("call: %v", err)
	}
	if fmt.Sprint(hits) != "[/prefix/bot1:x/getMe]" {
		t.Errorf("requests: %v", hits)
	}
}

func TestProxies(t *testing.T) {
	srv, err := bottest.New(bottest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	addr, err := srv.Start()
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(addr, "http://")
	var through []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		through = append(through, r.Method+" "+r.Header.Get("Proxy-Authorization"))
		r.URL.Host = host
		r.RequestURI = ""
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		_, _ = io.Copy(w, resp.Body)
	}))
	defer proxy.Close()
	socks, asked := socksProxy(t, host)
	for name, url := range map[string]string{"http": strings.Replace(proxy.URL, "://", "://u:p@", 1), "socks5": "socks5://u:p@" + socks} {
		t.Run(name, func(t *testing.T) {
			a, err := newAPI(Config{Token: srv.Token(), URL: "http://telegram.invalid", Proxy: url})
			if err != nil {
				t.Fatal(err)
			}
			defer a.send.CloseIdleConnections()
			if err := a.call(t.Context(), "getMe", nil, nil); err != nil {
				t.Error(err)
			}
		})
	}
	if fmt.Sprint(through) != "[POST Basic dTpw]" {
		t.Errorf("the HTTP proxy saw %q", through)
	}
	if got := <-asked; got != "u:p telegram.invalid" { // the proxy resolves the name
		t.Errorf("the SOCKS proxy was asked for %q", got)
	}
}

// socksProxy takes one client (RFC 1928, 1929) to the target and tells what it asked for.
func socksProxy(t *testing.T, target string) (addr string, asked <-chan string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = ln.Close(); wg.Wait() })
	wg.Go(func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		read := func(n int) []byte {
			b := make([]byte, n)
			if _, err := io.ReadFull(c, b); err != nil {
				t.Error("SOCKS client:", err)
			}
			return b
		}
		read(int(read(2)[1])) // methods
		_, _ = c.Write([]byte{5, 2})
		user := read(int(read(2)[1]))
		password := read(int(read(1)[0]))
		_, _ = c.Write([]byte{1, 0})
		name := read(int(read(5)[4])) // CONNECT, a domain name
		read(2)
		said <- string(user) + ":" + string(password) + " " + string(name)
		_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		up, err := net.Dial("tcp", target)
		if err != nil {
			t.Error(err)
			return
		}
		wg.Go(func() { _, _ = io.Copy(up, c); _ = up.Close() })
		_, _ = io.Copy(c, up)
	})
	return ln.Addr().String(), said
}

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no token": {}, "URL without a scheme": {Token: "1:x", URL: "telegram.test"}, "URL of another kind": {Token: "1:x", URL: "ftp://x"},
		"proxy without a scheme": {Token: "1:x", Proxy: "user:secret@proxy"}, "proxy that is no URL": {Token: "1:x", Proxy: "socks5://user:secret@%zz"},
	} {
		if _, err := New(cfg, nil, nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAddressed(t *testing.T) {
	for _, test := range []struct {
		o      outgoing
		thread int64
		want   string
	}{
		{outgoing{Method: "sendMessage", Params: json.RawMessage(`{"text":"x"}`)}, 0, `{"chat_id":-7,"text":"x"}`},
		{outgoing{Method: "sendMessage", Params: json.RawMessage(`{"text":"x"}`)}, 55, `{"chat_id":-7,"message_thread_id":55,"text":"x"}`},
		{outgoing{Method: "sendMessage", Params: json.RawMessage(`{"text":"x"}`)}, 1, `{"chat_id":-7,"text":"x"}`},
		{outgoing{Method: "editMessageText", Params: json.RawMessage(`{"message_id":1}`)}, 55, `{"chat_id":-7,"message_id":1}`},
		{outgoing{Method: "sendChatAction", Params: json.RawMessage(`{}`)}, 55, `{"chat_id":-7,"message_thread_id":55}`},
		{outgoing{Method: "leaveChat"}, 0, `{"chat_id":-7}`},
	} {
		if got := string(test.o.addressed(agent.Address{Chat: -7, Thread: test.thread})); got != test.want {
			t.Errorf("%s thread %d: %s, want %s", test.o.Method, test.thread, got, test.want)
		}
	}
}

// However long we are told to wait, we do not wait for years.
func TestRetryAfterIsBounded(t *testing.T) {
	a := receptionist(t, Config{}).api
	for said, want := range map[string]time.Duration{"3": 3 * time.Second, "-5": 0, "9000000000": 24 * time.Hour, "9223372036854775807": 24 * time.Hour} {
		body := `{"ok":false,"error_code":429,"description":"Too Many Requests","parameters":{"retry_after":` + said + `}}`
		err := a.decode("sendMessage", &http.Response{StatusCode: http.StatusTooManyRequests}, []byte(body), nil)
		refused := (*APIError)(nil)
		if !errors.As(err, &refused) || refused.RetryAfter != want {
			t.Errorf("%s: %v", said, err)
		}
	}
}
