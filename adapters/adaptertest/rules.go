package adaptertest

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// item is an item of the transcript and how far it got.
type item struct {
	transcript.Item
	open     bool
	ran      bool // a call that was given to Tool
	answered bool // a call that has its result
	left     bool // a call without one that a turn left behind: the server answers it
	text     strings.Builder
}

// soFar returns the item with the text it has got so far.
func (it *item) soFar() transcript.Item {
	out := it.Item
	if it.open {
		out.Body = withText(it.Body, it.text.String())
	}
	return out
}

// textOf returns the text of a body that grows by deltas.
func textOf(b transcript.Body) (text string, grows bool) {
	switch b := b.(type) {
	case transcript.AgentMessage:
		return b.Text, true
	case transcript.Reasoning:
		return b.Text, true
	}
	return "", false
}

// withText returns a body that grows by deltas with another text.
func withText(b transcript.Body, text string) transcript.Body {
	switch b := b.(type) {
	case transcript.AgentMessage:
		b.Text = text
		return b
	case transcript.Reasoning:
		b.Text = text
		return b
	case transcript.Command:
		b.Output = text
		return b
	}
	return b
}

// commit applies updates in order and records the durable ones as one commit.
// Callers hold mu.
func (h *Host) commit(updates []adapters.Update) {
	var durable []adapters.Update
	for _, u := range updates {
		switch u := u.(type) {
		case adapters.ItemStarted:
			h.start(u.Item)
		case adapters.TextDelta:
			h.delta(u)
			continue
		case adapters.ItemCompleted:
			h.complete(u.Item)
		case adapters.UsageReported:
			h.usages = append(h.usages, u.Usage)
		case adapters.Warned:
			h.warn(u.Message)
		case adapters.PlanUpdated, adapters.Retrying, adapters.CompactionBegan, adapters.CompactionEnded:
		default:
			h.r.Errorf("unknown update %T", u)
			continue
		}
		durable = append(durable, u)
	}
	if len(durable) > 0 {
		h.commits = append(h.commits, durable)
	}
}

func (h *Host) start(it transcript.Item) {
	if !h.checkNew(it) {
		return
	}
	if text, grows := textOf(it.Body); grows && text != "" {
		h.r.Errorf("item %s is started with text %.40q: text comes by deltas", it.ID, text)
	}
	h.add(&item{Item: it, open: true})
	h.register(it)
}

func (h *Host) delta(d adapters.TextDelta) {
	it := h.byID[d.Item]
	switch {
	case it == nil || !it.open:
		h.r.Errorf("delta %.40q for item %s, which is not open", d.Text, d.Item)
		return
	case d.Text == "":
		h.r.Errorf("empty delta for item %s", d.Item)
	case !utf8.ValidString(d.Text):
		h.r.Errorf("delta %.40q for item %s is not valid UTF-8", d.Text, d.Item)
	}
	if _, grows := textOf(it.Body); !grows {
		h.r.Errorf("delta for item %s: a %s has no text that grows", d.Item, it.Body.Kind())
	}
	it.text.WriteString(d.Text)
}

func (h *Host) complete(done transcript.Item) {
	it := h.byID[done.ID]
	if it == nil {
		if h.checkNew(done) {
			h.add(&item{Item: done})
			h.register(done)
		}
		return
	}
	if !it.open {
		h.r.Errorf("item %s is completed twice", done.ID)
		return
	}
	if it.Body.Kind() != done.Body.Kind() {
		h.r.Errorf("item %s was started as %s and completed as %s", done.ID, it.Body.Kind(), done.Body.Kind())
	}
	if text, grows := textOf(done.Body); grows && text != it.text.String() {
		h.r.Errorf("item %s is completed with %d bytes, its deltas add up to %d other ones", done.ID, len(text), it.text.Len())
	}
	it.Item, it.open = done, false
}

// register keeps account of calls and of results that the session reports
// itself, as runtimes do.
func (h *Host) register(it transcript.Item) {
	switch b := it.Body.(type) {
	case transcript.ToolCall:
		if b.CallID == "" || h.calls[b.CallID] != nil {
			h.r.Errorf("item %s: call id %q is empty or was used before", it.ID, b.CallID)
		}
		if !json.Valid(b.Arguments) || !utf8.Valid(b.Arguments) {
			h.r.Errorf("item %s: arguments %.40q are not valid JSON", it.ID, b.Arguments)
		}
		h.calls[b.CallID] = h.byID[it.ID]
	case transcript.ToolResult:
		c := h.calls[b.CallID]
		if c == nil || c.answered {
			h.r.Errorf("item %s answers call %q, which does not wait for an answer", it.ID, b.CallID)
			return
		}
		c.answered, c.open = true, false
	}
}

// checkNew reports whether an item may be added.
func (h *Host) checkNew(it transcript.Item) bool {
	used, known := h.ids[it.ID]
	switch {
	case it.Body == nil:
		h.r.Errorf("item %s has no body", it.ID)
		return false
	case used || !known && !h.OwnIDs:
		h.r.Errorf("item id %q was not handed out by the host or was used before", it.ID)
		return false
	case it.Turn != h.turn:
		h.r.Errorf("item %s belongs to turn %q, the running one is %q", it.ID, it.Turn, h.turn)
	case it.Body.Kind() == transcript.KindCheckpoint || it.Body.Kind() == transcript.KindContextCompaction:
		h.r.Errorf("item %s is a %s, which only the server makes", it.ID, it.Body.Kind())
	}
	return true
}

// checkTool reports a call that may not be run and returns its body.
func (h *Host) checkTool(callItem transcript.Item) transcript.ToolCall {
	call, isCall := callItem.Body.(transcript.ToolCall)
	it := h.calls[call.CallID]
	switch {
	case !isCall:
		h.r.Errorf("a tool is run for a %s", callItem.Body.Kind())
	case it == nil || it.ID != callItem.ID:
		h.r.Errorf("call %q is run before it was emitted", call.CallID)
	case it.ran || it.answered:
		h.r.Errorf("call %q is run again", call.CallID)
	default:
		it.ran = true
	}
	return call
}

// checkSettled reports what may not be left open when a request is made or a
// turn ends well.
func (h *Host) checkSettled(when string) {
	for _, it := range h.items {
		_, isCall := it.Body.(transcript.ToolCall)
		switch {
		case isCall && !it.answered:
			h.r.Errorf("%s while call item %s is unanswered", when, it.ID)
		case it.open:
			h.r.Errorf("%s while item %s is open", when, it.ID)
		}
	}
}

// mustRun reports a session that uses its host outside of Run and Compact.
func (h *Host) mustRun(method string) {
	if !h.running {
		h.r.Errorf("%s is called although nothing runs", method)
	}
}

// mustTurn reports what a session may only do in Run. In Compact the server would
// answer when the compaction is over, which then waits for the answer.
func (h *Host) mustTurn(method string) {
	h.mustRun(method)
	if h.native {
		h.r.Errorf("%s is called during a compaction", method)
	}
}

// finish applies what the turn ended with. A turn that failed may leave items
// open: the server completes them, and answers open calls.
func (h *Host) finish(end adapters.End, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running, h.native, h.stop = false, false, nil
	if err == nil {
		h.commit(end.Updates)
		h.checkSettled("the turn ends")
		return
	}
	if h.parked {
		return
	}
	for _, it := range h.items {
		it.Item, it.open = it.soFar(), false
		if _, isCall := it.Body.(transcript.ToolCall); isCall && !it.answered {
			it.answered, it.left = true, true
		}
	}
}
