// Command agentd is a self-hosted AI agent that people talk to on Telegram. It
// thinks with local models and keeps everything on the machine it runs on.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // slim images have no zones

	"agentd/internal/agent"
	"agentd/internal/bot"
	"agentd/internal/sqlite"
)

// Exit codes. Supervisors restart after exitFailure; exitConfig needs a person.
const (
	exitOK      = 0
	exitFailure = 1
	exitConfig  = 2
)

// version is set by the linker; a plain go build leaves it to the build info.
var version string

// process is what a subcommand gets of the world around it. Tests run the same
// code in a smaller world.
type process struct {
	args    []string
	environ []string
	dir     string // the working directory
	stdout  io.Writer
	stderr  io.Writer

	// The rest is nil outside tests: in-memory networks, tools whose every step a
	// test controls, and where the crash tests let the process die.
	tools        []agent.Tool
	dialTelegram func(ctx context.Context, network, addr string) (net.Conn, error)
	dialOllama   func(ctx context.Context, network, addr string) (net.Conn, error)
	wrapTelegram func(http.RoundTripper) http.RoundTripper
	probe        func(verb string, committed bool) error
}

// commands are the subcommands; without one, run is meant.
var commands = []struct {
	name, text string
	run        func(context.Context, process) int
}{
	{"run", "answer on Telegram until told to stop (the default)", serve},
	{"demo", "try it in a browser, without Telegram", demo},
	{"pair", "print a new code that makes whoever sends it to the bot its owner", pair},
	{"version", "print the version", printVersion},
}

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals // the design is crash-only: a second signal need not be polite
		os.Exit(exitFailure)
	}()
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, "agentd: the working directory is gone; start me from one that exists:", err)
		os.Exit(exitFailure)
	}
	os.Exit(run(ctx, process{args: os.Args[1:], environ: os.Environ(), dir: dir, stdout: os.Stdout, stderr: os.Stderr}))
}

// run is main without the globals.
func run(ctx context.Context, p process) int {
	name := "run"
	if len(p.args) > 0 {
		name, p.args = p.args[0], p.args[1:]
	}
	switch name {
	case "help", "-h", "-help", "--help":
		printHelp(p.stdout)
		return exitOK
	case "-version", "--version":
		name = "version"
	}
	for _, c := range commands {
		if c.name != name {
			continue
		}
		if len(p.args) > 0 {
			fmt.Fprintf(p.stderr, "agentd %s takes no arguments, but got %q; settings are environment variables: agentd help lists them\n", name, p.args)
			return exitConfig
		}
		return c.run(ctx, p)
	}
	fmt.Fprintf(p.stderr, "agentd has no command %q; agentd help lists them\n", name)
	return exitConfig
}

func printHelp(w io.Writer) {
	fmt.Fprintln(w, "agentd is a self-hosted AI agent that people talk to on Telegram.\n\nUsage: agentd [command]")
	for _, c := range commands {
		fmt.Fprintf(w, "  %-9s %s\n", c.name, c.text)
	}
	fmt.Fprintf(w, "  %-9s %s\n\nSettings are environment variables, or lines of .env in the working directory:\n", "help", "print this")
	for _, v := range variables() {
		fmt.Fprintf(w, "  %-24s %s", v.Name, v.Text)
		if v.Default != "" {
			fmt.Fprintf(w, " (default: %s)", v.Default)
		}
		fmt.Fprintln(w)
	}
}

func printVersion(_ context.Context, p process) int {
	fmt.Fprintln(p.stdout, "agentd", versionText())
	return exitOK
}

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// pair stores a new pairing code for a running or later daemon and prints it.
func pair(ctx context.Context, p process) int {
	cfg, log, exit := configure(p)
	if exit != exitOK {
		return exit
	}
	store, err := sqlite.Open(ctx, cfg.database(), sqlite.Config{Log: log})
	if err != nil {
		fmt.Fprintln(p.stderr, "agentd:", err)
		return exitFailure
	}
	defer store.Close()
	b, err := newBot(cfg, store, nil, log, p)
	if err != nil {
		fmt.Fprintln(p.stderr, "agentd:", err)
		return exitFailure
	}
	code, err := b.StartPairing(ctx)
	switch {
	case errors.Is(err, bot.ErrOwned):
		fmt.Fprintln(p.stderr, "agentd: the bot has an owner already; they let others in by /users, or set TELEGRAM_ALLOWED_USERS")
		return exitFailure
	case err != nil:
		fmt.Fprintln(p.stderr, "agentd:", err)
		return exitFailure
	}
	fmt.Fprintf(p.stdout, "Send this to your bot in a private chat within 10 minutes to become its owner: %s\n", code)
	return exitOK
}
