package ollama

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/internal/agent"
)

// fresh encodes the messages without what was kept of earlier ones.
func fresh(t *testing.T, messages []agent.Message, vision bool) string {
	t.Helper()
	all := []chatMessage{}
	for _, m := range messages {
		all = appendMessage(all, m, vision)
	}
	b, err := marshal(all)
	if err != nil {
		t.Error(err)
		return ""
	}
	return string(b[1 : len(b)-1]) // without the brackets
}

func randomMessage(r *rand.Rand) agent.Message {
	word := func() string { return fmt.Sprintf("<%d> \"é\"\n", r.IntN(3)) }
	part := func() agent.Part {
		switch r.IntN(5) {
		case 0:
			return agent.Part{Image: &agent.Image{Data: []byte(word())}}
		case 1:
			return agent.Part{Call: &agent.Call{ID: word(), Name: "f", Args: json.RawMessage([]string{`{"n":1}`, `"no object"`, ``}[r.IntN(3)])}}
		case 2:
			return agent.Part{Result: &agent.Result{CallID: word(), Name: "f", Text: word(), IsError: r.IntN(2) == 0, Images: []agent.Image{{Data: []byte(word())}}}}
		default:
			return agent.Part{Text: word()}
		}
	}
	roles := []agent.Role{agent.System, agent.User, agent.Assistant, agent.ToolRole}
	m := agent.Message{Role: roles[r.IntN(len(roles))]}
	for range r.IntN(4) {
		m.Parts = append(m.Parts, part())
	}
	return m
}

// Whatever becomes of a conversation between two requests, the bytes are those of
// a fresh encoding, and bytes that were handed out stay as they are.
func TestKeptConversationsChangeNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var c conversations
	histories := make([][]agent.Message, 5)
	type request struct {
		sent []byte
		want string
	}
	var requests []request
	for range 5000 {
		h := &histories[r.IntN(len(histories))]
		n := len(*h)
		switch what := r.IntN(20); {
		case n == 0 || what < 10:
			*h = append(*h, randomMessage(r))
		case what == 10: // the window moves
			*h = (*h)[r.IntN(n):]
		case what == 11: // what is at the end is not repeated, as a nudge
			*h = (*h)[:n-1]
		case what == 12:
			(*h)[r.IntN(n)] = randomMessage(r)
		case what == 13: // in place
			if m := (*h)[r.IntN(n)]; len(m.Parts) > 0 {
				m.Parts[r.IntN(len(m.Parts))].Text += "!"
			}
		case what == 14:
			(*h)[r.IntN(n)].Role = randomMessage(r).Role
		case what == 15: // two go on from the same
			*h = slices.Clone(histories[r.IntN(len(histories))])
		}
		vision := r.IntN(4) > 0
		sent, err := c.encode(*h, vision)
		if err != nil {
			t.Fatal(err)
		}
		want := fresh(t, *h, vision)
		if string(sent) != want {
			t.Fatalf("sent %s\nwant %s", sent, want)
		}
		requests = append(requests, request{sent, want})
	}
	for _, r := range requests {
		if string(r.sent) != r.want {
			t.Fatalf("became %s\nwas    %s", r.sent, r.want)
		}
	}
}

// has says whether the messages are kept as they were encoded.
func (c *conversations) has(messages []agent.Message) bool {
	return slices.ContainsFunc(c.kept, func(k *conversation) bool {
		return len(k.messages) == len(messages) && k.begins(messages)
	})
}

func TestAConversationIsEncodedOnce(t *testing.T) {
	var c conversations
	h := []agent.Message{agent.TextMessage(agent.System, "rules")}
	for i := range 100 {
		h = append(h, agent.TextMessage(agent.User, fmt.Sprint("question ", i)))
		if _, err := c.encode(h, false); err != nil {
			t.Fatal(err)
		}
		if len(c.kept) != 1 || !c.has(h) {
			t.Fatalf("%d conversations after %d requests of one", len(c.kept), i+1)
		}
	}
	first, _ := c.encode(h, false)
	again, _ := c.encode(h, false)
	if &first[0] != &again[0] {
		t.Error("the same messages were encoded again")
	}
}

func TestKeptConversationsAreBounded(t *testing.T) {
	var c conversations
	var last []agent.Message
	ask := func(name string, bytes int) {
		last = []agent.Message{agent.TextMessage(agent.User, name), agent.TextMessage(agent.User, strings.Repeat("x", bytes))}
		if _, err := c.encode(last, false); err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, k := range c.kept {
			total += k.size()
		}
		if total > keptBytes || len(c.kept) > keptConversations {
			t.Fatalf("%d conversations of %d bytes are kept", len(c.kept), total)
		}
	}
	for i := range 100 {
		ask(fmt.Sprint("short ", i), 10)
	}
	if len(c.kept) != keptConversations || !c.has(last) {
		t.Errorf("%d short ones are kept, the last one: %t", len(c.kept), c.has(last))
	}
	for i := range 20 {
		ask(fmt.Sprint("long ", i), keptBytes/8)
	}
	if !c.has(last) {
		t.Error("the last long one is not kept")
	}
	ask("too long", keptBytes)
	if c.has(last) {
		t.Error("one beyond the bound is kept")
	}
}

// One conversation is asked about at many places at once: requests are read while
// others go on from their bytes.
func TestKeptConversationsInParallel(t *testing.T) {
	var c conversations
	start := []agent.Message{agent.TextMessage(agent.System, "rules"), agent.TextMessage(agent.User, "hello")}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			h := slices.Clone(start)
			for i := range 50 {
				h = append(h, agent.TextMessage(agent.User, fmt.Sprint(worker%2, " asks ", i)))
				sent, err := c.encode(h, false)
				if want := fresh(t, h, false); err != nil || string(sent) != want {
					t.Errorf("sent %s, %v\nwant %s", sent, err, want)
				}
			}
		})
	}
	wg.Wait()
}
