package bot

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"agentd/internal/agent"
)

const (
	stalePoll    = 90 * time.Second // longer than any healthy long poll
	ignoredShown = 5
)

func (c *controls) status(ctx context.Context, in agent.Incoming) (reply, error) {
	load, err := c.desk.Load(ctx, in.Address)
	if err != nil {
		return reply{}, err
	}
	lines := []string{c.modelLine(ctx, in.Lang)}
	if load.Tokens > 0 {
		lines = append(lines, c.say.say(in.Lang, "status.context", "used", strconv.Itoa(load.Tokens), "limit", orElse(positive(load.Limit), "?")))
	} else {
		lines = append(lines, c.say.say(in.Lang, "status.context.unknown"))
	}
	lines = append(lines,
		c.say.say(in.Lang, "status.queue", "running", strconv.Itoa(load.Running), "waiting", strconv.Itoa(load.Waiting)),
		c.pollLine(in.Lang),
		c.say.say(in.Lang, "status.uptime", "age", c.say.age(in.Lang, time.Since(c.started)), "version", orElse(c.cfg.Version, "?")))
	if in.Sender.Rights == agent.Owner && in.Private {
		ignored, err := c.ignoredLines(ctx, in.Lang)
		if err != nil {
			return reply{}, err
		}
		lines = append(lines, ignored...)
	}
	return reply{posts: []agent.Post{c.text(in, strings.Join(lines, "\n\n"), nil)}}, nil
}

// modelLine tells the model's state. The server gets little time: somebody may be
// waiting to stop a turn behind this.
func (c *controls) modelLine(ctx context.Context, lang string) string {
	ctx, cancel := context.WithTimeout(ctx, askDeadline)
	defer cancel()
	m, err := c.models.Current(ctx)
	if fault := (*agent.Fault)(nil); errors.As(err, &fault) {
		return c.say.say(lang, "status.model.fault") + " " + c.explain(lang, fault)
	}
	if err != nil {
		return c.say.say(lang, "status.model.slow")
	}
	state := c.say.plain(lang, "status.model.unloaded")
	if m.Loaded {
		state = c.say.plain(lang, "status.model.loaded", "size", sizeText(m.Size), "gpu", strconv.Itoa(int(math.Round(100*m.GPU))))
	}
	return c.say.say(lang, "status.model", "model", m.Name, "state", state)
}

func (c *controls) pollLine(lang string) string {
	last := c.LastPoll()
	if last.IsZero() {
		return c.say.say(lang, "status.poll.never")
	}
	age := time.Since(last)
	if age > stalePoll || c.Trouble() != "" {
		return c.say.say(lang, "status.poll.stale", "age", c.say.age(lang, age))
	}
	return c.say.say(lang, "status.poll", "age", c.say.age(lang, age))
}

// ignoredLines tells the owner what was passed over last, and why; nothing of
// what was written.
func (c *controls) ignoredLines(ctx context.Context, lang string) ([]string, error) {
	rows, err := c.store.Ignored(ctx, ignoredShown)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	lines := make([]string, 0, len(rows))
	for _, r := range rows {
		lines = append(lines, "- "+c.say.say(lang, "status.ignored.line",
			"age", c.say.age(lang, time.Since(r.At)), "chat", strconv.FormatInt(r.Address.Chat, 10), "why", shorten(r.Note, 120)))
	}
	return []string{c.say.say(lang, "status.ignored"), strings.Join(lines, "\n")}, nil
}

func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}
