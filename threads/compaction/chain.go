package compaction

import (
	"context"
	"errors"
	"fmt"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// An attempted is what came of composing with one writer.
type attempted struct {
	c    *Composed
	code string
	err  error
}

// overhead reports an automatic compaction that can do nothing: what no compaction
// shrinks is at the line already. It does not stop one that a turn cannot go on
// without.
func (r *runner) overhead() bool {
	a := r.job.Auto
	return a != nil && !r.job.Trigger.Recovers() && r.job.Input.Base >= a.Fire
}

// input is what the links compose from.
func (r *runner) input() Input {
	in := r.job.Input
	in.notes = ""
	in.Recover = r.job.Trigger.Recovers()
	if a := r.job.Auto; a != nil && !in.Recover {
		in.PruneTo = a.Rearm
	}
	return in
}

// links lists the writers from the one asked for on. A model that is not there is
// skipped.
func (r *runner) links() []Writer {
	rest := []Writer{WriterExtractive, WriterFixed}
	switch {
	case r.job.Writer == WriterFixed:
		return rest[1:]
	case r.job.Writer == WriterExtractive:
		return rest
	case len(r.job.Models) > 0:
		return []Writer{WriterModel, WriterExtractive, WriterFixed}
	case r.job.NoModel != nil:
		r.skip(linkOf(WriterModel), r.job.NoModel.Code, r.job.NoModel.Reason)
	case r.job.Writer == WriterModel:
		r.skip(linkOf(WriterModel), codeNoModel, "there is no model that writes checkpoints")
	}
	return rest
}

func linkOf(w Writer) string { return "checkpoint(" + string(w) + ")" }

// local tries the links in order. One that fails is skipped with its reason.
func (r *runner) local(ctx context.Context) {
	in := r.input()
	if r.overhead() {
		r.unchanged(ctx, in, r.untouched(in, CodeOverheadExceedsBudget))
		return
	}
	links := r.links()
	for _, w := range links {
		if r.interrupted(ctx) {
			return
		}
		a := r.link(ctx, w, in)
		switch {
		case r.interrupted(ctx):
			return
		case a.err != nil:
			r.skip(linkOf(w), a.code, a.err.Error())
			continue
		case a.c.Outcome == Unchanged:
			in.Writer = WriterExtractive
			r.unchanged(ctx, in, a.c)
			return
		case !r.gains(a.c):
			r.unchanged(ctx, in, r.untouched(in, CodeNoGain))
			return
		}
		if r.v.Writer = a.c.Writer; r.rebased(ctx, a.c) && r.enter(ctx, PhaseCommitting) {
			r.v.Outcome, r.v.Composed = Completed, a.c
		}
		return
	}
	last := r.v.Skipped[len(r.v.Skipped)-1]
	r.v.Outcome, r.v.Code, r.v.Reason = Failed, last.Code, last.Reason
}

// rebased gives the result to a provider that keeps its own history. It reports false if
// the run has ended.
func (r *runner) rebased(ctx context.Context, c *Composed) bool {
	if r.job.Rebase == nil {
		return true
	}
	err := r.job.Rebase(ctx, c)
	switch {
	case err == nil:
		return true
	case r.interrupted(ctx):
	default:
		r.v.Outcome, r.v.Code, r.v.Reason = Failed, codeRebaseFailed, fault.MessageOf(err)
		r.v.Remedy = "mend what the provider complains about and ask again; its session goes on as it was"
		if r.lost {
			r.v.Remedy = "mend what the provider complains about; the next turn begins a fresh session with what the thread holds"
		}
	}
	return false
}

// link composes with one writer.
func (r *runner) link(ctx context.Context, w Writer, in Input) attempted {
	if r.job.Trigger == TriggerBudget {
		return r.pressure(in)
	}
	switch w {
	case WriterModel:
		return r.model(ctx, in)
	case WriterExtractive:
		return r.extractive(in)
	default:
		in.Writer = w
		c, code, err := attempt(in)
		return attempted{c, code, err}
	}
}

// pressure is what all links of a task's budget are: the fixed writer's rule for it.
func (r *runner) pressure(in Input) (a attempted) {
	defer func() {
		if v := recover(); v != nil {
			a = attempted{nil, codePanic, fmt.Errorf("pressure: panic: %v", v)}
		}
	}()
	c, enough := Pressure(in)
	if !enough {
		return attempted{c: r.untouched(in, CodeNothingToCompact)}
	}
	if err := Check(in, c); err != nil {
		return attempted{nil, codeInvalid, err}
	}
	return attempted{c: c}
}

// extractive composes without a model, once.
func (r *runner) extractive(in Input) attempted {
	if r.quote == nil {
		in.Writer = WriterExtractive
		c, code, err := attempt(in)
		r.quote = &attempted{c, code, err}
	}
	return *r.quote
}

// gains reports whether a result saves enough. What was asked for by a user, or is
// needed for a turn to go on, only has to be smaller.
func (r *runner) gains(c *Composed) bool {
	return r.job.Auto == nil || r.job.Trigger.Recovers() || c.Before-c.After >= r.job.Auto.MinGain
}

// untouched is a result that leaves the context as it is.
func (r *runner) untouched(in Input, code string) *Composed {
	p, err := newPlanner(in)
	if err != nil {
		return &Composed{Outcome: Unchanged, Code: code}
	}
	return p.unchanged(code)
}

// model asks models for the notes of a checkpoint, but only for one that is worth
// it: what composing without one shows to be unchanged, too small a gain, done with a
// prune, or possible only with the last resorts of a recovery, needs no model.
func (r *runner) model(ctx context.Context, in Input) attempted {
	if a := r.extractive(in); a.err == nil && (a.c.Writer != WriterExtractive || !r.gains(a.c)) {
		return a
	}
	notes, d := r.notes(ctx, in)
	if d != nil {
		return attempted{nil, d.code, errors.New(d.reason)}
	}
	in.Writer, in.PruneTo = WriterModel, 0
	c, code, err := attempt(in.withNotes(notes))
	switch {
	case err != nil:
		return attempted{nil, code, err}
	case c.Outcome == Unchanged:
		return attempted{nil, c.Code, errors.New("with the notes of a model nothing would be gained")}
	case c.Writer != WriterModel:
		return attempted{nil, codeNoRoom, errors.New("the notes of a model do not fit")}
	}
	return attempted{c: c}
}

// notes plans, and has the notes written.
func (r *runner) notes(ctx context.Context, in Input) (notes string, d *defect) {
	defer func() {
		if v := recover(); v != nil {
			notes, d = "", &defect{code: codePanic, reason: fmt.Sprintf("notes: panic: %v", v)}
		}
	}()
	in.notes = ""
	p, missing, code, err := planModel(in)
	switch {
	case err != nil:
		return "", &defect{code: codeWriterFailed, reason: err.Error()}
	case code == codeNoRoom:
		return "", &defect{code: code, reason: "the checkpoint is too small to hold the notes of a model"}
	case code != "":
		return "", &defect{code: code, reason: "with the notes of a model what must survive does not fit"}
	}
	src := p.newSource()
	src.facts = missing
	if len(src.blocks) == 0 {
		if old := p.led.Notes; old != nil && src.previous == old.Text {
			return old.Text, nil
		}
		return "", &defect{code: codeNothingLost, reason: "everything stays readable, so there is nothing to write notes about"}
	}
	s := &scribe{job: &r.job, in: in, src: src, wish: r.wish, usage: &Usage{}, spare: spareRequests, warn: func(format string, args ...any) {
		r.v.Warnings = append(r.v.Warnings, fmt.Sprintf(format, args...))
	}}
	defer func() {
		if s.usage.Requests > 0 {
			r.v.Usage = r.v.Usage.plus(*s.usage)
		}
	}()
	d = s.write(ctx)
	return s.notes, d
}
