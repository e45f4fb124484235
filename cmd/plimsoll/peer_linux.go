package main

import (
	"fmt"
	"net"
	"syscall"
)

// peerUser returns the user on the other end of a unix socket, as the kernel noted it
// when that connected.
func peerUser(c *net.UnixConn) (uid int, known bool, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false, fmt.Errorf("look at the peer: %w", err)
	}
	var cred *syscall.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err == nil {
		err = credErr
	}
	if err != nil {
		return 0, false, fmt.Errorf("look at the peer: %w", err)
	}
	return int(cred.Uid), true, nil
}
