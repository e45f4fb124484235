package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/mattn/go-sqlite3"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/failpoint"
)

// A writer owns the connection that writes. Only the goroutine of run uses it.
type writer struct {
	*session
	heads map[string]*head // of threads written to lately; a cache
	pos   int64            // the newest pos given out
	batch []*op
}

// A head is what an append must know of its thread.
type head struct {
	id, seq, pos, oldest int64
	deleted              bool
}

// An op is one write: apply runs in the writer's transaction and either
// refuses before it changes anything, or works, or fails.
type op struct {
	apply func(*writer) error
	app   *events.Append // set instead of apply for the hot path
	head  int64
	err   error
	done  chan struct{}
}

var ops = sync.Pool{New: func() any { return &op{done: make(chan struct{}, 1)} }}

// The points where crash tests stop the writer: with all of a transaction
// written but not committed, and committed but not acknowledged.
const (
	BeforeCommit = "journal/beforeCommit"
	AfterCommit  = "journal/afterCommit"
)

const (
	maxBatch = 256    // ops that share a commit
	maxHeads = 10_000 // threads whose heads are cached
)

func newWriter(conn *sqlite3.SQLiteConn, path string, opts Options) (*writer, string, error) {
	pragmas := []string{"pragma journal_mode=wal", "pragma journal_size_limit=8388608", "pragma wal_autocheckpoint=1000"}
	if opts.MaxPages > 0 {
		pragmas = append(pragmas, "pragma max_page_count="+strconv.Itoa(opts.MaxPages))
	}
	for _, p := range pragmas {
		if _, err := conn.Exec(p, nil); err != nil {
			return nil, "", err
		}
	}
	if err := migrate(conn, migrations()); err != nil {
		return nil, "", err
	}
	id, err := identity(conn)
	if err != nil {
		return nil, "", err
	}
	pos, err := queryInt(conn, "select coalesce(max(head_pos), 0) from thread")
	if err != nil {
		return nil, "", err
	}
	return &writer{session: newSession(conn), heads: map[string]*head{}, pos: pos}, id, nil
}

// do runs one write and waits for its commit. ctx counts until the write is
// queued: after that the truth is known soon, and only the truth is returned.
func (j *Journal) do(ctx context.Context, fill func(*op)) (int64, error) {
	o := ops.Get().(*op)
	fill(o)
	if err := j.send(ctx, o); err != nil {
		o.apply, o.app = nil, nil
		ops.Put(o)
		return 0, err
	}
	<-o.done
	head, err := o.head, o.err
	o.apply, o.app, o.head, o.err = nil, nil, 0, nil
	ops.Put(o)
	return head, err
}

func (j *Journal) send(ctx context.Context, o *op) error {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if j.closed {
		return events.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case j.queue <- o:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run commits whatever queued up while the commit before was syncing.
func (w *writer) run(queue <-chan *op) {
	for first := range queue {
		w.batch = append(w.batch[:0], first)
	fill:
		for len(w.batch) < maxBatch {
			select {
			case o, ok := <-queue:
				if !ok {
					break fill
				}
				w.batch = append(w.batch, o)
			default:
				break fill
			}
		}
		w.commitAll(w.batch)
		for i, o := range w.batch {
			w.batch[i] = nil
			o.done <- struct{}{}
		}
		if len(w.heads) > maxHeads {
			clear(w.heads)
		}
	}
}

// commitAll commits the batch, or, if that fails, each op alone, so that the
// one at fault fails alone.
func (w *writer) commitAll(batch []*op) {
	err := w.commit(batch)
	if err != nil && len(batch) > 1 {
		for i := range batch {
			w.commitAll(batch[i : i+1])
		}
		return
	}
	if err != nil {
		batch[0].err = err
	}
}

func (w *writer) commit(batch []*op) error {
	if _, err := w.exec("begin immediate"); err != nil {
		return explain("begin", err)
	}
	changed := false
	for _, o := range batch {
		o.err = w.applyOne(o)
		if o.err != nil && !refusal(o.err) {
			return errors.Join(explain("write", o.err), w.rollback())
		}
		changed = changed || o.err == nil
	}
	if !changed {
		return w.rollback()
	}
	failpoint.Hit(BeforeCommit)
	if _, err := w.exec("commit"); err != nil {
		return errors.Join(explain("commit", err), w.rollback())
	}
	failpoint.Hit(AfterCommit)
	return nil
}

func (w *writer) applyOne(o *op) (err error) {
	if o.app != nil {
		o.head, err = w.append(o.app)
		return err
	}
	return o.apply(w)
}

// refusal reports whether an op said no before it changed anything.
func refusal(err error) bool {
	return errors.Is(err, events.ErrConflict) || errors.Is(err, events.ErrNotFound) ||
		errors.Is(err, events.ErrInvalid) || errors.Is(err, events.ErrNoSnapshot)
}

// rollback forgets the transaction and what was cached during it; the positions
// it gave out stay unused. SQLite may have rolled back by itself, for instance
// when the disk is full.
func (w *writer) rollback() error {
	clear(w.heads)
	if w.conn.AutoCommit() {
		return nil
	}
	if _, err := w.exec("rollback"); err != nil {
		return explain("roll back", err)
	}
	return nil
}

// head returns what is known of a thread, nil if there is none.
func (w *writer) head(thread string) (*head, error) {
	if h, ok := w.heads[thread]; ok {
		return h, nil
	}
	h := &head{}
	var deleted int64
	err := w.row("select id, head, head_pos, oldest, deleted from thread where name=?", args(thread),
		&h.id, &h.seq, &h.pos, &h.oldest, &deleted)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read thread %s: %w", thread, err)
	}
	h.deleted = deleted != 0
	w.heads[thread] = h
	return h, nil
}

// living returns the head of a thread that has events beside its deletion.
func (w *writer) living(thread string) (*head, error) {
	h, err := w.head(thread)
	if err == nil && (h == nil || h.deleted) {
		return nil, fmt.Errorf("thread %s: %w", thread, events.ErrNotFound)
	}
	return h, err
}

func (w *writer) close() error {
	_, err := w.conn.Exec("pragma wal_checkpoint(truncate)", nil)
	return errors.Join(err, w.session.close())
}
