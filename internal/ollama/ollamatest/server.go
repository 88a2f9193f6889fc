// Package ollamatest is an Ollama server for tests, benchmarks and the demo. It
// speaks the HTTP API of Ollama 0.17.4, odd behaviours included, and answers by
// script instead of by model:
//
//	srv := ollamatest.New(ollamatest.Config{})
//	defer srv.Close()
//	srv.Queue(
//		ollamatest.Answer{ollamatest.Call("calculator", `{"expression":"2+2"}`)},
//		ollamatest.Answer{ollamatest.Text("The half of "), ollamatest.Cut()},
//	)
//	url, err := srv.Start()
//
// An Answer is a list of steps. Who answers is decided per request: the queue
// first, then the scripts (newest first), then Config.Answer, then an echo.
//
// For timed behaviour inside a testing/synctest bubble, create the server in
// the bubble and give its Dial to the client's transport.
package ollamatest

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/internal/pipenet"
)

// Config shapes a Server; the zero value is a fast server with one chat model
// named "test-model".
type Config struct {
	Models     []Model              // installed; nil: one chat model "test-model"
	Library    []Model              // what /api/pull can install
	Answer     func(Request) Answer // when no script takes the request; nil: an echo
	Load       time.Duration        // time to load a model, or to reload it with another num_ctx
	FirstToken time.Duration        // from loaded to the first token
	PerToken   time.Duration        // between tokens; also between progress lines of /api/pull
	NumCtx     int                  // context of a request without num_ctx; 0: 4096
	Version    string               // of the server; "": 0.17.4
	Forget     bool                 // do not keep requests: for long benchmarks
}

// Model is an installed model.
type Model struct {
	Name          string    // a name without a tag means ":latest"
	Size          int64     // bytes; 0: 1 GB
	Capabilities  []string  // nil: completion and tools
	ContextLength int       // tokens; 0: 32768
	Family        string    // "": llama
	Modified      time.Time // when it was installed
}

// State counts chat requests.
type State struct {
	Received int // requests that came in
	Active   int // being answered now
	Peak     int // most at the same time
	Served   int // ended as their script wanted
	Gone     int // ended because the client left
}

// Server is the emulator. It is an http.Handler, and safe for concurrent use.
type Server struct {
	config Config
	routes *http.ServeMux
	server *http.Server

	mu       sync.Mutex
	models   []Model
	loaded   map[string]loaded
	queue    []Answer
	scripts  []func(Request) Answer
	requests []Request
	calls    map[string]int
	state    State
	changed  chan struct{} // closed and replaced at every change
	callID   int
	pipe     *pipenet.Listener
}

// loaded is a model in memory.
type loaded struct {
	numCtx  int
	expires time.Time
}

// New returns a server that listens nowhere yet: use it as a handler, or call
// Start or Dial.
func New(config Config) *Server {
	if config.Models == nil {
		config.Models = []Model{{Name: "test-model"}}
	}
	if config.NumCtx == 0 {
		config.NumCtx = 4096
	}
	if config.Version == "" {
		config.Version = "0.17.4"
	}
	if config.Answer == nil {
		config.Answer = Echo
	}
	s := &Server{
		config:  config,
		routes:  http.NewServeMux(),
		models:  slices.Clone(config.Models),
		loaded:  map[string]loaded{},
		calls:   map[string]int{},
		changed: make(chan struct{}),
	}
	for i := range s.models {
		s.models[i].fill()
	}
	s.server = &http.Server{Handler: s}
	s.routes.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("Ollama is running")) })
	s.routes.HandleFunc("GET /api/version", s.version)
	s.routes.HandleFunc("GET /api/tags", s.tags)
	s.routes.HandleFunc("GET /api/ps", s.ps)
	s.routes.HandleFunc("POST /api/show", s.show)
	s.routes.HandleFunc("POST /api/pull", s.pull)
	s.routes.HandleFunc("POST /api/embed", s.embed)
	s.routes.HandleFunc("POST /api/chat", s.chat)
	return s
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.calls[r.URL.Path]++
	s.mu.Unlock()
	s.routes.ServeHTTP(w, r)
}

// Start listens on a free port of 127.0.0.1 and returns the server's URL.
func (s *Server) Start() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { _ = s.server.Serve(l) }()
	return "http://" + l.Addr().String(), nil
}

// Dial connects to the server in memory, whatever the address. It has the shape
// of http.Transport.DialContext.
func (s *Server) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.mu.Lock()
	if s.pipe == nil {
		s.pipe = pipenet.Listen()
		go func(l net.Listener) { _ = s.server.Serve(l) }(s.pipe)
	}
	l := s.pipe
	s.mu.Unlock()
	return l.Dial(ctx, network, address)
}

// Close cuts all connections and stops listening.
func (s *Server) Close() error { return s.server.Close() }

// Queue adds answers for the next chat requests, one each, before any script.
func (s *Server) Queue(answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, answers...)
}

// Script adds a rule for chat requests. A nil answer means "not mine"; the
// newest rule is asked first.
func (s *Server) Script(rule func(Request) Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts = append(s.scripts, rule)
}

// When answers requests whose last user message contains text.
func (s *Server) When(text string, answer Answer) {
	s.Script(func(r Request) Answer {
		if strings.Contains(r.LastUser(), text) {
			return answer
		}
		return nil
	})
}

// OnModel answers requests to the named model.
func (s *Server) OnModel(name string, answer Answer) {
	s.Script(func(r Request) Answer {
		if sameModel(r.Model, name) {
			return answer
		}
		return nil
	})
}

// Requests returns the chat requests that could be decoded, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Calls returns how often a path, such as "/api/show", was asked for.
func (s *Server) Calls(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[path]
}

// State returns the counters.
func (s *Server) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Wait returns when cond holds, which is asked again after every change of the
// counters, or with ctx's error.
func (s *Server) Wait(ctx context.Context, cond func(State) bool) error {
	for {
		s.mu.Lock()
		state, changed := s.state, s.changed
		s.mu.Unlock()
		if cond(state) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// update changes the counters and wakes all who Wait.
func (s *Server) update(change func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.state)
	s.state.Peak = max(s.state.Peak, s.state.Active)
	close(s.changed)
	s.changed = make(chan struct{})
}

// answer picks who answers a request.
func (s *Server) answer(r Request) Answer {
	s.mu.Lock()
	if len(s.queue) > 0 {
		a := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		return a
	}
	scripts := slices.Clone(s.scripts)
	s.mu.Unlock()
	for _, rule := range slices.Backward(scripts) {
		if a := rule(r); a != nil {
			return a
		}
	}
	return s.config.Answer(r)
}
