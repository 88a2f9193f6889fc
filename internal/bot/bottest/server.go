package bottest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentd/internal/pipenet"
)

// Defaults of Config.
const (
	DefaultToken    = "7000000001:TEST-bottest-token"
	DefaultBotID    = 7000000001
	DefaultUsername = "agent_test_bot"

	// DefaultUploadLimit is what the public server takes in one request, in bytes.
	DefaultUploadLimit = 50 << 20
	// DownloadLimit is what getFile of the public server gives, in bytes.
	DownloadLimit = 20 << 20
)

// Config of a Server; the zero value works.
type Config struct {
	Token    string // default DefaultToken
	BotID    int64  // default DefaultBotID
	Username string // without "@", default DefaultUsername
	Name     string // first name, default "Agent Test"

	// FirstUpdate is the first update_id, default 810000001.
	FirstUpdate int64
	// UploadLimit is the largest file in bytes, default DefaultUploadLimit;
	// beyond it the answer is nginx' 413 page.
	UploadLimit int64
	// Flood turns Telegram's rate limits on, see flood.go.
	Flood bool
	// Keep bounds the call log and each chat's history; 0 keeps everything.
	Keep int
	// WebhookClient delivers to webhooks, default http.DefaultClient.
	WebhookClient *http.Client
}

// Server is a Bot API server. Make it with New; it is an http.Handler that
// can also serve itself, by Start on TCP and by Dial in memory. All methods
// may be used from any goroutine. Inside a testing/synctest bubble it must be
// made, used through Dial only, and closed.
type Server struct {
	cfg  Config
	spec *spec
	bot  apiUser

	http  *http.Server
	pipe  *pipenet.Listener
	serve sync.Once // serving pipe
	wg    sync.WaitGroup
	done  chan struct{}
	close sync.Once

	mu         sync.Mutex
	closed     bool
	changed    chan struct{} // closed and replaced whenever something changes
	calls      []Call
	callSeq    int
	violations []string
	faults     []*Fault
	flood      flood
	updates    queue
	webhook    *webhook
	people     map[int64]*Person
	chats      map[int64]*chat
	files      map[string]*File
	fileSeq    int
	callbacks  map[string]*Callback
	callback   int64 // last callback id
	commands   map[commandKey]json.RawMessage
}

// New makes a server. It fails only if the embedded specification is damaged.
func New(cfg Config) (*Server, error) {
	sp, err := loadSpec()
	if err != nil {
		return nil, err
	}
	setDefault(&cfg.Token, DefaultToken)
	setDefault(&cfg.BotID, DefaultBotID)
	setDefault(&cfg.Username, DefaultUsername)
	setDefault(&cfg.Name, "Agent Test")
	setDefault(&cfg.FirstUpdate, 810000001)
	setDefault(&cfg.UploadLimit, DefaultUploadLimit)
	setDefault(&cfg.WebhookClient, http.DefaultClient)
	s := &Server{
		cfg:       cfg,
		spec:      sp,
		bot:       apiUser{ID: cfg.BotID, IsBot: true, FirstName: cfg.Name, Username: cfg.Username},
		pipe:      pipenet.Listen(),
		done:      make(chan struct{}),
		changed:   make(chan struct{}),
		flood:     flood{groups: map[int64][]time.Time{}, private: map[int64]*bucket{}, until: map[int64]time.Time{}},
		updates:   queue{next: cfg.FirstUpdate, wake: make(chan struct{})},
		people:    map[int64]*Person{},
		chats:     map[int64]*chat{},
		files:     map[string]*File{},
		callbacks: map[string]*Callback{},
		callback:  4382000000000000000,
		commands:  map[commandKey]json.RawMessage{},
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	return s, nil
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Token is the bot token the server accepts.
func (s *Server) Token() string { return s.cfg.Token }

// BotID is the bot's user id.
func (s *Server) BotID() int64 { return s.cfg.BotID }

// Username is the bot's user name without "@".
func (s *Server) Username() string { return s.cfg.Username }

// Start listens on a free port of 127.0.0.1 until Close and returns the base
// URL, "http://127.0.0.1:port".
func (s *Server) Start() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s.wg.Go(func() { s.run(ln) })
	return "http://" + ln.Addr().String(), nil
}

// Dial connects to the server in memory; it has the shape of
// http.Transport.DialContext and ignores network and address.
func (s *Server) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.serve.Do(func() { s.wg.Go(func() { s.run(s.pipe) }) })
	return s.pipe.Dial(ctx, network, address)
}

// Client is an HTTP client whose every connection goes to this server.
func (s *Server) Client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: s.Dial}}
}

func (s *Server) run(ln net.Listener) {
	if err := s.http.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
		s.violation("server: " + err.Error())
	}
}

// Close ends all waiting calls, closes all connections and waits for the
// server's goroutines. State can still be read afterwards.
func (s *Server) Close() {
	s.close.Do(func() {
		close(s.done)
		s.mu.Lock()
		if s.closed = true; s.webhook != nil {
			s.webhook.stop()
		}
		s.mu.Unlock()
		// The server first: it then knows why its listeners end. They are ours to lose.
		_ = s.http.Close()
		_ = s.pipe.Close()
	})
	s.wg.Wait()
}

// notify wakes Wait; s.mu is held.
func (s *Server) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Wait blocks until cond holds. It asks again after every change of the
// server's state: calls, messages, updates taken. The error wraps ctx's and
// tells the last calls.
func (s *Server) Wait(ctx context.Context, cond func(*Server) bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if cond(s) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("bottest: what was waited for did not happen: %w; %s", context.Cause(ctx), s.lastCalls(8))
		case <-s.done:
			return fmt.Errorf("bottest: server closed while waiting; %s", s.lastCalls(8))
		}
	}
}

// Violations are the requests that broke the official specification, in order.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.violations...)
}

func (s *Server) violation(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violations = append(s.violations, text)
	s.notify()
}

// apiError is an answer with ok false.
type apiError struct {
	Code        int            `json:"error_code"`
	Description string         `json:"description"`
	Parameters  map[string]any `json:"parameters,omitempty"`
}

func (e *apiError) Error() string { return e.Description }

// ServeHTTP answers /bot<token>/METHOD and /file/bot<token>/PATH.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, isFile := strings.CutPrefix(r.URL.Path, "/file")
	rest, ok := strings.CutPrefix(path, "/bot")
	if !ok {
		writeAnswer(w, answer{status: 404, err: &apiError{Code: 404, Description: "Not Found"}})
		return
	}
	token, name, _ := strings.Cut(rest, "/")
	if token != s.cfg.Token {
		writeAnswer(w, answer{status: 401, err: &apiError{Code: 401, Description: "Unauthorized"}})
		return
	}
	if isFile {
		s.serveFile(w, r, name)
		return
	}
	s.serveCall(w, r, name)
}

// answer is what goes back for a call.
type answer struct {
	status int
	result any       // with status 200
	err    *apiError // otherwise
	raw    string    // a body as it stands, from a fault
	half   bool      // cut in the middle of the body
}

func writeAnswer(w http.ResponseWriter, a answer) {
	var body []byte
	switch {
	case a.raw != "":
		body = []byte(a.raw)
	case a.err != nil:
		body = mustJSON(struct {
			OK bool `json:"ok"`
			*apiError
		}{false, a.err})
	default:
		body = mustJSON(struct {
			OK     bool `json:"ok"`
			Result any  `json:"result"`
		}{true, a.result})
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
		h.Set("Content-Type", "text/html")
	}
	if a.err != nil && a.err.Parameters["retry_after"] != nil {
		h.Set("Retry-After", fmt.Sprint(a.err.Parameters["retry_after"]))
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(a.status)
	if a.half {
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body) // the client may be gone
}

// mustJSON marshals values that are made of plain data only.
func mustJSON(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("bottest: %v", err))
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}
