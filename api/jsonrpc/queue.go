package jsonrpc

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// A queue holds the frames that wait for the writer. Calls that find no room wait
// for it and are let in one after the other, in the order of their coming, so what
// goes out has the order of the calls.
//
// There is room for a call if less than the bounds is in the queue, whatever the
// call brings: one call may go beyond them, and one that is larger than all of the
// queue is not refused.
//
// Room can be reserved without knowing what it is for. Such a slot takes its place in
// the order when it is used, which may be late: slots that are not used keep out other
// slots, and nobody else.
type queue struct {
	bounds usage
	gone   chan struct{} // closed when nothing more is let in
	lost   chan struct{} // closed when nothing more is written, as it cannot be

	mu      sync.Mutex // guards what follows; nobody waits while holding it
	frames  []frame
	used    usage     // of what was let in and is not written
	extra   usage     // the same, of what was forced in
	idle    usage     // of slots that are not used
	waiting []*ticket // in the order of their coming
	shut    bool
	nowhere bool   // nothing is written any more
	ping    bool   // is due
	write   func() // starts the writer, which runs while there is something to do
	writing bool   // it runs
}

// A frame is bytes to be written, and the room that this frees.
type frame struct {
	bytes []byte
	cost  usage
	extra bool
}

type usage struct{ frames, bytes int }

func (u *usage) add(v usage) { u.frames += v.frames; u.bytes += v.bytes }

func (u *usage) sub(v usage) { u.frames -= v.frames; u.bytes -= v.bytes }

func (u *usage) below(v usage) bool { return u.frames < v.frames && u.bytes < v.bytes }

// A ticket is a call that waits for room.
type ticket struct {
	cost   usage
	frames [][]byte // queued when the ticket is let in
	slot   bool     // it is for a slot
	in     chan struct{}
}

// A Slot is room for frames that was reserved. It is used once, or given up.
type Slot struct {
	q    *queue
	cost usage
	over bool // the slot was used or given up
}

// Push queues frames behind what was queued before, all together, and does not
// block. An error says that none of them is sent. The frames must not be changed any
// more.
func (s *Slot) Push(frames ...[]byte) error {
	q := s.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.over {
		return errUsed
	}
	s.over = true
	q.idle.sub(s.cost)
	if q.shut {
		return ErrClosed
	}
	if len(frames) > 0 {
		q.let(s.cost, frames)
	}
	q.admit()
	return nil
}

// Release gives a slot up, if it was not used.
func (s *Slot) Release() { _ = s.Push() }

var errUsed = errors.New("jsonrpc: the slot was used before")

// forced bounds what may be in the queue of frames that do not wait for room.
var forced = usage{frames: 4096, bytes: 1 << 20}

func newQueue(bounds usage) *queue {
	return &queue{bounds: bounds, gone: make(chan struct{}), lost: make(chan struct{})}
}

// begin sets what starts the writer. Nothing is written before.
func (q *queue) begin(write func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.write = write
	if len(q.frames) > 0 || q.shut {
		q.signal()
	}
}

// pingNow has the writer ping the client.
func (q *queue) pingNow() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.shut && !q.nowhere {
		q.ping = true
		q.signal()
	}
}

// put waits for room and queues the frames. With none it reserves the room, and
// push must follow.
func (q *queue) put(ctx context.Context, cost usage, frames ...[]byte) error {
	return q.enter(ctx, &ticket{cost: cost, frames: frames})
}

// reserve waits for room and returns a slot.
func (q *queue) reserve(ctx context.Context, cost usage) (*Slot, error) {
	if err := q.enter(ctx, &ticket{cost: cost, slot: true}); err != nil {
		return nil, err
	}
	return &Slot{q: q, cost: cost}, nil
}

// enter waits until a ticket is let in.
func (q *queue) enter(ctx context.Context, t *ticket) error {
	q.mu.Lock()
	if q.shut {
		q.mu.Unlock()
		return ErrClosed
	}
	if q.room(t) { // so nobody waits whose turn it is
		q.letIn(t)
		q.mu.Unlock()
		return nil
	}
	t.in = make(chan struct{})
	q.waiting = append(q.waiting, t)
	q.mu.Unlock()
	select {
	case <-t.in:
		return nil
	case <-q.gone:
		return ErrClosed
	case <-ctx.Done():
		return q.leave(t, ctx.Err())
	}
}

// leave gives up a ticket, unless it was let in meanwhile.
func (q *queue) leave(t *ticket, err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, t)
	if i < 0 {
		return nil
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return err
}

// push queues a frame for which there is room.
func (q *queue) push(cost usage, b []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut {
		return ErrClosed
	}
	q.queue(cost, [][]byte{b})
	return nil
}

// force queues a frame whether there is room or not. It reports whether that is
// settled: it is not if too much was forced before.
func (q *queue) force(b []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut || q.nowhere {
		return true
	}
	if !q.extra.below(forced) {
		return false
	}
	cost := usage{1, len(b)}
	q.extra.add(cost)
	q.frames = append(q.frames, frame{b, cost, true})
	q.signal()
	return true
}

func (q *queue) queue(cost usage, frames [][]byte) {
	if q.nowhere {
		return
	}
	for i, b := range frames {
		f := frame{bytes: b}
		if i == len(frames)-1 {
			f.cost = cost
		}
		q.frames = append(q.frames, f)
	}
	if len(frames) > 0 {
		q.signal()
	}
}

func (q *queue) signal() {
	if !q.writing && q.write != nil {
		q.writing = true
		q.write()
	}
}

// next takes out all that is to be written. It may use the memory of what it
// returned last. If there is nothing, the writer is to end, and if it is the last
// one, to close the connection.
func (q *queue) next(used []frame) (frames []frame, ping, last bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(used)
	frames, q.frames = q.frames, used[:0]
	ping, q.ping = q.ping, false
	if len(frames) > 0 || ping {
		return frames, ping, false
	}
	q.writing = false
	if cap(used) > keptFrames {
		q.frames = nil
	}
	return nil, false, q.shut
}

// keptFrames is how many frames an idle queue has memory for.
const keptFrames = 16

// free gives up room that was reserved.
func (q *queue) free(cost usage) { q.written([]frame{{cost: cost}}) }

// written frees the room of frames.
func (q *queue) written(frames []frame) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, f := range frames {
		if f.extra {
			q.extra.sub(f.cost)
		} else {
			q.used.sub(f.cost)
		}
	}
	q.admit()
}

// room reports whether there is room for a call.
func (q *queue) room(t *ticket) bool {
	taken := q.used
	if t.slot {
		taken.add(q.idle)
	}
	return taken.below(q.bounds)
}

// admit lets in who waits and for whom there is room.
func (q *queue) admit() {
	if q.shut {
		return
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(t *ticket) bool {
		if !q.room(t) {
			return false
		}
		q.letIn(t)
		close(t.in)
		return true
	})
}

func (q *queue) letIn(t *ticket) {
	if t.slot {
		q.idle.add(t.cost)
	} else {
		q.let(t.cost, t.frames)
	}
}

// let lets the frames of a call in. The last of them frees the room of all.
func (q *queue) let(cost usage, frames [][]byte) {
	if q.nowhere {
		return
	}
	q.used.add(cost)
	q.queue(cost, frames)
}

// discard makes room for everything: what is put into the queue from now on, and
// what is in it, goes nowhere.
func (q *queue) discard() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.nowhere {
		q.nowhere = true
		close(q.lost)
	}
	q.used, q.extra = usage{}, usage{}
	q.admit()
	q.frames = nil
}

// close lets nothing more in. What is in the queue can still be taken out.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.shut {
		q.shut = true
		close(q.gone)
		q.signal()
	}
}
