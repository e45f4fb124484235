package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/mattn/go-sqlite3"
)

// A session is a connection with its statements, prepared when first used.
// One goroutine at a time uses it.
type session struct {
	conn  *sqlite3.SQLiteConn
	stmts map[string]*sqlite3.SQLiteStmt
}

func newSession(conn *sqlite3.SQLiteConn) *session {
	return &session{conn, map[string]*sqlite3.SQLiteStmt{}}
}

func (s *session) stmt(query string) (*sqlite3.SQLiteStmt, error) {
	if st, ok := s.stmts[query]; ok {
		return st, nil
	}
	st, err := s.conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	s.stmts[query] = st.(*sqlite3.SQLiteStmt)
	return s.stmts[query], nil
}

func (s *session) exec(query string, args ...driver.Value) (driver.Result, error) {
	st, err := s.stmt(query)
	if err != nil {
		return nil, err
	}
	return st.Exec(args)
}

// row scans the only row of a query into dest, or fails with io.EOF.
func (s *session) row(query string, args []driver.Value, dest ...any) error {
	st, err := s.stmt(query)
	if err != nil {
		return err
	}
	return queryRow(st, args, dest...)
}

func queryRow(st driver.Stmt, args []driver.Value, dest ...any) error {
	rows, err := st.(*sqlite3.SQLiteStmt).Query(args)
	if err != nil {
		return err
	}
	vals := make([]driver.Value, len(dest))
	err = rows.Next(vals)
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return scan(vals, dest...)
}

// each calls f with every row of a query; the values are valid until it
// returns. Cancelling ctx interrupts the query.
func (s *session) each(ctx context.Context, query string, args []driver.Value, f func(vals []driver.Value) error) (err error) {
	st, err := s.stmt(query)
	if err != nil {
		return err
	}
	named := make([]driver.NamedValue, len(args))
	for i, a := range args {
		named[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	rows, err := st.QueryContext(ctx, named)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := rows.Close(); err == nil {
			err = cerr
		}
	}()
	vals := make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(vals); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := f(vals); err != nil {
			return err
		}
	}
}

func (s *session) close() error {
	var errs []error
	for _, st := range s.stmts {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, s.conn.Close())...)
}

// scan copies SQLite values; the tables are STRICT, so their types are known.
func scan(vals []driver.Value, dest ...any) error {
	for i, d := range dest {
		var ok bool
		switch d := d.(type) {
		case *int64:
			*d, ok = vals[i].(int64)
		case *string:
			*d, ok = vals[i].(string)
		case *[]byte:
			if *d, ok = vals[i].([]byte); vals[i] == nil {
				ok = true
			}
		default:
			ok = false
		}
		if !ok {
			return fmt.Errorf("column %d has type %T, want %T", i, vals[i], d)
		}
	}
	return nil
}
