package sqlite

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"agentd/internal/agent"
)

// queued renders what waits: "words@ms after t0", oldest first.
func queued(t *testing.T, s *Store) string {
	t.Helper()
	var out []string
	rows, err := s.read.db.Query(`SELECT parts, due FROM inbox WHERE state = 'queued' ORDER BY update_id`)
	check(t, err)
	defer closed(t, rows)
	for rows.Next() {
		var parts []agent.Part
		var text string
		var due int64
		check(t, rows.Scan(&text, &due))
		check(t, json.Unmarshal([]byte(text), &parts))
		out = append(out, fmt.Sprintf("%s@%d", parts[0].Text, due-t0.UnixMilli()))
	}
	check(t, rows.Err())
	return strings.Join(out, " ")
}

func woken(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestAccept(t *testing.T) {
	const group = -5
	far := int(time.Hour.Milliseconds())
	for name, test := range map[string]struct {
		in    []agent.Incoming
		fresh int
		want  string
	}{
		"repeats are dropped": {
			[]agent.Incoming{text(1, 7, "a"), text(2, 7, "b"), text(1, 7, "other words")}, 2, "a@0 b@0",
		},
		"an edit replaces what waits": {
			[]agent.Incoming{text(1, 7, "a"), text(2, 7, "b"), kind(agent.KindEdit, edits(1, text(3, 7, "A")))}, 3, "A@0 b@0",
		},
		"an edit that comes again does not undo a newer one": {
			[]agent.Incoming{text(1, 7, "a"), kind(agent.KindEdit, edits(1, text(2, 7, "old"))), kind(agent.KindEdit, edits(1, text(3, 7, "new"))), kind(agent.KindEdit, edits(1, text(2, 7, "old")))}, 3, "new@0",
		},
		"an edit by another is not theirs": {
			[]agent.Incoming{by(7, text(1, group, "a")), by(8, kind(agent.KindEdit, edits(1, text(2, group, "A"))))}, 2, "a@0",
		},
		"an edit elsewhere is not of it": {
			[]agent.Incoming{text(1, 7, "a"), by(7, kind(agent.KindEdit, edits(1, text(2, group, "A"))))}, 2, "a@0",
		},
		"pieces fall due together, with the last": {
			[]agent.Incoming{came(0, 700, text(1, 7, "a")), came(300, 1000, text(2, 7, "b")), came(500, 500, text(3, 7, "tail"))}, 3, "a@500 b@500 tail@500",
		},
		"a held piece extends the hold": {
			[]agent.Incoming{came(0, 700, text(1, 7, "a")), came(300, 1000, text(2, 7, "b"))}, 2, "a@1000 b@1000",
		},
		"what is due already is left alone": {
			[]agent.Incoming{came(0, 0, text(1, 7, "a")), came(300, 1000, text(2, 7, "b"))}, 2, "a@0 b@1000",
		},
		"others' pieces are left alone": {
			[]agent.Incoming{by(7, came(0, 700, text(1, group, "a"))), came(0, 700, text(2, 7, "private")), by(8, came(100, 100, text(3, group, "b")))}, 3, "a@700 private@700 b@100",
		},
		"what is dated for later is no hold": {
			[]agent.Incoming{came(0, far, text(1, 7, "reminder")), came(300, 300, text(2, 7, "b"))}, 2, fmt.Sprintf("reminder@%d b@300", far),
		},
		"ignored updates do not wait": {
			[]agent.Incoming{kind(agent.KindIgnored, text(1, 7, "a"))}, 1, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newStore(t)
			together := accept1(t, c.Store, test.in...)
			equal(t, together, test.fresh)
			equal(t, queued(t, c.Store), test.want)
			equal(t, accept1(t, c.Store, test.in...), 0) // the whole batch comes again after a crash
			equal(t, queued(t, c.Store), test.want)

			c = newStore(t)
			for _, in := range test.in {
				accept1(t, c.Store, in)
			}
			equal(t, queued(t, c.Store), test.want)
		})
	}
}

// edits makes the update one about an earlier message.
func edits(message int64, in agent.Incoming) agent.Incoming {
	in.Message = message
	return in
}

func TestAcceptNotesEdits(t *testing.T) {
	c := newStore(t)
	turn := ask(t, c.Store, text(1, 7, "a"))
	accept1(t, c.Store, text(2, 7, "b"), kind(agent.KindEdit, edits(1, text(3, 7, "too late"))), kind(agent.KindEdit, edits(2, text(4, 7, "in time"))))
	var notes []string
	for _, in := range must(c.Ignored(t.Context(), 10))(t) {
		notes = append(notes, in.Note)
	}
	equal(t, strings.Join(notes, "; "), "an edit, put in the place of the waiting message; an edit of a message that was taken already")
	equal(t, told(t, c.Store, turn.Session), "user: a")
}

func TestAcceptWakes(t *testing.T) {
	c := newStore(t)
	for _, test := range []struct {
		in      agent.Incoming
		inbox   bool
		control bool
	}{
		{text(1, 7, "a"), true, false},
		{kind(agent.KindControl, text(2, 7, "/stop")), false, true},
		{kind(agent.KindIgnored, text(3, 7, "x")), false, false},
		{text(1, 7, "a"), false, false},
	} {
		accept1(t, c.Store, test.in)
		if in, ctl := woken(c.InboxWake()), woken(c.ControlWake()); in != test.inbox || ctl != test.control {
			t.Errorf("update %d woke the inbox: %v, the controls: %v", test.in.Update, in, ctl)
		}
	}
	if woken(c.OutboxWake()) {
		t.Error("the outbox was woken")
	}
}

// C104: whoever writes can be reached again; others' words, or a repeat, say nothing.
func TestAcceptFreesParkedPosts(t *testing.T) {
	c := newStore(t)
	check(t, c.Post(t.Context(), letter("a", at(7), 0, "one", "two"), letter("b", at(7), 0, "three"), letter("c", at(8), 0, "other")))
	send, _ := next(t, c, 7)
	settled(t, c.Store, send, agent.Parked)
	send, _ = next(t, c, 8)
	settled(t, c.Store, send, agent.Parked)
	check(t, c.Post(t.Context(), letter("d", at(7), 0, "four")))
	equal(t, drain(t, c, 7), "")
	woken(c.OutboxWake())

	accept1(t, c.Store, kind(agent.KindIgnored, text(1, 7, "left the chat")))
	equal(t, drain(t, c, 7), "")
	accept1(t, c.Store, text(2, 7, "hi"))
	if !woken(c.OutboxWake()) {
		t.Error("the sender was not woken")
	}
	equal(t, drain(t, c, 7), "one two three four")
	equal(t, drain(t, c, 8), "")
	accept1(t, c.Store, kind(agent.KindControl, text(3, 8, "/start")))
	equal(t, drain(t, c, 8), "other")
}

func TestControls(t *testing.T) {
	c := newStore(t)
	in := agent.Incoming{
		Update: 9, Kind: agent.KindControl, Address: agent.Address{Channel: "telegram", Chat: -5, Thread: 3},
		Sender: agent.Principal{ID: 7, Name: "Ann", Rights: agent.Owner}, Message: 44, At: t0, Due: t0.Add(time.Second), Lang: "ru",
		Parts: []agent.Part{{Text: "x", Taint: []agent.Source{"forward"}}}, Raw: json.RawMessage(`{"update_id":9}`),
	}
	// Telegram starts its numbers anew after a quiet week: what came first is first.
	later := came(1000, 1000, kind(agent.KindControl, text(2, 7, "/help")))
	accept1(t, c.Store, in, later)
	got := must(c.Controls(t.Context()))(t)
	if len(got) != 2 || !reflect.DeepEqual(got[0], in) || got[1].Update != 2 {
		t.Fatalf("got %+v", got)
	}
	check(t, c.Handled(t.Context(), 9, letter("ctl:9", at(-5), 0, "done")))
	if !woken(c.OutboxWake()) {
		t.Error("the sender was not woken")
	}
	check(t, c.Handled(t.Context(), 9, letter("ctl:9", at(-5), 0, "done again")))
	equal(t, drain(t, c, -5), "done")
	equal(t, len(must(c.Controls(t.Context()))(t)), 1)

	// A chat that floods us hides nobody else's.
	for i := range int64(700) {
		accept1(t, c.Store, kind(agent.KindControl, text(100+i, 7, "/help")))
	}
	accept1(t, c.Store, kind(agent.KindControl, text(900, 8, "/stop")))
	got = must(c.Controls(t.Context()))(t)
	equal(t, len(got), 9)
	equal(t, got[8].Update, 900)
	nothingToClaim(t, c.Store)
}

func TestIgnored(t *testing.T) {
	c := newStore(t)
	for i := range int64(5) {
		in := came(int(i)*10, 0, kind(agent.KindIgnored, text(10-i, 7, "x")))
		in.Note = fmt.Sprint("reason ", i)
		accept1(t, c.Store, in)
	}
	accept1(t, c.Store, text(20, 7, "not ignored"))
	got := must(c.Ignored(t.Context(), 2))(t)
	if len(got) != 2 || got[0].Note != "reason 4" || got[1].Note != "reason 3" {
		t.Errorf("got %+v", got)
	}
}

func TestWaiting(t *testing.T) {
	c := newStore(t)
	waiting := func() string {
		n, next, err := c.Waiting(t.Context(), t0)
		check(t, err)
		if next.IsZero() {
			return fmt.Sprint(n)
		}
		return fmt.Sprintf("%d, next in %v", n, next.Sub(t0))
	}
	equal(t, waiting(), "0")
	accept1(t, c.Store, text(1, 7, "a"), text(2, 7, "b"), kind(agent.KindControl, came(0, 50, text(3, 7, "c"))), kind(agent.KindIgnored, text(4, 7, "d")))
	equal(t, waiting(), "2")
	accept1(t, c.Store, came(0, 700, text(5, 8, "e")), came(0, 500, text(6, 9, "f")))
	equal(t, waiting(), "4, next in 500ms")
	claim(t, c.Store)
	equal(t, waiting(), "2, next in 500ms")
}

func TestPrune(t *testing.T) {
	c := newStore(t)
	ctx := t.Context()
	done := ask(t, c.Store, text(1, 7, "answered"))
	end(t, c.Store, done, "answer")
	equal(t, drain(t, c, 7), "answer")
	open := ask(t, c.Store, text(2, 8, "in work"))
	check(t, c.OpenPreview(ctx, open, false))
	accept1(t, c.Store, text(3, 9, "waits"), kind(agent.KindIgnored, text(4, 9, "x")), kind(agent.KindControl, text(5, 9, "/help")))
	check(t, c.Post(ctx, letter("waits", at(8), 0, "w"), letter("parked", at(11), 0, "p"), letter("uncertain", at(12), 0, "u"), letter("old", at(13), 0, "o")))
	send, _ := next(t, c, 11)
	settled(t, c.Store, send, agent.Parked)
	for _, chat := range []int64{12, 13} {
		send, _ = next(t, c, chat)
		settled(t, c.Store, send, agent.Uncertain)
		equal(t, drain(t, c, chat), "notice")
	}
	must(c.write.conn.ExecContext(ctx, `UPDATE outbox SET created = created - ? WHERE key = 'old'`, (31 * 24 * time.Hour).Milliseconds()))(t)
	for id := range int64(6) {
		_, _, err := c.Greet(ctx, 100+id, "stranger", t0)
		check(t, err)
	}

	left := func(what, column string) string {
		var out []string
		rows, err := c.read.db.Query(`SELECT ` + column + ` FROM ` + what + ` ORDER BY 1`)
		check(t, err)
		defer closed(t, rows)
		for rows.Next() {
			var s string
			check(t, rows.Scan(&s))
			out = append(out, s)
		}
		return strings.Join(out, " ")
	}
	check(t, c.Prune(ctx, t0.Add(-time.Hour)))
	equal(t, left("inbox", "update_id"), "1 2 3 4 5")
	equal(t, left("people", "id"), "100 101 102 103 104 105")

	check(t, c.Prune(ctx, time.Now().Add(time.Hour)))
	equal(t, left("inbox", "update_id"), "2 3 5")
	equal(t, left("outbox", "key"), fmt.Sprintf("parked preview:%d uncertain waits", open.Turn))
	equal(t, left("sends JOIN outbox ON id = post WHERE key = 'uncertain'", "part || body"), `0"u" 1"notice"`)
	equal(t, left("people", "id"), "100 101 102 103 104") // those about whom the owner was asked
	equal(t, left("turns", "id"), "1 2")
	equal(t, left("messages", "role"), "assistant user user")
}
