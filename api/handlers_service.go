package api

import (
	"context"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// service returns the service that hosts a thread: that of the ephemeral ones, if
// it is one of these.
func (s *Server) service(id transcript.ThreadID) *threads.Service {
	if _, ok := s.passing.Load(id); ok {
		return s.ephemeral
	}
	return s.svc
}

// clientKey is the key of the client's name in a context.
type clientKey struct{}

// withClient names the client that a request comes from.
func withClient(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, clientKey{}, name)
}

// clientOf returns the name of the client that a request comes from; empty if it
// has not said.
func clientOf(ctx context.Context) string {
	name, _ := ctx.Value(clientKey{}).(string)
	return name
}

// forget is called when nobody uses an ephemeral thread any more: it is deleted.
func (s *Server) forget(ctx context.Context, id transcript.ThreadID) error {
	if _, passing := s.passing.LoadAndDelete(id); !passing {
		return nil
	}
	return s.ephemeral.DeleteThread(ctx, id)
}
