package sqlite

import (
	"strings"
	"testing"

	"agentd/internal/agent"
)

func TestChild(t *testing.T) {
	c := newStore(t)
	turn := ask(t, c.Store, text(1, 7, "a"))
	other := ask(t, c.Store, text(2, 8, "b"))
	task := agent.TextMessage(agent.User, "task")
	child := must(c.Child(t.Context(), turn.Scope, "1", "helper", task))(t)
	check(t, c.Append(t.Context(), child, turn.Turn, agent.TextMessage(agent.Assistant, "found")))
	equal(t, must(c.Child(t.Context(), turn.Scope, "1", "helper", task))(t), child)
	equal(t, told(t, c.Store, child), "user: task | assistant: found")
	seen := map[int64]bool{child: true}
	for _, s := range []struct {
		scope agent.Scope
		call  string
	}{{turn.Scope, "2"}, {other.Scope, "1"}} {
		id := must(c.Child(t.Context(), s.scope, s.call, "helper", task))(t)
		if seen[id] {
			t.Errorf("call %s of session %d got another's child", s.call, s.scope.Session)
		}
		seen[id] = true
	}
	equal(t, told(t, c.Store, turn.Session), "user: a")
	equal(t, len(must(c.Sessions(t.Context(), at(7), 10))(t)), 1)
	if ok := must(c.SwitchSession(t.Context(), at(7), child))(t); ok {
		t.Error("a person was let into the helper's session")
	}
}

func TestCut(t *testing.T) {
	c := newStore(t)
	turn := ask(t, c.Store, text(1, 7, "a"))
	for _, s := range strings.Fields("b c d") {
		step(t, c.Store, turn, agent.TextMessage(agent.Assistant, s))
	}
	for _, test := range []struct {
		from, results int64
		want          string
		cut           int64
	}{
		{3, 2, "assistant: c | assistant: d", 2}, {2, 4, "assistant: c | assistant: d", 4}, {4, 3, "assistant: d", 4}, {0, 0, "assistant: d", 4},
	} {
		check(t, c.Cut(t.Context(), turn.Session, test.from, test.results))
		equal(t, told(t, c.Store, turn.Session), test.want)
		equal(t, must(c.History(t.Context(), turn.Session, 0))(t).ResultsCutTo, test.cut)
	}
	if _, err := c.History(t.Context(), 999, 0); err == nil {
		t.Error("a history of nothing")
	}
}
