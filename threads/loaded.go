package threads

import (
	"context"
	"errors"
	"slices"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Loaded returns the threads that are loaded, in the order of their ids.
func (s *Service) Loaded() []transcript.ThreadID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := []transcript.ThreadID{}
	for id, sl := range s.loaded {
		if sl.actor() != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// actor returns the slot's actor; nil while it is being loaded, or if it cannot
// be.
func (sl *slot) actor() *actor {
	select {
	case <-sl.ready:
		return sl.a
	default:
		return nil
	}
}

// Unload unloads a thread now instead of when it has been idle for long enough,
// and returns when it is gone. It fails with Busy if the thread is at work, and
// does nothing if it is not loaded. The next request loads it again.
func (s *Service) Unload(ctx context.Context, id transcript.ThreadID) error {
	s.mu.Lock()
	sl := s.loaded[id]
	s.mu.Unlock()
	if sl == nil {
		return nil
	}
	a := sl.actor()
	if a == nil {
		return fault.New(fault.Busy, "thread %s is being loaded", id)
	}
	v, err := a.send(ctx, message{query: func(a *actor) any {
		a.leaving = a.atRest()
		return a.leaving
	}})
	switch {
	case errors.Is(err, errGone): // or about to be
	case err != nil:
		return err
	case !v.(bool):
		return fault.New(fault.Busy, "thread %s is at work; interrupt it, or wait until it is idle", id)
	}
	return a.left(ctx)
}
