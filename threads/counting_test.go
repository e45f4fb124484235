package threads_test

import (
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func twoModels() *player {
	p := newPlayer(0)
	p.infos = []adapters.ModelInfo{{ID: "small", ContextWindow: 50_000, MaxOutput: 1000}, {ID: "large", ContextWindow: 200_000, MaxOutput: 1000}}
	return p
}

// The window that an error names is that of the model which was asked, also if the
// thread's next turn is to ask another one.
func TestAWindowIsLearnedOfTheModelThatWasAsked(t *testing.T) {
	p := twoModels()
	var b *bench
	var id transcript.ThreadID
	asked, switched := make(chan struct{}), make(chan struct{})
	n := 0
	p.play = func(p *player, req adapters.Request) played {
		if n++; n == 1 {
			close(asked)
			<-switched
			return played{err: errOverflow} // of "small": the window has 20,000
		}
		return played{text: "ok"}
	}
	b = playing(t, p)
	id = b.create()
	ack := b.start(id, "go")
	<-asked
	if _, err := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Model: new("large")}); err != nil {
		t.Fatal(err)
	}
	close(switched)
	b.await(id, ended(ack.Turn.ID))
	b.settle(id)
	for _, pl := range b.payloads(id) {
		if c, ok := pl.(threads.CompactionUpdated); ok && c.Learned != nil && c.Learned.Model != "small" {
			t.Errorf("learned of %q: %+v", c.Learned.Model, *c.Learned)
		}
	}
	if read, err := b.svc.ReadThread(t.Context(), id); err != nil || read.Thread.Occupancy.Window != 200_000 {
		t.Errorf("the window of the large model is %d (%v)", read.Thread.Occupancy.Window, err)
	}
}

// A writer is called what it is.
func TestAWriterIsNamedAsTheModelThatWrites(t *testing.T) {
	p := twoModels()
	asked, switched := make(chan struct{}), make(chan struct{})
	n := 0
	p.play = func(p *player, req adapters.Request) played {
		if req.Writer {
			if req.Model != "small" {
				panic("the session is that of the turn")
			}
			return played{text: "no", usage: &adapters.Usage{InputTokens: 10, OutputTokens: 1}} // rejected
		}
		if n++; n == 9 {
			close(asked)
			<-switched
			return played{calls: []transcript.ToolCall{call("c1", "look")}}
		}
		return played{text: big("a", 4_000)}
	}
	b := playing(t, p, withTool("seen"), never)
	id := b.create()
	for range 8 {
		b.played(id, "go on")
	}
	ack := b.start(id, "go")
	<-asked
	if _, err := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Model: new("large")}); err != nil {
		t.Fatal(err)
	}
	b.ask(threads.CompactParams{Thread: id, Route: compaction.RouteLocal})
	close(switched)
	b.await(id, ended(ack.Turn.ID))
	b.settle(id)
	rec := b.records(id)[0]
	text := mustJSON(t, rec)
	if strings.Contains(text, "player/large") {
		t.Errorf("the record names another model:\n%v\n%v", rec.Skipped, rec.Warnings)
	}
}

// A pasted message of 40 % of the window, in a thread that is 10 % full, is half a
// window: nothing is due.
func TestAUserMessageIsCountedOnce(t *testing.T) {
	p := newPlayer(40_000)
	p.play = func(*player, adapters.Request) played { return played{text: "fine"} }
	b := playing(t, p, func(c *threads.Config) { c.Policy.NoPostTurn = true })
	id := b.create()
	b.played(id, big("first", 4_000))
	b.settle(id)
	for range 6 {
		b.played(id, "short")
	}
	b.played(id, big("paste", 15_000))
	b.settle(id)
	b.wantOutcomes(id, "")
}

// A fork knows as much as its source of how large the next request is.
func TestAForkIsAsFullAsItsSource(t *testing.T) {
	p := newPlayer(40_000)
	n := 0
	hung := make(chan struct{}, 9)
	p.play = func(*player, adapters.Request) played {
		n++
		switch n {
		case 1:
			return played{text: big("a", 2_000)}
		case 2:
			return played{calls: []transcript.ToolCall{call("c1", "look")}}
		case 3:
			hung <- struct{}{}
			return played{hang: true}
		}
		return played{text: "ok"}
	}
	b := playing(t, p, withTool(big("seen", 26_000)), func(c *threads.Config) { c.Policy.NoPostTurn = true })
	id := b.create()
	b.played(id, "one")
	ack := b.start(id, "look")
	<-hung
	if err := b.svc.InterruptTurn(t.Context(), id, ack.Turn.ID); err != nil {
		t.Fatal(err)
	}
	b.await(id, ended(ack.Turn.ID))
	b.settle(id)
	f := b.fork(threads.ForkParams{Thread: id})
	b.start(id, big("more", 14_000))
	b.settle(id)
	source := outcomes(b.records(id))
	b.start(f.ID, big("more", 14_000))
	b.settle(f.ID)
	if got := outcomes(b.records(f.ID)); got != source {
		t.Errorf("the source: %q, its fork: %q", source, got)
	}
}

// Only requests that were made cost something of a task's budget.
func TestARequestThatWasNeverMadeCostsNothing(t *testing.T) {
	b := newBench(t)
	id := b.create()
	b.album(id, 12, 100_000)
	b.puppet.maxBytes = 1_000_000
	before := len(b.payloads(id))
	ack, err := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("what changed?"), MaxTotalTokens: 16_000})
	if err != nil {
		t.Fatal(err)
	}
	r := b.request()
	used := r.usage("Much.").InputTokens + r.usage("Much.").OutputTokens
	r.answer(t, "Much.")
	done := b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted).Turn
	counted := 0
	for _, p := range b.payloads(id)[before:] {
		if u, ok := p.(threads.UsageUpdated); ok && u.Model != "" {
			counted++
		}
	}
	if counted != 1 {
		t.Errorf("one request of %d tokens was made, and %d were counted; the turn ended %s %+v", used, counted, done.Status, done.Error)
	}
}
