package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
)

// What is said about the end of a relay is what happened.
func TestARelayThatEndsSaysWhy(t *testing.T) {
	server := func(err error) error { return &jsonrpc.ServerError{Err: err} }
	h := home{dir: "/home/h"}
	for name, c := range map[string]struct {
		err   error
		alive bool
		want  []string
		never []string
	}{
		"in order":     {nil, true, []string{"has ended", "start again"}, []string{"goes on"}},
		"killed":       {server(&jsonrpc.CloseError{Status: 1006}), false, []string{"has ended", "start again"}, []string{"goes on"}},
		"reset":        {server(io.ErrUnexpectedEOF), false, []string{"has ended"}, []string{"goes on"}},
		"broken":       {server(&jsonrpc.CloseError{Status: 1006}), true, []string{"goes on", "1006", "take"}, []string{"has ended"}},
		"slow":         {server(&jsonrpc.CloseError{Status: 1013, Reason: "slow consumer"}), true, []string{"in time", "slow consumer", "goes on"}, []string{"has ended"}},
		"large":        {server(fmt.Errorf("%w: more", jsonrpc.ErrTooBig)), true, []string{"64 MiB", "goes on"}, []string{"has ended"}},
		"other status": {server(&jsonrpc.CloseError{Status: 4401, Reason: "token"}), true, []string{"ended the connection", "4401", "token"}, []string{"has ended"}},
		"the client":   {errors.New("the client took nothing for 10s"), true, []string{"took nothing", "goes on"}, []string{"has ended"}},
	} {
		text := relayEnd(h, c.err, func() bool { return c.alive }).Error()
		for _, w := range append(c.want, h.dir) {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q lacks %q", name, text, w)
			}
		}
		for _, w := range c.never {
			if strings.Contains(text, w) {
				t.Errorf("%s: %q says %q", name, text, w)
			}
		}
	}
}

// An owner that sends too much, and one that gives a client up, are not said to have
// ended: the relay finds them alive.
func TestARelayDoesNotSayThatALivingOwnerHasEnded(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*jsonrpc.Conn) error
		want string
	}{
		"too large": {func(c *jsonrpc.Conn) error {
			return c.Send(context.Background(), []byte(strings.Repeat("1", jsonrpc.MaxMessage+1)))
		}, "64 MiB"},
		"slow": {func(c *jsonrpc.Conn) error {
			c.Close(jsonrpc.StatusTryLater, "slow consumer")
			return nil
		}, "in time"},
	} {
		t.Run(name, func(t *testing.T) {
			h := home{dir: t.TempDir()}
			path, done := socketPath(h.path(socketFile))
			defer done()
			ln, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			conns := make(chan *jsonrpc.Conn, 1)
			srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tr, err := jsonrpc.Upgrade(w, r, nil); err == nil {
					c := jsonrpc.NewConn(tr, jsonrpc.Options{})
					conns <- c
					_ = c.Serve(context.Background(), nobody{}) // how it ends is for the client
				}
			})}
			go func() { _ = srv.Serve(ln) }()
			defer srv.Close()
			owner, err := dialOwner(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.do(<-conns); err != nil {
				t.Fatal(err)
			}
			r, w := io.Pipe()
			defer w.Close()
			m := &Main{Stdout: io.Discard}
			err = m.relay(t.Context(), h, &stdin{r: r}, owner, slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "has ended") {
				t.Errorf("%v", err)
			}
		})
	}
}

// nobody is asked nothing.
type nobody struct{ jsonrpc.Handler }
