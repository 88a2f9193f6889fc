package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// layout makes a home with a data folder and a workspace, and a working
// directory with a .env, and returns the environment that names them.
func layout(t *testing.T) (root, dir string, environ []string) {
	t.Helper()
	root = t.TempDir()
	dir = filepath.Join(root, "etc")
	for _, path := range []string{"etc", "data/chats", "work", "agents"} {
		if err := os.MkdirAll(filepath.Join(root, path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(dir, ".env"), "TELEGRAM_BOT_TOKEN_FILE=token\n")
	writeFile(t, filepath.Join(dir, "token"), testToken)
	writeFile(t, filepath.Join(root, "AGENT.md"), "Be brief.")
	return root, dir, []string{"DATA_DIR=" + root + "/data", "WORKSPACE_DIR=" + root + "/work",
		"AGENT_PROMPT_FILE=" + root + "/AGENT.md", "AGENTS_DIR=" + root + "/agents"}
}

func TestPathsInReachOfTools(t *testing.T) {
	for _, test := range []struct {
		name  string
		set   string // %: the root
		link  [2]string
		fault []string
	}{
		{name: "apart"},
		{name: "workspace below the data", set: "WORKSPACE_DIR=%/data/workspace"},
		{name: "same prefix, other folder", set: "WORKSPACE_DIR=%/et"},
		{name: "workspace is the working directory", set: "WORKSPACE_DIR=.", fault: []string{"WORKSPACE_DIR"}},
		{name: "workspace is the data", set: "WORKSPACE_DIR=%/data", fault: []string{"WORKSPACE_DIR"}},
		{name: "workspace is a chat's folder", set: "WORKSPACE_DIR=%/data/chats/7", fault: []string{"WORKSPACE_DIR"}},
		{name: "workspace holds all", set: "WORKSPACE_DIR=%", fault: []string{"AGENT_PROMPT_FILE", "AGENTS_DIR", "WORKSPACE_DIR"}},
		{name: "linked workspace", set: "WORKSPACE_DIR=%/link", link: [2]string{"link", "etc"}, fault: []string{"WORKSPACE_DIR"}},
		{name: "linked below the workspace", set: "AGENT_PROMPT_FILE=%/link/deep/AGENT.md", link: [2]string{"link", "work"}, fault: []string{"AGENT_PROMPT_FILE"}},
		{name: "dangling link", set: "AGENT_PROMPT_FILE=%/link", link: [2]string{"link", "etc/../work/later.md"}, fault: []string{"AGENT_PROMPT_FILE"}},
		{name: "link in a circle", set: "AGENTS_DIR=%/link", link: [2]string{"link", "link"}, fault: []string{"AGENTS_DIR"}},
		{name: "prompt in a chat's folder", set: "AGENT_PROMPT_FILE=%/data/chats/7/AGENT.md", fault: []string{"AGENT_PROMPT_FILE"}},
		{name: "agents are the workspace", set: "AGENTS_DIR=%/work", fault: []string{"AGENTS_DIR"}},
		{name: "token in the workspace", set: "TELEGRAM_BOT_TOKEN_FILE=%/work/token", fault: []string{"WORKSPACE_DIR"}},
		{name: "proxy in a chat's folder", set: "TELEGRAM_PROXY_FILE=%/data/chats/proxy", fault: []string{"TELEGRAM_PROXY_FILE"}},
		{name: "a file as folder", set: "AGENTS_DIR=%/AGENT.md/agents", fault: []string{"AGENTS_DIR"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			root, dir, environ := layout(t)
			writeFile(t, filepath.Join(root, "work/token"), testToken)
			writeFile(t, filepath.Join(root, "data/chats/proxy"), "http://host")
			if test.link[0] != "" {
				if err := os.Symlink(test.link[1], filepath.Join(root, test.link[0])); err != nil {
					t.Fatal(err)
				}
			}
			environ = append(environ, strings.ReplaceAll(test.set, "%", root))
			if test.fault == nil {
				mustLoad(t, dir, environ)
				return
			}
			if names, text := faultNames(t, dir, environ); !slices.Equal(names, test.fault) {
				t.Errorf("faults of %q, want %q:\n%s", names, test.fault, text)
			}
		})
	}
}

func TestPathsOthersCanWrite(t *testing.T) {
	for _, test := range []struct {
		path  string
		mode  fs.FileMode
		fault string
	}{
		{"data", 0o707, "DATA_DIR"},
		{"data", 0o755, ""},
		{"data", 0o707 | fs.ModeSticky, "DATA_DIR"},
		{"work", 0o702, "WORKSPACE_DIR"},
		{"AGENT.md", 0o602, "AGENT_PROMPT_FILE"},
		{"agents", 0o777, "AGENTS_DIR"},
		{"etc/token", 0o602, "TELEGRAM_BOT_TOKEN_FILE"},
		{"etc/.env", 0o602, ".env"},
		{".", 0o707, "DATA_DIR"},
		{".", 0o707 | fs.ModeSticky, ""},
	} {
		t.Run(test.path+" "+test.mode.String(), func(t *testing.T) {
			root, dir, environ := layout(t)
			path := filepath.Join(root, test.path)
			if err := os.Chmod(path, test.mode); err != nil {
				t.Fatal(err)
			}
			if test.fault == "" {
				mustLoad(t, dir, environ)
				return
			}
			names, text := faultNames(t, dir, environ)
			if !slices.Equal(names, []string{test.fault}) || !strings.Contains(text, "chmod go-w "+path) {
				t.Errorf("faults of %q, want %s with chmod:\n%s", names, test.fault, text)
			}
		})
	}
}

// fileInfo is a file of an owner and a group that the test may not create.
type fileInfo struct {
	fs.FileInfo
	mode     fs.FileMode
	uid, gid uint32
}

func (f fileInfo) Mode() fs.FileMode { return f.mode }
func (f fileInfo) Sys() any          { return &syscall.Stat_t{Uid: f.uid, Gid: f.gid} }

func TestGroupWrite(t *testing.T) {
	for _, test := range []struct {
		info fileInfo
		want bool
	}{
		{fileInfo{mode: 0o770, uid: 1000, gid: 1000}, false}, // nobody else is in a private group
		{fileInfo{mode: 0o770, uid: 1000, gid: 100}, true},
		{fileInfo{mode: 0o750, uid: 1000, gid: 100}, false},
		{fileInfo{mode: 0o772, uid: 1000, gid: 1000}, true},
	} {
		if got := othersWrite(test.info); got != test.want {
			t.Errorf("othersWrite(%v, %d:%d) = %v, want %v", test.info.mode, test.info.uid, test.info.gid, got, test.want)
		}
	}
}
