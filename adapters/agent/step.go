package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// step is one request and what came of it.
type step struct {
	*turn
	open    *part             // the text item that grows, if any
	pending []adapters.Update // go into the next commit
	calls   []call
	usage   *adapters.Usage
	stop    adapters.StopReason
}

// request sends one request and turns its answer into items. Afterwards pending
// holds what still has to be committed, in order.
func (st *step) request(ctx context.Context, input adapters.Context) error {
	req := adapters.Request{Model: st.name, Base: st.Base(), Entries: input.Entries}
	err := st.stream(ctx, req)
	if err == nil {
		err = st.closePart(ctx)
	}
	if ctx.Err() != nil { // whatever the transport made of it
		return fmt.Errorf("model request: %w", ctx.Err())
	}
	if st.usage != nil {
		st.pending = append(st.pending, adapters.UsageReported{Usage: *st.usage})
	}
	if err != nil { // what was spent is reported all the same
		return errors.Join(fmt.Errorf("model request: %w", err), st.flush(ctx))
	}
	st.admitCalls(input)
	return nil
}

// flush commits what is pending. It is never sent twice: after an error of the
// host nobody knows whether it was journaled.
func (st *step) flush(ctx context.Context, more ...adapters.Update) error {
	updates := append(st.pending, more...)
	st.pending = nil
	return st.emit(ctx, updates)
}

// stream reads the answer up to its Done.
func (st *step) stream(ctx context.Context, req adapters.Request) error {
	for chunk, err := range st.model.Stream(ctx, req) {
		if err != nil {
			return err
		}
		switch c := chunk.(type) {
		case adapters.MessageText:
			err = st.text(ctx, transcript.KindAgentMessage, c.Text)
		case adapters.ReasoningText:
			err = st.text(ctx, transcript.KindReasoning, c.Text)
		case adapters.CallChunk:
			st.calls = append(st.calls, call{ToolCall: c.Call})
		case adapters.UsageChunk:
			st.usage = &c.Usage
		case adapters.Done:
			return st.done(c)
		default:
			err = fmt.Errorf("unknown chunk %T", chunk)
		}
		if err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return fault.New(fault.Unavailable, "the model's answer ended before it was complete")
}

// done takes the end of the answer. A model that waits for results which nobody
// can give would wait for ever.
func (st *step) done(d adapters.Done) error {
	st.stop = d.Stop
	if d.Stop == adapters.StopTools && len(st.calls) == 0 {
		return fault.New(fault.Unavailable, "the model stopped to wait for tools but called none")
	}
	return nil
}

// text adds text to the open item of a kind, after closing one of another kind.
func (st *step) text(ctx context.Context, kind transcript.Kind, text string) error {
	if text == "" {
		return nil
	}
	if st.open != nil && st.open.kind != kind {
		if err := st.closePart(ctx); err != nil {
			return err
		}
	}
	if st.open == nil {
		st.open = &part{kind: kind}
	}
	return st.write(ctx, st.open.whole(text))
}

// write sends text of the open item. The item is started with its first text, so
// that an answer without any leaves no empty item behind; the completion of the
// item before shares that commit.
func (st *step) write(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	p := st.open
	if p.id == "" {
		p.id = st.host.NewItemID()
		started := transcript.Item{ID: p.id, Turn: st.id, Body: p.body("")}
		if err := st.flush(ctx, adapters.ItemStarted{Item: started}); err != nil {
			return err
		}
	}
	p.text.WriteString(text)
	if err := st.host.Emit(ctx, adapters.TextDelta{Item: p.id, Text: text}); err != nil {
		return fmt.Errorf("stream text: %w", err)
	}
	return nil
}

// closePart completes the open item with exactly the text that was streamed.
func (st *step) closePart(ctx context.Context) error {
	p := st.open
	if p == nil {
		return nil
	}
	if err := st.write(ctx, p.rest()); err != nil {
		return err
	}
	st.open = nil
	completed := transcript.Item{ID: p.id, Turn: st.id, Body: p.body(p.text.String())}
	st.pending = append(st.pending, adapters.ItemCompleted{Item: completed})
	return nil
}
