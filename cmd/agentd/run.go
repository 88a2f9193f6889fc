package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"agentd/internal/agent"
	"agentd/internal/bot"
	"agentd/internal/sqlite"
)

// configure reads the configuration and makes the logger. Every fault of it is a
// line on stderr, and the exit code is then exitConfig.
func configure(p process) (config, *slog.Logger, int) {
	cfg, warnings, err := loadConfig(p.environ, p.dir)
	if err != nil {
		for _, w := range warnings { // a misspelt name may be what the fault comes from
			p.complain("%s", w)
		}
		p.complain("%v", err)
		return cfg, nil, exitConfig
	}
	log := newLogger(p.stderr, cfg)
	for _, w := range warnings {
		log.Warn(w)
	}
	return cfg, log, exitOK
}

// newLogger writes to w. Whatever is logged, no secret is in it (C072).
func newLogger(w io.Writer, cfg config) *slog.Logger {
	var pairs []string
	for _, s := range cfg.secrets() {
		pairs = append(pairs, s, redacted)
	}
	clean := strings.NewReplacer(pairs...)
	opts := &slog.HandlerOptions{Level: cfg.LogLevel, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch v := a.Value.Any().(type) {
		case error:
			a.Value = slog.StringValue(clean.Replace(v.Error()))
		case string:
			a.Value = slog.StringValue(clean.Replace(v))
		}
		return a
	}}
	format := cfg.LogFormat
	if f, ok := w.(*os.File); ok && format == "" {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			format = "text"
		}
	}
	if format == "text" {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

// serve is the daemon.
func serve(ctx context.Context, p process) int {
	cfg, log, code := configure(p)
	if code != exitOK {
		return code
	}
	switch err := runDaemon(ctx, cfg, log, p); {
	case errors.Is(err, bot.ErrUnauthorized):
		p.complain("TELEGRAM_BOT_TOKEN: Telegram refuses this token; ask @BotFather for the current one (/token) and set it")
		return exitConfig
	case err != nil:
		return p.fail(err)
	}
	return exitOK
}

// runDaemon holds what the daemon needs while it lives: the lock, the folders, the store.
func runDaemon(ctx context.Context, cfg config, log *slog.Logger, p process) (err error) {
	release, err := sqlite.Lock(cfg.DataDir)
	if err != nil {
		return fmt.Errorf("DATA_DIR: %w", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := os.MkdirAll(cfg.WorkspaceDir, 0o700); err != nil {
		return fmt.Errorf("WORKSPACE_DIR: %w", err)
	}
	d, err := wire(ctx, cfg, log, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.store.Close()) }()
	return d.run(ctx)
}

// run lives until ctx ends or a part fails for good. What receives and thinks
// stops first; what sends outlives it, to deliver the last answers.
func (d *daemon) run(ctx context.Context) error {
	d.log.Info("agentd is up", "version", versionText(), "data", d.cfg.DataDir, "ollama", d.models.Address())
	group, ctx := errgroup.WithContext(ctx)
	if d.cfg.HTTPAddr != "" {
		l, err := net.Listen("tcp", d.cfg.HTTPAddr)
		if err != nil {
			return fmt.Errorf("HTTP_ADDR: %w", err)
		}
		group.Go(func() error { return d.serveHTTP(ctx, l) })
	}
	group.Go(func() error { return d.bot.Poll(ctx) })
	group.Go(func() error { return d.bot.Controls(ctx, desk{d.supervisor, d.models}) })
	group.Go(func() error { return d.supervisor.Run(ctx) })
	group.Go(func() error { d.tidy(ctx); return nil })
	group.Go(func() error { d.greet(ctx); return nil })
	group.Go(func() error { return d.offerPairing(ctx) })

	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	sent := make(chan error, 1)
	go func() { sent <- d.bot.Send(sending) }()

	err := group.Wait()
	d.drain(sending)
	stop()
	return errors.Join(err, <-sent)
}

// drainTime is what the last answers get to go out; what is left is sent by the
// next process.
const drainTime = 3 * time.Second

// drain waits until nothing that is due is left to send.
func (d *daemon) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, min(drainTime, d.cfg.Grace))
	defer cancel()
	for ctx.Err() == nil {
		chats, _, err := d.store.Channel(bot.Channel).Lanes(ctx, time.Now())
		if err != nil || len(chats) == 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// greet tells the operator at start what the first question would stumble over,
// and loads the model so that the first question need not wait for it.
func (d *daemon) greet(ctx context.Context) {
	err := d.models.WarmUp(ctx)
	var f *agent.Fault
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.As(err, &f):
		d.log.Warn(bot.Explain(f))
	default:
		d.log.Warn("the model could not be loaded", "err", err)
	}
	if err := forgetStart(); err != nil {
		d.log.Debug("memory of the start was not given back", "err", err)
	}
}

// offerPairing logs a code that makes whoever sends it the owner, as long as
// there is none.
func (d *daemon) offerPairing(ctx context.Context) error {
	code, err := d.bot.StartPairing(ctx)
	switch {
	case errors.Is(err, bot.ErrOwned) || ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("pairing: %w", err)
	}
	d.log.Warn("nobody owns this bot yet: send it this code in a private chat within 10 minutes to become its owner (agentd pair prints a new one)", "code", code)
	return nil
}

// tidy deletes what is handled and old, and looks for damage in the database,
// once after the start and then daily.
func (d *daemon) tidy(ctx context.Context) {
	for wait := time.Minute; ; wait = 24 * time.Hour {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if err := d.store.Prune(ctx, time.Now().Add(-pruneAfter)); err != nil && ctx.Err() == nil {
			d.log.Error("delete what is old", "err", err)
		}
		if err := d.store.Check(ctx); err != nil && ctx.Err() == nil {
			d.log.Error("the database is damaged; stop agentd and restore a backup", "path", d.cfg.database(), "err", err)
		}
	}
}
