package threads_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func blobHash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (b *bench) revert(id transcript.ThreadID, before transcript.TurnID) threads.Thread {
	b.t.Helper()
	r, err := b.svc.Revert(b.t.Context(), id, before)
	if err != nil {
		b.t.Fatal(err)
	}
	return r.Thread
}

func TestRevertRestoresTheContextOfBeforeAcrossBoundaries(t *testing.T) {
	b := newBench(t)
	id, all := b.moments()
	recs, err := b.svc.ListCompactions(t.Context(), id, threads.PageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	journaled := len(b.payloads(id))
	for i := len(all) - 1; i > 0; i-- {
		n := b.journal.count()
		after := b.revert(id, all[i].turn)
		if got := b.journal.count() - n; got != 1 {
			t.Fatalf("a revert took %d commits, want 1", got)
		}
		if diff := cmp.Diff(all[i-1].next, b.nextRequest(id)); diff != "" {
			t.Fatalf("after the revert before turn %d the next request differs:\n%s", i, clip(diff))
		}
		if i%4 == 0 {
			before := b.see(id)
			b.restart()
			if diff := cmp.Diff(before, b.see(id)); diff != "" {
				t.Fatalf("turn %d: different after a restart:\n%s", i, clip(diff))
			}
		}
		c, err := b.svc.ReadContext(t.Context(), id, nil)
		if err != nil || after.Turns != i || after.Occupancy.Source != transcript.Ruler || after.Occupancy.Context != c.Tokens {
			t.Fatalf("the thread is %+v, its context has %d tokens, %v", after, c.Tokens, err)
		}
	}
	kept, err := b.svc.ListCompactions(t.Context(), id, threads.PageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(recs, kept); diff != "" {
		t.Errorf("the records of compactions changed:\n%s", diff)
	}
	if len(b.payloads(id)) <= journaled {
		t.Error("a revert took events out of the journal")
	}
	b.turn(id, "onwards", big("o", 9000))
	b.compact(threads.CompactParams{Thread: id, Budget: 5000}) // opens an epoch with a number that was used before
	if e := b.read(id).Epoch; e != 1 {
		t.Errorf("epoch %d after a compaction on the reverted thread, want 1", e)
	}
}

func TestRevertedTurnsAreGoneFromWhatClientsAndModelsSee(t *testing.T) {
	b := newBench(t)
	id := b.create()
	b.turn(id, "keep this", "kept")
	second := b.turn(id, "forget this", "forgotten")
	b.turn(id, "and this", "gone")
	th := b.revert(id, second)
	if th.Turns != 1 || th.Items != 2 || th.Status != threads.StatusIdle {
		t.Errorf("the thread is %+v", th)
	}
	if _, err := b.svc.ReadTurn(t.Context(), id, second); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("a reverted turn: %v, want not found", err)
	}
	ack := b.start(id, "next")
	r := b.request()
	if diff := cmp.Diff([]string{"userMessage: keep this", "agentMessage: kept", "userMessage: next"}, r.texts()); diff != "" {
		t.Errorf("the next request:\n%s", diff)
	}
	r.answer(t, "ok")
	b.await(id, ended(ack.Turn.ID))
	page, err := b.svc.ListThreads(t.Context(), threads.PageQuery{})
	if err != nil || page.Threads[0].Turns != 2 || page.Threads[0].Items != 4 {
		t.Errorf("the listing says %+v, %v", page.Threads, err)
	}
}

func TestRevertOfTheFirstTurnLeavesAnEmptyThread(t *testing.T) {
	b := newBench(t)
	id := b.create()
	first := b.turn(id, "hello", "hi")
	th := b.revert(id, first)
	if th.Turns != 0 || th.Items != 0 || th.Preview != "" || th.Occupancy.Source != transcript.Ruler {
		t.Errorf("the thread is %+v", th)
	}
	page, err := b.svc.ListThreads(t.Context(), threads.PageQuery{})
	if err != nil || page.Threads[0].Preview != "" || page.Threads[0].Turns != 0 {
		t.Errorf("the listing says %+v, %v", page.Threads, err)
	}
	b.turn(id, "again", "hi again")
	if p := b.read(id).Preview; p != "again" {
		t.Errorf("preview %q", p)
	}
}

// A session may remember the turns that are gone: the next one is a new one.
func TestRevertLetsGoOfTheSession(t *testing.T) {
	var closed atomic.Int64
	b := newBench(t, twoProviders(newPuppet(), &closed))
	id := b.create()
	b.turn(id, "one", "1")
	b.revert(id, b.turn(id, "two", "2"))
	b.turn(id, "three", "3")
	b.close()
	if n := closed.Load(); n != 2 {
		t.Errorf("%d sessions were opened and closed, want 2", n)
	}
	b.open()
}

// write appends payloads to a thread behind the back of its service, as another
// program's history might have been imported.
func (b *bench) write(id transcript.ThreadID, ps ...threads.Payload) {
	b.t.Helper()
	b.close()
	info, err := b.journal.Info(context.Background(), string(id))
	if err != nil {
		b.t.Fatal(err)
	}
	a := events.Append{Thread: string(id), Expect: info.Head}
	for _, p := range ps {
		data, err := transcript.Encode(p)
		if err != nil {
			b.t.Fatal(err)
		}
		a.Events = append(a.Events, events.Event{Type: p.EventType(), Data: data})
	}
	if _, err := b.journal.Append(context.Background(), a); err != nil {
		b.t.Fatal(err)
	}
	b.open()
}

// Files of other programs interleave the items of their turns.
func TestRevertOfAnInterleavedHistory(t *testing.T) {
	at := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	turn := func(id transcript.TurnID) []threads.Payload {
		done := transcript.Turn{ID: id, Kind: transcript.TurnUser, Status: transcript.TurnCompleted, StartedAt: at, CompletedAt: at}
		begun := done
		begun.Status, begun.CompletedAt = transcript.TurnInProgress, time.Time{}
		return []threads.Payload{threads.TurnStarted{Turn: begun}, threads.TurnCompleted{Turn: done}}
	}
	say := func(id transcript.ItemID, turn transcript.TurnID, body transcript.Body) threads.Payload {
		return threads.ItemCompleted{Item: transcript.Item{ID: id, Turn: turn, StartedAt: at, CompletedAt: at, Body: body}}
	}
	user := func(text string) transcript.Body { return transcript.UserMessage{Content: transcript.TextParts(text)} }
	boundary := func(id transcript.CompactionID, turn transcript.TurnID, epoch, covered int, kept ...transcript.ItemID) threads.Payload {
		rec := goldenRecord(at)
		rec.CompactionID, rec.TurnID = id, turn
		b := &transcript.Boundary{Epoch: epoch, CompactionID: id, Covered: covered}
		for _, k := range kept {
			b.Kept = append(b.Kept, transcript.Kept{ItemID: k, Form: transcript.FormWhole})
		}
		return threads.CompactionUpdated{Record: rec, Boundary: b}
	}
	b := newBench(t)
	id := b.create()
	ps := slices.Concat(turn("A"), turn("B"), turn("C"), []threads.Payload{
		say("a1", "A", user("a1")),
		say("call", "A", transcript.ToolCall{CallID: "c", Name: "look", Arguments: []byte(`{}`)}),
		say("b1", "B", user("b1")),
		say("result", "B", transcript.ToolResult{CallID: "c", Output: transcript.TextParts("seen")}),
		say("a2", "A", user("a2")),
		boundary("k1", "A", 1, 5, "b1", "a2"), // covers an item of B
		boundary("k2", "C", 2, 5, "a2"),       // of a turn without items
		say("none", "", transcript.Opaque{Origin: "x", Raw: []byte(`{}`)}),
	})
	b.write(id, ps...)
	read := func() string {
		t.Helper()
		c, err := b.svc.ReadContext(t.Context(), id, nil)
		if err != nil {
			t.Fatal(err)
		}
		out := []string{fmt.Sprint("epoch ", c.Epoch)}
		for _, e := range c.Entries {
			out = append(out, string(e.Item.Turn)+":"+string(e.Item.ID))
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct {
		before transcript.TurnID
		want   string
	}{
		{"", "epoch 2 A:a2 :none"},
		{"C", "epoch 1 B:b1 A:a2 :none"},
		{"B", "epoch 0 A:a1 A:call A:result A:a2"}, // the result stays with its call
		{"A", "epoch 0"},
	} {
		if c.before != "" {
			b.revert(id, c.before)
		}
		if got := read(); got != c.want {
			t.Errorf("reverted to before %q: %s, want %s", c.before, got, c.want)
		}
		before := b.see(id)
		b.restart()
		if diff := cmp.Diff(before, b.see(id)); diff != "" {
			t.Errorf("before %q: different after a restart:\n%s", c.before, diff)
		}
	}
}

func TestRevertClearsAFailure(t *testing.T) {
	b := newBench(t)
	id := b.create()
	ack := b.start(id, "go")
	b.request().fail <- errScripted
	b.await(id, ended(ack.Turn.ID))
	if th := b.revert(id, ack.Turn.ID); th.Status != threads.StatusIdle {
		t.Errorf("status %s after the failed turn is gone", th.Status)
	}
}

// wrapped is an adapter whose sessions are wrapped.
type wrapped struct {
	adapters.Adapter
	wrap func(adapters.Session) adapters.Session
}

func (w wrapped) Open(ctx context.Context, p adapters.OpenParams) (adapters.Session, error) {
	s, err := w.Adapter.Open(ctx, p)
	if err != nil {
		return nil, err
	}
	return w.wrap(s), nil
}

// planner reports a plan in each of its turns.
type planner struct{ adapters.Session }

func (p planner) Run(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
	text := transcript.PartsText(in.Input)
	if text != "no plan" {
		for _, step := range []string{"first " + text, "then " + text} {
			if err := h.Emit(ctx, adapters.PlanUpdated{Plan: transcript.Plan{Steps: []transcript.PlanStep{{Step: step, Status: "pending"}}}}); err != nil {
				return adapters.End{}, err
			}
		}
	}
	return p.Session.Run(ctx, in, h)
}

func TestRevertRestoresThePlan(t *testing.T) {
	b := newBench(t, func(c *threads.Config) {
		inner := c.Providers[0].Adapter
		c.Providers[0].Adapter = wrapped{inner, func(s adapters.Session) adapters.Session { return planner{s} }}
	})
	id := b.create()
	b.turn(id, "a", big("x", 3000))
	second := b.turn(id, "b", big("y", 3000))
	third := b.turn(id, "no plan", big("z", 3000))
	for _, c := range []struct {
		revert transcript.TurnID
		want   string
	}{{third, "then b"}, {second, "then a"}} {
		b.revert(id, c.revert)
		b.restart()
		b.turn(id, "no plan", big(c.want, 4000))
		rec := b.compact(threads.CompactParams{Thread: id, Budget: 2500})
		ctx, err := b.svc.ReadContext(t.Context(), id, nil)
		if err != nil || !strings.Contains(ctx.Reanchor, c.want) {
			t.Errorf("outcome %s: the re-anchor after the revert lacks the plan %q: %s, %v", *rec.Outcome, c.want, ctx.Reanchor, err)
		}
	}
}

func TestBadRevertsChangeNothing(t *testing.T) {
	b := newBench(t)
	id := b.create()
	first := b.turn(id, "one", "1")
	_, err := b.svc.Revert(t.Context(), id, "x")
	if fault.CodeOf(err) != fault.NotFound || fault.MessageOf(err) != "turn not found: x" {
		t.Errorf("an unknown turn: %v", err)
	}
	ack := b.start(id, "two")
	r := b.request()
	n := len(b.payloads(id))
	for _, turn := range []transcript.TurnID{first, ack.Turn.ID} {
		if _, err := b.svc.Revert(t.Context(), id, turn); fault.CodeOf(err) != fault.Busy {
			t.Errorf("during a turn: %v, want busy", err)
		}
	}
	if len(b.payloads(id)) != n {
		t.Error("a refused revert wrote something")
	}
	r.answer(t, "2")
	b.await(id, ended(ack.Turn.ID))
}

// A revert and an input that race: one of them is first, and the journal tells
// which; nothing is half done.
func TestRevertAndTurnStartRace(t *testing.T) {
	b := newBench(t)
	id := b.create()
	keep := b.turn(id, "keep", "kept")
	for i := range 20 {
		doomed := b.turn(id, fmt.Sprint("doomed ", i), "x")
		var wg sync.WaitGroup
		var ack threads.TurnAck
		var revertErr, startErr error
		wg.Go(func() { _, revertErr = b.svc.Revert(t.Context(), id, doomed) })
		wg.Go(func() {
			ack, startErr = b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("racing")})
		})
		wg.Wait()
		if startErr != nil || revertErr != nil && fault.CodeOf(revertErr) != fault.Busy {
			t.Fatalf("start %v, revert %v", startErr, revertErr)
		}
		r := b.request()
		read := strings.Join(r.texts(), "\n")
		if reverted := revertErr == nil; strings.Contains(read, fmt.Sprint("doomed ", i)) == reverted {
			t.Fatalf("reverted: %v, and the model reads\n%s", reverted, read)
		}
		r.answer(t, "ok")
		b.await(id, ended(ack.Turn.ID))
		turns, err := b.svc.ListTurns(t.Context(), id, threads.TurnQuery{})
		if err != nil || turns.Turns[0].ID != keep {
			t.Fatalf("turns %+v, %v", turns.Turns, err)
		}
		b.revert(id, turns.Turns[1].ID)
	}
}
