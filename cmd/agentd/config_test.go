package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const testToken = "123456789:TESTTOKEN-abcdefghijklmnopqrstuvwxyz012"

// minimal is an environment that is enough to start.
func minimal(t *testing.T, more ...string) []string {
	return append([]string{"HOME=" + t.TempDir(), "TELEGRAM_BOT_TOKEN=" + testToken}, more...)
}

func mustLoad(t *testing.T, dir string, environ []string) (config, []string) {
	t.Helper()
	c, warnings, err := loadConfig(environ, dir)
	if err != nil {
		t.Fatalf("loadConfig: %v", err)
	}
	return c, warnings
}

// faultNames loads a configuration that must fail and returns the variables named.
func faultNames(t *testing.T, dir string, environ []string) ([]string, string) {
	t.Helper()
	_, _, err := loadConfig(environ, dir)
	var faults configError
	if !errors.As(err, &faults) {
		t.Fatalf("loadConfig: error %v, want a configError", err)
	}
	var names []string
	for _, f := range faults {
		names = append(names, f.Name)
	}
	return names, err.Error()
}

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	c, warnings := mustLoad(t, dir, []string{"HOME=" + home, "TELEGRAM_BOT_TOKEN=" + testToken, "AGENT_MODEL="})
	if len(warnings) > 0 {
		t.Errorf("warnings %q, want none", warnings)
	}
	data := filepath.Join(home, ".local/state/agentd")
	got := fmt.Sprintln(c.Token.Reveal(), c.APIURL, c.Proxy.Reveal(), c.Allowed, c.OwnerID, c.ChatID, c.Rate, c.ChatRate, c.GroupRate, c.LinkPreview,
		c.OllamaHost, c.Parallel, c.Model, c.NumCtx, c.KeepAlive, c.LoadTimeout, c.IdleTimeout, string(c.Options),
		c.MaxSteps, c.Workers, c.Grace, c.LogLevel, c.LogFormat, c.HTTPAddr, c.Zone, c.DotEnv)
	want := fmt.Sprintln(testToken, "https://api.telegram.org", "", allowList{}, 0, 0, 30, 1, 20, false,
		"http://127.0.0.1:11434", 1, "", 0, 30*time.Minute, 10*time.Minute, 2*time.Minute, "",
		15, 4, 20*time.Second, slog.LevelInfo, "", "", time.UTC, "")
	if got != want {
		t.Errorf("defaults\n got %s\nwant %s", got, want)
	}
	paths := []string{c.DataDir, c.WorkspaceDir, c.PromptFile, c.AgentsDir}
	if want := []string{data, data + "/workspace", data + "/AGENT.md", data + "/agents"}; !slices.Equal(paths, want) {
		t.Errorf("paths %q, want %q", paths, want)
	}
}

func TestDataDir(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	for _, test := range []struct {
		name    string
		environ []string
		want    string
	}{
		{"explicit", []string{"DATA_DIR=/x/y", "STATE_DIRECTORY=/s", "XDG_STATE_HOME=/g", "HOME=" + home}, "/x/y"},
		{"relative", []string{"DATA_DIR=data"}, dir + "/data"},
		{"home", []string{"DATA_DIR=~/data", "HOME=" + home}, home + "/data"},
		{"systemd", []string{"STATE_DIRECTORY=/s/a:/s/b", "XDG_STATE_HOME=/g"}, "/s/a"},
		{"xdg", []string{"XDG_STATE_HOME=/g", "HOME=" + home}, "/g/agentd"},
		{"relative xdg", []string{"XDG_STATE_HOME=g", "HOME=" + home}, home + "/.local/state/agentd"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, _ := mustLoad(t, dir, append(test.environ, "TELEGRAM_BOT_TOKEN="+testToken))
			if c.DataDir != test.want {
				t.Errorf("DataDir %q, want %q", c.DataDir, test.want)
			}
		})
	}
	if names, _ := faultNames(t, dir, []string{"TELEGRAM_BOT_TOKEN=" + testToken}); !slices.Equal(names, []string{"DATA_DIR"}) {
		t.Errorf("without any home: faults %q, want DATA_DIR", names)
	}
}

func TestValues(t *testing.T) {
	c, _ := mustLoad(t, t.TempDir(), minimal(t,
		"TELEGRAM_API_URL=http://localhost:8081/", "TELEGRAM_PROXY=socks5h://u:p@proxy:1080", "TELEGRAM_RATE=0", "LINK_PREVIEW=true",
		"OLLAMA_HOST=gpu-box:11434", "AGENT_KEEP_ALIVE=-1", "AGENT_LOAD_TIMEOUT=90", "AGENT_IDLE_TIMEOUT=1m30s",
		`AGENT_OPTIONS={"seed": 12345678901234567890}`, "AGENT_TZ=Europe/Berlin", "TZ=Asia/Tokyo", "LOG_LEVEL=debug", "LOG_FORMAT=JSON",
		"HTTP_ADDR=:8080", "SHUTDOWN_GRACE=0", "AGENT_NUM_CTX=8192"))
	got := fmt.Sprintln(c.APIURL, c.Proxy.Reveal(), c.Rate, c.LinkPreview, c.OllamaHost, c.KeepAlive, c.LoadTimeout, c.IdleTimeout,
		string(c.Options), c.Zone, c.LogLevel, c.LogFormat, c.HTTPAddr, c.Grace, c.NumCtx)
	want := fmt.Sprintln("http://localhost:8081", "socks5h://u:p@proxy:1080", 0, true, "gpu-box:11434", -time.Second, 90*time.Second, 90*time.Second,
		`{"seed": 12345678901234567890}`, "Europe/Berlin", slog.LevelDebug, "json", ":8080", time.Duration(0), 8192)
	if got != want {
		t.Errorf("values\n got %s\nwant %s", got, want)
	}
	if c, _ := mustLoad(t, t.TempDir(), minimal(t, "TZ=:Asia/Tokyo")); c.Zone.String() != "Asia/Tokyo" {
		t.Errorf("zone %s, want that of TZ", c.Zone)
	}
}

// Case C112: a bad value stops the start with a line that names the variable,
// never the value.
func TestFaults(t *testing.T) {
	const leak = "s3cr3t"
	for _, test := range []struct{ name, value string }{
		{"TELEGRAM_BOT_TOKEN", ""},
		{"TELEGRAM_BOT_TOKEN", "1234:" + leak},
		{"TELEGRAM_BOT_TOKEN", testToken + " " + testToken + leak},
		{"TELEGRAM_BOT_TOKEN_FILE", "/nonexistent/" + leak},
		{"TELEGRAM_API_URL", "api.telegram.org/" + leak},
		{"TELEGRAM_API_URL", "ftp://host/" + leak},
		{"TELEGRAM_API_URL", "https:///" + leak},
		{"TELEGRAM_API_URL", "https://user:" + leak + "@host"},
		{"TELEGRAM_API_URL", "https://api.telegram.org/bot" + testToken},
		{"TELEGRAM_API_URL", "https://api.telegram.org/bot"},
		{"TELEGRAM_PROXY", "ftp://u:" + leak + "@host"},
		{"TELEGRAM_PROXY", "u:" + leak + "@host:1080"},
		{"TELEGRAM_PROXY", "http://%zz" + leak},
		{"TELEGRAM_ALLOWED_USERS", "123, @" + leak},
		{"TELEGRAM_OWNER_ID", leak},
		{"TELEGRAM_OWNER_ID", "-5"},
		{"TELEGRAM_OWNER_ID", "1087968824"},
		{"TELEGRAM_CHAT_ID", "@" + leak},
		{"TELEGRAM_RATE", "-1"},
		{"TELEGRAM_RATE", "NaN"},
		{"TELEGRAM_CHAT_RATE", "Inf"},
		{"TELEGRAM_GROUP_RATE", leak},
		{"LINK_PREVIEW", leak},
		{"OLLAMA_HOST", "ftp://" + leak},
		{"OLLAMA_HOST", "host:" + leak},
		{"OLLAMA_NUM_PARALLEL", "0"},
		{"AGENT_NUM_CTX", "16k"},
		{"AGENT_NUM_CTX", "-1"},
		{"AGENT_KEEP_ALIVE", leak},
		{"AGENT_LOAD_TIMEOUT", "0"},
		{"AGENT_IDLE_TIMEOUT", "-2m"},
		{"AGENT_OPTIONS", "temperature=1 " + leak},
		{"AGENT_OPTIONS", `["` + leak + `"]`},
		{"AGENT_OPTIONS", "null"},
		{"AGENT_OPTIONS", `{"num_ctx": 8192}`},
		{"AGENT_MAX_STEPS", "0"},
		{"AGENT_WORKERS", "many"},
		{"AGENT_WORKERS", "99999999999999999999"},
		{"AGENT_TZ", "Mars/" + leak},
		{"SHUTDOWN_GRACE", "-1s"},
		{"LOG_LEVEL", leak},
		{"LOG_FORMAT", leak},
		{"HTTP_ADDR", "8080"},
		{"HTTP_ADDR", "localhost:" + leak},
	} {
		t.Run(test.name+"="+test.value, func(t *testing.T) {
			environ := minimal(t)
			if test.name == "TELEGRAM_BOT_TOKEN_FILE" {
				environ = environ[:1]
			}
			names, text := faultNames(t, t.TempDir(), append(environ, test.name+"="+test.value))
			if !slices.Equal(names, []string{test.name}) {
				t.Errorf("faults of %q, want one of %s", names, test.name)
			}
			if strings.Contains(text, leak) || strings.Contains(text, testToken) {
				t.Errorf("the fault repeats the value: %s", text)
			}
			if !strings.Contains(text, "expected") && !strings.Contains(text, "set AGENT_NUM_CTX") {
				t.Errorf("the fault does not say what is expected: %s", text)
			}
		})
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	dir := t.TempDir()
	names, text := faultNames(t, dir, []string{"HOME=" + t.TempDir(), "HTTP_ADDR=x", "AGENT_WORKERS=0", "TELEGRAM_RATE=fast",
		"TELEGRAM_ALLOWED_USERS=me", "WORKSPACE_DIR=/"})
	want := []string{"TELEGRAM_BOT_TOKEN", "TELEGRAM_ALLOWED_USERS", "TELEGRAM_RATE", "AGENT_WORKERS", "AGENT_PROMPT_FILE", "AGENTS_DIR", "WORKSPACE_DIR", "HTTP_ADDR"}
	if !slices.Equal(names, want) {
		t.Errorf("faults of %q, want %q", names, want)
	}
	if lines := strings.Count(text, "\n") + 1; lines != len(want) {
		t.Errorf("%d lines, want one a fault:\n%s", lines, text)
	}
	for _, hint := range []string{"@BotFather", "/newbot", "agentd demo"} {
		if !strings.Contains(text, hint) {
			t.Errorf("the newcomer is not told of %s", hint)
		}
	}
}

func TestToken(t *testing.T) {
	for name, value := range map[string]string{
		"quoted":    `"` + testToken + `"`,
		"newline":   " " + testToken + "\r\n",
		"URL":       "https://api.telegram.org/bot" + testToken + "/getMe",
		"BotFather": "Done! Congratulations on your new bot.\nUse this token to access the HTTP API:\n" + testToken + "\nKeep your token secure",
		"twice":     testToken + " " + testToken,
	} {
		t.Run(name, func(t *testing.T) {
			if c, _ := mustLoad(t, t.TempDir(), minimal(t, "TELEGRAM_BOT_TOKEN="+value)); c.Token.Reveal() != testToken {
				t.Error("the token was not found")
			}
		})
	}
}

// Cases C092 and C112.
func TestAllowList(t *testing.T) {
	for _, test := range []struct {
		text   string
		want   allowList
		fault  string
		shared int // warnings
	}{
		{text: "", want: allowList{}},
		{text: "123, -100123", want: allowList{IDs: []int64{123, -100123}}},
		{text: " 123 ,123", want: allowList{IDs: []int64{123}}},
		{text: "*", want: allowList{Everybody: true}},
		{text: "123, @name,,-100123", fault: "item 2 is a name"},
		{text: "123,,-100123", fault: "item 2 is empty"},
		{text: "123,", fault: "item 2 is empty"},
		{text: " ", fault: "item 1 is empty"},
		{text: "123,*", fault: "item 2 is *"},
		{text: "1;2", fault: "item 1 is not an id"},
		{text: "0", fault: "item 1 is not an id"},
		{text: "99999999999999999999", fault: "item 1 is not an id"},
		{text: "1087968824,5,136817688,777000", want: allowList{IDs: []int64{5}}, shared: 3},
		{text: "777000", want: allowList{}, shared: 1}, // nobody, never everybody
	} {
		t.Run(test.text, func(t *testing.T) {
			environ := minimal(t, "TELEGRAM_ALLOWED_USERS="+test.text)
			if test.fault != "" {
				if _, text := faultNames(t, t.TempDir(), environ); !strings.Contains(text, test.fault) {
					t.Errorf("fault %q, want %q", text, test.fault)
				}
				return
			}
			c, warnings := mustLoad(t, t.TempDir(), environ)
			if c.Allowed.Everybody != test.want.Everybody || !slices.Equal(c.Allowed.IDs, test.want.IDs) {
				t.Errorf("got %+v, want %+v", c.Allowed, test.want)
			}
			expected := test.shared
			if test.want.Everybody {
				expected = 1
			}
			if len(warnings) != expected {
				t.Errorf("warnings %q, want %d", warnings, expected)
			}
		})
	}
}

func TestDotenv(t *testing.T) {
	dir := t.TempDir()
	path := writeFile(t, filepath.Join(dir, ".env"), "\ufeffexport TELEGRAM_BOT_TOKEN=\""+testToken+"\"\r\nAGENT_MODEL=fromfile # note\r\nAGENT_WORKERS=7\r\n")
	c, warnings := mustLoad(t, dir, []string{"HOME=" + t.TempDir(), "AGENT_MODEL=fromenv"})
	if c.Token.Reveal() != testToken || c.Model != "fromenv" || c.Workers != 7 || c.DotEnv != path || len(warnings) > 0 {
		t.Errorf("model %q, workers %d, .env %q, warnings %q", c.Model, c.Workers, c.DotEnv, warnings)
	}

	t.Run("a file in the environment hides the token in .env", func(t *testing.T) {
		other := strings.Replace(testToken, "TEST", "REAL", 1)
		file := writeFile(t, filepath.Join(t.TempDir(), "token"), other+"\n")
		if c, _ := mustLoad(t, dir, []string{"HOME=" + t.TempDir(), "TELEGRAM_BOT_TOKEN_FILE=" + file}); c.Token.Reveal() != other {
			t.Error("the token is not that of the file")
		}
	})
	t.Run("world-readable", func(t *testing.T) {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		_, warnings := mustLoad(t, dir, []string{"HOME=" + t.TempDir()})
		if len(warnings) != 1 || !strings.Contains(warnings[0], "chmod 600 "+path) {
			t.Errorf("warnings %q, want one with chmod", warnings)
		}
	})
	t.Run("broken", func(t *testing.T) {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, ".env"), "AGENT_MODEL=x\n/bot"+testToken+"\n")
		names, text := faultNames(t, dir, minimal(t))
		if !slices.Equal(names, []string{".env"}) || strings.Contains(text, "TESTTOKEN") {
			t.Errorf("faults of %q: %s", names, text)
		}
	})
	t.Run("a folder", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, ".env"), 0o700); err != nil {
			t.Fatal(err)
		}
		if names, _ := faultNames(t, dir, minimal(t)); !slices.Equal(names, []string{".env"}) {
			t.Errorf("faults of %q, want .env", names)
		}
	})
}

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "token"), testToken+"\r\n")
	proxy := writeFile(t, filepath.Join(dir, "proxy"), "http://u:p@host\n")
	empty := writeFile(t, filepath.Join(dir, "empty"), "\n")

	c, _ := mustLoad(t, dir, []string{"HOME=" + t.TempDir(), "TELEGRAM_BOT_TOKEN_FILE=token", "TELEGRAM_PROXY_FILE=" + proxy})
	if c.Token.Reveal() != testToken || c.TokenFile != filepath.Join(dir, "token") || c.Proxy.Reveal() != "http://u:p@host" {
		t.Errorf("token file %q, secrets wrong", c.TokenFile)
	}

	for name, environ := range map[string][]string{
		"both":    minimal(t, "TELEGRAM_BOT_TOKEN_FILE=token"),
		"missing": {"HOME=" + t.TempDir(), "TELEGRAM_BOT_TOKEN_FILE=nowhere"},
		"empty":   {"HOME=" + t.TempDir(), "TELEGRAM_BOT_TOKEN_FILE=" + empty},
		"folder":  {"HOME=" + t.TempDir(), "TELEGRAM_BOT_TOKEN_FILE=" + dir},
	} {
		t.Run(name, func(t *testing.T) {
			if names, _ := faultNames(t, dir, environ); !slices.Equal(names, []string{"TELEGRAM_BOT_TOKEN_FILE"}) {
				t.Errorf("faults of %q, want TELEGRAM_BOT_TOKEN_FILE", names)
			}
		})
	}

	t.Run("systemd credential", func(t *testing.T) {
		credentials := t.TempDir()
		file := writeFile(t, filepath.Join(credentials, "telegram-token"), testToken)
		c, _ := mustLoad(t, t.TempDir(), []string{"HOME=" + t.TempDir(), "CREDENTIALS_DIRECTORY=" + credentials})
		if c.Token.Reveal() != testToken || c.TokenFile != file {
			t.Errorf("token file %q, want %q", c.TokenFile, file)
		}
		other := strings.Replace(testToken, "TEST", "REAL", 1)
		if c, _ := mustLoad(t, t.TempDir(), minimal(t, "CREDENTIALS_DIRECTORY="+credentials, "TELEGRAM_BOT_TOKEN="+other)); c.Token.Reveal() != other {
			t.Error("the credential hides the token that is set")
		}
	})
}

func TestUnknownVariables(t *testing.T) {
	_, warnings := mustLoad(t, t.TempDir(), minimal(t, "TELEGRAM_TOKEN="+testToken, "AGENT_MODLE=x", "OTHER_MODEL=x", "PATH=/bin"))
	if len(warnings) != 2 || !strings.Contains(warnings[0], "AGENT_MODLE") || !strings.Contains(warnings[0], "nearest is AGENT_MODEL") ||
		!strings.Contains(warnings[1], "TELEGRAM_TOKEN ") || !strings.Contains(warnings[1], "nearest is TELEGRAM_BOT_TOKEN") {
		t.Errorf("warnings %q", warnings)
	}
	if strings.Contains(strings.Join(warnings, ""), testToken) {
		t.Error("a warning repeats the value")
	}
}

func TestUnusableTZ(t *testing.T) {
	c, warnings := mustLoad(t, t.TempDir(), minimal(t, "TZ=CET-1CEST"))
	if c.Zone != time.UTC || len(warnings) != 1 || !strings.Contains(warnings[0], "AGENT_TZ") {
		t.Errorf("zone %s, warnings %q", c.Zone, warnings)
	}
}

// Case C072.
func TestSecretIsNeverPrinted(t *testing.T) {
	c, _ := mustLoad(t, t.TempDir(), minimal(t, "TELEGRAM_PROXY=http://u:"+testToken+"@host"))
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&out, verb+verb+verb+"\n", c, &c, struct{ hidden secret }{c.Token})
		fmt.Fprintf(&out, verb+"\n", c.Token)
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("start", "config", c, "token", c.Token)
	}
	if err := json.NewEncoder(&out).Encode(map[string]any{"config": c.Token, "pointer": &c.Proxy}); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{testToken, "TESTTOKEN", fmt.Sprintf("%x", "TESTTOKEN"), fmt.Sprintf("%X", "TESTTOKEN")} {
		if strings.Contains(out.String(), form) {
			t.Errorf("a secret was printed as %s", form)
		}
	}
	if !strings.Contains(out.String(), `{"config":"[redacted]","pointer":"[redacted]"}`) {
		t.Error("JSON does not show secrets as [redacted]")
	}
}

// TestREADMEVariables keeps README's table equal to the code.
func TestREADMEVariables(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "<!-- variables -->")
	got, _, ok := strings.Cut(rest, "<!-- /variables -->")
	if !ok {
		t.Fatal("README.md has no table between <!-- variables --> and <!-- /variables -->")
	}
	var table strings.Builder
	table.WriteString("\n| Variable | Default | Meaning |\n| --- | --- | --- |\n")
	for _, v := range variables() {
		if v.Text == "" {
			t.Errorf("%s has no description", v.Name)
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", v.Name, v.Default, v.Text)
	}
	if got != table.String() {
		t.Errorf("README.md's table of variables is not the code's; it should be\n%s", table.String())
	}
}
