package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
)

// defaultListen is where serve listens unless told otherwise.
const defaultListen = "127.0.0.1:4517"

// checkListen refuses an address that others could reach before the
// configuration says under which names that is wanted.
func checkListen(addr string, hosts []string) error {
	if problem := addressProblem(addr); problem != "" {
		return usagef("--listen %s: %s", addr, problem)
	}
	host, port, _ := net.SplitHostPort(addr)
	if isLoopback(host) || len(hosts) > 0 {
		return nil
	}
	return fmt.Errorf("--listen %s: others could reach this address, and no host names are configured for it. There are two ways on:\n"+
		"  1. listen on this machine only: --listen %s, and reach it through a tunnel or a proxy with TLS\n"+
		"  2. name the hosts under which clients will address it in %s:\n"+
		"       [server]\n"+
		"       hosts = [\"plimsoll.example\"]", addr, net.JoinHostPort("127.0.0.1", port), configFile)
}

// addressProblem says what is wrong with how an address is written, if anything.
func addressProblem(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return "want an address and a port, such as " + defaultListen
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return port + " is no port; want one from 1 to 65535, or 0 for any that is free"
	}
	return ""
}

// isLoopback reports whether only this machine can reach host.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// listenTCP listens on addr, or says in words why it cannot.
func listenTCP(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: the port is in use by another program; choose another with --listen", addr)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listen on %s: not permitted; choose a port above 1023 with --listen", addr)
	case err != nil:
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err // the rest of it is said already
		}
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}

// listenSocket listens on the home's socket. Only the owner of the home calls it,
// so a socket that is already there was left by a process that died.
func (h home) listenSocket() (net.Listener, error) {
	if err := os.Remove(h.path(socketFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listen on socket: %w", err)
	}
	path, done := h.socketPath()
	l, err := net.Listen("unix", path)
	if err != nil {
		done()
		return nil, fmt.Errorf("listen on socket: %w", err)
	}
	if err := os.Chmod(h.path(socketFile), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on socket: %w", err), l.Close())
	}
	return &socketListener{l, done}, nil
}

// A socketListener gives up what its path needed when it is closed.
type socketListener struct {
	net.Listener
	done func()
}

// Close implements net.Listener. It removes the socket's file.
func (l *socketListener) Close() error {
	err := l.Listener.Close()
	l.done()
	return err
}
