// Package deploy tests the files by which agentd is installed: what can be known
// of them without a container engine and without systemd at work. It is a module
// of its own, so that the daemon's depends on nothing it does not ship.
package deploy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// loadCompose reads docker-compose.yml by the loader that docker compose uses,
// which checks it against the schema and resolves what its parts refer to.
func loadCompose(t *testing.T) *types.Project {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{"../../docker-compose.yml"}, cli.WithName("agentd"), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestComposeConfinesAgentd(t *testing.T) {
	s := loadCompose(t).Services["agentd"]
	for _, c := range []struct {
		what string
		ok   bool
	}{
		{"a read-only root", s.ReadOnly},
		{"no capabilities", slices.Equal(s.CapDrop, []string{"ALL"}) && len(s.CapAdd) == 0},
		{"no new privileges", slices.Contains(s.SecurityOpt, "no-new-privileges:true")},
		{"no privileged mode", !s.Privileged},
		{"no user but the image's", s.User == ""},
		{"no ports", len(s.Ports) == 0},
		{"an init process, as the daemon reaps no strangers", s.Init != nil && *s.Init},
		{"restarts", s.Restart == types.RestartPolicyUnlessStopped},
		{"a limit on logs", s.Logging != nil && s.Logging.Options["max-size"] != "" && s.Logging.Options["max-file"] != ""},
	} {
		if !c.ok {
			t.Errorf("agentd lacks %s", c.what)
		}
	}
	for _, v := range s.Volumes {
		if v.Type != types.VolumeTypeVolume || v.Target != "/data" {
			t.Errorf("agentd mounts %s %s at %s; it should see nothing but its own data", v.Type, v.Source, v.Target)
		}
	}
}

// TestComposeFindsEachOther: the data and the models outlive the containers, and
// agentd asks the Ollama beside it, which nobody else can reach.
func TestComposeFindsEachOther(t *testing.T) {
	p := loadCompose(t)
	agentd, ollama := p.Services["agentd"], p.Services["ollama"]
	if got := agentd.Environment["OLLAMA_HOST"]; got == nil || *got != "http://ollama:11434" {
		t.Errorf("OLLAMA_HOST is not the service ollama")
	}
	if got := agentd.Environment["DATA_DIR"]; got == nil || *got != "/data" {
		t.Errorf("DATA_DIR is not the volume /data")
	}
	if len(ollama.Ports) > 0 {
		t.Error("ollama is open to the network")
	}
	if len(agentd.Volumes) == 0 || len(ollama.Volumes) == 0 {
		t.Error("data or models are lost with the container")
	}
	if len(p.Volumes) != 2 {
		t.Errorf("%d volumes, want one for data and one for models", len(p.Volumes))
	}
}

// TestStopTimes: both files leave the daemon its SHUTDOWN_GRACE (20s unless set)
// and the 3 s that its last answers get, before it is killed.
func TestStopTimes(t *testing.T) {
	const needed = 20*time.Second + 3*time.Second
	grace := loadCompose(t).Services["agentd"].StopGracePeriod
	if grace == nil || time.Duration(*grace) <= needed {
		t.Errorf("docker-compose.yml: stop_grace_period %v, want more than %v", grace, needed)
	}
	text := setting(t, "TimeoutStopSec")
	if got, err := time.ParseDuration(text + "s"); err != nil || got <= needed {
		t.Errorf("agentd.service: TimeoutStopSec=%s, want more than %v", text, needed)
	}
}

// TestComposeCommentsLoad: the file says which lines to take in for the token as
// a secret; taken in, they are a valid file.
func TestComposeCommentsLoad(t *testing.T) {
	text := read(t, "../../docker-compose.yml")
	for _, line := range []string{
		"      # TELEGRAM_BOT_TOKEN_FILE: /run/secrets/telegram-token\n", "    # secrets:\n", "    #   - telegram-token\n",
		"# secrets:\n#   telegram-token:\n#     file: ./telegram-token\n",
		"    # deploy:\n    #   resources:\n    #     reservations:\n    #       devices:\n    #         - driver: nvidia\n    #           count: all\n    #           capabilities: [gpu]\n",
	} {
		if !strings.Contains(text, line) {
			t.Fatalf("docker-compose.yml has no %q", line)
		}
		text = strings.Replace(text, line, strings.ReplaceAll(line, "# ", ""), 1)
	}
	details := types.ConfigDetails{WorkingDir: t.TempDir(), ConfigFiles: []types.ConfigFile{{Filename: "docker-compose.yml", Content: []byte(text)}}}
	p, err := load(t.Context(), details)
	if err != nil {
		t.Fatal(err)
	}
	s := p.Services["agentd"]
	if len(s.Secrets) != 1 || s.Environment["TELEGRAM_BOT_TOKEN_FILE"] == nil || *s.Environment["TELEGRAM_BOT_TOKEN_FILE"] != "/run/secrets/"+s.Secrets[0].Source {
		t.Error("the token's secret is not where TELEGRAM_BOT_TOKEN_FILE says")
	}
	if d := p.Services["ollama"].Deploy; d == nil || len(d.Resources.Reservations.Devices) != 1 {
		t.Error("the graphics card is not reserved")
	}
}
