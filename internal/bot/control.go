package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/go-telegram/bot/models"

	"agentd/internal/agent"
)

const (
	controlDeadline = 10 * time.Second        // for one command or button
	askDeadline     = 1500 * time.Millisecond // for the model server, when a person waits for the answer
	noticeDeadline  = 5 * time.Second         // for what is best effort
	partUnits       = 4096                    // of a message, https://core.telegram.org/bots/api#sendmessage
)

// controls answers what is not a question: commands, buttons, strangers.
type controls struct {
	*Bot
	desk    Desk
	started time.Time
	// background runs what must not hold up the chat; it ends with Controls.
	background func(func(context.Context))

	mu      sync.Mutex
	pulling *pulling    // what is being fetched
	wrong   []time.Time // when wrong codes were answered lately
}

// Controls answers commands and buttons until ctx ends, and then returns nil.
// Chats do not wait for each other; within a chat the order is kept. A row that
// was being answered when the process died is answered again: every effect is
// idempotent and every reply keyed.
func (b *Bot) Controls(ctx context.Context, desk Desk) error {
	var running sync.WaitGroup
	defer running.Wait()
	c := &controls{Bot: b, desk: desk, started: time.Now()}
	c.background = func(f func(context.Context)) { running.Go(func() { f(ctx) }) }
	c.background(c.announce)
	c.resumePull(ctx)

	busy := make(map[int64]bool)
	free := make(chan int64)
	pause := backoff{first: 100 * time.Millisecond, most: 30 * time.Second}
	for {
		rows, err := b.store.Controls(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			b.log.Error("commands cannot be read", "err", err)
			if !sleep(ctx, pause.next()) {
				return nil
			}
			continue
		}
		pause.reset()
		waiting := make(map[int64][]agent.Incoming)
		for _, in := range rows {
			if !busy[in.Address.Chat] {
				waiting[in.Address.Chat] = append(waiting[in.Address.Chat], in)
			}
		}
		for chat, rows := range waiting {
			busy[chat] = true
			running.Go(func() {
				for _, in := range rows {
					if !c.handle(ctx, in) {
						break
					}
				}
				select {
				case free <- chat:
				case <-ctx.Done():
				}
			})
		}
		select {
		case <-b.store.ControlWake():
		case chat := <-free:
			delete(busy, chat) // and look again: its later rows were passed over
		case <-ctx.Done():
			return nil
		}
	}
}

// reply is what comes of a control row.
type reply struct {
	posts    []agent.Post
	notice   string // shown over the chat when it was a button
	handled  bool   // the row is handled already
	unbutton bool   // the pressed message loses its buttons, its text stays
	after    func() // called once the posts are stored
}

// handle answers one row; false: nothing more of this chat for now.
func (c *controls) handle(ctx context.Context, in agent.Incoming) bool {
	u, out, err := c.respond(ctx, in)
	if ctx.Err() != nil {
		return false // the next process answers it
	}
	if err != nil {
		c.log.Error("a command failed", "chat", in.Address.Chat, "update", in.Update, "err", err)
		out = reply{}
		if in.Sender.Rights > agent.Stranger {
			out.posts = []agent.Post{c.text(in, c.say.say(in.Lang, "broke"), nil)}
		}
	}
	if !out.handled {
		if err := c.store.Handled(ctx, in.Update, out.posts...); err != nil {
			c.log.Error("a command's answer cannot be stored", "chat", in.Address.Chat, "update", in.Update, "err", err)
			sleep(ctx, time.Second)
			return false
		}
	}
	if out.after != nil {
		out.after()
	}
	// What follows is a courtesy: the decision is on disk, and losing this changes
	// nothing about it (C115).
	if q := u.CallbackQuery; q != nil {
		c.background(func(ctx context.Context) { c.acknowledge(ctx, q.ID, out.notice) })
	}
	if out.unbutton && in.Message != 0 {
		c.background(func(ctx context.Context) { c.removeButtons(ctx, in) })
	}
	return true
}

func (c *controls) respond(ctx context.Context, in agent.Incoming) (u models.Update, out reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if err := json.Unmarshal(in.Raw, &u); err != nil {
		return u, reply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, controlDeadline)
	defer cancel()
	if err := c.people.ensure(ctx); err != nil {
		return u, reply{}, err
	}
	// Rights as they are now: a decision may have been taken since it was written.
	in.Sender.Rights = c.people.rights(in.Sender.ID, in.Address.Chat)
	c.learnOwnerLang(ctx, in)
	switch m := u.Message; {
	case u.CallbackQuery != nil:
		out, err = c.press(ctx, in, u.CallbackQuery.Data)
	case u.MyChatMember != nil:
		out, err = c.left(ctx, in)
	case m != nil && m.MigrateToChatID != 0:
		err = c.migrate(ctx, m.Chat.ID, m.MigrateToChatID, chatName(&m.Chat))
	case m != nil:
		out, err = c.message(ctx, in, m)
	}
	return u, out, err
}

// message answers a command, a word that stops, a code, or a stranger.
func (c *controls) message(ctx context.Context, in agent.Incoming, m *models.Message) (reply, error) {
	text := c.identity().unmentioned(m.Text)
	if code, ok := parseCode(text); ok && in.Private && (c.ownerID() == 0 || c.people.state(in.Sender.ID) == agent.PersonOwner) {
		return c.pair(ctx, in, code) // who is paired already died before they were told
	}
	if in.Sender.Rights == agent.Stranger {
		if !in.Private {
			return reply{}, nil
		}
		return c.greet(ctx, in)
	}
	cmd, ok := parseCommand(text)
	switch {
	case ok:
		return c.command(ctx, in, cmd)
	case isStop(text):
		return c.stop(ctx, in)
	}
	return reply{}, nil // a stranger's message when it came, now an allowed person's: they were told to write again
}

// left stops what runs for a chat that we can no longer write to (C104). What is
// queued for it is parked when sending meets the refusal.
func (c *controls) left(ctx context.Context, in agent.Incoming) (reply, error) {
	by := agent.Principal{ID: in.Sender.ID, Name: in.Sender.Name, Rights: agent.Owner} // the chat's own decision
	err := c.desk.Stop(ctx, in.Address, by, in.Update, c.stopped("stop"))
	if errors.Is(err, agent.ErrNoTurn) {
		return reply{}, nil
	}
	return reply{handled: err == nil}, err
}

// migrate moves everything that belongs to a group to the supergroup it became,
// a configured allowance included.
func (b *Bot) migrate(ctx context.Context, old, new int64, name string) error {
	allowed := b.people.chatAllowed(old)
	if err := b.store.Migrate(ctx, old, new); err != nil {
		return err
	}
	if allowed {
		return b.people.set(ctx, new, agent.PersonAllowed, name)
	}
	return b.people.refresh(ctx)
}

// text is a new message that answers the row; in groups it replies to it.
func (c *controls) text(in agent.Incoming, source string, keyboard *models.InlineKeyboardMarkup) agent.Post {
	return c.letter("ctl:"+strconv.FormatInt(in.Update, 10), in.Address, in.Lang, source, withReply(replyID(in)), withKeyboard(keyboard))
}

// replyID is the group's message that is answered; private chats need no such thread.
func replyID(in agent.Incoming) int64 {
	if in.Private {
		return 0
	}
	return in.Message
}

// edit puts a text in the place of the message whose button was pressed.
func (c *controls) edit(in agent.Incoming, source string, keyboard *models.InlineKeyboardMarkup) agent.Post {
	if in.Message == 0 {
		return c.text(in, source, keyboard)
	}
	t := c.md.Render(source)
	return agent.Post{
		Key: "ctl:" + strconv.FormatInt(in.Update, 10), Address: in.Address, Lang: in.Lang,
		Parts: []agent.Payload{editPayload(in.Message, t, "", withKeyboard(keyboard))},
	}
}

// letter is a post of as many messages as the text needs; the options are the
// last one's. Losing or doubling one does no harm, so its parts may be repeated.
func (c *controls) letter(key string, to agent.Address, lang, source string, opts ...option) agent.Post {
	post := agent.Post{Key: key, Address: to, Lang: lang}
	parts := c.md.Split(source, partUnits)
	for i, p := range parts {
		if i < len(parts)-1 {
			post.Parts = append(post.Parts, noticePayload(p.Text))
		} else {
			post.Parts = append(post.Parts, noticePayload(p.Text, opts...))
		}
	}
	return post
}

func (c *controls) acknowledge(ctx context.Context, query, notice string) {
	ctx, cancel := context.WithTimeout(ctx, noticeDeadline)
	defer cancel()
	err := c.api.call(ctx, "answerCallbackQuery", struct {
		ID   string `json:"callback_query_id"`
		Text string `json:"text,omitempty"`
	}{query, shorten(notice, 200)}, nil)
	if err != nil {
		c.log.Debug("a button's press was not acknowledged", "err", err)
	}
}

func (c *controls) removeButtons(ctx context.Context, in agent.Incoming) {
	ctx, cancel := context.WithTimeout(ctx, noticeDeadline)
	defer cancel()
	err := c.api.call(ctx, "editMessageReplyMarkup", struct {
		Chat    int64 `json:"chat_id"`
		Message int64 `json:"message_id"`
	}{in.Address.Chat, in.Message}, nil)
	if err != nil {
		c.log.Debug("a message kept its buttons", "err", err)
	}
}

// ownerID is who gets alarms and decides; 0 nobody.
func (b *Bot) ownerID() int64 { return b.people.ownerID() }

// ownerLang is the owner's language, as far as they have shown it.
func (b *Bot) ownerLang(ctx context.Context) string {
	lang, err := b.store.Setting(ctx, "owner_lang")
	if err != nil {
		b.log.Error("a setting cannot be read", "err", err)
	}
	return lang
}

func (c *controls) learnOwnerLang(ctx context.Context, in agent.Incoming) {
	if in.Sender.Rights != agent.Owner || in.Lang == "" || c.ownerLang(ctx) == in.Lang {
		return
	}
	if err := c.store.SetSetting(ctx, "owner_lang", in.Lang); err != nil {
		c.log.Error("a setting cannot be stored", "err", err)
	}
}
