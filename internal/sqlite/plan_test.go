package sqlite

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentd/internal/agent"
)

// small are the indexes that hold only what is unfinished; they may be read through.
var small = regexp.MustCompile(` USING (COVERING )?INDEX (turns_open|sends_sending|outbox_queued|outbox_parked|inbox_due)\b`)

var parameter = regexp.MustCompile(`\?(\d*)`)

// parameters counts what a query must be given.
func parameters(query string) (n int) {
	for i, m := range parameter.FindAllStringSubmatch(query, -1) {
		number, err := strconv.Atoi(m[1])
		if err != nil {
			number = i + 1
		}
		n = max(n, number)
	}
	return n
}

// plan gives the steps of the query.
func plan(t *testing.T, s *Store, query string) (steps []string) {
	t.Helper()
	args := slices.Repeat([]any{1}, parameters(query))
	rows, err := s.read.db.Query("EXPLAIN QUERY PLAN "+query, args...)
	check(t, err)
	defer closed(t, rows)
	for rows.Next() {
		var id, parent, unused int
		var step string
		check(t, rows.Scan(&id, &parent, &unused, &step))
		steps = append(steps, step)
	}
	check(t, rows.Err())
	return steps
}

// What a message costs must not grow with what is stored: no query of its way
// reads through a table that grows. One message with all that may happen to it
// leaves its queries with the prepared statements.
func TestQueriesUseIndexes(t *testing.T) {
	c := newStore(t)
	ctx := t.Context()
	accept1(t, c.Store, text(1, 7, "a"), kind(agent.KindControl, text(2, 7, "/help")), kind(agent.KindEdit, edits(1, text(3, 7, "b"))))
	must(c.Controls(ctx))(t)
	check(t, c.Handled(ctx, 2))
	turn := claim(t, c.Store)
	accept1(t, c.Store, text(4, 7, "c"))
	must(c.Pull(ctx, turn, t0, compose))(t)
	step(t, c.Store, turn, calls("1"))
	must(c.History(ctx, turn.Session, 0))(t)
	must(c.Child(ctx, turn.Scope, "1", "helper", calls()))(t)
	check(t, c.OpenPreview(ctx, turn, false))
	check(t, c.SettlePreview(ctx, turn.Turn, 5, agent.Payload{}))
	must(c.Open(ctx))(t)
	check(t, c.Recover(ctx))
	check(t, c.Cut(ctx, turn.Session, 1, 1))
	check(t, c.Release(ctx, turn.Turn))
	must(c.Tokens(ctx, at(7)))(t)
	check(t, stop(c, person(7)))
	must(c.Retry(ctx, at(7), person(7), 9, again))(t)
	_, _, err := c.Waiting(ctx, t0)
	check(t, err)
	lanes(t, c)
	check(t, c.Post(ctx, letter("a", at(7), 0, "one", "two")))
	for _, fate := range []agent.Fate{agent.Retry, agent.Uncertain, agent.Parked} {
		send, _ := next(t, c, 7)
		settled(t, c.Store, send, fate)
	}
	accept1(t, c.Store, text(5, 7, "d"))
	drain(t, c, 7)
	must(c.InFlight(ctx))(t)
	must(c.Resend(ctx, 7, 1, 0))(t)

	var queries []string
	for q := range c.write.stmts {
		queries = append(queries, q)
	}
	c.read.stmts.Range(func(q, _ any) bool { queries = append(queries, q.(string)); return true })
	if len(queries) < 40 {
		t.Fatalf("only %d queries were asked", len(queries))
	}
	for _, q := range queries {
		for _, step := range plan(t, c.Store, q) {
			if strings.HasPrefix(step, "SCAN") && step != "SCAN CONSTANT ROW" && !strings.HasPrefix(step, "SCAN (subquery") && !small.MatchString(step) {
				t.Errorf("%s\n\tin %s", step, q)
			}
		}
	}
}

// The most asked query goes through what is due in order, and stops at the first
// that can be claimed; the busy addresses are gathered once, from the open turns.
func TestClaimPlan(t *testing.T) {
	got := strings.Join(plan(t, newStore(t).Store, claimable), "\n")
	for _, step := range []string{
		"SEARCH inbox USING INDEX inbox_due (kind=? AND due<?)",
		"SCAN t USING INDEX turns_open",
		"SEARCH c USING COVERING INDEX inbox_sender (channel=? AND chat=? AND thread=? AND sender=? AND kind=?)",
	} {
		if !strings.Contains(got, step) {
			t.Errorf("no step %q in\n%s", step, got)
		}
	}
	if strings.Contains(got, "TEMP B-TREE") {
		t.Errorf("all that is due is sorted first:\n%s", got)
	}
}
