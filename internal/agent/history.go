package agent

import "slices"

// OpenCalls gives the calls at the history's end that have no result yet: those
// of the last assistant message, when nothing but results follows it.
func OpenCalls(history []Message) []Call {
	done := map[string]bool{}
	for i := len(history) - 1; i >= 0; i-- {
		m := history[i]
		if m.Role != ToolRole {
			var open []Call
			for _, c := range m.Calls() {
				if !done[c.ID] {
					open = append(open, c)
				}
			}
			return open
		}
		for _, p := range m.Parts {
			if p.Result != nil {
				done[p.Result.CallID] = true
			}
		}
	}
	return nil
}

// Arrange gives the history in the form that model servers insist on: the
// results of a message's calls follow it at once, in the order of the calls,
// whatever order they were recorded in; a call that never got a result gets one
// that says so; a result whose call is not there is left out (C035, C111). A
// history of words alone is returned as it is.
func Arrange(history []Message) []Message {
	if !slices.ContainsFunc(history, func(m Message) bool { return m.Role == ToolRole || len(m.Calls()) > 0 }) {
		return history
	}
	results := map[string]Part{}
	for _, m := range history {
		for _, p := range m.Parts {
			if p.Result != nil {
				results[p.Result.CallID] = p
			}
		}
	}
	out := make([]Message, 0, len(history))
	for _, m := range history {
		if m.Role == ToolRole {
			continue
		}
		out = append(out, m)
		for _, c := range m.Calls() {
			p, ok := results[c.ID]
			if !ok {
				p = Part{Result: &Result{CallID: c.ID, Name: c.Name, Text: "no result: the turn ended before this ran", IsError: true}}
			}
			out = append(out, Message{Role: ToolRole, Parts: []Part{p}})
		}
	}
	return out
}
