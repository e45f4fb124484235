package threads_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// writing is a player with enough history to compact, whose writer plays as write
// says.
func writing(write func(adapters.Request) played) *player {
	p := newPlayer(100_000)
	p.unfit = nil
	p.play = func(_ *player, req adapters.Request) played {
		if req.Writer {
			return write(req)
		}
		return played{text: big("answer", 4_000)}
	}
	return p
}

func (b *bench) ladenBy() transcript.ThreadID {
	b.t.Helper()
	id := b.create()
	for range 8 {
		b.played(id, "Keep port 4711 free")
	}
	return id
}

// notes is an answer that a writer's verification can accept or mend.
func notes() played {
	return played{
		text: "## Goal\n- Keep port 4711 free.\n\n## Done\n- The piers were listed, line by line, with what each says.\n\n## Next\n- Go on with the next pier.\n" +
			strings.Repeat("- The agent said something about pier 7 and kept port 4711 free.\n", 8),
		usage: &adapters.Usage{InputTokens: 30_000, CachedInputTokens: 10_000, OutputTokens: 500},
	}
}

// P124, P091: what a writer costs is in the record and in the totals, never in the
// occupancy.
func TestAWritersTokensAreCountedButNotAsOccupancy(t *testing.T) {
	p := writing(func(adapters.Request) played { return notes() })
	p.infos[0].Price = &adapters.Price{Input: 2, CachedInput: 1, Output: 10}
	b := playing(t, p)
	id := b.ladenBy()
	usages := b.usages(id)
	before := usages[len(usages)-1].Total
	rec := b.compact(threads.CompactParams{Thread: id})
	if *rec.Outcome != compaction.Completed || rec.Usage == nil || rec.Usage.Requests < 1 {
		t.Fatalf("record %s", mustJSON(t, rec))
	}
	usages = b.usages(id)
	after := usages[len(usages)-1]
	if in, out := after.Total.InputTokens-before.InputTokens, after.Total.OutputTokens-before.OutputTokens; in != rec.Usage.InputTokens || out != rec.Usage.OutputTokens || in < 30_000 {
		t.Errorf("the total grew by %d and %d; the record says %+v", in, out, *rec.Usage)
	}
	if after.Context != rec.After.Tokens || after.Last != (adapters.Usage{}) {
		t.Errorf("after the boundary the report is %+v, the record says %d", after, rec.After.Tokens)
	}
	per := (20_000*2.0 + 10_000*1 + 500*10) / 1e6
	if rec.Usage.CostUSD == nil || *rec.Usage.CostUSD < per*0.99 || *rec.Usage.CostUSD > per*1.01*float64(rec.Usage.Requests) {
		t.Errorf("the cost is %v, want about %v a request", rec.Usage.CostUSD, per)
	}
	_, writers := p.requests()
	for _, r := range writers {
		if len(r.Base.Tools) > 0 {
			t.Error("a writer was offered tools")
		}
	}
	turns, _ := p.requests()
	for _, r := range turns { // P011
		if strings.Contains(strings.Join((&request{Request: r}).texts(), "\n")+r.Base.System, transcript.WriterMark) {
			t.Error("the prompt of a writer reached a turn's request")
		}
	}
}

// P100, P106: a writer that never answers ends in time, and the next link writes.
func TestAWriterThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := writing(func(adapters.Request) played { return played{hang: true} })
		b := playing(t, p)
		id := b.ladenBy()
		began := time.Now()
		ack, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id, Wait: true})
		if err != nil {
			t.Fatal(err)
		}
		rec, took := ack.Record, time.Since(began)
		if *rec.Outcome != compaction.Completed || *rec.Writer != compaction.WriterExtractive {
			t.Errorf("record %s", mustJSON(t, rec))
		}
		found := false
		for _, s := range rec.Skipped {
			found = found || s.Link == "checkpoint(model)" && s.Code == "timeout"
		}
		if !found || took < 120*time.Second || took > 300*time.Second {
			t.Errorf("after %s skipped is %+v", took, rec.Skipped)
		}
	})
}

// P099: an interrupt ends a compaction whose writer hangs at once.
func TestAnInterruptEndsAHangingWriter(t *testing.T) {
	p := writing(func(adapters.Request) played { return played{hang: true} })
	b := playing(t, p)
	id := b.ladenBy()
	ack, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	b.await(id, func(x threads.Payload) bool {
		u, ok := x.(threads.CompactionUpdated)
		return ok && u.Record.Phase == compaction.PhaseRunning
	})
	began := time.Now()
	if err := b.svc.InterruptTurn(t.Context(), id, ack.Record.TurnID); err != nil {
		t.Fatal(err)
	}
	b.await(id, ended(ack.Record.TurnID))
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %s", took)
	}
	b.wantOutcomes(id, "manual interrupted")
}

// P134: the configured model writes; if it fails, the thread's own does.
func TestTheConfiguredModelWritesAndTheThreadsOwnTakesOver(t *testing.T) {
	for _, fails := range []bool{false, true} {
		cheap := newPlayer(100_000)
		cheap.unfit = nil
		cheap.play = func(*player, adapters.Request) played {
			if fails {
				return played{err: &adapters.Error{Class: adapters.ClassDenied, Message: "no such key"}}
			}
			return notes()
		}
		own := writing(func(adapters.Request) played { return notes() })
		b := playing(t, own, func(c *threads.Config) {
			c.Providers = append(c.Providers, threads.Provider{Name: "cheap", Kind: "player", Adapter: agent.New(cheap)})
			c.Writer = threads.WriterConfig{Provider: "cheap", Model: "m"}
		})
		id := b.ladenBy()
		rec := b.compact(threads.CompactParams{Thread: id})
		_, others := cheap.requests()
		_, owns := own.requests()
		if *rec.Outcome != compaction.Completed || len(others) == 0 || fails != (len(owns) > 0) {
			t.Errorf("fails %v: %d requests to the configured model, %d to the thread's own; record %s", fails, len(others), len(owns), mustJSON(t, rec))
		}
	}
}

// A hooked is what hooks were told, and what they say.
type hooked struct {
	deny   error
	text   string
	before atomic.Pointer[threads.HookEvent]
	after  chan threads.HookEvent
}

func (h *hooked) PreCompact(_ context.Context, e threads.HookEvent) (string, []string, error) {
	h.before.Store(&e)
	return h.text, []string{"a pre hook grumbled"}, h.deny
}

func (h *hooked) PostCompact(_ context.Context, e threads.HookEvent) []string {
	h.after <- e
	return []string{"a post hook failed"}
}

func TestHooksAreAskedBeforeAndToldAfter(t *testing.T) {
	h := &hooked{text: "KEEP-THE-PIERS", after: make(chan threads.HookEvent, 1)}
	p := writing(func(adapters.Request) played { return notes() })
	b := playing(t, p, func(c *threads.Config) { c.Hooks = h })
	id := b.ladenBy()
	rec := b.compact(threads.CompactParams{Thread: id, Instructions: "USER-WISH"})
	if e := h.before.Load(); e == nil || e.Thread != id || e.Instructions != "USER-WISH" || e.Record.CompactionID != rec.CompactionID {
		t.Errorf("the pre hook was told %+v", e)
	}
	_, writers := p.requests()
	if text := writers[0].Base.System + strings.Join((&request{Request: writers[0]}).texts(), "\n"); !strings.Contains(text, "KEEP-THE-PIERS") || !strings.Contains(text, "USER-WISH") {
		t.Error("the writer was not told what the hook and the user want")
	}
	if e := <-h.after; e.Record.Outcome == nil || *e.Record.Outcome != compaction.Completed {
		t.Errorf("the post hook was told %+v", e)
	}
	last := b.await(id, func(x threads.Payload) bool {
		u, ok := x.(threads.CompactionUpdated)
		return ok && len(u.Record.Warnings) > 1
	}).(threads.CompactionUpdated)
	if got := strings.Join(last.Record.Warnings, "; "); !strings.Contains(got, "a pre hook grumbled") || !strings.Contains(got, "a post hook failed") || *last.Record.Outcome != compaction.Completed {
		t.Errorf("the record ends as %s", mustJSON(t, last.Record))
	}
	if read, err := b.svc.ReadThread(t.Context(), id); err != nil || read.Thread.Epoch != 1 {
		t.Errorf("the thread is at epoch %d, %v", read.Thread.Epoch, err)
	}
}

func TestAHookThatDeniesKeepsAnAutomaticCompactionAway(t *testing.T) {
	h := &hooked{deny: fault.New(fault.Denied, "not now"), after: make(chan threads.HookEvent, 1)}
	b := playing(t, newPlayer(20_000).answering(big("a", 18_000), "short"), func(c *threads.Config) { c.Hooks = h })
	id := b.create()
	b.played(id, "go")
	b.settle(id)
	for range 3 {
		if turn := b.played(id, "next"); turn.Status != transcript.TurnCompleted {
			t.Errorf("the turn is %s", mustJSON(t, turn))
		}
	}
	b.wantOutcomes(id, "postTurn denied(denied)")
	if n := strings.Count(b.log(id), "error denied"); n != 1 {
		t.Errorf("the denial was told %d times, want once", n)
	}
}

// P020: a compaction that fails does not keep the turn from running, and is not
// repeated as it was.
func TestAFailedCompactionDoesNotBlockTheThread(t *testing.T) {
	h := &hooked{deny: errors.New("the hook broke"), after: make(chan threads.HookEvent, 1)}
	b := playing(t, newPlayer(20_000).answering(big("a", 18_000), "short"), func(c *threads.Config) { c.Hooks = h })
	id := b.create()
	b.played(id, "go")
	b.settle(id)
	for range 4 {
		if turn := b.played(id, "next"); turn.Status != transcript.TurnCompleted {
			t.Fatalf("the turn is %s", mustJSON(t, turn))
		}
		b.settle(id)
	}
	if recs := b.records(id); len(recs) != 1 || *recs[0].Outcome != compaction.Failed {
		t.Errorf("compactions: %s", outcomes(recs))
	}
	b.restart() // the gate survives
	b.played(id, "after the restart")
	b.settle(id)
	if recs := b.records(id); len(recs) != 1 {
		t.Errorf("after a restart: %s", outcomes(recs))
	}
}
