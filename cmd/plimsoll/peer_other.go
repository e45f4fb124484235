//go:build !linux

package main

import "net"

// peerUser does not know: the modes of the socket and of its folder are all there is.
func peerUser(*net.UnixConn) (uid int, known bool, err error) { return 0, false, nil }
