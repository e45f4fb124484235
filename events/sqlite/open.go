package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/mattn/go-sqlite3"

	"github.com/plimsoll-dev/plimsoll/events"
)

// Options tune a Journal; the zero value is right for a server.
type Options struct {
	MaxPages int // bound of the file in pages of 4 KiB; 0 means none
	Readers  int // how many reads run at once; 0 means 4
}

// A Journal is an events.Journal in one file.
type Journal struct {
	id     string
	owner  *owner
	reads  *pool
	writer *writer // owned by the goroutine that Open starts
	wg     sync.WaitGroup

	mu     sync.RWMutex // held for reading while sending to queue
	closed bool
	queue  chan *op
}

// queueLen is how many writes may wait before writers do.
const queueLen = 256

// Open opens the journal at path, making it if there is none. The folder must
// exist.
func Open(path string, opts Options) (*Journal, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	own, err := acquire(path)
	if err != nil {
		return nil, err
	}
	j, err := open(path, opts)
	if err != nil {
		return nil, errors.Join(err, own.release())
	}
	j.owner = own
	j.wg.Go(func() { j.writer.run(j.queue) })
	return j, nil
}

func open(path string, opts Options) (*Journal, error) {
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	if err := probe(path); err != nil {
		return nil, err
	}
	conn, err := connect(path, "_txlock=immediate")
	if err != nil {
		return nil, explain("open journal "+path, err)
	}
	w, id, err := newWriter(conn, path, opts)
	if err != nil {
		return nil, errors.Join(explain("open journal "+path, err), conn.Close())
	}
	if opts.Readers <= 0 {
		opts.Readers = 4
	}
	return &Journal{id: id, writer: w, reads: newPool(path, opts.Readers), queue: make(chan *op, queueLen)}, nil
}

// Close implements events.Journal.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	close(j.queue)
	j.mu.Unlock()
	j.wg.Wait()
	err := errors.Join(j.reads.close(), j.writer.close(), j.owner.release())
	if err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}

// ID implements events.Journal.
func (j *Journal) ID() string { return j.id }

const magic = "SQLite format 3\x00"

// prepareFile makes the file private before SQLite sees it: SQLite gives the
// files beside it the same mode. What is not a database is left alone.
func prepareFile(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	head := make([]byte, len(magic))
	n, err := io.ReadFull(f, head)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
	case string(head[:n]) != magic:
		return fmt.Errorf("open journal %s: %w: not a SQLite database", path, events.ErrCorrupt)
	}
	if err := f.Chmod(0o600); err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	return nil
}

// connect opens one connection. What an option of the driver can say is said
// there, because it then holds before the first statement.
func connect(path string, params ...string) (*sqlite3.SQLiteConn, error) {
	params = append(params, "_busy_timeout=5000", "_synchronous=FULL", "_secure_delete=FAST")
	name := (&url.URL{Scheme: "file", Path: path}).String() + "?" + strings.Join(params, "&")
	c, err := (&sqlite3.SQLiteDriver{}).Open(name)
	if err != nil {
		return nil, err
	}
	return c.(*sqlite3.SQLiteConn), nil
}

// probe looks at an existing file through a connection that cannot write.
func probe(path string) (err error) {
	if st, err := os.Stat(path); err != nil || st.Size() == 0 {
		return err
	}
	conn, err := connect(path, "mode=ro")
	if err != nil {
		return explain("open journal "+path, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	app, err := queryInt(conn, "pragma application_id")
	if err != nil {
		return explain("open journal "+path, err)
	}
	version, err := queryInt(conn, "pragma user_version")
	if err != nil {
		return explain("open journal "+path, err)
	}
	tables, err := queryInt(conn, "select count(*) from sqlite_master")
	if err != nil {
		return explain("open journal "+path, err)
	}
	known := len(migrations())
	switch {
	case app == 0 && version == 0 && tables == 0:
		return nil
	case app != applicationID:
		return fmt.Errorf("open journal %s: %w: the database of another program", path, events.ErrCorrupt)
	case int(version) > known:
		return &events.VersionError{Path: path, Have: int(version), Knows: known}
	}
	return nil
}

func queryInt(conn *sqlite3.SQLiteConn, query string) (int64, error) {
	rows, err := conn.Query(query, nil)
	if err != nil {
		return 0, err
	}
	dest := make([]driver.Value, 1)
	err = rows.Next(dest)
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return 0, err
	}
	n, _ := dest[0].(int64)
	return n, nil
}

// explain says what was being done and maps SQLite's codes to the errors that
// callers tell apart.
func explain(what string, err error) error {
	var se sqlite3.Error
	if !errors.As(err, &se) {
		return fmt.Errorf("%s: %w", what, err)
	}
	switch se.Code {
	case sqlite3.ErrFull:
		return fmt.Errorf("%s: %w", what, events.ErrFull)
	case sqlite3.ErrCorrupt, sqlite3.ErrNotADB:
		return fmt.Errorf("%s: %w: %w", what, events.ErrCorrupt, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
