package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/internal/agent"
)

// list renders the conversations of a chat: "title(turns)", a star at the current one.
func list(t *testing.T, c *Channel, chat int64) string {
	t.Helper()
	var out []string
	for _, s := range must(c.Sessions(t.Context(), at(chat), 10))(t) {
		star := ""
		if s.Current {
			star = "*"
		}
		out = append(out, fmt.Sprintf("%s%s(%d)", s.Title, star, s.Turns))
	}
	return strings.Join(out, " ")
}

// talk asks and answers, and gives the session.
func talk(t *testing.T, c *Channel, update, chat int64, words string) int64 {
	t.Helper()
	turn := ask(t, c.Store, text(update, chat, words))
	end(t, c.Store, turn, "A:"+words)
	return turn.Session
}

func TestSessions(t *testing.T) {
	c := newStore(t)
	check(t, c.NewSession(t.Context(), at(7))) // nothing to leave
	first := talk(t, c, 1, 7, "first")
	for range 2 {
		check(t, c.NewSession(t.Context(), at(7))) // the second time there is nothing to leave again
	}
	equal(t, list(t, c, 7), "first(1)")
	second := talk(t, c, 2, 7, "second")
	talk(t, c, 3, 8, "other")
	equal(t, count(t, c.Store, `SELECT count(*) FROM sessions`), 3)
	equal(t, list(t, c, 7), "second*(1) first(1)")
	equal(t, len(must(c.Sessions(t.Context(), at(7), 1))(t)), 1)

	equal(t, must(c.SwitchSession(t.Context(), at(8), first))(t), false)
	equal(t, must(c.SwitchSession(t.Context(), at(7), 99))(t), false)
	equal(t, must(c.SwitchSession(t.Context(), at(7), first))(t), true)
	equal(t, talk(t, c, 4, 7, "more"), first)
	equal(t, told(t, c.Store, first), "user: first | assistant: A:first | user: more | assistant: A:more")
	if got := list(t, c, 7); !strings.Contains(got, "first*(2)") {
		t.Error(got)
	}
	equal(t, told(t, c.Store, second), "user: second | assistant: A:second")
}

func TestSessionTitles(t *testing.T) {
	for name, test := range map[string]struct {
		parts []agent.Part
		want  string
	}{
		"words":     {[]agent.Part{{Text: "  hello \n there "}}, "hello there"},
		"a link":    {[]agent.Part{{Text: " "}, {Text: "[here](https://example.org)"}}, "[here](https://example.org)"},
		"long":      {[]agent.Part{{Text: strings.Repeat("я", 100)}}, strings.Repeat("я", 59) + "…"},
		"a picture": {[]agent.Part{{Image: &agent.Image{MIME: "image/png"}}}, "…"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newStore(t)
			in := text(1, 7, "")
			in.Parts = test.parts
			accept1(t, c.Store, in)
			turn, ok, err := c.Claim(t.Context(), t0, func(rows []agent.Incoming) agent.Message {
				return agent.Message{Role: agent.User, Parts: append([]agent.Part{{Text: "[Monday]"}}, rows[0].Parts...)}
			})
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			equal(t, list(t, c, 7), test.want+"*(1)")
			if test.want == wordless { // the first words come later
				end(t, c.Store, turn, "A")
				talk(t, c, 2, 7, "words")
				equal(t, list(t, c, 7), "words*(2)")
			}
		})
	}
}

func TestDeleteSession(t *testing.T) {
	c := newStore(t)
	turn := ask(t, c.Store, text(1, 7, "secret"))
	must(c.Child(t.Context(), turn.Scope, "1", "helper", agent.TextMessage(agent.User, "secret task")))(t)
	check(t, c.OpenPreview(t.Context(), turn, false))
	equal(t, must(c.DeleteSession(t.Context(), at(7), turn.Session))(t), false) // it runs
	end(t, c.Store, turn, "secret answer")
	equal(t, must(c.DeleteSession(t.Context(), at(8), turn.Session))(t), false)
	equal(t, drain(t, c, 7), "secret answer")
	kept := talk(t, c, 2, 8, "kept")
	equal(t, must(c.DeleteSession(t.Context(), at(7), turn.Session))(t), true)
	equal(t, must(c.DeleteSession(t.Context(), at(7), turn.Session))(t), false)

	for table, column := range map[string]string{"messages": "parts", "inbox": "parts || raw", "sends": "body", "sessions": "title"} {
		equal(t, count(t, c.Store, `SELECT count(*) FROM `+table+` WHERE `+column+` LIKE '%secret%'`), 0)
	}
	equal(t, count(t, c.Store, `SELECT count(*) FROM sessions`), 1)
	equal(t, told(t, c.Store, kept), "user: kept | assistant: A:kept")
	equal(t, accept1(t, c.Store, text(1, 7, "secret")), 0) // its update is still known
	if id := talk(t, c, 3, 7, "new"); id == turn.Session {
		t.Error("an id was used again")
	}
}

func TestSettings(t *testing.T) {
	c := newStore(t)
	for _, value := range []string{"", "a", "b", ""} {
		check(t, c.SetSetting(t.Context(), "key", value))
		equal(t, must(c.Setting(t.Context(), "key"))(t), value)
	}
	equal(t, count(t, c.Store, `SELECT count(*) FROM settings`), 0)
	equal(t, must(c.Tokens(t.Context(), at(7)))(t), 0)
}

// C017: a group that became a supergroup has a new id.
func TestMigrate(t *testing.T) {
	const old, moved = -4001, -1001557000111
	t.Run("everything moves", func(t *testing.T) {
		c := newStore(t)
		check(t, c.SetPerson(t.Context(), old, agent.PersonAllowed, "Team"))
		session := talk(t, c, 1, old, "before")
		equal(t, drain(t, c, old), "A:before")
		turn := ask(t, c.Store, by(7, text(2, old, "in work")))
		check(t, c.OpenPreview(t.Context(), turn, false))
		check(t, c.Post(t.Context(), letter("q", at(old), 0, "queued")))
		accept1(t, c.Store, by(8, text(3, old, "waits")), text(4, 9, "elsewhere"))
		check(t, c.Migrate(t.Context(), old, moved))
		check(t, c.Migrate(t.Context(), old, moved)) // both service messages say so

		open := must(c.Open(t.Context()))(t)
		if len(open) != 1 || open[0].Address.Chat != moved || open[0].Preview == nil {
			t.Fatalf("open %+v", open)
		}
		equal(t, claim(t, c.Store).Address.Chat, 9)
		nothingToClaim(t, c.Store)
		end(t, c.Store, open[0], "done")
		equal(t, drain(t, c, old), "")
		equal(t, drain(t, c, moved), "queued done")
		after := claim(t, c.Store)
		equal(t, after.Session, session)
		equal(t, told(t, c.Store, session), "user: before | assistant: A:before | user: in work | assistant: done | user: waits")
		known := must(c.Known(t.Context()))(t)
		if len(known) != 1 || known[0].ID != moved || known[0].State != agent.PersonAllowed || known[0].Name != "Team" {
			t.Errorf("known %+v", known)
		}
		equal(t, count(t, c.Store, `SELECT (SELECT count(*) FROM sessions WHERE chat = ?1) + (SELECT count(*) FROM inbox WHERE chat = ?1) + (SELECT count(*) FROM outbox WHERE chat = ?1)`, old), 0)
	})
	t.Run("each topic, and what is parked", func(t *testing.T) {
		c := newStore(t)
		talk(t, c, 1, old, "general")
		topic := text(2, old, "topic")
		topic.Address.Thread = 3
		end(t, c.Store, ask(t, c.Store, topic), "T")
		send, _ := next(t, c, old)
		settled(t, c.Store, send, agent.Parked)
		check(t, c.Migrate(t.Context(), old, moved))
		equal(t, drain(t, c, moved), "A:general T")
		equal(t, count(t, c.Store, `SELECT count(*) FROM sessions WHERE current = 1 AND chat = ?`, moved), 2)
	})
	t.Run("where somebody was faster", func(t *testing.T) {
		c := newStore(t)
		talk(t, c, 1, old, "before")
		topic := text(3, old, "topic")
		topic.Address.Thread = 3
		end(t, c.Store, ask(t, c.Store, topic), "T")
		young := ask(t, c.Store, by(7, text(2, moved, "young")))
		check(t, c.SetPerson(t.Context(), old, agent.PersonAllowed, "Team"))
		check(t, c.SetPerson(t.Context(), moved, agent.PersonBlocked, "Team"))
		check(t, c.Migrate(t.Context(), old, moved))
		equal(t, list(t, c, moved), "before(1) young*(1)")
		equal(t, count(t, c.Store, `SELECT count(*) FROM sessions WHERE current = 1 AND thread = 3 AND chat = ?`, moved), 1)
		end(t, c.Store, young, "Y")
		if known := must(c.Known(t.Context()))(t); len(known) != 1 || known[0].State != agent.PersonBlocked {
			t.Errorf("known %+v", known) // what was decided about the new id holds
		}
	})
	t.Run("the part whose refusal told of it", func(t *testing.T) {
		c := newStore(t)
		check(t, c.Post(t.Context(), letter("a", at(old), 0, "same text", "second")))
		send, _ := next(t, c, old)
		check(t, c.Migrate(t.Context(), old, moved))
		settled(t, c.Store, send, agent.Retry)
		equal(t, drain(t, c, moved), "same text second")
	})
	t.Run("a refusal that comes late parks the chat where it is now", func(t *testing.T) {
		c := newStore(t)
		check(t, c.Post(t.Context(), letter("a", at(old), 0, "a1"), letter("b", at(old), 0, "b1")))
		send, _ := next(t, c, old)
		check(t, c.Migrate(t.Context(), old, moved))
		settled(t, c.Store, send, agent.Parked)
		equal(t, drain(t, c, moved), "")
		equal(t, fates(t, c, "a")+"; "+fates(t, c, "b"), "0 queued, parked; 0 queued, parked")
	})
}

// What a person erases is not in the files any more, nor in the log.
func TestErasedWordsAreGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agentd.db")
	store := must(Open(t.Context(), path, Config{}))(t)
	t.Cleanup(func() { check(t, store.Close()) })
	c := store.Channel("telegram")
	const secret = "the words that were taken back"
	session := talk(t, c, 1, 7, secret)
	send, _, err := c.Next(t.Context(), 7, time.Now())
	check(t, err)
	check(t, c.Settle(t.Context(), send, agent.Outcome{Fate: agent.Sent, Message: 2}))
	holds := func() (files int) {
		for _, p := range []string{path, path + "-wal"} {
			if bytes.Contains(must(os.ReadFile(p))(t), []byte(secret)) {
				files++
			}
		}
		return files
	}
	if holds() == 0 {
		t.Fatal("the test looks in the wrong place")
	}
	equal(t, must(c.DeleteSession(t.Context(), at(7), session))(t), true)
	equal(t, holds(), 0)
}
