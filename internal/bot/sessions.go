package bot

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"

	"agentd/internal/agent"
)

// sessionsShown bounds the list: one row of buttons each.
const sessionsShown = 10

func (c *controls) sessions(ctx context.Context, in agent.Incoming) (reply, error) {
	list, keyboard, err := c.sessionList(ctx, in)
	if err != nil {
		return reply{}, err
	}
	return reply{posts: []agent.Post{c.text(in, list, keyboard)}}, nil
}

func (c *controls) sessionList(ctx context.Context, in agent.Incoming) (string, *models.InlineKeyboardMarkup, error) {
	found, err := c.store.Sessions(ctx, in.Address, sessionsShown)
	if err != nil {
		return "", nil, err
	}
	if len(found) == 0 {
		return c.say.say(in.Lang, "sessions.none"), nil, nil
	}
	lines := []string{c.say.say(in.Lang, "sessions"), ""}
	keyboard := &models.InlineKeyboardMarkup{}
	for i, s := range found {
		number, id := strconv.Itoa(i+1), strconv.FormatInt(s.ID, 10)
		args := []string{"number", number, "title", s.Title, "when", c.say.age(in.Lang, time.Since(s.Used))}
		line := c.say.say(in.Lang, "sessions.line", args...)
		if s.Current {
			line = c.say.say(in.Lang, "sessions.line.current", args...)
		}
		lines = append(lines, line)
		keyboard.InlineKeyboard = append(keyboard.InlineKeyboard, []models.InlineKeyboardButton{
			{Text: number + " · " + shorten(s.Title, 30), CallbackData: "session:open:" + id},
			{Text: "🗑", CallbackData: "session:delete:" + id},
		})
	}
	return strings.Join(lines, "\n"), keyboard, nil
}

// pressSession answers a button of the list: open, delete (asks), erase (does), keep.
func (c *controls) pressSession(ctx context.Context, in agent.Incoming, action, arg string) (reply, error) {
	if action == "keep" {
		list, keyboard, err := c.sessionList(ctx, in)
		return reply{posts: []agent.Post{c.edit(in, list, keyboard)}, notice: c.say.plain(in.Lang, "sessions.kept")}, err
	}
	id, err := strconv.ParseInt(arg, 10, 64)
	if err != nil {
		return c.old(in), nil
	}
	if action != "open" && in.Sender.Rights < agent.Person {
		return reply{notice: c.say.plain(in.Lang, "sessions.rights")}, nil
	}
	title, found, err := c.sessionTitle(ctx, in.Address, id)
	if err != nil {
		return reply{}, err
	}
	switch {
	case action == "open":
		return c.openSession(ctx, in, id, title)
	case action == "delete" && found:
		keyboard := &models.InlineKeyboardMarkup{InlineKeyboard: [][]models.InlineKeyboardButton{{
			{Text: c.say.plain(in.Lang, "button.delete.yes"), CallbackData: "session:erase:" + arg},
			{Text: c.say.plain(in.Lang, "button.delete.no"), CallbackData: "session:keep"},
		}}}
		return reply{posts: []agent.Post{c.edit(in, c.say.say(in.Lang, "sessions.confirm", "title", title), keyboard)}}, nil
	case action == "delete":
		return reply{notice: c.say.plain(in.Lang, "sessions.gone")}, nil
	case action == "erase":
		return c.eraseSession(ctx, in, id)
	}
	return c.old(in), nil
}

func (c *controls) openSession(ctx context.Context, in agent.Incoming, id int64, title string) (reply, error) {
	switch err := c.idle(ctx, in); {
	case errors.Is(err, agent.ErrNotYours):
		return reply{notice: c.say.plain(in.Lang, "stop.other")}, nil
	case err != nil:
		return reply{}, err
	}
	ok, err := c.store.SwitchSession(ctx, in.Address, id)
	if err != nil || !ok {
		return reply{notice: c.say.plain(in.Lang, "sessions.gone")}, err
	}
	return reply{posts: []agent.Post{c.edit(in, c.say.say(in.Lang, "sessions.opened", "title", title), nil)}}, nil
}

func (c *controls) eraseSession(ctx context.Context, in agent.Incoming, id int64) (reply, error) {
	ok, err := c.store.DeleteSession(ctx, in.Address, id)
	if err != nil {
		return reply{}, err
	}
	list, keyboard, err := c.sessionList(ctx, in)
	if err != nil {
		return reply{}, err
	}
	notice := c.say.plain(in.Lang, "sessions.deleted")
	if !ok {
		notice = c.say.plain(in.Lang, "sessions.busy")
	}
	return reply{posts: []agent.Post{c.edit(in, list, keyboard)}, notice: notice}, nil
}

func (c *controls) sessionTitle(ctx context.Context, at agent.Address, id int64) (title string, found bool, err error) {
	all, err := c.store.Sessions(ctx, at, 1000)
	for _, s := range all {
		if s.ID == id {
			return s.Title, true, err
		}
	}
	return "", false, err
}
