package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/agent"
	"agentd/migrations"
)

// C068: a pragma in another driver's spelling is silently ignored, so each is
// read back, on every connection that the pools may open.
func TestPragmas(t *testing.T) {
	s := newStore(t).Store
	conns := map[string]*sql.Conn{"writer": s.write.conn}
	for i := range readers {
		c := must(s.read.db.Conn(t.Context()))(t)
		defer closed(t, c)
		conns[fmt.Sprint("reader ", i)] = c
	}
	for name, conn := range conns {
		want := map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "10000", "foreign_keys": "1", "query_only": "1"}
		if name == "writer" {
			want["query_only"] = "0"
		}
		for pragma, value := range want {
			var got string
			check(t, conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
			if got != value {
				t.Errorf("%s: %s = %s, want %s", name, pragma, got, value)
			}
		}
	}
}

func TestOpenMakesAPrivateFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state 100% #1?")
	s := openAt(t, filepath.Join(dir, "agentd.db"))
	accept1(t, s, text(1, 7, "hi"))
	files := must(os.ReadDir(dir))(t)
	for _, f := range files {
		if mode := must(f.Info())(t).Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %o", f.Name(), mode)
		}
	}
	equal(t, len(files), 3) // the database, its log, the log's index
	equal(t, must(os.Stat(dir))(t).Mode().Perm(), 0o700)
}

func TestOpenRefuses(t *testing.T) {
	sound := filepath.Join(t.TempDir(), "sound.db")
	check(t, openAt(t, sound).Close())
	healthy := must(os.ReadFile(sound))(t)
	damaged := func(from, to int) []byte {
		return append(append(bytes.Clone(healthy[:from]), bytes.Repeat([]byte{0xa5}, to-from)...), healthy[to:]...)
	}
	for name, test := range map[string]struct {
		content []byte
		says    string
	}{
		"text":                 {bytes.Repeat([]byte("not a database\n"), 1000), "damaged or not a database"},
		"a few bytes":          {[]byte("xyz"), "damaged or not a database"},
		"a damaged header":     {damaged(0, 100), "damaged or not a database"},
		"a damaged first page": {damaged(100, 4096), "damaged or not a database"},
		"half of a database":   {healthy[:6000], "damaged or not a database"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "agentd.db")
			check(t, os.WriteFile(path, test.content, 0o600))
			refused(t, path, test.says)
			if !bytes.Equal(must(os.ReadFile(path))(t), test.content) {
				t.Error("the file was changed")
			}
		})
	}
	t.Run("an empty database with a log", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "agentd.db")
		check(t, os.WriteFile(path, nil, 0o600))
		check(t, os.WriteFile(path+"-wal", []byte("all that is left"), 0o600))
		refused(t, path, "was damaged")
		equal(t, string(must(os.ReadFile(path+"-wal"))(t)), "all that is left")
	})
	t.Run("a directory", func(t *testing.T) { refused(t, t.TempDir(), "is not a file") })
	t.Run("a place that cannot be written", func(t *testing.T) { refused(t, "/proc/1/agentd.db", "/proc/1/agentd.db") })
	t.Run("a file where the directory should be", func(t *testing.T) { refused(t, filepath.Join(sound, "agentd.db"), "not a directory") })
	t.Run("a newer schema", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "agentd.db")
		s := openAt(t, path)
		must(s.write.conn.ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`))(t)
		check(t, s.Close())
		before := must(os.ReadFile(path))(t)
		refused(t, path, "written by a newer agentd")
		if !bytes.Equal(must(os.ReadFile(path))(t), before) {
			t.Error("the file was changed")
		}
	})
}

func refused(t *testing.T, path, says string) {
	t.Helper()
	s, err := Open(t.Context(), path, Config{})
	if err == nil {
		closed(t, s)
		t.Fatal("it was opened")
	}
	if place := filepath.Dir(path); !strings.Contains(err.Error(), place) || !strings.Contains(err.Error(), says) {
		t.Errorf("%q does not say %q, or not where: %s", err, says, place)
	}
}

// C107: a file system without shared memory, as a network's, has no WAL. SQLite
// says so only by staying in another mode.
func TestWALIsRequired(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agentd.db")
	for name, query := range map[string]string{"no shared memory": "&vfs=unix-dotfile", "no file": "&mode=memory"} {
		t.Run(name, func(t *testing.T) {
			db := must(sql.Open("sqlite", dsn(path)+query))(t)
			defer closed(t, db)
			err := migrate(t.Context(), db, nil)
			if err == nil || !strings.Contains(err.Error(), "put DATA_DIR on a local disk") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestMigrationsAreNumberedInOrder(t *testing.T) {
	for i, f := range must(migrations.FS.ReadDir("."))(t) {
		if !strings.HasPrefix(f.Name(), fmt.Sprintf("%04d_", i+1)) {
			t.Errorf("%s is number %d", f.Name(), i+1)
		}
	}
}

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	release := must(Lock(dir))(t)
	if _, err := Lock(dir); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "another agentd") {
		t.Errorf("the second holder got %v", err)
	}
	check(t, release())
	check(t, must(Lock(dir))(t)())
}

// C068: another process holds the write lock for 3 s. Time is virtual: the bubble's
// clock moves when all that write are known to wait.
func TestForeignLock(t *testing.T) {
	locked := func(t *testing.T, test func(t *testing.T, s *Store, release func())) {
		path := filepath.Join(t.TempDir(), "agentd.db")
		synctest.Test(t, func(t *testing.T) {
			s := must(Open(t.Context(), path, Config{}))(t)
			defer closed(t, s)
			other := must(sql.Open("sqlite", "file:"+path))(t)
			defer closed(t, other)
			conn := must(other.Conn(t.Context()))(t)
			defer closed(t, conn)
			must(conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"))(t)
			test(t, s, func() { must(conn.ExecContext(context.Background(), "ROLLBACK"))(t) })
		})
	}
	t.Run("is waited for", func(t *testing.T) {
		locked(t, func(t *testing.T, s *Store, release func()) {
			const chats = 20
			var wg sync.WaitGroup
			var mu sync.Mutex
			var waited []time.Duration
			began := time.Now()
			for chat := range int64(chats) {
				wg.Go(func() {
					if _, err := s.Accept(t.Context(), []agent.Incoming{text(chat, chat, "hi")}); err != nil {
						t.Error(err)
					}
					mu.Lock()
					waited = append(waited, time.Since(began))
					mu.Unlock()
				})
			}
			<-time.After(3 * time.Second)
			synctest.Wait()
			mu.Lock()
			equal(t, len(waited), 0)
			mu.Unlock()
			if n := count(t, s, `SELECT count(*) FROM inbox`); n != 0 {
				t.Errorf("%d rows before the lock was free", n)
			}
			release()
			wg.Wait()
			equal(t, count(t, s, `SELECT count(*) FROM inbox`), chats)
		})
	})
	t.Run("not for ever", func(t *testing.T) {
		locked(t, func(t *testing.T, s *Store, release func()) {
			if _, err := s.Accept(t.Context(), []agent.Incoming{text(1, 1, "hi")}); err == nil {
				t.Error("written through the lock")
			}
			release()
			equal(t, accept1(t, s, text(1, 1, "hi")), 1)
		})
	})
	t.Run("not longer than the context", func(t *testing.T) {
		locked(t, func(t *testing.T, s *Store, release func()) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var wg sync.WaitGroup
			for range 2 { // one waits at the foreign lock, one behind it for the connection
				wg.Go(func() {
					if _, err := s.Accept(ctx, []agent.Incoming{text(1, 1, "hi")}); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v", err)
					}
				})
			}
			wg.Wait()
			release()
			equal(t, accept1(t, s, text(1, 1, "hi")), 1)
		})
	})
}

func TestManyWriteAndReadAtOnce(t *testing.T) {
	s := newStore(t).Store
	var wg sync.WaitGroup
	for chat := range int64(20) {
		wg.Go(func() {
			key := fmt.Sprint("key", chat)
			for i := range int64(10) {
				if n, err := s.Accept(t.Context(), []agent.Incoming{text(chat*10+i, chat, "hi")}); err != nil || n != 1 {
					t.Error(n, err)
				}
				// What was written is read at once, by whichever connection.
				want := fmt.Sprint(i)
				if err := s.SetSetting(t.Context(), key, want); err != nil {
					t.Error(err)
				}
				if got, err := s.Setting(t.Context(), key); err != nil || got != want {
					t.Errorf("read %q, %v after writing %q", got, err, want)
				}
			}
		})
	}
	wg.Wait()
	equal(t, count(t, s, `SELECT count(*) FROM inbox`), 200)
}

func TestClose(t *testing.T) {
	t.Run("waits for the transaction under way", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "agentd.db")
		synctest.Test(t, func(t *testing.T) {
			s := must(Open(t.Context(), path, Config{}))(t)
			accept1(t, s, text(1, 7, "hi"))
			hold, closed := make(chan struct{}), make(chan error, 1)
			var wg sync.WaitGroup
			wg.Go(func() {
				_, ok, err := s.Claim(t.Context(), t0, func(rows []agent.Incoming) agent.Message {
					<-hold
					return compose(rows)
				})
				if !ok || err != nil {
					t.Errorf("claim: %v, %v", ok, err)
				}
			})
			synctest.Wait()
			wg.Go(func() { closed <- s.Close() })
			synctest.Wait()
			equal(t, len(closed), 0)
			close(hold)
			wg.Wait()
			check(t, <-closed)
		})
		equal(t, count(t, openAt(t, path), `SELECT count(*) FROM turns`), 1)
	})
	t.Run("leaves one file, and verbs that fail", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "agentd.db")
		s := openAt(t, path)
		accept1(t, s, text(1, 7, "hi"))
		check(t, s.Close())
		equal(t, len(must(os.ReadDir(filepath.Dir(path)))(t)), 1)
		if _, err := s.Accept(t.Context(), []agent.Incoming{text(2, 7, "hi")}); err == nil {
			t.Error("written after Close")
		}
		if _, _, err := s.Waiting(t.Context(), t0); err == nil {
			t.Error("read after Close")
		}
	})
}

// A verb of a dead context does nothing; the next one finds the store whole.
func TestCancelledContext(t *testing.T) {
	s := newStore(t).Store
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Accept(ctx, []agent.Incoming{text(1, 7, "hi")}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, _, err := s.Waiting(ctx, t0); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	equal(t, accept1(t, s, text(1, 7, "hi")), 1)
}

// A context that ends within a transaction does not tear it.
func TestContextEndsInTransaction(t *testing.T) {
	s := newStore(t).Store
	accept1(t, s, text(1, 7, "hi"))
	ctx, cancel := context.WithCancel(t.Context())
	_, ok, err := s.Claim(ctx, t0, func(rows []agent.Incoming) agent.Message {
		cancel()
		return compose(rows)
	})
	if !ok || err != nil {
		t.Fatalf("claim: %v, %v", ok, err)
	}
	equal(t, count(t, s, `SELECT count(*) FROM messages`), 1)
}

func TestProbe(t *testing.T) {
	died := errors.New("died")
	var die string
	s := must(Open(t.Context(), filepath.Join(t.TempDir(), "agentd.db"), Config{Probe: func(verb string, committed bool) error {
		if die == fmt.Sprint(verb, committed) {
			return died
		}
		return nil
	}}))(t)
	defer closed(t, s)
	for _, test := range []struct {
		die  string
		rows int
	}{{"Acceptfalse", 0}, {"Accepttrue", 1}, {"", 1}} {
		die = test.die
		if _, err := s.Accept(t.Context(), []agent.Incoming{text(1, 7, "hi")}); errors.Is(err, died) != (die != "") {
			t.Errorf("%q: %v", die, err)
		}
		equal(t, count(t, s, `SELECT count(*) FROM inbox`), test.rows)
	}
}

// C107: a full disk loses nothing that was stored, and the store works again when
// there is room.
func TestDiskFull(t *testing.T) {
	c := newStore(t)
	pages := func(most string) {
		must(c.write.conn.ExecContext(t.Context(), "PRAGMA max_page_count="+most))(t)
	}
	turn := ask(t, c.Store, text(1, 7, "hi"))
	pages("1") // SQLite takes what it has as the least
	long := strings.Repeat("x", 100_000)
	_, err := c.Accept(t.Context(), []agent.Incoming{text(2, 7, "small"), text(3, 7, long)})
	if !Full(err) {
		t.Fatalf("got %v", err)
	}
	if err := c.Finish(t.Context(), turn, ending(turn, long)); !Full(err) {
		t.Fatalf("got %v", err)
	}
	equal(t, count(t, c.Store, `SELECT count(*) FROM inbox`), 1)
	equal(t, count(t, c.Store, `SELECT count(*) FROM turns WHERE state = 'open'`), 1)
	check(t, c.Check(t.Context()))

	pages("1000000")
	end(t, c.Store, turn, "hello")
	equal(t, accept1(t, c.Store, text(2, 7, "small"), text(3, 7, long)), 2)
	equal(t, drain(t, c, 7), "hello")
	check(t, c.Check(t.Context()))
	if Full(errors.New("database or disk is full (13)")) {
		t.Error("judged by the text")
	}
}

// What matters beyond the database waits for the disk, whatever came before it.
func TestWhoWaitsForTheDisk(t *testing.T) {
	s := newStore(t).Store
	for _, verb := range []struct {
		do   func(context.Context, string, func(*tx) error) error
		want int // 1 NORMAL, 2 FULL
	}{{s.do, 2}, {s.doLazily, 1}, {s.doLazily, 1}, {s.do, 2}} {
		got := 0
		check(t, verb.do(t.Context(), "Test", func(t *tx) error {
			_, err := t.row(`PRAGMA synchronous`, nil, &got)
			return err
		}))
		equal(t, got, verb.want)
	}
}
