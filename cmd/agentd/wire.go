package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"agentd/internal/agent"
	"agentd/internal/bot"
	"agentd/internal/ollama"
	"agentd/internal/sqlite"
	"agentd/internal/supervisor"
	"agentd/internal/tools"
)

// database is the one file that holds all state.
func (c config) database() string { return filepath.Join(c.DataDir, "agentd.db") }

// daemon is the running program: everything that lives long.
type daemon struct {
	cfg        config
	log        *slog.Logger
	store      *sqlite.Store
	bot        *bot.Bot
	models     *models
	supervisor *supervisor.Supervisor
}

// wire makes all parts and ties them together. It touches the disk, not the network.
func wire(ctx context.Context, cfg config, log *slog.Logger, p process) (*daemon, error) {
	store, err := sqlite.Open(ctx, cfg.database(), sqlite.Config{Log: log, Probe: p.probe})
	if err != nil {
		return nil, err
	}
	d := &daemon{cfg: cfg, log: log, store: store}
	if err := d.assemble(p); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return d, nil
}

func (d *daemon) assemble(p process) error {
	client, err := newOllama(d.cfg, d.store, d.log, p)
	if err != nil {
		return err
	}
	d.models = &models{client, d.store}
	if d.bot, err = newBot(d.cfg, d.store, d.models, d.log, p); err != nil {
		return err
	}
	kit, err := newTools(d.cfg)
	if err != nil {
		return err
	}
	kit = append(kit, p.tools...)
	var names []string
	for _, t := range kit {
		names = append(names, t.Spec().Name)
	}
	var own fs.FS
	if _, err := os.Stat(d.cfg.AgentsDir); err == nil {
		own = os.DirFS(d.cfg.AgentsDir)
	}
	roster, err := supervisor.Roster(own, names)
	if err != nil {
		return err
	}
	instructions, err := readInstructions(d.cfg.PromptFile)
	if err != nil {
		return fmt.Errorf("AGENT_PROMPT_FILE: %w", err)
	}
	d.supervisor = supervisor.New(d.store, d.models, channel{d.bot}, kit, supervisor.Config{
		Workers: d.cfg.Workers, MaxSteps: d.cfg.MaxSteps, Prompt: instructions, Roster: roster,
		Grace: d.cfg.Grace, Zone: d.cfg.Zone, Full: sqlite.Full, Log: d.log,
	})
	return nil
}

// maxInstructions bounds the owner's instructions, in bytes: they stand in every prompt.
const maxInstructions = 64 << 10

// readInstructions reads the owner's own instructions; there need not be any.
func readInstructions(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular(): // a pipe or a device may have no end
		return "", fmt.Errorf("expected a file at %s", path)
	case info.Size() > maxInstructions:
		return "", fmt.Errorf("expected at most %d KiB of instructions (%s has %d bytes)", maxInstructions>>10, path, info.Size())
	}
	return readHead(path, maxInstructions)
}

// newTools makes the tools; a new one is a line here.
func newTools(cfg config) ([]agent.Tool, error) {
	now, err1 := tools.NewCurrentTime(cfg.Zone)
	calculator, err2 := tools.NewCalculator()
	count, err3 := tools.NewWordCount()
	return []agent.Tool{now, calculator, count}, errors.Join(err1, err2, err3)
}

func newOllama(cfg config, store *sqlite.Store, log *slog.Logger, p process) (*ollama.Client, error) {
	return ollama.New(ollama.Config{
		Host: cfg.OllamaHost, Model: cfg.Model, NumCtx: cfg.NumCtx, KeepAlive: &cfg.KeepAlive,
		LoadTimeout: cfg.LoadTimeout, IdleTimeout: cfg.IdleTimeout, Parallel: cfg.Parallel, Options: json.RawMessage(cfg.Options),
		Choose: func(ctx context.Context) (string, error) { return store.Setting(ctx, modelSetting) },
		Dial:   p.dialOllama, Log: log,
	})
}

func newBot(cfg config, store *sqlite.Store, m bot.Models, log *slog.Logger, p process) (*bot.Bot, error) {
	return bot.New(bot.Config{
		Token: cfg.Token.Reveal(), URL: cfg.APIURL, Proxy: cfg.Proxy.Reveal(), Dial: p.dialTelegram, Wrap: p.wrapTelegram,
		Rates: bot.Rates{All: cfg.Rate, Chat: cfg.ChatRate, Group: cfg.GroupRate}, Log: log,
		Allowed: cfg.Allowed.IDs, Everybody: cfg.Allowed.Everybody, Owner: cfg.OwnerID, Chat: cfg.ChatID,
		Secrets: cfg.secrets(), LinkPreview: cfg.LinkPreview, Version: versionText(),
	}, store.Channel(bot.Channel), m)
}

// modelSetting keeps the model that the owner chose by a button.
const modelSetting = "model"

// models is the Ollama client as the bot and the supervisor need it.
type models struct {
	*ollama.Client
	store *sqlite.Store
}

// Window implements supervisor.Model.
func (m *models) Window(ctx context.Context, model string) (int, error) {
	if model == "" {
		var err error
		if model, err = m.Resolve(ctx); err != nil {
			return 0, err
		}
	}
	return m.Limits(ctx, model)
}

// Current implements bot.Models.
func (m *models) Current(ctx context.Context) (bot.ModelState, error) {
	name, err := m.Resolve(ctx)
	if err != nil {
		return bot.ModelState{}, err
	}
	state := bot.ModelState{Name: name}
	if state.Context, err = m.Limits(ctx, name); err != nil {
		return state, err
	}
	loaded, err := m.Running(ctx)
	for _, l := range loaded {
		if l.Name == name || l.Name == name+":latest" {
			state.Loaded, state.Size, state.Expires = true, l.Size, l.Expires
			if l.Size > 0 {
				state.GPU = float64(l.VRAM) / float64(l.Size)
			}
		}
	}
	return state, err
}

// Installed implements bot.Models.
func (m *models) Installed(ctx context.Context) ([]bot.Model, error) {
	all, err := m.Client.Installed(ctx)
	out := make([]bot.Model, 0, len(all))
	for _, i := range all {
		out = append(out, bot.Model{Name: i.Name, Size: i.Size, Chat: i.Chat})
	}
	return out, err
}

// Pull implements bot.Models.
func (m *models) Pull(ctx context.Context, name string, progress func(done, total int64)) error {
	return m.Client.Pull(ctx, name, func(p ollama.Progress) { progress(p.Completed, p.Total) })
}

// Choose implements bot.Models.
func (m *models) Choose(ctx context.Context, name string) error {
	return m.store.SetSetting(ctx, modelSetting, name)
}

// channel is the bot as the supervisor sees it.
type channel struct{ *bot.Bot }

func (c channel) Follow(ctx context.Context, turn agent.Turn) supervisor.Progress {
	return c.Bot.Follow(ctx, turn)
}

// desk is the supervisor as the bot's commands see it.
type desk struct {
	*supervisor.Supervisor
	models *models
}

func (d desk) Load(ctx context.Context, at agent.Address) (bot.Load, error) {
	l, err := d.Supervisor.Load(ctx, at)
	load := bot.Load{Running: l.Running, Waiting: l.Waiting, Tokens: l.Tokens}
	if err == nil {
		// Without a model there is no limit to tell; /status says what is wrong with it.
		load.Limit, _ = d.models.Window(ctx, "")
	}
	return load, err
}

// pruneAfter is how long handled updates and posts are kept, as Telegram keeps
// updates for 24 hours.
const pruneAfter = 48 * time.Hour
