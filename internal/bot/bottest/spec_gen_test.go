//go:build makespec

package bottest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var specFile = flag.String("spec", "", "the full machine-readable Bot API specification, to remake api-10.1.json.gz from")

// TestMakeSpec remakes the embedded, reduced specification:
//
//	go test -tags makespec -run TestMakeSpec ./internal/bot/bottest -spec /path/to/api-10.1.json
//
// The full file comes from github.com/PaulSonOfLars/telegram-bot-api-spec (MIT).
// Names, types, required and the fixed values of type tags are kept;
// descriptions are not.
func TestMakeSpec(t *testing.T) {
	full, err := os.ReadFile(*specFile)
	if err != nil {
		t.Fatal(err)
	}
	reduced, err := reduceSpec(full)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	zw, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := zw.Write(reduced); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("api-10.1.json.gz", out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, %d unpacked", out.Len(), len(reduced))
}

func reduceSpec(full []byte) ([]byte, error) {
	type in struct {
		Returns  []string
		Subtypes []string
		Fields   []struct {
			Name, Description string
			Types             []string
			Required          bool
		}
	}
	var src struct {
		Version        string
		Methods, Types map[string]in
	}
	if err := json.Unmarshal(full, &src); err != nil {
		return nil, err
	}
	fixed := regexp.MustCompile(`(?:, must be ([a-z0-9_]+)|, always "([a-z0-9_]+)")$`)
	reduce := func(x in) specEntry {
		e := specEntry{Returns: strings.Join(x.Returns, "|"), Union: strings.Join(x.Subtypes, "|")}
		for _, f := range x.Fields {
			sf := specField{Name: f.Name, Types: strings.Join(f.Types, "|"), Required: f.Required}
			if m := fixed.FindStringSubmatch(f.Description); m != nil {
				sf.Fixed = m[1] + m[2]
			}
			e.Fields = append(e.Fields, sf)
		}
		return e
	}
	dst := spec{Version: src.Version, Methods: map[string]*specEntry{}, Types: map[string]*specEntry{}}
	for name, m := range src.Methods {
		e := reduce(m)
		dst.Methods[name] = &e
	}
	for name, x := range src.Types {
		e := reduce(x)
		dst.Types[name] = &e
	}
	return json.Marshal(dst)
}
