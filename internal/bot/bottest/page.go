package bottest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

// The page is three plain files; it loads nothing else.
//
//go:embed page
var pageFiles embed.FS

// pagePolicy lets the page load its own files and talk to its own origin,
// nothing more. It has no inline script or style.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pressWait is how long the page waits for the answer to a pressed button.
const pressWait = 15 * time.Second

// Page is a web page that looks and behaves like a person's private chat with
// the bot: what "agentd demo" shows. It is an http.Handler for the paths under
// Path, which hold a random key. Requests must name a loopback host, and those
// that do something must come from the page itself.
type Page struct {
	s      *Server
	person *Person
	key    string
	mux    *http.ServeMux
}

// Page makes the page of one person.
func (s *Server) Page(person *Person) *Page {
	p := &Page{s: s, person: person, key: rand.Text(), mux: http.NewServeMux()}
	p.mux.HandleFunc("GET /{$}", p.asset("index.html"))
	p.mux.HandleFunc("GET /page.js", p.asset("page.js"))
	p.mux.HandleFunc("GET /page.css", p.asset("page.css"))
	p.mux.HandleFunc("GET /events", p.events)
	p.mux.HandleFunc("GET /file/{message}", p.file)
	p.mux.HandleFunc("POST /send", p.send)
	p.mux.HandleFunc("POST /press", p.press)
	p.mux.HandleFunc("POST /react", p.react)
	return p
}

// Path is the page's path, "/demo/<key>/".
func (p *Page) Path() string { return "/demo/" + p.key + "/" }

// Start serves the page alone on addr, as "127.0.0.1:0", until the server is
// closed, and returns its URL. addr must be a loopback address.
func (p *Page) Start(addr string) (string, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	if !loopback(host) {
		return "", fmt.Errorf("bottest: the page is for this machine only, not %q", host)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return "", err
	}
	srv := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	p.s.wg.Go(func() {
		<-p.s.done
		_ = srv.Close() // the listener is ours to lose
	})
	p.s.wg.Go(func() {
		if err := srv.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
			p.s.violation("page: " + err.Error())
		}
	})
	return "http://" + ln.Addr().String() + p.Path(), nil
}

func loopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// ServeHTTP checks who asks before anything else: a foreign Host (a name that
// was rebound to this machine), a wrong key and a foreign origin get nothing.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // the key is in the address
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	rest, found := strings.CutPrefix(r.URL.Path, "/demo/")
	key, rest, inside := strings.Cut(rest, "/")
	switch {
	case !loopback(host):
		http.Error(w, "this page is served to its own machine only", http.StatusForbidden)
	case !found || !inside || subtle.ConstantTimeCompare([]byte(key), []byte(p.key)) != 1:
		http.NotFound(w, r)
	case !sameOrigin(r):
		http.Error(w, "requests must come from the page itself", http.StatusForbidden)
	default:
		inner := r.Clone(r.Context())
		inner.URL = &url.URL{Path: "/" + rest}
		p.mux.ServeHTTP(w, inner)
	}
}

// sameOrigin refuses other sites. Browsers send Origin with every POST;
// reading needs no more than the key and, where sent, a fitting Sec-Fetch-Site.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return false
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	return r.Header.Get("Origin") == "http://"+r.Host
}

func (p *Page) asset(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := pageFiles.ReadFile("page/" + name)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
		_, _ = w.Write(data) // the browser may be gone
	}
}

// pageMessage is a message as the page shows it.
type pageMessage struct {
	ID        int            `json:"id"`
	Bot       bool           `json:"bot"`
	At        int64          `json:"at"` // Unix ms
	Edited    bool           `json:"edited"`
	Silent    bool           `json:"silent"`
	Kind      string         `json:"kind"`
	Text      string         `json:"text"`
	Entities  []Entity       `json:"entities"`
	File      *pageFile      `json:"file"`
	Buttons   [][]Button     `json:"buttons"`
	ReplyTo   int            `json:"replyTo"`
	Reactions map[string]int `json:"reactions"`
	Mine      []string       `json:"mine"` // the person's own reactions
}

type pageFile struct {
	Name  string `json:"name"`
	Size  int64  `json:"size"`
	Image bool   `json:"image"`
}

// pageState is what the page shows beside messages.
type pageState struct {
	Action   string    `json:"action"`
	Drafts   []Draft   `json:"drafts"`
	Commands []Command `json:"commands"`
}

// Pictures that a browser may show; SVG can hold script.
var pictures = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

func (p *Page) show(m Message) pageMessage {
	out := pageMessage{ID: m.ID, Bot: m.FromBot, At: m.At.UnixMilli(), Edited: m.Edits > 0, Silent: m.Silent, Kind: m.Kind, Text: m.Text,
		Entities: m.Entities, Buttons: m.Buttons, ReplyTo: m.ReplyTo, Reactions: map[string]int{}, Mine: m.Reactions[p.person.ID]}
	for _, emoji := range m.Reactions {
		for _, e := range emoji {
			out.Reactions[e]++
		}
	}
	if m.File != nil {
		out.File = &pageFile{Name: m.File.Name, Size: m.File.Size, Image: slices.Contains(pictures, http.DetectContentType(m.File.Data))}
	}
	return out
}

// events streams the chat: everything at first, then what changes.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := &eventStream{w: w, ctl: http.NewResponseController(w), sent: map[int]string{}}
	out.emit("hello", map[string]any{"bot": p.s.bot.FirstName, "username": p.s.bot.Username, "person": p.person.FirstName})
	tick := time.NewTicker(time.Second) // drafts and actions end without a change
	defer tick.Stop()
	for out.err == nil {
		p.s.mu.Lock()
		changed := p.s.changed
		p.s.mu.Unlock()
		p.update(out)
		select {
		case <-changed:
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-p.s.done:
			return
		}
	}
}

// update sends what differs from what was sent before.
func (p *Page) update(out *eventStream) {
	chat := p.person.Chat()
	present := map[int]bool{}
	for _, m := range chat.Messages() {
		present[m.ID] = true
		if data := string(mustJSON(p.show(m))); out.sent[m.ID] != data {
			out.sent[m.ID] = data
			out.emit("message", json.RawMessage(data))
		}
	}
	for id := range out.sent {
		if !present[id] {
			delete(out.sent, id)
			out.emit("gone", id)
		}
	}
	state := pageState{Action: chat.Action(), Drafts: chat.Drafts(), Commands: p.s.Commands(p.person.ID, p.person.LanguageCode)}
	if data := string(mustJSON(state)); data != out.state {
		out.state = data
		out.emit("state", json.RawMessage(data))
	}
	out.flush()
}

// eventStream writes Server-Sent Events and remembers what was sent.
type eventStream struct {
	w     http.ResponseWriter
	ctl   *http.ResponseController
	sent  map[int]string
	state string
	buf   bytes.Buffer
	err   error
}

func (e *eventStream) emit(event string, data any) {
	fmt.Fprintf(&e.buf, "event: %s\ndata: %s\n\n", event, mustJSON(data))
}

func (e *eventStream) flush() {
	if e.buf.Len() == 0 || e.err != nil {
		return
	}
	if _, e.err = e.w.Write(e.buf.Bytes()); e.err == nil {
		e.err = e.ctl.Flush()
	}
	e.buf.Reset()
}

// file serves what a message carries; only pictures are shown in place.
func (p *Page) file(w http.ResponseWriter, r *http.Request) {
	id, _ := strconv.Atoi(r.PathValue("message"))
	m, found := p.person.Chat().Message(id)
	if !found || m.File == nil {
		http.NotFound(w, r)
		return
	}
	kind := http.DetectContentType(m.File.Data)
	if !slices.Contains(pictures, kind) {
		kind = "application/octet-stream"
		w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": m.File.Name}))
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(m.File.Data) // the browser may be gone
}

// decode reads a small JSON body; on failure it has answered.
func decode(w http.ResponseWriter, r *http.Request, v any) bool {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		http.Error(w, "JSON is expected", http.StatusUnsupportedMediaType)
		return false
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(v); err != nil {
		http.Error(w, "bad JSON", http.StatusBadRequest)
		return false
	}
	return true
}

// send writes a message; like the app it trims, and cuts what is too long.
func (p *Page) send(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Text    string
		ReplyTo int
	}
	if !decode(w, r, &in) {
		return
	}
	text := strings.TrimSpace(in.Text)
	if blank(text) {
		http.Error(w, "nothing to send", http.StatusBadRequest)
		return
	}
	for part := range parts(text) {
		p.person.Say(Say{Text: part, ReplyTo: in.ReplyTo})
	}
	w.WriteHeader(http.StatusNoContent)
}

// parts cuts a text into messages of at most MaxText units.
func parts(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for rest := utf16.Encode([]rune(text)); len(rest) > 0; {
			n := min(len(rest), MaxText)
			if n < len(rest) && utf16.IsSurrogate(rune(rest[n])) && utf16.IsSurrogate(rune(rest[n-1])) && rest[n] >= 0xDC00 {
				n--
			}
			if !yield(string(utf16.Decode(rest[:n]))) {
				return
			}
			rest = rest[n:]
		}
	}
}

// press presses a button and gives back the bot's notice, if one comes soon.
func (p *Page) press(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Message int
		Data    string
	}
	if !decode(w, r, &in) {
		return
	}
	m, found := p.person.Chat().Message(in.Message)
	if !found {
		http.Error(w, "the message is gone", http.StatusGone)
		return
	}
	id := p.person.PressOld(m, in.Data)
	ctx, cancel := context.WithTimeout(r.Context(), pressWait)
	defer cancel()
	_ = p.s.Wait(ctx, func(s *Server) bool { c, _ := s.Callback(id); return c.Answered }) // no answer is an answer
	c, _ := p.s.Callback(id)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(mustJSON(map[string]any{"text": c.Text, "alert": c.Alert})) // the browser may be gone
}

func (p *Page) react(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Message int
		Emoji   []string
	}
	if !decode(w, r, &in) {
		return
	}
	m, found := p.person.Chat().Message(in.Message)
	if !found || len(in.Emoji) > 1 || len(in.Emoji) == 1 && !slices.Contains(reactionEmoji, in.Emoji[0]) {
		http.Error(w, "no such message or reaction", http.StatusBadRequest)
		return
	}
	p.person.React(m, in.Emoji...)
	w.WriteHeader(http.StatusNoContent)
}
