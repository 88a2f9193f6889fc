package deploy

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

func load(ctx context.Context, details types.ConfigDetails) (*types.Project, error) {
	return loader.LoadWithContext(ctx, details, func(o *loader.Options) { o.SetProjectName("agentd", true) })
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// setting returns the only value of a setting of the systemd unit.
func setting(t *testing.T, name string) string {
	t.Helper()
	var values []string
	for line := range strings.Lines(read(t, "../../systemd/agentd.service")) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			values = append(values, v)
		}
	}
	if len(values) != 1 {
		t.Fatalf("agentd.service sets %s %d times", name, len(values))
	}
	return values[0]
}

// TestUnitLeavesToolsAlone: the unit's filters are inherited by what the agent
// runs for people. Memory that is written and run is what node lives on; a
// filter that kills stops sed -i at its chown.
func TestUnitLeavesToolsAlone(t *testing.T) {
	unit := read(t, "../../systemd/agentd.service")
	for _, no := range []string{"MemoryDenyWriteExecute=yes", "RestrictNamespaces=", "SystemCallFilter=~"} {
		if strings.Contains(unit, "\n"+no) {
			t.Errorf("agentd.service has %s, which breaks tools", no)
		}
	}
	if got := setting(t, "SystemCallErrorNumber"); got != "EPERM" {
		t.Errorf("SystemCallErrorNumber=%s, want EPERM", got)
	}
	for _, call := range []string{"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"} {
		if !strings.Contains(unit, call) {
			t.Errorf("agentd.service does not allow %s", call)
		}
	}
}

// TestUnitWaitsForAPerson: exit code 2 is a fault in the settings, and starting
// anew does not mend it.
func TestUnitWaitsForAPerson(t *testing.T) {
	if got := setting(t, "Restart"); got != "on-failure" {
		t.Errorf("Restart=%s, want on-failure", got)
	}
	if got := setting(t, "RestartPreventExitStatus"); got != "2" {
		t.Errorf("RestartPreventExitStatus=%s, want 2", got)
	}
}

// TestBuilderSeesNoSecrets: .dockerignore leaves out everything but what is
// listed, and neither settings nor data are.
func TestBuilderSeesNoSecrets(t *testing.T) {
	lines := strings.Fields(strings.Join(lines(read(t, "../../.dockerignore")), " "))
	if len(lines) == 0 || lines[0] != "*" {
		t.Fatal(".dockerignore does not begin by leaving out everything")
	}
	for _, line := range lines {
		if strings.Contains(line, "!.") || strings.Contains(line, "!*") {
			t.Errorf(".dockerignore lets in %s", line)
		}
	}
}

// lines are the lines of a file that are not comments.
func lines(text string) (list []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	return list
}
