package threads

import (
	"cmp"
	"slices"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// requestCompaction is StartCompaction. While a turn runs the compaction stays
// requested; an idle thread starts it at once, as a turn of its own.
type requestCompaction struct {
	p    CompactParams
	hash string
}

func (c requestCompaction) decide(s *state, env env) (decision, error) {
	prior, again, err := s.repeated(c.p.IdempotencyKey, c.hash)
	if err != nil {
		return decision{}, err
	}
	if again {
		return decision{answer: recordOf(transcript.CompactionID(prior.Result))}, nil
	}
	if r := cmp.Or(s.running(), s.foreign()); r != nil {
		d := decision{answer: recordOf(r.CompactionID)}
		if a := s.acceptance(env, c.p.IdempotencyKey, c.hash, string(r.CompactionID)); a != nil {
			d.payloads = []Payload{CompactionUpdated{Record: *r, Accepted: a}} // so that the key gets this answer again
		}
		return d, nil
	}
	r := s.newCompaction(env, compaction.TriggerManual)
	id := r.CompactionID
	req := &CompactRequest{Route: c.p.Route, Writer: c.p.Writer, Budget: c.p.Budget, Instructions: c.p.Instructions}
	accepted := s.acceptance(env, c.p.IdempotencyKey, c.hash, string(id))
	d := decision{answer: recordOf(id)}
	if s.Active != "" {
		r.TurnID = s.Active
		d.payloads = []Payload{CompactionUpdated{Record: r, Request: req, Accepted: accepted}}
		return d, nil
	}
	r.TurnID = transcript.TurnID(env.newID())
	d.payloads = beginCompactTurn(env, r, req, accepted)
	d.effects = []effect{startCompaction{id}}
	return d, nil
}

// recordOf answers with the record as it is after the commit.
func recordOf(id transcript.CompactionID) func(*state) any {
	return func(s *state) any {
		return CompactAck{Record: valueOf(s.compaction(id)), AsOf: s.cursor()}
	}
}

// stepBoundary is the session asking for its next context. A compaction that was
// requested during the turn, or is due, runs now, before the answer.
type stepBoundary struct{ turn transcript.TurnID }

func (c stepBoundary) decide(s *state, env env) (decision, error) {
	if s.Active != c.turn || s.Stopping {
		return decision{}, errOver(c.turn)
	}
	if s.inCompactTurn() { // the provider compacts, and asks what there is
		return decision{effects: []effect{resumeContext{}}}, nil
	}
	r := s.running()
	if r != nil && r.Phase != compaction.PhaseRequested {
		return decision{}, nil // it runs; the answer follows its end
	}
	var ps []Payload
	if s.Budget.Limit > 0 {
		ps = s.uncounted(env, c.turn, nil)
	}
	budget := s.budget(ps)
	if budget.Exhausted() {
		return decision{}, errBudget{budget}
	}
	note := s.press(env, budget)
	ps = append(ps, note...)
	d := decision{effects: []effect{resumeContext{}}}
	switch {
	case r != nil:
		rec := *r
		rec.TurnID, rec.BaseSeq, rec.Epoch = c.turn, s.Seq, s.Transcript.Epoch()
		d = decision{
			payloads: []Payload{ItemStarted{Item: compactionItem(env, rec)}, CompactionUpdated{Record: rec}},
			effects:  []effect{startCompaction{rec.CompactionID}},
		}
	case s.due(env.auto, 0, env.auto.policy.Judge):
		d = s.compactInside(env, compaction.TriggerMidTurn, nil)
	case s.relieves(env, note):
		d = s.compactInside(env, compaction.TriggerBudget, nil)
	}
	d.payloads = append(ps, d.payloads...)
	return d, nil
}

// enterPhase makes the next phase of a compaction durable.
type enterPhase struct {
	id    transcript.CompactionID
	phase compaction.Phase
	route compaction.Route
	scale compaction.Scale
	shown int // units of images
}

func (c enterPhase) decide(s *state, env env) (decision, error) {
	r := s.running()
	if r == nil || r.CompactionID != c.id {
		return decision{}, fault.New(fault.Cancelled, "compaction %s is over", c.id)
	}
	rec := *r
	phase, err := r.Phase.To(c.phase)
	if err != nil {
		return decision{}, err
	}
	rec.Phase, rec.Route = phase, &c.route
	if rec.StartedAt == nil {
		rec.StartedAt = new(transcript.Millis(env.now))
		rec.Ruler = c.scale.Ruler()
		rec.Before = c.scale.Measured(c.scale.Tokens(env.base+s.tokens+c.shown), env.auto.limits.measured())
		if c.route == compaction.RouteNative && !env.auto.stateless {
			rec.Ruler, rec.Before = transcript.Ruler, s.told(env)
		}
	}
	return decision{payloads: []Payload{CompactionUpdated{Record: rec}}}, nil
}

// endCompaction is the verdict of a compaction's run: the one commit in which
// its record ends and, if it completed, the context changes.
type endCompaction struct {
	id      transcript.CompactionID
	run     *running // whose verdict it is; nil if a decision makes it
	verdict compaction.Verdict
	covered int // items of the transcript when the run began
	scale   compaction.Scale

	instructions string // of the user, for the hooks

	rebased *session      // a fresh one of a runtime, that has the new context; nil if there is none
	from    NativeSession // that it takes the place of
}

func (c endCompaction) decide(s *state, env env) (decision, error) {
	r := s.running()
	if r == nil || r.CompactionID != c.id {
		return decision{}, nil // it was ended before
	}
	v := c.checked(s, *r)
	var learned *LearnedWindow
	if v.Native != nil {
		learned = s.reportedWindow(env, v.Native.Window)
		env = env.taught(learned)
	}
	rec, boundary, prune := r.Conclude(v, compaction.End{
		At: transcript.Millis(env.now), Checkpoint: transcript.ItemID(env.newID()), Window: env.auto.limits.measured(), Covered: c.covered, Scale: c.scale,
	})
	session := c.rebase(&rec, s.Settings)
	updated := CompactionUpdated{Record: rec, Session: session, Boundary: boundary, Prune: prune, Gate: s.gateAfter(env, rec), Learned: learned}
	if v.Composed != nil && boundary != nil {
		updated.Reanchor = v.Composed.Reanchor
	} else {
		updated.Reanchor = reanchorAfter(env, rec, v.Native)
	}
	ps := []Payload{updated}
	d := decision{}
	if v.Outcome == compaction.Completed {
		ps = append(ps, contextMeasured(s, env, rec), ItemCompleted{Item: closedMarker(s, env, rec)})
		d.effects = append(d.effects, tellHooks{rec, c.instructions})
	}
	if session != nil {
		ps = append(ps, s.sessionUpdated(*session, SessionRebased))
		d.effects = append(d.effects, useSession{c.rebased})
	}
	turn := s.activeTurn()
	inside := turn == nil || turn.Kind != transcript.TurnCompact
	if v.Outcome != compaction.Completed && (!inside || rec.Usage != nil) {
		ps = append(ps, contextMeasured(s, env, rec)) // the codex TUI forgets its count when it asks (codex 0.171, observed)
	}
	if inside {
		if boundary != nil && turn != nil {
			ps = append(ps, s.goOn(env, turn.ID, updated.Reanchor)...)
		}
		d.payloads, d.effects = append(ps, s.sideNote(rec)...), append(d.effects, resumeContext{})
		return d, nil
	}
	d.payloads = append(ps, s.endCompactTurn(env, *turn, rec)...)
	return d, nil
}

// goOn is what a model reads after a boundary in the middle of a turn: the facts, and
// that it is to continue.
func (s *state) goOn(env env, turn transcript.TurnID, reanchor string) []Payload {
	var ps []Payload
	if reanchor != "" {
		note := transcript.Notice{Source: sourceReanchor, Text: reanchor}
		ps = append(ps, ItemCompleted{Item: wholeItem(env, turn, note), Reanchor: true})
	}
	if env.runtime {
		return ps // it is told the turn again
	}
	return append(ps, ItemCompleted{Item: wholeItem(env, turn, compaction.GoOn(s.context))})
}

// checked returns the verdict, or a failure if committing it would break the
// contract.
func (c endCompaction) checked(s *state, r compaction.Record) compaction.Verdict {
	v := c.verdict
	fail := compaction.Verdict{Outcome: compaction.Failed, Route: v.Route, Skipped: v.Skipped}
	if err := r.Phase.CanEnd(v.Outcome); err != nil {
		fail.Code, fail.Reason = "internal", err.Error()
		return fail
	}
	if v.Composed != nil && v.Outcome == compaction.Completed && c.covered != len(s.Transcript.Items) {
		fail.Code, fail.Reason = "baseMoved", "the thread changed while its context was compacted"
		return fail
	}
	if err := s.checkPins(); v.Outcome == compaction.Completed && err != nil {
		fail.Code, fail.Reason = string(fault.Corrupt), err.Error()
		return fail
	}
	return v
}

// contextMeasured reports the size of the next request after a compaction, also
// after one that changed nothing.
func contextMeasured(s *state, env env, r compaction.Record) UsageUpdated {
	return measuredAfter(s, s.Usage, env, r)
}

// measuredAfter is contextMeasured where u was reported last.
func measuredAfter(s *state, u UsageUpdated, env env, r compaction.Record) UsageUpdated {
	u.TurnID, u.Window, u.Base = r.TurnID, env.window, env.base
	u.Last, u.Estimate, u.Model, u.Gate, u.Learned = adapters.Usage{}, 0, "", nil, nil // of no request: as codex says it (codex 0.171, observed)
	if c := r.Usage; c != nil {
		u.Total = addUsage(u.Total, adapters.Usage{InputTokens: c.InputTokens, OutputTokens: c.OutputTokens})
	}
	switch {
	case r.After != nil:
		u.Context, u.Source = r.After.Tokens, r.After.Source
	case r.Replaced() && !env.auto.stateless: // only the provider can tell, and it has not
		u.Context, u.Source = 0, compaction.SourceUnknown
	case u.Source == "": // nothing was counted yet
		u.Context, u.Source = env.base+s.tokens, transcript.Ruler
	}
	return u
}

// closedMarker is the compaction's item of the timeline, completed.
func closedMarker(s *state, env env, r compaction.Record) transcript.Item {
	it := compactionItem(env, r)
	if at := s.startedAt(it.ID); !at.IsZero() {
		it.StartedAt = at
	}
	it.CompletedAt = env.now
	return it
}

// endCompactTurn ends the turn of a manual compaction: a refusal or a failure
// reaches clients as the turn's error, because an error reply would end the
// codex TUI (codex 0.171, observed). Of a row of automatic ones that all end the
// same way only the first says so.
func (s *state) endCompactTurn(env env, turn transcript.Turn, r compaction.Record) []Payload {
	turn.CompletedAt, turn.Status = env.now, transcript.TurnCompleted
	status := StatusChanged{Status: StatusIdle}
	switch *r.Outcome {
	case compaction.Completed:
		return []Payload{status, TurnCompleted{Turn: turn}}
	case compaction.Unchanged:
		return append(s.sideNote(r), status, TurnCompleted{Turn: turn})
	case compaction.Cancelled, compaction.Interrupted:
		turn.Status = transcript.TurnInterrupted
		return []Payload{status, TurnCompleted{Turn: turn}}
	case compaction.Refused, compaction.Denied, compaction.Failed, compaction.Uncertain:
		turn.Status = transcript.TurnFailed
		turn.Error = &transcript.TurnError{Message: outcomeText(r), Code: outcomeCode(r)}
		if s.repeats(r) {
			return []Payload{status, TurnCompleted{Turn: turn}}
		}
		return []Payload{status, ErrorRaised{TurnID: turn.ID, Error: *turn.Error}, TurnCompleted{Turn: turn}}
	}
	panic("threads: unknown outcome " + string(*r.Outcome))
}

// sideNote tells of a compaction that changed nothing, while the thread goes on
// whatever came of it.
func (s *state) sideNote(r compaction.Record) []Payload {
	if *r.Outcome == compaction.Completed || s.repeats(r) {
		return nil
	}
	return []Payload{WarningRaised{Message: outcomeText(r)}}
}

// outcomeText is the sentence about an outcome that people read.
func outcomeText(r compaction.Record) string {
	text := "compaction " + string(*r.Outcome)
	if r.Code != nil {
		text += " (" + *r.Code + ")"
	}
	if r.Reason != nil {
		text += ": " + *r.Reason
	}
	if r.Remedy != nil {
		text += "; " + *r.Remedy
	}
	return text
}

func outcomeCode(r compaction.Record) string {
	if r.Code != nil {
		return *r.Code
	}
	return string(*r.Outcome)
}

// recoverThread ends what a killed process left open, but for a turn that only
// waits for answers: the session goes on with it, if it can; and for a native
// compaction: the provider is asked for its end. It is the first
// command of every actor and does nothing if the thread was at rest.
type recoverThread struct {
	partial   map[transcript.ItemID]string
	continues bool
	asks      bool // the provider keeps its own history, and can be asked for it
}

func (c recoverThread) decide(s *state, env env) (decision, error) {
	ps := c.endCompactions(s, env)
	var effects []effect
	active := s.activeTurn()
	switch r := s.running(); {
	case c.asks && s.unseen(r):
		effects = append(effects, recoverCompaction{r.CompactionID})
	case active == nil || endsTurn(ps, active.ID):
	case c.continues && s.onlyWaits():
		effects = append(effects, continueTurn{active.ID})
	default:
		d, err := endTurn{turn: active.ID, stopped: true, died: true, partial: c.partial}.decide(s, env)
		if err != nil {
			return decision{}, err
		}
		ps = append(ps, d.payloads...)
	}
	// Only a history that was edited has further turns that never end.
	for _, t := range s.Transcript.Turns {
		if t.Status == transcript.TurnInProgress && t.ID != s.Active {
			t.Status, t.CompletedAt = transcript.TurnInterrupted, env.now
			ps = append(ps, TurnCompleted{Turn: t})
		}
	}
	ps = append(ps, cancelRequests(s, func(r Request) bool { return r.TurnID != s.Active })...)
	return decision{payloads: ps, effects: effects}, nil
}

// endCompactions ends every record that is open, but for those that the provider is
// asked for or that end with their turn. There is at most one of this server, except in
// a history that was edited.
func (c recoverThread) endCompactions(s *state, env env) []Payload {
	var ps []Payload
	for _, r := range s.Compactions {
		if r.Terminal() {
			continue
		}
		if r.Trigger == compaction.TriggerProvider && r.TurnID == s.Active {
			continue // its turn ends it
		}
		if c.asks && s.unseen(&r) {
			continue // the provider knows
		}
		v := compaction.Verdict{Outcome: compaction.Interrupted, Code: "restart", Reason: "the server stopped while the compaction was open"}
		if r.Route != nil {
			v.Route = *r.Route
		}
		rec, _, _ := r.Conclude(v, compaction.End{At: transcript.Millis(env.now)})
		ps = append(ps, CompactionUpdated{Record: rec, Gate: s.gateAfter(env, rec)})
		if turn := s.activeTurn(); turn != nil && turn.ID == r.TurnID && turn.Kind == transcript.TurnCompact {
			ps = append(ps, s.endCompactTurn(env, *turn, rec)...)
		} else {
			ps = append(ps, s.sideNote(rec)...)
		}
	}
	return ps
}

// endsTurn reports whether ps end a turn.
func endsTurn(ps []Payload, id transcript.TurnID) bool {
	return slices.ContainsFunc(ps, func(p Payload) bool {
		done, ok := p.(TurnCompleted)
		return ok && done.Turn.ID == id
	})
}
