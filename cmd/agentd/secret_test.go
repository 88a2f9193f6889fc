package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// C072: neither the token nor a password of an address is in any log line.
func TestLogsHoldNoSecret(t *testing.T) {
	cfg := config{Token: newSecret("7000000001:AAtokenAAtokenAAtokenAAtokenAAtoken"), Proxy: newSecret("socks5://me:pr%40xypass@proxy:1080"), OllamaHost: "gpu:0ll@mapass@gpu-box:11434"}
	secrets := []string{"AAtoken", "xypass", "0ll@mapass"}
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		cfg.LogFormat, cfg.LogLevel = format, slog.LevelDebug
		log := newLogger(&out, cfg).With("with", cfg.Token.Reveal())
		for _, s := range []string{cfg.Token.Reveal(), "bot" + cfg.Token.Reveal() + "/getMe", cfg.Proxy.Reveal(), "auth pr@xypass refused", cfg.OllamaHost} {
			log.Info(s, "text", s, "err", errors.New("dial "+s), slog.Group("in", "a", s))
		}
		for _, s := range secrets {
			if strings.Contains(out.String(), s) {
				t.Errorf("%s: %q is in\n%s", format, s, out.String())
			}
		}
	}
}

func TestSecrets(t *testing.T) {
	for host, want := range map[string]string{
		"http://127.0.0.1:11434": "", "gpu-box:11434": "", "": "", "user@gpu-box": "", "http://user:short@gpu-box": "", "https://user:long-enough@gpu-box/ollama": "long-enough",
	} {
		got := strings.Join(config{OllamaHost: host}.secrets(), " ")
		if got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}
