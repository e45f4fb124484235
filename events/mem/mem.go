// Package mem is the journal in memory, for ephemeral threads and for tests. It keeps the contract of
// events.Journal except for surviving the process, and can fail on demand.
package mem

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/events"
)

// A Journal is an events.Journal in memory.
type Journal struct {
	mu      sync.Mutex
	id      string
	pos     int64
	trimmed int64
	threads map[string]*thread
	all     []events.Event // by Pos; nothing is ever inserted before the end
	blobs   map[string][]byte
	fault   *fault
	closed  bool
}

type thread struct {
	info    events.ThreadInfo
	events  []events.Event
	open    []events.OpenText
	snap    *events.Snapshot
	blobs   map[string]bool
	docs    []events.Doc
	indexed int64
}

type fault struct {
	err     error
	persist bool
}

// New makes an empty journal.
func New() *Journal {
	return &Journal{id: events.NewID(), threads: map[string]*thread{}, blobs: map[string][]byte{}}
}

// FailNext makes the next Append that would succeed return err. With persist
// it takes effect all the same, as when the answer of a disk got lost: the
// caller can only learn from Info and Read which of the two happened.
func (j *Journal) FailNext(err error, persist bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fault = &fault{err, persist}
}

// lock takes the lock, or says why nothing can be done.
func (j *Journal) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return events.ErrClosed
	}
	return nil
}

// lockThread takes the lock and returns a thread that exists, deleted or not. If
// it fails, the lock is not held.
func (j *Journal) lockThread(ctx context.Context, name string) (*thread, error) {
	if err := j.lock(ctx); err != nil {
		return nil, err
	}
	t, ok := j.threads[name]
	if !ok {
		j.mu.Unlock()
		return nil, fmt.Errorf("thread %s: %w", name, events.ErrNotFound)
	}
	return t, nil
}

// lockLiving is lockThread for a thread that things can be kept beside.
func (j *Journal) lockLiving(ctx context.Context, name string) (*thread, error) {
	t, err := j.lockThread(ctx, name)
	if err == nil && t.info.Deleted {
		j.mu.Unlock()
		return nil, fmt.Errorf("thread %s: %w", name, events.ErrNotFound)
	}
	return t, err
}

// ID implements events.Journal.
func (j *Journal) ID() string { return j.id }

// Append implements events.Journal.
func (j *Journal) Append(ctx context.Context, a events.Append) (int64, error) {
	if err := a.Prepare(time.Now()); err != nil {
		return 0, err
	}
	if err := j.lock(ctx); err != nil {
		return 0, err
	}
	defer j.mu.Unlock()
	t := j.threads[a.Thread]
	if err := j.admit(t, a); err != nil {
		return 0, fmt.Errorf("append to %s: %w", a.Thread, err)
	}
	f := j.fault
	j.fault = nil
	if f != nil && !f.persist {
		return 0, fmt.Errorf("append to %s: %w", a.Thread, f.err)
	}
	head := j.commit(t, a)
	if f != nil {
		return 0, fmt.Errorf("append to %s: %w", a.Thread, f.err)
	}
	return head, nil
}

func (j *Journal) admit(t *thread, a events.Append) error {
	var head int64
	if t != nil {
		head = t.info.Head
	}
	switch {
	case t != nil && t.info.Deleted:
		return fmt.Errorf("%w: it was deleted", events.ErrConflict)
	case head != a.Expect:
		return fmt.Errorf("%w: it is at %d, expected %d", events.ErrConflict, head, a.Expect)
	}
	for _, b := range a.Blobs {
		if _, ok := j.blobs[b.Hash]; b.Data == nil && !ok {
			return fmt.Errorf("blob %s: %w", b.Hash, events.ErrNotFound)
		}
	}
	return nil
}

func (j *Journal) commit(t *thread, a events.Append) int64 {
	if t == nil {
		t = &thread{blobs: map[string]bool{}}
		t.info = events.ThreadInfo{Thread: a.Thread, JournalID: events.NewID(), Oldest: 1}
		j.threads[a.Thread] = t
	}
	added := a.Events
	for i := range added {
		t.info.Head++
		j.pos++
		added[i].Seq, added[i].Pos = t.info.Head, j.pos
	}
	if a.Delete {
		j.empty(t)
		added = added[len(added)-1:]
		t.info.Oldest, t.info.Deleted = t.info.Head, true
	}
	for _, e := range added {
		e.Data = bytes.Clone(e.Data)
		t.events = append(t.events, e)
		j.all = append(j.all, e)
	}
	t.info.HeadPos, t.info.UpdatedAt = j.pos, added[len(added)-1].At
	if a.Info != nil {
		t.info.Info = bytes.Clone(a.Info)
	}
	for _, b := range a.Blobs {
		if b.Data != nil {
			j.blobs[b.Hash] = bytes.Clone(b.Data)
		}
		t.blobs[b.Hash] = true
	}
	t.open = slices.DeleteFunc(t.open, func(o events.OpenText) bool { return slices.Contains(a.Closed, o.Item) })
	return t.info.Head
}

// empty removes everything of a thread but its info.
func (j *Journal) empty(t *thread) {
	j.all = slices.DeleteFunc(j.all, func(e events.Event) bool { return e.Thread == t.info.Thread })
	mine := t.blobs
	*t = thread{info: t.info, blobs: map[string]bool{}}
	t.info.Info = nil
	for hash := range mine {
		used := false
		for _, other := range j.threads {
			used = used || other.blobs[hash]
		}
		if !used {
			delete(j.blobs, hash)
		}
	}
}

// Info implements events.Journal.
func (j *Journal) Info(ctx context.Context, name string) (events.ThreadInfo, error) {
	t, err := j.lockThread(ctx, name)
	if err != nil {
		return events.ThreadInfo{}, err
	}
	defer j.mu.Unlock()
	return infoOf(t), nil
}

func infoOf(t *thread) events.ThreadInfo {
	info := t.info
	info.Info = bytes.Clone(info.Info)
	return info
}

// List implements events.Journal.
func (j *Journal) List(ctx context.Context, q events.ListQuery) ([]events.ThreadInfo, error) {
	if err := j.lock(ctx); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	if q.Limit <= 0 {
		q.Limit = 100
	}
	list := []events.ThreadInfo{}
	for _, t := range j.threads {
		if (q.BeforePos <= 0 || t.info.HeadPos < q.BeforePos) && (q.IncludeDeleted || !t.info.Deleted) {
			list = append(list, infoOf(t))
		}
	}
	slices.SortFunc(list, func(a, b events.ThreadInfo) int { return cmp.Compare(b.HeadPos, a.HeadPos) })
	return list[:min(q.Limit, len(list))], nil
}

// Read implements events.Journal.
func (j *Journal) Read(ctx context.Context, name string, after int64, limit int) ([]events.Event, error) {
	t, err := j.lockThread(ctx, name)
	if err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	switch {
	case after > t.info.Head:
		return nil, &events.Reset{Reason: events.ResetAhead, Oldest: t.info.Oldest - 1}
	case after < t.info.Oldest-1 && !t.info.Deleted:
		return nil, &events.Reset{Reason: events.ResetExpired, Oldest: t.info.Oldest - 1}
	}
	from, _ := slices.BinarySearchFunc(t.events, after, func(e events.Event, n int64) int { return cmp.Compare(e.Seq, n+1) })
	return page(t.events[from:], limit), nil
}

// ReadAll implements events.Journal.
func (j *Journal) ReadAll(ctx context.Context, after int64, limit int) ([]events.Event, int64, error) {
	if err := j.lock(ctx); err != nil {
		return nil, 0, err
	}
	defer j.mu.Unlock()
	switch {
	case after > j.pos:
		return nil, 0, &events.Reset{Reason: events.ResetAhead, Oldest: j.trimmed}
	case after < j.trimmed:
		return nil, 0, &events.Reset{Reason: events.ResetExpired, Oldest: j.trimmed}
	}
	from, _ := slices.BinarySearchFunc(j.all, after, func(e events.Event, n int64) int { return cmp.Compare(e.Pos, n+1) })
	return page(j.all[from:], limit), j.pos, nil
}

func page(evs []events.Event, limit int) []events.Event {
	return append([]events.Event{}, evs[:min(max(limit, 0), len(evs))]...)
}

// Close implements events.Journal.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	return nil
}

// Reopen undoes Close, as a restart would.
func (j *Journal) Reopen() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = false
}
