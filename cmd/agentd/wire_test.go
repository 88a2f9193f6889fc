package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestInstructions(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{write("short.md", "Be kind."): "Be kind.", filepath.Join(dir, "none.md"): ""} {
		if got, err := readInstructions(path); got != want || err != nil {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	for path, want := range map[string]string{
		write("long.md", strings.Repeat("x", maxInstructions+1)): "at most 64 KiB", pipe: "a file", dir: "a file", "/dev/zero": "a file",
	} {
		if got, err := readInstructions(path); got != "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
	}
}
