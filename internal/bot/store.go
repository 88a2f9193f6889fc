package bot

import (
	"context"
	"time"

	"agentd/internal/agent"
)

// Channel is the name of Telegram in an agent.Address.
const Channel = "telegram"

// Inbox keeps what Telegram gave us. When Accept has returned, Telegram may be
// told that we have it.
type Inbox interface {
	// Accept stores updates in their order, dropping repeats. An edit replaces the
	// queued message it edits; a message re-dates what its sender still has on hold;
	// one from a chat whose posts are parked sets them free. It returns how many
	// were new.
	Accept(ctx context.Context, in []agent.Incoming) (fresh int, err error)
	// Controls gives the control rows that wait, oldest first, some of each chat. A row
	// stays until Handled, so a handler that dies is called again.
	Controls(ctx context.Context) ([]agent.Incoming, error)
	// Handled closes a control row and posts what answers it, in one transaction.
	Handled(ctx context.Context, update int64, posts ...agent.Post) error
	// ControlWake tells that Controls may have something; it is never closed.
	ControlWake() <-chan struct{}
	// Ignored gives the newest ignored updates, newest first.
	Ignored(ctx context.Context, n int) ([]agent.Incoming, error)
}

// Outbox keeps what is to be sent until Telegram has it.
type Outbox interface {
	// Post stores posts; a key that exists already is left alone.
	Post(ctx context.Context, posts ...agent.Post) error
	// Lanes gives the chats that have something to send at now, and when the next
	// one falls due (zero: nothing waits).
	Lanes(ctx context.Context, now time.Time) (chats []int64, next time.Time, err error)
	// Next marks the oldest unsent part of the chat as on its way and returns it; false when
	// the chat has nothing that is due. Posts of a chat go out in the order of their rows.
	Next(ctx context.Context, chat int64, now time.Time) (agent.Send, bool, error)
	// Settle stores what became of a part.
	Settle(ctx context.Context, send agent.Send, out agent.Outcome) error
	// InFlight gives the parts that a dead process left on their way.
	InFlight(ctx context.Context) ([]agent.Send, error)
	// Resend posts an uncertain part of the chat once more, keyed by the part, so that a
	// second press of the button does nothing. false: there is no such uncertain part in the chat.
	Resend(ctx context.Context, chat, post int64, part int) (bool, error)
	// OpenPreview stores that the turn's preview is about to be sent; SettlePreview that
	// it has the id (0: it was surely not sent). When the turn ended meanwhile, SettlePreview posts removal,
	// keyed "unpreview:<turn>".
	OpenPreview(ctx context.Context, turn agent.Turn, silent bool) error
	SettlePreview(ctx context.Context, turn int64, message int64, removal agent.Payload) error
	// Migrate moves a chat's sessions, queue, posts and rights to the id that Telegram gave it.
	Migrate(ctx context.Context, old, new int64) error
	// OutboxWake tells that Lanes may have something; it is never closed.
	OutboxWake() <-chan struct{}
}

// People keeps who may talk to us beyond the configuration.
type People interface {
	Known(ctx context.Context) ([]agent.Known, error)
	// SetPerson stores a decision; a revoked, denied or blocked person's queued messages are dropped.
	SetPerson(ctx context.Context, id int64, state agent.PersonState, name string) error
	// Greet decides about a stranger in a private chat: whether they get the polite
	// line now (one a day each, 20 an hour in all) and whether the owner gets a card
	// (at most 5 open).
	Greet(ctx context.Context, id int64, name string, now time.Time) (line, card bool, err error)
	// StartPairing stores the hash of a new code, valid until expires.
	StartPairing(ctx context.Context, hash string, expires time.Time) error
	// Pair makes the person the owner when the hash of their code is right (compared in constant time), in time,
	// there is no paired owner, and fewer than 5 wrong tries were made; after the fifth none counts for 10 minutes.
	Pair(ctx context.Context, id int64, name, hash string, now time.Time) (bool, error)
}

// Conversations are the sessions of an address.
type Conversations interface {
	// NewSession makes a fresh session the current one; a current one without a message stays.
	NewSession(ctx context.Context, a agent.Address) error
	Sessions(ctx context.Context, a agent.Address, limit int) ([]agent.Conversation, error)
	// SwitchSession makes an old session of the address the current one; false: it is not of this address.
	SwitchSession(ctx context.Context, a agent.Address, id int64) (bool, error)
	// DeleteSession erases a session of the address with its words; false: not of this address, or a turn runs in it.
	DeleteSession(ctx context.Context, a agent.Address, id int64) (bool, error)
	// Setting and SetSetting keep small choices; "" means unset.
	Setting(ctx context.Context, key string) (string, error)
	SetSetting(ctx context.Context, key, value string) error
}

// Store is all that the bot keeps.
type Store interface {
	Inbox
	Outbox
	People
	Conversations
}
