package textcall

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestValue(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"a": [1, -2.50, 1e9, true, null]}`, `{"a":[1,-2.50,1e9,true,null]}`},
		{`{'a': 'b "c" \' d'}`, `{"a":"b \"c\" ' d"}`},
		{`{a: """x "y" z""", b_1: ''}`, `{"a":"x \"y\" z","b_1":""}`},
		{`[1, 2,]`, `[1,2]`},
		{`"\u4f60\ud83d\ude00\/\n"`, `"\u4f60\ud83d\ude00\/\n"`},
		{`"\d \u12 \x"`, `"\\d \\u12 \\x"`},
		{"\"a\r\n\x00\xff\"", `"a\u000d\n\u0000` + "\uFFFD" + `"`},
		{`{"a": {"b": 1}</tool_call>`, `{"a":{"b":1}}`},
		// What is not repaired.
		{`{"a": 1`, ""}, {`{"a": "b`, ""}, {`[1, 2`, ""}, {`{"a" 1}`, ""}, {`{"a": b}`, ""}, {`{'a': 'it's'}`, ""},
		{`01`, ""}, {`1_000`, ""}, {`+1`, ""}, {`NaN`, ""}, {`.5`, ""}, {`[,]`, ""}, {`[1 2]`, ""}, {``, ""}, {`“a”`, ""},
	} {
		got, n := readValue([]byte(tt.in))
		if n == len(tt.in) || tt.want != "" {
			if string(got) != tt.want {
				t.Errorf("%s: got %s, want %s", tt.in, got, tt.want)
			}
		}
		if tt.want != "" && !json.Valid(got) {
			t.Errorf("%s: %s is no JSON", tt.in, got)
		}
	}
}

// TestValueJSON sees that JSON stays what it is.
func TestValueJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, err := json.MarshalIndent(draw(t, 3), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := json.Compact(&want, in); err != nil {
			t.Fatal(err)
		}
		if got, n := readValue(in); n != len(in) || string(got) != want.String() {
			t.Fatalf("%s: got %s", in, got)
		}
	})
}

// draw gives a value of JSON.
func draw(t *rapid.T, depth int) any {
	switch n := rapid.IntRange(0, 6).Draw(t, "kind"); {
	case n == 0 && depth > 0:
		out := map[string]any{}
		for range rapid.IntRange(0, 4).Draw(t, "n") {
			out[rapid.String().Draw(t, "key")] = draw(t, depth-1)
		}
		return out
	case n == 1 && depth > 0:
		out := []any{}
		for range rapid.IntRange(0, 4).Draw(t, "n") {
			out = append(out, draw(t, depth-1))
		}
		return out
	case n == 2:
		return rapid.Float64().Draw(t, "number")
	case n == 3:
		return rapid.Bool().Draw(t, "bool")
	case n == 4:
		return nil
	}
	return rapid.String().Draw(t, "text")
}

func TestArguments(t *testing.T) {
	for in, want := range map[string]string{
		``: `{}`, `null`: `{}`, `""`: `{}`, `" "`: `{}`,
		`{"a": 1}`:             `{"a": 1}`,
		`"{\"a\": 1}"`:         `{"a":1}`,
		`"\"{\\\"a\\\": 1}\""`: `{"a":1}`,
		`"{'a': 1,}"`:          `{"a":1}`,
		`"notes.txt"`:          `"notes.txt"`,
		`"{\"a\": 1} x"`:       `"{\"a\": 1} x"`,
		`["a"]`:                `["a"]`,
		`5`:                    `5`,
		`{"id": "9007199254740993", "n": 9007199254740993}`: `{"id": "9007199254740993", "n": 9007199254740993}`,
	} {
		if got := Arguments(json.RawMessage(in)); string(got) != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestResolve(t *testing.T) {
	tools := []string{"read_file", "functions.odd", "Twin", "twin"}
	for name, want := range map[string]string{
		"read_file": "read_file", "read_file<|channel|>commentary": "read_file", "functions.read_file": "read_file",
		"functions.read_file:0": "read_file", " read_file ": "read_file", "Read-File": "read_file", "`read_file`": "read_file", "read_file()": "read_file",
		"default_api.read_file": "read_file", "functions.odd": "functions.odd", "twin": "twin", "Twin": "Twin",
		"TWIN": "", "read": "", "read_files": "", "": "", "<|channel|>": "", "read file": "",
	} {
		if got, ok := Resolve(name, tools); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", name, got, ok, want)
		}
	}
}
