package main

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

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
