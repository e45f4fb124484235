package adaptertest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A Reporter is told of broken rules; *testing.T is one.
type Reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// Host is an adapters.Host that keeps a transcript in memory and checks the
// session that uses it. One turn runs at a time; Play runs one.
type Host struct {
	// OnTool answers calls; the default echoes the arguments. It is called from
	// the session's goroutine, without a lock.
	OnTool func(ctx context.Context, call transcript.ToolCall) (transcript.ToolResult, error)
	// OwnIDs says that the session brings ids of items along, as runtimes do.
	OwnIDs bool
	// OnAsk answers questions; without it they are declined. It is called from the
	// session's goroutine, without a lock. After an answer that cancels, the host
	// interrupts the turn, as the server does.
	OnAsk func(context.Context, adapters.Question) (adapters.Answer, error)
	// WantWarnings lets sessions warn. Otherwise a warning is an error: it says that a
	// request had to be mended, or that an answer is less than it seems.
	WantWarnings bool
	// Preamble is what the server adds to the system text of each request.
	Preamble string
	// Instructions are those of the user for a compaction.
	Instructions string
	// OnReanchor answers Reanchor; without it there is nothing to restate.
	OnReanchor func(context.Context) (string, error)
	// OnMayCompact answers MayCompact; without it nobody objects.
	OnMayCompact func(context.Context) (instructions string, err error)
	// Notes is what the server tells a runtime with each input.
	Notes string
	// Effort is the thread's setting.
	Effort string
	// OnUpdate sees every update after it was recorded, before Emit returns.
	OnUpdate func(adapters.Update)
	// Edit changes each context before the session gets it.
	Edit func(*adapters.Context)
	// OnContext is called before a context is built.
	OnContext func()
	// OnOverflow answers Overflowed; without it a turn that overflows fails. It is
	// called from the session's goroutine, without a lock.
	OnOverflow func(context.Context, adapters.Overflow) (adapters.Context, error)
	// OnLighten answers Lighten, as OnOverflow does; without it nothing is left out.
	OnLighten func(context.Context, adapters.Heavy) (int, error)

	r Reporter

	mu        sync.Mutex // guards all below
	turn      transcript.TurnID
	running   bool
	native    bool                       // what runs is a compaction
	parked    bool                       // a turn that waits is left as it is when its run ends
	goesOn    bool                       // no context was asked for since another run left the turn
	stop      func()                     // interrupts the turn that runs
	stopped   bool                       // it was: nothing more is given to the session
	stops     sync.WaitGroup             // calls of stop
	asked     []adapters.Question        // in order
	ids       map[transcript.ItemID]bool // handed out; true once used
	items     []*item
	byID      map[transcript.ItemID]*item
	calls     map[transcript.CallID]*item
	commits   [][]adapters.Update
	usages    []adapters.Usage
	warned    []string
	overflows []adapters.Overflow
	begin     int               // of items: what is before it was summarised
	notes     *transcript.Entry // what stands for it
}

// NewHost returns a Host with an empty thread.
func NewHost(r Reporter) *Host {
	return &Host{
		r:     r,
		ids:   map[transcript.ItemID]bool{},
		byID:  map[transcript.ItemID]*item{},
		calls: map[transcript.CallID]*item{},
		OnTool: func(_ context.Context, call transcript.ToolCall) (transcript.ToolResult, error) {
			return transcript.ToolResult{CallID: call.CallID, Output: transcript.TextParts(string(call.Arguments))}, nil
		},
	}
}

// Play says text as the user and runs one turn of s.
func (h *Host) Play(ctx context.Context, s adapters.Session, text string) (adapters.End, error) {
	h.mu.Lock()
	h.turn = transcript.TurnID(fmt.Sprintf("turn-%d", len(h.items)))
	h.running = true
	in := adapters.TurnInput{Turn: h.turn, Input: transcript.TextParts(text), Approval: "on-request", Sandbox: "workspace-write", Effort: h.Effort, Notes: h.Notes}
	h.mu.Unlock()
	h.Say(text)
	return h.run(ctx, s, in)
}

func (h *Host) run(ctx context.Context, s adapters.Session, in adapters.TurnInput) (adapters.End, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.mu.Lock()
	h.stopped = false
	var once sync.Once
	h.stop = func() {
		once.Do(func() {
			h.stops.Go(func() {
				if err := s.Interrupt(context.WithoutCancel(ctx)); err != nil {
					h.r.Errorf("interrupt: %v", err)
				}
				cancel()
			})
		})
	}
	h.mu.Unlock()
	end, err := s.Run(ctx, in, h)
	h.stops.Wait()
	h.finish(end, err)
	return end, err
}

// Compact runs a native compaction of s, as the server does between turns. It
// belongs to no turn, so items that the session reports meanwhile have none.
func (h *Host) Compact(ctx context.Context, s adapters.Session, id transcript.CompactionID) (adapters.NativeResult, error) {
	h.mu.Lock()
	h.turn, h.running, h.native = "", true, true
	h.mu.Unlock()
	res, err := s.Compact(ctx, adapters.CompactInput{ID: id, Instructions: h.Instructions}, h)
	h.finish(adapters.End{}, err)
	return res, err
}

// Say journals a message of the user, as the server does for a turn's input and
// for a steer.
func (h *Host) Say(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(&item{Item: transcript.Item{
		ID: h.newID(), Turn: h.turn, Body: transcript.UserMessage{Content: transcript.TextParts(text)},
	}})
}

// Items returns the transcript as a reader of the journal would see it: an item
// that is still open has the text so far.
func (h *Host) Items() []transcript.Item {
	h.mu.Lock()
	defer h.mu.Unlock()
	items := make([]transcript.Item, len(h.items))
	for i, it := range h.items {
		items[i] = it.soFar()
	}
	return items
}

// Commits returns what was journaled, one slice for each commit, a turn's End
// included. Deltas are no part of it.
func (h *Host) Commits() [][]adapters.Update {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.commits)
}

// Usages returns the reported usages.
func (h *Host) Usages() []adapters.Usage {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.usages)
}

// NewItemID implements adapters.Host.
func (h *Host) NewItemID() transcript.ItemID {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mustRun("NewItemID")
	return h.newID()
}

// Context implements adapters.Host.
func (h *Host) Context(ctx context.Context) (adapters.Context, error) {
	if h.OnContext != nil {
		h.OnContext()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mustTurn("Context")
	if err := h.over(ctx); err != nil {
		return adapters.Context{}, err
	}
	if !h.goesOn { // else the calls that wait are what it asks for
		h.checkSettled("a context is asked for")
	}
	h.goesOn = false
	c := adapters.Context{Preamble: h.Preamble}
	if h.notes != nil {
		c.Entries = append(c.Entries, *h.notes)
	}
	for _, it := range h.items[h.begin:] {
		c.Entries = append(c.Entries, transcript.Entry{Item: it.soFar(), Form: transcript.FormWhole})
		c.Tokens += transcript.Tokens(it.soFar().Body)
		if call, is := it.Body.(transcript.ToolCall); is && it.left {
			c.Entries = append(c.Entries, transcript.Entry{Form: transcript.FormWhole, Item: transcript.Item{
				ID: it.ID + "-answer", Turn: it.Turn,
				Body: transcript.ToolResult{CallID: call.CallID, Output: transcript.TextParts("interrupted"), IsError: true, Synthetic: true},
			}})
		}
	}
	if h.Edit != nil {
		h.Edit(&c)
	}
	return c, nil
}

// Emit implements adapters.Host.
func (h *Host) Emit(ctx context.Context, updates ...adapters.Update) error {
	if err := h.record(ctx, updates); err != nil {
		return err
	}
	if h.OnUpdate != nil {
		for _, u := range updates {
			h.OnUpdate(u)
		}
	}
	return nil
}

func (h *Host) record(ctx context.Context, updates []adapters.Update) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mustRun("Emit")
	if err := ctx.Err(); err != nil {
		return err
	}
	h.commit(updates)
	return nil
}

// Tool implements adapters.Host.
func (h *Host) Tool(ctx context.Context, callItem transcript.Item) (transcript.ToolResult, error) {
	h.mu.Lock()
	h.mustTurn("Tool")
	call := h.checkTool(callItem)
	err := h.over(ctx)
	h.mu.Unlock()
	if err != nil {
		return transcript.ToolResult{}, err
	}
	run := h.OnTool
	if call.Name == AskTool {
		run = func(ctx context.Context, _ transcript.ToolCall) (transcript.ToolResult, error) {
			return h.runAsking(ctx, callItem)
		}
	}
	result, err := run(ctx, call)
	if err != nil {
		return transcript.ToolResult{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mustRun("Tool (its result)")
	result.CallID = call.CallID
	if it := h.calls[call.CallID]; it != nil {
		it.open, it.answered = false, true
	}
	h.add(&item{Item: transcript.Item{ID: h.newID(), Turn: h.turn, Body: result}})
	return result, nil
}

// over says why a session gets nothing any more. Callers hold mu.
func (h *Host) over(ctx context.Context) error {
	if h.stopped {
		return context.Canceled
	}
	return ctx.Err()
}

// newID hands out an id. Callers hold mu.
func (h *Host) newID() transcript.ItemID {
	id := transcript.ItemID(fmt.Sprintf("item-%d", len(h.ids)+1))
	h.ids[id] = false
	return id
}

// add appends an item to the transcript. Callers hold mu.
func (h *Host) add(it *item) {
	h.ids[it.ID] = true
	h.items = append(h.items, it)
	h.byID[it.ID] = it
}
