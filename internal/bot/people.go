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

// greet answers a stranger in a private chat, rarely, and asks the owner about them.
func (c *controls) greet(ctx context.Context, in agent.Incoming) (reply, error) {
	line, card, err := c.store.Greet(ctx, in.Sender.ID, in.Sender.Name, time.Now())
	if err != nil {
		return reply{}, err
	}
	var out reply
	owner := c.ownerID()
	id := strconv.FormatInt(in.Sender.ID, 10)
	if line {
		key := "stranger"
		if card && owner != 0 {
			key = "stranger.asked"
		}
		out = c.answer(in, key, "id", id)
	}
	if card {
		if err := c.people.refresh(ctx); err != nil {
			return reply{}, err
		}
		if owner != 0 {
			out.posts = append(out.posts, c.card(ctx, in, owner, id))
		}
	}
	return out, nil
}

func (c *controls) card(ctx context.Context, in agent.Incoming, owner int64, id string) agent.Post {
	lang := c.ownerLang(ctx)
	keyboard := &models.InlineKeyboardMarkup{InlineKeyboard: [][]models.InlineKeyboardButton{{
		{Text: c.say.plain(lang, "button.allow"), CallbackData: "person:allow:" + id},
		{Text: c.say.plain(lang, "button.deny"), CallbackData: "person:deny:" + id},
		{Text: c.say.plain(lang, "button.block"), CallbackData: "person:block:" + id},
	}}}
	text := c.say.say(lang, "stranger.card", "name", c.name(lang, in.Sender.Name), "id", id)
	return c.letter(fmt.Sprintf("card:%d", in.Update), agent.Address{Channel: Channel, Chat: owner}, lang, text, withKeyboard(keyboard))
}

func (c *controls) name(lang, name string) string {
	return orElse(name, c.say.plain(lang, "users.unnamed"))
}

// decide stores the owner's decision about somebody. The second press of a button
// changes nothing and says so.
func (c *controls) decide(ctx context.Context, in agent.Incoming, action, arg string) (reply, error) {
	id, err := strconv.ParseInt(arg, 10, 64)
	states := map[string]agent.PersonState{
		"allow": agent.PersonAllowed, "deny": agent.PersonDenied, "block": agent.PersonBlocked, "revoke": agent.PersonRevoked,
	}
	state, ok := states[action]
	if err != nil || !ok || id == 0 || shared(id) || id == c.ownerID() {
		return c.old(in), nil
	}
	who := c.people.person(id)
	args := []string{"name", c.name(in.Lang, who.Name), "id", arg}
	if c.people.configured(id) {
		return reply{posts: []agent.Post{c.text(in, c.say.say(in.Lang, "person.configured", args...), nil)}}, nil
	}
	if who.State == state {
		return reply{notice: c.say.plain(in.Lang, "notice.old")}, nil
	}
	if err := c.people.set(ctx, id, state, who.Name); err != nil {
		return reply{}, err
	}
	sentences := map[agent.PersonState]string{
		agent.PersonAllowed: "person.allowed", agent.PersonDenied: "person.denied",
		agent.PersonBlocked: "person.blocked", agent.PersonRevoked: "person.revoked",
	}
	out := reply{
		posts:  []agent.Post{c.edit(in, c.say.say(in.Lang, sentences[state], args...), nil)},
		notice: c.say.plain(in.Lang, "notice.done"),
	}
	if state == agent.PersonAllowed && id > 0 {
		// Their language is not known here: what they wrote may be gone already.
		to := agent.Address{Channel: Channel, Chat: id}
		out.posts = append(out.posts, c.letter(fmt.Sprintf("welcome:%d", in.Update), to, in.Lang, c.say.say(in.Lang, "person.welcome")))
	}
	return out, nil
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
	for _, k := range c.people.people() {
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
