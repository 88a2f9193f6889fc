package supervisor

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"

	"agentd/internal/agent"
)

//go:embed prompt.md
var prompt string

// systemText is what stands before every history: ours, then the owner's own instructions.
func systemText(own string) string {
	text := strings.TrimSpace(prompt)
	if own = strings.TrimSpace(own); own != "" {
		text += "\n\n# Your owner's instructions\n" + own
	}
	return text
}

// Telegram's clients split a text of more than 4096 UTF-16 units. A piece of
// exactly that length was cut where it was; a little less, at a break (C099).
const (
	pieceFull = 4096
	pieceLong = 4000
)

// compose makes the user message of a turn. The time stands in it, not before
// the history: the prompt keeps its beginning.
func (s *Supervisor) compose(rows []agent.Incoming) agent.Message {
	first := rows[0]
	stamp := first.At.In(s.cfg.Zone).Format("Mon 2006-01-02 15:04 MST")
	if !first.Private && first.Sender.Name != "" {
		stamp += ", " + first.Sender.Name
	}
	m := agent.TextMessage(agent.User, fmt.Sprintf("[%s]", stamp))
	long := 0 // units of the last text, when it may be a piece of a longer one
	for _, row := range rows {
		for _, p := range row.Parts {
			last := &m.Parts[len(m.Parts)-1]
			// A forward or a quote behind a long text is no piece of it.
			piece := p.Text != "" && len(row.Parts) == 1 && slices.Equal(p.Taint, last.Taint)
			switch {
			case long >= pieceFull && piece:
				last.Text += p.Text
			case long >= pieceLong && piece:
				last.Text += "\n" + p.Text
			default:
				m.Parts = append(m.Parts, p)
			}
			long = len(utf16.Encode([]rune(p.Text)))
		}
	}
	return m
}
