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
	stopped bool
}

type lane struct {
	name     string
	tasks    []task
	requests int // in tasks
	notes    int // in tasks
	busy     bool
}

type task struct {
	run  func()
	note bool // a notification
}

func newLanes(maxWaiting, maxRunning int) *lanes {
	return &lanes{maxWaiting: maxWaiting, maxRunning: maxRunning, byName: map[string]*lane{}}
}

// add queues a task, and reports whether there was room for it.
func (l *lanes) add(name string, t task, always bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return true // nobody waits for it any more
	}
	ln := l.byName[name]
	if ln == nil {
		ln = &lane{name: name}
		l.byName[name] = ln
	}
	n := &ln.requests
	if t.note {
		n = &ln.notes
	}
	if *n >= l.maxWaiting && !always {
		return false
	}
	*n++
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
	if t.note {
		ln.notes--
	} else {
		ln.requests--
	}
	return ln, t, true
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
