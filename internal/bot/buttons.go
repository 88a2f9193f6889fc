package bot

import (
	"context"
	"strconv"
	"strings"

	"github.com/go-telegram/bot/models"

	"agentd/internal/agent"
)

// buttonBytes is the most that a button may carry, else Telegram refuses the
// whole message (C115). https://core.telegram.org/bots/api#inlinekeyboardbutton
const buttonBytes = 64

// press answers a button. Whoever presses must have the right now; a message with
// buttons may be old and be seen by a whole group.
func (c *controls) press(ctx context.Context, in agent.Incoming, data string) (reply, error) {
	if in.Sender.Rights == agent.Stranger {
		return reply{notice: c.say.plain(in.Lang, "notice.rights")}, nil
	}
	kind, rest, _ := strings.Cut(data, ":")
	owner := in.Sender.Rights == agent.Owner
	switch kind {
	case "session":
		action, arg, _ := strings.Cut(rest, ":")
		return c.pressSession(ctx, in, action, arg)
	case "resend":
		return c.resend(ctx, in, rest)
	case "person", "models", "model", "pull":
		if !owner {
			return reply{notice: c.say.plain(in.Lang, "notice.rights")}, nil
		}
	}
	switch kind {
	case "person":
		action, arg, _ := strings.Cut(rest, ":")
		return c.decide(ctx, in, action, arg)
	case "models":
		return c.chooseModel(ctx, in)
	case "model":
		return c.useModel(ctx, in, rest)
	case "pull":
		return c.pull(ctx, in, rest)
	}
	return c.old(in), nil
}

// old answers a button that means nothing (any more).
func (c *controls) old(in agent.Incoming) reply {
	return reply{notice: c.say.plain(in.Lang, "notice.old"), unbutton: true}
}

// resend sends a part whose fate is unknown once more, because somebody of the
// chat says that it is missing. data is "<post>:<part>".
func (c *controls) resend(ctx context.Context, in agent.Incoming, data string) (reply, error) {
	first, second, _ := strings.Cut(data, ":")
	post, err1 := strconv.ParseInt(first, 10, 64)
	part, err2 := strconv.Atoi(second)
	if err1 != nil || err2 != nil {
		return c.old(in), nil
	}
	ok, err := c.store.Resend(ctx, in.Address.Chat, post, part)
	if err != nil {
		return reply{}, err
	}
	if !ok {
		return c.old(in), nil
	}
	return reply{notice: c.say.plain(in.Lang, "notice.resent"), unbutton: true}, nil
}

// remedy gives the owner buttons that mend a fault, under the sentence that
// explains it; nil when there is nothing to press.
func (b *Bot) remedy(turn agent.Turn, f *agent.Fault) *models.InlineKeyboardMarkup {
	if turn.Principal.Rights != agent.Owner {
		return nil
	}
	var buttons []models.InlineKeyboardButton
	add := func(text, data string) {
		if len(data) <= buttonBytes {
			buttons = append(buttons, models.InlineKeyboardButton{Text: text, CallbackData: data})
		}
	}
	switch f.Code {
	case agent.FaultModelAbsent:
		if model := f.Args["model"]; model != "" {
			add(b.say.plain(turn.Lang, "button.pull", "model", shorten(model, 40)), "pull:"+model)
		}
		if f.Args["nearest"] != "" {
			add(b.say.plain(turn.Lang, "button.models"), "models")
		}
	case agent.FaultNoModel:
		if f.Args["installed"] != "" {
			add(b.say.plain(turn.Lang, "button.models"), "models")
		}
	case agent.FaultNoChat, agent.FaultMemory:
		add(b.say.plain(turn.Lang, "button.models"), "models")
	}
	if len(buttons) == 0 {
		return nil
	}
	rows := make([][]models.InlineKeyboardButton, len(buttons))
	for i, button := range buttons {
		rows[i] = []models.InlineKeyboardButton{button}
	}
	return &models.InlineKeyboardMarkup{InlineKeyboard: rows}
}
