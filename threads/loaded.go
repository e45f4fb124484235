package threads

import (
	"slices"

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
