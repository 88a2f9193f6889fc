package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// config is everything the operator can set. A field's tags name its variable
// (env), its default (envDefault, or unset for one that is worked out), what a
// value must be (want, for faults) and what it does (text, for people).
type config struct {
	Token     secret `env:"TELEGRAM_BOT_TOKEN" text:"the bot's token, from @BotFather"`
	TokenFile string `env:"TELEGRAM_BOT_TOKEN_FILE" unset:"$CREDENTIALS_DIRECTORY/telegram-token, if it is there" text:"a file that holds the token instead"`
	APIURL    string `env:"TELEGRAM_API_URL" envDefault:"https://api.telegram.org" text:"Bot API server; a local one works"`
	Proxy     secret `env:"TELEGRAM_PROXY" text:"http, https, socks5 or socks5h URL for all calls to Telegram"`
	ProxyFile string `env:"TELEGRAM_PROXY_FILE" text:"a file that holds that URL instead"`

	Allowed   allowList `env:"TELEGRAM_ALLOWED_USERS" unset:"nobody; the owner pairs" want:"ids separated by commas, or * alone" text:"ids of the people who are answered; a negative id allows a group; * alone allows everybody"`
	OwnerID   int64     `env:"TELEGRAM_OWNER_ID" unset:"who paired, else the first person allowed" want:"the numeric id of a person" text:"who gets alarms and approves"`
	ChatID    int64     `env:"TELEGRAM_CHAT_ID" want:"the numeric id of a chat" text:"where messages of turns without a chat go"`
	Rate      float64   `env:"TELEGRAM_RATE" envDefault:"30" want:"a number, 0 or more" text:"messages a second in all; 0 turns the limit off"`
	ChatRate  float64   `env:"TELEGRAM_CHAT_RATE" envDefault:"1" want:"a number, 0 or more" text:"messages a second in one private chat; 0 turns the limit off"`
	GroupRate float64   `env:"TELEGRAM_GROUP_RATE" envDefault:"20" want:"a number, 0 or more" text:"messages and edits a minute in one group; 0 turns the limit off"`

	LinkPreview bool `env:"LINK_PREVIEW" envDefault:"false" want:"true or false" text:"show previews of links in answers"`

	OllamaHost  string        `env:"OLLAMA_HOST" envDefault:"http://127.0.0.1:11434" text:"Ollama's address; scheme and port may be left out"`
	Parallel    int           `env:"OLLAMA_NUM_PARALLEL" envDefault:"1" want:"a whole number from 1 to 1000" text:"model requests at a time"`
	Model       string        `env:"AGENT_MODEL" unset:"the only one installed, else the owner chooses" text:"the chat model"`
	NumCtx      int           `env:"AGENT_NUM_CTX" unset:"the smaller of the model's own and 16384" want:"a whole number from 2048 to 10000000" text:"size of the context window, in tokens"`
	KeepAlive   time.Duration `env:"AGENT_KEEP_ALIVE" envDefault:"30m" want:"a time such as 30m, or seconds" text:"how long Ollama keeps the model loaded after a request; negative: for ever"`
	LoadTimeout time.Duration `env:"AGENT_LOAD_TIMEOUT" envDefault:"10m" want:"a time above 0 such as 10m, or seconds" text:"wait for the first token: queue, loading, reading the prompt"`
	IdleTimeout time.Duration `env:"AGENT_IDLE_TIMEOUT" envDefault:"2m" want:"a time above 0 such as 2m, or seconds" text:"wait between two tokens"`
	Options     jsonObject    `env:"AGENT_OPTIONS" want:"a JSON object such as {\"temperature\":0.7}" text:"Ollama options as JSON: temperature, seed and the like"`

	MaxSteps   int            `env:"AGENT_MAX_STEPS" envDefault:"15" want:"a whole number from 1 to 1000" text:"rounds of tools in one turn"`
	Workers    int            `env:"AGENT_WORKERS" envDefault:"4" want:"a whole number from 1 to 1000" text:"turns at a time"`
	PromptFile string         `env:"AGENT_PROMPT_FILE" unset:"DATA_DIR/AGENT.md" text:"your own instructions, added to the system prompt"`
	TZ         string         `env:"AGENT_TZ" unset:"TZ, else UTC" want:"a time zone such as Europe/Berlin" text:"time zone of the agent's clock"`
	Zone       *time.Location `env:"-"` // what TZ names
	AgentsDir  string         `env:"AGENTS_DIR" unset:"DATA_DIR/agents" text:"more sub-agents, one .md file each"`

	DataDir      string `env:"DATA_DIR" unset:"$STATE_DIRECTORY, else $XDG_STATE_HOME/agentd, else ~/.local/state/agentd" text:"everything the daemon keeps"`
	WorkspaceDir string `env:"WORKSPACE_DIR" unset:"DATA_DIR/workspace" text:"the folder the agent works in"`
	DotEnv       string `env:"-"` // the .env that was read, "" if none

	Grace     time.Duration `env:"SHUTDOWN_GRACE" envDefault:"20s" want:"a time such as 20s, or seconds" text:"how long running turns may go on after a stop signal"`
	LogLevel  slog.Level    `env:"LOG_LEVEL" envDefault:"info" want:"debug, info, warn or error" text:"debug, info, warn or error"`
	LogFormat string        `env:"LOG_FORMAT" unset:"text on a terminal, else json" want:"text or json" text:"text or json"`
	HTTPAddr  string        `env:"HTTP_ADDR" unset:"off" want:"host:port such as 127.0.0.1:8080" text:"where /healthz and /readyz answer"`
}

// variable describes one setting to people.
type variable struct{ Name, Default, Text string }

// variables lists all settings in the order of config. README's table and the
// help text are made of it.
func variables() []variable {
	var all []variable
	for _, f := range fields() {
		all = append(all, variable{
			Name:    f.Tag.Get("env"),
			Default: cmp.Or(f.Tag.Get("envDefault"), f.Tag.Get("unset")),
			Text:    f.Tag.Get("text"),
		})
	}
	return all
}

// fields returns config's fields that have a variable.
func fields() []reflect.StructField {
	all := reflect.VisibleFields(reflect.TypeFor[config]())
	return slices.DeleteFunc(all, func(f reflect.StructField) bool { return f.Tag.Get("env") == "-" })
}

// fault is one thing wrong with the configuration: what is expected, and what is
// there instead. It never holds a value, because what stands in the wrong
// variable may be a secret (case C112).
type fault struct{ Name, Text string }

func (f fault) String() string { return f.Name + ": " + f.Text }

// configError holds every fault of a configuration, in the order of config.
type configError []fault

// Error returns one line a fault.
func (e configError) Error() string {
	lines := make([]string, len(e))
	for i, f := range e {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// add notes a fault, unless the variable has one already: what follows from a
// value that could not be read is no news.
func (e *configError) add(name, text string) {
	if !slices.ContainsFunc(*e, func(f fault) bool { return f.Name == name }) {
		*e = append(*e, fault{name, text})
	}
}

// expect notes that a variable is not what its want tag says.
func (e *configError) expect(name, why string) {
	for _, f := range fields() {
		if f.Tag.Get("env") == name {
			e.add(name, "expected "+f.Tag.Get("want")+" ("+why+")")
		}
	}
}

// loadConfig reads the configuration from environ ("NAME=value", as os.Environ
// gives it) and from .env in dir, the working directory; environ wins. Warnings
// are whole sentences for the log. The error is a configError with every fault.
func loadConfig(environ []string, dir string) (config, []string, error) {
	e := readEnvironment(environ, dir)
	faults := e.faults

	c := config{DotEnv: e.dotenv}
	err := env.ParseWithOptions(&c, env.Options{
		Environment: e.vars,
		FuncMap:     map[reflect.Type]env.ParserFunc{reflect.TypeFor[time.Duration](): parseDuration},
	})
	var unread env.AggregateError
	if err != nil && !errors.As(err, &unread) {
		return config{}, nil, err
	}
	for _, err := range unread.Errors {
		var bad env.ParseError
		if !errors.As(err, &bad) {
			return config{}, nil, err
		}
		faults.expect(parseFault(bad))
	}
	c.complete(e.vars, dir, &faults)
	c.check(&faults)
	warnings := slices.Concat(e.warnings, c.warnings(e.vars))

	pathFaults, pathWarnings := checkPaths(c, e.dotenvSecret)
	faults = append(faults, pathFaults...)
	warnings = append(warnings, pathWarnings...)
	if len(faults) == 0 {
		return c, warnings, nil
	}
	order := make(map[string]int)
	for i, v := range variables() {
		order[v.Name] = i
	}
	slices.SortStableFunc(faults, func(a, b fault) int { return order[a.Name] - order[b.Name] })
	return config{}, warnings, faults
}

// parseFault says which variable an error of the env package is about and what
// is wrong, without the value that the error's own text repeats.
func parseFault(err env.ParseError) (name, why string) {
	f, _ := reflect.TypeFor[config]().FieldByName(err.Name)
	why = "it cannot be read as that"
	var bad badValue
	if errors.As(err.Err, &bad) {
		why = string(bad)
	}
	return f.Tag.Get("env"), why
}

// complete works out the defaults that depend on other variables and brings
// values into their one form.
func (c *config) complete(vars map[string]string, dir string, faults *configError) {
	switch token, err := findToken(c.Token.Reveal()); {
	case err == nil:
		c.Token = newSecret(token)
	case c.Token.Reveal() != "" || c.TokenFile == "": // else the file's fault says it all
		faults.add("TELEGRAM_BOT_TOKEN", err.Error())
	}
	c.APIURL = strings.TrimRight(c.APIURL, "/")
	c.LogFormat = strings.ToLower(c.LogFormat)

	c.Zone = time.UTC
	if name := cmp.Or(c.TZ, strings.TrimPrefix(vars["TZ"], ":")); name != "" {
		if zone, err := time.LoadLocation(name); err == nil {
			c.Zone = zone
		} else if c.TZ != "" {
			faults.expect("AGENT_TZ", "there is no zone of this name")
		}
	}

	state, _, _ := strings.Cut(vars["STATE_DIRECTORY"], ":") // systemd separates several by colons
	home := vars["HOME"]
	switch {
	case c.DataDir != "":
	case state != "":
		c.DataDir = state
	case filepath.IsAbs(vars["XDG_STATE_HOME"]): // a relative one is to be ignored, says the XDG specification
		c.DataDir = filepath.Join(vars["XDG_STATE_HOME"], "agentd")
	case home != "":
		c.DataDir = filepath.Join(home, ".local", "state", "agentd")
	default:
		faults.add("DATA_DIR", "expected a folder for the daemon's data (HOME is not set either): set DATA_DIR")
		return
	}
	c.WorkspaceDir = cmp.Or(c.WorkspaceDir, filepath.Join(c.DataDir, "workspace"))
	c.PromptFile = cmp.Or(c.PromptFile, filepath.Join(c.DataDir, "AGENT.md"))
	c.AgentsDir = cmp.Or(c.AgentsDir, filepath.Join(c.DataDir, "agents"))
	for _, p := range []*string{&c.DataDir, &c.WorkspaceDir, &c.PromptFile, &c.AgentsDir, &c.TokenFile, &c.ProxyFile} {
		if *p != "" {
			*p = absolute(*p, dir, home)
		}
	}
}

// check notes the values that can be read but not used.
func (c *config) check(faults *configError) {
	rate := func(r float64) bool { return r >= 0 && !math.IsInf(r, 1) }
	for _, v := range []struct {
		name string
		ok   bool
	}{
		{"TELEGRAM_OWNER_ID", c.OwnerID >= 0 && !isShared(c.OwnerID)},
		{"TELEGRAM_RATE", rate(c.Rate)},
		{"TELEGRAM_CHAT_RATE", rate(c.ChatRate)},
		{"TELEGRAM_GROUP_RATE", rate(c.GroupRate)},
		{"OLLAMA_NUM_PARALLEL", c.Parallel >= 1 && c.Parallel <= 1000},
		{"AGENT_NUM_CTX", c.NumCtx == 0 || c.NumCtx >= 2048 && c.NumCtx <= 10_000_000},
		{"AGENT_LOAD_TIMEOUT", c.LoadTimeout > 0},
		{"AGENT_IDLE_TIMEOUT", c.IdleTimeout > 0},
		{"AGENT_MAX_STEPS", c.MaxSteps >= 1 && c.MaxSteps <= 1000},
		{"AGENT_WORKERS", c.Workers >= 1 && c.Workers <= 1000},
		{"SHUTDOWN_GRACE", c.Grace >= 0},
		{"LOG_FORMAT", c.LogFormat == "" || c.LogFormat == "text" || c.LogFormat == "json"},
		{"HTTP_ADDR", c.HTTPAddr == "" || isListenAddress(c.HTTPAddr)},
	} {
		if !v.ok {
			faults.expect(v.name, "it is something else")
		}
	}
	if err := checkAPIURL(c.APIURL); err != nil {
		faults.add("TELEGRAM_API_URL", err.Error())
	}
	if err := checkProxy(c.Proxy.Reveal()); err != nil {
		faults.add("TELEGRAM_PROXY", err.Error())
	}
	if err := checkOllamaHost(c.OllamaHost); err != nil {
		faults.add("OLLAMA_HOST", err.Error())
	}
	var options map[string]json.RawMessage
	if json.Unmarshal(c.Options, &options) == nil && options["num_ctx"] != nil {
		faults.add("AGENT_OPTIONS", "num_ctx does not belong here (the history is cut to fit it): set AGENT_NUM_CTX")
	}
}
