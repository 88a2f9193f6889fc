package bot

import (
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/go-telegram/bot/models"
)

// identity is the bot's own account.
type identity struct {
	id       int64
	username string // without @
}

// addressed says whether a group's message is for us: it mentions us, answers a
// message of ours, or is a command that names us or nobody (C097). The server's
// own marks are what counts, never a search in the text: @agent_bot is a part of
// @agent_bot2 and of a mail address.
func (me identity) addressed(m *models.Message) bool {
	if cmd, ok := parseCommand(m.Text); ok {
		return me.named(cmd.bot)
	}
	if r := m.ReplyToMessage; r != nil && r.From != nil && r.From.ID == me.id && r.ForumTopicCreated == nil {
		// Everything in a topic "replies" to the message that opened it.
		return true
	}
	return me.mentioned(m.Text, m.Entities) || me.mentioned(m.Caption, m.CaptionEntities)
}

func (me identity) mentioned(text string, entities []models.MessageEntity) bool {
	if len(entities) == 0 {
		return false
	}
	units := utf16.Encode([]rune(text))
	for _, e := range entities {
		switch e.Type {
		case models.MessageEntityTypeMention:
			if strings.EqualFold(stretch(units, e), "@"+me.username) {
				return true
			}
		case models.MessageEntityTypeTextMention:
			if e.User != nil && e.User.ID == me.id {
				return true
			}
		case models.MessageEntityTypeBotCommand:
			if _, bot, found := strings.Cut(stretch(units, e), "@"); found && strings.EqualFold(bot, me.username) {
				return true
			}
		}
	}
	return false
}

// named says that a command is for us: it names us, or nobody.
func (me identity) named(bot string) bool { return bot == "" || strings.EqualFold(bot, me.username) }

// unmentioned gives the text without a mention of us at its ends.
func (me identity) unmentioned(text string) string {
	text = strings.TrimSpace(text)
	at := "@" + me.username
	if len(text) > len(at) && strings.EqualFold(text[:len(at)], at) && !wordByte(text[len(at)]) {
		text = text[len(at):]
	} else if i := len(text) - len(at); i > 0 && strings.EqualFold(text[i:], at) && !wordByte(text[i-1]) {
		text = text[:i]
	}
	return strings.Trim(text, " \t\n,:")
}

// stretch gives what an entity covers; offsets that point elsewhere cover nothing.
func stretch(units []uint16, e models.MessageEntity) string {
	if e.Offset < 0 || e.Length <= 0 || e.Offset > len(units) || e.Length > len(units)-e.Offset {
		return ""
	}
	return string(utf16.Decode(units[e.Offset : e.Offset+e.Length]))
}

// command is a message that begins with /name or /name@bot.
type command struct {
	name string // lower case
	bot  string // "" when none is named
	args string
}

// parseCommand reads a command as Telegram's apps mark it: the name ends with the
// message or with white space, so that /etc/passwd is none.
func parseCommand(text string) (command, bool) {
	rest, ok := strings.CutPrefix(text, "/")
	if !ok {
		return command{}, false
	}
	head, args := rest, ""
	if i := strings.IndexFunc(rest, unicode.IsSpace); i >= 0 {
		head, args = rest[:i], strings.TrimSpace(rest[i:])
	}
	name, bot, at := strings.Cut(head, "@")
	if !word(name, 32) || at && !word(bot, 64) {
		return command{}, false
	}
	return command{strings.ToLower(name), bot, args}, true
}

func word(s string, most int) bool {
	for i := range len(s) {
		if !wordByte(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= most
}

func wordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// isStop knows the words that stop a turn when they are the whole message.
func isStop(text string) bool {
	switch strings.ToLower(strings.TrimRight(text, ".!?…。！ ")) {
	case "stop", "cancel", "стоп", "halt", "stopp", "arrête", "para", "停":
		return true
	}
	return false
}
