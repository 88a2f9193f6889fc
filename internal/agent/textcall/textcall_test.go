package textcall

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// testTools are those that the corpus was written for.
var testTools = []string{"read_file", "write_file", "list_tools", "shell"}

// value gives JSON as a value in which numbers keep their digits.
func value(t *testing.T, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return v
}

func corpus(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestCorpus takes every file of the corpus to what is expected of it (C019, C022,
// C083, C084, C085).
func TestCorpus(t *testing.T) {
	var expected map[string]json.RawMessage
	if err := json.Unmarshal([]byte(corpus(t, "toolcalls_expected.json")), &expected); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{
		"toolcall_hermes_text_before.txt": "I will look at it.",
		"react_final_only.txt":            "The capital is **Paris**.\nIt has two lines.",
	}
	thoughts := map[string]string{
		"toolcall_harmony.txt":      "We need the file.",
		"toolcall_think_before.txt": `Maybe call {"name":"shell","arguments":{"command":"rm x"}}? No, read first.`,
		"react_simple.txt":          "I need the file.",
		"react_hallucinated.txt":    "I need the file.",
		"react_final_only.txt":      "no tool needed",
	}
	files, err := filepath.Glob("testdata/*_*.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "think_") {
			continue
		}
		seen++
		t.Run(name, func(t *testing.T) {
			got := Parse(corpus(t, name), testTools)
			var want [][2]json.RawMessage
			switch raw := expected[name]; {
			case string(raw) == `"unknown-tool"`:
				if len(got.Calls) != 1 || !got.Calls[0].Unknown || got.Text != "" {
					t.Fatalf("got %+v", got)
				}
				return
			case len(raw) == 0:
				t.Fatal("nothing is expected of this file")
			default:
				if err := json.Unmarshal(raw, &want); err != nil {
					t.Fatal(err)
				}
			}
			if len(got.Calls) != len(want) {
				t.Fatalf("got %+v, want %s", got, want)
			}
			for i, c := range got.Calls {
				if `"`+c.Name+`"` != string(want[i][0]) || c.Unknown || !reflect.DeepEqual(value(t, c.Args), value(t, want[i][1])) {
					t.Errorf("got %s %s, want %s", c.Name, c.Args, want[i])
				}
			}
			if got.Text != texts[name] || got.Thought != thoughts[name] {
				t.Errorf("got text %q, thought %q", got.Text, got.Thought)
			}
		})
	}
	if seen != len(expected) {
		t.Errorf("%d files, %d expected", seen, len(expected))
	}
}
