package bot

import (
	"context"
	"time"

	"agentd/internal/agent"
)

// Desk is who works on the questions, as the commands need it.
type Desk interface {
	// Stop ends the turn that runs at the address: in one transaction the turn is
	// stopped, its open calls are closed, the control row update is handled and
	// answer(turn), keyed "turn:<id>", becomes the turn's answer; then the model call and the tools
	// are cancelled. agent.ErrNoTurn: nothing runs; agent.ErrNotYours: it is
	// somebody else's and by is not the owner. Then nothing is stored.
	Stop(ctx context.Context, at agent.Address, by agent.Principal, update int64, answer func(agent.Turn) agent.Post) error
	// Retry starts a new turn with the last turn's question; the old one is
	// superseded, stopped if it runs, and what it did is told to the model. Handles the control row
	// update. Errors as Stop's.
	Retry(ctx context.Context, at agent.Address, by agent.Principal, update int64) error
	// Load says what is being done now.
	Load(ctx context.Context, at agent.Address) (Load, error)
}

// Load is the work at hand.
type Load struct {
	Running int // turns being worked on, in all chats
	Waiting int // messages in the inbox that wait for a turn
	Tokens  int // prompt tokens of the address' last model call; 0 unknown
	Limit   int // the model's context as it is used, tokens; 0 unknown
}

// Models is the model server, as /status, the choice of a model and Pull need it.
type Models interface {
	// Current gives the model that answers; a *agent.Fault says what is wrong.
	Current(ctx context.Context) (ModelState, error)
	// Installed gives the installed models.
	Installed(ctx context.Context) ([]Model, error)
	// Pull fetches a model; progress is called with bytes (total 0 while unknown) from one goroutine.
	Pull(ctx context.Context, name string, progress func(done, total int64)) error
	// Choose makes a model the one that answers, for good.
	Choose(ctx context.Context, name string) error
}

// Model is an installed model.
type Model struct {
	Name string
	Size int64 // bytes
	Chat bool  // it can chat; false for models that only embed
}

// ModelState is the model that answers and how it does.
type ModelState struct {
	Name    string
	Loaded  bool
	Context int       // tokens, as used
	Size    int64     // bytes in memory; 0 when not loaded
	GPU     float64   // share of it in video memory, 0 to 1
	Expires time.Time // when the server unloads it
}
