package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"agentd/internal/bot/bottest"
	"agentd/internal/ollama"
	"agentd/internal/ollama/ollamatest"
)

// demoUser is who chats on the demo's page.
const demoUser = 1001

// demoToken has the form of a token and opens nothing.
const demoToken = "7000000001:demo-token-that-opens-nothing-at-all"

// demo runs the daemon against the Bot API server of the tests, which shows the
// chat on a local page. Nothing leaves the machine but questions to Ollama, if
// one answers at OLLAMA_HOST, and nothing is kept.
func demo(ctx context.Context, p process) int {
	dir, err := os.MkdirTemp("", "agentd-demo-")
	if err != nil {
		return p.fail(err)
	}
	code := demoIn(ctx, p, dir)
	if err := os.RemoveAll(dir); err != nil {
		return p.fail(err)
	}
	return code
}

func demoIn(ctx context.Context, p process, dir string) int {
	tg, err := bottest.New(bottest.Config{Token: demoToken, Username: "agentd_demo_bot", Name: "agentd", Keep: 1000})
	if err != nil {
		return p.fail(err)
	}
	defer tg.Close()
	page, err := tg.Page(tg.User(demoUser, "You", language(p.environ))).Start("127.0.0.1:0")
	if err != nil {
		return p.fail(err)
	}
	about, stop := demoModel(ctx, &p)
	defer stop()
	p.say("%s\n\nOpen this page in a browser on this machine and write to the bot:\n\n    %s\n\nCtrl-C ends the demo; nothing is kept.", about, page)

	p.environ = slices.DeleteFunc(slices.Clone(p.environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "TELEGRAM_") || demoSets[name]
	})
	p.environ = append(p.environ, "TELEGRAM_BOT_TOKEN="+tg.Token(), "TELEGRAM_API_URL=http://demo.invalid", fmt.Sprint("TELEGRAM_ALLOWED_USERS=", demoUser),
		"DATA_DIR="+dir, "LOG_LEVEL=warn", "SHUTDOWN_GRACE=1s")
	p.dialTelegram = tg.Dial // in memory: the page is all that can be reached
	p.dir = dir              // a .env of the real daemon is not the demo's
	return serve(ctx, p)
}

// demoSets are the variables that the demo decides.
var demoSets = map[string]bool{
	"DATA_DIR": true, "WORKSPACE_DIR": true, "AGENTS_DIR": true, "AGENT_PROMPT_FILE": true, "STATE_DIRECTORY": true,
	"CREDENTIALS_DIRECTORY": true, "HTTP_ADDR": true, "LOG_LEVEL": true, "SHUTDOWN_GRACE": true,
}

// demoModel decides who thinks and gives a sentence about it: the Ollama of
// OLLAMA_HOST if it answers and can chat, else a scripted stand-in, in memory.
func demoModel(ctx context.Context, p *process) (about string, stop func()) {
	client, err := ollama.New(ollama.Config{Host: environ(p.environ, "OLLAMA_HOST"), Model: environ(p.environ, "AGENT_MODEL"), Dial: p.dialOllama})
	why := "the address in OLLAMA_HOST cannot be read"
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		all, err := client.Installed(ctx)
		if slices.ContainsFunc(all, func(m ollama.Model) bool { return m.Chat }) {
			return "The demo thinks with the Ollama at " + client.Address() + ".", client.Close
		}
		client.Close()
		if why = "the Ollama at " + client.Address() + " has no chat model"; err != nil {
			why = "no Ollama answers at " + client.Address()
		}
	}
	llm := ollamatest.New(ollamatest.Demo())
	p.dialOllama = llm.Dial
	p.environ = append(slices.Clone(p.environ), "OLLAMA_HOST=demo.invalid", "AGENT_MODEL=")
	return "There is no model (" + why + "): a scripted stand-in answers. It can show a tool call, a long answer and a helper.", func() { _ = llm.Close() }
}

func environ(list []string, name string) (value string) {
	for _, v := range list {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			value = rest
		}
	}
	return value
}

// language gives the tag of the user's locale, as Telegram's apps send it.
func language(list []string) string {
	locale := cmp.Or(environ(list, "LC_ALL"), environ(list, "LC_MESSAGES"), environ(list, "LANG"))
	tag, _, _ := strings.Cut(locale, ".")
	if tag == "" || tag == "C" || tag == "POSIX" {
		return "en"
	}
	return strings.ReplaceAll(tag, "_", "-")
}
