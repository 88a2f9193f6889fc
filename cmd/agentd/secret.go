package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
)

const redacted = "[redacted]"

// secret holds a value that must never be printed (case C072). The text sits
// behind a pointer because fmt calls no methods on unexported fields: printing a
// struct that holds a secret then shows an address, not the value.
type secret struct{ text *string }

func newSecret(text string) secret { return secret{&text} }

// secrets gives what no chat and no log may show: the token, its secret half, the
// proxy's URL, and the passwords in addresses. A password too short to be told
// from a word is left out: every such word would be blotted out.
func (c config) secrets() []string {
	const shortest = 6
	token, proxy := c.Token.Reveal(), c.Proxy.Reveal()
	_, half, _ := strings.Cut(token, ":")
	var all []string
	for _, s := range []string{token, half, proxy} {
		if s != "" {
			all = append(all, s)
		}
	}
	for _, address := range []string{proxy, c.OllamaHost} {
		_, rest, _ := strings.Cut(address, "//")
		rest = cmp.Or(rest, address)
		_, written, _ := strings.Cut(rest[:max(0, strings.LastIndexByte(rest, '@'))], ":")
		if len(written) < shortest {
			continue
		}
		all = append(all, written)
		if plain, err := url.PathUnescape(written); err == nil && plain != written {
			all = append(all, plain)
		}
	}
	return all
}

// Reveal returns the value, "" when none is set. The caller keeps it from logs,
// errors, child processes and the model.
func (s secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

func (s *secret) UnmarshalText(text []byte) error {
	*s = newSecret(string(text))
	return nil
}

// Format answers every verb of fmt, also those that would skip String.
func (secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

func (secret) String() string               { return redacted }
func (secret) GoString() string             { return redacted }
func (secret) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
