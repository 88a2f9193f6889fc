package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"agentd/internal/agent"
)

const (
	bytesPerToken = 3.5  // before the server's own count has corrected it
	shortStep     = 600  // bytes that are left of a shortened result, call or text of a step
	perMessage    = 16   // bytes that a chat template spends on a message, about
	answerShare   = 4    // a quarter of the context is left to the answer
	answerMost    = 4096 // tokens, at most
)

// size estimates the message's bytes in a prompt.
func size(m agent.Message) int {
	n := perMessage
	for _, p := range m.Parts {
		n += len(p.Text)
		if p.Call != nil {
			n += len(p.Call.Name) + len(p.Call.Args) + perMessage
		}
		if p.Result != nil {
			n += len(p.Result.Text)
		}
	}
	return n
}

// Prompt implements agent.Transcript. The prompt is the same bytes from call to
// call but for what is new at its end, so that the server's prompt cache holds;
// when it must be cut, it is cut to three quarters, at borders of turns, and the
// cut is stored.
func (t *transcript) Prompt(ctx context.Context, tighter int) ([]agent.Message, error) {
	window, err := t.s.model.Window(ctx, t.model)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	room := window - min(window/answerShare, answerMost)
	budget := t.tightened(int(float64(room)*bytesPerToken/t.s.scaleOf(t.model)), tighter)
	if t.total() > budget {
		if err := t.cut(ctx, budget*3/4, budget, room); err != nil {
			return nil, err
		}
	}
	t.estimated = t.total()
	prompt := make([]agent.Message, 0, len(t.entries)+2)
	prompt = append(prompt, t.head)
	prompt = append(prompt, t.messages...)
	for i, e := range t.entries {
		if e.seq >= t.resultsTo {
			break
		}
		prompt[i+1] = e.shortened
	}
	return agent.Arrange(prompt), nil
}

// tightened gives what is tried of the budget after so many refusals: less than
// was refused, whatever we think of its size. Digits are a token each to some
// models: then our estimate is off by a factor of three.
func (t *transcript) tightened(budget, refusals int) int {
	switch {
	case refusals == 0:
		t.limit = budget
	case refusals > t.refusals:
		t.limit = min(budget, t.estimated) * 3 / 4
	}
	t.refusals = refusals
	return min(budget, t.limit)
}

func (t *transcript) total() int {
	n := t.fixed
	for _, e := range t.entries {
		n += t.sent(e)
	}
	return n
}

// sent is the entry's size as it is sent now.
func (t *transcript) sent(e entry) int {
	if e.seq < t.resultsTo {
		return e.short
	}
	return e.full
}

// cut brings the prompt down to target bytes: first old steps are shortened, then
// old turns leave, then the running turn's own steps are shortened. What is left
// must stay below most; else, or if it cannot be stored, nothing is cut.
func (t *transcript) cut(ctx context.Context, target, most, room int) (err error) {
	entries, messages, resultsTo := t.entries, t.messages, t.resultsTo
	defer func() {
		if err != nil {
			t.entries, t.messages, t.resultsTo = entries, messages, resultsTo
		}
	}()
	first := 0 // of the running turn
	for first < len(t.entries) && t.entries[first].turn != t.turn {
		first++
	}
	if first == len(t.entries) {
		return fmt.Errorf("session %d has nothing of turn %d", t.session, t.turn)
	}
	t.resultsTo = max(t.resultsTo, t.entries[first].seq)
	from := 0
	for total := t.total(); total > target && from < first; {
		turn := t.entries[from].turn
		for from < first && t.entries[from].turn == turn {
			total -= t.sent(t.entries[from])
			from++
		}
	}
	t.entries, t.messages = t.entries[from:], t.messages[from:]
	for i := 0; t.total() > target && i < len(t.entries); i++ {
		t.resultsTo = max(t.resultsTo, t.entries[i].seq+1)
	}
	if total := t.total(); total > most {
		if t.fixed > most/2 {
			t.s.log.Warn("the instructions and tools take most of the model's context; shorten them or raise AGENT_NUM_CTX", "bytes", t.fixed, "of", most)
		}
		tokens := int(float64(total) / bytesPerToken * t.s.scaleOf(t.model))
		return &agent.Fault{Code: agent.FaultTooLong, Err: agent.ErrTooLong,
			Args: map[string]string{"tokens": fmt.Sprint(tokens), "limit": fmt.Sprint(room)}}
	}
	return t.s.insist(ctx, t.turn, func() error { return t.s.store.Cut(ctx, t.session, t.entries[0].seq, t.resultsTo) })
}

// shorten gives a step with the beginnings of its results, or of its calls'
// arguments and the words beside them. What people wrote and answers stay.
func shorten(m agent.Message) agent.Message {
	step := len(m.Calls()) > 0
	if !step && m.Role != agent.ToolRole {
		return m
	}
	out := agent.Message{Role: m.Role, Parts: slices.Clone(m.Parts)}
	for i, p := range out.Parts {
		switch {
		case p.Result != nil && len(p.Result.Text) > shortStep:
			r := *p.Result
			r.Text = beginning(r.Text)
			out.Parts[i].Result = &r
		case p.Call != nil && len(p.Call.Args) > shortStep:
			c := *p.Call
			c.Args, _ = json.Marshal(map[string]string{"shortened": beginning(string(c.Args))}) // strings always encode
			out.Parts[i].Call = &c
		case step && len(p.Text) > shortStep:
			out.Parts[i].Text = beginning(p.Text)
		}
	}
	return out
}

// beginning gives shortStep bytes of a longer text, with a note about the rest.
func beginning(text string) string {
	note := fmt.Sprintf("\n[shortened: %d bytes in all]", len(text))
	end := shortStep - len(note)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + note
}

// calibrate learns from the server's own count how many tokens our bytes are.
func (s *Supervisor) calibrate(model string, bytes, tokens int) {
	if bytes == 0 || tokens == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ratio := min(max(float64(tokens)*bytesPerToken/float64(bytes), 0.5), 3)
	if old, ok := s.scale[model]; ok {
		ratio = 0.7*old + 0.3*ratio
	}
	s.scale[model] = ratio
}

func (s *Supervisor) scaleOf(model string) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.scale[model]; ok {
		return r
	}
	return 1
}
