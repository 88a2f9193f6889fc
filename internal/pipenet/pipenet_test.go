package pipenet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func pair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l := Listen()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	client, err := l.Dial(t.Context(), "tcp", "example.org:80")
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	t.Cleanup(func() { _, _, _ = client.Close(), server.Close(), l.Close() })
	return client, server
}

func TestClosingOneEndEndsTheOther(t *testing.T) {
	client, server := pair(t)
	_ = client.Close()
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("Read = %v, want EOF", err)
	}
	if _, err := server.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Write = %v, want ErrClosedPipe", err)
	}
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, server := pair(t)
		if err := server.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read = %v, want deadline exceeded", err)
		}
	})
}

func TestDialRefusedAfterClose(t *testing.T) {
	l := Listen()
	_ = l.Close()
	_ = l.Close() // twice is fine
	_, err := l.Dial(t.Context(), "tcp", "example.org:80")
	if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("Dial = %v, want connection refused", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept = %v, want net.ErrClosed", err)
	}
}

func TestCloseReleasesWaitingDialAndAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialed, accepted := make(chan error, 1), make(chan error, 1)
		a, b := Listen(), Listen()
		go func() { _, err := a.Dial(context.Background(), "", ""); dialed <- err }()
		go func() { _, err := b.Accept(); accepted <- err }()
		synctest.Wait()
		_ = a.Close()
		_ = b.Close()
		if err := <-dialed; !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("Dial = %v", err)
		}
		if err := <-accepted; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept = %v", err)
		}
	})
}

func TestDialHonoursContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := Listen().Dial(ctx, "", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Dial = %v", err)
		}
	})
}

// An HTTP exchange whose handler waits 50 s passes at once in a bubble.
func TestHTTPInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Listen()
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			select {
			case <-time.After(50 * time.Second):
			case <-r.Context().Done():
			}
			_, _ = w.Write(body)
		})}
		go func() { _ = srv.Serve(l) }()
		defer func() { _ = srv.Close() }()
		tr := &http.Transport{DialContext: l.Dial}
		defer tr.CloseIdleConnections()
		start := time.Now()
		big := strings.Repeat("x", 1<<20)
		resp, err := (&http.Client{Transport: tr}).Post("http://pipe/", "text/plain", strings.NewReader(big))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		got, err := io.ReadAll(resp.Body)
		if err != nil || string(got) != big {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		if d := time.Since(start); d != 50*time.Second { // virtual time: exact
			t.Errorf("took %v of virtual time", d)
		}
	})
}
