package bottest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Person is somebody who talks with the bot. Its methods do what a person
// does in the app: they change the chat and give the bot its update.
//
// They panic if the chat or message they name does not exist: that is a
// mistake in the test.
type Person struct {
	apiUser
	s *Server
}

// User makes (or renames) a person, whose private chat with the bot is open.
// name is "First" or "First Last"; lang is an IETF tag or "".
func (s *Server) User(id int64, name, lang string) *Person {
	first, last, _ := strings.Cut(name, " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.addPerson(apiUser{ID: id, FirstName: first, LastName: last, LanguageCode: lang})
	s.openPrivate(p)
	return p
}

func (s *Server) addPerson(u apiUser) *Person {
	p := s.people[u.ID]
	if p == nil {
		p = &Person{s: s}
		s.people[u.ID] = p
	}
	p.apiUser = u
	return p
}

func (s *Server) openPrivate(p *Person) {
	s.addChat(apiChat{ID: p.ID, Type: "private", FirstName: p.FirstName, LastName: p.LastName, Username: p.Username})
}

// Named gives the person a user name (without "@").
func (p *Person) Named(username string) *Person {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.Username = username
	p.s.openPrivate(p)
	return p
}

// Chat is the person's private chat with the bot.
func (p *Person) Chat() Chat { return p.s.Chat(p.ID) }

// Say is a message of a person.
type Say struct {
	Chat     int64 // 0: the private chat
	Thread   int
	ReplyTo  int
	Quote    string
	Text     string         // or the caption
	Entities []Entity       // beside the commands, mentions, hashtags, links and mails that are found
	Kind     string         // of File: "photo", "document" (default), "voice", "audio", "video", "animation", "video_note", "sticker"
	File     *File          // Name, MIME, Data; Size may claim more than Data holds
	Group    string         // media_group_id
	Forward  bool           // forwarded from somebody hidden
	Fields   map[string]any // any other field of the Message, as "location"
}

// Send writes to the bot in the private chat.
func (p *Person) Send(text string) Message { return p.Say(Say{Text: text}) }

// SendTo writes to a group.
func (p *Person) SendTo(chat int64, text string) Message { return p.Say(Say{Chat: chat, Text: text}) }

// SendFile sends a document to the private chat.
func (p *Person) SendFile(name string, data []byte, caption string) Message {
	return p.Say(Say{Text: caption, File: &File{Name: name, Data: data}})
}

// Say sends a message of any kind.
func (p *Person) Say(say Say) Message {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mustChat(cmp.Or(say.Chat, p.ID))
	m := Message{Thread: say.Thread, From: p.ID, At: time.Now(), Text: say.Text, Kind: "text", Preview: true,
		ReplyTo: say.ReplyTo, Quote: say.Quote, Group: say.Group, Forwarded: say.Forward}
	m.Entities = slices.Concat(say.Entities, s.detect(say.Text))
	slices.SortStableFunc(m.Entities, byPosition)
	if say.File != nil {
		m.Kind = cmp.Or(say.Kind, "document")
		m.File = s.addFile(m.Kind, *say.File)
		m.media = s.fileJSON(m.File, mediaType(m.Kind))
	}
	for field, value := range say.Fields {
		m.Kind, m.media = field, map[string]any{"": value}
	}
	m = c.add(m, s.cfg.Keep)
	s.push(messageKind(c), s.messageJSON(c, m))
	s.notify()
	return m
}

// Edit changes the text (or caption) of one of the person's messages.
func (p *Person) Edit(m Message, text string) Message {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mustChat(m.Chat)
	m = c.mustFind(m.ID)
	m.Text, m.Entities, m.Edited, m.raw = text, s.detect(text), time.Now(), nil
	m.Edits++
	c.replace(m, "edit", s.cfg.Keep)
	s.push("edited_"+messageKind(c), s.messageJSON(c, m))
	s.notify()
	return m
}

// Press presses the button with this callback data under a message of the
// bot, and returns the callback query's id for Server.Callback.
func (p *Person) Press(m Message, data string) string {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mustChat(m.Chat)
	m = c.mustFind(m.ID)
	if !slices.ContainsFunc(m.Buttons, func(row []Button) bool {
		return slices.ContainsFunc(row, func(b Button) bool { return b.Data == data })
	}) {
		panic(fmt.Sprintf("bottest: message %d has no button %q: %v", m.ID, data, m.Buttons))
	}
	return s.press(p, c, s.messageJSON(c, m), data)
}

// PressOld sends a press of a button that is no longer there, as an old app
// may. The message is given as it was.
func (p *Person) PressOld(m Message, data string) string {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mustChat(m.Chat)
	return s.press(p, c, s.messageJSON(c, m), data)
}

func (s *Server) press(p *Person, c *chat, message any, data string) string {
	s.callback++
	id := strconv.FormatInt(s.callback, 10)
	s.callbacks[id] = &Callback{ID: id, From: p.ID, Data: data, At: time.Now(), chat: c.ID}
	s.push("callback_query", map[string]any{"id": id, "from": p.apiUser, "message": message, "chat_instance": fmt.Sprint(-c.ID), "data": data})
	s.notify()
	return id
}

// Callback is a button press and its answer.
type Callback struct {
	ID       string
	From     int64
	Data     string
	At       time.Time
	Answered bool
	Text     string // of the answer: the notice the person sees
	Alert    bool
	chat     int64
}

// Callback is the press with this id.
func (s *Server) Callback(id string) (Callback, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.callbacks[id]; c != nil {
		return *c, true
	}
	return Callback{}, false
}

// React sets the person's reactions to a message; none takes them back.
func (p *Person) React(m Message, emoji ...string) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mustChat(m.Chat)
	m = c.mustFind(m.ID)
	old := m.Reactions[p.ID]
	m.Reactions = withReactions(m.Reactions, p.ID, emoji)
	c.replace(m, "reaction", s.cfg.Keep)
	s.push("message_reaction", map[string]any{"chat": c.apiChat, "message_id": m.ID, "user": p.apiUser, "date": time.Now().Unix(),
		"old_reaction": reactionTypes(old), "new_reaction": reactionTypes(emoji)})
	s.notify()
}

func reactionTypes(emoji []string) []any {
	out := []any{}
	for _, e := range emoji {
		out = append(out, map[string]any{"type": "emoji", "emoji": e})
	}
	return out
}

// Block blocks the bot in the private chat; Unblock ends it. The bot gets
// my_chat_member, and 403 for what it sends.
func (p *Person) Block() { p.memberUpdate("member", "kicked", "bot was blocked by the user") }

// Unblock ends Block.
func (p *Person) Unblock() { p.memberUpdate("kicked", "member", "") }

func (p *Person) memberUpdate(from, to, refusal string) {
	p.Chat().Refuse(refusal)
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	c := p.s.chats[p.ID]
	c.members[p.s.bot.ID] = to
	member := func(status string) map[string]any {
		m := map[string]any{"status": status, "user": p.s.bot}
		if status == "kicked" {
			m["until_date"] = 0
		}
		return m
	}
	p.s.push("my_chat_member", map[string]any{"chat": c.apiChat, "from": p.apiUser, "date": time.Now().Unix(),
		"old_chat_member": member(from), "new_chat_member": member(to)})
	p.s.notify()
}

func (s *Server) mustChat(id int64) *chat {
	c := s.chats[id]
	if c == nil {
		panic(fmt.Sprintf("bottest: no chat %d", id))
	}
	return c
}

func (c *chat) mustFind(id int) Message {
	i, found := c.find(id)
	if !found {
		panic(fmt.Sprintf("bottest: no message %d in chat %d", id, c.ID))
	}
	return c.messages[i]
}

// What Telegram finds in a text by itself. A mention inside a mail address
// or a longer word is none.
var detectors = []struct {
	typ string
	re  *regexp.Regexp
}{
	{"url", regexp.MustCompile(`https?://[^\s<>"]+[^\s<>".,;:!?')\]]`)},
	{"email", regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+`)},
	{"bot_command", regexp.MustCompile(`/[A-Za-z0-9_]{1,64}(?:@[A-Za-z0-9_]{3,32})?`)},
	{"mention", regexp.MustCompile(`@[A-Za-z0-9_]{3,32}`)},
	{"hashtag", regexp.MustCompile(`#[\pL\pN_]+`)},
}

func (s *Server) detect(text string) []Entity {
	var out []Entity
	taken := make([]bool, len(text)+1)
	for _, d := range detectors {
		for _, at := range d.re.FindAllStringIndex(text, -1) {
			from, to := at[0], at[1]
			if slices.Contains(taken[from:to], true) || d.typ != "url" && inWord(text, from, to) {
				continue
			}
			for i := from; i < to; i++ {
				taken[i] = true
			}
			out = append(out, Entity{Type: d.typ, Offset: units(text[:from]), Length: units(text[from:to])})
		}
	}
	return out
}

// inWord reports whether a find is a piece of something longer.
func inWord(text string, from, to int) bool {
	before := from > 0 && (isAlnum(text[from-1]) || text[from-1] >= 0x80 || strings.IndexByte("_/@", text[from-1]) >= 0)
	return before || to < len(text) && text[to] == '/'
}

func messageKind(c *chat) string {
	if c.Type == "channel" {
		return "channel_post"
	}
	return "message"
}
