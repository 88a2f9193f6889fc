package bottest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Limits of the Bot API, in UTF-16 code units after entity parsing.
const (
	MaxText    = 4096
	MaxCaption = 1024
	MaxRich    = 32768

	maxOffset = 1_000_000 // of an entity
)

// Entity is a MessageEntity. Offset and Length are UTF-16 code units.
type Entity struct {
	Type          string   `json:"type"`
	Offset        int      `json:"offset"`
	Length        int      `json:"length"`
	URL           string   `json:"url,omitempty"`
	User          *apiUser `json:"user,omitempty"`
	Language      string   `json:"language,omitempty"`
	CustomEmojiID string   `json:"custom_emoji_id,omitempty"`
	UnixTime      int64    `json:"unix_time,omitempty"`
	TimeFormat    string   `json:"date_time_format,omitempty"`
}

func (e Entity) end() int { return e.Offset + e.Length }

// units counts the UTF-16 code units of a text.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// richText is a text with its entities, as a message keeps them.
type richText struct {
	text     string
	entities []Entity
}

// formatted reads a text parameter with its parse_mode or entities, checks
// and cleans it as Telegram does. The result may be blank.
func (a args) formatted(text, mode, entities string) (richText, error) {
	rt := richText{text: strings.ToValidUTF8(a.str(text), "\uFFFD")}
	explicit := true
	switch m := strings.ToLower(a.str(mode)); m {
	case "":
		rt.entities = a.entities(entities)
	case "html", "markdown", "markdownv2":
		var err error
		if rt, err = parseMarkup(m, rt.text); err != nil {
			return rt, badRequest("can't parse entities: %v", err)
		}
		explicit = false
	default:
		return rt, badRequest("unsupported parse_mode")
	}
	if err := checkEntities(rt); err != nil {
		return rt, err
	}
	if explicit {
		if err := checkNesting(rt.entities); err != nil {
			return rt, err
		}
	}
	return rt.clean(), nil
}

// known entity types, true if a bot may send them; the others are found by
// Telegram itself and ignored when sent.
var entityTypes = map[string]bool{
	"bold": true, "italic": true, "underline": true, "strikethrough": true, "spoiler": true, "code": true, "pre": true,
	"text_link": true, "text_mention": true, "custom_emoji": true, "blockquote": true, "expandable_blockquote": true, "date_time": true,
	"mention": false, "hashtag": false, "cashtag": false, "bot_command": false, "url": false, "email": false, "phone_number": false, "bank_card_number": false,
}

// checkEntities refuses what Telegram refuses: unknown types, positions
// outside the text or inside a surrogate pair, and ranges that cross.
func checkEntities(rt richText) error {
	slices.SortStableFunc(rt.entities, byPosition)
	length, inside := units(rt.text), surrogates(rt.text)
	var open []Entity
	for _, e := range rt.entities {
		if _, known := entityTypes[e.Type]; !known {
			return badRequest("can't parse MessageEntity: Unsupported type specified")
		}
		if e.Type == "text_link" && !isLink(e.URL) {
			return badRequest("entity URL '%s' is invalid: Wrong HTTP URL", e.URL)
		}
		if e.Offset < 0 || e.Offset > maxOffset {
			return badRequest("receive an entity with incorrect offset %d", e.Offset)
		}
		if e.Length < 0 || e.Length > maxOffset {
			return badRequest("receive an entity with incorrect length %d", e.Length)
		}
		for len(open) > 0 && open[len(open)-1].end() <= e.Offset {
			open = open[:len(open)-1]
		}
		// Telegram has one text for a crossing and for the end of the text.
		if e.end() > length || len(open) > 0 && e.end() > open[len(open)-1].end() {
			return badRequest("entity beginning at UTF-16 offset %d ends after the end of the text at UTF-16 offset %d", e.Offset, e.end())
		}
		if inside[e.Offset] || inside[e.end()] {
			return badRequest("entity beginning at UTF-16 offset %d begins or ends in a middle of a UTF-16 symbol", e.Offset)
		}
		open = append(open, e)
	}
	return nil
}

// checkNesting enforces what the API page forbids and Telegram repairs in
// silence, losing a style: code, pre and links hold nothing, code and pre
// stand inside quotes only, quotes do not nest.
// https://core.telegram.org/bots/api#formatting-options
func checkNesting(entities []Entity) error {
	var open []Entity
	for _, e := range entities {
		for len(open) > 0 && open[len(open)-1].end() <= e.Offset {
			open = open[:len(open)-1]
		}
		for _, outer := range open {
			if !mayHold(outer.Type, e.Type) {
				return badRequest("can't parse entities: %s at UTF-16 offset %d can't be inside %s", e.Type, e.Offset, outer.Type)
			}
		}
		open = append(open, e)
	}
	return nil
}

func mayHold(outer, inner string) bool {
	quote := func(t string) bool { return t == "blockquote" || t == "expandable_blockquote" }
	mono := func(t string) bool { return t == "code" || t == "pre" }
	style := func(t string) bool {
		return slices.Contains([]string{"bold", "italic", "underline", "strikethrough", "spoiler"}, t)
	}
	switch {
	case mono(outer):
		return false
	case quote(outer):
		return !quote(inner)
	case style(outer):
		return !mono(inner)
	default: // links, mentions and the like
		return style(inner)
	}
}

// byPosition orders outer entities before inner ones.
func byPosition(a, b Entity) int {
	return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(b.Length, a.Length), cmp.Compare(rank(a.Type), rank(b.Type)))
}

func rank(typ string) int {
	switch {
	case strings.HasSuffix(typ, "blockquote"):
		return 0
	case typ == "code" || typ == "pre":
		return 3
	case mayHold(typ, "text_link"): // a style
		return 1
	}
	return 2
}

// surrogates is the set of UTF-16 offsets that fall inside a character.
func surrogates(s string) map[int]bool {
	at, inside := 0, map[int]bool{}
	for _, r := range s {
		if n := utf16.RuneLen(r); n == 2 {
			inside[at+1] = true
			at += 2
		} else {
			at++
		}
	}
	return inside
}

// clean does what Telegram does to every text: carriage returns vanish, other
// control characters become spaces, white space goes at the end, and at the
// beginning as far as no entity covers it. Entities follow; empty ones go.
func (rt richText) clean() richText {
	var kept []uint16
	moved := make([]int, 0, len(rt.text)+1) // old offset to new offset
	for _, u := range utf16.Encode([]rune(rt.text)) {
		moved = append(moved, len(kept))
		switch {
		case u == '\r':
		case u < ' ' && u != '\n':
			kept = append(kept, ' ')
		default:
			kept = append(kept, u)
		}
	}
	moved = append(moved, len(kept))
	end := len(kept)
	for end > 0 && space(kept[end-1]) {
		end--
	}
	start, firstEntity := 0, end
	if len(rt.entities) > 0 {
		firstEntity = min(end, moved[rt.entities[0].Offset])
	}
	for start < firstEntity && space(kept[start]) {
		start++
	}
	out := richText{text: string(utf16.Decode(kept[start:end]))}
	for _, e := range rt.entities {
		from, to := moved[e.Offset]-start, min(moved[e.end()], end)-start
		if from < to && entityTypes[e.Type] {
			e.Offset, e.Length = from, to-from
			out.entities = append(out.entities, e)
		}
	}
	return out
}

func space(u uint16) bool { return u == ' ' || u == '\n' }

// blank reports whether a person would see nothing.
func blank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r) && r != 0x2800 && r != 0x3164
	}) < 0
}

func isLink(u string) bool {
	scheme, rest, ok := strings.Cut(u, ":")
	if !ok {
		return strings.Contains(u, ".") && !strings.ContainsAny(u, " \n")
	}
	switch strings.ToLower(scheme) {
	case "http", "https", "ftp":
		host, found := strings.CutPrefix(rest, "//")
		return found && host != "" && !strings.ContainsAny(host, " \n")
	case "tg", "ton", "mailto", "tel":
		return rest != ""
	}
	return strings.Contains(scheme, ".") // example.org:8080/x
}

// entities reads a list of MessageEntity that the specification check passed.
func (a args) entities(name string) []Entity {
	var out []Entity
	for _, v := range a.list(name) {
		o := args(v.(map[string]any))
		e := Entity{Type: o.str("type"), Offset: int(o.int("offset")), Length: int(o.int("length")), URL: o.str("url"),
			Language: o.str("language"), CustomEmojiID: o.str("custom_emoji_id"), UnixTime: o.int("unix_time"), TimeFormat: o.str("date_time_format")}
		if u := o.obj("user"); u != nil {
			e.User = &apiUser{ID: u.int("id"), IsBot: u.bool("is_bot"), FirstName: u.str("first_name")}
		}
		out = append(out, e)
	}
	return out
}

// badRequest is a 400 with Telegram's prefix.
func badRequest(format string, a ...any) *apiError {
	return &apiError{Code: 400, Description: "Bad Request: " + fmt.Sprintf(format, a...)}
}
