package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenAddressNeedsConfiguredHosts(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1:4517", "127.8.9.1:0", "localhost:80", "[::1]:4517", "[::ffff:127.0.0.1]:1"} {
		if err := checkListen(addr, nil); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	for _, addr := range []string{"0.0.0.0:4517", ":4517", "[::]:4517", "192.0.2.7:1", "example.org:80", "localhost.example.org:80"} {
		err := checkListen(addr, nil)
		if err == nil || !strings.Contains(err.Error(), "1. listen on this machine") || !strings.Contains(err.Error(), "hosts = [") {
			t.Errorf("%s: got %v, want an error with both ways on", addr, err)
		}
		if err := checkListen(addr, []string{"plimsoll.example"}); err != nil {
			t.Errorf("%s with hosts: %v", addr, err)
		}
	}
	for _, addr := range []string{"", "4517", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:nosuch"} {
		if err := checkListen(addr, nil); err == nil {
			t.Errorf("%q was accepted", addr)
		}
	}
}

func TestSocketWorksInAHomeWithALongPath(t *testing.T) {
	t.Parallel()
	h := home{filepath.Join(t.TempDir(), strings.Repeat("deep/", 30), "home")}
	if err := h.create(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.path(socketFile), nil, 0o600); err != nil { // left by a killed server
		t.Fatal(err)
	}
	l, err := listenUnix(h.path(socketFile), true)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(l)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		say(conn, "hello")
		shut(conn)
	}()
	path, done := socketPath(h.path(socketFile))
	defer done()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(conn)
	if got, err := io.ReadAll(conn); string(got) != "hello" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	info, err := os.Stat(h.path(socketFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info, err)
	}
}
