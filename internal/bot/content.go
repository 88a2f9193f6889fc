package bot

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/go-telegram/bot/models"

	"agentd/internal/agent"
)

// quoteRunes bounds what is repeated of a message that is answered.
const quoteRunes = 1000

// parts gives what the model will read of a message: what it answers, what came
// with it, and its words. Other people's text is tainted with where it came from.
func (b *Bot) parts(me identity, m *models.Message) []agent.Part {
	var taint []agent.Source
	var out []agent.Part
	if q, ok := quotePart(me, m); ok {
		out = append(out, q)
	}
	if m.ForwardOrigin != nil {
		from := origin(m.ForwardOrigin)
		taint = append(taint, agent.Source("forward from "+from))
		out = append(out, agent.Part{Text: "[Forwarded from " + from + ":]", Taint: taint})
	}
	if m.ViaBot != nil {
		taint = append(taint, agent.Source("inline bot @"+cleanName(m.ViaBot.Username)))
	}
	if d := describe(m); d.text != "" {
		sources := taint
		if d.source != "" {
			sources = append(sources[:len(sources):len(sources)], d.source)
		}
		out = append(out, agent.Part{Text: d.text, Taint: sources})
	}
	text, entities := words(m)
	if text := withLinks(text, entities); strings.TrimSpace(text) != "" {
		out = append(out, agent.Part{Text: text, Taint: taint})
	}
	if !hasContent(m) {
		return nil // a quote or a forward's head alone is no question
	}
	return out
}

func words(m *models.Message) (string, []models.MessageEntity) {
	if m.Text != "" {
		return m.Text, m.Entities
	}
	return m.Caption, m.CaptionEntities
}

func hasContent(m *models.Message) bool {
	text, _ := words(m)
	return strings.TrimSpace(text) != "" || describe(m).text != ""
}

// quotePart repeats, shortened, what a message answers.
func quotePart(me identity, m *models.Message) (agent.Part, bool) {
	var whose, text string
	var source agent.Source
	switch r := m.ReplyToMessage; {
	case m.ExternalReply != nil:
		whose = origin(&m.ExternalReply.Origin) + "’s message in another chat"
		source = agent.Source("quote of " + origin(&m.ExternalReply.Origin))
	case r == nil || r.ForumTopicCreated != nil:
		return agent.Part{}, false
	case r.From != nil && r.From.ID == me.id && r.ForwardOrigin == nil:
		whose = "your own message"
	case r.From != nil && m.From != nil && r.From.ID == m.From.ID && !shared(r.From.ID) && r.ForwardOrigin == nil && r.ViaBot == nil:
		whose = "an earlier message of theirs"
	default:
		name := author(r)
		whose, source = name+"’s message", agent.Source("quote of "+name)
	}
	if m.ReplyToMessage != nil {
		said, entities := words(m.ReplyToMessage)
		d := describe(m.ReplyToMessage)
		text = strings.TrimSpace(d.text + "\n" + withLinks(said, entities))
		if d.source != "" && source == "" && whose != "your own message" {
			source = d.source // their own message, but the file's name in it is not theirs
		}
	}
	if m.Quote != nil && strings.TrimSpace(m.Quote.Text) != "" {
		text = m.Quote.Text
	}
	if text == "" {
		return agent.Part{}, false
	}
	p := agent.Part{Text: "[In reply to " + whose + ": “" + shorten(text, quoteRunes) + "”]"}
	if source != "" {
		p.Taint = []agent.Source{source}
	}
	return p, true
}

func author(m *models.Message) string {
	switch {
	case m.ForwardOrigin != nil:
		return origin(m.ForwardOrigin)
	case m.SenderChat != nil:
		return named(chatName(m.SenderChat))
	case m.From != nil:
		return named(userName(m.From))
	}
	return named("")
}

func origin(o *models.MessageOrigin) string {
	switch {
	case o.MessageOriginUser != nil:
		return named(userName(&o.MessageOriginUser.SenderUser))
	case o.MessageOriginHiddenUser != nil:
		return named(cleanName(o.MessageOriginHiddenUser.SenderUserName))
	case o.MessageOriginChat != nil:
		return named(chatName(&o.MessageOriginChat.SenderChat))
	case o.MessageOriginChannel != nil:
		return named(chatName(&o.MessageOriginChannel.Chat))
	}
	return named("")
}

func named(name string) string {
	if name == "" {
		return "somebody"
	}
	return name
}

func shorten(s string, limit int) string {
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

// description says what came beside words. source is set when it holds text that
// the sender need not have written: a file's name, a contact.
type description struct {
	text   string
	source agent.Source
}

// describe tells the model honestly what came, and that it cannot open it.
func describe(m *models.Message) description {
	switch {
	case len(m.Photo) > 0:
		p := m.Photo[len(m.Photo)-1] // the largest comes last
		return unopened("photo", "", fmt.Sprintf("%d×%d pixels", p.Width, p.Height), size(int64(p.FileSize)))
	case m.Animation != nil: // sets document as well
		a := m.Animation
		return unopened("silent video", a.FileName, a.MimeType, seconds(a.Duration), size(a.FileSize))
	case m.Document != nil:
		return unopened("file", m.Document.FileName, m.Document.MimeType, size(m.Document.FileSize))
	case m.Voice != nil:
		return unopened("voice message", "", seconds(m.Voice.Duration), size(m.Voice.FileSize))
	case m.Audio != nil:
		a := m.Audio
		return unopened("piece of music", strings.Trim(a.Performer+" – "+a.Title, " –"), a.FileName, seconds(a.Duration), size(a.FileSize))
	case m.Video != nil:
		v := m.Video
		return unopened("video", v.FileName, fmt.Sprintf("%d×%d pixels", v.Width, v.Height), seconds(v.Duration), size(v.FileSize))
	case m.VideoNote != nil:
		return unopened("round video", "", seconds(m.VideoNote.Duration), size(int64(m.VideoNote.FileSize)))
	case m.PaidMedia != nil:
		return unopened("paid picture or video", "")
	case m.Story != nil:
		return unopened("story", "")
	}
	return describePlain(m)
}

// describePlain describes what is wholly said in words.
func describePlain(m *models.Message) description {
	switch {
	case m.Sticker != nil:
		return description{text: "[A sticker came: " + orElse(cleanName(m.Sticker.Emoji), "without an emoji") + "]"}
	case m.Dice != nil:
		return description{text: fmt.Sprintf("[A throw of %s came: it shows %d]", cleanName(m.Dice.Emoji), m.Dice.Value)}
	case m.Contact != nil:
		c := m.Contact
		return description{"[A contact came: " + cleanName(c.FirstName+" "+c.LastName) + ", phone " + cleanName(c.PhoneNumber) + "]", "a contact"}
	case m.Venue != nil: // sets location as well
		v := m.Venue
		return description{"[A place came: " + cleanName(v.Title) + ", " + cleanName(v.Address) + ", " + position(v.Location) + "]", "a place"}
	case m.Location != nil:
		return description{text: "[A location came: " + position(*m.Location) + "]"}
	case m.Poll != nil:
		lines := []string{"[A poll came: " + shorten(m.Poll.Question, 300)}
		for _, o := range m.Poll.Options {
			lines = append(lines, "- "+shorten(o.Text, 100))
		}
		return description{strings.Join(lines, "\n") + "]", "a poll"}
	case m.Checklist != nil:
		lines := []string{"[A checklist came: " + shorten(m.Checklist.Title, 255)}
		for _, t := range m.Checklist.Tasks {
			lines = append(lines, "- "+shorten(t.Text, 100))
		}
		return description{text: strings.Join(lines, "\n") + "]"}
	case m.Game != nil:
		return description{"[A game came: " + cleanName(m.Game.Title) + "]", "a game"}
	case m.Invoice != nil:
		return description{"[An invoice came: " + cleanName(m.Invoice.Title) + "]", "an invoice"}
	}
	return description{}
}

func unopened(kind, name string, details ...string) description {
	var said []string
	var source agent.Source
	if name = cleanName(name); name != "" {
		said = append(said, "“"+name+"”")
		source = agent.Source("the " + kind + " “" + name + "”")
	}
	for _, d := range details {
		if d = cleanName(d); d != "" {
			said = append(said, d)
		}
	}
	text := "[A " + kind + " came"
	if len(said) > 0 {
		text += ": " + strings.Join(said, ", ")
	}
	return description{text + ". You were given only this description: the file itself cannot be opened yet. If the answer needs it, say so.]", source}
}

func size(n int64) string {
	if n <= 0 {
		return ""
	}
	return sizeText(n)
}

func position(l models.Location) string {
	s := "latitude " + strconv.FormatFloat(l.Latitude, 'f', -1, 64) + ", longitude " + strconv.FormatFloat(l.Longitude, 'f', -1, 64)
	if l.HorizontalAccuracy > 0 {
		s += ", accurate to " + strconv.FormatFloat(l.HorizontalAccuracy, 'f', -1, 64) + " m"
	}
	return s
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// withLinks gives a text with those styles as Markdown that carry meaning for a
// reader of plain text: hidden links and code. The rest stays as it is.
func withLinks(text string, entities []models.MessageEntity) string {
	meaningful := false
	for _, e := range entities {
		meaningful = meaningful || marked(e)
	}
	if !meaningful {
		return text
	}
	units := utf16.Encode([]rune(text))
	var b strings.Builder
	done := 0
	for _, e := range entities { // sorted by offset; one within another is left out
		covered := stretch(units, e)
		if covered == "" || !marked(e) || e.Offset < done {
			continue
		}
		b.WriteString(string(utf16.Decode(units[done:e.Offset])))
		b.WriteString(mark(e, covered))
		done = e.Offset + e.Length
	}
	b.WriteString(string(utf16.Decode(units[done:])))
	return b.String()
}

func marked(e models.MessageEntity) bool {
	switch e.Type {
	case models.MessageEntityTypeTextLink, models.MessageEntityTypeCode, models.MessageEntityTypePre:
		return true
	}
	return false
}

func mark(e models.MessageEntity, covered string) string {
	switch e.Type {
	case models.MessageEntityTypeTextLink:
		if strings.ContainsAny(e.URL, " ()<>") {
			return "[" + covered + "](<" + strings.NewReplacer("<", "%3C", ">", "%3E").Replace(e.URL) + ">)"
		}
		return "[" + covered + "](" + e.URL + ")"
	case models.MessageEntityTypePre:
		ticks := fence(covered, 3)
		return "\n" + ticks + cleanName(e.Language) + "\n" + strings.TrimSuffix(covered, "\n") + "\n" + ticks + "\n"
	}
	ticks := fence(covered, 1)
	if ticks == "`" {
		return "`" + covered + "`"
	}
	return ticks + " " + covered + " " + ticks
}

// fence gives a run of backticks longer than any in the text.
func fence(text string, least int) string {
	longest, run := 0, 0
	for i := range len(text) {
		if text[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return strings.Repeat("`", max(least, longest+1))
}
