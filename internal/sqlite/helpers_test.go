package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/internal/agent"
)

// t0 is when the tests' updates come, unless they say otherwise.
var t0 = time.UnixMilli(1_700_000_000_000).UTC()

func openAt(tb testing.TB, path string) *Store {
	tb.Helper()
	s, err := Open(context.Background(), path, Config{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closed(tb, s) })
	return s
}

func newStore(tb testing.TB) *Channel {
	tb.Helper()
	return openAt(tb, filepath.Join(tb.TempDir(), "agentd.db")).Channel("telegram")
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// must takes the results of a verb that must not fail.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		check(tb, err)
		return v
	}
}

// closed closes what the test may have closed already.
func closed(tb testing.TB, c io.Closer) {
	tb.Helper()
	if err := c.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) {
		tb.Error(err)
	}
}

func equal[T comparable](tb testing.TB, got, want T) {
	tb.Helper()
	if got != want {
		tb.Errorf("got  %v\nwant %v", got, want)
	}
}

func at(chat int64) agent.Address { return agent.Address{Channel: "telegram", Chat: chat} }

func person(id int64) agent.Principal {
	return agent.Principal{ID: id, Name: fmt.Sprint("p", id), Rights: agent.Person}
}

var owner = agent.Principal{ID: 1, Name: "owner", Rights: agent.Owner}

// text is a message of the chat's person, who has the chat's id, as in private chats.
func text(update, chat int64, words string) agent.Incoming {
	return agent.Incoming{
		Update: update, Kind: agent.KindMessage, Address: at(chat), Sender: person(chat), Private: true, Message: update,
		At: t0, Due: t0, Lang: "en", Parts: []agent.Part{{Text: words}}, Raw: json.RawMessage(`{}`),
	}
}

// by makes it somebody's in a group.
func by(id int64, in agent.Incoming) agent.Incoming {
	in.Sender, in.Private = person(id), false
	return in
}

// came sets when the message came and when it falls due, in milliseconds after t0.
func came(at, due int, in agent.Incoming) agent.Incoming {
	in.At, in.Due = t0.Add(time.Duration(at)*time.Millisecond), t0.Add(time.Duration(due)*time.Millisecond)
	return in
}

func kind(k agent.Kind, in agent.Incoming) agent.Incoming {
	in.Kind = k
	return in
}

func accept1(tb testing.TB, s *Store, in ...agent.Incoming) int {
	tb.Helper()
	return must(s.Accept(context.Background(), in))(tb)
}

// compose joins the rows' texts with "+".
func compose(rows []agent.Incoming) agent.Message {
	var words []string
	for _, r := range rows {
		for _, p := range r.Parts {
			words = append(words, p.Text)
		}
	}
	return agent.TextMessage(agent.User, strings.Join(words, "+"))
}

// claim gives the next turn, which must be there.
func claim(tb testing.TB, s *Store) agent.Turn {
	tb.Helper()
	turn, ok, err := s.Claim(context.Background(), t0, compose)
	if err != nil || !ok {
		tb.Fatalf("claim: %v, %v", ok, err)
	}
	return turn
}

func nothingToClaim(tb testing.TB, s *Store) {
	tb.Helper()
	if turn, ok, err := s.Claim(context.Background(), t0, compose); err != nil || ok {
		tb.Errorf("claimed %+v, %v", turn, err)
	}
}

// ask accepts a message and claims the turn.
func ask(tb testing.TB, s *Store, in agent.Incoming) agent.Turn {
	tb.Helper()
	accept1(tb, s, in)
	return claim(tb, s)
}

// answer is the turn's post; each part's body is a JSON string.
func answer(turn agent.Turn, parts ...string) agent.Post {
	return letter(fmt.Sprint("turn:", turn.Turn), turn.Address, turn.Turn, parts...)
}

func letter(key string, to agent.Address, turn int64, parts ...string) agent.Post {
	p := agent.Post{Key: key, Address: to, Turn: turn, Lang: "en"}
	for _, s := range parts {
		p.Parts = append(p.Parts, agent.Payload{Body: json.RawMessage(fmt.Sprintf("%q", s))})
	}
	return p
}

func ending(turn agent.Turn, words string) agent.Ending {
	m := agent.TextMessage(agent.Assistant, words)
	return agent.Ending{State: agent.TurnDone, Message: &m, Tokens: 10, Posts: []agent.Post{answer(turn, words)}}
}

func end(tb testing.TB, s *Store, turn agent.Turn, words string) {
	tb.Helper()
	check(tb, s.Finish(context.Background(), turn, ending(turn, words)))
}

// told renders what the model is sent of a session: "user: hi | assistant: hello".
func told(tb testing.TB, s *Store, session int64) string {
	tb.Helper()
	var out []string
	for _, e := range must(s.History(context.Background(), session, 0))(tb).Entries {
		var parts []string
		for _, p := range e.Parts {
			switch {
			case p.Call != nil:
				parts = append(parts, "call "+p.Call.ID)
			case p.Result != nil:
				parts = append(parts, p.Result.CallID+"="+p.Result.Text)
			default:
				parts = append(parts, p.Text)
			}
		}
		out = append(out, string(e.Role)+": "+strings.Join(parts, ", "))
	}
	return strings.Join(out, " | ")
}

func next(tb testing.TB, c *Channel, chat int64) (agent.Send, string) {
	tb.Helper()
	send, ok, err := c.Next(context.Background(), chat, t0)
	if err != nil || !ok {
		tb.Fatalf("next: %v, %v", ok, err)
	}
	return send, unquote(tb, send)
}

func unquote(tb testing.TB, send agent.Send) (s string) {
	tb.Helper()
	check(tb, json.Unmarshal(send.Body, &s))
	return s
}

func settled(tb testing.TB, s *Store, send agent.Send, fate agent.Fate) {
	tb.Helper()
	out := agent.Outcome{Fate: fate}
	if fate == agent.Uncertain {
		out.Notice = &agent.Payload{Body: json.RawMessage(`"notice"`), Idempotent: true}
	}
	check(tb, s.Settle(context.Background(), send, out))
}

// drain sends all that is due in the chat and gives the texts, joined by a space.
func drain(tb testing.TB, c *Channel, chat int64) string {
	tb.Helper()
	var out []string
	for {
		send, ok, err := c.Next(context.Background(), chat, t0)
		check(tb, err)
		if !ok {
			return strings.Join(out, " ")
		}
		out = append(out, unquote(tb, send))
		check(tb, c.Settle(context.Background(), send, agent.Outcome{Fate: agent.Sent, Message: send.Post*10 + int64(send.Part)}))
	}
}

// count asks the database itself.
func count(tb testing.TB, s *Store, query string, args ...any) (n int) {
	tb.Helper()
	check(tb, s.read.db.QueryRow(query, args...).Scan(&n))
	return n
}
