package bot

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/agent"
	"agentd/internal/sqlite"
)

// nobody is a store that knows no people; nothing else of it may be used.
type nobody struct{ Store }

func (nobody) Known(context.Context) ([]agent.Known, error) { return nil, nil }

func TestRights(t *testing.T) {
	const (
		allowed, paired, byOwner, denied, blocked, revoked, stranger = 11, 12, 13, 14, 15, 16, 17
		ours, byOwnerChat, foreign                                   = -21, -22, -23
	)
	decide := map[int64]agent.PersonState{byOwner: agent.PersonAllowed, denied: agent.PersonDenied, blocked: agent.PersonBlocked, revoked: agent.PersonRevoked, byOwnerChat: agent.PersonAllowed}
	listed := Config{Allowed: []int64{ours, allowed}}
	everybody := Config{Everybody: true}
	for _, c := range []struct {
		cfg  Config
		pair bool
		id   int64
		chat int64 // 0: private
		want agent.Rights
	}{
		{listed, false, allowed, 0, agent.Owner}, // the first person of the list
		{listed, false, byOwner, 0, agent.Person},
		{listed, false, stranger, 0, agent.Stranger},
		{listed, false, stranger, ours, agent.Member},
		{listed, false, stranger, byOwnerChat, agent.Member},
		{listed, false, stranger, foreign, agent.Stranger},
		{listed, false, allowed, foreign, agent.Owner},
		{listed, false, denied, 0, agent.Stranger},
		{listed, false, denied, ours, agent.Member},
		{listed, false, blocked, ours, agent.Stranger},
		{listed, true, paired, 0, agent.Owner}, // who paired comes before the list
		{listed, true, allowed, 0, agent.Person},
		{Config{Owner: allowed}, true, paired, 0, agent.Person}, // the configured owner before both
		{Config{Owner: allowed}, true, allowed, 0, agent.Owner},
		{Config{}, false, stranger, 0, agent.Stranger},
		{everybody, false, stranger, 0, agent.Person},
		{everybody, false, stranger, foreign, agent.Person},
		{everybody, false, denied, 0, agent.Stranger},
		{everybody, false, blocked, 0, agent.Stranger},
		{everybody, false, revoked, 0, agent.Stranger},
		{everybody, true, paired, 0, agent.Owner},
		{Config{Allowed: []int64{allowed, denied, blocked, revoked}}, false, denied, 0, agent.Person}, // the configuration wins
		{Config{Allowed: []int64{allowed, denied, blocked, revoked}}, false, blocked, 0, agent.Person},
		{Config{Allowed: []int64{allowed, denied, blocked, revoked}}, false, revoked, 0, agent.Person},
		// Ids that many share (C092).
		{Config{Allowed: []int64{groupAnonymousBot}}, false, groupAnonymousBot, foreign, agent.Stranger},
		{Config{Owner: channelBot}, false, channelBot, foreign, agent.Stranger},
		{Config{Everybody: true}, false, serviceAccount, foreign, agent.Stranger},
		{Config{Allowed: []int64{ours, groupAnonymousBot}}, false, groupAnonymousBot, ours, agent.Member},
		{listed, false, 0, foreign, agent.Stranger},
		{listed, false, 0, ours, agent.Member},
		{listed, false, ours, ours, agent.Member}, // an anonymous administrator
	} {
		b := receptionist(t, c.cfg)
		for id, state := range decide {
			if err := b.store.SetPerson(t.Context(), id, state, ""); err != nil {
				t.Fatal(err)
			}
		}
		if c.pair {
			if err := b.store.SetPerson(t.Context(), paired, agent.PersonOwner, ""); err != nil {
				t.Fatal(err)
			}
		}
		mustKnow(t, b)
		chat := c.chat
		if chat == 0 {
			chat = c.id
		}
		if got := b.people.rights(c.id, chat); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestSharedSendersAreNobody(t *testing.T) { // C092, C074
	files := []string{"upd_anonymous_admin", "upd_channel_as_sender", "upd_auto_forward", "upd_no_from"}
	for _, file := range files {
		raw := batch(t, "testdata/updates/"+file+".json")[0]
		for _, cfg := range []Config{{Allowed: []int64{mira}}, {Allowed: []int64{mira, groupAnonymousBot, channelBot, serviceAccount}}, {Everybody: true}} {
			if in := receptionist(t, cfg).accept(raw, time.Now()); in.Kind != agent.KindIgnored {
				t.Errorf("%s with %v: %s", file, cfg.Allowed, in.Kind)
			}
		}
		in := receptionist(t, Config{Allowed: []int64{mira, super}}).accept(raw, time.Now())
		if in.Kind != agent.KindMessage || in.Sender.Rights != agent.Member || in.Sender.ID >= 0 || in.Sender.Name == "" {
			t.Errorf("%s in an allowed chat: %s %+v (%s)", file, in.Kind, in.Sender, in.Note)
		}
	}
}

// In a private chat, too, an id that many share is nobody, and gets no line.
func TestSharedSendersInPrivate(t *testing.T) {
	for _, cfg := range []Config{{Allowed: []int64{mira}}, {Everybody: true}, {}} {
		b := receptionist(t, cfg)
		for _, id := range []int64{groupAnonymousBot, channelBot, serviceAccount} {
			if in := b.accept(privateFrom(id, "hello"), time.Now()); in.Kind != agent.KindIgnored {
				t.Errorf("%d is %s", id, in.Kind)
			}
		}
	}
}

func TestBotsAreNotAnswered(t *testing.T) { // C110
	b := receptionist(t, Config{Allowed: []int64{super, 8, 7000000001}, Everybody: true})
	for _, id := range []int64{8, 7000000001} {
		raw := fmt.Sprintf(`{"update_id":5,"message":{"message_id":3,"date":1,"from":{"id":%d,"is_bot":true,"first_name":"Bot"},"chat":{"id":%d,"type":"supergroup"},"text":"@agent_test_bot hi","entities":[{"type":"mention","offset":0,"length":15}]}}`, id, super)
		if in := b.accept(json.RawMessage(raw), time.Now()); in.Kind != agent.KindIgnored || !strings.Contains(in.Note, "message") {
			t.Errorf("%d: %s (%s)", id, in.Kind, in.Note)
		}
	}
}

func TestWarnings(t *testing.T) {
	var log bytes.Buffer
	receptionist(t, Config{Everybody: true, Allowed: []int64{channelBot}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for _, want := range []string{"everybody", "136817688"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log.String())
		}
	}
}

func TestMigrationMovesTheAllowance(t *testing.T) { // C017
	b := receptionist(t, Config{Allowed: []int64{mira, -4001}})
	to := batch(t, "testdata/updates/upd_migrate_to.json")[0]
	if in := b.accept(to, time.Now()); in.Kind != agent.KindControl {
		t.Fatalf("%s (%s)", in.Kind, in.Note)
	}
	// At once, before the database knows.
	if got := b.people.rights(99, super); got != agent.Member {
		t.Errorf("rights in the new chat: %v", got)
	}
	if err := b.migrate(t.Context(), -4001, super, "Small group"); err != nil {
		t.Fatal(err)
	}
	if err := b.migrate(t.Context(), -4001, super, "Small group"); err != nil {
		t.Error("a second time:", err)
	}
	// And after a restart.
	next, err := New(b.cfg, b.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustKnow(t, next)
	if got := next.people.rights(99, super); got != agent.Member {
		t.Errorf("rights in the new chat after a restart: %v", got)
	}
}

func TestCodes(t *testing.T) {
	for text, want := range map[string]string{
		"ABCD-EFGH-JKMN-PQRS": "ABCDEFGHJKMNPQRS", "abcd-efgh-jkmn-pqrs": "ABCDEFGHJKMNPQRS", " ABCD–EFGH—JKMN‑PQRS ": "ABCDEFGHJKMNPQRS",
		"/start ABCD-EFGH-JKMN-PQRS": "ABCDEFGHJKMNPQRS", "ABC0EFGHJKMNPQRS": "ABC0EFGHJKMNPQRS", "ABCO-EFGH-JKMN-PQRI": "ABC0EFGHJKMNPQR1",
		"ABC2 EFGH JKMN PQRS": "ABC2EFGHJKMNPQRS",
		// Not codes, so not counted as wrong tries.
		"responsibilities": "", "what time does ship": "", "hello": "", "/start": "", "/start hi": "", "": "", "ABCD-EFGH-JKMN": "", "ABCD-EFGH-JKMN-PQRU": "",
		"1234567890123456789": "", "-": "",
	} {
		got, ok := parseCode(text)
		if got != want || ok != (want != "") {
			t.Errorf("%q is %q, %v, want %q", text, got, ok, want)
		}
	}
}

func TestStartPairing(t *testing.T) {
	b := receptionist(t, Config{Everybody: true})
	code, err := b.StartPairing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	digits, ok := parseCode(code)
	if !ok || len(code) != 19 {
		t.Fatalf("%q is no code", code)
	}
	if other, _ := b.StartPairing(t.Context()); other == code {
		t.Error("the same code twice")
	} else {
		digits, _ = parseCode(other)
	}
	// While there is no owner, a code is taken out of the questions, whoever sends it.
	if in := b.accept(private(code), time.Now()); in.Kind != agent.KindControl {
		t.Errorf("a code is %s", in.Kind)
	}
	if ok, err := b.store.Pair(t.Context(), mira, "Mira", codeHash(digits), time.Now()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := b.StartPairing(t.Context()); err != ErrOwned {
		t.Errorf("a second owner: %v", err)
	}
	if _, err := receptionist(t, Config{Allowed: []int64{mira}}).StartPairing(t.Context()); err != ErrOwned {
		t.Errorf("with a configured owner: %v", err)
	}
}

// late is a store whose first list arrives when it is old.
type late struct {
	People
	read    chan struct{} // closed when the first list was read
	release chan struct{} // lets it arrive
	second  atomic.Bool
}

func (l *late) Known(ctx context.Context) ([]agent.Known, error) {
	rows, err := l.People.Known(ctx)
	if !l.second.Swap(true) {
		close(l.read)
		<-l.release
	}
	return rows, err
}

// Two readers of the list: the one that read it earlier must not undo what the other knows.
func TestAnOldListReplacesNoNewOne(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "agentd.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	store := db.Channel(Channel)
	l := &late{People: store, read: make(chan struct{}), release: make(chan struct{})}
	a := newAccess(Config{}, l, slog.New(slog.DiscardHandler))
	var readers sync.WaitGroup
	refresh := func() {
		if err := a.refresh(t.Context()); err != nil {
			t.Error(err)
		}
	}
	readers.Go(refresh)
	<-l.read
	if err := store.SetPerson(t.Context(), 7, agent.PersonAllowed, "Ann"); err != nil {
		t.Fatal(err)
	}
	second := make(chan struct{})
	readers.Go(func() { refresh(); close(second) })
	select { // it must wait for the first one: give it time to show that it does not
	case <-second:
	case <-time.After(50 * time.Millisecond):
	}
	close(l.release)
	readers.Wait()
	if got := a.rights(7, 7); got != agent.Person {
		t.Errorf("rights %v", got)
	}
}
