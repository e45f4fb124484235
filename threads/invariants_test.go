package threads_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// The invariants of DESIGN §2 over random scripts of turns, tool loops, failures,
// overflows, compactions, undos, reverts, switches of the model and restarts. A
// voyage is one such script; what it did is in the journal and in the requests that
// reached the model.

// windows of the voyage's model, in tokens. Its provider refuses what is over real.
const (
	voyageWindow = 8_000
	voyageReal   = 6_500
	voyagePin    = "PIN-4711: never touch the keel"
)

type voyage struct {
	*bench
	rt     *rapid.T // draws; nil in a session that is no random script
	f      failer
	p      *player
	id     transcript.ThreadID
	do     ordered // what the model does next
	asked  int     // turns that were started
	prompt map[transcript.TurnID]string
	closed map[int]string // contexts of epochs that are over, by number
	rows   []string       // the journal so far
}

// ordered is what the model does in the turns to come. The player's lock guards it.
type ordered struct {
	size, calls int
	fails       bool
	writes      string // how the writer answers: well, badly, or fails
}

type failer interface {
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

func embark(t *testing.T, rt *rapid.T) *voyage {
	t.Helper()
	v := &voyage{rt: rt, f: rt, prompt: map[transcript.TurnID]string{}, closed: map[int]string{}}
	v.p = newPlayer(voyageWindow)
	v.p.infos = append(v.p.infos, adapters.ModelInfo{ID: "small", ContextWindow: 5_000, MaxOutput: 500})
	v.p.unfit, v.p.play = nil, v.play
	v.bench = playing(t, v.p, withTool(big("seen", 900)))
	v.id = v.create()
	if _, err := v.svc.AddPin(t.Context(), threads.PinParams{Thread: v.id, Text: voyagePin}); err != nil {
		rt.Fatal(err)
	}
	return v
}

// play is the model.
func (v *voyage) play(p *player, req adapters.Request) played {
	in := (&request{Request: req}).usage("").InputTokens
	switch {
	case req.Writer && v.do.writes == "fails":
		return played{err: &adapters.Error{Class: adapters.ClassBadRequest, Message: "unknown variant"}}
	case req.Writer && v.do.writes == "badly":
		return played{text: "I'm sorry, I can't help with that."}
	case req.Writer:
		return notes()
	case in > voyageReal:
		return played{err: &adapters.Error{Class: adapters.ClassOverflow, Message: "too long", Requested: in, Limit: voyageReal}}
	case v.do.fails:
		return played{err: errScripted}
	case v.do.calls > 0:
		v.do.calls--
		return played{calls: []transcript.ToolCall{call(fmt.Sprintf("c%d", len(p.reqs)), "look"), call(fmt.Sprintf("d%d", len(p.reqs)), "look")}}
	}
	return played{text: big(fmt.Sprintf("answer %d", len(p.reqs)), v.do.size)}
}

func (v *voyage) order(o ordered) {
	v.p.mu.Lock()
	defer v.p.mu.Unlock()
	o.writes = v.do.writes
	v.do = o
}

func (v *voyage) must(err error) {
	if err != nil {
		v.f.Fatal(err)
	}
}

func (v *voyage) ask(text string, o ordered) {
	v.order(o)
	v.asked++
	text = fmt.Sprintf("REQUEST-%d %s", v.asked, text)
	ack := v.start(v.id, text)
	v.prompt[ack.Turn.ID] = text
	v.endOf(ack)
	v.settle(v.id)
}

// endOf waits for the end of a turn without reading what came before it.
func (v *voyage) endOf(ack threads.TurnAck) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for m, err := range v.svc.Follow(ctx, v.id, &ack.AsOf, 0) {
		v.must(err)
		if m.Kind == events.KindEvent && m.Event.Type == (threads.TurnCompleted{}).EventType() {
			if p := must(threads.Decode(m.Event)); ended(ack.Turn.ID)(p) {
				return
			}
		}
	}
	v.f.Fatalf("turn %s never ends", ack.Turn.ID)
}

// voyages are the steps, by name.
var voyages = map[string]func(*voyage){
	"turn": func(v *voyage) {
		v.ask("go on", ordered{size: rapid.IntRange(1, 2500).Draw(v.rt, "size")})
	},
	"long turn":  func(v *voyage) { v.ask("go on", ordered{size: 2200}) },
	"long input": func(v *voyage) { v.ask(big("input", rapid.IntRange(10, 1500).Draw(v.rt, "size")), ordered{size: 50}) },
	"crossing": func(v *voyage) { // the line, or only what the provider takes
		used := v.read(v.id).Occupancy.Context
		v.ask("fill it", ordered{size: max(1, 6_000-used)})
		v.ask(big("input", rapid.SampledFrom([]int{500, 1300}).Draw(v.rt, "input")), ordered{size: 20})
	},
	"tools": func(v *voyage) {
		v.ask("look around", ordered{size: 100, calls: rapid.IntRange(1, 4).Draw(v.rt, "calls")})
	},
	"failure": func(v *voyage) { v.ask("try", ordered{fails: true}) },
	"writer": func(v *voyage) {
		how := rapid.SampledFrom([]string{"well", "badly", "fails"}).Draw(v.rt, "writes")
		v.p.mu.Lock()
		v.do.writes = how
		v.p.mu.Unlock()
	},
	"compaction": func(v *voyage) {
		v.compact(threads.CompactParams{
			Thread: v.id, Budget: rapid.SampledFrom([]int{0, 1500, 3000}).Draw(v.rt, "budget"),
			Writer: rapid.SampledFrom([]compaction.Writer{"", compaction.WriterExtractive, compaction.WriterFixed}).Draw(v.rt, "by"),
		})
		v.settle(v.id)
	},
	"undo": func(v *voyage) {
		recs := v.records(v.id)
		if len(recs) == 0 {
			return
		}
		r := recs[rapid.IntRange(0, len(recs)-1).Draw(v.rt, "which")]
		_, _ = v.svc.UndoCompaction(v.t.Context(), threads.UndoParams{Thread: v.id, Compaction: r.CompactionID}) // it may be refused
	},
	"revert": func(v *voyage) {
		page, err := v.svc.ListTurns(v.t.Context(), v.id, threads.TurnQuery{})
		v.must(err)
		if n := len(page.Turns); n > 0 {
			_, err := v.svc.Revert(v.t.Context(), v.id, page.Turns[rapid.IntRange(max(0, n-3), n-1).Draw(v.rt, "turn")].ID)
			v.must(err)
			clear(v.closed) // epochs are gone
		}
	},
	"model": func(v *voyage) {
		_, err := v.svc.UpdateSettings(v.t.Context(), v.id, threads.SettingsPatch{Model: new(rapid.SampledFrom([]string{"m", "small"}).Draw(v.rt, "model"))})
		v.must(err)
	},
	"restart": func(v *voyage) {
		was := v.epochs()
		v.restart()
		if now := v.epochs(); !slices.Equal(was, now) {
			v.f.Fatal("after a restart the contexts are others")
		}
	},
}

// epochs returns the context of every epoch.
func (v *voyage) epochs() []string {
	var all []string
	for n := 0; ; n++ {
		c, err := v.svc.ReadContext(v.t.Context(), v.id, &n)
		v.must(err)
		all = append(all, string(must(json.Marshal(c.Entries))))
		if n == c.Epochs {
			return all
		}
	}
}

// contract is what holds after every step, by its name in DESIGN §2. I5 has a provider
// of its own, below.
var contract = []struct {
	name  string
	holds func(*voyage)
}{
	{"I1", holdsI1},
	{"I2", holdsI2},
	{"I3", holdsI3},
	{"I4", holdsI4},
	{"I6", holdsI6},
	{"I7", holdsI7},
	{"I8", holdsI8},
	{"I9", holdsI9},
	{"I10", holdsI10},
}

// A clause is the failer of one part of the contract.
type clause struct {
	name string
	failer
}

func (c clause) Fatalf(format string, args ...any) {
	c.failer.Fatalf("%s", c.name+": "+fmt.Sprintf(format, args...))
}
func (c clause) Fatal(args ...any) { c.failer.Fatal(c.name + ": " + fmt.Sprint(args...)) }

// The whole contract holds after every step of random scripts, which together come
// across what it is about.
func TestI1ToI10HoldAfterEveryStep(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(maps.Keys(voyages))
	seen := map[string]int{}
	defer func() {
		for _, must := range []string{"manual", "preTurn", "midTurn", "postTurn", "overflow", "completed", "unchanged"} {
			if seen[must] == 0 && !t.Failed() {
				t.Errorf("no script came across %s: %v", must, seen)
			}
		}
	}()
	rapid.Check(t, func(rt *rapid.T) {
		v := embark(t, rt)
		defer func() {
			for _, r := range v.records(v.id) {
				seen[string(r.Trigger)]++
				if r.Outcome != nil {
					seen[string(*r.Outcome)]++
				}
			}
			v.close() // so that no thread stays loaded
			v.open()
		}()
		for range rapid.IntRange(4, 16).Draw(rt, "steps") {
			voyages[rapid.SampledFrom(names).Draw(rt, "step")](v)
			for _, part := range contract {
				v.f = clause{part.name, rt}
				part.holds(v)
			}
			v.f = rt
		}
	})
}

// I1: every compaction that started has one terminal outcome, also over restarts.
func holdsI1(v *voyage) {
	ends := map[transcript.CompactionID]compaction.Outcome{}
	begun := map[transcript.CompactionID]bool{}
	for _, p := range v.payloads(v.id) {
		u, ok := p.(threads.CompactionUpdated)
		if !ok {
			continue
		}
		id := u.Record.CompactionID
		begun[id] = true
		was, ended := ends[id]
		switch {
		case ended && (u.Record.Outcome == nil || *u.Record.Outcome != was):
			v.f.Fatalf("compaction %s ended %s and goes on as %s", id, was, mustJSON(v.t, u.Record))
		case u.Record.Outcome != nil:
			ends[id] = *u.Record.Outcome
		}
	}
	if len(ends) != len(begun) {
		v.f.Fatalf("%d of %d compactions have ended while the thread rests", len(ends), len(begun))
	}
}

// I2: in every request each result has its call before it, and each call its result
// behind it.
func holdsI2(v *voyage) {
	turns, _ := v.p.requests()
	for n, r := range turns {
		open := map[transcript.CallID]bool{}
		for _, e := range r.Entries {
			switch b := e.Item.Body.(type) {
			case transcript.ToolCall:
				open[b.CallID] = true
			case transcript.ToolResult:
				if !open[b.CallID] {
					v.f.Fatalf("request %d has result %s without its call before it", n, b.CallID)
				}
				delete(open, b.CallID)
			}
		}
		if len(open) > 0 {
			v.f.Fatalf("request %d has calls without results: %v", n, open)
		}
	}
}

// I3: what is summarised and what is retained is all there was, once.
func holdsI3(v *voyage) {
	items := v.timeline()
	for _, u := range v.boundaries() {
		r := u.Record
		entries, ok := items[r.CompactionID]
		if !ok {
			continue // its epoch was reverted
		}
		c := r.Items
		if sum := c.Summarized + c.Whole + c.Clipped + c.Stub; sum != len(entries) || len(u.Boundary.Kept) != sum-c.Summarized {
			v.f.Fatalf("of %d entries %d are accounted for and %d kept: %s", len(entries), sum, len(u.Boundary.Kept), mustJSON(v.t, r))
		}
		turns, kept := map[transcript.TurnID]bool{}, map[transcript.ItemID]bool{}
		for _, k := range u.Boundary.Kept {
			if kept[k.ItemID] {
				v.f.Fatalf("item %s is kept twice", k.ItemID)
			}
			kept[k.ItemID] = true
		}
		for _, e := range entries {
			if e.Item.Body.Kind() != transcript.KindCheckpoint && e.Item.Turn != "" {
				turns[e.Item.Turn] = turns[e.Item.Turn] || kept[e.Item.ID]
			}
			delete(kept, e.Item.ID)
		}
		if len(kept) > 0 {
			v.f.Fatalf("items %v are kept and were not there", kept)
		}
		for _, id := range r.RetainedTurnIDs {
			if !turns[id] {
				v.f.Fatalf("turn %s is called retained", id)
			}
		}
		for _, id := range r.SummarizedTurnIDs {
			if retained, there := turns[id]; retained || !there {
				v.f.Fatalf("turn %s is called summarised", id)
			}
		}
		if len(turns) != len(r.RetainedTurnIDs)+len(r.SummarizedTurnIDs) {
			v.f.Fatalf("of %d turns %d are retained and %d summarised", len(turns), len(r.RetainedTurnIDs), len(r.SummarizedTurnIDs))
		}
	}
}

// boundaries returns the ends of compactions that opened an epoch.
func (v *voyage) boundaries() (us []threads.CompactionUpdated) {
	for _, p := range v.payloads(v.id) {
		if u, ok := p.(threads.CompactionUpdated); ok && u.Boundary != nil {
			us = append(us, u)
		}
	}
	return us
}

// timeline returns what each compaction whose epoch is still there found.
func (v *voyage) timeline() map[transcript.CompactionID][]transcript.Entry {
	found := map[transcript.CompactionID][]transcript.Entry{}
	for n := 1; ; n++ {
		c, err := v.svc.ReadContext(v.t.Context(), v.id, &n)
		if err != nil {
			return found
		}
		before, err := v.svc.ReadContext(v.t.Context(), v.id, new(n-1))
		v.must(err)
		if c.Boundary.Undoes == "" {
			found[c.Boundary.CompactionID] = before.Entries
		}
	}
}

// I4: what is completed is smaller, by one ruler; what is not left everything as it
// was.
func holdsI4(v *voyage) {
	for _, p := range v.payloads(v.id) {
		u, ok := p.(threads.CompactionUpdated)
		if !ok || u.Record.Outcome == nil {
			continue
		}
		r := u.Record
		if *r.Outcome == compaction.Completed {
			if r.After.Tokens >= r.Before.Tokens || r.After.Source != r.Before.Source {
				v.f.Fatalf("it did not shrink: %s", mustJSON(v.t, r))
			}
		} else if u.Boundary != nil || u.Prune != nil {
			v.f.Fatalf("an outcome %s changes the context", *r.Outcome)
		}
	}
}

// I6: from its first phase to its end a compaction is alone: nothing else is said or
// begun in the thread, but for what waits in the queue.
func holdsI6(v *voyage) {
	var running transcript.CompactionID
	for i, p := range v.payloads(v.id) {
		switch p := p.(type) {
		case threads.CompactionUpdated:
			r := p.Record
			if running != "" && r.CompactionID != running {
				v.f.Fatalf("event %d: %s changes while %s runs", i, r.CompactionID, running)
			}
			running = ""
			if r.Phase != compaction.PhaseRequested && r.Phase != compaction.PhaseTerminal {
				running = r.CompactionID
			}
		case threads.ItemStarted, threads.ItemCompleted, threads.TurnStarted, threads.TurnCompleted, threads.UsageUpdated:
			if running != "" {
				v.f.Fatalf("event %d is %s while %s runs", i, p.EventType(), running)
			}
		default:
		}
	}
}

// I7: boundary, record and completion are one row, and every epoch is a fold of the
// journal: a restart, which is a step of each voyage, gives the same contexts.
func holdsI7(v *voyage) {
	was := v.epochs()
	v.must(v.svc.Unload(v.t.Context(), v.id))
	if now := v.epochs(); !slices.Equal(was, now) {
		v.f.Fatal("a thread that is loaded again has other contexts")
	}
	for _, p := range v.payloads(v.id) {
		u, ok := p.(threads.CompactionUpdated)
		if ok && (u.Boundary != nil || u.Prune != nil) && (u.Record.Outcome == nil || *u.Record.Outcome != compaction.Completed) {
			v.f.Fatalf("the context changes in a row that is %s", mustJSON(v.t, u.Record))
		}
	}
}

// I8: no row of the journal ever changes, and epochs that are over stay what they
// were.
func holdsI8(v *voyage) {
	evs, err := v.journal.Read(context.Background(), string(v.id), 0, 10_000)
	v.must(err)
	for i, e := range evs {
		row := e.Type + string(e.Data)
		if i < len(v.rows) && v.rows[i] != row {
			v.f.Fatalf("row %d was changed", i)
		}
		if i >= len(v.rows) {
			v.rows = append(v.rows, row)
		}
	}
	all := v.epochs()
	for n, c := range all[:len(all)-1] {
		if was, ok := v.closed[n]; ok && was != c {
			v.f.Fatalf("epoch %d was changed after it ended", n)
		}
		v.closed[n] = c
	}
}

// I9: base and pins are whole in every request, the request that a turn works on is
// in each of its own, and no compaction changes a setting.
func holdsI9(v *voyage) {
	turns, _ := v.p.requests()
	for n, r := range turns {
		if !strings.HasPrefix(r.Base.System, "You are a player.") || !strings.Contains(r.Base.System, voyagePin) || len(r.Base.Tools) != len(turns[0].Base.Tools) {
			v.f.Fatalf("request %d has another base: %q", n, r.Base.System)
		}
		var text string
		for _, e := range r.Entries {
			if u, ok := e.Item.Body.(transcript.UserMessage); ok {
				text = transcript.Text(u)
				if full := v.prompt[e.Item.Turn]; full != "" && len(full) < 4*voyageReal/4 && e.Form == transcript.FormWhole && text != full {
					v.f.Fatalf("request %d has another prompt than the user's", n)
				}
			}
		}
		if !strings.HasPrefix(text, "REQUEST-") {
			v.f.Fatalf("the last request of the user is not in request %d", n)
		}
	}
	if read := v.read(v.id); read.Settings.ApprovalPolicy != "on-request" || read.Settings.Sandbox != "read-only" || read.Settings.Provider != "player" {
		v.f.Fatalf("the settings are %+v", read.Settings)
	}
}

// I10: no loops. A turn costs a bounded number of requests and at most one
// compaction for an overflow; within one compaction no writer gets a request twice.
func holdsI10(v *voyage) {
	recs := v.records(v.id)
	overflows := map[transcript.TurnID]int{}
	for _, r := range recs {
		if r.Trigger.Recovers() {
			if overflows[r.TurnID]++; overflows[r.TurnID] > 1 {
				v.f.Fatalf("turn %s was compacted twice for overflows", r.TurnID)
			}
		}
	}
	if limit := 8 * (v.asked + 1); len(recs) > limit {
		v.f.Fatalf("%d compactions in %d turns", len(recs), v.asked)
	}
	turns, writers := v.p.requests()
	if len(turns) > 7*(v.asked+1) {
		v.f.Fatalf("%d requests in %d turns", len(turns), v.asked)
	}
	for _, r := range recs {
		n := 0
		if r.Usage != nil {
			n = r.Usage.Requests
		}
		sent := map[string]bool{}
		for _, w := range writers[:n] {
			text := w.Base.System + strings.Join((&request{Request: w}).texts(), "\n")
			if sent[text] {
				v.f.Fatalf("a writer got a request twice in one compaction: %s", mustJSON(v.t, r))
			}
			sent[text] = true
		}
		writers = writers[n:]
	}
	if len(writers) > 0 {
		v.f.Fatalf("%d requests to writers are in no record", len(writers))
	}
}

// nativeModel is a runtime whose own compaction discloses something.
type nativeModel struct{ adapters.Adapter }

func (n nativeModel) Open(ctx context.Context, p adapters.OpenParams) (adapters.Session, error) {
	s, err := n.Adapter.Open(ctx, p)
	return nativeSession{s}, err
}

type nativeSession struct{ adapters.Session }

func (nativeSession) Compaction() adapters.Ability {
	return adapters.Ability{Native: &adapters.Native{Form: "test-form"}}
}

func (nativeSession) Compact(context.Context, adapters.CompactInput, adapters.Host) (adapters.NativeResult, error) {
	return adapters.NativeResult{Form: "test-form", Usage: &adapters.Usage{InputTokens: 7, OutputTokens: 3}}, nil
}

// Run is that of a runtime: it never asks for a context.
func (nativeSession) Run(_ context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
	text := transcript.PartsText(in.Input)
	size := len(text)
	return adapters.End{Updates: []adapters.Update{
		adapters.ItemCompleted{Item: transcript.Item{ID: h.NewItemID(), Turn: in.Turn, Body: transcript.AgentMessage{Text: "read " + text[:min(9, size)]}}},
		adapters.UsageReported{Usage: adapters.Usage{InputTokens: size, OutputTokens: 10}},
	}}, nil
}

// I5: a native compaction is the provider's. Whatever the thread holds, nothing is
// made up for it, its boundary is none of ours, and what it did to the context is not
// judged. Runtimes compact by themselves only in this way.
func TestI5NativeStaysNative(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p := newPlayer(10_000)
		b := playing(t, p, func(c *threads.Config) { c.Providers[0].Adapter = nativeModel{agent.New(p)} })
		defer func() { b.close(); b.open() }()
		id := b.create()
		for range rapid.IntRange(1, 5).Draw(rt, "turns") {
			b.played(id, strings.Repeat("x", rapid.IntRange(10, 12_000).Draw(rt, "reported")))
			b.settle(id)
		}
		b.compact(threads.CompactParams{Thread: id})
		for _, x := range b.payloads(id) {
			u, ok := x.(threads.CompactionUpdated)
			if !ok || u.Record.Outcome == nil {
				continue
			}
			r := u.Record
			if *r.Outcome != compaction.Completed || *r.Route != compaction.RouteNative || r.Native == nil || r.Native.Form != "test-form" {
				rt.Fatalf("record %s", mustJSON(t, r))
			}
			if r.Checkpoint != nil || r.Writer != nil || r.After != nil || u.Boundary != nil || u.Prune != nil {
				rt.Fatalf("something was made up for a native compaction: %s", mustJSON(t, r))
			}
		}
		big, fired := 0, 0
		for _, u := range b.usages(id) {
			if u.Last.InputTokens >= 8_500 {
				big++
			}
		}
		for _, r := range b.records(id) {
			if r.Trigger.Automatic() {
				fired++
			}
		}
		if turns := len(b.usages(id)); fired > turns || big > 0 && fired == 0 {
			rt.Fatalf("%d reports over the line, %d compactions: %s", big, fired, outcomes(b.records(id)))
		}
	})
}
