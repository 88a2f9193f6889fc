package bot

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/go-telegram/bot/models"

	"agentd/internal/agent"
)

// Ids that Telegram shares among many senders, so they say nothing about who
// writes (C092). https://core.telegram.org/bots/api#message ("sender_chat")
const (
	groupAnonymousBot = 1087968824 // an anonymous administrator
	channelBot        = 136817688  // somebody who writes as a channel
	serviceAccount    = 777000     // a channel's post forwarded to its discussion group
)

func shared(id int64) bool {
	return id == groupAnonymousBot || id == channelBot || id == serviceAccount
}

// access says who may do what: the configuration, and beyond it what the database
// holds, which is kept in memory because every update asks.
type access struct {
	allowed   []int64 // configured ids, negative ones are chats
	everybody bool
	owner     int64 // configured
	store     People
	log       *slog.Logger

	reading sync.Mutex // one at a time: a list that was read earlier must not replace a later one

	mu     sync.RWMutex
	loaded bool
	known  map[int64]agent.Known
	moved  map[int64]int64 // supergroup → the group it was
}

// newAccess warns about what the configuration opens wider than it looks.
func newAccess(cfg Config, store People, log *slog.Logger) *access {
	a := &access{
		allowed: cfg.Allowed, everybody: cfg.Everybody, owner: cfg.Owner, store: store, log: log,
		known: make(map[int64]agent.Known), moved: make(map[int64]int64),
	}
	if a.everybody {
		log.Warn("everybody on Telegram may talk to this bot: TELEGRAM_ALLOWED_USERS is *")
	}
	for _, id := range append(slices.Clone(a.allowed), a.owner) {
		if shared(id) {
			log.Warn("an id that Telegram shares among many senders allows nobody", "id", id)
		}
	}
	return a
}

// refresh reads the database's part anew.
func (a *access) refresh(ctx context.Context) error {
	a.reading.Lock()
	defer a.reading.Unlock()
	rows, err := a.store.Known(ctx)
	if err != nil {
		return err
	}
	known := make(map[int64]agent.Known, len(rows))
	for _, k := range rows {
		known[k.ID] = k
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known, a.loaded = known, true
	return nil
}

// ensure reads the database's part if that was not done yet. Until it was read,
// nobody is to be judged: it lets people in, and with "everybody" it keeps some out.
func (a *access) ensure(ctx context.Context) error {
	a.mu.RLock()
	loaded := a.loaded
	a.mu.RUnlock()
	if loaded {
		return nil
	}
	if err := a.refresh(ctx); err != nil {
		return fmt.Errorf("who is allowed: %w", err)
	}
	return nil
}

// set stores a decision about somebody and makes it count at once.
func (a *access) set(ctx context.Context, id int64, state agent.PersonState, name string) error {
	if err := a.store.SetPerson(ctx, id, state, name); err != nil {
		return err
	}
	return a.refresh(ctx)
}

// move lets a supergroup inherit what the group was allowed, at once; the
// database follows with the control row.
func (a *access) move(from, to int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.moved[to] = from
}

// ownerID gives who gets alarms and decides: configured, else paired, else the
// first person of the list; 0 nobody. It is their private chat's id as well.
func (a *access) ownerID() int64 {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.ownerLocked()
}

func (a *access) ownerLocked() int64 {
	if a.owner > 0 && !shared(a.owner) {
		return a.owner
	}
	for id, k := range a.known {
		if k.State == agent.PersonOwner {
			return id
		}
	}
	for _, id := range a.allowed {
		if id > 0 && !shared(id) {
			return id
		}
	}
	return 0
}

// configured says that the configuration allows the person or chat, which
// nothing in the database takes back.
func (a *access) configured(id int64) bool {
	return slices.Contains(a.allowed, id) || id == a.owner && id != 0
}

// rights judges somebody in a chat. Blocked, denied and revoked win over
// "everybody", never over the configuration.
func (a *access) rights(id, chat int64) agent.Rights {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if id > 0 && !shared(id) {
		state := a.known[id].State
		switch {
		case id == a.ownerLocked():
			return agent.Owner
		case a.configured(id), state == agent.PersonAllowed, state == agent.PersonOwner:
			return agent.Person
		case state == agent.PersonBlocked:
			return agent.Stranger
		case a.everybody && state != agent.PersonDenied && state != agent.PersonRevoked:
			return agent.Person
		}
	}
	if chat < 0 && (a.chatLocked(chat) || a.chatLocked(a.moved[chat])) {
		return agent.Member
	}
	return agent.Stranger
}

func (a *access) chatLocked(chat int64) bool {
	return chat < 0 && (slices.Contains(a.allowed, chat) || a.known[chat].State == agent.PersonAllowed)
}

func (a *access) chatAllowed(chat int64) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.chatLocked(chat)
}

func (a *access) state(id int64) agent.PersonState { return a.person(id).State }

func (a *access) person(id int64) agent.Known {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.known[id]
}

// decided gives everybody about whom something was decided, the oldest decision first.
func (a *access) decided() []agent.Known {
	a.mu.RLock()
	defer a.mu.RUnlock()
	out := make([]agent.Known, 0, len(a.known))
	for _, k := range a.known {
		out = append(out, k)
	}
	slices.SortFunc(out, func(x, y agent.Known) int {
		if c := x.Since.Compare(y.Since); c != 0 {
			return c
		}
		return int(max(-1, min(1, x.ID-y.ID)))
	})
	return out
}

// sender gives the principal of a message. Behind a shared id, and without
// "from", stands a chat: it has no person's rights.
func (a *access) sender(m *models.Message) agent.Principal {
	p := agent.Principal{}
	if m.From != nil {
		p.ID, p.Name = m.From.ID, userName(m.From)
	}
	if m.From == nil || shared(m.From.ID) || m.SenderChat != nil && m.SenderChat.ID != m.From.ID {
		if m.SenderChat != nil {
			p.ID, p.Name = m.SenderChat.ID, chatName(m.SenderChat)
		}
		if p.ID > 0 { // never a person's id
			p.ID = 0
		}
	}
	p.Rights = a.rights(p.ID, m.Chat.ID)
	return p
}

func userName(u *models.User) string {
	if name := cleanName(u.FirstName + " " + u.LastName); name != "" {
		return name
	}
	return cleanName(u.Username)
}

func chatName(c *models.Chat) string {
	if name := cleanName(c.Title); name != "" {
		return name
	}
	return cleanName(c.FirstName + " " + c.LastName)
}

const nameRunes = 64

// cleanName makes a stranger's name fit for one line: no control characters, no
// invisible ones and none that turn the writing direction around.
func cleanName(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		case r == 0x115F, r == 0x1160, r == 0x2800, r == 0x3164, r == 0xFFA0: // letters that show nothing
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > nameRunes {
		s = string(runes[:nameRunes-1]) + "…"
	}
	return s
}
