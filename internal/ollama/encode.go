package ollama

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ollama/ollama/api"

	"agentd/internal/agent"
)

// chatRequest is api.ChatRequest with raw tools and without messages but their
// brackets, where encode puts them. They stand last: the next request of a
// conversation then begins with nearly all the bytes of the one before.
type chatRequest struct {
	Model     string                     `json:"model"`
	Stream    bool                       `json:"stream"`
	KeepAlive api.Duration               `json:"keep_alive"`
	Truncate  bool                       `json:"truncate"` // false: too long is an error, not a silent cut (C024)
	Shift     bool                       `json:"shift"`    // false: a full context ends the answer, the system text never slides out
	Options   map[string]json.RawMessage `json:"options"`
	Tools     []chatTool                 `json:"tools,omitempty"`
	Messages  [0]chatMessage             `json:"messages"`
}

const afterMessages = "]}" // the end of a chatRequest

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// chatMessage is api.Message with raw arguments.
type chatMessage struct {
	Role       string          `json:"role"`
	Content    string          `json:"content"`
	Images     []api.ImageData `json:"images,omitempty"`
	ToolCalls  []chatCall      `json:"tool_calls,omitempty"`
	ToolName   string          `json:"tool_name,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// emptySchema is the schema of a tool without one.
var emptySchema = json.RawMessage(`{"type":"object","properties":{}}`)

// encode returns the body of a chat request. The same request gives the same
// bytes: struct order is fixed, maps are sorted.
func (c *Client) encode(model string, info known, req agent.Request) ([]byte, error) {
	out := c.request(model, info)
	out.Stream = true
	history := systemFirst(req.Messages)
	switch {
	case info.tools:
		for _, spec := range req.Tools {
			schema := spec.Schema
			if len(schema) == 0 {
				schema = emptySchema
			}
			out.Tools = append(out.Tools, chatTool{Type: "function", Function: chatFunction{spec.Name, spec.Description, schema}})
		}
	case len(req.Tools) > 0:
		history = inProtocol(history, req.Tools)
		if _, set := out.Options["stop"]; !set {
			out.Options["stop"] = stops()
		}
	}
	head, err := marshal(out)
	if err != nil {
		return nil, fmt.Errorf("ollama: request: %w", err)
	}
	messages, err := c.conversations.encode(history, info.vision)
	if err != nil {
		return nil, fmt.Errorf("ollama: messages: %w", err)
	}
	end := len(head) - len(afterMessages)
	return slices.Concat(head[:end], messages, head[end:]), nil
}

func systemFirst(messages []agent.Message) []agent.Message {
	rank := func(m agent.Message) int {
		if m.Role == agent.System {
			return 0
		}
		return 1
	}
	order := func(a, b agent.Message) int { return rank(a) - rank(b) }
	if slices.IsSortedFunc(messages, order) {
		return messages
	}
	return slices.SortedStableFunc(slices.Values(messages), order)
}

// request is what all requests to a model have in common: num_ctx must never
// differ between them, or the server loads the model anew.
func (c *Client) request(model string, info known) chatRequest {
	options := maps.Clone(c.options)
	options["num_ctx"] = strconv.AppendInt(nil, int64(c.numCtx(info)), 10)
	return chatRequest{Model: model, KeepAlive: api.Duration{Duration: *c.config.KeepAlive}, Options: options}
}

// marshal is json.Marshal without the escapes for HTML, which cost tokens of
// nobody but bytes, and without a final line break.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := newEncoder(&b).Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

func newEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// appendMessage gives every tool result a message of its own.
func appendMessage(out []chatMessage, m agent.Message, vision bool) []chatMessage {
	msg := chatMessage{Role: string(m.Role)}
	var texts []string
	for _, p := range m.Parts {
		switch {
		case p.Result != nil:
			out = append(out, resultMessage(p.Result, vision))
		case p.Call != nil:
			msg.ToolCalls = append(msg.ToolCalls, encodeCall(p.Call))
		case p.Image != nil:
			if vision {
				msg.Images = append(msg.Images, p.Image.Data)
			}
		case p.Text != "":
			texts = append(texts, p.Text)
		}
	}
	if m.Role == agent.ToolRole {
		return out
	}
	msg.Content = strings.Join(texts, "\n\n")
	return append(out, msg)
}

// resultMessage says in the text that a call failed: Ollama has no field for it.
func resultMessage(r *agent.Result, vision bool) chatMessage {
	msg := chatMessage{Role: string(agent.ToolRole), Content: r.Text, ToolName: r.Name, ToolCallID: r.CallID}
	if r.IsError && !strings.HasPrefix(strings.ToLower(r.Text), "error") {
		msg.Content = "Error: " + r.Text
	}
	if vision {
		for _, image := range r.Images {
			msg.Images = append(msg.Images, image.Data)
		}
	}
	return msg
}

// encodeCall gives arguments that are no object as one: with anything else in
// its history the server refuses every later request (C078).
func encodeCall(call *agent.Call) chatCall {
	var out chatCall
	out.ID, out.Function.Name, out.Function.Arguments = call.ID, call.Name, call.Args
	switch {
	case len(call.Args) == 0:
		out.Function.Arguments = json.RawMessage("{}")
	case !isObject(call.Args):
		// A raw message cannot fail to encode, and an invalid one is quoted.
		var text string
		if json.Unmarshal(call.Args, &text) != nil {
			text = string(call.Args)
		}
		out.Function.Arguments, _ = marshal(map[string]string{"invalid_arguments": text})
	}
	return out
}
