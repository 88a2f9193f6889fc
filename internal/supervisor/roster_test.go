package supervisor

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

var known = []string{"calculator", "current_time", "word_count"}

func TestRoster(t *testing.T) {
	own := fstest.MapFS{
		"cook.md":    {Data: []byte("---\r\nname: cook\r\ndescription: knows recipes\r\ntools: [calculator, \"word_count\"]\r\nmax_steps: 3\r\nmodel: small\r\n---\r\nYou cook.\r\n")},
		"analyst.md": {Data: []byte("---\nname: analyst\ndescription: ours\n---\nMine.\n")},
		"notes.txt":  {Data: []byte("not an agent")},
	}
	agents, err := Roster(own, known)
	if err != nil {
		t.Fatal(err)
	}
	if len(agents) != 2 || agents[0].Description != "ours" {
		t.Fatalf("got %+v", agents)
	}
	cook := agents[1]
	if cook.Name != "cook" || cook.MaxSteps != 3 || cook.Model != "small" || strings.Join(cook.Tools, " ") != "calculator word_count" || cook.Prompt != "You cook." {
		t.Errorf("got %+v", cook)
	}
}

func TestBuiltInRosterIsSound(t *testing.T) {
	if agents, err := Roster(nil, known); err != nil || len(agents) == 0 {
		t.Fatal(agents, err)
	}
}

func TestRosterNamesEveryFault(t *testing.T) {
	files := map[string]string{
		"a.md": "no front matter",
		"b.md": "---\nname: Big Name\ndescription: x\n---\nx\n",
		"c.md": "---\nname: c\ndescription: x\ntools: shell\n---\nx\n",
		"d.md": "---\nname: d\n---\nx\n",
		"e.md": "---\nname: e\ndescription: x\nmax_steps: none\n---\nx\n",
		"f.md": "---\nname: f\ndescription: x\ncolour: red\n---\nx\n",
		"g.md": "---\nname: g\ndescription: x\n---\n\n",
		"h.md": "---\nname: h\ndescription: x\nmax_steps: 1000000000\n---\nx\n",
		"i.md": "---\nname: i\ndescription: x\n---\n" + strings.Repeat("x", maxSubAgent),
		"j.md": "---\nname: twin\ndescription: x\n---\nx\n",
		"k.md": "---\nname: twin\ndescription: y\n---\ny\n",
	}
	own := fstest.MapFS{"l.md": {Mode: fs.ModeNamedPipe | 0o600}, "m.md": {Mode: fs.ModeDir | 0o700}}
	for name, text := range files {
		own[name] = &fstest.MapFile{Data: []byte(text)}
	}
	_, err := Roster(own, known)
	if err == nil {
		t.Fatal("no error")
	}
	for name, want := range map[string]string{
		"a.md": "front matter", "b.md": "lower-case", "c.md": `no tool "shell"; there are: calculator`, "d.md": "description is missing",
		"e.md": "max_steps must be a number from 1 to 1000", "f.md": `unknown key "colour"`, "g.md": "prompt",
		"h.md": "from 1 to 1000", "i.md": "at most 64 KiB", "k.md": `"twin" is that of j.md`, "l.md": "must be a file", "m.md": "must be a file",
	} {
		found := false
		for line := range strings.Lines(err.Error()) {
			found = found || strings.Contains(line, name) && strings.Contains(line, want)
		}
		if !found {
			t.Errorf("nothing says of %s that %q:\n%v", name, want, err)
		}
	}
}
