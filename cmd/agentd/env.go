package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/joho/godotenv"
)

// maxSecretBytes bounds what is read of a secret's file: it may be a device.
const maxSecretBytes = 64 << 10

// environment is what the configuration is read from: the process's own
// environment over .env, with the files of secrets read.
type environment struct {
	vars         map[string]string
	dotenv       string // path of the .env that was read, "" if there is none
	dotenvSecret bool   // it holds a secret
	faults       configError
	warnings     []string
}

func readEnvironment(environ []string, dir string) environment {
	e := environment{vars: make(map[string]string)}
	for _, line := range environ {
		if name, value, ok := strings.Cut(line, "="); ok && name != "" {
			e.vars[name] = value
		}
	}
	e.mergeDotenv(filepath.Join(dir, ".env"))
	e.warnUnknown()
	if path := filepath.Join(e.vars["CREDENTIALS_DIRECTORY"], "telegram-token"); e.vars["CREDENTIALS_DIRECTORY"] != "" &&
		e.vars["TELEGRAM_BOT_TOKEN"] == "" && e.vars["TELEGRAM_BOT_TOKEN_FILE"] == "" {
		if _, err := os.Stat(path); err == nil { // systemd's LoadCredential=telegram-token:…
			e.vars["TELEGRAM_BOT_TOKEN_FILE"] = path
		}
	}
	for _, name := range secretNames() {
		e.readSecret(name, dir)
	}
	return e
}

// secretNames lists the variables that hold secrets; each has a NAME_FILE.
func secretNames() []string {
	var names []string
	for _, f := range fields() {
		if f.Type == reflect.TypeFor[secret]() {
			names = append(names, f.Tag.Get("env"))
		}
	}
	return names
}

// mergeDotenv adds what path defines and the environment does not. A secret and
// its file are one setting here: either in the environment hides both in .env.
func (e *environment) mergeDotenv(path string) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	e.dotenv = path
	if err != nil {
		e.faults.add(".env", fmt.Sprintf("expected a readable file at %s (%s)", path, reason(err)))
		return
	}
	vars, err := godotenv.Unmarshal(strings.TrimPrefix(string(text), "\ufeff"))
	if err != nil { // the error quotes the file, which holds secrets
		e.faults.add(".env", fmt.Sprintf("expected lines NAME=value in %s (one cannot be read as that)", path))
		return
	}
	for _, name := range secretNames() {
		e.dotenvSecret = e.dotenvSecret || vars[name] != ""
		if e.vars[name] != "" || e.vars[name+"_FILE"] != "" {
			delete(vars, name)
			delete(vars, name+"_FILE")
		}
	}
	maps.Copy(vars, e.vars)
	e.vars = vars
}

// readSecret puts the contents of NAME_FILE in NAME.
func (e *environment) readSecret(name, dir string) {
	file := name + "_FILE"
	path := e.vars[file]
	if path == "" {
		return
	}
	if e.vars[name] != "" {
		e.faults.add(file, "expected only one of "+name+" and "+file+" (both are set)")
		return
	}
	text, err := readHead(absolute(path, dir, e.vars["HOME"]), maxSecretBytes)
	switch text = strings.TrimRight(text, "\r\n"); {
	case err != nil:
		e.faults.add(file, fmt.Sprintf("expected a readable file (%s)", reason(err)))
	case text == "":
		e.faults.add(file, "expected a file that holds the value (it is empty)")
	default:
		e.vars[name] = text
	}
}

func readHead(path string, limit int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, limit))
	return string(text), err
}

// reason is the part of a file's error that is not its path.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// warnUnknown names variables that look like ours and are not: a misspelt
// setting is silently its default otherwise.
func (e *environment) warnUnknown() {
	var known []string
	for _, v := range variables() {
		known = append(known, v.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(e.vars)) {
		ours := slices.ContainsFunc([]string{"TELEGRAM_", "AGENT_", "SHELL_", "WEB_", "MEMORY_"},
			func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		if ours && !slices.Contains(known, name) {
			nearest := slices.MinFunc(known, func(a, b string) int {
				return cmp.Compare(levenshtein.ComputeDistance(name, a), levenshtein.ComputeDistance(name, b))
			})
			e.warnings = append(e.warnings, fmt.Sprintf("%s is not a setting of agentd and does nothing; the nearest is %s", name, nearest))
		}
	}
}

// warnings says what is allowed and yet worth a line at every start.
func (c *config) warnings(vars map[string]string) []string {
	var lines []string
	if c.Allowed.Everybody {
		lines = append(lines, "TELEGRAM_ALLOWED_USERS is *: everybody on Telegram may talk to this bot and use this machine's model")
	}
	for _, id := range c.Allowed.shared {
		lines = append(lines, fmt.Sprintf("TELEGRAM_ALLOWED_USERS: %d is left out, because Telegram uses it for the messages of many people; allow the chat by its negative id instead", id))
	}
	if c.TZ == "" && c.Zone.String() == "UTC" && !slices.Contains([]string{"", "UTC"}, strings.TrimPrefix(vars["TZ"], ":")) {
		lines = append(lines, "TZ names no time zone that is known here, so the agent's clock is in UTC; set AGENT_TZ to one such as Europe/Berlin")
	}
	return lines
}
