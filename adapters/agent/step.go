package agent

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// step is one request and what came of it.
type step struct {
	*turn
	open    *part             // the text item that grows, if any
	said    bool              // an item of the answer was journaled
	pending []adapters.Update // go into the next commit
	calls   []call
	usage   *adapters.Usage
	stop    adapters.StopReason
	large   error              // the request was refused because of its bytes
	full    *adapters.Overflow // the window had no room for the request, or for all of its answer
}

// request sends one request and turns its answer into items. Afterwards pending
// holds what still has to be committed, in order; of a step that is full, all is
// committed.
func (st *step) request(ctx context.Context, input adapters.Context) error {
	err := st.stream(ctx, st.ask(input, st.effort))
	full := st.stop == adapters.StopWindow || errors.Is(err, adapters.ErrOverflow)
	if err == nil || full {
		if failed := st.closePart(ctx); failed != nil {
			err, full = failed, false
		}
	}
	if ctx.Err() != nil { // whatever the transport made of it
		return fmt.Errorf("model request: %w", ctx.Err())
	}
	if st.usage != nil {
		st.pending = append(st.pending, adapters.UsageReported{Usage: *st.usage})
	}
	switch {
	case full:
		st.full = overflowOf(err, st.said)
		st.calls = nil // none was emitted; the model makes them again when there is room for their results
		return st.flush(ctx)
	case st.refusedBytes(err):
		st.large = err
		return st.flush(ctx)
	case err == nil && st.stop == adapters.StopFilter:
		err = &adapters.Error{Class: adapters.ClassFiltered, Message: "the provider's content filter cut the answer"}
	}
	if err != nil { // what was spent is reported all the same
		return errors.Join(fmt.Errorf("model request: %w", err), st.flush(ctx))
	}
	st.remark()
	st.admitCalls(input)
	return nil
}

// remark warns of an answer that is less than it seems.
func (st *step) remark() {
	switch {
	case len(st.calls) > 0:
	case st.stop == adapters.StopLength:
		st.pending = append(st.pending, adapters.Warned{Message: "the answer was cut where the model's output ends; say go on to have the rest"})
	case !st.spoke:
		st.pending = append(st.pending, adapters.Warned{Message: "the model ended its turn without saying anything"})
	}
}

// overflowOf says what is to be told of a request that did not fit. Once something
// of an answer was journaled it is the answer that did not.
func overflowOf(err error, said bool) *adapters.Overflow {
	o := adapters.Overflow{Length: said || err == nil, Err: err}
	if e := (*adapters.Error)(nil); errors.As(err, &e) {
		o.Requested, o.Limit = e.Requested, e.Limit
	}
	if err == nil {
		o.Err = &adapters.Error{Class: adapters.ClassOverflow, Message: "the context window was full before the answer was complete"}
	}
	return &o
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
		case adapters.Repaired:
			st.repaired(c)
		case adapters.Retried:
			err = st.flush(ctx, adapters.Retrying(c))
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
		if st.stop != "" { // it was cut here
			return nil
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

// repaired warns that a request had to be mended, once per rule in a turn. The
// warning shares the next commit.
func (st *step) repaired(r adapters.Repaired) {
	if st.warned[r.Rule] {
		return
	}
	st.warned[r.Rule] = true
	message := r.Text
	if r.Rule != adapters.RuleImages {
		message = "the request was mended before it was sent: " + r.Rule + ": " + r.Text
	}
	st.pending = append(st.pending, adapters.Warned{Message: message})
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

// maxText is what one item of text may hold, in bytes (adapters.TextDelta). An
// answer is cut there.
const maxText = 4 << 20

// write sends text of the open item. The item is started with its first text, so
// that an answer without any leaves no empty item behind; the completion of the
// item before shares that commit.
func (st *step) write(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	p := st.open
	if room := maxText - p.text.Len(); len(text) > room {
		for room > 0 && !utf8.RuneStart(text[room]) {
			room--
		}
		text, st.stop = text[:room], adapters.StopLength
		if text == "" {
			return nil
		}
	}
	if p.id == "" {
		st.said = true
		st.spoke = st.spoke || p.kind == transcript.KindAgentMessage
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
	if p.id == "" { // nothing of it was ever sent
		return nil
	}
	completed := transcript.Item{ID: p.id, Turn: st.id, Body: p.body(p.text.String())}
	st.pending = append(st.pending, adapters.ItemCompleted{Item: completed})
	return nil
}
