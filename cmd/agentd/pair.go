package main

import (
	"context"
	"errors"

	"agentd/internal/bot"
	"agentd/internal/sqlite"
)

// pair stores a new pairing code, for a daemon that runs or will run on the same
// data, and prints it.
func pair(ctx context.Context, p process) int {
	cfg, log, exit := configure(p)
	if exit != exitOK {
		return exit
	}
	store, err := sqlite.Open(ctx, cfg.database(), sqlite.Config{Log: log})
	if err != nil {
		return p.fail(err)
	}
	code, err := newCode(ctx, cfg, store, p)
	if err = errors.Join(err, store.Close()); err != nil {
		return p.fail(err)
	}
	p.say("Send this to your bot in a private chat within 10 minutes to become its owner: %s", code)
	return exitOK
}

func newCode(ctx context.Context, cfg config, store *sqlite.Store, p process) (string, error) {
	b, err := newBot(cfg, store, nil, nil, p)
	if err != nil {
		return "", err
	}
	code, err := b.StartPairing(ctx)
	if errors.Is(err, bot.ErrOwned) {
		return "", errors.New("the bot has an owner already; they let others in by /users, or set TELEGRAM_ALLOWED_USERS")
	}
	return code, err
}
