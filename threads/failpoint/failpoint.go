// Package failpoint marks the places where a crash test stops the process.
//
// In production nothing is armed and Hit costs one atomic load. Only tests arm
// a point; no flag or environment variable of the server can.
package failpoint

import "sync/atomic"

var hook atomic.Pointer[func(name string)]

// Hit reports that execution reached the named point.
func Hit(name string) {
	if h := hook.Load(); h != nil {
		(*h)(name)
	}
}

// Arm makes Hit call f until the returned function is called. For tests only.
func Arm(f func(name string)) (disarm func()) {
	hook.Store(&f)
	return func() { hook.Store(nil) }
}
