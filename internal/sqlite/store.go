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
// for concurrent use; each is one transaction, and what one stored the next one sees.
type Store struct {
	write *writer
	read  *reader
	log   *slog.Logger
	probe func(string, bool) error

	inbox, control, outbox chan struct{}
}

// readers is how many connections read side by side.
const readers = 2

// Open opens the database file, creating it if it is absent, and applies the
// migrations it lacks. It refuses a schema that is newer than the program, and
// never replaces a file that it cannot read.
func Open(ctx context.Context, path string, cfg Config) (*Store, error) {
	if err := create(path); err != nil {
		return nil, err
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
	// As SQLite does on every distribution's Linux: a commit need not wait for the
	// file's timestamps. Where there is no such call the driver stays with fsync.
	_, _ = driver.Fdatasync(true)
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return nil, describe(path, err)
	}
	db.SetMaxOpenConns(1)
	if err = migrate(ctx, db, s.log); err == nil {
		s.write, err = newWriter(ctx, db)
	}
	if err != nil {
		return nil, describe(path, errors.Join(err, db.Close()))
	}
	if db, err = sql.Open("sqlite", dsn(path)+"&_pragma=query_only(1)"); err != nil {
		return nil, describe(path, errors.Join(err, s.write.Close()))
	}
	db.SetMaxOpenConns(readers)
	db.SetMaxIdleConns(readers)
	s.read = &reader{db: db}
	return s, nil
}

// Close waits for the transactions under way and closes the file.
func (s *Store) Close() error {
	return errors.Join(s.read.db.Close(), s.write.Close())
}

// create makes the file before SQLite does, so that others cannot read it: it
// holds private conversations. A file that is there is not even opened: closing it
// would give up the locks that this process has on it (fcntl(2)).
func create(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	db, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return fmt.Errorf("database: %w", err)
		}
		return f.Close()
	case err != nil:
		return fmt.Errorf("database: %w", err)
	case !db.Mode().IsRegular():
		return fmt.Errorf("database %s is not a file", path)
	}
	// SQLite deletes the log of an empty database; it may be all that is left.
	if log, err := os.Stat(path + "-wal"); err == nil && db.Size() == 0 && log.Size() > 0 {
		return fmt.Errorf("database %s is empty, but %s is not: the file was damaged; restore a backup of both, or move both away", path, log.Name())
	}
	return nil
}

// dsn spells the pragmas for modernc's driver; other drivers' spellings are
// silently ignored (C068), so a test reads them back. FULL: a power cut must not
// lose what Telegram was told we have. A page cache of 256 KiB a connection is as
// fast as a larger one, which only keeps twice what the system keeps: 1 MiB made
// the process 7 MiB larger. What is deleted is overwritten: people erase words for
// a reason.
func dsn(path string) string {
	q := url.Values{"_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "secure_delete(1)", "cache_size(-256)",
	}}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

func migrate(ctx context.Context, db *sql.DB, log *slog.Logger) error {
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
	version, err := schema(ctx, db)
	switch {
	case err != nil:
		return err
	case version == len(files):
		return nil // goose would cost more than all the rest of the start
	case version > len(files):
		return fmt.Errorf("its schema has version %d, this program knows up to %d: it was written by a newer agentd; install that version again", version, len(files))
	}
	p, err := goose.NewProvider(database.DialectSQLite3, db, migrations.FS)
	if err != nil {
		return err
	}
	if _, err = p.Up(ctx); err != nil {
		return err
	}
	log.Info("the database has its schema", "from", version, "to", len(files))
	return nil
}

// schema gives the number of the last migration that was applied; 0 in a new file.
func schema(ctx context.Context, db *sql.DB) (version int, err error) {
	var there bool
	err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'goose_db_version')`).Scan(&there)
	if err != nil || !there {
		return 0, err
	}
	err = db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version`).Scan(&version)
	return version, err
}

// describe puts a sentence to the errors that an operator can do something about.
func describe(path string, err error) error {
	var e *driver.Error
	switch {
	case Full(err):
		return fmt.Errorf("database %s: the disk is full: %w", path, err)
	case errors.As(err, &e):
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
			return fmt.Errorf("database %s is damaged or not a database; it was left as it is: move it away, or restore a backup: %w", path, err)
		case sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_IOERR:
			return fmt.Errorf("database %s cannot be used on this file system; put DATA_DIR on a local disk: %w", path, err)
		}
	}
	return fmt.Errorf("database %s: %w", path, err)
}

// Full tells whether err says that the disk has no room.
func Full(err error) bool {
	var e *driver.Error
	// SHMSIZE: the log's index, shared memory in a file, could not grow.
	return errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_FULL || e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE)
}

// Check reads the whole file for damage; nil means sound. It may take a second a gigabyte.
func (s *Store) Check(ctx context.Context) error {
	var answer string
	if _, err := s.read.row(ctx, `PRAGMA quick_check(1)`, nil, &answer); err != nil {
		return err
	}
	if answer != "ok" {
		return errors.New(answer)
	}
	return nil
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
