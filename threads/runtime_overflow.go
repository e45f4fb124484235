package threads

import (
	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file says when a compaction answers an overflow of a runtime: in the turn that did
// not fit, if nothing of it was done (see drive), or else before the next input. Neither
// comes again before something was heard since the last compaction: what did not
// suffice once does not suffice twice (I10).

// cannotRelieve says why an overflow of a runtime is not answered with a compaction; empty
// if it is.
func (s *state) cannotRelieve(au automatic) string {
	gate := s.Gate.Measured(au.policy, s.load(au, 0), au.key)
	switch {
	case au.policy.Off:
		return "automatic compaction is off"
	case !au.native && !au.rebases:
		return "the provider cannot compact by itself: compact the thread with route local, or set auto_rebase for the provider"
	case gate.BreakerOpen():
		return "automatic compaction has stopped after it failed several times; compact the thread yourself"
	case s.Overflows > 0 && s.Active != "", gate.Awaits > 0, !s.grown(au.key):
		return "the context was compacted already, which did not suffice: send less at once, or start a new thread"
	}
	return ""
}

// foldOverflow folds whether the thread has to be compacted before a runtime can take
// more: its last turn overflowed, and no compaction was tried in it or since.
func (s *state) foldOverflow(p Payload) {
	switch p := p.(type) {
	case TurnCompleted:
		if p.Turn.Kind == transcript.TurnUser {
			s.Overfull = s.Overflows == 0 && p.Turn.Error != nil && p.Turn.Error.Code == string(adapters.ClassOverflow)
		}
	case CompactionUpdated:
		s.Overfull = s.Overfull && (p.Record.Outcome == nil || p.Record.Trigger == compaction.TriggerProvider && !p.Record.Replaced())
	case ThreadReverted:
		s.Overfull = false
	case SettingsUpdated:
		s.Overfull = s.Overfull && p.Settings.model() == s.Settings.model()
	default: // of no matter for it
	}
}
