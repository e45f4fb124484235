package child

import (
	"errors"
	"sync"
	"time"
)

// ErrGarbage: the other side prints what is none of its wire's frames.
var ErrGarbage = errors.New("child: what it prints is not understood")

// ErrFlood: the other side prints without end while nobody listens.
var ErrFlood = errors.New("child: it prints without end while nothing runs")

// What may be said while nobody listens: more lines within the time are a flood. It is
// far more than any program has to tell that does nothing.
const (
	floodLines = 5000
	floodTime  = 10 * time.Second
)

// maxGarbage is how many lines that are no frames a desk passes over.
const maxGarbage = 100

// A Sorter says what a line is: a frame, and if it answers a request, the id of that.
// It reports false for a line that is no frame. The line is not used again.
type Sorter[F any] func(line []byte) (f F, answers string, ok bool)

// A Desk sorts what the other side of a conversation says: an answer goes to who asked,
// everything else to who listens, and to idle while nobody does. Its goroutine reads
// until the conversation ends. It waits for a listener that is slow, so that what is
// said further stays in the pipe.
type Desk[F any] struct {
	conn Conn
	sort Sorter[F]
	idle func(F) // must not block for long

	done chan struct{} // closed when the conversation ended
	err  error         // why; written before done is closed

	mu      sync.Mutex // guards what follows
	waiting map[string]chan F
	ear     *Ear[F]
}

// An Ear is somebody who listens.
type Ear[F any] struct {
	C    chan F
	left chan struct{} // closed when nobody listens any more
}

// NewDesk begins to read.
func NewDesk[F any](conn Conn, sort Sorter[F], idle func(F)) *Desk[F] {
	d := &Desk[F]{conn: conn, sort: sort, idle: idle, done: make(chan struct{}), waiting: map[string]chan F{}}
	go d.read()
	return d
}

func (d *Desk[F]) read() {
	garbage := 0
	var unheard flood
	for {
		line, err := d.conn.Next()
		if err != nil {
			d.end(err)
			return
		}
		heard := false
		if len(line) > 0 {
			f, answers, ok := d.sort(line)
			switch {
			case !ok:
				if garbage++; garbage > maxGarbage {
					d.conn.Kill()
					d.end(ErrGarbage)
					return
				}
			case answers != "":
				heard = d.answered(answers, f)
			default:
				heard = d.deliver(f)
			}
		}
		if !heard && unheard.more() {
			d.conn.Kill()
			d.end(ErrFlood)
			return
		}
	}
}

// answered gives an answer to who waits for it. Nobody does if it is late or comes twice.
func (d *Desk[F]) answered(id string, f F) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	ch := d.waiting[id]
	if ch != nil {
		delete(d.waiting, id)
		ch <- f
	}
	return ch != nil
}

// A flood counts what is said while nobody listens.
type flood struct {
	lines int
	since time.Time
}

// more counts one line, and reports whether they are too many.
func (n *flood) more() bool {
	now := time.Now()
	if now.Sub(n.since) > floodTime {
		n.lines, n.since = 0, now
	}
	n.lines++
	return n.lines > floodLines
}

func (d *Desk[F]) end(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
	clear(d.waiting)
	close(d.done)
}

// deliver gives a frame to who listens, or to idle.
func (d *Desk[F]) deliver(f F) (heard bool) {
	d.mu.Lock()
	e := d.ear
	d.mu.Unlock()
	if e != nil {
		select {
		case e.C <- f:
			return true
		case <-e.left:
		}
	}
	d.idle(f)
	return false
}

// Kill ends the other side and returns when nothing more is read of it. What e, who
// listens, has not taken is thrown away: who waits for the end takes nothing, and a flood
// would keep it from coming.
func (d *Desk[F]) Kill(e *Ear[F]) {
	d.conn.Kill()
	for {
		select {
		case <-e.C:
		case <-d.done:
			return
		}
	}
}

// Expect returns where the answer to a request will come. It must be called before the
// request is sent, and Forget if it is not waited for any more.
func (d *Desk[F]) Expect(id string) <-chan F {
	ch := make(chan F, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting[id] = ch
	return ch
}

// Forget gives up waiting for an answer.
func (d *Desk[F]) Forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waiting, id)
}

// Listen begins to receive what is said, in place of whoever did.
func (d *Desk[F]) Listen() *Ear[F] {
	e := &Ear[F]{C: make(chan F, 256), left: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ear = e
	return e
}

// Leave ends listening. What was not taken goes to idle.
func (d *Desk[F]) Leave(e *Ear[F]) {
	d.mu.Lock()
	if d.ear == e {
		d.ear = nil
	}
	d.mu.Unlock()
	close(e.left)
	for {
		select {
		case f := <-e.C:
			d.idle(f)
		default:
			return
		}
	}
}

// Done is closed when the conversation has ended. What was said before may still be in
// an ear.
func (d *Desk[F]) Done() <-chan struct{} { return d.done }

// Err says why the conversation ended, once it has.
func (d *Desk[F]) Err() error {
	select {
	case <-d.done:
		return d.err
	default:
		return nil
	}
}
