package threads

import (
	"context"
	"errors"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file tells of compactions that a provider makes by itself in the middle of a
// turn (trigger provider). They are recorded and never run here: nothing starts, stops
// or ends them but what the session reports and the end of their turn. One that this
// server was asked for waits meanwhile, and no end of theirs is its own.

// foreign returns the compaction that the provider makes by itself now, or nil.
func (s *state) foreign() *compaction.Record {
	return s.unfinished(func(r *compaction.Record) bool { return r.Trigger == compaction.TriggerProvider })
}

// A watch follows the provider's own compactions through the updates of one commit.
type watch struct {
	s    *state
	env  env
	turn transcript.TurnID
	open *compaction.Record  // nil if there is none
	size *compaction.Measure // of the context, as the provider counted it last; nil if it has not
}

func (s *state) watch(env env, turn transcript.TurnID) *watch {
	w := &watch{s: s, env: env, turn: turn, size: s.told(env)}
	if r := s.foreign(); r != nil {
		w.open = new(*r)
	}
	return w
}

// counted notes a report of the same commit.
func (w *watch) counted(u UsageUpdated) {
	w.env = w.env.taught(u.Learned)
	if u.Source == compaction.SourceProvider && u.Context > 0 {
		w.size = compaction.Told(u.Context, w.env.auto.limits.measured())
	}
}

// to brings the record to a phase, opening it if need be, one event for each phase on
// the way.
func (w *watch) to(p compaction.Phase) []Payload {
	var ps []Payload
	if turn := w.s.activeTurn(); w.open == nil && (turn == nil || turn.Kind != transcript.TurnUser) {
		return nil // in the turn of a compaction that was asked for, it is that one
	}
	if w.open == nil {
		r := w.s.newCompaction(w.env, compaction.TriggerProvider)
		r.TurnID, r.Route = w.turn, new(compaction.RouteNative)
		w.open = &r
		ps = append(ps, ItemStarted{Item: compactionItem(w.env, r)}, CompactionUpdated{Record: r})
	}
	for _, q := range []compaction.Phase{compaction.PhaseHooking, compaction.PhaseRunning, compaction.PhaseCommitting} {
		if w.open.Phase == p {
			break
		}
		if _, err := w.open.Phase.To(q); err != nil {
			continue
		}
		if w.open.Phase = q; q == compaction.PhaseRunning {
			w.open.StartedAt, w.open.Before = new(transcript.Millis(w.env.now)), w.size
		}
		ps = append(ps, CompactionUpdated{Record: *w.open})
	}
	return ps
}

// ended takes in how the provider says that it ended. What completed without having
// begun happened all the same; what failed without is nothing to tell of.
func (w *watch) ended(u adapters.CompactionEnded, usage *UsageUpdated) []Payload {
	if u.Err != nil {
		return w.end(failedVerdict(u.Err, nativeDone(u.Result)), usage)
	}
	ps := w.to(compaction.PhaseCommitting)
	done := nativeDone(u.Result)
	v := compaction.Verdict{Outcome: compaction.Completed, Route: compaction.RouteNative, Native: &done, Warnings: done.Warnings}
	if err := w.s.checkPins(); err != nil {
		v = compaction.Verdict{Outcome: compaction.Failed, Route: compaction.RouteNative, Code: string(fault.Corrupt), Reason: fault.MessageOf(err)}
	}
	return append(ps, w.end(v, usage)...)
}

// failedVerdict is how an error ends a native compaction.
func failedVerdict(err error, done compaction.NativeDone) compaction.Verdict {
	v := compaction.Verdict{Outcome: compaction.Failed, Route: compaction.RouteNative, Warnings: done.Warnings, Usage: done.Usage}
	if e, ok := errors.AsType[*compaction.NativeError](nativeError(err)); ok {
		v.Outcome, v.Code, v.Reason, v.Remedy = e.Outcome, e.Code, e.Reason, e.Remedy
		return v
	}
	if v.Code, v.Reason = string(fault.CodeOf(err)), fault.MessageOf(err); errors.Is(err, context.Canceled) {
		v.Outcome, v.Code, v.Reason = compaction.Interrupted, "", "the compaction was interrupted"
	}
	return v
}

// end ends the open record, if there is one.
func (w *watch) end(v compaction.Verdict, usage *UsageUpdated) []Payload {
	if w.open == nil {
		return nil
	}
	env := w.env
	r := *w.open
	w.open = nil
	if err := r.Phase.CanEnd(v.Outcome); err != nil {
		v = compaction.Verdict{Outcome: compaction.Failed, Route: v.Route, Code: "internal", Reason: err.Error(), Usage: v.Usage}
	}
	v.Warnings = append(append([]string{}, r.Warnings...), v.Warnings...)
	var learned *LearnedWindow
	if v.Native != nil {
		learned = w.s.reportedWindow(env, v.Native.Window)
		env = env.taught(learned)
	}
	rec, _, _ := r.Conclude(v, compaction.End{At: transcript.Millis(env.now), Window: env.auto.limits.measured()})
	updated := CompactionUpdated{Record: rec, Gate: w.s.gateAfter(env, rec), Learned: learned, Reanchor: reanchorAfter(env, rec, v.Native)}
	ps := []Payload{updated}
	if rec.Replaced() || rec.Usage != nil {
		*usage = measuredAfter(w.s, *usage, env, rec)
		usage.Gate = updated.Gate
		ps = append(ps, *usage)
		w.size = rec.After
	}
	if rec.Replaced() {
		return append(ps, ItemCompleted{Item: closedMarker(w.s, env, rec)})
	}
	return append(ps, w.s.sideNote(rec)...)
}

// abandonForeign ends what a turn leaves open of the provider's own compactions: ps are
// the events of its end so far.
func (s *state) abandonForeign(env env, ps []Payload, stopped, died bool) []Payload {
	w, usage := s.watch(env, s.Active), s.Usage
	for _, p := range ps {
		switch p := p.(type) {
		case CompactionUpdated:
			if p.Record.Trigger == compaction.TriggerProvider {
				w.open = nil
				if r := p.Record; !r.Terminal() {
					w.open = &r
				}
			}
		case UsageUpdated:
			usage = p
		default: // no matter of it
		}
	}
	if w.open == nil {
		return nil
	}
	v := compaction.Verdict{
		Outcome: compaction.Uncertain, Route: compaction.RouteNative, Code: codeNativeUncertain,
		Reason: "the turn ended and the provider has not told whether it compacted", Remedy: "go on: the next report of the provider shows the size of its context",
	}
	switch {
	case w.open.StartedAt == nil:
		v = compaction.Verdict{Outcome: compaction.Interrupted, Route: compaction.RouteNative, Reason: "the turn ended before the provider compacted"}
	case died:
		v.Reason = "the server stopped while the provider compacted"
	case stopped:
		v = compaction.Verdict{Outcome: compaction.Interrupted, Route: compaction.RouteNative, Reason: "the turn ended while the provider compacted"}
	}
	return w.end(v, &usage)
}

// gateAfterForeign is the gate after a compaction that the provider made by itself: one
// that completed relieves the load, and what failed was none of ours.
func (s *state) gateAfterForeign(env env, r compaction.Record) *compaction.Gate {
	if !r.Replaced() {
		return nil
	}
	used := s.load(env.auto, 0).Used
	if r.Before != nil {
		used = r.Before.Tokens
	}
	g := s.Gate.Replaced(env.auto.key, used)
	return &g
}

// reanchorAfter is what the first request after a native compaction must carry; empty
// if nothing happened to the provider's history, or if it was told already.
func reanchorAfter(env env, r compaction.Record, done *compaction.NativeDone) string {
	switch {
	case r.Route == nil || *r.Route != compaction.RouteNative || r.StartedAt == nil || env.restate == nil:
		return ""
	case r.Replaced() && !(done != nil && done.Reanchored), *r.Outcome == compaction.Uncertain, r.Code != nil && *r.Code == codeNativeInvalid:
		return env.restate()
	}
	return ""
}

// foreignHooks runs the post hooks of the provider's own compactions that completed.
func foreignHooks(ps []Payload) (effects []effect) {
	for _, p := range ps {
		if u, ok := p.(CompactionUpdated); ok && u.Record.Trigger == compaction.TriggerProvider && u.Record.Replaced() {
			effects = append(effects, tellHooks{record: u.Record})
		}
	}
	return effects
}

// askForeign makes the record durable about which hooks are asked, and returns it; nil
// if the compaction is one that this server was asked for.
type askForeign struct{ turn transcript.TurnID }

func (c askForeign) decide(s *state, env env) (decision, error) {
	turn := s.activeTurn()
	switch {
	case turn == nil || turn.ID != c.turn:
		return decision{}, errOver(c.turn)
	case turn.Kind != transcript.TurnUser:
		return decision{answer: func(*state) any { return (*compaction.Record)(nil) }}, nil
	}
	w := s.watch(env, c.turn)
	d := decision{answer: func(s *state) any { return new(valueOf(s.foreign())) }}
	if w.open == nil {
		d.payloads = w.to(compaction.PhaseHooking)
	}
	return d, nil
}

// hookedForeign is what the hooks said.
type hookedForeign struct {
	id       transcript.CompactionID
	warnings []string
	err      error
}

func (c hookedForeign) decide(s *state, env env) (decision, error) {
	w, usage := s.watch(env, s.Active), s.Usage
	if w.open == nil || w.open.CompactionID != c.id {
		return decision{}, nil // its turn is over
	}
	if c.err == nil {
		if len(c.warnings) == 0 {
			return decision{}, nil
		}
		w.open.Warnings = append(w.open.Warnings, c.warnings...)
		return decision{payloads: []Payload{CompactionUpdated{Record: *w.open}}}, nil
	}
	v := failedVerdict(c.err, compaction.NativeDone{Warnings: c.warnings})
	return decision{payloads: w.end(v, &usage)}, nil
}

// MayCompact implements adapters.Host. Where hooks are asked, the record begins before
// them, and a denial ends it.
func (h *host) MayCompact(ctx context.Context) (instructions string, err error) {
	hooks := h.a.svc.cfg.Hooks
	if hooks == nil {
		return "", ctx.Err()
	}
	v, err := h.a.send(ctx, message{cmd: askForeign{h.turn}})
	if err != nil {
		return "", err
	}
	rec := v.(*compaction.Record)
	if rec == nil {
		return "", nil
	}
	var warnings []string
	failed := guard(func() error {
		v, err := h.a.send(ctx, message{query: func(a *actor) any { return a.hookEvent(*rec, a.state.Settings, "") }})
		if err != nil {
			return err
		}
		instructions, warnings, err = hooks.PreCompact(ctx, v.(HookEvent))
		return err
	})
	if _, err := h.a.send(context.WithoutCancel(ctx), message{cmd: hookedForeign{rec.CompactionID, warnings, failed}}); err != nil {
		return "", errors.Join(failed, err)
	}
	return instructions, failed
}

// restate is what the first request after a compaction restates, as things stand now.
// A thread that cannot be told of is no reason to lose a compaction.
func (a *actor) restate() string {
	text, err := compaction.Reanchor(a.facts(), a.state.context, a.unread())
	if err != nil {
		a.svc.log.Error("restate the thread after a compaction", "thread", a.id, "err", err)
	}
	return text
}
