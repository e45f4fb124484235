package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"io"
	"math"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/events"
)

// A pool hands out connections that cannot write, opened when first needed.
type pool struct {
	path  string
	slots chan *session // nil for one that is not open

	mu     sync.Mutex
	closed bool
}

func newPool(path string, n int) *pool {
	p := &pool{path: path, slots: make(chan *session, n)}
	for range n {
		p.slots <- nil
	}
	return p
}

// with lends a connection to f.
func (p *pool) with(ctx context.Context, f func(*session) error) (err error) {
	var s *session
	select {
	case s = <-p.slots:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { p.slots <- s }()
	if p.isClosed() {
		return events.ErrClosed
	}
	if s == nil {
		conn, err := connect(p.path, "_query_only=true", "_cache_size=-1000")
		if err != nil {
			return err
		}
		s = newSession(conn)
	}
	return f(s)
}

func (p *pool) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// close waits for running reads.
func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	var errs []error
	for range cap(p.slots) {
		if s := <-p.slots; s != nil {
			errs = append(errs, s.close())
		}
	}
	for range cap(p.slots) {
		p.slots <- nil
	}
	return errors.Join(errs...)
}

// view runs f in a read transaction: all it reads is of one moment.
func (s *session) view(f func() error) error {
	if _, err := s.exec("begin"); err != nil {
		return err
	}
	err := f()
	if s.conn.AutoCommit() {
		return err
	}
	_, rerr := s.exec("rollback")
	return errors.Join(err, rerr)
}

func (j *Journal) read(ctx context.Context, what string, f func(*session) error) error {
	err := j.reads.with(ctx, f)
	if err != nil {
		return explain(what, err)
	}
	return nil
}

// Read implements events.Journal.
func (j *Journal) Read(ctx context.Context, thread string, after int64, limit int) ([]events.Event, error) {
	evs := make([]events.Event, 0, min(max(limit, 0), 256))
	err := j.read(ctx, "read "+thread, func(s *session) error {
		return s.view(func() error {
			info, id, err := s.thread(thread)
			if err != nil {
				return err
			}
			switch {
			case after > info.Head:
				return &events.Reset{Reason: events.ResetAhead, Oldest: info.Oldest - 1}
			case after < info.Oldest-1 && !info.Deleted:
				return &events.Reset{Reason: events.ResetExpired, Oldest: info.Oldest - 1}
			case after == info.Head || limit <= 0:
				return nil
			}
			return s.each(ctx, "select seq, pos, type, at, data from event where thread=? and seq>? order by seq limit ?",
				args(id, after, int64(limit)), func(v []driver.Value) error {
					e := events.Event{Thread: thread}
					evs = append(evs, e)
					return scanEvent(v, &evs[len(evs)-1])
				})
		})
	})
	if err != nil {
		return nil, err
	}
	return evs, nil
}

// ReadAll implements events.Journal.
func (j *Journal) ReadAll(ctx context.Context, after int64, limit int) (evs []events.Event, head int64, err error) {
	evs = make([]events.Event, 0, min(max(limit, 0), 256))
	err = j.read(ctx, "read all threads", func(s *session) error {
		return s.view(func() error {
			var trimmed int64
			err := s.row("select trimmed, (select coalesce(max(head_pos), 0) from thread) from journal", nil, &trimmed, &head)
			switch {
			case err != nil:
				return err
			case after > head:
				return &events.Reset{Reason: events.ResetAhead, Oldest: trimmed}
			case after < trimmed:
				return &events.Reset{Reason: events.ResetExpired, Oldest: trimmed}
			case after == head || limit <= 0:
				return nil
			}
			return s.each(ctx, `select e.seq, e.pos, e.type, e.at, e.data, t.name from event e join thread t on t.id = e.thread
				where e.pos>? order by e.pos limit ?`, args(after, int64(limit)), func(v []driver.Value) error {
				evs = append(evs, events.Event{})
				e := &evs[len(evs)-1]
				e.Thread, _ = v[5].(string)
				return scanEvent(v[:5], e)
			})
		})
	})
	if err != nil {
		return nil, 0, err
	}
	return evs, head, nil
}

func scanEvent(v []driver.Value, e *events.Event) error {
	var at int64
	var data []byte
	if err := scan(v, &e.Seq, &e.Pos, &e.Type, &at, &data); err != nil {
		return err
	}
	e.At, e.Data = time.UnixMilli(at).UTC(), data
	return nil
}

const infoColumns = "id, name, journal, head, head_pos, oldest, at, deleted, info"

func scanInfo(v []driver.Value) (info events.ThreadInfo, id int64, err error) {
	var at, deleted int64
	var doc []byte
	err = scan(v, &id, &info.Thread, &info.JournalID, &info.Head, &info.HeadPos, &info.Oldest, &at, &deleted, &doc)
	info.UpdatedAt, info.Deleted, info.Info = time.UnixMilli(at).UTC(), deleted != 0, json.RawMessage(doc)
	return info, id, err
}

// thread returns one thread, or ErrNotFound.
func (s *session) thread(name string) (info events.ThreadInfo, id int64, err error) {
	found := false
	err = s.each(context.Background(), "select "+infoColumns+" from thread where name=?", args(name), func(v []driver.Value) error {
		found = true
		info, id, err = scanInfo(v)
		return err
	})
	if err == nil && !found {
		err = events.ErrNotFound
	}
	return info, id, err
}

// Info implements events.Journal.
func (j *Journal) Info(ctx context.Context, thread string) (info events.ThreadInfo, err error) {
	err = j.read(ctx, "read thread "+thread, func(s *session) error {
		info, _, err = s.thread(thread)
		return err
	})
	return info, err
}

// List implements events.Journal.
func (j *Journal) List(ctx context.Context, q events.ListQuery) ([]events.ThreadInfo, error) {
	if q.Limit <= 0 {
		q.Limit = 100
	}
	if q.BeforePos <= 0 {
		q.BeforePos = math.MaxInt64
	}
	deleted := int64(0)
	if q.IncludeDeleted {
		deleted = 1
	}
	list := []events.ThreadInfo{}
	err := j.read(ctx, "list threads", func(s *session) error {
		return s.each(ctx, "select "+infoColumns+" from thread where head_pos<? and deleted<=? order by head_pos desc limit ?",
			args(q.BeforePos, deleted, int64(q.Limit)), func(v []driver.Value) error {
				info, _, err := scanInfo(v)
				list = append(list, info)
				return err
			})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Open implements events.Journal.
func (j *Journal) Open(ctx context.Context, thread string) ([]events.OpenText, error) {
	open := []events.OpenText{}
	err := j.read(ctx, "read open texts of "+thread, func(s *session) error {
		return s.each(ctx, "select item, text from open_text where thread=(select id from thread where name=?) order by rowid",
			args(thread), func(v []driver.Value) error {
				var o events.OpenText
				err := scan(v, &o.Item, &o.Text)
				open = append(open, o)
				return err
			})
	})
	if err != nil {
		return nil, err
	}
	return open, nil
}

// Blob implements events.Journal.
func (j *Journal) Blob(ctx context.Context, hash string) (data []byte, err error) {
	err = j.read(ctx, "read blob "+hash, func(s *session) error {
		return notFound(s.row("select data from blob where hash=?", args(rawHash(hash)), &data))
	})
	return data, err
}

// Snapshot implements events.Journal.
func (j *Journal) Snapshot(ctx context.Context, thread string) (snap events.Snapshot, err error) {
	err = j.read(ctx, "read snapshot of "+thread, func(s *session) error {
		var version int64
		err := s.row("select seq, version, data from snapshot where thread=(select id from thread where name=?)",
			args(thread), &snap.Seq, &version, &snap.Data)
		snap.Version = int(version)
		return notFound(err)
	})
	return snap, err
}

func notFound(err error) error {
	if errors.Is(err, io.EOF) {
		return events.ErrNotFound
	}
	return err
}
