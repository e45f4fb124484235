package threads

import (
	"context"
	"errors"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Unload has a thread that is at rest be idle for long enough, and returns when it
// is gone. It fails with Busy if the thread is at work.
func (s *Service) Unload(ctx context.Context, id transcript.ThreadID) error {
	s.mu.Lock()
	sl := s.loaded[id]
	s.mu.Unlock()
	if sl == nil {
		return nil
	}
	<-sl.ready
	if sl.err != nil {
		return sl.err
	}
	rests, err := sl.a.send(ctx, message{query: func(a *actor) any {
		if a.atRest() {
			a.idle.Reset(0)
		}
		return a.atRest()
	}})
	switch {
	case errors.Is(err, errGone): // or about to be
	case err != nil:
		return err
	case !rests.(bool):
		return fault.New(fault.Busy, "thread %s is at work", id)
	}
	return sl.a.left(ctx)
}

// OfferedNames returns the names under which models know tools.
func OfferedNames(tools []DynamicTool, taken map[string]Tool) []string {
	specs, _ := offered(tools, taken)
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	return names
}

// AcceptedIn returns the idempotency key that an event makes known, or nil.
func AcceptedIn(p Payload) *Accepted { return acceptedIn(p) }

// WithoutKey returns the event as another thread takes it over.
func WithoutKey(p Payload) Payload { return withoutKey(p) }

// Pieces returns the searchable parts of a text.
func Pieces(text string) []string { return pieces(text) }

// SetIndexedAtOnce bounds what one search takes into the index, until the returned
// function is called.
func SetIndexedAtOnce(n int) func() {
	was := indexedAtOnce
	indexedAtOnce = n
	return func() { indexedAtOnce = was }
}

// RecallRoom is how many tokens a result of recall may have for a window.
func RecallRoom(window int) int { return recallRoom(window) }
