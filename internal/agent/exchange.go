package agent

import (
	"encoding/json"
	"time"
)

// Kind says what is to be done with an Incoming.
type Kind string

const (
	KindMessage Kind = "message" // a question, or a part of one: becomes a turn
	KindEdit    Kind = "edit"    // replaces a message that still waits; else it is kept as ignored
	KindControl Kind = "control" // a command or a button press: taken at once, also while a turn runs
	KindIgnored Kind = "ignored" // kept for 48 h with the reason, for /status
)

// Incoming is one update of a channel as it is put into the inbox.
type Incoming struct {
	Update  int64           `json:"update"` // the channel's key of the update: a repeat is dropped
	Kind    Kind            `json:"kind"`
	Address Address         `json:"address"`
	Sender  Principal       `json:"sender"`
	Private bool            `json:"private"`
	Message int64           `json:"message"` // the channel's id of the message, 0 if it has none
	At      time.Time       `json:"at"`      // when we got it
	Due     time.Time       `json:"due"`     // not taken before; a held part of a paste or an album waits here
	Lang    string          `json:"lang"`
	Parts   []Part          `json:"parts"` // what the model will read; empty for controls
	Note    string          `json:"note"`  // why it is ignored
	Raw     json.RawMessage `json:"raw"`
}

// Payload is one call to a channel, in the channel's own encoding, without the
// address, which is added when it is sent (a group may move meanwhile).
type Payload struct {
	Body       json.RawMessage
	Idempotent bool // may be sent again when the outcome is unknown: edits, removals, notices
}

// Post is something to be sent: an answer, a notice, the removal of a preview.
type Post struct {
	Key     string // unique for ever: posting it again is no error and does nothing
	Address Address
	Turn    int64 // 0 when it belongs to none
	Lang    string
	Parts   []Payload // sent in this order
}

// Send is one part of a Post on its way.
type Send struct {
	Post    int64 // the outbox row
	Part    int
	Key     string
	Address Address
	Turn    int64
	Lang    string
	Payload
	Tries int // sends of this part that surely failed
}

// Fate is what became of a Send.
type Fate string

const (
	Sent      Fate = "sent"      // the channel gave a message id (0 for calls that have none)
	Retry     Fate = "retry"     // surely failed, and worth another try at Outcome.Due
	Failed    Fate = "failed"    // surely failed, for good: the rest of the post goes on
	Uncertain Fate = "uncertain" // nobody knows: never sent again by itself; Outcome.Notice follows it
	Parked    Fate = "parked"    // the chat cannot be reached; it waits until the chat writes again
)

// Outcome settles a Send.
type Outcome struct {
	Fate    Fate
	Message int64     // Sent: the channel's id
	Due     time.Time // Retry: not before
	Reason  string    // for the log and the owner
	Notice  *Payload  // Uncertain: what the person is told before later parts go out
	Instead *Payload  // Retry: what is sent in its place; nil the same
}

// Entry is a Message where it stands in its session.
type Entry struct {
	Seq  int64
	Turn int64
	Message
}

// History is what the model may be sent of a session.
type History struct {
	Entries      []Entry // from the window's start on, without superseded turns
	ResultsCutTo int64   // results of entries below this seq are sent shortened
}

// Conversation is one session as a person sees it in a list.
type Conversation struct {
	ID      int64
	Title   string // the first words
	Current bool
	Used    time.Time
	Turns   int
}

// PersonState is what was decided about somebody, beyond the configuration.
type PersonState string

const (
	PersonOwner   PersonState = "owner"   // paired
	PersonAllowed PersonState = "allowed" // by the owner
	PersonAsked   PersonState = "asked"   // a card about them waits
	PersonDenied  PersonState = "denied"
	PersonBlocked PersonState = "blocked" // no polite line either
	PersonRevoked PersonState = "revoked" // was allowed once
)

// Known is a person or chat (negative id) about whom something was decided.
type Known struct {
	ID    int64
	State PersonState
	Name  string
	Since time.Time
}

// TurnState is how far a turn is.
type TurnState string

const (
	TurnOpen       TurnState = "open"
	TurnWaiting    TurnState = "waiting" // for a person; still the session's open turn
	TurnDone       TurnState = "done"
	TurnStopped    TurnState = "stopped"
	TurnFailed     TurnState = "failed"     // its answer is a fault
	TurnSuperseded TurnState = "superseded" // not in the history: asked anew, or too long for the model
)

// Ending says how a turn ends.
type Ending struct {
	State   TurnState // TurnDone, TurnFailed, TurnStopped or TurnSuperseded
	Message *Message  // the last message; nil when there is none to remember
	Tokens  int       // of the last prompt; 0 unknown
	Posts   []Post
}
