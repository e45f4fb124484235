package api

import (
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
