package threads

import (
	"context"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Revert takes a turn and all that follow it out of a thread that is idle, and
// restores the epoch of before: context, plan and a pending re-anchor are what they
// were. Nothing leaves the journal, and the records of compactions stay.
func (s *Service) Revert(ctx context.Context, id transcript.ThreadID, before transcript.TurnID) (ThreadRead, error) {
	return ask[ThreadRead](ctx, s, id, revertTo{before})
}

// revertTo is Revert.
type revertTo struct{ before transcript.TurnID }

func (c revertTo) decide(s *state, env env) (decision, error) {
	if err := s.mustRest(); err != nil {
		return decision{}, err
	}
	if _, ok := s.turnAt[c.before]; !ok {
		return decision{}, errNoTurn(c.before)
	}
	rest := s.without(c.before)
	ps := []Payload{ThreadReverted{c.before}, s.estimate(env, rest.lastTurn(), rest.tokens())}
	if s.Status != StatusIdle {
		ps = append(ps, StatusChanged{Status: StatusIdle}) // what failed is gone
	}
	return decision{payloads: ps, answer: func(s *state) any { return ThreadRead{s.view(env.window), s.cursor()} }}, nil
}

// errNoTurn is codex's text (codex 0.171, observed).
func errNoTurn(id transcript.TurnID) error {
	return fault.New(fault.NotFound, "turn not found: %s", id)
}

// remains is what a revert leaves of a transcript. It shares no memory that is
// still written.
type remains struct {
	transcript.Transcript
	gone map[transcript.TurnID]bool
}

// without returns the transcript without a turn and all that follow it, their
// items, and the boundaries that account for one of those. A result stays with its
// call, and items of no turn stay if they stand before all that goes.
func (s *state) without(before transcript.TurnID) remains {
	n, ok := s.turnAt[before]
	if !ok {
		return remains{Transcript: s.Transcript}
	}
	t := &s.Transcript
	r := remains{gone: map[transcript.TurnID]bool{}}
	for _, turn := range t.Turns[n:] {
		r.gone[turn.ID] = true
	}
	r.Turns = append([]transcript.Turn{}, t.Turns[:n]...)
	answers := map[int]transcript.TurnID{} // results of calls that stay
	for call, at := range s.resultOf {
		if turn := t.Items[s.itemAt[call]].Turn; !r.gone[turn] {
			answers[at] = turn
		}
	}
	first := len(t.Items) // of those that go
	for i, it := range t.Items {
		if turn, ok := answers[i]; ok && r.gone[it.Turn] {
			it.Turn = turn
		}
		if _, known := s.turnAt[it.Turn]; r.gone[it.Turn] || !known && i > first {
			first = min(first, i)
			continue
		}
		r.Items = append(r.Items, it)
	}
	for _, b := range t.Boundaries {
		if b.Covered > first || s.openedIn(b, r.gone) {
			break
		}
		r.Boundaries = append(r.Boundaries, b)
	}
	for _, p := range t.Prunes {
		if p.Epoch <= r.Epoch() && !s.madeIn(p.CompactionID, r.gone) {
			r.Prunes = append(r.Prunes, p)
		}
	}
	return r
}

// openedIn reports whether one of the turns opened the boundary's epoch.
func (s *state) openedIn(b transcript.Boundary, turns map[transcript.TurnID]bool) bool {
	return s.madeIn(b.CompactionID, turns)
}

// madeIn reports whether a compaction is of one of the turns.
func (s *state) madeIn(id transcript.CompactionID, turns map[transcript.TurnID]bool) bool {
	rec := s.compaction(id)
	return rec != nil && turns[rec.TurnID]
}

func (r *remains) lastTurn() transcript.TurnID {
	if n := len(r.Turns); n > 0 {
		return r.Turns[n-1].ID
	}
	return ""
}

// tokens measures the context of the newest epoch.
func (r *remains) tokens() (n int) {
	for _, e := range currentContext(&r.Transcript) {
		n += transcript.Tokens(e.Item.Body)
	}
	return n
}

// preview is the first text of the user.
func (r *remains) preview() string {
	for _, it := range r.Items {
		if u, ok := it.Body.(transcript.UserMessage); ok {
			if p := preview(transcript.Text(u)); p != "" {
				return p
			}
		}
	}
	return ""
}

// describe changes what a listing shows of the thread.
func (r remains) describe(t *Thread) {
	t.Turns, t.Items, t.Epoch, t.Preview = len(r.Turns), len(r.Items), r.Epoch(), r.preview()
}

// revert folds ThreadReverted.
func (s *state) revert(p ThreadReverted) {
	if _, ok := s.turnAt[p.BeforeTurn]; !ok {
		return
	}
	r := s.without(p.BeforeTurn)
	s.Transcript, s.Preview = r.Transcript, r.preview()
	if r.gone[s.Active] {
		s.Active, s.Answers, s.Stopping = "", nil, false
	}
	s.reindex()
	s.restorePlan(r.gone)
	s.restoreReanchor()
}

// A turnPlan is the plan as a turn left it.
type turnPlan struct {
	Turn transcript.TurnID
	Plan transcript.Plan
}

// setPlan notes a new plan. Of each turn only the last one is remembered: that is
// what a revert can come back to.
func (s *state) setPlan(turn transcript.TurnID, p transcript.Plan) {
	if n := len(s.Plans); n > 0 && s.Plans[n-1].Turn == turn {
		s.Plans[n-1].Plan = p
	} else {
		s.Plans = append(s.Plans, turnPlan{turn, p})
	}
	s.Plan = &p
}

// restorePlan goes back to the plan of the newest turn that is still there.
func (s *state) restorePlan(gone map[transcript.TurnID]bool) {
	kept := s.Plans[:0:0]
	for _, p := range s.Plans {
		if !gone[p.Turn] {
			kept = append(kept, p)
		}
	}
	s.Plans, s.Plan = kept, nil
	if n := len(kept); n > 0 {
		s.Plan = new(kept[n-1].Plan)
	}
}

// restoreReanchor makes the re-anchor of the current epoch pending again unless
// one of the turns that are still there has carried it.
func (s *state) restoreReanchor() {
	n := s.Transcript.Epoch()
	s.Reanchors = s.Reanchors[:min(n, len(s.Reanchors)):min(n, len(s.Reanchors))]
	s.Reanchor = ""
	if n == 0 || len(s.Reanchors) < n {
		return
	}
	for _, it := range s.Transcript.Items[s.Transcript.Boundaries[n-1].Covered:] {
		if note, ok := it.Body.(transcript.Notice); ok && note.Source == sourceReanchor {
			return
		}
	}
	s.Reanchor = s.Reanchors[n-1]
}
