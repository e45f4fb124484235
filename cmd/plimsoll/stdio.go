package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// lastWords is how long turns may still run once the last client is gone.
const lastWords = 10 * time.Second

// serveStdio serves one client on standard I/O: it owns the home, so that others
// can join, or, if another process does, it relays to that one. Stdout carries
// nothing but frames.
func (m *Main) serveStdio(ctx context.Context, h home, log *slog.Logger) error {
	owner, r, err := m.reach(ctx, h, log)
	if err != nil {
		return err
	}
	in := &stdin{r: m.Stdin}
	if owner != nil {
		return m.relay(ctx, h, in, owner, log)
	}
	return m.own(ctx, r, in)
}

// reach connects to the home's owner, or makes this process the owner. Of two that
// start at the same moment one ends up as the client of the other.
func (m *Main) reach(ctx context.Context, h home, log *slog.Logger) (jsonrpc.Transport, *running, error) {
	deadline := time.Now().Add(patience)
	for {
		owner, err := dialOwner(ctx, h)
		if refused, ok := errors.AsType[*jsonrpc.HandshakeError](err); ok && refused.Status != http.StatusServiceUnavailable {
			return nil, nil, fmt.Errorf("join home %s: its server does not speak this protocol (%w); is it an older one?", h.dir, refused)
		}
		if err == nil {
			return owner, nil, nil
		}
		r, err := m.openHome(h, lock{}, log)
		if _, busy := errors.AsType[*ownedError](err); !busy || time.Now().After(deadline) {
			return nil, r, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func dialOwner(ctx context.Context, h home) (jsonrpc.Transport, error) {
	path, done := socketPath(h.path(socketFile))
	defer done()
	return jsonrpc.Dial(ctx, "unix://"+path, nil)
}

// relay carries frames between stdio and the home's owner. What was begun goes on
// there when the client is gone.
func (m *Main) relay(ctx context.Context, h home, in *stdin, owner jsonrpc.Transport, log *slog.Logger) error {
	log.Debug("relaying", "home", h.dir)
	err := jsonrpc.Relay(ctx, jsonrpc.Lines(in, m.Stdout, nil), owner, jsonrpc.Options{Logger: log})
	if ctx.Err() != nil || in.ended() {
		return err
	}
	return relayEnd(h, err, func() bool { return owned(h) })
}

// own serves stdio, and the home's socket for others that come. When the client has
// ended its input, turns may run on for lastWords, and it is told of them; then they
// are interrupted. While others are connected nothing is: the process serves them,
// and ends in the same way when the last one has left.
func (m *Main) own(ctx context.Context, r *running, in *stdin) error {
	s, err := r.serveSockets(ctx, r.home.path(socketFile))
	if err != nil {
		return errors.Join(err, r.Close())
	}
	err = r.api.ServeLines(s.ctx, jsonrpc.Lines(in, m.Stdout, nil), func(ctx context.Context) {
		alone, _ := r.api.RefuseIfAlone()
		if alone {
			r.unlist()
		}
		r.rest(ctx, in.endedAt().Add(lastWords))
		if alone && ctx.Err() == nil {
			s.drain()
		}
	})
	if s.outlast(ctx) {
		r.rest(ctx, time.Now().Add(lastWords))
	} else if in.ended() { // its client did not hear of all
		r.rest(ctx, in.endedAt().Add(lastWords))
	}
	return errors.Join(err, s.close())
}

// outlast returns when nobody is connected through a socket, and lets nobody in any
// more then, or when ctx is done. It reports whether the last one has left.
func (s *server) outlast(ctx context.Context) (outlived bool) {
	for ctx.Err() == nil {
		alone, left := s.api.RefuseIfAlone()
		if alone {
			s.unlist()
			return outlived
		}
		outlived = true
		select {
		case <-left:
		case <-ctx.Done():
		}
	}
	return false
}

// rest returns when no thread is at work, when ctx is done, or at a time.
func (r *running) rest(ctx context.Context, until time.Time) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for _, svc := range []*threads.Service{r.svc, r.ephemeral} {
		for id, asOf := range busy(ctx, svc) {
			idle(ctx, svc, id, asOf)
		}
	}
}

// busy yields threads that are at work until there are none.
func busy(ctx context.Context, svc *threads.Service) func(yield func(transcript.ThreadID, events.Cursor) bool) {
	return func(yield func(transcript.ThreadID, events.Cursor) bool) {
		for found := true; found && ctx.Err() == nil; {
			found = false
			for _, id := range svc.Loaded() {
				works, asOf, err := svc.AtWork(ctx, id)
				if err != nil || !works {
					continue // what cannot be asked is not at work
				}
				found = true
				if !yield(id, asOf) {
					return
				}
			}
		}
	}
}

// idle returns when a thread that was at work may have come to rest, or ctx is done.
func idle(ctx context.Context, svc *threads.Service, id transcript.ThreadID, asOf events.Cursor) {
	for m, err := range svc.Follow(ctx, id, &asOf, 0) {
		if err != nil || m.Kind == events.KindEvent && !m.Repeat {
			return
		}
	}
}

// stdin is a standard input that knows when it ended in order.
type stdin struct {
	r  io.Reader
	at atomic.Pointer[time.Time]
}

// Read implements io.Reader.
func (s *stdin) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if errors.Is(err, io.EOF) {
		now := time.Now()
		s.at.CompareAndSwap(nil, &now)
	}
	return n, err
}

func (s *stdin) ended() bool { return s.at.Load() != nil }

// endedAt is when it ended; now if it did not.
func (s *stdin) endedAt() time.Time {
	if at := s.at.Load(); at != nil {
		return *at
	}
	return time.Now()
}
