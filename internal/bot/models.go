package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-telegram/bot/models"

	"agentd/internal/agent"
)

const (
	modelsShown = 30
	pullPace    = 3 * time.Second // between edits of the progress
	pullStall   = 5 * time.Minute // without progress: given up
	pullSetting = "pull"          // the pull that runs, for the next process
)

// chooseModel shows the owner a button for each model that can chat.
func (c *controls) chooseModel(ctx context.Context, in agent.Incoming) (reply, error) {
	if in.Sender.Rights != agent.Owner {
		return c.ownersOnly(in), nil
	}
	installed, err := c.installed(ctx)
	if err != nil {
		return c.noModels(in, err)
	}
	keyboard := &models.InlineKeyboardMarkup{}
	for _, m := range installed {
		data := "model:" + m.Name
		if !m.Chat || len(data) > buttonBytes || len(keyboard.InlineKeyboard) == modelsShown {
			continue
		}
		text := m.Name
		if m.Size > 0 {
			text += " · " + sizeText(m.Size)
		}
		keyboard.InlineKeyboard = append(keyboard.InlineKeyboard, []models.InlineKeyboardButton{{Text: text, CallbackData: data}})
	}
	if len(keyboard.InlineKeyboard) == 0 {
		return c.answer(in, "model.empty"), nil
	}
	sentence := c.say.say(in.Lang, "model.none")
	asked, cancel := context.WithTimeout(ctx, askDeadline)
	defer cancel()
	if now, err := c.models.Current(asked); err == nil {
		sentence = c.say.say(in.Lang, "model", "model", now.Name)
	}
	return reply{posts: []agent.Post{c.text(in, sentence, keyboard)}}, nil
}

func (c *controls) installed(ctx context.Context) ([]Model, error) {
	ctx, cancel := context.WithTimeout(ctx, askDeadline)
	defer cancel()
	return c.models.Installed(ctx)
}

// noModels answers when the model server does not say what is installed.
func (c *controls) noModels(in agent.Incoming, err error) (reply, error) {
	fault := (*agent.Fault)(nil)
	switch {
	case errors.As(err, &fault):
		return reply{posts: []agent.Post{c.text(in, c.explain(in.Lang, fault), nil)}}, nil
	case errors.Is(err, context.DeadlineExceeded): // it looks at each model, which may take long the first time
		return c.answer(in, "status.model.slow"), nil
	}
	return reply{}, err
}

func (c *controls) useModel(ctx context.Context, in agent.Incoming, name string) (reply, error) {
	installed, err := c.installed(ctx)
	if err != nil {
		return c.noModels(in, err)
	}
	if !slices.ContainsFunc(installed, func(m Model) bool { return m.Name == name && m.Chat }) {
		return reply{notice: c.say.plain(in.Lang, "model.gone", "model", name)}, nil
	}
	if err := c.models.Choose(ctx, name); err != nil {
		return reply{}, err
	}
	return reply{posts: []agent.Post{c.edit(in, c.say.say(in.Lang, "model.chosen", "model", name), nil)}}, nil
}

// pulling is a pull that runs. It is stored, so that the next process takes it up
// again (the server keeps what it has) and its end is told in any case.
type pulling struct {
	Model   string        `json:"model"`
	Update  int64         `json:"update"` // the press of the button
	Address agent.Address `json:"address"`
	Lang    string        `json:"lang"`

	started bool
}

// pull fetches a model for the owner, one at a time.
func (c *controls) pull(ctx context.Context, in agent.Incoming, model string) (reply, error) {
	if model == "" {
		return c.old(in), nil
	}
	job := pulling{Model: model, Update: in.Update, Address: in.Address, Lang: in.Lang}
	stored, err := json.Marshal(job)
	if err != nil {
		return reply{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.pulling == nil:
		if err := c.store.SetSetting(ctx, pullSetting, string(stored)); err != nil {
			return reply{}, err
		}
		c.pulling = &job
	case c.pulling.Update != in.Update: // else the answer could not be stored the first time
		return reply{notice: c.say.plain(in.Lang, "pull.other", "model", c.pulling.Model)}, nil
	}
	out := c.answer(in, "pull.begin", "model", model)
	out.unbutton, out.after = true, c.startPull // after: its end must not be told before its beginning
	return out, nil
}

// startPull begins the pull that was agreed on, once.
func (c *controls) startPull() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pulling == nil || c.pulling.started {
		return
	}
	c.pulling.started = true
	job := *c.pulling
	c.background(func(ctx context.Context) { c.runPull(ctx, job) })
}

// resumePull takes up the pull that a dead process left. It is called before any
// button is answered.
func (c *controls) resumePull(ctx context.Context) {
	stored, err := c.store.Setting(ctx, pullSetting)
	if err != nil {
		c.log.Error("a setting cannot be read", "err", err)
	}
	if stored == "" {
		return
	}
	var job pulling
	if err := json.Unmarshal([]byte(stored), &job); err != nil {
		c.log.Error("the pull that ran cannot be read", "err", err)
		return
	}
	c.pulling = &job
	c.startPull()
}

func (c *controls) runPull(ctx context.Context, job pulling) {
	progress := &progressLine{controls: c, job: job, at: time.Now()} // the first line after the answer to the press
	size, err := c.fetch(ctx, job.Model, progress)
	if err == nil {
		err = c.models.Choose(ctx, job.Model)
	}
	if ctx.Err() != nil {
		return // the next process goes on
	}
	text := c.say.say(job.Lang, "pull.done", "model", job.Model, "size", sizeText(size))
	fault := (*agent.Fault)(nil)
	switch {
	case errors.As(err, &fault):
		text = c.explain(job.Lang, fault)
	case err != nil:
		c.log.Error("a model could not be fetched", "model", job.Model, "err", err)
		text = c.say.say(job.Lang, "pull.failed", "model", job.Model, "why", shorten(err.Error(), 300))
	case size == 0:
		text = c.say.say(job.Lang, "pull.done.bare", "model", job.Model)
	}
	post := c.letter(fmt.Sprint("pull:", job.Update), job.Address, job.Lang, text)
	if progress.message != 0 {
		post.Parts = append(post.Parts, deletePayload(progress.message))
	}
	pause := backoff{first: 100 * time.Millisecond, most: 30 * time.Second}
	for {
		err := c.store.Post(ctx, post)
		if err == nil {
			err = c.store.SetSetting(ctx, pullSetting, "")
		}
		if err == nil {
			break
		}
		c.log.Error("the end of a pull cannot be stored", "err", err)
		if !sleep(ctx, pause.next()) {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulling = nil
}

// fetch pulls until it is done or stalls, and gives the size.
func (c *controls) fetch(ctx context.Context, model string, progress *progressLine) (size int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(pullStall, func() { cancel(fmt.Errorf("no progress for %s", pullStall)) })
	defer stall.Stop()
	var last int64 = -1
	err = c.models.Pull(ctx, model, func(done, total int64) {
		if done != last {
			last = done
			stall.Reset(pullStall)
		}
		size = max(size, total)
		progress.show(ctx, done, total)
	})
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return size, err
}

// progressLine is the message that tells how far a pull is. It is best effort:
// when Telegram does not take it, the pull goes on in silence.
type progressLine struct {
	*controls
	job     pulling
	message int64
	failed  bool
	at      time.Time
	text    string
}

func (p *progressLine) show(ctx context.Context, done, total int64) {
	if p.failed || time.Since(p.at) < pullPace || !p.gate.try(p.job.Address.Chat) {
		return
	}
	text := p.say.say(p.job.Lang, "pull.progress.unknown", "model", p.job.Model)
	if total > 0 {
		text = p.say.say(p.job.Lang, "pull.progress", "model", p.job.Model, "done", sizeText(done), "total", sizeText(total),
			"percent", strconv.FormatInt(100*min(done, total)/total, 10))
	}
	if text == p.text {
		return
	}
	p.at, p.text = time.Now(), text
	ctx, cancel := context.WithTimeout(ctx, noticeDeadline)
	defer cancel()
	payload := editPayload(p.message, p.md.Render(text), "")
	if p.message == 0 {
		payload = textPayload(p.md.Render(text), "", withSilence())
	}
	var out outgoing
	err := json.Unmarshal(payload.Body, &out)
	if err == nil {
		var id int64
		if id, err = p.api.post(ctx, p.job.Address, out); p.message == 0 {
			p.message = id
		}
	}
	if refused := (*APIError)(nil); errors.As(err, &refused) && refused.RetryAfter > 0 {
		p.gate.block(p.job.Address.Chat, time.Now().Add(refused.RetryAfter))
	} else if err != nil {
		p.log.Debug("a pull's progress was not shown", "err", err)
		p.failed = p.message == 0 // nobody knows whether it was sent: no second one
	}
}
