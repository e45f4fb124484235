package jsonrpc

import "sync"

// Lanes run tasks: those of one lane one after the other, in the order of their
// coming, and not more than maxRunning lanes at a time. Lanes with work take turns.
// The lane without a name comes first: a task of another one begins when those are
// done that were in it before. There is a goroutine only while there is work.
type lanes struct {
	maxWaiting, maxRunning int

	wg      sync.WaitGroup // of the goroutines that run tasks
	mu      sync.Mutex     // guards what follows
	byName  map[string]*lane
	ready   []*lane // have work, wait for a goroutine
	held    []*lane // have work, wait for the lane without a name
	put     int     // into the lane without a name, so far
	done    int     // of these
	running int
	notes   int // that wait, in all
	stopped bool
}

type lane struct {
	name  string
	tasks []task
	notes int  // of the tasks
	busy  bool // is ready or held, or has a goroutine
}

type task struct {
	run   func()
	note  bool // a notification: these have room of their own
	must  bool // there is always room
	after int  // how many of the lane without a name are to be done before
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
	if name == "" {
		l.put++
	} else {
		t.after = l.put
	}
	l.count(ln, t, 1)
	ln.tasks = append(ln.tasks, t)
	if !ln.busy {
		ln.busy = true
		l.line(ln)
		l.hire(min(1, len(l.ready)))
	}
	return true
}

// line has a lane with work wait for its turn.
func (l *lanes) line(ln *lane) {
	if ln.tasks[0].after > l.done {
		l.held = append(l.held, ln)
	} else {
		l.ready = append(l.ready, ln)
	}
}

// hire starts up to n goroutines more, if so many may run.
func (l *lanes) hire(n int) {
	for range min(n, l.maxRunning-l.running) {
		l.running++
		l.wg.Go(l.work)
	}
}

func (l *lanes) work() {
	for {
		ln, t, ok := l.next()
		if !ok {
			return
		}
		t.run()
		l.finish(ln)
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

// finish ends a task of a lane, and lets begin what waited for it.
func (l *lanes) finish(ln *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	if len(ln.tasks) > 0 {
		l.line(ln)
	} else {
		ln.busy = false
		delete(l.byName, ln.name)
	}
	if ln.name != "" {
		return
	}
	l.done++
	held := l.held
	l.held = nil
	for _, other := range held {
		l.line(other)
	}
	l.hire(len(l.ready) - 1) // who calls goes on with one of them
}

// stop drops what waits. What runs goes on.
func (l *lanes) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.ready, l.held, l.byName = nil, nil, map[string]*lane{}
}
