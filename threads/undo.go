package threads

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file takes compactions back. An undo of a compaction that opened an epoch
// opens one more: it holds, byte for byte, what the thread's context would be if
// the compaction had never been. It stands for the epoch before that compaction,
// so that the compaction which opened that one is the next that can be undone; an
// undo itself cannot be undone, but its thread can be compacted again.
//
// An undo of a compaction that only pruned shows the pruned items as they were
// before, in the same epoch.

// UndoParams names the compaction to take back.
type UndoParams struct {
	Thread         transcript.ThreadID
	Compaction     transcript.CompactionID
	IdempotencyKey string
}

// An UndoAck tells what an undo made of the context.
type UndoAck struct {
	CompactionID transcript.CompactionID
	Epoch        int // the current one
	Context      int // tokens of the next request
	Source       string
	Window       int // 0 if unknown
	// NativeSession is the one that has the restored context; empty if the provider
	// keeps no history. Retold: it is a fresh one that was told the context.
	NativeSession string
	Retold        bool
	AsOf          events.Cursor
}

// An UndoRefusal is the data of the fault of an undo that is refused.
type UndoRefusal struct {
	Code         string                  `json:"code"`
	CompactionID transcript.CompactionID `json:"compactionId"`
	// Undoable is the compaction that can be undone now; empty if there is none.
	Undoable transcript.CompactionID `json:"undoable,omitempty"`
	// Tokens and Window are those of the context that would overflow.
	Tokens int `json:"tokens,omitempty"`
	Window int `json:"window,omitempty"`
}

// Codes of refused undos.
const (
	UndoNative        = "undoNative"       // the provider compacted its own history, and no session can be told anew
	UndoWouldOverflow = "wouldOverflow"    // what would come back does not fit
	UndoNotCompleted  = "undoNotCompleted" // it changed nothing
	UndoNotNewest     = "undoNotNewest"    // a newer one stands on it
	UndoAlready       = "undoAlready"      // it was undone
)

// UndoCompaction takes a completed compaction back: a local one, and of a runtime also
// one that the provider made, because a fresh session can be told what the journal has.
// The thread must be idle. It returns when the context is what it was, which is durable
// then.
func (s *Service) UndoCompaction(ctx context.Context, p UndoParams) (UndoAck, error) {
	hash := requestHash([]string{string(p.Thread), string(p.Compaction)})
	prepared, a, err := s.restore(ctx, p.Thread, p.Compaction)
	if err != nil {
		return UndoAck{}, err
	}
	if prepared != nil {
		ctx = context.WithoutCancel(ctx) // whether the session was taken must be known
		defer a.discard(prepared.sess)
	}
	return ask[UndoAck](ctx, s, p.Thread, inUse{undoCompaction{p.Compaction, p.IdempotencyKey, hash, prepared}, p.IdempotencyKey, hash})
}

// undoCompaction is UndoCompaction.
type undoCompaction struct {
	id        transcript.CompactionID
	key, hash string
	prepared  *restoring // nil: nothing has to be
}

func (c undoCompaction) decide(s *state, env env) (decision, error) {
	_, again, err := s.repeated(c.key, c.hash)
	if err != nil || again {
		return decision{answer: c.answer(env)}, err
	}
	if err := s.mustRest(); err != nil {
		return decision{}, err
	}
	undone := CompactionUndone{CompactionID: c.id, Accepted: s.acceptance(env, c.key, c.hash, string(c.id))}
	after, err := s.undoing(c.id, &undone, env.runtime)
	if err == nil {
		err = s.fits(env, c.id, after)
	}
	if err != nil {
		return decision{}, err
	}
	d := decision{answer: c.answer(env)}
	if env.runtime {
		if c.prepared == nil || c.prepared.seq != s.Seq {
			return decision{}, fault.New(fault.Conflict, "the thread moved while the undo was prepared; look at it, and ask again")
		}
		undone.Session = &c.prepared.native
		d.effects = []effect{useSession{c.prepared.sess}}
	}
	u := s.measured(env, c.id, after)
	gate := s.Gate.Undone(env.gateKey(s.Settings), compaction.Load{Used: u.Context, Base: env.base, Window: env.window})
	undone.Gate = &gate
	d.payloads = []Payload{undone}
	if undone.Session != nil {
		d.payloads = append(d.payloads, s.sessionUpdated(*undone.Session, SessionRestored))
	}
	d.payloads = append(d.payloads, u)
	return d, nil
}

// fits refuses an undo whose context the window does not hold.
func (s *state) fits(env env, id transcript.CompactionID, after []transcript.Entry) error {
	u := s.measured(env, id, after)
	if env.window <= 0 || u.Context <= env.window {
		return nil
	}
	return refuseUndo(UndoRefusal{Code: UndoWouldOverflow, CompactionID: id, Tokens: u.Context, Window: env.window},
		"the context of before has %d tokens by now and the window of %s only %d; fork the thread from before the compaction, or use a model with a larger window",
		u.Context, s.Settings.Model, env.window)
}

func (c undoCompaction) answer(env env) func(*state) any {
	return func(s *state) any {
		native := s.nativeFor(s.Settings.Provider)
		return UndoAck{
			CompactionID: c.id, Epoch: s.Transcript.Epoch(), Context: s.Usage.Context, Source: s.Usage.Source,
			Window: env.window, NativeSession: native, Retold: native != "" && !s.Native.Used, AsOf: s.cursor(),
		}
	}
}

// undoing fills what takes a compaction back, and returns the context that follows. The
// context of a thread never knew of a provider's own compaction: to take that back is to
// tell a fresh session of a runtime what it holds.
func (s *state) undoing(id transcript.CompactionID, undone *CompactionUndone, runtime bool) ([]transcript.Entry, error) {
	rec := s.compaction(id)
	if rec == nil {
		return nil, fault.New(fault.NotFound, "thread %s has no compaction %s", s.ID, id)
	}
	own := s.nativeCompaction()
	if n, opened := s.opened(id); own != "" && own != id {
		return nil, s.refusedUndo(*rec, runtime)
	} else if own == id {
		if !runtime {
			return nil, s.refusedUndo(*rec, runtime)
		}
		return s.context, nil
	} else if opened && n == s.stands() {
		b, err := s.undoBoundary(n)
		if err != nil {
			return nil, err
		}
		undone.Boundary, undone.Prunes = &b, s.carried(n, b.Epoch)
	} else if !s.prunedNow(id) {
		return nil, s.refusedUndo(*rec, runtime)
	}
	after := *s
	after.undo(*undone)
	return after.context, nil
}

// nativeCompaction is the newest compaction that the thread's provider made of the native
// session as it is; empty if there is none.
func (s *state) nativeCompaction() transcript.CompactionID {
	if n := len(s.Native.Compactions); n > 0 && s.nativeFor(s.Settings.Provider) != "" {
		return s.Native.Compactions[n-1]
	}
	return ""
}

// opened returns the epoch that a compaction opened.
func (s *state) opened(id transcript.CompactionID) (epoch int, ok bool) {
	for _, b := range s.Transcript.Boundaries {
		if b.CompactionID == id && b.Undoes == "" {
			return b.Epoch, true
		}
	}
	return 0, false
}

// stands returns the epoch that the current one stands for: itself, unless it was
// opened by an undo.
func (s *state) stands() int {
	bs := s.Transcript.Boundaries
	epoch := len(bs)
	for epoch > 0 && bs[epoch-1].Undoes != "" {
		n, ok := s.opened(bs[epoch-1].Undoes)
		if !ok || n >= epoch { // only in a history that was edited
			return epoch
		}
		epoch = n - 1
	}
	return epoch
}

// prunedNow reports whether a compaction pruned the current epoch.
func (s *state) prunedNow(id transcript.CompactionID) bool {
	for _, p := range s.Transcript.Prunes {
		if p.CompactionID == id && p.Epoch == s.Transcript.Epoch() {
			return true
		}
	}
	return false
}

// undoBoundary returns the boundary that takes the one of an epoch back: what the
// epoch before held, in its forms, and all that came since, but for the notes about
// compactions that are undone. What only a prune made shorter is whole in it: see carried.
func (s *state) undoBoundary(epoch int) (transcript.Boundary, error) {
	t := &s.Transcript
	taken := t.Boundaries[epoch-1]
	b := transcript.Boundary{
		Epoch: t.Epoch() + 1, CompactionID: taken.CompactionID, Undoes: taken.CompactionID, Covered: len(t.Items), Kept: []transcript.Kept{},
	}
	if epoch > 1 {
		b.Checkpoint = t.Boundaries[epoch-2].Checkpoint
	}
	before, err := keptOf(t, epoch-1)
	if err != nil {
		return b, fmt.Errorf("undo compaction %s: %w", taken.CompactionID, err)
	}
	now, err := keptOf(t, t.Epoch())
	if err != nil {
		return b, fmt.Errorf("undo compaction %s: %w", taken.CompactionID, err)
	}
	b.Kept = append(b.Kept, before...)
	for _, k := range now {
		if at, ok := s.itemAt[k.ItemID]; ok && at >= taken.Covered && !compactionNote(t.Items[at]) {
			b.Kept = append(b.Kept, k)
		}
	}
	return b, nil
}

// carried returns the prunes that an undo of the compaction which opened an epoch takes
// along to its own: those of the epoch before, and what the current ones say of items
// that came since. They stay prunes, so that each of them can be undone there too.
func (s *state) carried(epoch, to int) (out []transcript.Prune) {
	t := &s.Transcript
	since := t.Boundaries[epoch-1].Covered
	for _, p := range t.Prunes {
		switch p.Epoch {
		case epoch - 1:
		case t.Epoch():
			p.Kept = slices.DeleteFunc(slices.Clone(p.Kept), func(k transcript.Kept) bool {
				at, ok := s.itemAt[k.ItemID]
				return !ok || at < since
			})
		default:
			continue
		}
		if p.Epoch = to; len(p.Kept) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// keptOf returns the items of an epoch's context, without its checkpoint, in the
// forms that they have there but for its prunes.
func keptOf(t *transcript.Transcript, epoch int) ([]transcript.Kept, error) {
	bare := *t
	bare.Prunes = nil
	entries, err := bare.Context(epoch)
	if err != nil {
		return nil, err
	}
	short := map[transcript.ItemID]transcript.Kept{}
	if epoch > 0 {
		for _, k := range t.Boundaries[epoch-1].Kept {
			short[k.ItemID] = k
		}
	}
	kept := make([]transcript.Kept, 0, len(entries))
	for _, e := range entries {
		switch {
		case e.Item.Body.Kind() == transcript.KindCheckpoint:
		case e.Form == transcript.FormWhole:
			kept = append(kept, transcript.Kept{ItemID: e.Item.ID, Form: transcript.FormWhole})
		default:
			kept = append(kept, short[e.Item.ID])
		}
	}
	return kept, nil
}

// compactionNote reports whether an item is there only because of a compaction.
func compactionNote(it transcript.Item) bool {
	note, ok := it.Body.(transcript.Notice)
	return ok && (note.Source == sourceReanchor || note.Source == compaction.SourceContinue)
}

// refusedUndo says why a compaction cannot be undone, and which one can.
func (s *state) refusedUndo(rec compaction.Record, runtime bool) error {
	r := UndoRefusal{CompactionID: rec.CompactionID, Undoable: s.undoable(runtime)}
	hint := "no compaction of this thread can be undone now"
	if r.Undoable != "" {
		hint = "the one that can be undone now is " + string(r.Undoable)
	}
	n, opened := s.opened(rec.CompactionID)
	switch {
	case !rec.Terminal():
		return fault.New(fault.Busy, "compaction %s has not ended; cancel it instead", rec.CompactionID)
	case *rec.Outcome != compaction.Completed:
		r.Code = UndoNotCompleted
		return refuseUndo(r, "compaction %s ended %s: it changed nothing, so there is nothing to undo; %s", rec.CompactionID, *rec.Outcome, hint)
	case !opened && !runtime && rec.Route != nil && *rec.Route == compaction.RouteNative:
		r.Code = UndoNative
		return refuseUndo(r, "compaction %s was the provider's own, which keeps what it made of the history to itself; fork the thread from before it instead", rec.CompactionID)
	case opened && n < s.stands(), s.nativeCompaction() != "" && (opened || slices.Contains(s.Native.Compactions, rec.CompactionID)):
		r.Code = UndoNotNewest
		return refuseUndo(r, "a newer compaction stands on %s; %s", rec.CompactionID, hint)
	}
	r.Code = UndoAlready
	return refuseUndo(r, "compaction %s is not in effect any more: it was undone, or replaced by a newer one; %s", rec.CompactionID, hint)
}

// undoable returns the newest compaction that can be undone; empty if there is none.
func (s *state) undoable(runtime bool) transcript.CompactionID {
	if id := s.nativeCompaction(); id != "" {
		if runtime {
			return id
		}
		return ""
	}
	epoch := s.Transcript.Epoch()
	for _, p := range slices.Backward(s.Transcript.Prunes) {
		if p.Epoch == epoch {
			return p.CompactionID
		}
	}
	if n := s.stands(); n > 0 {
		return s.Transcript.Boundaries[n-1].CompactionID
	}
	return ""
}

func refuseUndo(r UndoRefusal, format string, args ...any) error {
	f := fault.New(fault.Refused, format, args...)
	f.Data = r
	return f
}

// measured tells the size of the next request if a compaction is taken back and its
// context is entries: by what the meter has learned; else what it was, if nothing came
// since; else by the ruler.
func (s *state) measured(env env, id transcript.CompactionID, entries []transcript.Entry) UsageUpdated {
	units := env.base
	estimate := env.auto.bare
	for _, e := range entries {
		units += transcript.Tokens(e.Item.Body)
		estimate += transcript.Estimate(e.Item.Body)
	}
	u := UsageUpdated{Total: s.Usage.Total, Context: units, Source: transcript.Ruler, Base: env.base, Window: env.window}
	newest := transcript.Turn{}
	if n := len(s.Transcript.Turns); n > 0 {
		newest = s.Transcript.Turns[n-1]
	}
	u.TurnID = newest.ID
	r := s.compaction(id)
	switch {
	case s.Meter.Ratio > 0:
		m := s.Meter
		m.Forget()
		u.Context, u.Source = m.Tokens(s.Settings.model(), estimate)
	case r != nil && r.TurnID == newest.ID && newest.Kind == transcript.TurnCompact && r.Before.In(env.window) && s.wholeBut(id):
		u.Context, u.Source = r.Before.Tokens, r.Before.Source
	}
	return u
}

// wholeBut reports whether the provider has compacted nothing but in one compaction: a
// session that is told the context knows more than the one before else.
func (s *state) wholeBut(id transcript.CompactionID) bool {
	return !slices.ContainsFunc(s.Compactions, func(r compaction.Record) bool { return r.CompactionID != id && r.Replaced() })
}

// undo folds CompactionUndone.
func (s *state) undo(p CompactionUndone) {
	if p.Gate != nil {
		s.Gate = *p.Gate
	}
	s.Meter.Forget()
	if p.Boundary == nil {
		kept := s.Transcript.Prunes[:0:0]
		for _, r := range s.Transcript.Prunes {
			if r.CompactionID != p.CompactionID || r.Epoch != s.Transcript.Epoch() {
				kept = append(kept, r)
			}
		}
		s.Transcript.Prunes = kept
		s.reindexContext()
		return
	}
	note := ""
	if n, ok := s.opened(p.Boundary.Undoes); ok {
		note = s.owed(n - 1)
	}
	s.Transcript.Boundaries = append(slices.Clip(s.Transcript.Boundaries), *p.Boundary)
	s.Transcript.Prunes = append(slices.Clip(s.Transcript.Prunes), p.Prunes...)
	s.Reanchor, s.Reanchors = note, append(slices.Clip(s.Reanchors), note)
	s.reindexContext()
}

// owed returns the re-anchor of an epoch that had not been sent when the next one
// began; empty if it had.
func (s *state) owed(epoch int) string {
	bs := s.Transcript.Boundaries
	if epoch < 1 || epoch > len(s.Reanchors) || epoch >= len(bs) {
		return ""
	}
	from, to := bs[epoch-1].Covered, min(bs[epoch].Covered, len(s.Transcript.Items))
	for i := from; i < to; i++ {
		if compactionNote(s.Transcript.Items[i]) {
			return ""
		}
	}
	return s.Reanchors[epoch-1]
}

func (p CompactionUndone) check() error {
	if p.CompactionID == "" {
		return errors.New("the compaction has no id")
	}
	if b := p.Boundary; b != nil && b.Checkpoint != nil {
		return checkItem(*b.Checkpoint)
	}
	return nil
}
