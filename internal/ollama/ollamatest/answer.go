package ollamatest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// Answer is what the model does, step by step. Unless a step ends the answer by
// itself, a final line with done_reason "stop" follows. The empty answer says
// nothing; a nil one leaves the request to the next rule.
type Answer []Step

// Step is a part of an Answer.
type Step func(*reply) error

// Echo repeats the last user message.
func Echo(r Request) Answer { return Answer{Text("You said: " + r.LastUser())} }

// Text says s, a word at a time.
func Text(s string) Step { return Tokens(words(s)...) }

// Tokens says each token in a line of its own, whatever its length: one token
// of 9 MB makes a line of 9 MB.
func Tokens(tokens ...string) Step {
	return func(r *reply) error {
		for _, t := range tokens {
			if err := r.token(Message{Content: t}); err != nil {
				return err
			}
		}
		return nil
	}
}

// Think thinks s, a word at a time; not when the request switched thinking off.
func Think(s string) Step {
	return func(r *reply) error {
		if string(r.request.Think) == "false" {
			return nil
		}
		for _, t := range words(s) {
			if err := r.token(Message{Thinking: t}); err != nil {
				return err
			}
		}
		return nil
	}
}

// Call calls a tool, in a line of its own. args is JSON, also what a model gets
// wrong: a JSON string instead of an object.
func Call(name, args string) Step {
	return Calls(ToolCall{Function: Function{Name: name, Arguments: json.RawMessage(args)}})
}

// Calls calls several tools in one line. Calls without an id get one.
func Calls(calls ...ToolCall) Step {
	return func(r *reply) error {
		m := Message{}
		for i, c := range calls {
			if c.ID == "" {
				c.ID = r.server.nextCallID()
			}
			c.Function.Index = i
			m.ToolCalls = append(m.ToolCalls, c)
		}
		return r.token(m)
	}
}

// Wait does nothing for d: as the first step, before the response header.
func Wait(d time.Duration) Step { return func(r *reply) error { return r.sleep(d) } }

// Pace sets the time between the tokens that follow.
func Pace(d time.Duration) Step {
	return func(r *reply) error { r.perToken = d; return nil }
}

// Until waits for ch to be closed or to give a value.
func Until(ch <-chan struct{}) Step {
	return func(r *reply) error {
		select {
		case <-ch:
			return nil
		case <-r.ctx.Done():
			return errGone
		}
	}
}

// Hang says nothing more until the client leaves: as the first step, before the
// response header.
func Hang() Step { return Until(nil) }

// Refuse answers with an error status, as Ollama words it; only as a first step.
func Refuse(status int, text string) Step {
	return func(r *reply) error { writeError(r.w, status, text); return errEnd }
}

// RefuseWith answers with an error status and a body of any kind, as a proxy
// would; only as a first step.
func RefuseWith(status int, contentType, body string) Step {
	return func(r *reply) error {
		r.w.Header().Set("Content-Type", contentType)
		r.w.WriteHeader(status)
		_, _ = r.w.Write([]byte(body))
		return errEnd
	}
}

// Fail ends the stream with an error line; before the first token, with a 500.
func Fail(text string) Step {
	return func(r *reply) error {
		if !r.wrote {
			return Refuse(http.StatusInternalServerError, text)(r)
		}
		line, _ := json.Marshal(map[string]string{"error": text})
		return errors.Join(r.write(append(line, '\n')), errEnd)
	}
}

// Cut ends the response without a final line, as if all was well.
func Cut() Step { return func(*reply) error { return errEnd } }

// Reset tears the connection: a TCP client sees RST.
func Reset() Step {
	return func(r *reply) error {
		r.header()
		conn, _, err := http.NewResponseController(r.w).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
		return errEnd
	}
}

// Raw sends bytes as they are: garbage, half a line, a recorded stream.
func Raw(s string) Step { return func(r *reply) error { return r.write([]byte(s)) } }

// Replay sends a recorded response, line by line, and ends there.
func Replay(body string) Step {
	return func(r *reply) error {
		for line := range strings.Lines(body) {
			if err := errors.Join(r.pause(), r.write([]byte(line))); err != nil {
				return err
			}
		}
		return errEnd
	}
}

// Done ends the answer with a reason: "stop", "length".
func Done(reason string) Step {
	return func(r *reply) error { return errors.Join(r.done(reason), errEnd) }
}

var (
	errEnd  = errors.New("ollamatest: the answer is over")
	errGone = errors.New("ollamatest: the client left")
)

// reply is an answer on its way.
type reply struct {
	server   *Server
	ctx      context.Context
	w        http.ResponseWriter
	request  Request
	perToken time.Duration
	limit    int // tokens, by num_predict or the room in the context; 0 or less: none

	begun, loaded, first time.Time // request came in, model ready, first token
	tokens               int
	wrote                bool    // the header is out
	whole                Message // collected when the client does not stream
}

// run plays an answer.
func (r *reply) run(answer Answer) error {
	for _, step := range answer {
		if err := step(r); err != nil {
			if errors.Is(err, errEnd) && !errors.Is(err, errGone) {
				return nil
			}
			return err
		}
	}
	return r.done("stop")
}

// token sends a piece of the answer in its time.
func (r *reply) token(m Message) error {
	if err := r.pause(); err != nil {
		return err
	}
	r.tokens++
	m.Role = "assistant"
	if r.request.Stream {
		if err := r.line(chatLine{Message: m}); err != nil {
			return err
		}
	} else {
		r.whole.Content += m.Content
		r.whole.Thinking += m.Thinking
		r.whole.ToolCalls = append(r.whole.ToolCalls, m.ToolCalls...)
	}
	if r.limit > 0 && r.tokens >= r.limit {
		return errors.Join(r.done("length"), errEnd)
	}
	return nil
}

// pause waits for the next token's time.
func (r *reply) pause() error {
	d := r.perToken
	if r.first.IsZero() {
		d = r.server.config.FirstToken
	}
	if err := r.sleep(d); err != nil {
		return err
	}
	if r.first.IsZero() {
		r.first = time.Now()
	}
	return nil
}

func (r *reply) sleep(d time.Duration) error {
	if d <= 0 {
		if r.ctx.Err() != nil {
			return errGone
		}
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-r.ctx.Done():
		return errGone
	}
}

// chatLine is a line of the stream; a finished one carries the measurements.
type chatLine struct {
	Model      string    `json:"model"`
	CreatedAt  time.Time `json:"created_at"`
	Message    Message   `json:"message"`
	Done       bool      `json:"done"`
	DoneReason string    `json:"done_reason,omitempty"`

	TotalDuration      time.Duration `json:"total_duration,omitempty"`
	LoadDuration       time.Duration `json:"load_duration,omitempty"`
	PromptEvalCount    int           `json:"prompt_eval_count,omitempty"`
	PromptEvalDuration time.Duration `json:"prompt_eval_duration,omitempty"`
	EvalCount          int           `json:"eval_count,omitempty"`
	EvalDuration       time.Duration `json:"eval_duration,omitempty"`
}

// warmLoad is the least load_duration that a real server reports: never 0.
const warmLoad = 110 * time.Millisecond

// done sends the final line, or the whole answer to a client that does not stream.
func (r *reply) done(reason string) error {
	now := time.Now()
	if r.first.IsZero() {
		r.first = now
	}
	r.whole.Role = "assistant"
	return r.line(chatLine{
		Message: r.whole, Done: true, DoneReason: reason,
		LoadDuration:       max(r.loaded.Sub(r.begun), warmLoad),
		PromptEvalCount:    r.request.Tokens,
		PromptEvalDuration: max(r.first.Sub(r.loaded), time.Microsecond),
		EvalCount:          r.tokens,
		EvalDuration:       max(now.Sub(r.first), time.Microsecond),
		TotalDuration:      max(now.Sub(r.begun), warmLoad),
	})
}

func (r *reply) line(l chatLine) error {
	l.Model = r.request.Model
	l.CreatedAt = time.Now().UTC()
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(l); err != nil {
		panic(fmt.Sprintf("ollamatest: a scripted line is not JSON: %v", err))
	}
	return r.write(b.Bytes())
}

// header sends the response header.
func (r *reply) header() {
	if r.wrote {
		return
	}
	r.wrote = true
	if r.request.Stream {
		r.w.Header().Set("Content-Type", "application/x-ndjson")
	} else {
		r.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	}
	r.w.WriteHeader(http.StatusOK)
}

func (r *reply) write(b []byte) error {
	r.header()
	if _, err := r.w.Write(b); err != nil {
		return errGone
	}
	if err := http.NewResponseController(r.w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return errGone
	}
	return nil
}

// words cuts s into words, each with the white space before it.
func words(s string) []string {
	var list []string
	start := 0
	for i := 1; i < len(s); i++ {
		if isSpace(s[i]) && !isSpace(s[i-1]) {
			list = append(list, s[start:i])
			start = i
		}
	}
	if start < len(s) {
		list = append(list, s[start:])
	}
	return list
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' }
