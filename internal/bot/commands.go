package bot

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentd/internal/agent"
)

// menu is what Telegram's apps list, in this order. All else is under /help.
func menu() []string {
	return []string{"new", "stop", "retry", "sessions", "status", "model", "users", "id", "help", "start"}
}

// announce tells Telegram the menu in each language. Nothing depends on it, so
// it is tried a few times and then left.
func (c *controls) announce(ctx context.Context) {
	type entry struct {
		Command     string `json:"command"`
		Description string `json:"description"`
	}
	pause := backoff{first: 2 * time.Second, most: 5 * time.Minute}
	for lang := range c.say.languages {
		var entries []entry
		for _, name := range menu() {
			entries = append(entries, entry{name, c.say.plain(lang, "command."+name)})
		}
		params := struct {
			Commands []entry `json:"commands"`
			Lang     string  `json:"language_code,omitempty"`
		}{entries, lang}
		if lang == fallbackLanguage {
			params.Lang = "" // for all others, too
		}
		for range 8 {
			err := c.api.call(ctx, "setMyCommands", params, nil)
			if err == nil {
				break
			}
			c.log.Debug("the menu of commands was not set", "lang", lang, "err", err)
			if refused := (*APIError)(nil); errors.As(err, &refused) && refused.RetryAfter == 0 || !sleep(ctx, pause.next()) {
				break
			}
		}
	}
}

// command answers a command of somebody who may talk to us.
func (c *controls) command(ctx context.Context, in agent.Incoming, cmd command) (reply, error) {
	if !c.identity().named(cmd.bot) {
		return reply{}, nil
	}
	switch cmd.name {
	case "start":
		return c.start(in), nil
	case "help":
		return c.help(in), nil
	case "new":
		return c.fresh(ctx, in)
	case "sessions":
		return c.sessions(ctx, in)
	case "stop", "cancel":
		return c.stop(ctx, in)
	case "retry":
		return c.retry(ctx, in)
	case "status":
		return c.status(ctx, in)
	case "id":
		return c.id(in), nil
	case "users":
		return c.users(in), nil
	case "model":
		return c.chooseModel(ctx, in)
	}
	return c.answer(in, "unknown", "command", cmd.name), nil
}

// answer is a reply of one sentence.
func (c *controls) answer(in agent.Incoming, key string, args ...string) reply {
	return reply{posts: []agent.Post{c.text(in, c.say.say(in.Lang, key, args...), nil)}}
}

func (c *controls) start(in agent.Incoming) reply {
	if !in.Private {
		return c.answer(in, "start.group")
	}
	return c.answer(in, "start", "name", in.Sender.Name)
}

func (c *controls) help(in agent.Incoming) reply {
	lines := []string{c.say.say(in.Lang, "help"), ""}
	for _, name := range menu() {
		lines = append(lines, "- "+c.say.say(in.Lang, "help.line", "command", name, "what", c.say.plain(in.Lang, "command."+name)))
	}
	lines = append(lines, "", c.say.say(in.Lang, "help.stop"))
	return reply{posts: []agent.Post{c.text(in, strings.Join(lines, "\n"), nil)}}
}

func (c *controls) id(in agent.Incoming) reply {
	user, chat := strconv.FormatInt(in.Sender.ID, 10), strconv.FormatInt(in.Address.Chat, 10)
	switch {
	case in.Private:
		return c.answer(in, "id.private", "user", user)
	case in.Address.Thread != 0:
		return c.answer(in, "id.thread", "user", user, "chat", chat, "thread", strconv.FormatInt(in.Address.Thread, 10))
	}
	return c.answer(in, "id.group", "user", user, "chat", chat)
}

// stopped makes the acknowledgement that is a stopped turn's answer.
func (c *controls) stopped(key string) func(agent.Turn) agent.Post {
	return func(t agent.Turn) agent.Post {
		question := t.Question
		if t.Private {
			question = 0
		}
		post := c.letter(fmt.Sprint("turn:", t.Turn), t.Address, t.Lang, c.say.say(t.Lang, key), withReply(question))
		post.Turn = t.Turn
		return post
	}
}

func (c *controls) stop(ctx context.Context, in agent.Incoming) (reply, error) {
	err := c.desk.Stop(ctx, in.Address, in.Sender, in.Update, c.stopped("stop"))
	switch {
	case errors.Is(err, agent.ErrNoTurn):
		return c.answer(in, "stop.none"), nil
	case errors.Is(err, agent.ErrNotYours):
		return c.answer(in, "stop.other"), nil
	}
	return reply{handled: err == nil}, err
}

func (c *controls) retry(ctx context.Context, in agent.Incoming) (reply, error) {
	err := c.desk.Retry(ctx, in.Address, in.Sender, in.Update)
	switch {
	case errors.Is(err, agent.ErrNoTurn):
		return c.answer(in, "retry.none"), nil
	case errors.Is(err, agent.ErrNotYours):
		return c.answer(in, "retry.other"), nil
	}
	return reply{handled: err == nil}, err
}

// idle ends what runs at the address, so that another conversation may begin;
// agent.ErrNotYours when it is somebody else's. The row stays unhandled: should
// we die before the rest is done, all of it is done again, and then nothing runs.
func (c *controls) idle(ctx context.Context, in agent.Incoming) error {
	err := c.desk.Stop(ctx, in.Address, in.Sender, 0, c.stopped("stop"))
	if errors.Is(err, agent.ErrNoTurn) {
		return nil
	}
	return err
}

func (c *controls) fresh(ctx context.Context, in agent.Incoming) (reply, error) {
	switch err := c.idle(ctx, in); {
	case errors.Is(err, agent.ErrNotYours):
		return c.answer(in, "stop.other"), nil
	case err != nil:
		return reply{}, err
	}
	if err := c.store.NewSession(ctx, in.Address); err != nil {
		return reply{}, err
	}
	return c.answer(in, "new"), nil
}
