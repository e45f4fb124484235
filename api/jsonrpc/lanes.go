package jsonrpc

import "sync"

// Lanes run tasks: those of one lane one after the other, in the order of their
// coming, and not more than maxRunning lanes at a time. Lanes with work take turns.
// There is a goroutine only while there is work.
type lanes struct {
	maxWaiting, maxRunning int

	wg      sync.WaitGroup // of the goroutines that run tasks
	mu      sync.Mutex     // guards what follows
	byName  map[string]*lane
	ready   []*lane // have work, wait for a goroutine
	running int
	notes   int // that wait, in all
	stopped bool
}

type lane struct {
	name  string
	tasks []task
	notes int  // of the tasks
	busy  bool // waits for a goroutine, or has one
}

type task struct {
	run  func()
	note bool // a notification: these have room of their own
	must bool // there is always room
}

func newLanes(maxWaiting, maxRunning int) *lanes {
	return &lanes{maxWaiting: maxWaiting, maxRunning: maxRunning, byName: map[string]*lane{}}
}

// add queues a task, and reports whether there was room for it.
func (l *lanes) add(name string, t task) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return true // nobody waits for it any more
	}
	ln := l.byName[name]
	if ln == nil {
		ln = &lane{name: name}
	}
	if !t.must && (ln.waiting(t) >= l.maxWaiting || t.note && l.notes >= 4*l.maxWaiting) {
		return false
	}
	l.byName[name] = ln
	l.count(ln, t, 1)
	ln.tasks = append(ln.tasks, t)
	if !ln.busy {
		ln.busy = true
		l.ready = append(l.ready, ln)
		if l.running < l.maxRunning {
			l.running++
			l.wg.Go(l.work)
		}
	}
	return true
}

func (l *lanes) work() {
	for {
		ln, t, ok := l.next()
		if !ok {
			return
		}
		t.run()
		l.done(ln)
	}
}

func (l *lanes) next() (*lane, task, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ready) == 0 {
		l.ready = nil
		l.running--
		return nil, task{}, false
	}
	ln := l.ready[0]
	l.ready = l.ready[1:]
	t := ln.tasks[0]
	ln.tasks[0] = task{}
	ln.tasks = ln.tasks[1:]
	l.count(ln, t, -1)
	return ln, t, true
}

// waiting returns how many tasks like t wait in the lane.
func (ln *lane) waiting(t task) int {
	if t.note {
		return ln.notes
	}
	return len(ln.tasks) - ln.notes
}

func (l *lanes) count(ln *lane, t task, n int) {
	if t.note {
		ln.notes += n
		l.notes += n
	}
}

func (l *lanes) done(ln *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(ln.tasks) > 0 && !l.stopped {
		l.ready = append(l.ready, ln)
		return
	}
	ln.busy = false
	delete(l.byName, ln.name)
}

// stop drops what waits. What runs goes on.
func (l *lanes) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.ready, l.byName = nil, map[string]*lane{}
}
