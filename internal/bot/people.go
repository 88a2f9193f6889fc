package bot

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"

	"agentd/internal/agent"
)

const (
	usersShown   = 40 // with a button each
	wrongReplies = 5  // to wrong codes, in pairingLife
)

// greet answers a stranger in a private chat, rarely, and asks the owner about
// them. The time is the message's own, so that a second run after a crash finds
// what the first one decided.
func (c *controls) greet(ctx context.Context, in agent.Incoming) (reply, error) {
	line, card, err := c.store.Greet(ctx, in.Sender.ID, in.Sender.Name, in.At)
	if err != nil {
		return reply{}, err
	}
	if err := c.people.refresh(ctx); err != nil {
		return reply{}, err
	}
	if who := c.people.person(in.Sender.ID); !line && !card && who.State == agent.PersonAsked && who.Since.Equal(in.At) {
		line, card = true, true // a first run stored this, and died before its posts were
	}
	owner := c.ownerID()
	card = card && owner != 0
	id := strconv.FormatInt(in.Sender.ID, 10)
	var out reply
	if line {
		text := c.say.say(in.Lang, "stranger", "id", id)
		if card {
			text = c.say.say(in.Lang, "stranger.asked", "id", id)
		}
		out.posts = append(out.posts, c.letter(greetKey("greet", in), in.Address, in.Lang, text))
	}
	if card {
		out.posts = append(out.posts, c.card(ctx, in, owner, id))
		if err := c.store.SetSetting(ctx, guestLang(in.Sender.ID), in.Lang); err != nil {
			return reply{}, err
		}
	}
	return out, nil
}

// greetKey is the same for whatever a stranger sends in one moment.
func greetKey(kind string, in agent.Incoming) string {
	return fmt.Sprintf("%s:%d:%d", kind, in.Sender.ID, in.At.UnixMilli())
}

// guestLang is the setting with the language of somebody who waits for a
// decision, so that they are told of it in theirs.
func guestLang(id int64) string { return fmt.Sprint("guest_lang:", id) }

func (c *controls) card(ctx context.Context, in agent.Incoming, owner int64, id string) agent.Post {
	lang := c.ownerLang(ctx)
	keyboard := &models.InlineKeyboardMarkup{InlineKeyboard: [][]models.InlineKeyboardButton{{
		{Text: c.say.plain(lang, "button.allow"), CallbackData: "person:allow:" + id},
		{Text: c.say.plain(lang, "button.deny"), CallbackData: "person:deny:" + id},
		{Text: c.say.plain(lang, "button.block"), CallbackData: "person:block:" + id},
	}}}
	text := c.say.say(lang, "stranger.card", "name", c.name(lang, in.Sender.Name), "id", id)
	return c.letter(greetKey("card", in), agent.Address{Channel: Channel, Chat: owner}, lang, text, withKeyboard(keyboard))
}

func (c *controls) name(lang, name string) string {
	return orElse(name, c.say.plain(lang, "users.unnamed"))
}

// decide stores the owner's decision about somebody. A second press, or a second
// run after a crash, finds it taken and says the same again; the posts' keys keep
// them from being sent twice.
func (c *controls) decide(ctx context.Context, in agent.Incoming, action, arg string) (reply, error) {
	id, err := strconv.ParseInt(arg, 10, 64)
	state, sentence := decision(action)
	if err != nil || state == "" || id == 0 || shared(id) || id == c.ownerID() {
		return c.old(in), nil
	}
	who := c.people.person(id)
	args := []string{"name", c.name(in.Lang, who.Name), "id", arg}
	if c.people.configured(id) {
		return reply{posts: []agent.Post{c.text(in, c.say.say(in.Lang, "person.configured", args...), nil)}}, nil
	}
	if who.State != state {
		if err := c.people.set(ctx, id, state, who.Name); err != nil {
			return reply{}, err
		}
		who = c.people.person(id)
	}
	out := reply{
		posts:  []agent.Post{c.edit(in, c.say.say(in.Lang, sentence, args...), nil)},
		notice: c.say.plain(in.Lang, "notice.done"),
	}
	if state == agent.PersonAllowed && id > 0 {
		lang, err := c.store.Setting(ctx, guestLang(id))
		if err != nil {
			return reply{}, err
		}
		to := agent.Address{Channel: Channel, Chat: id}
		key := fmt.Sprintf("welcome:%d:%d", id, who.Since.UnixMilli()) // once for each time they are let in
		out.posts = append(out.posts, c.letter(key, to, lang, c.say.say(lang, "person.welcome")))
	}
	return out, nil
}

// decision gives what a button means, and the sentence that says it was done.
func decision(action string) (state agent.PersonState, sentence string) {
	switch action {
	case "allow":
		return agent.PersonAllowed, "person.allowed"
	case "deny":
		return agent.PersonDenied, "person.denied"
	case "block":
		return agent.PersonBlocked, "person.blocked"
	case "revoke":
		return agent.PersonRevoked, "person.revoked"
	}
	return "", ""
}

// users lists for the owner who may talk to us, with a button to change it.
func (c *controls) users(in agent.Incoming) reply {
	if in.Sender.Rights != agent.Owner {
		return c.ownersOnly(in)
	}
	lang, owner := in.Lang, c.ownerID()
	lines := []string{c.say.say(lang, "users"), ""}
	if c.people.everybody {
		lines = []string{c.say.say(lang, "users.everybody"), ""}
	}
	list := func(id int64, name, key string) {
		lines = append(lines, "- "+c.say.say(lang, "users.line", "name", c.name(lang, name), "id", strconv.FormatInt(id, 10), "state", c.say.plain(lang, key)))
	}
	list(owner, orElse(c.people.person(owner).Name, in.Sender.Name), "users.owner")
	for _, id := range c.people.allowed {
		if id != owner && !shared(id) {
			list(id, c.people.person(id).Name, "users.configured")
		}
	}
	keyboard := &models.InlineKeyboardMarkup{}
	for _, k := range c.people.decided() {
		if k.ID == owner || c.people.configured(k.ID) || len(keyboard.InlineKeyboard) == usersShown {
			continue
		}
		id, name := strconv.FormatInt(k.ID, 10), shorten(c.name(lang, k.Name), 30)
		button := models.InlineKeyboardButton{Text: c.say.plain(lang, "button.allow.name", "name", name), CallbackData: "person:allow:" + id}
		if k.State == agent.PersonAllowed || k.State == agent.PersonOwner {
			button = models.InlineKeyboardButton{Text: c.say.plain(lang, "button.revoke", "name", name), CallbackData: "person:revoke:" + id}
		}
		list(k.ID, k.Name, userState(k.State))
		keyboard.InlineKeyboard = append(keyboard.InlineKeyboard, []models.InlineKeyboardButton{button})
	}
	if len(keyboard.InlineKeyboard) == 0 {
		keyboard = nil
	}
	return reply{posts: []agent.Post{c.text(in, strings.Join(lines, "\n"), keyboard)}}
}

// userState names the sentence for a state.
func userState(s agent.PersonState) string {
	switch s {
	case agent.PersonAsked:
		return "users.asked"
	case agent.PersonDenied:
		return "users.denied"
	case agent.PersonBlocked:
		return "users.blocked"
	case agent.PersonRevoked:
		return "users.revoked"
	}
	return "users.allowed"
}

// ownersOnly refuses what only the owner may do; when there is none, it says how
// to become it.
func (c *controls) ownersOnly(in agent.Incoming) reply {
	if c.ownerID() == 0 {
		return c.answer(in, "nobody_owner")
	}
	return c.answer(in, "owner_only")
}

// pair makes the sender of the right code the owner. Wrong codes get a few
// answers in ten minutes, whoever sends them: guessing must not be fun.
func (c *controls) pair(ctx context.Context, in agent.Incoming, code string) (reply, error) {
	now := time.Now()
	ok, err := c.store.Pair(ctx, in.Sender.ID, in.Sender.Name, codeHash(code), now)
	if err != nil {
		return reply{}, err
	}
	if ok {
		if err := c.people.refresh(ctx); err != nil {
			return reply{}, err
		}
		c.log.Info("paired: there is an owner now", "id", in.Sender.ID)
		return c.answer(in, "pair.done", "name", in.Sender.Name), nil
	}
	if c.people.state(in.Sender.ID) == agent.PersonOwner { // the row was handled before a crash
		return c.answer(in, "pair.done", "name", in.Sender.Name), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.wrong) > 0 && now.Sub(c.wrong[0]) > pairingLife {
		c.wrong = c.wrong[1:]
	}
	if len(c.wrong) >= wrongReplies {
		return reply{}, nil
	}
	c.wrong = append(c.wrong, now)
	return c.answer(in, "pair.wrong"), nil
}
