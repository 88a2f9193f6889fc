package main

import (
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// secret holds a value that must never be printed (case C072). The text sits
// behind a pointer because fmt calls no methods on unexported fields: printing a
// struct that holds a secret then shows an address, not the value.
type secret struct{ text *string }

func newSecret(text string) secret { return secret{&text} }

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
