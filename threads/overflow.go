package threads

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// LearnedFor is how long a window counts that a provider named in an error: some
// name another one for the same model on another day.
const LearnedFor = 24 * time.Hour

// Overflowed implements adapters.Host.
func (h *host) Overflowed(ctx context.Context, o adapters.Overflow) (adapters.Context, error) {
	v, err := h.a.send(ctx, message{cmd: overflowed{turn: h.turn, Overflow: o}})
	if err != nil {
		return adapters.Context{}, err
	}
	return v.(adapters.Context), nil
}

// drive runs a turn on the session that the thread has, and returns that session. A
// turn of a runtime that did not fit is run once more after one compaction, as a request
// of a model is, if nothing of it was done: the provider may not compact by itself, or
// not in time.
func (a *actor) drive(ctx context.Context, in adapters.TurnInput, settings Settings, h *host) (*session, adapters.End, error) {
	sess, end, err := a.attempt(ctx, in, settings, h)
	if !errors.Is(err, adapters.ErrOverflow) || ctx.Err() != nil || !a.keeps(settings) {
		return sess, end, err
	}
	o := adapters.Overflow{Err: err}
	can := sess != nil && sess.Compaction().Native != nil
	if e, ok := errors.AsType[*adapters.Error](err); ok {
		o.Requested, o.Limit = e.Requested, e.Limit
	}
	if _, err := a.send(ctx, message{cmd: overflowed{turn: in.Turn, Overflow: o, runtime: true, native: can}}); err != nil {
		return sess, adapters.End{}, err
	}
	again, err := a.send(ctx, message{cmd: runAgain{in}})
	if err != nil {
		return sess, adapters.End{}, err
	}
	return a.attempt(ctx, again.(adapters.TurnInput), settings, h)
}

// attempt runs a turn once.
func (a *actor) attempt(ctx context.Context, in adapters.TurnInput, settings Settings, h *host) (*session, adapters.End, error) {
	if !a.svc.hasFolder(settings) {
		return nil, adapters.End{}, fault.New(fault.Unavailable, "the folder of the thread, %s, is gone; make it again, or give the thread another cwd", settings.Cwd)
	}
	sess, err := a.openSession(ctx, settings)
	if err != nil {
		return nil, adapters.End{}, err
	}
	if in.Notes, err = a.notes(ctx, in.Turn, sess, in.Notes); err != nil {
		return nil, adapters.End{}, err
	}
	end, err := sess.Run(ctx, in, h)
	return sess, end, err
}

// runAgain journals what the compaction gave to restate, and answers with the turn as
// its session is told it once more: with all that the user has said in it.
type runAgain struct{ in adapters.TurnInput }

func (c runAgain) decide(s *state, env env) (decision, error) {
	if s.Active != c.in.Turn || s.Stopping {
		return decision{}, errOver(c.in.Turn)
	}
	in := c.in
	in.Input, in.Notes = s.unreadInput(0), s.restates(in.Turn)
	d := decision{answer: func(*state) any { return in }}
	if s.Reanchor != "" {
		in.Notes = s.Reanchor
		note := transcript.Notice{Source: sourceReanchor, Text: s.Reanchor}
		d.payloads = []Payload{ItemCompleted{Item: wholeItem(env, in.Turn, note), Reanchor: true}}
	}
	return d, nil
}

// again answers runAgain; what the user says from now on the session has not read.
func (a *actor) again(c runAgain) reply {
	v, err := a.run(c)
	a.readTo = len(a.state.Transcript.Items)
	return reply{v, err}
}

// overflowed is a session whose request did not fit. It waits like one at a step
// boundary, for one compaction. A turn gets one: what does not fit after that never
// will.
type overflowed struct {
	turn transcript.TurnID
	adapters.Overflow
	runtime bool // the whole turn is run again: its provider does not take up a request
	native  bool // of a runtime: its session compacts by itself
}

func (c overflowed) decide(s *state, env env) (decision, error) {
	if s.Active != c.turn || s.Stopping {
		return decision{}, errOver(c.turn)
	}
	gate := s.Gate.Measured(env.auto.policy, s.load(env.auto, 0), env.auto.key)
	switch {
	case s.inCompactTurn():
		return decision{}, c.failure("it was a compaction that did not fit")
	case c.runtime:
		au := env.auto
		au.native = c.native // known here, also in the first turn after a restart
		if why := s.cannotRelieve(au); why != "" {
			return decision{}, c.failure(why)
		}
		if !s.unheard() {
			return decision{}, c.failure("the provider had begun to work on the turn, which is not done twice; the thread is compacted before its next input")
		}
	case env.auto.policy.Off:
		return decision{}, c.failure("automatic compaction is off")
	case s.Overflows > 0:
		return decision{}, c.failure("the context was compacted once in this turn, which did not suffice")
	case gate.BreakerOpen():
		return decision{}, c.failure("automatic compaction has stopped after it failed several times; compact the thread yourself")
	}
	r := s.running()
	if r == nil {
		return s.compactInside(env, c.trigger(), env.learned), nil
	}
	rec := *r // it was asked for meanwhile: now it is needed
	rec.Trigger = c.trigger()
	rec.TurnID, rec.BaseSeq, rec.Epoch = c.turn, s.Seq, s.Transcript.Epoch()
	return decision{
		payloads: []Payload{ItemStarted{Item: compactionItem(env, rec)}, CompactionUpdated{Record: rec, Learned: env.learned}},
		effects:  []effect{startCompaction{rec.CompactionID}},
	}, nil
}

func (c overflowed) trigger() compaction.Trigger {
	if c.Length {
		return compaction.TriggerLength
	}
	return compaction.TriggerOverflow
}

// tokens is how large the request was that did not fit, as far as anybody knows.
func (c overflowed) tokens(l compaction.Load) int {
	if c.Requested > 0 {
		return c.Requested
	}
	return max(l.Used, l.Window)
}

// failure is the error that the turn ends with.
func (c overflowed) failure(why string) error {
	text := "the request does not fit the model's context window"
	if c.Length {
		text = "the answer filled the model's context window"
	}
	if c.Requested > 0 && c.Limit > 0 {
		text += fmt.Sprintf(" (%d tokens, the window has %d)", c.Requested, c.Limit)
	}
	if e, ok := errors.AsType[*adapters.Error](c.Err); ok && e.Message != "" {
		text += ": " + e.Message
	}
	return &adapters.Error{
		Class: adapters.ClassOverflow, Message: text + "; " + why, Requested: c.Requested, Limit: c.Limit, Err: c.Err,
	}
}

// lastOutcome tells how the newest compaction ended.
func (s *state) lastOutcome() string {
	if n := len(s.Compactions); n > 0 && s.Compactions[n-1].Terminal() {
		return outcomeText(s.Compactions[n-1])
	}
	return "no compaction has ended"
}
