//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package proc

import "syscall"

// attributes make a child the leader of a session. It outlives a server that dies:
// these systems offer nothing against that.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// awaitExit returns when the child has ended, and leaves it to be reaped.
func awaitExit(pid int) {
	queue, err := syscall.Kqueue()
	if err != nil {
		return
	}
	defer syscall.Close(queue)
	change := make([]syscall.Kevent_t, 1)
	syscall.SetKevent(&change[0], pid, syscall.EVFILT_PROC, syscall.EV_ADD|syscall.EV_ONESHOT)
	change[0].Fflags = syscall.NOTE_EXIT
	for { // a child that is a zombie already is ESRCH
		if _, err = syscall.Kevent(queue, change, make([]syscall.Kevent_t, 1), nil); err != syscall.EINTR {
			return
		}
	}
}
