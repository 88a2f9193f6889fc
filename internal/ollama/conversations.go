package ollama

import (
	"bytes"
	"slices"
	"sync"

	"agentd/internal/agent"
)

// What conversations keeps, at most.
const (
	keptConversations = 32
	keptBytes         = 4 << 20
)

// conversations keeps the messages of the latest requests as they were encoded. A
// request that goes on where an earlier one ended has only its new messages
// encoded: in a long conversation the rest took most of the time. The zero value
// is ready, and safe for concurrent use.
type conversations struct {
	mu   sync.Mutex
	kept []*conversation // the latest last
}

// encode gives the messages as JSON, with commas between them. The bytes are not
// to be changed.
func (c *conversations) encode(messages []agent.Message, vision bool) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := &conversation{vision: vision}
	for i, kept := range slices.Backward(c.kept) {
		if kept.vision == vision && kept.begins(messages) {
			one = kept
			c.kept = slices.Delete(c.kept, i, i+1)
			break
		}
	}
	if err := one.extend(messages[len(one.messages):]); err != nil {
		return nil, err
	}
	c.kept = append(c.kept, one)
	total := 0
	for i, kept := range slices.Backward(c.kept) {
		if total += kept.size(); total > keptBytes || len(c.kept)-i > keptConversations {
			c.kept = slices.Delete(c.kept, 0, i+1)
			break
		}
	}
	return one.json, nil
}

// conversation is the messages of a request.
type conversation struct {
	vision   bool
	messages []agent.Message // with parts of their own
	json     []byte          // of them; only ever appended to: a request may still be reading it
}

// begins says whether the messages begin with those of the conversation.
func (c *conversation) begins(messages []agent.Message) bool {
	return len(c.messages) <= len(messages) && slices.EqualFunc(c.messages, messages[:len(c.messages)], same)
}

// same says that two messages are encoded alike. What a part points to never
// changes; texts that are one in memory are not read.
func same(a, b agent.Message) bool {
	return a.Role == b.Role && slices.EqualFunc(a.Parts, b.Parts, func(p, q agent.Part) bool {
		return p.Text == q.Text && p.Image == q.Image && p.Call == q.Call && p.Result == q.Result
	})
}

func (c *conversation) extend(messages []agent.Message) error {
	b := bytes.NewBuffer(c.json)
	e := newEncoder(b)
	for _, m := range messages {
		for _, encoded := range appendMessage(nil, m, c.vision) {
			if b.Len() > 0 {
				b.WriteByte(',')
			}
			if err := e.Encode(&encoded); err != nil {
				return err
			}
			b.Truncate(b.Len() - 1) // the encoder's line break
		}
		c.messages = append(c.messages, agent.Message{Role: m.Role, Parts: slices.Clone(m.Parts)})
	}
	c.json = b.Bytes()
	return nil
}

// size is about what the conversation holds of memory: its messages are as long as their JSON.
func (c *conversation) size() int { return len(c.json) + cap(c.json) }
