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
		return nil, fmt.Errorf("listen on %s: %w", addr, reasonOfOp(err))
	}
	return l, nil
}

// listenUnix listens on a unix socket that only this user can open. What is there
// already is replaced if it is ours: the socket of a home, which only its owner
// listens on, or any other that nobody answers. Nothing else is touched.
func listenUnix(path string, ours bool) (net.Listener, error) {
	short, done := socketPath(path)
	l, err := func() (net.Listener, error) {
		if err := makeRoom(path, short, ours); err != nil {
			return nil, err
		}
		l, err := net.Listen("unix", short)
		if err != nil {
			return nil, reasonOfOp(err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		return l, nil
	}()
	if err != nil {
		done()
		return nil, fmt.Errorf("listen on socket %s: %w", path, err)
	}
	return &socketListener{l, done}, nil
}

// makeRoom removes a socket that was left behind by a process that died.
func makeRoom(path, short string, ours bool) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return reasonOf(err)
	case !ours && info.Mode().Type() != os.ModeSocket:
		return errors.New("something else is there; remove it, or choose another path")
	case !ours:
		if c, err := net.Dial("unix", short); err == nil {
			shut(c)
			return errors.New("it is in use by another program; choose another path")
		}
	}
	return os.Remove(path)
}

// reasonOfOp strips what an error of the network says about the operation.
func reasonOfOp(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// A socketListener accepts this user and the superuser only, should the socket ever be
// open to others, and gives up what its path needed when it is closed.
type socketListener struct {
	net.Listener
	done func()
}

// Accept implements net.Listener.
func (l *socketListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || isOwn(c) {
			return c, err
		}
		shut(c)
	}
}

// isOwn reports whether a connection is this user's own.
func isOwn(c net.Conn) bool {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return false
	}
	uid, known, err := peerUser(u)
	return err == nil && (!known || uid == os.Geteuid() || uid == 0)
}

// Close implements net.Listener. It removes the socket's file.
func (l *socketListener) Close() error {
	err := l.Listener.Close()
	l.done()
	return err
}
