package ollama

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// split is the plain way to do what lines does.
func split(b []byte) (list []string) {
	for line := range bytes.SplitSeq(b, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			list = append(list, string(line))
		}
	}
	return list
}

func collect(r io.Reader) (list []string, err error) {
	l := newLines(r)
	for {
		line, err := l.next()
		if err != nil {
			return list, err
		}
		list = append(list, string(line))
	}
}

func TestLineLimit(t *testing.T) {
	fits := strings.Repeat("x", maxLine-1)
	if list, err := collect(strings.NewReader(fits + "\n" + "y")); err != io.EOF || len(list) != 2 || list[0] != fits || list[1] != "y" {
		t.Errorf("%d lines, %v", len(list), err)
	}
	if list, err := collect(strings.NewReader(fits + "xx\n")); err != errLine || len(list) != 0 {
		t.Errorf("%d lines, %v", len(list), err)
	}
}

// The line that a failure cuts off is not given out.
func TestFailureInLine(t *testing.T) {
	broken := errors.New("broken")
	r := io.MultiReader(strings.NewReader("one\ntwo\nthr"), iotest.ErrReader(broken))
	if list, err := collect(r); err != broken || !slices.Equal(list, []string{"one", "two"}) {
		t.Errorf("%q %v", list, err)
	}
}

// FuzzLines checks that lines are found wherever the reads happen to end, and
// that no chunk, whatever it holds, makes a call that cannot be stored.
func FuzzLines(f *testing.F) {
	files, err := filepath.Glob("testdata/*on")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("\n\r\n{\"done\":true}"))
	f.Add([]byte(`{"message":{"tool_calls":[{"id":"a","function":{"arguments":"\"\\u0000{\""}},{"id":"a"}]},"done":true}`))
	f.Add([]byte(strings.Repeat(`{"message":{"content":"x"}}`, 400) + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		want := split(b)
		for _, r := range []io.Reader{bytes.NewReader(b), iotest.OneByteReader(bytes.NewReader(b)), iotest.DataErrReader(bytes.NewReader(b))} {
			if got, err := collect(r); err != io.EOF || !slices.Equal(got, want) {
				t.Fatalf("got %q %v, want %q", got, err, want)
			}
		}
		for _, line := range want {
			var part chunk
			if json.Unmarshal([]byte(line), &part) != nil {
				continue
			}
			var r reply
			r.add(&part)
			for _, p := range r.finish(&part).Message.Parts {
				if p.Call == nil {
					continue
				}
				if !json.Valid(p.Call.Args) {
					t.Fatalf("arguments %q are no JSON", p.Call.Args)
				}
				if sent := encodeCall(p.Call).Function.Arguments; !isObject(sent) {
					t.Fatalf("arguments are sent as %q", sent)
				}
			}
		}
	})
}
