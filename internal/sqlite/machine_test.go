package sqlite

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"agentd/internal/agent"
)

// machine does at random what a daemon does, its deaths included. What must hold
// whatever happens is in check.
type machine struct {
	path string
	c    *Channel
	now  time.Time

	update int64
	in     []agent.Incoming     // all that was accepted
	turns  []agent.Turn         // open, as the process that claimed them knows
	sends  map[int64]agent.Send // on their way, by chat
	last   map[int64][2]int64   // the last post and part that each chat was given
	again  map[int64]bool       // it may be given once more
}

var chats = []int64{7, 8, group}

func (m *machine) open(t *rapid.T) {
	s, err := Open(context.Background(), m.path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	m.c = s.Channel("telegram")
}

func ok(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (m *machine) accept(t *rapid.T) {
	m.update++
	chat := rapid.SampledFrom(chats).Draw(t, "chat")
	in := text(m.update, chat, fmt.Sprintf("w%d.", m.update))
	in.At = m.now
	hold := rapid.SampledFrom([]time.Duration{0, 0, 700 * time.Millisecond}).Draw(t, "hold")
	in.Due = m.now.Add(hold)
	if chat < 0 {
		in = by(rapid.SampledFrom([]int64{7, 8}).Draw(t, "sender"), in)
	}
	if rapid.IntRange(0, 9).Draw(t, "control") == 0 {
		in.Kind = agent.KindControl
	}
	batch := []agent.Incoming{in}
	if len(m.in) > 0 { // what came before the last poll may come again
		batch = append([]agent.Incoming{rapid.SampledFrom(m.in).Draw(t, "again")}, batch...)
	}
	fresh, err := m.c.Accept(context.Background(), batch)
	ok(t, err)
	if fresh != 1 {
		t.Fatalf("%d of the batch are new", fresh)
	}
	m.in = append(m.in, in)
}

func (m *machine) claim(t *rapid.T) {
	turn, claimed, err := m.c.Claim(context.Background(), m.now, compose)
	ok(t, err)
	if claimed {
		m.turns = append(m.turns, turn)
	}
}

// turn draws a turn that runs, and takes it out if it ends.
func (m *machine) turn(t *rapid.T, ends bool) agent.Turn {
	if len(m.turns) == 0 {
		t.Skip("no turn runs")
	}
	i := rapid.IntRange(0, len(m.turns)-1).Draw(t, "turn")
	turn := m.turns[i]
	if ends {
		m.turns = slices.Delete(m.turns, i, i+1)
	}
	return turn
}

func (m *machine) append(t *rapid.T) {
	turn := m.turn(t, false)
	id := fmt.Sprint(turn.Turn, ".", rapid.IntRange(1, 3).Draw(t, "call"))
	ok(t, m.c.Append(context.Background(), turn.Session, turn.Turn, rapid.SampledFrom([]agent.Message{calls(id), result(id, "r")}).Draw(t, "step")))
}

func (m *machine) pull(t *rapid.T) {
	_, err := m.c.Pull(context.Background(), m.turn(t, false), m.now, compose)
	ok(t, err)
}

func (m *machine) finish(t *rapid.T) {
	turn := m.turn(t, true)
	ok(t, m.c.Finish(context.Background(), turn, agent.Ending{State: agent.TurnDone, Posts: []agent.Post{answer(turn, "one", "two")}}))
}

// stop ends a turn by a command, or by asking again.
func (m *machine) stop(t *rapid.T) {
	turn := m.turn(t, false)
	var ended agent.Turn
	var err error
	if rapid.Bool().Draw(t, "retry") {
		ended, err = m.c.Retry(context.Background(), turn.Address, owner, 0, again)
	} else {
		ended, err = m.c.Stop(context.Background(), turn.Address, owner, 0, func(turn agent.Turn) []agent.Post { return []agent.Post{answer(turn, "stopped")} })
	}
	if err != nil && !strings.Contains(err.Error(), agent.ErrNoTurn.Error()) { // /new came before /retry
		t.Fatal(err)
	}
	m.turns = slices.DeleteFunc(m.turns, func(o agent.Turn) bool { return o.Turn == ended.Turn })
	open, err := m.c.Open(context.Background())
	ok(t, err)
	m.turns = open // a retry opens one
}

func (m *machine) newSession(t *rapid.T) {
	ok(t, m.c.NewSession(context.Background(), at(rapid.SampledFrom(chats).Draw(t, "chat"))))
}

func (m *machine) post(t *rapid.T) {
	m.update++
	p := letter(fmt.Sprint("post:", m.update), at(rapid.SampledFrom(chats).Draw(t, "chat")), 0, slices.Repeat([]string{"x"}, rapid.IntRange(0, 3).Draw(t, "parts"))...)
	ok(t, m.c.Post(context.Background(), p, p))
}

func (m *machine) next(t *rapid.T) {
	chat := rapid.SampledFrom(chats).Draw(t, "chat")
	send, found, err := m.c.Next(context.Background(), chat, m.now)
	ok(t, err)
	if !found {
		return
	}
	if _, flies := m.sends[chat]; flies {
		t.Fatalf("two parts of chat %d are on their way", chat)
	}
	this, last := [2]int64{send.Post, int64(send.Part)}, m.last[chat]
	if c := slices.Compare(this[:], last[:]); c < 0 || c == 0 && !m.again[chat] {
		t.Fatalf("chat %d was given %v after %v", chat, this, last)
	}
	m.sends[chat], m.last[chat] = send, this
}

func (m *machine) settle(t *rapid.T) {
	if len(m.sends) == 0 {
		t.Skip("nothing is on its way")
	}
	chat := rapid.SampledFrom(slices.Sorted(maps.Keys(m.sends))).Draw(t, "chat")
	fate := rapid.SampledFrom([]agent.Fate{agent.Sent, agent.Sent, agent.Retry, agent.Failed, agent.Uncertain, agent.Parked}).Draw(t, "fate")
	m.settleAs(t, m.sends[chat], fate)
}

func (m *machine) settleAs(t *rapid.T, send agent.Send, fate agent.Fate) {
	out := agent.Outcome{Fate: fate, Notice: &agent.Payload{Body: json.RawMessage(`"notice"`), Idempotent: true}}
	if fate == agent.Retry {
		out.Due = m.now.Add(time.Second)
	}
	ok(t, m.c.Settle(context.Background(), send, out))
	m.again[send.Address.Chat] = fate == agent.Retry || fate == agent.Parked || fate == agent.Uncertain && send.Part%2 == 1
	delete(m.sends, send.Address.Chat)
}

func (m *machine) handle(t *rapid.T) {
	rows, err := m.c.Controls(context.Background())
	ok(t, err)
	for _, in := range rows {
		ok(t, m.c.Handled(context.Background(), in.Update, letter(fmt.Sprint("ctl:", in.Update), in.Address, 0, "done")))
	}
}

func (m *machine) pass(*rapid.T) { m.now = m.now.Add(400 * time.Millisecond) }

// die ends the process and starts the next one, as the daemon does.
func (m *machine) die(t *rapid.T) {
	ok(t, m.c.Close())
	m.open(t)
	ok(t, m.c.Recover(context.Background()))
	open, err := m.c.Open(context.Background())
	ok(t, err)
	ids := func(turns []agent.Turn) (out []int64) {
		for _, turn := range turns {
			out = append(out, turn.Turn)
		}
		slices.Sort(out)
		return out
	}
	if !slices.Equal(ids(open), ids(m.turns)) {
		t.Fatalf("turns %v are open, %v were", ids(open), ids(m.turns))
	}
	flying, err := m.c.InFlight(context.Background())
	ok(t, err)
	if len(flying) != len(m.sends) {
		t.Fatalf("%d parts are on their way, %d were", len(flying), len(m.sends))
	}
	for _, send := range flying {
		m.settleAs(t, send, agent.Uncertain)
	}
}

// check asserts what holds at every moment.
func (m *machine) check(t *rapid.T) {
	var messages, flying int
	ok(t, m.c.read.db.QueryRow(`SELECT (SELECT count(*) FROM inbox), (SELECT count(*) FROM sends WHERE state = 'sending')`).Scan(&messages, &flying))
	if messages != len(m.in) || flying != len(m.sends) {
		t.Fatalf("%d messages of %d, %d parts on their way of %d", messages, len(m.in), flying, len(m.sends))
	}
	for what, query := range map[string]string{
		"two open turns in a session":            `SELECT count(*) FROM (SELECT 1 FROM turns WHERE state IN ('open', 'waiting') GROUP BY session HAVING count(*) > 1)`,
		"messages that wait and have a turn":     `SELECT count(*) FROM inbox WHERE state = 'queued' AND turn IS NOT NULL`,
		"messages in work by nobody":             `SELECT count(*) FROM inbox LEFT JOIN turns ON id = turn WHERE inbox.state = 'taken' AND turns.state IS NOT 'open'`,
		"messages done in a turn that runs":      `SELECT count(*) FROM inbox LEFT JOIN turns ON id = turn WHERE kind = 'message' AND inbox.state = 'done' AND coalesce(turns.state, 'open') = 'open'`,
		"turns that ended without one answer":    `SELECT count(*) FROM turns WHERE state IN ('done', 'stopped') AND (SELECT count(*) FROM outbox WHERE turn = turns.id) <> 1`,
		"answers of turns that did not end":      `SELECT count(*) FROM turns WHERE state IN ('open', 'superseded') AND EXISTS (SELECT 1 FROM outbox WHERE turn = turns.id) AND ended IS NULL`,
		"holes in a session":                     `SELECT count(*) FROM (SELECT 1 FROM messages GROUP BY session HAVING max(seq) <> count(*))`,
		"posts done with parts to send":          `SELECT count(*) FROM outbox JOIN sends ON post = id WHERE outbox.state = 'done' AND sends.state IN ('queued', 'sending')`,
		"posts not done without parts to send":   `SELECT count(*) FROM outbox WHERE state <> 'done' AND NOT EXISTS (SELECT 1 FROM sends WHERE post = id AND state IN ('queued', 'sending'))`,
		"chats that are parked and not":          `SELECT count(*) FROM (SELECT 1 FROM outbox WHERE state <> 'done' GROUP BY chat HAVING count(DISTINCT state) > 1)`,
		"two current sessions at an address":     `SELECT count(*) FROM (SELECT 1 FROM sessions WHERE current = 1 GROUP BY chat HAVING count(*) > 1)`,
		"uncertain parts without a notice":       `SELECT count(*) FROM sends AS s WHERE state = 'uncertain' AND NOT EXISTS (SELECT 1 FROM sends WHERE post = s.post AND part = s.part + 1)`,
		"notices that are uncertain":             `SELECT count(*) FROM sends WHERE state = 'uncertain' AND part % 2 = 1`,
		"messages told twice, or not once taken": `SELECT count(*) FROM inbox AS i WHERE kind = 'message' AND (SELECT count(*) FROM messages AS m WHERE m.turn = i.turn AND role = 'user' AND m.parts LIKE '%w' || update_id || '.%' AND m.parts NOT LIKE '%again%') <> (turn IS NOT NULL)`,
	} {
		var n int
		_, err := m.c.read.row(context.Background(), query, nil, &n)
		ok(t, err)
		if n != 0 {
			t.Fatalf("%s: %d", what, n)
		}
	}
}

// settleDown lets everything come to its end, and asserts that it does.
func (m *machine) settleDown(t *rapid.T) {
	ctx := context.Background()
	m.handle(t)
	m.now = m.now.Add(time.Hour)
	for range 1000 {
		m.claim(t)
		if len(m.turns) == 0 {
			break
		}
		m.finish(t)
	}
	for _, chat := range chats { // sets free what is parked
		m.update++
		_, err := m.c.Accept(ctx, []agent.Incoming{kind(agent.KindControl, text(m.update, chat, "/help"))})
		ok(t, err)
	}
	for _, chat := range chats {
		for range 1000 {
			if send, flies := m.sends[chat]; flies {
				m.settleAs(t, send, agent.Sent)
			}
			send, found, err := m.c.Next(ctx, chat, m.now)
			ok(t, err)
			if !found {
				break
			}
			m.sends[chat] = send
		}
	}
	var n int
	ok(t, m.c.read.db.QueryRow(`SELECT (SELECT count(*) FROM inbox WHERE kind = 'message' AND state <> 'done') + (SELECT count(*) FROM turns WHERE state = 'open') + (SELECT count(*) FROM outbox WHERE state <> 'done')`).Scan(&n))
	if n != 0 {
		t.Fatalf("%d things never end", n)
	}
}

func TestWhateverHappens(t *testing.T) {
	dir := t.TempDir()
	fresh := filepath.Join(dir, "fresh.db")
	check(t, openAt(t, fresh).Close())
	schema := must(os.ReadFile(fresh))(t)
	// A sequence makes some hundred transactions; 25 are enough for each day, and
	// -rapid.checks asks for more.
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		check(t, checks.Value.Set("25"))
	}
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		m := &machine{
			path: filepath.Join(dir, fmt.Sprint(runs, ".db")), now: t0,
			sends: map[int64]agent.Send{}, last: map[int64][2]int64{}, again: map[int64]bool{},
		}
		ok(rt, os.WriteFile(m.path, schema, 0o600))
		m.open(rt)
		defer func() { ok(rt, m.c.Close()) }()
		rt.Repeat(map[string]func(*rapid.T){
			"": m.check, "accept": m.accept, "claim": m.claim, "append": m.append, "pull": m.pull, "finish": m.finish, "stop": m.stop,
			"new session": m.newSession, "post": m.post, "next": m.next, "settle": m.settle, "handle": m.handle, "pass": m.pass, "die": m.die,
		})
		m.settleDown(rt)
	})
}
