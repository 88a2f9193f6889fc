package bottest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Message is one message as a person sees it. It is a copy; the server never
// changes a Message, it replaces it.
type Message struct {
	Chat      int64
	ID        int
	Thread    int   // topic, 0 for none
	From      int64 // sender: the bot's or a person's id, 0 if unknown
	FromBot   bool  // sent by the bot under test
	At        time.Time
	Edited    time.Time // zero if never
	Edits     int
	Text      string // or the caption
	Entities  []Entity
	Kind      string // "text", or the media: "photo", "document", "location" …
	File      *File  // the media's file, if it has one
	Buttons   [][]Button
	Silent    bool // sent with disable_notification
	ReplyTo   int
	Quote     string
	Forwarded bool
	Preview   bool               // a link preview may be shown
	Group     string             // media_group_id
	Reactions map[int64][]string // by who reacted

	markup json.RawMessage // reply_markup as sent
	media  map[string]any  // the media as the API tells it
	raw    json.RawMessage // an injected message as it came
}

// Button is one button under a message.
type Button struct {
	Text string `json:"text"`
	Data string `json:"callback_data,omitempty"`
	URL  string `json:"url,omitempty"`
}

// Draft is a text shown while it is written (sendMessageDraft); Telegram
// drops it after 30 s or when a message follows.
type Draft struct {
	ID       int64     `json:"id"`
	Thread   int       `json:"thread"`
	Text     string    `json:"text"`
	Entities []Entity  `json:"entities"`
	At       time.Time `json:"-"`
}

// Event is one thing that happened in a chat.
type Event struct {
	At      time.Time
	Kind    string  // "message", "edit", "delete", "draft", "action", "reaction", "notice"
	Message Message // as it was then; for the last of "delete"
	Draft   Draft
	Text    string // the action, or the text of an answered button press
}

const draftLife, actionLife = 30 * time.Second, 5 * time.Second

// chat is the server's side of a conversation; Server.mu guards it.
type chat struct {
	apiChat
	refusal  *apiError // why the bot may not write here: blocked, kicked …
	migrated int64
	lastID   int
	messages []Message // by id
	history  []Event
	topics   map[int]*topic
	members  map[int64]string // status by user
	drafts   []Draft
	action   string
	actionAt time.Time
	thread   int // of the action
}

type topic struct {
	name   string
	closed bool
}

func (c *chat) private() bool { return c.Type == "private" }

func (c *chat) find(id int) (int, bool) {
	return slices.BinarySearchFunc(c.messages, id, func(m Message, id int) int { return m.ID - id })
}

// add stores a message, giving it the next id unless it has one.
func (c *chat) add(m Message, keep int) Message {
	if m.ID == 0 {
		m.ID = c.lastID + 1
	}
	c.lastID = max(c.lastID, m.ID)
	m.Chat = c.ID
	i, found := c.find(m.ID)
	if found {
		c.messages[i] = m
	} else {
		c.messages = slices.Insert(c.messages, i, m)
	}
	if m.FromBot {
		c.action = ""
		c.drafts = slices.DeleteFunc(c.drafts, func(d Draft) bool { return d.Thread == m.Thread })
	}
	c.record(Event{At: m.At, Kind: "message", Message: m}, keep)
	return m
}

func (c *chat) replace(m Message, kind string, keep int) {
	if i, found := c.find(m.ID); found {
		c.messages[i] = m
		c.record(Event{At: time.Now(), Kind: kind, Message: m}, keep)
	}
}

func (c *chat) remove(i, keep int) {
	m := c.messages[i]
	c.messages = slices.Delete(c.messages, i, i+1)
	c.record(Event{At: time.Now(), Kind: "delete", Message: m}, keep)
}

func (c *chat) record(e Event, keep int) {
	c.history = trimmed(append(c.history, e), keep)
}

// trimmed drops the oldest of a log once it is twice too long, so that
// dropping costs little.
func trimmed[T any](log []T, keep int) []T {
	if keep > 0 && len(log) >= 2*keep {
		return slices.Delete(log, 0, len(log)-keep)
	}
	return log
}

// newest is a copy of what is kept of a log.
func newest[T any](log []T, keep int) []T {
	if keep > 0 {
		log = log[max(0, len(log)-keep):]
	}
	return slices.Clone(log)
}

// Chat is a view on one chat. Its methods read the state of the moment.
type Chat struct {
	s  *Server
	id int64
}

// Chat is the view on the chat with this id, which may not exist (yet).
func (s *Server) Chat(id int64) Chat { return Chat{s: s, id: id} }

// read calls f with the chat under the lock, if there is one.
func (v Chat) read(f func(*chat)) {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if c := v.s.chats[v.id]; c != nil {
		f(c)
	}
}

// Messages are the messages a person sees now, oldest first.
func (v Chat) Messages() (out []Message) {
	v.read(func(c *chat) { out = slices.Clone(c.messages) })
	return out
}

// FromBot are the messages of the bot that a person sees now.
func (v Chat) FromBot() []Message {
	return slices.DeleteFunc(v.Messages(), func(m Message) bool { return !m.FromBot })
}

// Message is one message, if it is (still) there.
func (v Chat) Message(id int) (m Message, found bool) {
	v.read(func(c *chat) {
		var i int
		if i, found = c.find(id); found {
			m = c.messages[i]
		}
	})
	return m, found
}

// Last is the newest message; ok is false in an empty chat.
func (v Chat) Last() (m Message, ok bool) {
	v.read(func(c *chat) {
		if n := len(c.messages); n > 0 {
			m, ok = c.messages[n-1], true
		}
	})
	return m, ok
}

// History is everything that happened, each message in every state it had.
func (v Chat) History() (out []Event) {
	v.read(func(c *chat) { out = newest(c.history, v.s.cfg.Keep) })
	return out
}

// Drafts are the drafts shown now.
func (v Chat) Drafts() (out []Draft) {
	v.read(func(c *chat) {
		for _, d := range c.drafts {
			if time.Since(d.At) < draftLife {
				out = append(out, d)
			}
		}
	})
	return out
}

// Action is what the bot is shown to be doing now, as "typing"; else "".
func (v Chat) Action() (action string) {
	v.read(func(c *chat) {
		if time.Since(c.actionAt) < actionLife {
			action = c.action
		}
	})
	return action
}

// Refuse makes every call to the chat fail with 403 and this text, as
// "bot was blocked by the user"; "" ends it. The bot gets no update: use
// Person.Block for the whole event.
func (v Chat) Refuse(text string) {
	v.read(func(c *chat) {
		c.refusal = nil
		if text != "" {
			c.refusal = &apiError{Code: 403, Description: "Forbidden: " + text}
		}
		v.s.notify()
	})
}

// DeleteTopic removes a topic, so that sends to it are refused.
func (v Chat) DeleteTopic(thread int) {
	v.read(func(c *chat) { delete(c.topics, thread); v.s.notify() })
}

// Delete removes a message as a person would.
func (v Chat) Delete(id int) {
	v.read(func(c *chat) {
		if i, found := c.find(id); found {
			c.remove(i, v.s.cfg.Keep)
			v.s.notify()
		}
	})
}

// AddChat makes a group, supergroup, forum or channel that the bot is in;
// kind is "group", "supergroup", "forum" or "channel". With admin the bot is
// an administrator.
func (s *Server) AddChat(id int64, kind, title string, admin bool) Chat {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.addChat(apiChat{ID: id, Type: kind, Title: title})
	if kind == "forum" {
		c.Type, c.IsForum = "supergroup", true
		c.lastID = max(c.lastID, 1) // General
	}
	if c.members[s.bot.ID] = "member"; admin {
		c.members[s.bot.ID] = "administrator"
	}
	return Chat{s: s, id: id}
}

// AddTopic makes a forum topic and returns its message_thread_id.
func (v Chat) AddTopic(name string) (thread int) {
	v.read(func(c *chat) { thread = v.s.addTopic(c, 0, name) })
	return thread
}

func (s *Server) addTopic(c *chat, from int64, name string) int {
	m := c.add(Message{From: from, FromBot: from == s.bot.ID, At: time.Now(), Kind: "forum_topic_created",
		media: map[string]any{"name": name, "icon_color": 7322096}}, s.cfg.Keep)
	m.Thread = m.ID
	c.replace(m, "edit", s.cfg.Keep)
	c.topics[m.ID] = &topic{name: name}
	return m.ID
}

// Migrate turns a group into the supergroup with the new id: calls to the old
// one are refused with migrate_to_chat_id, and the bot gets both service
// messages.
func (v Chat) Migrate(to int64) Chat {
	v.read(func(c *chat) {
		next := v.s.addChat(apiChat{ID: to, Type: "supergroup", Title: c.Title})
		next.members = c.members
		c.migrated = to
		v.s.service(c, "migrate_to_chat_id", to)
		v.s.service(next, "migrate_from_chat_id", c.ID)
		v.s.notify()
	})
	return Chat{s: v.s, id: to}
}

// service adds a service message with one field and tells the bot.
func (s *Server) service(c *chat, field string, value any) {
	m := c.add(Message{At: time.Now(), Kind: field, media: map[string]any{"": value}}, s.cfg.Keep)
	s.push("message", s.messageJSON(c, m))
}

// addChat makes the chat, or updates the names of the one there is.
func (s *Server) addChat(info apiChat) *chat {
	c := s.chats[info.ID]
	if c == nil {
		c = &chat{topics: map[int]*topic{}, members: map[int64]string{s.bot.ID: "member"}}
		s.chats[info.ID] = c
	}
	c.apiChat = info
	return c
}

// resolve finds the chat of chat_id and refuses what may not be written to.
func (s *Server) resolve(a args, field string) (*chat, error) {
	id := a.int(field)
	if name, isName := strings.CutPrefix(a.str(field), "@"); isName {
		for _, c := range s.chats {
			if !c.private() && strings.EqualFold(c.Username, name) {
				id = c.ID
			}
		}
	}
	c := s.chats[id]
	switch {
	case c == nil:
		return nil, badRequest("chat not found")
	case c.migrated != 0:
		return nil, migrated(c.migrated)
	case c.refusal != nil:
		return nil, c.refusal
	}
	return c, nil
}

func migrated(to int64) *apiError {
	return &apiError{Code: 400, Description: "Bad Request: group chat was upgraded to a supergroup chat", Parameters: map[string]any{"migrate_to_chat_id": to}}
}

func tooMany(seconds int) *apiError {
	return &apiError{Code: 429, Description: fmt.Sprintf("Too Many Requests: retry after %d", seconds), Parameters: map[string]any{"retry_after": seconds}}
}
