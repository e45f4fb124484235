package proc

import (
	"syscall"
	"unsafe"
)

// attributes make a child the leader of a session, and let it die with the thread
// that started it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

const byPid = 1 // P_PID of waitid(2)

// awaitExit returns when the child has ended, and leaves it to be reaped.
func awaitExit(pid int) {
	var info [128]byte // siginfo_t; nothing of it is read
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPid, uintptr(pid),
			uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}
