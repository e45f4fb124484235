package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// MaxSteps bounds the model requests of one turn. It stops a model that never
// stops calling tools; no honest turn came near it.
const MaxSteps = 250

// turn is the run of one turn; only the goroutine of Run uses it.
type turn struct {
	*session
	id     transcript.TurnID
	effort string
	host   adapters.Host
	warned map[string]bool // rules of which a warning was given
	spoke  bool            // the model said something to the user
	full   bool            // the last request did not fit, or its answer did not
	heavy  int             // requests in a row that were refused because of their bytes
}

// run performs steps until the model is done and no steer is waiting.
func (t *turn) run(ctx context.Context, goOn bool) (adapters.End, error) {
	input, err := t.boundary(ctx)
	if err == nil && goOn {
		input, err = t.goOn(ctx, input)
	}
	if err != nil {
		return adapters.End{}, err
	}
	for range MaxSteps {
		next, end, err := t.step(ctx, input)
		if err != nil {
			return adapters.End{}, err
		}
		if end != nil {
			return *end, nil
		}
		input = next
	}
	return adapters.End{}, fault.New(fault.TooLarge, "the turn made %d model requests, which is the limit, and still asks for tools", MaxSteps)
}

// step makes one request and does what its answer asks for. It returns the input of
// the next request, or how the turn ended.
func (t *turn) step(ctx context.Context, input adapters.Context) (next adapters.Context, end *adapters.End, err error) {
	if input, err = t.lighten(ctx, input); err != nil {
		return next, nil, err
	}
	st := &step{turn: t}
	if err := st.request(ctx, input); err != nil {
		return next, nil, err
	}
	if st.large != nil {
		next, err = t.makeLight(ctx, input, st.large)
		return next, nil, err
	}
	t.heavy = 0
	if st.full != nil {
		next, err = t.makeRoom(ctx, *st.full)
		return next, nil, err
	}
	t.full = false
	if len(st.calls) > 0 {
		if err := st.runTools(ctx); err != nil {
			return next, nil, err
		}
		next, err = t.boundary(ctx)
		return next, nil, err
	}
	end = &adapters.End{Updates: st.pending, Stop: st.stop}
	next, more, err := t.afterAnswer(ctx, end, input)
	if err != nil || more {
		return next, nil, err
	}
	return next, end, nil
}

// makeRoom has the context compacted after a request that did not fit. A request
// that did not fit although room was made for it ends the turn: another compaction
// would not help either.
func (t *turn) makeRoom(ctx context.Context, o adapters.Overflow) (adapters.Context, error) {
	if t.full {
		return adapters.Context{}, fmt.Errorf("model request, after a compaction: %w", o.Err)
	}
	t.full = true
	t.forgetSteers()
	input, err := t.host.Overflowed(ctx, o)
	if err != nil {
		return input, fmt.Errorf("make room for a request: %w", err)
	}
	return input, nil
}

// boundary asks for the next request's input.
func (t *turn) boundary(ctx context.Context) (adapters.Context, error) {
	t.forgetSteers()
	input, err := t.host.Context(ctx)
	if err != nil {
		return input, fmt.Errorf("read the context: %w", err)
	}
	return input, nil
}

// goOn takes up a turn that another process began: the calls that have no result
// are run, under the ids that they have, before the model is asked again.
func (t *turn) goOn(ctx context.Context, input adapters.Context) (adapters.Context, error) {
	waiting := unanswered(input, t.id)
	if len(waiting) == 0 {
		return input, nil
	}
	if err := t.runAll(ctx, waiting); err != nil {
		return input, err
	}
	return t.boundary(ctx)
}

// unanswered returns the calls of a turn that have no result, in order.
func unanswered(c adapters.Context, turn transcript.TurnID) []transcript.Item {
	answered := map[transcript.CallID]bool{}
	for _, e := range c.Entries {
		if r, ok := e.Item.Body.(transcript.ToolResult); ok {
			answered[r.CallID] = true
		}
	}
	var calls []transcript.Item
	for _, e := range c.Entries {
		if call, ok := e.Item.Body.(transcript.ToolCall); ok && e.Item.Turn == turn && !answered[call.CallID] {
			calls = append(calls, e.Item)
		}
	}
	return calls
}

// afterAnswer decides whether an answer without calls ends the turn. If a steer
// was accepted in the meantime it commits what was held for the end and looks
// whether the steer is news: one that arrived while the last context was being
// read may already be answered.
func (t *turn) afterAnswer(ctx context.Context, end *adapters.End, input adapters.Context) (next adapters.Context, more bool, err error) {
	for !t.tryEnd() {
		if err := t.emit(ctx, end.Updates); err != nil {
			return next, false, err
		}
		end.Updates = nil
		if next, err = t.boundary(ctx); err != nil {
			return next, false, err
		}
		if lastUserMessage(next) != lastUserMessage(input) {
			return next, true, nil
		}
	}
	return next, false, nil
}

// lastUserMessage is the id of the newest thing the user said.
func lastUserMessage(c adapters.Context) transcript.ItemID {
	for _, e := range slices.Backward(c.Entries) {
		if e.Item.Body.Kind() == transcript.KindUserMessage {
			return e.Item.ID
		}
	}
	return ""
}

// emit makes updates durable in one commit.
func (t *turn) emit(ctx context.Context, updates []adapters.Update) error {
	if len(updates) == 0 {
		return nil
	}
	if err := t.host.Emit(ctx, updates...); err != nil {
		return fmt.Errorf("journal the turn: %w", err)
	}
	return nil
}
