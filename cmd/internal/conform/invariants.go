package conform

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Evidence is what the invariants of DESIGN §2 are checked on: a thread that rests.
type Evidence struct {
	Service *threads.Service
	Thread  transcript.ThreadID
	// Prompts are the inputs of its turns, whole.
	Prompts map[transcript.TurnID]string
	// Earlier are its events as they were read before; nil if they were not.
	Earlier []events.Event
	// Requests are what its model was asked; nil if that is not known.
	Requests []upstream.Recorded
}

// A Broken invariant.
type Broken struct {
	Invariant string // I1 … I10
	What      string
}

// Invariants returns what is broken of I1 to I10, and the events on which that was
// found out.
func Invariants(ctx context.Context, e Evidence) ([]Broken, []events.Event, error) {
	c := &checker{e: e, ctx: ctx}
	if err := c.read(); err != nil {
		return nil, nil, err
	}
	c.check()
	return c.broken, c.events, nil
}

// check makes all checks on what was read.
func (c *checker) check() {
	for _, check := range []func(){c.endsOnce, c.pairs, c.disjoint, c.shrinks, c.native, c.alone, c.atomic, c.kept, c.survives, c.bounded} {
		check()
	}
}

// checker holds what the checks look at.
type checker struct {
	ctx      context.Context
	e        Evidence
	events   []events.Event
	payloads []threads.Payload
	contexts []threads.ContextRead // of every epoch
	broken   []Broken
}

func (c *checker) breaks(invariant, format string, args ...any) {
	c.broken = append(c.broken, Broken{invariant, fmt.Sprintf(format, args...)})
}

// page is how many events are read at once.
const page = 500

func (c *checker) read() error {
	var after *events.Cursor
	for {
		evs, at, err := c.e.Service.ReadEvents(c.ctx, c.e.Thread, after, page)
		if err != nil {
			return err
		}
		c.events, after = append(c.events, evs...), &at
		if len(evs) < page {
			break
		}
	}
	for _, ev := range c.events {
		p, err := threads.Decode(ev)
		if err != nil {
			return err
		}
		c.payloads = append(c.payloads, p)
	}
	for n := 0; ; n++ {
		read, err := c.e.Service.ReadContext(c.ctx, c.e.Thread, &n)
		if err != nil {
			return err
		}
		if c.contexts = append(c.contexts, read); n == read.Epochs {
			return nil
		}
	}
}

// updates returns what was told of compactions, in order.
func (c *checker) updates() (all []threads.CompactionUpdated) {
	for _, p := range c.payloads {
		if u, ok := p.(threads.CompactionUpdated); ok {
			all = append(all, u)
		}
	}
	return all
}

// ends returns the terminal records, in order.
func (c *checker) ends() (all []threads.CompactionUpdated) {
	for _, u := range c.updates() {
		if u.Record.Terminal() {
			all = append(all, u)
		}
	}
	return all
}

// endsOnce is I1: one terminal outcome for each compaction.
func (c *checker) endsOnce() {
	ended, begun := map[transcript.CompactionID]compaction.Outcome{}, map[transcript.CompactionID]bool{}
	for _, u := range c.updates() {
		r := u.Record
		begun[r.CompactionID] = true
		was, over := ended[r.CompactionID]
		switch {
		case over && (r.Outcome == nil || *r.Outcome != was):
			c.breaks("I1", "compaction %s ended %s and went on as %s", r.CompactionID, was, outcomeOf(r))
		case r.Outcome != nil:
			ended[r.CompactionID] = *r.Outcome
		}
	}
	for id := range begun {
		if _, over := ended[id]; !over {
			c.breaks("I1", "compaction %s has no outcome while the thread rests", id)
		}
	}
}

// pairs is I2: calls and results are on the same side, in every context and request.
func (c *checker) pairs() {
	for n, read := range c.contexts {
		open := map[transcript.CallID]bool{}
		for _, e := range read.Entries {
			switch b := e.Item.Body.(type) {
			case transcript.ToolCall:
				open[b.CallID] = true
			case transcript.ToolResult:
				if !open[b.CallID] {
					c.breaks("I2", "epoch %d has the result %s without its call", n, b.CallID)
				}
				delete(open, b.CallID)
			default:
			}
		}
		for id := range open {
			c.breaks("I2", "epoch %d has the call %s without its result", n, id)
		}
	}
	for _, what := range pairsBroken(c.e.Requests) {
		c.breaks("I2", "%s", what)
	}
}

// disjoint is I3: what is summarised and what is retained is all there was, once.
func (c *checker) disjoint() {
	for _, u := range c.ends() {
		r := u.Record
		i := slices.IndexFunc(c.contexts, func(read threads.ContextRead) bool {
			return read.Boundary != nil && read.Boundary.CompactionID == r.CompactionID && read.Boundary.Undoes == ""
		})
		if u.Boundary == nil || r.Items == nil || i < 1 {
			continue // it drew no boundary, or the epoch was reverted
		}
		found, n := c.contexts[i-1].Entries, r.Items
		if sum := n.Summarized + n.Whole + n.Clipped + n.Stub; sum != len(found) || len(u.Boundary.Kept) != sum-n.Summarized {
			c.breaks("I3", "of %d items %d are accounted for and %d kept", len(found), sum, len(u.Boundary.Kept))
		}
		turns, kept := map[transcript.TurnID]bool{}, map[transcript.ItemID]bool{}
		for _, k := range u.Boundary.Kept {
			if kept[k.ItemID] {
				c.breaks("I3", "item %s is kept twice", k.ItemID)
			}
			kept[k.ItemID] = true
		}
		for _, e := range found {
			if e.Item.Body.Kind() != transcript.KindCheckpoint && e.Item.Turn != "" {
				turns[e.Item.Turn] = turns[e.Item.Turn] || kept[e.Item.ID]
			}
			delete(kept, e.Item.ID)
		}
		for id := range kept {
			c.breaks("I3", "item %s is kept and was not there", id)
		}
		c.sides(r, turns)
	}
}

// sides holds the turns that a record names to those of which an item was kept.
func (c *checker) sides(r compaction.Record, retained map[transcript.TurnID]bool) {
	for _, id := range r.RetainedTurnIDs {
		if !retained[id] {
			c.breaks("I3", "turn %s is called retained and nothing of it is", id)
		}
	}
	for _, id := range r.SummarizedTurnIDs {
		if is, there := retained[id]; is || !there {
			c.breaks("I3", "turn %s is called summarised and is not", id)
		}
	}
	if len(retained) != len(r.RetainedTurnIDs)+len(r.SummarizedTurnIDs) {
		c.breaks("I3", "of %d turns %d are called retained and %d summarised", len(retained), len(r.RetainedTurnIDs), len(r.SummarizedTurnIDs))
	}
}

// shrinks is I4: what completed locally is smaller; what did not complete changed
// nothing.
func (c *checker) shrinks() {
	for _, u := range c.ends() {
		r := u.Record
		switch {
		case *r.Outcome != compaction.Completed:
			if u.Boundary != nil || u.Prune != nil {
				c.breaks("I4", "compaction %s is %s and changes the context", r.CompactionID, *r.Outcome)
			}
		case r.Native == nil && (r.Before == nil || r.After == nil || r.After.Tokens >= r.Before.Tokens || r.After.Source != r.Before.Source):
			c.breaks("I4", "compaction %s completed and did not shrink by one ruler: before %s, after %s", r.CompactionID, measure(r.Before), measure(r.After))
		}
	}
}

func measure(m *compaction.Measure) string {
	if m == nil {
		return "unknown"
	}
	return fmt.Sprintf("%d (%s)", m.Tokens, m.Source)
}

// native is I5: nothing is made up for a native compaction, and a local one is not
// called native.
func (c *checker) native() {
	for _, u := range c.ends() {
		r := u.Record
		if *r.Outcome != compaction.Completed || r.Route == nil {
			continue
		}
		isNative := *r.Route == compaction.RouteNative
		switch {
		case isNative && r.Native == nil:
			c.breaks("I5", "compaction %s completed natively and has no native result", r.CompactionID)
		case isNative && (r.Checkpoint != nil || r.Writer != nil || u.Prune != nil || len(r.SummarizedTurnIDs) > 0):
			c.breaks("I5", "something was made up for the native compaction %s", r.CompactionID)
		case !isNative && r.Native != nil:
			c.breaks("I5", "the local compaction %s is called native", r.CompactionID)
		}
	}
}

// alone is I6: nothing else is said or begun in the thread while a compaction runs.
func (c *checker) alone() {
	var running transcript.CompactionID
	for i, p := range c.payloads {
		switch p := p.(type) {
		case threads.CompactionUpdated:
			r := p.Record
			if running != "" && r.CompactionID != running {
				c.breaks("I6", "event %d: %s changes while %s runs", i+1, r.CompactionID, running)
			}
			running = ""
			if r.Trigger != compaction.TriggerProvider && r.Phase != compaction.PhaseRequested && !r.Terminal() {
				running = r.CompactionID
			}
		case threads.ItemStarted, threads.ItemCompleted, threads.TurnStarted, threads.TurnCompleted:
			if running != "" {
				c.breaks("I6", "event %d is %s while %s runs", i+1, p.EventType(), running)
			}
		default:
		}
	}
}

// atomic is I7: the context changes only in the row that completes a compaction, and
// every boundary is that of one.
func (c *checker) atomic() {
	drawn := map[transcript.CompactionID]bool{}
	for i, p := range c.payloads {
		switch p := p.(type) {
		case threads.CompactionUpdated:
			if p.Boundary == nil && p.Prune == nil {
				continue
			}
			drawn[p.Record.CompactionID] = true
			if p.Record.Outcome == nil || *p.Record.Outcome != compaction.Completed {
				c.breaks("I7", "event %d changes the context in a row that is %s", i+1, outcomeOf(p.Record))
			}
		case threads.CompactionUndone:
			if p.Boundary != nil {
				drawn[p.Boundary.CompactionID] = true
			}
		default:
		}
	}
	for n, read := range c.contexts[1:] {
		if read.Boundary == nil || !drawn[read.Boundary.CompactionID] {
			c.breaks("I7", "epoch %d was opened by no row of the journal", n+1)
		}
	}
}

// kept is I8: no row that was read before has changed, and seq is dense.
func (c *checker) kept() {
	for i, e := range c.e.Earlier {
		if i >= len(c.events) || c.events[i].Type != e.Type || string(c.events[i].Data) != string(e.Data) {
			c.breaks("I8", "row %d is not what it was", e.Seq)
		}
	}
	for i, e := range c.events {
		if e.Seq != int64(i+1) {
			c.breaks("I8", "row %d has the seq %d", i+1, e.Seq)
			return
		}
	}
}

// survives is I9: no compaction changes a setting, and the thread and the model have
// every request of the user as it was said.
func (c *checker) survives() {
	read, err := c.e.Service.ReadThread(c.ctx, c.e.Thread)
	if err != nil {
		c.breaks("I9", "the thread cannot be read: %v", err)
		return
	}
	settings := ""
	for _, p := range c.payloads {
		switch p := p.(type) {
		case threads.ThreadStarted:
			settings = encode(p.Settings)
		case threads.SettingsUpdated:
			settings = encode(p.Settings)
		default:
		}
	}
	if now := encode(read.Thread.Settings); now != settings {
		c.breaks("I9", "the settings are %s and were set to %s", now, settings)
	}
	said := map[transcript.TurnID]string{}
	for _, p := range c.payloads {
		if it, ok := p.(threads.ItemCompleted); ok && it.Item.Body.Kind() == transcript.KindUserMessage && said[it.Item.Turn] == "" {
			said[it.Item.Turn] = transcript.Text(it.Item.Body)
		}
	}
	for turn, text := range c.e.Prompts {
		if was, there := said[turn]; there && was != text {
			c.breaks("I9", "the request of turn %s is another one in the journal", turn)
		}
		if _, there := said[turn]; there && len(c.e.Requests) > 0 && !c.sent(turn, text) {
			c.breaks("I9", "no request to the model holds the request of turn %s", turn)
		}
	}
}

// sent reports whether a prompt reached the model, verbatim; one of a turn that failed
// before it asked anything need not have.
func (c *checker) sent(turn transcript.TurnID, text string) bool {
	for _, r := range c.e.Requests {
		if !r.Writer && slices.ContainsFunc(texts(r.Body), func(s string) bool { return strings.Contains(s, text) }) {
			return true
		}
	}
	for _, p := range c.payloads {
		if t, ok := p.(threads.TurnCompleted); ok && t.Turn.ID == turn {
			return t.Turn.Status != transcript.TurnCompleted
		}
	}
	return true
}

// bounded is I10: no loops. What happens by itself is bounded by what was asked for.
func (c *checker) bounded() {
	recovered, all, own := map[transcript.TurnID]int{}, 0, 0
	for _, u := range c.ends() {
		all++
		if u.Record.Trigger.Automatic() {
			own++
		}
		if u.Record.Trigger.Recovers() {
			if recovered[u.Record.TurnID]++; recovered[u.Record.TurnID] == 2 {
				c.breaks("I10", "turn %s was compacted twice for overflows", u.Record.TurnID)
			}
		}
	}
	turns := 0
	for _, p := range c.payloads {
		if _, ok := p.(threads.TurnStarted); ok {
			turns++
		}
	}
	if own > 2*(turns+1) {
		c.breaks("I10", "%d compactions by themselves in %d turns", own, turns)
	}
	if n := len(c.e.Requests); n > 8*(turns+all+1) {
		c.breaks("I10", "%d requests in %d turns and %d compactions", n, turns, all)
	}
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // plain structs always encode
		panic(err)
	}
	return string(b)
}
