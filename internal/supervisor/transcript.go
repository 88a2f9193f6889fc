package supervisor

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentd/internal/agent"
)

// transcript is a session's history as the loop works on it. It reads what it
// records back from the store: the history there is the state, and this is a
// copy of its window.
type transcript struct {
	s     *Supervisor
	work  *work // nil in a sub-agent's session, which nobody writes to
	turn  int64
	model string
	head  agent.Message // the system text
	fixed int           // bytes of system text and tools in a prompt

	estimated int // bytes of the last prompt, as we count
	refusals  int // of this model call's prompts as too long
	limit     int // bytes that are tried after them

	*history
}

// history is the part of a transcript that outlives a turn. Its lock is its own: a
// turn that was stopped may still be on its way out when the next one begins.
type history struct {
	session int64

	mu        sync.Mutex
	entries   []entry
	messages  []agent.Message // of the entries; only ever appended to, so that it can be handed out
	resultsTo int64           // steps below this seq are sent shortened
}

// entry is what is known of a message besides it.
type entry struct {
	seq, turn   int64
	shortened   agent.Message // what is sent once it is old: the same, unless it is a long step
	full, short int           // bytes in a prompt, as it is and shortened
}

// transcript loads the session of the turn.
func (s *Supervisor) transcript(ctx context.Context, w *work, tools []agent.Tool) (*transcript, error) {
	t := s.newTranscript(s.histories.take(w.turn.Session), w.turn.Turn, "", agent.TextMessage(agent.System, s.system), tools)
	t.work = w
	return t, t.sync(ctx)
}

func (s *Supervisor) newTranscript(h *history, turn int64, model string, head agent.Message, tools []agent.Tool) *transcript {
	t := &transcript{s: s, turn: turn, model: model, head: head, history: h, fixed: size(head)}
	for _, tool := range tools {
		spec := tool.Spec()
		t.fixed += len(spec.Name) + len(spec.Description) + len(spec.Schema) + 40
	}
	return t
}

// sync reads what the store has beyond what we know.
func (t *transcript) sync(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var after int64
	if n := len(t.entries); n > 0 {
		after = t.entries[n-1].seq
	}
	h, err := t.s.store.History(ctx, t.session, after)
	if err != nil {
		return err
	}
	t.resultsTo = max(t.resultsTo, h.ResultsCutTo)
	for _, e := range h.Entries {
		short := shorten(e.Message)
		t.entries = append(t.entries, entry{e.Seq, e.Turn, short, size(e.Message), size(short)})
		t.messages = append(t.messages, e.Message)
	}
	return nil
}

// History implements agent.Transcript.
func (t *transcript) History() []agent.Message {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clip(t.messages)
}

// unbegun tells whether there is nothing of the turn but what was asked.
func (t *transcript) unbegun() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, e := range t.entries {
		if e.turn == t.turn && t.messages[i].Role != agent.User {
			return false
		}
	}
	return true
}

// Record implements agent.Transcript.
func (t *transcript) Record(ctx context.Context, m agent.Message) error {
	if t.work != nil {
		t.work.speak()
	}
	err := t.s.insist(ctx, t.turn, func() error { return t.s.store.Append(ctx, t.session, t.turn, m) })
	if err != nil {
		return err
	}
	return t.sync(ctx)
}

// Pull implements agent.Transcript.
func (t *transcript) Pull(ctx context.Context) error {
	if t.work == nil {
		return nil
	}
	var m *agent.Message
	err := t.s.insist(ctx, t.turn, func() (err error) {
		m, err = t.s.store.Pull(ctx, t.work.turn, time.Now(), t.s.compose)
		return err
	})
	if err != nil || m == nil {
		return err
	}
	return t.sync(ctx)
}

// cacheSize is how many sessions' windows are kept in memory between turns. A
// window is at most about what the model reads, some tens of kilobytes.
const cacheSize = 32

// cache keeps the windows of the sessions that were used last, so that a turn in
// a long conversation reads only what is new.
type cache struct {
	mu    sync.Mutex
	byID  map[int64]*history
	order []int64 // the least recently used first
}

func newCache() *cache { return &cache{byID: map[int64]*history{}} }

// take gives the session's history.
func (c *cache) take(session int64) *history {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.byID[session]
	if h == nil {
		h = &history{session: session}
		c.byID[session] = h
	}
	c.forget(session)
	c.order = append(c.order, session)
	if len(c.order) > cacheSize {
		delete(c.byID, c.order[0])
		c.order = c.order[1:]
	}
	return h
}

func (c *cache) forget(session int64) {
	for i, id := range c.order {
		if id == session {
			c.order = append(c.order[:i:i], c.order[i+1:]...)
			return
		}
	}
}

// drop forgets a session whose past has changed.
func (c *cache) drop(session int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(session)
	delete(c.byID, session)
}
