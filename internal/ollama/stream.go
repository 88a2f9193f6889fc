package ollama

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"agentd/internal/agent"
	"agentd/internal/agent/textcall"
)

// maxLine bounds a line of the stream. One line holds a whole tool call, file
// contents included.
const maxLine = 16 << 20

var errLine = errors.New("a line of more than 16 MiB")

// lines reads newline-delimited JSON. A short line costs no copy.
type lines struct {
	r    *bufio.Reader
	long []byte // a line that is longer than the reader's buffer
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReader(r)} }

// next returns the next line that is not blank; it is valid until the call after.
// At the end the error is io.EOF. A last line without a line break counts.
func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.read()
		if line = bytes.TrimSpace(line); len(line) > 0 && (err == nil || err == io.EOF) {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (l *lines) read() ([]byte, error) {
	l.long = l.long[:0]
	for {
		piece, err := l.r.ReadSlice('\n')
		if err == nil && len(l.long) == 0 {
			return piece, nil
		}
		if len(l.long)+len(piece) > maxLine {
			return nil, errLine
		}
		l.long = append(l.long, piece...)
		if err != bufio.ErrBufferFull {
			return l.long, err
		}
	}
}

// chunk is api.ChatResponse with raw arguments, and the error that may stand in
// its place.
type chunk struct {
	Message struct {
		Content   string     `json:"content"`
		Thinking  string     `json:"thinking"`
		ToolCalls []chatCall `json:"tool_calls"`
	} `json:"message"`
	Done            bool            `json:"done"`
	DoneReason      string          `json:"done_reason"`
	PromptEvalCount int             `json:"prompt_eval_count"`
	EvalCount       int             `json:"eval_count"`
	Error           json.RawMessage `json:"error"`
}

// failed tells whether the chunk is an error. Some servers send a null with every one.
func (c *chunk) failed() bool { return isError(c.Error) }

func isError(raw json.RawMessage) bool {
	text := string(raw)
	return text != "" && text != "null" && text != `""`
}

// A reply is taken to be without end when it holds more than its context could:
// tokenBytes for each token, where a chunk that says nothing counts too.
const (
	tokenBytes = 64
	chunkBytes = 8
)

// reply collects an answer.
type reply struct {
	text  strings.Builder
	calls []agent.Part
	bytes int // that came, thoughts included
}

// add takes a chunk. Calls are kept from any chunk, not only from the last (C095).
func (r *reply) add(c *chunk) {
	r.text.WriteString(c.Message.Content)
	r.bytes += chunkBytes + len(c.Message.Content) + len(c.Message.Thinking)
	for _, call := range c.Message.ToolCalls {
		r.bytes += len(call.Function.Name) + len(call.Function.Arguments)
		r.calls = append(r.calls, agent.Part{Call: &agent.Call{
			ID: call.ID, Name: call.Function.Name, Args: decodeArgs(call.Function.Arguments),
		}})
	}
}

// finish returns the complete reply; last is the chunk that said done, or ran over.
func (r *reply) finish(last *chunk) agent.Reply {
	out := agent.Reply{
		Message: agent.Message{Role: agent.Assistant},
		Cut:     last.DoneReason == "length" || !last.Done,
		Usage:   agent.Usage{Prompt: last.PromptEvalCount, Output: last.EvalCount},
	}
	if r.text.Len() > 0 {
		out.Message.Parts = append(out.Message.Parts, agent.Part{Text: r.text.String()})
	}
	out.Message.Parts = append(out.Message.Parts, r.calls...)
	return out
}

// decodeArgs returns a call's arguments as an object, also when the model wrote
// the object into a string (C078). Numbers keep their digits. What is no object at
// all becomes a JSON string, so that it can be stored; the loop answers such a call
// with a tool error, and encodeCall sends it back as an object.
func decodeArgs(raw json.RawMessage) json.RawMessage {
	args := textcall.Arguments(raw)
	if isObject(args) || args[0] == '"' && json.Valid(args) {
		return bytes.Clone(args) // raw is a part of the line
	}
	quoted, _ := marshal(string(args))
	return quoted
}

func isObject(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '{' && json.Valid(b)
}
