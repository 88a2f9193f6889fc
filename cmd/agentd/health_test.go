package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/bot/bottest"
	"agentd/internal/ollama/ollamatest"
)

// C013: a conflict that lasts shows from outside, and so does a model server that
// is away; both pass. This is a real listener, so it runs in real time.
func TestHealth(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, ollamatest.Config{})
	w.env["HTTP_ADDR"] = addr
	var away atomic.Bool
	w.dialOllama = func(ctx context.Context, network, address string) (net.Conn, error) {
		if away.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("no route to host")}
		}
		return w.llm.Dial(ctx, network, address)
	}
	d := w.start(nil)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	until := func(path string, status int, says string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			resp, err := client.Get("http://" + addr + path)
			if err == nil {
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode == status && strings.Contains(string(body), says) {
					return
				}
			}
			select {
			case <-ctx.Done():
				t.Fatalf("%s never said %d %s", path, status, says)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	until("/healthz", http.StatusOK, "ok")
	until("/readyz", http.StatusOK, "ok")

	conflict := w.tg.Fault(bottest.Rule{Method: "getUpdates", Status: 409, Error: "Conflict: terminated by other getUpdates request", Times: -1})
	w.ann().Send("hello") // ends the poll under way; the next one meets the conflict
	until("/readyz", http.StatusServiceUnavailable, "conflict")
	until("/healthz", http.StatusOK, "ok")
	conflict.Remove()
	until("/readyz", http.StatusOK, "ok")

	away.Store(true)
	if err := w.llm.Close(); err != nil { // and with it the connections that are open
		t.Error(err)
	}
	until("/readyz", http.StatusServiceUnavailable, "model server")
	if code := d.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
