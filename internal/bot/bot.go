// Package bot is Telegram: it takes updates into the inbox, answers commands,
// shows answers while they are being made, and sends what is in the outbox.
package bot

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"agentd/internal/bot/markdown"
)

// ErrUnauthorized ends Poll: Telegram refuses the token, so nothing but a new
// one helps.
var ErrUnauthorized = errors.New("bot: Telegram refuses the token")

// Config is how the bot reaches Telegram and who may talk to it.
type Config struct {
	Token string                                                            // from @BotFather
	URL   string                                                            // of the Bot API server; "" the public one
	Proxy string                                                            // http, https or socks5 URL; "" none
	Dial  func(ctx context.Context, network, addr string) (net.Conn, error) // nil: a net.Dialer; tests give an in-memory one
	Wrap  func(http.RoundTripper) http.RoundTripper                         // around each transport, for the crash tests; nil none
	Rates Rates
	Log   *slog.Logger // nil: none

	Allowed   []int64 // ids that may talk; negative ones are chats
	Everybody bool    // anybody may talk
	Owner     int64   // gets alarms and approves; 0: who paired, else the first of Allowed
	Chat      int64   // gets alarms besides the owner; 0 none

	Secrets     []string // never shown in a chat, whatever the model says; the token is always among them
	LinkPreview bool     // show the page of an answer's first link
	Version     string
}

// Bot is one Telegram bot. Make it with New, then run Poll, Send and Controls,
// each in a goroutine of its own.
type Bot struct {
	cfg    Config
	api    *api
	gate   *gate
	store  Store
	models Models
	log    *slog.Logger
	me     *account
	say    *catalogue
	md     *markdown.Renderer
	people *access
	poller *poller
	sender *sender
}

// New makes a bot. It does not touch the network: what the bot is called is
// learned by Poll.
func New(cfg Config, store Store, models Models) (*Bot, error) {
	if cfg.Token == "" {
		return nil, errors.New("bot: no token")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	a, err := newAPI(cfg)
	if err != nil {
		return nil, err
	}
	say, err := newCatalogue()
	if err != nil {
		return nil, err
	}
	b := &Bot{
		cfg: cfg, api: a, gate: newGate(cfg.Rates), store: store, models: models, log: cfg.Log,
		me: newAccount(), say: say, md: markdown.New(), people: newAccess(cfg, store, cfg.Log),
	}
	b.poller = &poller{api: a, inbox: store, me: b.me, ready: b.people.ensure, accept: b.accept, delay: b.delayed, log: cfg.Log}
	b.sender = newSender(b)
	return b, nil
}

// Me is the bot's own id and username (without @); 0 and "" until Poll has
// asked Telegram for them.
func (b *Bot) Me() (id int64, username string) { return b.me.get() }

// account is what Telegram calls the bot.
type account struct {
	known    chan struct{} // closed once the fields below are set
	id       int64
	username string
}

func newAccount() *account { return &account{known: make(chan struct{})} }

func (m *account) get() (int64, string) {
	select {
	case <-m.known:
		return m.id, m.username
	default:
		return 0, ""
	}
}

// ask learns the account, trying until ctx ends. A refused token ends it: the
// poll, refused as well, reports that.
func (m *account) ask(ctx context.Context, a *api, log *slog.Logger) {
	pause := backoff{first: 500 * time.Millisecond, most: 30 * time.Second}
	for {
		var me struct {
			ID       int64  `json:"id"`
			Username string `json:"username"`
		}
		err := a.call(ctx, "getMe", nil, &me)
		if err == nil {
			m.id, m.username = me.ID, me.Username
			close(m.known)
			return
		}
		if refused := (*APIError)(nil); errors.As(err, &refused) && refused.Code == http.StatusUnauthorized {
			return
		}
		log.Debug("getMe failed", "err", err)
		if !sleep(ctx, pause.next()) {
			return
		}
	}
}
