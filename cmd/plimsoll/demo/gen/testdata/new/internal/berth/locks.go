package berth

import "sync"

// locks are one lock per berth, made when first asked for. A berth is never
// removed while the server runs, so that the map does not need to shrink.
type locks struct {
	mu  sync.Mutex
	all map[string]*sync.Mutex
}

func newLocks() *locks { return &locks{all: map[string]*sync.Mutex{}} }

// lock locks a berth and returns the function that unlocks it.
func (l *locks) lock(name string) (unlock func()) {
	l.mu.Lock()
	m, ok := l.all[name]
	if !ok {
		m = &sync.Mutex{}
		l.all[name] = m
	}
	l.mu.Unlock()
	m.Lock()
	return m.Unlock
}
