package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
)

// writer is the one connection that writes. Transactions queue for it here, in
// their order, not at SQLite's lock. Its statements stay prepared: parsing them
// costs more than running them. A *sql.Tx could not keep them.
type writer struct {
	db    *sql.DB
	conn  *sql.Conn
	free  chan struct{}        // holds a token while no transaction runs
	stmts map[string]*sql.Stmt // used by the holder of the token
	lazy  bool                 // the connection's synchronous is NORMAL; likewise
}

func newWriter(ctx context.Context, db *sql.DB) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{db: db, conn: conn, free: make(chan struct{}, 1), stmts: map[string]*sql.Stmt{}}
	w.free <- struct{}{}
	return w, nil
}

// transact runs fn in a transaction. ctx ends the wait for the connection and
// for another process' lock, not a transaction that has begun: it is short, and
// an interrupted statement would cost the connection.
//
// A lazy transaction does not wait for the disk: a power cut may take it back,
// until the next one that is not lazy syncs the log, and all before it.
func (w *writer) transact(ctx context.Context, lazy bool, fn func(*tx) error) error {
	select {
	case <-w.free:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { w.free <- struct{}{} }()
	if err := w.begin(&tx{ctx, w}, lazy); err != nil {
		return err
	}
	t := &tx{context.WithoutCancel(ctx), w}
	committed := false
	defer func() {
		if !committed {
			// SQLite may have rolled back already, on a full disk for one.
			_, _ = t.exec("ROLLBACK")
		}
	}()
	if err := fn(t); err != nil {
		return err
	}
	_, err := t.exec("COMMIT")
	committed = err == nil
	return err
}

func (w *writer) begin(t *tx, lazy bool) error {
	if lazy != w.lazy {
		mode := "PRAGMA synchronous = FULL"
		if lazy {
			mode = "PRAGMA synchronous = NORMAL"
		}
		if _, err := t.exec(mode); err != nil {
			return err
		}
		w.lazy = lazy
	}
	_, err := t.exec("BEGIN IMMEDIATE")
	return err
}

// truncateLog empties the log: what was erased from the file still stands in it.
// Readers of this moment may keep it from that; then the next checkpoint does it.
func (w *writer) truncateLog(ctx context.Context) error {
	select {
	case <-w.free:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { w.free <- struct{}{} }()
	t := &tx{context.WithoutCancel(ctx), w}
	_, err := t.row(`PRAGMA wal_checkpoint(TRUNCATE)`, nil, new(int), new(int), new(int))
	return err
}

// Close waits for the transaction under way; later ones fail.
func (w *writer) Close() error {
	<-w.free
	defer func() { w.free <- struct{}{} }()
	var errs []error
	for _, s := range w.stmts {
		errs = append(errs, s.Close())
	}
	clear(w.stmts)
	return errors.Join(append(errs, w.conn.Close(), w.db.Close())...)
}

// tx is a writing transaction as the verbs use it.
type tx struct {
	ctx context.Context
	w   *writer
}

func (t *tx) prepare(query string) (*sql.Stmt, error) {
	if s, ok := t.w.stmts[query]; ok {
		return s, nil
	}
	s, err := t.w.conn.PrepareContext(t.ctx, query)
	if err != nil {
		return nil, err
	}
	t.w.stmts[query] = s
	return s, nil
}

func (t *tx) run(query string, args []any) (sql.Result, error) {
	s, err := t.prepare(query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(t.ctx, args...)
}

// exec returns the number of rows changed.
func (t *tx) exec(query string, args ...any) (int64, error) {
	r, err := t.run(query, args)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// insert returns the id of the new row.
func (t *tx) insert(query string, args ...any) (int64, error) {
	r, err := t.run(query, args)
	if err != nil {
		return 0, err
	}
	return r.LastInsertId()
}

func (t *tx) query(query string, args ...any) (*sql.Rows, error) {
	s, err := t.prepare(query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(t.ctx, args...)
}

// row scans the one row of a query; false: there is none.
func (t *tx) row(query string, args []any, dest ...any) (bool, error) {
	s, err := t.prepare(query)
	if err != nil {
		return false, err
	}
	return found(s.QueryRowContext(t.ctx, args...).Scan(dest...))
}

// reader is a pool of connections that only read. Each sees what was committed
// before its query began.
type reader struct {
	db    *sql.DB
	stmts sync.Map // query to *sql.Stmt
}

func (r *reader) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := r.stmts.Load(query); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := r.db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if first, raced := r.stmts.LoadOrStore(query, s); raced {
		return first.(*sql.Stmt), s.Close()
	}
	return s, nil
}

func (r *reader) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := r.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// row scans the one row of a query; false: there is none.
func (r *reader) row(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	s, err := r.prepare(ctx, query)
	if err != nil {
		return false, err
	}
	return found(s.QueryRowContext(ctx, args...).Scan(dest...))
}

func found(err error) (bool, error) {
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
	defer func() { _ = rows.Close() }() // rows.Err says what went wrong
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// do runs fn in a writing transaction that is on the disk when it returns. Its
// errors begin with the verb.
func (s *Store) do(ctx context.Context, verb string, fn func(*tx) error) error {
	return s.transact(ctx, verb, false, fn)
}

// doLazily is do for a verb after which nothing happens outside of the database
// that another verb does not precede: the disk is waited for once, there. A power
// cut before that takes the verb back, and it is done again.
func (s *Store) doLazily(ctx context.Context, verb string, fn func(*tx) error) error {
	return s.transact(ctx, verb, true, fn)
}

func (s *Store) transact(ctx context.Context, verb string, lazy bool, fn func(*tx) error) error {
	err := s.probe(verb, false)
	if err == nil {
		err = s.write.transact(ctx, lazy, fn)
	}
	if err == nil {
		err = s.probe(verb, true)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}
