package main

import (
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agentd/internal/agent"
	"agentd/internal/ollama/ollamatest"
	"agentd/internal/sqlite"
)

// C107: the disk is full while a turn runs, or before. The person is told, the
// daemon lives, and goes on by itself when there is room: nothing is lost or
// done twice.
func TestDiskFull(t *testing.T) {
	for name, disk := range map[string]func(*testing.T, *world) (fill, free func()){"as the store says": fullByProbe, "for real": fullTmpfs} {
		for when, after := range map[string]time.Duration{
			"before": 0, "while the model thinks": 200 * time.Millisecond, "while the tool runs": 2 * time.Second, "while the answer streams": 6 * time.Second,
		} {
			t.Run(name+", "+when, func(t *testing.T) {
				inWorld(t, ollamatest.Config{FirstToken: 300 * time.Millisecond, PerToken: 100 * time.Millisecond, Answer: func(r ollamatest.Request) ollamatest.Answer {
					if last := r.Messages[len(r.Messages)-1]; last.Role == "user" && strings.Contains(last.Content, "use tools") {
						return ollamatest.Answer{ollamatest.Calls(ollamatest.ToolCall{Function: ollamatest.Function{Name: "wait", Arguments: []byte("{}")}},
							ollamatest.ToolCall{Function: ollamatest.Function{Name: "note", Arguments: []byte("{}")}})}
					}
					return echo(r)
				}}, func(t *testing.T, w *world) {
					fill, free := disk(t, w)
					notes := filepath.Join(t.TempDir(), "notes")
					w.tools = []agent.Tool{waiting(), noting(notes)}
					w.running(t, func() {
						pass(2 * time.Minute)
						if after == 0 {
							fill()
						}
						w.ann().Send("one, use tools")
						pass(after)
						fill()
						pass(10 * time.Minute)
						said := strings.Join(texts(w.tg.Chat(ann)), "\n")
						if !strings.Contains(said, "disk") || strings.Count(said, "disk") > 1 {
							t.Errorf("while it is full, the chat shows %q", said)
						}
						free()
						pass(2 * time.Minute)
						if said := strings.Join(texts(w.tg.Chat(ann)), "\n"); strings.Count(said, "as they do.") != 1 {
							t.Errorf("when it is free again, the chat shows %q", said)
						}
						w.ask("two")
					})
					if got := lastOf(w.tg.Chat(ann)); !strings.Contains(got, "asked: two") {
						t.Errorf("the next question gets %q", got)
					}
					if b, _ := os.ReadFile(notes); strings.Count(string(b), "\n") != 1 {
						t.Errorf("the tool left %q", b)
					}
					if n := strings.Count(w.logs[0].String(), `"level":"ERROR"`); n > 6 {
						t.Errorf("%d errors in the log", n)
					}
					w.wellFormed(t)
					w.isSound(t)
				})
			})
		}
	}
}

// isSound asserts that the database is undamaged.
func (w *world) isSound(t *testing.T) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(w.env["DATA_DIR"], "agentd.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, s)
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func closing(t *testing.T, c io.Closer) {
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// fullByProbe lets every transaction fail as SQLite fails on a full disk.
func fullByProbe(t *testing.T, w *world) (fill, free func()) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "full.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, db)
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`CREATE TABLE x (y); PRAGMA max_page_count=1`); err != nil {
		t.Fatal(err)
	}
	_, noRoom := db.Exec(`INSERT INTO x VALUES (zeroblob(100000))`)
	if !sqlite.Full(noRoom) {
		t.Fatal(noRoom)
	}
	var full atomic.Bool
	w.probe = func(_ string, committed bool) error {
		if full.Load() && !committed {
			return noRoom
		}
		return nil
	}
	return func() { full.Store(true) }, func() { full.Store(false) }
}

// fullTmpfs puts the data on a small disk of its own.
func fullTmpfs(t *testing.T, w *world) (fill, free func()) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=3m,mode=0700"); err != nil {
		t.Skip("no disk can be mounted here: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w.env["DATA_DIR"] = filepath.Join(dir, "data")
	filler := filepath.Join(dir, "filler")
	fill = func() {
		f, err := os.OpenFile(filler, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer closing(t, f)
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
	}
	return fill, func() {
		if err := os.Remove(filler); err != nil {
			t.Error(err)
		}
	}
}

// C068: 20 chats write while another process holds a write transaction for 3 s.
func TestForeignTransaction(t *testing.T) {
	inWorld(t, ollamatest.Config{Answer: echo}, func(t *testing.T, w *world) {
		w.env["TELEGRAM_ALLOWED_USERS"], w.env["OLLAMA_NUM_PARALLEL"], w.env["AGENT_WORKERS"] = "*", "20", "20"
		const chats = 20
		w.running(t, func() {
			db, err := sql.Open("sqlite", filepath.Join(w.env["DATA_DIR"], "agentd.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer closing(t, db)
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer closing(t, conn)
			begin := func(query string) {
				if _, err := conn.ExecContext(t.Context(), query); err != nil {
					t.Fatal(err)
				}
			}
			begin("BEGIN IMMEDIATE")
			for i := range int64(chats) {
				w.tg.User(1000+i, fmt.Sprint("Person ", i), "en").Send(fmt.Sprint("question ", i))
			}
			pass(3 * time.Second)
			begin("ROLLBACK")
			pass(time.Minute)
			for i := range int64(chats) {
				if got := texts(w.tg.Chat(1000 + i)); len(got) != 1 || !strings.Contains(got[0], fmt.Sprint("question ", i, ".")) {
					t.Errorf("chat %d shows %q", i, got)
				}
			}
			var turns int
			if err := conn.QueryRowContext(t.Context(), `SELECT count(*) FROM turns WHERE state = 'done'`).Scan(&turns); err != nil || turns != chats {
				t.Errorf("%d turns are stored: %v", turns, err)
			}
			if log := w.logs[0].String(); strings.Contains(log, "locked") || strings.Contains(log, `"ERROR"`) {
				t.Error("something failed")
			}
		})
		w.isSound(t)
	})
}
