package tools

import (
	"encoding/json"
	"testing"
)

func TestWordCount(t *testing.T) {
	tool, err := NewWordCount()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                     "words: 0, characters: 0, lines: 0",
		"one":                  "words: 1, characters: 3, lines: 1",
		"two  words\n":         "words: 2, characters: 11, lines: 1",
		"a\nb\n\nc":            "words: 3, characters: 6, lines: 4",
		"Grüße, мир":           "words: 2, characters: 10, lines: 1",
		"it's a well-known é.": "words: 4, characters: 20, lines: 1",
	} {
		args, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := call(t, tool, string(args)); err != nil || got != want {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
	if _, err := call(t, tool, `{}`); err == nil || err.Error() != "text: missing, expected a string" {
		t.Errorf("error %v", err)
	}
}
