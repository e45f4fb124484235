package threads_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// P014, P016: at the limit "no gain" is no end. One result that is larger than the
// window is shortened, with its call, and the turn goes on.
func TestOneResultLargerThanTheWindowDoesNotEndTheTurn(t *testing.T) {
	p := newPlayer(10_000)
	n := 0
	p.play = func(_ *player, req adapters.Request) played {
		if in := (&request{Request: req}).usage("").InputTokens; in > 10_000 {
			return played{err: &adapters.Error{Class: adapters.ClassOverflow, Message: "too long"}} // it names no numbers
		}
		if n++; n == 1 {
			return played{calls: []transcript.ToolCall{call("c1", "look")}}
		}
		return played{text: "done"}
	}
	b := playing(t, p, withTool(big("seen", 12_000)))
	id := b.create()
	turn := b.played(id, "LOOK-AT-IT")
	if turn.Status != transcript.TurnCompleted {
		t.Fatalf("the turn is %s\n%s\n%s", mustJSON(t, turn), outcomes(b.records(id)), mustJSON(t, b.records(id)))
	}
	turns, writers := p.requests()
	last := (&request{Request: turns[len(turns)-1]})
	texts := strings.Join(last.texts(), "\n")
	if !strings.Contains(texts, "LOOK-AT-IT") || !strings.Contains(texts, "toolCall") || !strings.Contains(texts, "toolResult") || len(writers) != 0 || len(turns) > 4 {
		t.Errorf("%d requests, %d to a writer; the last one holds %s", len(turns), len(writers), clip(texts))
	}
}

// P105, P106: a compaction that is asked for while another one saves a turn is that
// one; its writer is asked once, the turn goes on, and its clients hear it.
func TestAManualCompactionDuringARecoveryIsTheSameOne(t *testing.T) {
	asked, free := make(chan struct{}), make(chan struct{})
	p := newPlayer(100_000)
	p.unfit = nil
	var once sync.Once
	answers, refused := 0, false
	p.play = func(_ *player, req adapters.Request) played {
		switch {
		case req.Writer:
			once.Do(func() { close(asked) })
			<-free
			return notes()
		case answers >= 8 && !refused:
			refused = true
			return played{err: errOverflow}
		}
		answers++
		return played{text: big("answer", 4_000)}
	}
	b := playing(t, p)
	id := b.create()
	for range 8 {
		b.played(id, "Keep port 4711 free")
	}
	ack := b.start(id, "go on")
	<-asked
	comp, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil || comp.Record.Trigger != compaction.TriggerOverflow {
		t.Fatalf("%+v, %v, want the compaction that runs", comp.Record, err)
	}
	queued := b.start(id, "AFTER") // P107: it waits
	close(free)
	if done := b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted); done.Turn.Status != transcript.TurnCompleted {
		t.Errorf("the turn is %s", mustJSON(t, done.Turn))
	}
	b.await(id, ended(queued.Turn.ID))
	b.settle(id)
	recs := b.records(id)
	if recs[0].CompactionID != comp.Record.CompactionID || *recs[0].Outcome != compaction.Completed {
		t.Errorf("compactions: %s", outcomes(recs))
	}
	asks := 0
	for _, r := range recs {
		if r.Trigger == compaction.TriggerManual {
			t.Errorf("a second compaction ran: %s", outcomes(recs))
		}
		if r.Usage != nil {
			asks += r.Usage.Requests
		}
	}
	if _, writers := p.requests(); len(writers) != asks {
		t.Errorf("%d requests to the writer, the records say %d", len(writers), asks)
	}
}

// A manual compaction that still waits for a step boundary is what an overflow needs:
// no second one starts.
func TestAnOverflowTakesUpACompactionThatWaits(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	ack := b.start(id, "go on")
	r := b.request()
	comp, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	r.fail <- errOverflow
	b.request().answer(t, "ok")
	b.await(id, ended(ack.Turn.ID))
	recs := b.records(id)
	if len(recs) != 1 || recs[0].CompactionID != comp.Record.CompactionID || *recs[0].Outcome != compaction.Completed || recs[0].TurnID != ack.Turn.ID {
		t.Errorf("compactions: %s", mustJSON(t, recs))
	}
}

// P017: after a switch to a smaller window no request to a writer is larger than that
// window has room for.
func TestAWriterWithASmallWindowGetsSmallRequests(t *testing.T) {
	p := newPlayer(400_000)
	p.infos = append(p.infos, adapters.ModelInfo{ID: "small", ContextWindow: 24_000, MaxOutput: 1000})
	p.unfit = nil
	p.play = func(_ *player, req adapters.Request) played {
		if req.Writer {
			return notes()
		}
		return played{text: big("answer", 6_000)}
	}
	b := playing(t, p)
	id := b.create()
	for range 10 {
		b.played(id, "Keep port 4711 free")
	}
	if _, err := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Model: new("small")}); err != nil {
		t.Fatal(err)
	}
	b.played(id, "go on")
	b.settle(id)
	if recs := b.records(id); len(recs) == 0 || recs[0].Trigger != compaction.TriggerWindow || *recs[0].Outcome != compaction.Completed {
		t.Errorf("compactions: %s", outcomes(recs))
	}
	_, writers := p.requests()
	for i, w := range writers {
		if n := (&request{Request: w}).usage("").InputTokens; n > 24_000*6/10 {
			t.Errorf("writer request %d has %d tokens", i, n)
		}
	}
	if len(writers) == 0 {
		t.Error("no writer was asked")
	}
}

// A runtime that cannot compact by itself is never compacted automatically: what the
// server knows of its history is not what it works with.
func TestARuntimeThatRefusesIsLeftAlone(t *testing.T) {
	p := newPlayer(10_000)
	b := playing(t, p, func(c *threads.Config) { c.Providers[0].Adapter = refusingModel{nativeModel{agent.New(p)}} })
	id := b.create()
	for range 4 {
		b.played(id, strings.Repeat("x", 9_500))
		b.settle(id)
	}
	b.wantOutcomes(id, "")
}

type refusingModel struct{ nativeModel }

func (r refusingModel) Open(ctx context.Context, p adapters.OpenParams) (adapters.Session, error) {
	s, err := r.nativeModel.Open(ctx, p)
	return refusingSession{s}, err
}

type refusingSession struct{ adapters.Session }

func (refusingSession) Compaction() adapters.Ability {
	return adapters.Ability{Refusal: &adapters.Refusal{Code: "nativeUnsupported", Reason: "no", Remedy: "none"}}
}

// countingModel can tell the size of a request.
type countingModel struct {
	adapters.Adapter
	tokens int
}

func (c countingModel) Open(ctx context.Context, p adapters.OpenParams) (adapters.Session, error) {
	s, err := c.Adapter.Open(ctx, p)
	return countingSession{s, c.tokens}, err
}

type countingSession struct {
	adapters.Session
	tokens int
}

func (c countingSession) Count(context.Context, adapters.Context) (int, bool, error) {
	return c.tokens, true, nil
}

func TestAProviderThatCanCountIsAskedBeforeACompaction(t *testing.T) {
	p := newPlayer(200_000).answering(big("answer", 6_000))
	b := playing(t, p, func(c *threads.Config) { c.Providers[0].Adapter = countingModel{c.Providers[0].Adapter, 100_000} })
	id := b.create()
	for range 8 {
		b.played(id, "Keep port 4711 free")
	}
	rec := b.compact(threads.CompactParams{Thread: id})
	if *rec.Outcome != compaction.Completed || rec.Ruler != compaction.RulerMeter || rec.Before.Tokens < 99_000 || rec.Before.Tokens > 101_000 {
		t.Errorf("record %s", mustJSON(t, rec))
	}
}

// A prune that is enough is no new epoch, and nobody is asked to write.
func TestAnAutomaticCompactionMayEndWithAPrune(t *testing.T) {
	p := newPlayer(100_000)
	p.unfit = nil
	n := 0
	p.play = func(_ *player, req adapters.Request) played {
		if req.Writer {
			return notes()
		}
		if n++; n%2 == 1 {
			return played{calls: []transcript.ToolCall{call("c"+strings.Repeat("x", n), "look")}}
		}
		return played{text: "done"}
	}
	b := playing(t, p, withTool(big("seen", 3_000)))
	id := b.create()
	for range 30 {
		b.played(id, "look at it")
	}
	b.settle(id)
	recs := b.records(id)
	i := slices.IndexFunc(recs, func(r compaction.Record) bool { return *r.Outcome == compaction.Completed && r.Checkpoint == nil })
	if i < 0 {
		t.Fatalf("no compaction ended with a prune: %s", mustJSON(t, recs))
	}
	r := recs[i]
	if r.Writer != nil || len(r.PrunedItemIDs) == 0 || r.Usage != nil || r.After.Tokens >= r.Before.Tokens {
		t.Errorf("record %s", mustJSON(t, r))
	}
	context := func() string { return mustJSON(t, must(b.svc.ReadContext(t.Context(), id, nil)).Entries) }
	was := context()
	b.restart()
	if context() != was {
		t.Error("after a restart the pruned context is another one")
	}
	turn := b.played(id, "one more")
	b.settle(id)
	if _, err := b.svc.Revert(t.Context(), id, turn.ID); err != nil {
		t.Fatal(err)
	}
	if context() != was {
		t.Error("after a revert to behind the prune the context is not the pruned one")
	}
	if _, err := b.svc.Revert(t.Context(), id, r.TurnID); err != nil {
		t.Fatal(err)
	}
	for _, e := range must(b.svc.ReadContext(t.Context(), id, nil)).Entries {
		if e.Form != transcript.FormWhole {
			t.Errorf("after a revert to before the prune item %s is %s", e.Item.ID, e.Form)
		}
	}
}
