package tools

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"unicode/utf8"

	"agentd/internal/agent"
)

//go:embed word_count.md
var wordCountText string

type wordCountArgs struct {
	Text string `json:"text"`
}

// NewWordCount makes word_count: words between white space, characters as
// Unicode code points, and lines.
func NewWordCount() (agent.Tool, error) {
	return New("word_count", wordCountText, Always[wordCountArgs](agent.ReadOnly, agent.Workspace), wordCount)
}

func wordCount(_ context.Context, _ agent.Scope, call Call[wordCountArgs]) (agent.Result, error) {
	text := call.Args.Text
	lines := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		lines++
	}
	return agent.Result{Text: fmt.Sprintf("words: %d, characters: %d, lines: %d",
		len(strings.Fields(text)), utf8.RuneCountInString(text), lines)}, nil
}
