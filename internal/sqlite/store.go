// Package sqlite is the one door to the database: it opens it, brings its
// schema up to date, and offers the transactions of agentd as methods named by
// verbs of the domain. No transaction leaves it.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"agentd/migrations"
)

// Config holds what a Store can do without.
type Config struct {
	Log *slog.Logger // nil discards

	// Probe is called before each writing transaction begins and after it was
	// committed, with the verb's name. An error before keeps the transaction from
	// happening; after, it is returned although the transaction took effect. The
	// crash tests let the process die there; nil does nothing.
	Probe func(verb string, committed bool) error
}

// Store is agentd's memory: inbox, turns, messages, outbox. Its methods are safe
// for concurrent use; each is one transaction.
type Store struct {
	write *sql.DB // one connection: writers queue here, not at SQLite's lock
	read  *sql.DB
	log   *slog.Logger
	probe func(string, bool) error

	inbox, control, outbox chan struct{}
}

// Open opens the database file, creating it if it is absent, and applies the
// migrations it lacks. It refuses a schema that is newer than the program, and
// never replaces a file that it cannot read.
func Open(ctx context.Context, path string, cfg Config) (*Store, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	// The file holds private conversations: create it before SQLite does, unreadable for others.
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, fmt.Errorf("database %s: %w", path, err)
	} else if err := f.Close(); err != nil {
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	s := &Store{
		log: cfg.Log, probe: cfg.Probe,
		inbox: make(chan struct{}, 1), control: make(chan struct{}, 1), outbox: make(chan struct{}, 1),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.probe == nil {
		s.probe = func(string, bool) error { return nil }
	}
	var err error
	if s.write, err = open(path, 1); err != nil {
		return nil, describe(path, err)
	}
	if s.read, err = open(path, 4); err == nil {
		err = migrate(ctx, s.write)
	}
	if err != nil {
		return nil, errors.Join(describe(path, err), s.Close())
	}
	return s, nil
}

// Close waits for the transactions under way and closes the file.
func (s *Store) Close() error {
	var err error
	if s.read != nil {
		err = s.read.Close()
	}
	return errors.Join(err, s.write.Close())
}

// open gives a pool of n connections. The pragmas are spelled for modernc's
// driver; other drivers' spellings are silently ignored (C068), so a test reads
// them back. FULL: a power cut must not lose what Telegram was told we have.
func open(path string, n int) (*sql.DB, error) {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "cache_size(-1024)",
	}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

func migrate(ctx context.Context, db *sql.DB) error {
	var mode string
	if err := db.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("journal mode is %q where WAL was asked for; network and shared file systems cannot do it: put DATA_DIR on a local disk", mode)
	}
	files, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		return err
	}
	var version int
	// goose's table is absent in a new file.
	switch err := db.QueryRowContext(ctx, `SELECT max(version_id) FROM goose_db_version`).Scan(&version); {
	case err != nil && !strings.Contains(err.Error(), "no such table"):
		return err
	case version == len(files):
		return nil
	case version > len(files):
		return fmt.Errorf("its schema has version %d, this program knows up to %d: it was written by a newer agentd; install that version again", version, len(files))
	}
	p, err := goose.NewProvider(database.DialectSQLite3, db, migrations.FS)
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// describe puts a sentence to the errors that an operator can do something about.
func describe(path string, err error) error {
	var e *driver.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
			return fmt.Errorf("database %s is damaged or not a database; it was left as it is: move it away, or restore a backup: %w", path, err)
		case sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_IOERR:
			return fmt.Errorf("database %s cannot be used on this file system; put DATA_DIR on a local disk: %w", path, err)
		case sqlite3.SQLITE_FULL:
			return fmt.Errorf("database %s: the disk is full: %w", path, err)
		}
	}
	return fmt.Errorf("database %s: %w", path, err)
}

// Full tells whether err says that the disk has no room.
func Full(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_FULL
}

// Check reads the whole file for damage; nil means sound. It may take a second a gigabyte.
func (s *Store) Check(ctx context.Context) error {
	var answer string
	if err := s.read.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&answer); err != nil {
		return err
	}
	if answer != "ok" {
		return errors.New(answer)
	}
	return nil
}

// do runs fn in a writing transaction.
func (s *Store) do(ctx context.Context, verb string, fn func(*tx) error) error {
	if err := s.probe(verb, false); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	t, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	defer t.Rollback() // no effect after Commit
	if err := fn(&tx{ctx, t}); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	if err := t.Commit(); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	if err := s.probe(verb, true); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}

// tx spares the verbs the context in every line.
type tx struct {
	ctx context.Context
	*sql.Tx
}

// exec returns the number of rows changed.
func (t *tx) exec(query string, args ...any) (int64, error) {
	r, err := t.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// row scans the one row of a query; false: there is none.
func (t *tx) row(query string, args []any, dest ...any) (bool, error) {
	err := t.QueryRowContext(t.ctx, query, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// each calls scan for every row of a query.
func each(rows *sql.Rows, err error, scan func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// InboxWake, ControlWake and OutboxWake tell that something may have come; one
// token stands for any number of things. They are never closed.
func (s *Store) InboxWake() <-chan struct{}   { return s.inbox }
func (s *Store) ControlWake() <-chan struct{} { return s.control }
func (s *Store) OutboxWake() <-chan struct{}  { return s.outbox }

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
