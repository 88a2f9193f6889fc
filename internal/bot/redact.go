package bot

import (
	"bytes"
	"slices"
	"strings"
)

// redacted stands where a secret stood.
const redacted = "[redacted]"

// redactor writes text without the secrets in it. The end of what was written is
// held back while it may be the beginning of one.
type redactor struct {
	secrets [][]byte // longest first
	held    []byte
	out     strings.Builder
}

// newRedactor returns a redactor of the given secrets; empty ones are ignored.
func newRedactor(secrets []string) redactor {
	var r redactor
	for _, s := range secrets {
		if s != "" {
			r.secrets = append(r.secrets, []byte(s))
		}
	}
	slices.SortStableFunc(r.secrets, func(a, b []byte) int { return len(b) - len(a) })
	return r
}

// redact gives text without the secrets in it.
func redact(text string, secrets []string) string {
	r := newRedactor(secrets)
	r.write([]byte(text))
	r.end()
	return r.out.String()
}

func (r *redactor) String() string { return r.out.String() }

// write adds text.
func (r *redactor) write(text []byte) {
	if len(r.held) > 0 {
		text = append(r.held, text...)
	}
	r.held = append([]byte(nil), r.scan(text, false)...)
}

// end lets out what is held back.
func (r *redactor) end() {
	r.scan(r.held, true)
	r.held = nil
}

// reset forgets all that was written.
func (r *redactor) reset() {
	r.held = nil
	r.out.Reset()
}

// scan writes text up to where a secret may have begun, and gives the rest.
func (r *redactor) scan(text []byte, last bool) []byte {
	start := 0 // of what is to be written
	for i := 0; i < len(text); {
		n := 0
		for _, s := range r.secrets {
			if bytes.HasPrefix(text[i:], s) {
				n = len(s)
				break
			}
			if !last && bytes.HasPrefix(s, text[i:]) {
				r.out.Write(text[start:i])
				return text[i:]
			}
		}
		if n == 0 {
			i++
			continue
		}
		r.out.Write(text[start:i])
		r.out.WriteString(redacted)
		i += n
		start = i
	}
	r.out.Write(text[start:])
	return nil
}
