// Command agentd is a self-hosted AI agent that people talk to on Telegram. It
// thinks with local models and keeps everything on the machine it runs on.
package main

import (
	"context"
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

// say and complain write a line to the person at the terminal; when that fails,
// there is nobody to tell.
func (p process) say(format string, args ...any) { _, _ = fmt.Fprintf(p.stdout, format+"\n", args...) }
func (p process) complain(format string, args ...any) {
	_, _ = fmt.Fprintf(p.stderr, format+"\n", args...)
}

// fail complains and gives the exit code.
func (p process) fail(err error) int {
	p.complain("agentd: %v", err)
	return exitFailure
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
		os.Exit(process{stderr: os.Stderr}.fail(fmt.Errorf("the working directory is gone; start me from one that exists: %w", err)))
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
		printHelp(p)
		return exitOK
	case "-version", "--version":
		name = "version"
	}
	for _, c := range commands {
		if c.name != name {
			continue
		}
		if len(p.args) > 0 {
			p.complain("agentd %s takes no arguments, but got %q; settings are environment variables: agentd help lists them", name, p.args)
			return exitConfig
		}
		return c.run(ctx, p)
	}
	p.complain("agentd has no command %q; agentd help lists them", name)
	return exitConfig
}

func printHelp(p process) {
	p.say("agentd is a self-hosted AI agent that people talk to on Telegram.\n\nUsage: agentd [command]")
	for _, c := range commands {
		p.say("  %-9s %s", c.name, c.text)
	}
	p.say("  %-9s %s\n\nSettings are environment variables, or lines of .env in the working directory:", "help", "print this")
	for _, v := range variables() {
		line := fmt.Sprintf("  %-24s %s", v.Name, v.Text)
		if v.Default != "" {
			line += " (default: " + v.Default + ")"
		}
		p.say("%s", line)
	}
}

func printVersion(_ context.Context, p process) int {
	p.say("agentd %s", versionText())
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
