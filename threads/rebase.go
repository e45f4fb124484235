package threads

import (
	"context"
	"slices"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/failpoint"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file makes a local compaction count for a runtime. Its program keeps its own
// history, which nothing here can shorten; so a fresh session is made that begins with
// the new context, and takes the place of the old one in the same commit as the
// boundary. If it cannot be made the compaction fails, and nothing has changed. The old
// session stays where its program keeps it, and its id in the record.

// rebaser returns what a compaction calls before it commits; nil for a provider whose
// whole context this server sends.
func (a *actor) rebaser(run *compactionRun, done *endCompaction) func(context.Context, *compaction.Composed) error {
	p, ok := a.svc.provider(run.settings.Provider)
	if !ok || !isRuntime(p) {
		return nil
	}
	return func(ctx context.Context, c *compaction.Composed) error {
		type look struct {
			nativeLook
			entries []transcript.Entry
			err     error
		}
		v, err := a.send(ctx, message{query: func(a *actor) any {
			entries, err := a.state.composed(run.record, c)
			return look{a.nativeLook(), entries, err}
		}})
		if err != nil {
			return err
		}
		l := v.(look)
		if l.err != nil {
			return l.err
		}
		failpoint.Hit("rebase/opening")
		params := a.params(run.settings, l.tools)
		params.Seed = l.entries
		opened, err := p.Adapter.Open(ctx, params)
		if err != nil {
			return openProblem(run.settings.Provider, err)
		}
		failpoint.Hit("rebase/opened")
		done.rebased = newSession(opened, run.settings)
		done.from = l.native
		return nil
	}
}

// replaceLost gives the thread a fresh session that was told its whole context, in place
// of one that its program does not know any more. Somebody who asks for the route local
// goes on with what the thread holds, also if there is nothing to shorten in that.
func (a *actor) replaceLost(ctx context.Context, settings Settings) error {
	p, ok := a.svc.provider(settings.Provider)
	if !ok || !isRuntime(p) {
		return nil
	}
	v, err := a.send(ctx, message{query: func(a *actor) any { return a.nativeLook() }})
	if err != nil {
		return err
	}
	l := v.(nativeLook)
	l.native.Stale = true
	opened, told, err := a.open(ctx, p, settings, l)
	if err != nil {
		return err
	}
	return a.adopt(ctx, newSession(opened, settings), told)
}

// composed is the context that a composed result would give. What was said in the turn
// in progress is no part of it: that turn is told again.
func (s *state) composed(r compaction.Record, c *compaction.Composed) ([]transcript.Entry, error) {
	_, boundary, prune := r.Conclude(compaction.Verdict{Outcome: compaction.Completed, Route: compaction.RouteLocal, Writer: c.Writer, Composed: c},
		compaction.End{Checkpoint: "checkpoint", Covered: len(s.Transcript.Items), Scale: 1})
	t := s.Transcript
	if prune != nil {
		t.Prunes = append(slices.Clip(t.Prunes), *prune)
	}
	if boundary != nil {
		t.Boundaries = append(slices.Clip(t.Boundaries), *boundary)
	}
	entries, err := t.Context(t.Epoch())
	return s.beforeTurn(entries), err
}

// rebase fills what a commit tells of the session that it brings.
func (c endCompaction) rebase(rec *compaction.Record, settings Settings) *NativeSession {
	if c.rebased == nil || *rec.Outcome != compaction.Completed {
		return nil
	}
	to := c.rebased.NativeID()
	rec.Rebase = &compaction.Rebase{To: to}
	if c.from.Provider == settings.Provider && c.from.ID != "" {
		rec.Rebase.From = &c.from.ID
	}
	return &NativeSession{Provider: settings.Provider, ID: to}
}

// discard closes the session that a compaction prepared and nobody took.
func (a *actor) discard(sess *session) {
	if sess == nil || sess.adopted.Load() {
		return
	}
	if err := guard(sess.Close); err != nil {
		a.svc.log.Warn("close a session that was prepared", "thread", a.id, "err", err)
	}
}

// A restoring is the session that an undo prepares.
type restoring struct {
	sess   *session
	native NativeSession // what the journal is to say of it
	seq    int64
}

// restore prepares what an undo needs: for a runtime a session whose history is what
// the context will be. It is optimistic: if the thread moves meanwhile, the undo is
// refused and the session closed. Nil: none is needed, or the undo will be refused.
func (s *Service) restore(ctx context.Context, id transcript.ThreadID, c transcript.CompactionID) (*restoring, *actor, error) {
	type look struct {
		nativeLook
		a        *actor
		settings Settings
		from     *NativeSession
		entries  []transcript.Entry
		seq      int64
		wanted   bool
	}
	l, err := query(ctx, s, id, func(a *actor) look {
		l := look{nativeLook: a.nativeLook(), a: a, settings: a.state.Settings, seq: a.state.Seq}
		var undone CompactionUndone
		entries, err := a.state.undoing(c, &undone, a.keepsHistory())
		l.entries = entries
		l.wanted = err == nil && a.keepsHistory() && a.state.mustRest() == nil && a.state.fits(a.env(), c, entries) == nil
		l.from = a.state.before(c)
		return l
	})
	if err != nil || !l.wanted {
		return nil, nil, err
	}
	p, ok := s.provider(l.settings.Provider)
	if !ok {
		return nil, nil, fault.New(fault.Unavailable, "provider %q is not configured any more", l.settings.Provider)
	}
	params := l.a.params(l.settings, l.tools)
	if l.from != nil {
		if err := l.a.parted(ctx, l.parting); err != nil {
			return nil, nil, err
		}
		params.NativeID = l.from.ID
		if opened, err := p.Adapter.Open(ctx, params); err == nil {
			return &restoring{newSession(opened, l.settings), *l.from, l.seq}, l.a, nil
		} // what was before can be told again
		params.NativeID = ""
	}
	params.Seed = l.entries
	opened, err := p.Adapter.Open(ctx, params)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Unavailable, err, "the undo needs a session with %s that has the context of before: %s", l.settings.Provider, messageOf(err))
	}
	return &restoring{newSession(opened, l.settings), NativeSession{Provider: l.settings.Provider, ID: opened.NativeID()}, l.seq}, l.a, nil
}

// before returns the native session that a compaction took the thread away from, if
// nothing was said since and it still has its history: then it can go on as if the
// compaction had never been.
func (s *state) before(id transcript.CompactionID) *NativeSession {
	r, n := s.compaction(id), len(s.Left)
	if r == nil || r.Rebase == nil || r.Rebase.From == nil || n == 0 || s.nativeFor(s.Settings.Provider) != r.Rebase.To || s.Native.Used {
		return nil
	}
	from := s.Left[n-1]
	if from.ID != *r.Rebase.From || from.Provider != s.Settings.Provider || from.Stale {
		return nil
	}
	return &from
}
