package bot

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/agent"
	"agentd/internal/bot/bottest"
	"agentd/internal/sqlite"
)

// stage is a bot with a real store and a server on which one turn is shown.
type stage struct {
	t      *testing.T
	srv    *bottest.Server
	store  *sqlite.Channel
	bot    *Bot
	chat   bottest.Chat
	update int64
}

// newStage is to be called in a synctest bubble. The sender runs until the test ends.
func newStage(t *testing.T, chat int64) *stage {
	srv, err := bottest.New(bottest.Config{Token: testToken})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "agentd.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, srv: srv, store: db.Channel(Channel)}
	s.bot, err = New(Config{Token: testToken, URL: "http://telegram.test", Dial: srv.Dial, Rates: Rates{All: 30, Chat: 1, Group: 20}}, s.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	if chat > 0 {
		srv.User(chat, "Ann", "en")
		s.chat = srv.Chat(chat)
	} else {
		s.chat = srv.AddChat(chat, "forum", "Team", false)
	}
	ctx, end := context.WithCancel(context.Background())
	sent := make(chan error)
	go func() { sent <- s.bot.Send(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-sent; err != nil {
			t.Error(err)
		}
		if v := srv.Violations(); len(v) > 0 {
			t.Error(v)
		}
		srv.Close()
		s.bot.api.send.CloseIdleConnections()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask stores a question that was asked some time ago and claims its turn.
func (s *stage) ask(chat, thread int64, ago time.Duration) agent.Turn {
	s.t.Helper()
	s.update++
	who := agent.Principal{ID: ann, Name: "Ann", Rights: agent.Person}
	_, err := s.store.Accept(s.t.Context(), []agent.Incoming{{
		Update: s.update, Kind: agent.KindMessage, Address: agent.Address{Channel: Channel, Chat: chat, Thread: thread},
		Sender: who, Private: chat > 0, Message: 7, At: time.Now().Add(-ago), Lang: "en", Parts: []agent.Part{{Text: "?"}},
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	turn, ok, err := s.store.Claim(s.t.Context(), time.Now(), func([]agent.Incoming) agent.Message {
		return agent.Message{Role: agent.User, Parts: []agent.Part{{Text: "?"}}}
	})
	if err != nil || !ok {
		s.t.Fatal(ok, err)
	}
	return turn
}

// finish stores the answer and waits until all is sent.
func (s *stage) finish(p *Progress, text string, faults ...*agent.Fault) {
	s.t.Helper()
	posts := p.Answer(s.t.Context(), text, faults...)
	p.Close()
	if err := s.store.Finish(s.t.Context(), p.turn, agent.Ending{State: agent.TurnDone, Posts: posts}); err != nil {
		s.t.Fatal(err)
	}
	pass(time.Minute) // the flood gate opens, retries happen
}

// pass lets virtual time go by, and what falls due in it happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// stream gives the answer word by word and returns all of it.
func stream(p *Progress, words int, pause time.Duration) string {
	var b strings.Builder
	for i := range words {
		word := fmt.Sprintf("word%d ", i)
		p.Watch(agent.Delta{Text: word})
		b.WriteString(word)
		pass(pause)
	}
	return strings.TrimSpace(b.String())
}

// calls gives the calls but for the typing.
func (s *stage) calls() []bottest.Call {
	return s.srv.Calls(func(c bottest.Call) bool { return c.Method != "sendChatAction" })
}

// shows sees that the bot's messages in the chat are these.
func (s *stage) shows(texts ...string) []bottest.Message {
	s.t.Helper()
	messages := s.chat.FromBot()
	var got []string
	for _, m := range messages {
		got = append(got, m.Text)
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", texts) {
		s.t.Fatalf("the chat shows %q, want %q; calls: %s", got, texts, s.describe())
	}
	return messages
}

func (s *stage) describe() string {
	var b strings.Builder
	for _, c := range s.srv.Calls() {
		fmt.Fprintf(&b, "\n%s %s %d %.40q %d %s", c.At.Format("05.000"), c.Method, c.Message, c.Text(), c.Code, c.Error)
	}
	return b.String()
}

// spaced sees that calls of the kind are at least so far apart.
func spaced(t *testing.T, calls []bottest.Call, least time.Duration) {
	t.Helper()
	for i := 1; i < len(calls); i++ {
		if d := calls[i].At.Sub(calls[i-1].At); d < least {
			t.Errorf("%s follows %s after %v", calls[i].Method, calls[i-1].Method, d)
		}
	}
}
