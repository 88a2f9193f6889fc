// Package agent holds the words that the parts of agentd share, and the loop
// that turns a stored history into an answer. It knows no channel, no database
// and no provider, and imports the standard library only.
package agent

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// Address is where a conversation takes place.
type Address struct {
	Channel string `json:"channel"`          // "telegram"
	Chat    int64  `json:"chat"`             // the channel's id of the chat; negative for Telegram groups
	Thread  int64  `json:"thread,omitempty"` // forum topic; 0 outside topics and in the general one
}

// Rights order people by what they may do; a higher value includes the lower ones.
type Rights int

const (
	Stranger Rights = iota // nobody we answer
	Member                 // writes in an allowed chat: talks, but neither approves nor reaches others' things
	Person                 // allowed by id
	Owner                  // gets alarms, approves
)

// Principal is the one person a turn is for. Everything the turn may do follows
// from it; the model never sets it.
type Principal struct {
	ID     int64  `json:"id"`
	Name   string `json:"name,omitempty"` // as the channel shows it: a stranger's text
	Rights Rights `json:"rights"`
}

// Scope is set when a turn is claimed and is the only source of rights, memory
// and folders.
type Scope struct {
	Session   int64
	Turn      int64
	Address   Address
	Principal Principal
	Private   bool // a private chat of the principal with the agent
}

// Turn is one answer being made.
type Turn struct {
	Scope
	Attempts int       // unclean deaths of the process since the last recorded step
	Asked    time.Time // when the channel was told that we have the question
	Question int64     // the channel's id of the (last) message that asked; 0 when there is none
	Lang     string    // IETF tag of the person's language, "" unknown
	Preview  *Preview  // what an earlier process already showed of this answer
}

// Preview is the message that shows an answer while it is being made.
type Preview struct {
	Message int64     // the channel's id; 0 while its first send is unsettled
	At      time.Time // when it was first sent
	Silent  bool      // it did not ring
}

// Role says who speaks in a Message.
type Role string

const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Message is one entry of a history.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// Part holds exactly one of Text, Image, Call and Result. What it points to does
// not change any more: parts are shared between messages.
type Part struct {
	Text   string   `json:"text,omitempty"`
	Image  *Image   `json:"image,omitempty"`
	Call   *Call    `json:"call,omitempty"`
	Result *Result  `json:"result,omitempty"`
	Taint  []Source `json:"taint,omitempty"` // strangers whose text this part holds
}

// Source names where a stranger's text came from, as people would: "forward
// from Ann", "https://example.org/page".
type Source string

// Image is a picture for models that see.
type Image struct {
	MIME string `json:"mime"`
	Data []byte `json:"data"`
}

// Call is a tool call by the model.
type Call struct {
	ID   string          `json:"id"` // unique in its session
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"` // a JSON object; numbers keep their digits
}

// Result answers the call with the same id.
type Result struct {
	CallID  string  `json:"call_id"`
	Name    string  `json:"name"`
	Text    string  `json:"text"`
	Images  []Image `json:"images,omitempty"`
	Facts   []Fact  `json:"facts,omitempty"`
	IsError bool    `json:"is_error,omitempty"`
}

// Fact is a statement with its source. Only tools make facts, never the model.
type Fact struct {
	Claim       string    `json:"claim"`
	SourceOrg   string    `json:"source_org"`
	SourceURL   string    `json:"source_url"`
	CollectedAt time.Time `json:"collected_at"`
	PayloadHash string    `json:"payload_hash"`
}

// Effect decides whether calls may run side by side and what becomes of a call
// that a crash left without a result.
type Effect int

const (
	SideEffect Effect = iota // the zero value is the careful one
	Idempotent               // keyed by the call id: running it again is harmless
	ReadOnly                 // may also run in parallel with others of its kind
)

// Reach says how far a call's consequences go; it decides about approval.
type Reach int

const (
	Outside   Reach = iota // leaves the machine or the chat
	Machine                // this machine beyond the workspace
	Workspace              // the chat's own folder, or nothing at all
)

// Spec describes a tool to the model and to the policy.
type Spec struct {
	Name        string          // no spaces
	Description string          // what it does and what it takes, for the model
	Schema      json.RawMessage // JSON schema of the arguments, sent as it is

	// Effect and Reach judge a call by its arguments; nil means SideEffect and Outside.
	Effect func(args json.RawMessage) Effect
	Reach  func(args json.RawMessage) Reach
}

// Tool is something the agent can do. It is safe for concurrent use.
type Tool interface {
	Spec() Spec
	// Run executes the call. An error is told to the model as the result and the
	// turn goes on; only ErrStopped, ErrShutdown and a cancelled ctx end it.
	Run(ctx context.Context, scope Scope, call Call) (Result, error)
}

// Request is what a model is asked.
type Request struct {
	Model    string // the provider's name of the model; "" the configured one
	Messages []Message
	Tools    []Spec
}

// Delta is a piece of an answer as it streams.
type Delta struct {
	Text    string
	Thought string
	Restart bool // the model is asked anew: what came before is void
}

// Usage counts tokens; 0 means that the provider did not say.
type Usage struct {
	Prompt int
	Output int
}

// Reply is a complete answer of a model.
type Reply struct {
	Message Message // Text and Call parts only; thoughts are left out
	Cut     bool    // the model ran into its output limit
	Usage   Usage
}

// Model is a provider of answers. Generate returns only complete replies: a
// stream that ends before the provider said so is an error that wraps
// ErrTransient. What a person can mend comes as a *Fault. watch may be nil and is
// called from one goroutine.
type Model interface {
	Generate(ctx context.Context, req Request, watch func(Delta)) (Reply, error)
}

// Transcript is the history of one session as the loop works on it. The history
// is the state: a turn that died is taken up by running the loop on it again.
type Transcript interface {
	// History gives the messages of the model's window, with all that was recorded
	// since. They are shared, and not to be changed.
	History() []Message
	// Prompt gives the system text and as much of the history as fits the model.
	// tighter counts the times that the model refused the prompt as too long. An
	// error that wraps ErrTooLong says that the newest message alone does not fit.
	// The slice is the caller's, what it holds is shared.
	Prompt(ctx context.Context, tighter int) ([]Message, error)
	// Record appends to the history; when it returns, the message is on disk. It is
	// safe for concurrent use. ErrStopped: the turn is over.
	Record(ctx context.Context, m Message) error
	// Pull appends what the principal wrote since the turn began.
	Pull(ctx context.Context) error
}

// Text joins the text parts of the message.
func (m Message) Text() string {
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// Calls gives the tool calls of the message.
func (m Message) Calls() []Call {
	var out []Call
	for _, p := range m.Parts {
		if p.Call != nil {
			out = append(out, *p.Call)
		}
	}
	return out
}

// TextMessage makes a message of one text.
func TextMessage(role Role, text string) Message {
	return Message{Role: role, Parts: []Part{{Text: text}}}
}
