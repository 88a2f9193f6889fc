package bot

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"strings"
	"time"
)

// pairingLife is how long a code is good for.
const pairingLife = 10 * time.Minute

// ErrOwned says that there is an owner, so nobody can be paired any more.
var ErrOwned = errors.New("bot: there is an owner already")

// crockford leaves out the letters that are read as digits.
// https://www.crockford.com/base32.html
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// StartPairing makes a code of 80 bits that makes the first person who sends it in
// a private chat the owner. It is good for ten minutes and replaces an earlier one;
// only its hash is stored. ErrOwned: there is an owner.
func (b *Bot) StartPairing(ctx context.Context) (code string, err error) {
	if err := b.people.refresh(ctx); err != nil {
		return "", err
	}
	if b.people.ownerID() != 0 {
		return "", ErrOwned
	}
	var secret [10]byte
	_, _ = rand.Read(secret[:]) // never fails: https://pkg.go.dev/crypto/rand#Read
	digits := base32.NewEncoding(crockford).WithPadding(base32.NoPadding).EncodeToString(secret[:])
	code = strings.Join([]string{digits[:4], digits[4:8], digits[8:12], digits[12:]}, "-")
	return code, b.store.StartPairing(ctx, codeHash(digits), time.Now().Add(pairingLife))
}

// parseCode reads a code as people copy it: with hyphens (or the dashes that apps
// make of them) between its four groups, or without, then with a digit in it, so
// that a long word is not taken for a wrong try.
func parseCode(text string) (digits string, ok bool) {
	text = strings.TrimSpace(text)
	if cmd, isCommand := parseCommand(text); isCommand && cmd.name == "start" {
		text = cmd.args
	}
	if len(text) > 64 {
		return "", false
	}
	groups := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("-‐‑–—−", r) })
	grouped := len(groups) == 4
	for _, g := range groups {
		grouped = grouped && len(g) == 4
	}
	if !grouped {
		groups = strings.Fields(text)
		if !strings.ContainsAny(text, "0123456789") {
			return "", false
		}
	}
	digits = strings.NewReplacer("O", "0", "I", "1", "L", "1").Replace(strings.ToUpper(strings.Join(groups, "")))
	if len(digits) != 16 || strings.Trim(digits, crockford) != "" {
		return "", false
	}
	return digits, true
}

func codeHash(digits string) string {
	sum := sha256.Sum256([]byte(digits))
	return hex.EncodeToString(sum[:])
}
