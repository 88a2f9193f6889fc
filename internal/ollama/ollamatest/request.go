package ollamatest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Request is a decoded chat request.
type Request struct {
	Model     string
	Messages  []Message // as sent; scripts get them as the model would see them, see Truncated
	Tools     json.RawMessage
	Options   map[string]json.RawMessage
	KeepAlive json.RawMessage
	Format    json.RawMessage
	Think     json.RawMessage
	Stream    bool // true when not sent
	Truncate  bool // true when not sent
	Shift     bool // true when not sent

	Tokens    int         // estimate of the prompt: a token for four bytes of messages and tools
	Truncated bool        // the prompt did not fit num_ctx, and was cut in silence
	Body      []byte      // as sent
	Header    http.Header // as sent
}

// Message is one message of a Request or of an answer.
type Message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	Thinking   string     `json:"thinking,omitempty"`
	Images     [][]byte   `json:"images,omitempty"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolName   string     `json:"tool_name,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// ToolCall is a native tool call.
type ToolCall struct {
	ID       string   `json:"id,omitempty"`
	Function Function `json:"function"`
}

// Function is what a ToolCall calls.
type Function struct {
	Index     int             `json:"index"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// LastUser returns the text of the last user message.
func (r Request) LastUser() string {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == "user" {
			return m.Content
		}
	}
	return ""
}

// System returns the system messages, joined by newlines.
func (r Request) System() string {
	var texts []string
	for _, m := range r.Messages {
		if m.Role == "system" {
			texts = append(texts, m.Content)
		}
	}
	return strings.Join(texts, "\n")
}

// Tool is a tool as offered in a Request.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// Offered returns the tools of the request.
func (r Request) Offered() []Tool {
	var list []struct{ Function Tool }
	if json.Unmarshal(r.Tools, &list) != nil {
		return nil
	}
	tools := make([]Tool, 0, len(list))
	for _, t := range list {
		tools = append(tools, t.Function)
	}
	return tools
}

// decodeChat decodes as the real server does; its errors are those of a 400.
func decodeChat(body []byte) (Request, error) {
	var wire struct {
		Model     string                     `json:"model"`
		Messages  []Message                  `json:"messages"`
		Tools     json.RawMessage            `json:"tools"`
		Options   map[string]json.RawMessage `json:"options"`
		KeepAlive json.RawMessage            `json:"keep_alive"`
		Format    json.RawMessage            `json:"format"`
		Think     json.RawMessage            `json:"think"`
		Stream    *bool                      `json:"stream"`
		Truncate  *bool                      `json:"truncate"`
		Shift     *bool                      `json:"shift"`
	}
	if len(body) == 0 {
		return Request{}, errors.New("missing request body")
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		return Request{}, err
	}
	r := Request{
		Model: wire.Model, Messages: wire.Messages, Tools: wire.Tools, Options: wire.Options,
		KeepAlive: wire.KeepAlive, Format: wire.Format, Think: wire.Think,
		Stream: orTrue(wire.Stream), Truncate: orTrue(wire.Truncate), Shift: orTrue(wire.Shift),
		Body: body,
	}
	if len(r.Tools) > 0 {
		var tools []struct{ Function Tool }
		if err := json.Unmarshal(r.Tools, &tools); err != nil {
			return Request{}, err
		}
		if len(tools) == 0 {
			r.Tools = nil
		}
	}
	for _, m := range r.Messages {
		for _, c := range m.ToolCalls {
			// A server that gets a string here refuses the history for ever (C078).
			var args map[string]json.RawMessage
			if err := json.Unmarshal(c.Function.Arguments, &args); err != nil {
				return Request{}, fmt.Errorf("tool_calls.function.arguments: %w", err)
			}
		}
	}
	if _, err := parseKeepAlive(r.KeepAlive); err != nil {
		return Request{}, err
	}
	r.Tokens = len(r.Tools) / 4
	for _, m := range r.Messages {
		r.Tokens += m.tokens()
	}
	return r, nil
}

func orTrue(b *bool) bool { return b == nil || *b }

// tokens estimates what a message costs; four more for the template around it.
func (m Message) tokens() int {
	n := len(m.Content) + len(m.Thinking) + len(m.ToolName)
	for _, c := range m.ToolCalls {
		n += len(c.Function.Name) + len(c.Function.Arguments)
	}
	return 4 + (n+3)/4
}

// fit drops the oldest messages but for system ones and the last, as the real
// server does in silence, until the prompt fits; then the rest is cut.
func (r Request) fit(numCtx int) Request {
	if r.Tokens <= numCtx {
		return r
	}
	r.Truncated = true
	kept := slices.Clone(r.Messages)
	for i := 0; i < len(kept)-1 && r.Tokens > numCtx; {
		if kept[i].Role == "system" {
			i++
			continue
		}
		r.Tokens -= kept[i].tokens()
		kept = slices.Delete(kept, i, i+1)
	}
	r.Messages = kept
	r.Tokens = numCtx
	return r
}

// optionTypes are the options that the server knows; others are ignored.
var optionTypes = map[string]string{
	"num_ctx": "integer", "num_batch": "integer", "num_gpu": "integer", "main_gpu": "integer", "num_thread": "integer",
	"num_keep": "integer", "seed": "integer", "num_predict": "integer", "top_k": "integer", "repeat_last_n": "integer",
	"use_mmap": "boolean", "stop": "array",
	"top_p": "float32", "min_p": "float32", "typical_p": "float32", "temperature": "float32",
	"repeat_penalty": "float32", "presence_penalty": "float32", "frequency_penalty": "float32",
}

// checkOptions returns the error of a 500 for an option of a wrong type.
func (r Request) checkOptions() error {
	for name, raw := range r.Options {
		var v any
		_ = json.Unmarshal(raw, &v)
		ok := v == nil
		switch optionTypes[name] {
		case "integer", "float32":
			_, is := v.(float64)
			ok = ok || is
		case "boolean":
			_, is := v.(bool)
			ok = ok || is
		case "array":
			_, is := v.([]any)
			ok = ok || is
		default:
			ok = true
		}
		if !ok {
			return fmt.Errorf("option %q must be of type %s", name, optionTypes[name])
		}
	}
	if len(r.Format) > 0 && r.Format[0] != '{' {
		switch f := string(r.Format); f {
		case `""`, `"json"`, "null":
		default:
			return fmt.Errorf("invalid format: %s; expected \"json\" or a valid JSON Schema object", f)
		}
	}
	return nil
}

// number returns an option, or 0.
func (r Request) number(name string) int {
	var n float64
	_ = json.Unmarshal(r.Options[name], &n)
	return int(n)
}

// parseKeepAlive reads seconds or a duration; negative means for ever, and none
// five minutes.
func parseKeepAlive(raw json.RawMessage) (time.Duration, error) {
	var v any
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &v); err != nil {
			return 0, err
		}
	}
	var d time.Duration
	switch v := v.(type) {
	case nil:
		return 5 * time.Minute, nil
	case float64:
		d = time.Duration(v * float64(time.Second))
	case string:
		var err error
		if d, err = time.ParseDuration(v); err != nil {
			return 0, err
		}
	default:
		return 0, fmt.Errorf("unsupported type: %s", raw)
	}
	if d < 0 {
		d = math.MaxInt64
	}
	return d, nil
}
