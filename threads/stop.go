package threads

import (
	"context"
	"errors"
	"fmt"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Stop is the first half of Close: it takes no more commands, interrupts what runs,
// and returns when that is journaled, or with ctx's error. A turn that only waits
// for answers is left as it is, for the next process. What the journal has can
// still be followed, up to Newest, until Close.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
		s.retire()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.actors.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop threads: %w", context.Cause(ctx))
	}
}

// Newest returns where the newest event of a thread is, or of all threads if thread
// is empty. It works until Close.
func (s *Service) Newest(ctx context.Context, thread transcript.ThreadID) (events.Cursor, error) {
	c, err := s.hub.Head(ctx, string(thread))
	if err != nil {
		return c, fmt.Errorf("newest event: %w", err)
	}
	return c, nil
}

// AtWork reports whether a thread has something that the end of the process would
// cut short: a turn or a compaction, but not a turn that only waits for answers. It
// holds up to the cursor. A thread that is not loaded is not at work.
func (s *Service) AtWork(ctx context.Context, id transcript.ThreadID) (bool, events.Cursor, error) {
	type look struct {
		works bool
		asOf  events.Cursor
	}
	s.mu.Lock()
	sl := s.loaded[id]
	s.mu.Unlock()
	if sl == nil || sl.actor() == nil {
		return false, events.Cursor{}, nil
	}
	v, err := sl.actor().send(ctx, message{query: func(a *actor) any {
		return look{a.compact != nil || a.turn != nil && !a.state.onlyWaits(), a.state.cursor()}
	}})
	switch {
	case errors.Is(err, errGone) || fault.CodeOf(err) == fault.NotFound:
		return false, events.Cursor{}, nil
	case err != nil:
		return false, events.Cursor{}, err
	}
	l := v.(look)
	return l.works, l.asOf, nil
}
