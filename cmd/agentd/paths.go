package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks bounds the symbolic links followed in one path, as Linux does.
const maxLinks = 40

// place is a path that a setting names.
type place struct {
	name string // the variable, or .env
	path string // as configured, absolute
	real string // links resolved
}

// checkPaths finds settings that would hand the agent's tools its secrets, its
// instructions or its state, and what other users of the machine could change.
// envSecret says that .env holds a secret.
func checkPaths(c config, envSecret bool) (configError, []string) {
	var faults configError
	locate := func(name, path string) place {
		real, err := resolve(path)
		if err != nil {
			faults.add(name, fmt.Sprintf("expected a path that can be followed (%s)", reason(err)))
		}
		return place{name, path, real}
	}
	if c.DataDir == "" {
		return nil, nil // a fault already
	}
	data := locate("DATA_DIR", c.DataDir)
	if info, err := os.Stat(data.real); err == nil && !info.IsDir() {
		// The other settings lie below it: what is wrong with them follows from this.
		return configError{{"DATA_DIR", "expected a folder (" + data.path + " is a file): choose another path"}}, nil
	}
	workspace := locate("WORKSPACE_DIR", c.WorkspaceDir)
	prompt := locate("AGENT_PROMPT_FILE", c.PromptFile)
	agents := locate("AGENTS_DIR", c.AgentsDir)
	var secrets []place
	for _, p := range []place{{name: ".env", path: c.DotEnv}, {name: "TELEGRAM_BOT_TOKEN_FILE", path: c.TokenFile}, {name: "TELEGRAM_PROXY_FILE", path: c.ProxyFile}} {
		if p.path != "" {
			secrets = append(secrets, locate(p.name, p.path))
		}
	}
	if len(faults) > 0 {
		return faults, nil
	}

	chats := filepath.Join(data.real, "chats")
	for _, p := range secrets {
		if within(workspace.real, p.real) {
			faults.add("WORKSPACE_DIR", fmt.Sprintf("expected a folder without secrets (%s is in it, and the agent's tools read everything there): choose another folder, or move that file", label(p)))
		}
		if within(chats, p.real) {
			faults.add(p.name, "expected a place that the agent's tools cannot read (it is in DATA_DIR/chats): move it elsewhere")
		}
	}
	if within(workspace.real, filepath.Join(data.real, "agentd.db")) || within(workspace.real, chats) || within(chats, workspace.real) {
		faults.add("WORKSPACE_DIR", "expected a folder apart from the daemon's own data (it holds DATA_DIR or chats' folders, or is one of these): choose another folder, such as DATA_DIR/workspace")
	}
	for _, p := range []place{prompt, agents} {
		if within(workspace.real, p.real) || within(chats, p.real) {
			faults.add(p.name, "expected a place that the agent's tools cannot write (it is in WORKSPACE_DIR or DATA_DIR/chats, so the agent could rewrite its own instructions): move it elsewhere")
		}
	}
	faults = append(faults, writableByOthers(append([]place{data, workspace, prompt, agents}, secrets...))...)
	return faults, readableByOthers(secrets, envSecret)
}

// writableByOthers names each path that other users can change, or replace by
// way of a folder above it, once for the first setting that depends on it.
func writableByOthers(places []place) configError {
	var faults configError
	seen := make(map[string]bool)
	for _, p := range places {
		for path := p.real; ; path = filepath.Dir(path) {
			info, err := os.Lstat(path)
			// A sticky folder above (as /tmp) lets others add files, not replace ours.
			if err == nil && othersWrite(info) && (path == p.real || info.Mode()&fs.ModeSticky == 0) && !seen[path] {
				seen[path] = true
				faults = append(faults, fault{p.name, fmt.Sprintf("expected a path that only you can write (other users of this machine can write %s): chmod go-w %s, or choose another path", path, path)})
			}
			if path == filepath.Dir(path) {
				break
			}
		}
	}
	return faults
}

// othersWrite reports whether the mode lets other users write. The group does
// not count where it has the number of the owner: that is the owner's private
// group, and Ubuntu and Fedora create files writable by it.
func othersWrite(info fs.FileInfo) bool {
	private := false
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		private = stat.Uid == stat.Gid
	}
	return info.Mode()&0o002 != 0 || info.Mode()&0o020 != 0 && !private
}

func readableByOthers(secrets []place, envSecret bool) []string {
	var warnings []string
	for _, p := range secrets {
		info, err := os.Stat(p.real)
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o004 == 0 || p.name == ".env" && !envSecret {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s: every user of this machine can read %s; chmod 600 %s", p.name, p.path, p.path))
	}
	return warnings
}

func label(p place) string {
	if p.name == ".env" {
		return p.path
	}
	return "the file of " + p.name
}

// within reports whether path is dir or lies below it; both are resolved.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// absolute makes a configured path absolute: ~ is home, and a relative path
// starts at dir.
func absolute(path, dir, home string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && home != "" {
		path = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return filepath.Clean(path)
}

// resolve follows every symbolic link of an absolute path. Unlike
// filepath.EvalSymlinks it also follows those whose target does not exist yet: a
// link that dangles today is a way into the workspace tomorrow.
func resolve(path string) (string, error) {
	real, rest := string(filepath.Separator), filepath.Clean(path)
	for links := 0; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, string(filepath.Separator))
		if name == "" || name == "." {
			continue
		}
		next := filepath.Join(real, name) // ".." leaves real, which holds no links
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			real = next
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink == 0:
			real = next
		default:
			if links++; links > maxLinks {
				return "", &fs.PathError{Op: "resolve", Path: path, Err: syscall.ELOOP}
			}
			target, err := os.Readlink(next)
			if err != nil {
				return "", err
			}
			if filepath.IsAbs(target) {
				real = string(filepath.Separator)
			}
			rest = target + string(filepath.Separator) + rest
		}
	}
	return real, nil
}
