package api

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// isUpgrade reports whether a request asks for a WebSocket, on whatever path.
func isUpgrade(r *http.Request) bool {
	return r.Method == http.MethodGet && hasToken(r.Header["Connection"], "upgrade") && hasToken(r.Header["Upgrade"], "websocket")
}

// hasToken reports whether a header that is a list has an element.
func hasToken(values []string, token string) bool {
	return slices.ContainsFunc(elements(values), func(e string) bool { return strings.EqualFold(e, token) })
}

// elements are those of a header that is a list.
func elements(values []string) []string {
	var all []string
	for _, v := range values {
		for e := range strings.SplitSeq(v, ",") {
			all = append(all, strings.TrimSpace(e))
		}
	}
	return all
}

// upgrades serves WebSockets on every path, and hands on everything else.
func (s *Server) upgrades(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isUpgrade(r) {
			next.ServeHTTP(w, r)
			return
		}
		if err := s.upgrade(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

// upgrade makes a request a connection of its own, which its Serve call waits for.
// An error says that nothing was answered.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) error {
	if !s.guests.enter() {
		return errClosing
	}
	if !s.peers.take() {
		s.guests.leave()
		return refuse(http.StatusServiceUnavailable, fault.Overloaded,
			"%d WebSockets are open, which is the limit: close one, or try later", s.caps.Peers).with("Retry-After", "5")
	}
	v := visitOf(r.Context())
	if v.pass != nil {
		if err := s.uses.enter(*v.pass); err != nil {
			s.exit()
			return err
		}
	}
	conn := make(chan jsonrpc.Transport, 1)
	group := s.streamsOf(r.Context())
	ok := group.run(s, v.pass, func(ctx context.Context) {
		defer s.exitWith(v.pass)
		t, ok := <-conn
		if !ok {
			return
		}
		s.converse(ctx, group, t, v)
	})
	if !ok {
		s.exitWith(v.pass)
		return errClosing
	}
	defer close(conn)
	t, err := jsonrpc.Upgrade(w, r, agreed(r))
	if err != nil { // it is answered
		s.log.Debug("upgrade failed", slog.String("requestId", v.id), slog.Any("error", err))
		return nil
	}
	conn <- t
	return nil
}

// converse serves a WebSocket, as soon as it has proved itself.
func (s *Server) converse(ctx context.Context, group *streams, t jsonrpc.Transport, v *visit) {
	serve := func(ctx context.Context) {
		if err := s.ServeConn(ctx, t); err != nil {
			s.log.Debug("connection ended", slog.String("requestId", v.id), slog.Any("error", err))
		}
	}
	if !v.knocks {
		serve(ctx)
		return
	}
	p, ok := s.knock(ctx, t, v.id)
	if !ok {
		return
	}
	if err := s.uses.enter(p); err != nil {
		shut(t, jsonrpc.StatusTryLater, "too many WebSockets are open with this token")
		return
	}
	defer s.uses.leave(p)
	done := make(chan struct{})
	if !group.run(s, &p, func(ctx context.Context) { defer close(done); serve(ctx) }) {
		shut(t, jsonrpc.StatusGoingAway, "the server is shutting down")
		return
	}
	<-done
}

// exitWith is exit for one that was let in with a token.
func (s *Server) exitWith(p *pass) {
	if p != nil {
		s.uses.leave(*p)
	}
	s.exit()
}

// exit counts a WebSocket out.
func (s *Server) exit() {
	s.peers.give()
	s.guests.leave()
}
