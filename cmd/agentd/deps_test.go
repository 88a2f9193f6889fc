package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// doors says which package may import a module; everything below it included.
var doors = map[string]string{
	"github.com/go-telegram/bot":      "agentd/internal/bot",
	"github.com/yuin/goldmark":        "agentd/internal/bot",
	"github.com/ollama/ollama":        "agentd/internal/ollama",
	"modernc.org/":                    "agentd/internal/sqlite",
	"github.com/pressly/goose":        "agentd/internal/sqlite",
	"github.com/google/jsonschema-go": "agentd/internal/tools",
	"github.com/caarlos0/env":         "agentd/cmd/agentd",
	"github.com/joho/godotenv":        "agentd/cmd/agentd",
}

// free packages may be imported by any other.
var free = []string{"agentd/internal/agent", "agentd/internal/pipenet"}

// TestDependencies keeps the shape that docs/architecture.md draws.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "agentd/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(out)) {
		names := strings.Fields(line)
		n++
		for _, imported := range names[1:] {
			check(t, names[0], imported)
		}
	}
	if n < 10 {
		t.Errorf("only %d packages were looked at", n)
	}
}

func check(t *testing.T, pkg, imported string) {
	t.Helper()
	below := func(pkg, root string) bool { return pkg == root || strings.HasPrefix(pkg, root+"/") }
	switch {
	case below(pkg, "agentd/internal/agent") && !below(imported, "agentd/internal/agent") && strings.Contains(imported, "."):
		t.Errorf("%s imports %s: the words and the loop need the standard library only", pkg, imported)
	case strings.HasPrefix(imported, "agentd/"):
		isFree := slices.ContainsFunc(free, func(f string) bool { return below(imported, f) })
		if !isFree && family(pkg) != family(imported) && !below(pkg, "agentd/cmd/agentd") && imported != "agentd/migrations" {
			t.Errorf("%s imports its sibling %s", pkg, imported)
		}
	default:
		for module, door := range doors {
			if strings.HasPrefix(imported, module) && !below(pkg, door) {
				t.Errorf("%s imports %s, whose door is %s", pkg, imported, door)
			}
		}
	}
}

// family is the package right below internal that a package belongs to.
func family(pkg string) string {
	parts := strings.Split(pkg, "/")
	return strings.Join(parts[:min(3, len(parts))], "/")
}
