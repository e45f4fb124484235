package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/api"
)

// brokenServer answers each connection to a home's socket with the beginning of a
// reply, which may be empty, and ends it: what a client sees of a server that is
// killed.
func brokenServer(t *testing.T, reply string) *client {
	t.Helper()
	h := home{filepath.Join(t.TempDir(), "home")}
	mustDo(t, h.create())
	l, err := listenUnix(h.path(socketFile), true)
	mustDo(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 1) // not all of it: closing with unread bytes resets the connection
			_, _ = io.ReadFull(conn, buf)
			say(conn, "%s", reply)
			shut(conn)
		}
	}()
	cl, ok := dialSocket(h)
	if !ok {
		t.Fatal("the socket does not answer")
	}
	t.Cleanup(func() { mustDo(t, cl.close()); shut(l); <-served })
	return cl
}

func TestClientSaysThatTheServerStopped(t *testing.T) {
	t.Parallel()
	const id = "0199c3a8-7f0e-7c43-9d3b-2f6b1f0a9e11"
	for name, reply := range map[string]string{
		"before the reply": "",
		"within the head":  "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n",
		"within the body":  "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"compac",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl := brokenServer(t, reply)
			_, err := cl.compact(context.Background(), id, compactBody{Wait: true})
			if err == nil || !strings.Contains(err.Error(), "the server stopped before it answered; `plimsoll threads show "+id+"`") {
				t.Errorf("got %v", err)
			}
			var list api.ThreadListResult
			err = cl.call(context.Background(), http.MethodGet, "/v1/threads?limit=1", nil, &list)
			if err == nil || !strings.Contains(err.Error(), "`plimsoll threads list` tells") || strings.Contains(err.Error(), "EOF") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestClientNamesOtherErrorsOfTheConnection(t *testing.T) {
	t.Parallel()
	cl := &client{http: &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, net.ErrClosed
	}}}, base: "http://localhost"}
	err := cl.call(context.Background(), http.MethodGet, "/v1/threads", nil, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "ask server: ") {
		t.Errorf("got %v", err)
	}
}
