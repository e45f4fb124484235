package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// maxParallelTools bounds the calls of one step that run at the same time.
const maxParallelTools = 8

// maxCalls bounds the calls of one answer that are run.
const maxCalls = 128

// maxQuoted is how much of unusable arguments the model is shown, in bytes.
const maxQuoted = 2000

// call is a tool call of this step, made fit for the journal.
type call struct {
	transcript.ToolCall
	item    transcript.ItemID
	problem string // why it is answered with an error instead of being run
}

// admitCalls makes ids unique and arguments valid. Calls come after all text of
// the step, whatever order the model gave, because in every wire format the
// results must follow the calls directly.
func (st *step) admitCalls(input adapters.Context) {
	if len(st.calls) == 0 {
		return
	}
	for _, e := range input.Entries {
		if c, ok := e.Item.Body.(transcript.ToolCall); ok {
			st.callIDs[c.CallID] = true
		}
	}
	for i := range st.calls {
		c := &st.calls[i]
		c.item = st.host.NewItemID()
		c.CallID = transcript.CallID(bytes.ToValidUTF8([]byte(c.CallID), []byte(replacement)))
		if c.CallID == "" {
			c.CallID = transcript.CallID("call-" + c.item)
		} else if st.callIDs[c.CallID] {
			c.CallID += transcript.CallID("-" + c.item)
		}
		st.callIDs[c.CallID] = true
		c.Arguments, c.problem = admitArguments(c.Arguments)
		switch {
		case i >= maxCalls:
			c.problem = fmt.Sprintf("only the first %d calls of one answer are run; make this one again", maxCalls)
		case c.Name == "":
			c.problem = "the call names no tool"
		}
	}
}

// admitArguments returns arguments as a JSON value and what is wrong with them.
// None at all means an empty object: that is how several servers send a call
// without parameters.
func admitArguments(raw transcript.RawJSON) (args transcript.RawJSON, problem string) {
	trimmed := bytes.ToValidUTF8(bytes.TrimSpace(raw), []byte(replacement))
	if len(trimmed) == 0 {
		return transcript.RawJSON("{}"), ""
	}
	if !json.Valid(trimmed) {
		text, err := json.Marshal(string(trimmed))
		if err != nil { // a string always encodes
			panic(err)
		}
		return text, "the arguments are not valid JSON: " + quote(trimmed)
	}
	if trimmed[0] != '{' {
		return trimmed, "the arguments must be a JSON object, not " + quote(trimmed)
	}
	return trimmed, ""
}

// quote bounds what the model is shown of its own mistake.
func quote(raw []byte) string {
	if len(raw) <= maxQuoted {
		return string(raw)
	}
	head := bytes.ToValidUTF8(raw[:maxQuoted], nil)
	return fmt.Sprintf("%s… (%d bytes)", head, len(raw))
}

// runTools commits the calls together with the text before them, then runs them
// and returns when the last one was answered. A call that cannot be run is
// complete and answered from the start.
func (st *step) runTools(ctx context.Context) error {
	var answered []adapters.Update
	var runnable []transcript.Item
	for _, c := range st.calls {
		item := transcript.Item{ID: c.item, Turn: st.id, Body: c.ToolCall}
		if c.problem == "" {
			st.pending = append(st.pending, adapters.ItemStarted{Item: item})
			runnable = append(runnable, item)
			continue
		}
		result := transcript.ToolResult{CallID: c.CallID, Output: transcript.TextParts(c.problem), IsError: true}
		answered = append(answered, adapters.ItemCompleted{Item: item}, adapters.ItemCompleted{Item: transcript.Item{
			ID: st.host.NewItemID(), Turn: st.id, Body: result,
		}})
	}
	if err := st.flush(ctx, answered...); err != nil {
		return err
	}
	return st.runAll(ctx, runnable)
}

// runAll runs calls at the same time. The first failure of the host cancels the
// others; it is a failure of the turn, unlike an error that a tool reports.
func (t *turn) runAll(ctx context.Context, calls []transcript.Item) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, maxParallelTools)
	var wg sync.WaitGroup
	for _, c := range calls {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if _, err := t.host.Tool(ctx, c); err != nil {
				cancel(fmt.Errorf("run tool: %w", err))
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
