package jsonrpc

import (
	"context"
	"sync"
)

// A queue holds the frames that wait for the writer. Those that wait for room are
// let in one after the other, in the order of their coming.
type queue struct {
	maxFrames, maxBytes int
	wake                chan struct{} // holds a token while there may be something to do
	gone                chan struct{} // closed when nothing more is taken

	mu      sync.Mutex // guards what follows; nobody waits while holding it
	frames  []frame
	used    usage // of what was let in and is not written
	extra   usage // the part of it that was let in without room
	waiting []*ticket
	shut    bool
}

type frame struct {
	bytes []byte
	cost  usage
	extra bool
}

type usage struct{ frames, bytes int }

type ticket struct {
	cost  usage
	ready chan struct{}
}

func newQueue(maxFrames, maxBytes int) *queue {
	return &queue{
		maxFrames: maxFrames, maxBytes: maxBytes,
		wake: make(chan struct{}, 1), gone: make(chan struct{}),
	}
}

// reserve waits for room. What it let in must be followed by push.
func (q *queue) reserve(ctx context.Context, cost usage) error {
	q.mu.Lock()
	if q.shut {
		q.mu.Unlock()
		return ErrClosed
	}
	if len(q.waiting) == 0 && q.hasRoom() {
		q.take(cost)
		q.mu.Unlock()
		return nil
	}
	t := &ticket{cost: cost, ready: make(chan struct{})}
	q.waiting = append(q.waiting, t)
	q.mu.Unlock()
	select {
	case <-t.ready:
		return nil
	case <-q.gone:
		return ErrClosed
	case <-ctx.Done():
		return q.leave(t, ctx.Err())
	}
}

// leave gives up a ticket, or what it has been let in for meanwhile.
func (q *queue) leave(t *ticket, err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-t.ready:
		q.used.frames -= t.cost.frames
		q.used.bytes -= t.cost.bytes
	default:
		for i, w := range q.waiting {
			if w == t {
				q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
				break
			}
		}
	}
	q.admit()
	return err
}

// push adds frames for which there is room.
func (q *queue) push(cost usage, frames ...[]byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut {
		return ErrClosed
	}
	for i, b := range frames {
		f := frame{bytes: b}
		if i == len(frames)-1 {
			f.cost = cost
		}
		q.frames = append(q.frames, f)
	}
	q.signal()
	return nil
}

// force adds a frame whether there is room or not, and reports whether it did: as
// many may be forced as the queue has room for otherwise.
func (q *queue) force(b []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut || q.extra.frames >= extraFrames || q.extra.bytes >= extraBytes {
		return q.shut
	}
	q.frames = append(q.frames, frame{bytes: b, cost: usage{1, len(b)}, extra: true})
	q.extra.frames++
	q.extra.bytes += len(b)
	q.signal()
	return true
}

const (
	extraFrames = 4096
	extraBytes  = 1 << 20
)

func (q *queue) hasRoom() bool { return q.used.frames < q.maxFrames && q.used.bytes < q.maxBytes }

func (q *queue) take(cost usage) {
	q.used.frames += cost.frames
	q.used.bytes += cost.bytes
}

func (q *queue) admit() {
	for len(q.waiting) > 0 && q.hasRoom() {
		t := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.take(t.cost)
		close(t.ready)
	}
	if len(q.waiting) == 0 {
		q.waiting = nil
	}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next returns what is to be written, and whether there will be more.
func (q *queue) next() (batch []frame, open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch, q.frames = q.frames, nil
	return batch, !q.shut
}

// written makes room.
func (q *queue) written(f frame) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := &q.used
	if f.extra {
		u = &q.extra
	}
	u.frames -= f.cost.frames
	u.bytes -= f.cost.bytes
	q.admit()
}

// close lets nothing more in. What is in there can still be taken out.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.shut {
		q.shut = true
		close(q.gone)
		q.signal()
	}
}
