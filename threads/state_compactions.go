package threads

import (
	"slices"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// updateCompaction folds a change of a compaction.
func (s *state) updateCompaction(p CompactionUpdated) {
	r := p.Record
	r.ThreadID = s.ID // an exported thread is imported under another id
	known := s.compaction(r.CompactionID)
	switch at := slices.Index(s.unended, r.CompactionID); {
	case at < 0 && !r.Terminal():
		s.unended = append(s.unended, r.CompactionID)
	case at >= 0 && r.Terminal():
		s.unended = slices.Delete(s.unended, at, at+1)
	}
	if r.Trigger.Recovers() && r.TurnID == s.Active && (known == nil || !known.Trigger.Recovers()) {
		s.Overflows++
	}
	if known != nil {
		*known = r
	} else {
		s.Compactions = append(s.Compactions, r)
	}
	if p.Request != nil {
		s.CompactRequests[r.CompactionID] = *p.Request
	}
	if r.Terminal() {
		delete(s.CompactRequests, r.CompactionID)
	}
	if p.Gate != nil {
		s.Gate = *p.Gate
	}
	if p.Prune != nil {
		s.Transcript.Prunes = append(s.Transcript.Prunes, *p.Prune)
		s.reindexContext()
	}
	if p.Boundary == nil && p.Reanchor != "" { // the provider has another history, and this server none of its boundaries
		s.Reanchor, s.Told = p.Reanchor, Told{}
	}
	if p.Boundary != nil {
		s.Transcript.Boundaries = append(s.Transcript.Boundaries, *p.Boundary)
		s.Reanchor, s.Reanchors = p.Reanchor, append(s.Reanchors, p.Reanchor)
		s.reindexContext()
	}
}

// running returns the compaction of this server that has not ended, or nil. There is
// at most one. What a provider does by itself is none of them: see foreign.
func (s *state) running() *compaction.Record {
	return s.unfinished(func(r *compaction.Record) bool { return r.Trigger != compaction.TriggerProvider })
}

// unfinished returns the newest compaction without an outcome that is one of those.
func (s *state) unfinished(of func(*compaction.Record) bool) *compaction.Record {
	for _, id := range slices.Backward(s.unended) {
		if r := s.compaction(id); r != nil && of(r) {
			return r
		}
	}
	return nil
}

// compaction returns the record with an id, or nil.
func (s *state) compaction(id transcript.CompactionID) *compaction.Record {
	for i := len(s.Compactions) - 1; i >= 0; i-- {
		if s.Compactions[i].CompactionID == id {
			return &s.Compactions[i]
		}
	}
	return nil
}
