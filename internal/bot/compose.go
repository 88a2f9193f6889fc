package bot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"

	"agentd/internal/agent"
	"agentd/internal/bot/markdown"
)

const (
	// messageUnits is the longest message, in UTF-16 units after the entities were parsed.
	// https://core.telegram.org/bots/api#sendmessage
	messageUnits = 4096

	// ringing is how long a person who wrote is taken to look at the chat: a preview
	// first sent later is silent, and an answer that ends later than this after its
	// preview rings as a message of its own.
	ringing = 20 * time.Second
)

// compose makes the answer of a turn: the text, below it what the faults' sentences
// say, and the removal of the preview if the answer does not take its place. shown
// is the preview whose id is known, nil without one. A turn with neither text nor
// faults gets the sentence of agent.FaultEmpty, so the answer is never blank (C026).
func (b *Bot) compose(turn agent.Turn, shown *agent.Preview, text string, faults []*agent.Fault) []agent.Post {
	parts := b.md.Split(b.final(text), messageUnits)
	if len(parts) == 0 && len(faults) == 0 {
		faults = []*agent.Fault{{Code: agent.FaultEmpty}}
	}
	var keyboard *models.InlineKeyboardMarkup
	for _, f := range faults {
		for _, note := range b.md.Split(b.explain(turn.Lang, f), messageUnits) {
			parts = under(parts, note)
		}
		if k := b.remedy(turn, f); k != nil && keyboard == nil {
			keyboard = k
		}
	}
	inPlace := shown != nil && !shown.Silent && time.Since(shown.At) <= ringing
	post := agent.Post{Key: fmt.Sprintf("turn:%d", turn.Turn), Address: turn.Address, Turn: turn.Turn, Lang: turn.Lang}
	for i, part := range parts {
		opts := []option{withLinkPreview(b.cfg.LinkPreview)}
		if i == len(parts)-1 {
			opts = append(opts, withKeyboard(keyboard))
		}
		part = b.guard(part)
		if i == 0 && inPlace {
			post.Parts = append(post.Parts, editPayload(shown.Message, part.Text, part.Source, opts...))
			continue
		}
		post.Parts = append(post.Parts, textPayload(part.Text, part.Source, append(opts, b.sending(turn, i > 0)...)...))
	}
	posts := []agent.Post{post}
	if shown != nil && !inPlace {
		post.Key = fmt.Sprintf("unpreview:%d", turn.Turn)
		post.Parts = []agent.Payload{deletePayload(shown.Message)}
		posts = append(posts, post)
	}
	return posts
}

// sending gives the options of a new message of the answer. later is a message that
// follows another one at once: it neither rings again nor quotes the question again.
// In private chats it is plain what an answer answers.
func (b *Bot) sending(turn agent.Turn, later bool) []option {
	switch {
	case later:
		return []option{withSilence()}
	case turn.Address.Chat < 0:
		return []option{withReply(turn.Question)}
	}
	return nil
}

// under puts a note below the last part, in the same message if it has room.
func under(parts []markdown.Part, note markdown.Part) []markdown.Part {
	if len(parts) == 0 {
		return append(parts, note)
	}
	const gap = "\n\n"
	last := &parts[len(parts)-1]
	units := markdown.Units(last.Text.Text)
	if units+len(gap)+markdown.Units(note.Text.Text) > messageUnits ||
		markdown.Units(last.Source)+len(gap)+markdown.Units(note.Source) > messageUnits ||
		len(last.Entities)+len(note.Entities) > markdown.MaxEntities {
		return append(parts, note)
	}
	last.Text.Text += gap + note.Text.Text
	last.Source += gap + note.Source
	for _, e := range note.Entities {
		e.Offset += units + len(gap)
		last.Entities = append(last.Entities, e)
	}
	return parts
}

// final gives what may be shown of a finished answer: no thoughts, no secrets; ""
// when nothing is left.
func (b *Bot) final(text string) string {
	f := newFilter(b.secrets())
	f.add(text)
	return f.end()
}

// secrets gives what no chat may see.
func (b *Bot) secrets() []string {
	_, half, _ := strings.Cut(b.cfg.Token, ":")
	return append([]string{b.cfg.Token, half}, b.cfg.Secrets...)
}

// guard looks once more at what rendering made: markup within a secret hides it
// from the first look.
func (b *Bot) guard(part markdown.Part) markdown.Part {
	secrets := b.secrets()
	leaks := func(s string) bool { return redact(s, secrets) != s }
	if leaks(part.Text.Text) || slices.ContainsFunc(part.Entities, func(e models.MessageEntity) bool { return leaks(e.URL) }) {
		part.Text = markdown.Text{Text: redact(part.Text.Text, secrets)}
	}
	part.Source = redact(part.Source, secrets)
	return part
}
