package threads_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// entries is the context of a thread.
func (b *bench) entries(id transcript.ThreadID) []transcript.Entry {
	b.t.Helper()
	c, err := b.svc.ReadContext(b.t.Context(), id, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return c.Entries
}

func (b *bench) undo(id transcript.ThreadID, c transcript.CompactionID) threads.UndoAck {
	b.t.Helper()
	ack, err := b.svc.UndoCompaction(b.t.Context(), threads.UndoParams{Thread: id, Compaction: c})
	if err != nil {
		b.t.Fatal(err)
	}
	return ack
}

// moved exports a thread and imports it again.
func (b *bench) moved(id transcript.ThreadID) transcript.ThreadID {
	b.t.Helper()
	var file bytes.Buffer
	if err := b.svc.Export(b.t.Context(), id, &file); err != nil {
		b.t.Fatal(err)
	}
	r, err := b.svc.Import(b.t.Context(), &file, threads.ImportParams{})
	if err != nil {
		b.t.Fatal(err)
	}
	return r.Thread.ID
}

// rows is the journal of a thread up to a position, hashed.
func (b *bench) rows(id transcript.ThreadID, upTo int) string {
	b.t.Helper()
	evs, err := b.journal.Read(b.t.Context(), string(id), 0, upTo)
	if err != nil {
		b.t.Fatal(err)
	}
	h := sha256.New()
	for _, e := range evs {
		h.Write(fmt.Appendf(nil, "%d %s %s %s\n", e.Seq, e.Type, e.At, e.Data))
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// A level is the context that a thread would have without one of its compactions.
type level struct {
	id      transcript.CompactionID
	entries []transcript.Entry
}

// After an undo the context is byte for byte what it would be if the compaction had
// never been (I8): also of a compaction below it, after a restart, in a fork and in
// an import.
func TestAnUndoneCompactionHasNeverBeen(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		id := b.create()
		var levels []level
		turns := 0
		say := func(tokens int) {
			before := len(b.entries(id))
			turns++
			b.turn(id, big(fmt.Sprint("question", turns), tokens), big(fmt.Sprint("answer", turns), tokens))
			for _, e := range b.entries(id)[before:] {
				if n, ok := e.Item.Body.(transcript.Notice); ok && n.Source == "reanchor" {
					continue
				}
				for i := range levels {
					levels[i].entries = append(levels[i].entries, e)
				}
			}
		}
		say(1500)
		for range rapid.IntRange(4, 14).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"turn", "turn", "compact", "compact", "undo", "restart", "fork", "move"}).Draw(rt, "step") {
			case "turn":
				say(rapid.IntRange(10, 2500).Draw(rt, "size"))
			case "compact":
				was, head := b.entries(id), len(b.payloads(id))
				rows := b.rows(id, head)
				rec := b.shrink(id, threads.CompactParams{Budget: rapid.IntRange(1500, 5000).Draw(rt, "budget")})
				if *rec.Outcome == compaction.Completed {
					levels = append(levels, level{rec.CompactionID, was})
				}
				if b.rows(id, head) != rows {
					rt.Fatal("the compaction changed the journal")
				}
			case "restart":
				b.restart()
			case "fork":
				f, err := b.svc.Fork(t.Context(), threads.ForkParams{Thread: id})
				if err != nil {
					rt.Fatal(err)
				}
				id = f.Thread.ID
			case "move":
				id = b.moved(id)
			case "undo":
				if len(levels) == 0 {
					continue
				}
				top := levels[len(levels)-1]
				levels = levels[:len(levels)-1]
				head := len(b.payloads(id))
				rows := b.rows(id, head)
				b.undo(id, top.id)
				if b.rows(id, head) != rows {
					rt.Fatal("the undo changed the journal")
				}
				if got, want := mustJSON(t, b.entries(id)), mustJSON(t, top.entries); got != want {
					rt.Fatalf("after the undo the context is not what it would have been:\n%s\nwant\n%s", got, want)
				}
			}
		}
		for len(levels) > 0 {
			top := levels[len(levels)-1]
			levels = levels[:len(levels)-1]
			b.undo(id, top.id)
			b.restart()
			if mustJSON(t, b.entries(id)) != mustJSON(t, top.entries) {
				rt.Fatal("after the last undos the context is not what it would have been")
			}
		}
		b.close()
		b.open()
	})
}

func TestUndoIsOneCommitAndTellsTheSize(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	before, err := b.svc.ReadContext(t.Context(), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	rec := b.shrink(id, threads.CompactParams{})
	n, commits := len(b.payloads(id)), b.journal.count()
	ack := b.undo(id, rec.CompactionID)
	if got := b.journal.count() - commits; got != 1 {
		t.Errorf("%d commits", got)
	}
	if got := tail(describe(b.payloads(id)), n); got != "thread/compaction/undone\nthread/tokenUsage/updated" {
		t.Errorf("events:\n%s", got)
	}
	if ack.Epoch != 2 || ack.CompactionID != rec.CompactionID || ack.Context*10 < before.Tokens*9 || ack.Context*10 > before.Tokens*11 || ack.AsOf.N != int64(n+2) {
		t.Errorf("got %+v; before there were %d tokens", ack, before.Tokens)
	}
	if r, err := b.svc.ReadThread(t.Context(), id); err != nil || r.Thread.Epoch != 2 {
		t.Errorf("the thread is %+v, %v", r.Thread, err)
	}
	page, err := b.svc.ListThreads(t.Context(), threads.PageQuery{})
	if err != nil || page.Threads[0].Epoch != 2 {
		t.Errorf("the listing is %+v, %v", page, err)
	}
	start := b.start(id, "go on")
	r := b.request()
	for _, text := range r.texts() {
		if strings.HasPrefix(text, "checkpoint") || strings.HasPrefix(text, "notice") {
			t.Errorf("the next request holds %.100s", text)
		}
	}
	r.answer(t, "yes")
	b.await(id, ended(start.Turn.ID))
}

// refusal is the data of a refused undo.
func refusal(t *testing.T, err error) threads.UndoRefusal {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Code != fault.Refused {
		t.Fatalf("the undo was not refused: %v", err)
	}
	return f.Data.(threads.UndoRefusal)
}

func TestUndosThatCannotBeAreRefusedAndSayWhatCan(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	try := func(c transcript.CompactionID) error {
		_, err := b.svc.UndoCompaction(t.Context(), threads.UndoParams{Thread: id, Compaction: c})
		return err
	}
	if err := try("nothing"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("an unknown compaction: %v", err)
	}
	refused := b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteNative})
	if r := refusal(t, try(refused.CompactionID)); r.Code != threads.UndoNotCompleted || r.Undoable != "" {
		t.Errorf("a refused compaction: %+v", r)
	}
	first := b.shrink(id, threads.CompactParams{})
	b.turn(id, big("more", 6000), big("more", 6000))
	second := b.shrink(id, threads.CompactParams{Budget: 9000})
	if *second.Outcome != compaction.Completed {
		t.Fatalf("the second compaction ended %s", *second.Outcome)
	}
	if r := refusal(t, try(first.CompactionID)); r.Code != threads.UndoNotNewest || r.Undoable != second.CompactionID {
		t.Errorf("an older compaction: %+v", r)
	}
	b.undo(id, second.CompactionID)
	if r := refusal(t, try(second.CompactionID)); r.Code != threads.UndoAlready || r.Undoable != first.CompactionID {
		t.Errorf("one that was undone: %+v", r)
	}
	ack := b.start(id, "wait")
	req := b.request()
	if err := try(first.CompactionID); fault.CodeOf(err) != fault.Busy {
		t.Errorf("during a turn: %v", err)
	}
	req.answer(t, "done")
	b.await(id, ended(ack.Turn.ID))
	b.undo(id, first.CompactionID)
	if err := b.svc.Archive(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := try(first.CompactionID); fault.CodeOf(err) != fault.Refused {
		t.Errorf("of an archived thread: %v", err)
	}
}

func TestUndoOfANativeCompactionIsRefused(t *testing.T) {
	b := newBench(t)
	id := b.create()
	rec := compaction.NewRecord()
	rec.CompactionID = "native"
	rec, _, _ = rec.Conclude(compaction.Verdict{
		Outcome: compaction.Completed, Route: compaction.RouteNative, Native: &compaction.NativeDone{Info: compaction.NativeInfo{Form: "puppet"}},
	}, compaction.End{At: 1})
	b.write(id, threads.CompactionUpdated{Record: rec})
	_, err := b.svc.UndoCompaction(t.Context(), threads.UndoParams{Thread: id, Compaction: "native"})
	if r := refusal(t, err); r.Code != threads.UndoNative {
		t.Errorf("got %+v", r)
	}
}

func TestUndoIsRefusedIfWhatComesBackDoesNotFit(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	rec := b.shrink(id, threads.CompactParams{})
	was := mustJSON(t, b.entries(id))
	b.puppet.window = 30_000
	b.restart()
	n := len(b.payloads(id))
	_, err := b.svc.UndoCompaction(t.Context(), threads.UndoParams{Thread: id, Compaction: rec.CompactionID})
	r := refusal(t, err)
	if r.Code != threads.UndoWouldOverflow || r.Window != 30_000 || r.Tokens <= r.Window {
		t.Errorf("got %+v", r)
	}
	if len(b.payloads(id)) != n || mustJSON(t, b.entries(id)) != was {
		t.Error("the refused undo changed the thread")
	}
}

func TestAnUndoIsDoneOnce(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	rec := b.shrink(id, threads.CompactParams{})
	p := threads.UndoParams{Thread: id, Compaction: rec.CompactionID, IdempotencyKey: "key"}
	first, err := b.svc.UndoCompaction(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	b.restart()
	again, err := b.svc.UndoCompaction(t.Context(), p)
	if err != nil || again.Epoch != first.Epoch || again.AsOf.N != first.AsOf.N {
		t.Errorf("again: %+v, %v; first: %+v", again, err, first)
	}
	p.Compaction = "other"
	if _, err := b.svc.UndoCompaction(t.Context(), p); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("the key for another compaction: %v", err)
	}
}

// A revert goes back to a moment: before the undo the thread was compacted.
func TestARevertToBeforeAnUndoIsCompactedAgain(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	rec := b.shrink(id, threads.CompactParams{})
	compacted := mustJSON(t, b.entries(id))
	between := b.turn(id, "between", "yes")
	b.undo(id, rec.CompactionID)
	undone := mustJSON(t, b.entries(id))
	after := b.turn(id, "after", "yes")
	if _, err := b.svc.Revert(t.Context(), id, after); err != nil {
		t.Fatal(err)
	}
	if mustJSON(t, b.entries(id)) != undone {
		t.Error("the revert to after the undo took the undo away")
	}
	if _, err := b.svc.Revert(t.Context(), id, between); err != nil {
		t.Fatal(err)
	}
	if mustJSON(t, b.entries(id)) != compacted {
		t.Error("the revert to before the undo did not bring the compaction back")
	}
	c, err := b.svc.ReadContext(t.Context(), id, nil)
	if err != nil || c.Reanchor == "" {
		t.Errorf("the re-anchor of the epoch is not pending again: %v", err)
	}
	b.undo(id, rec.CompactionID)
}

// What is owed to the first request of an epoch is owed again when the next
// compaction, which came before that request, is undone.
func TestAnUndoOwesTheReanchorThatWasNeverSent(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	b.shrink(id, threads.CompactParams{})
	first, err := b.svc.ReadContext(t.Context(), id, nil)
	if err != nil || first.Reanchor == "" {
		t.Fatal("no re-anchor", err)
	}
	second := b.shrink(id, threads.CompactParams{Budget: 3000})
	if *second.Outcome != compaction.Completed {
		t.Fatalf("the second compaction ended %s", *second.Outcome)
	}
	b.undo(id, second.CompactionID)
	for range 2 {
		c, err := b.svc.ReadContext(t.Context(), id, nil)
		if err != nil || c.Reanchor != first.Reanchor {
			t.Errorf("the re-anchor is %q, %v; want %q", c.Reanchor, err, first.Reanchor)
		}
		b.restart()
	}
	ack := b.start(id, "go on")
	r := b.request()
	if text := strings.Join(r.texts(), "\n"); strings.Count(text, first.Reanchor) != 1 {
		t.Errorf("the request carries the re-anchor %d times", strings.Count(text, first.Reanchor))
	}
	r.answer(t, "yes")
	b.await(id, ended(ack.Turn.ID))
	if c, err := b.svc.ReadContext(t.Context(), id, nil); err != nil || c.Reanchor != "" {
		t.Errorf("the re-anchor is owed twice: %q, %v", c.Reanchor, err)
	}
}

// pruned writes a compaction that only pruned.
func (b *bench) pruned(id transcript.ThreadID, epoch int, cid transcript.CompactionID, kept ...transcript.Kept) {
	b.t.Helper()
	rec := compaction.NewRecord()
	rec.CompactionID, rec.Trigger, rec.TurnID = cid, compaction.TriggerPostTurn, b.entries(id)[0].Item.Turn
	rec, _, _ = rec.Conclude(compaction.Verdict{Outcome: compaction.Completed, Route: compaction.RouteLocal}, compaction.End{At: 1})
	b.write(id, threads.CompactionUpdated{Record: rec, Prune: &transcript.Prune{Epoch: epoch, CompactionID: cid, Kept: kept}})
}

// A compaction that only pruned is undone in its epoch: the items are whole again, but
// for what a later prune made of them.
func TestAnUndonePruneShowsItsItemsAgain(t *testing.T) {
	b := newBench(t)
	id := b.create()
	for i := range 4 {
		b.turn(id, fmt.Sprint("step ", i), big(fmt.Sprint("answer", i), 2000))
	}
	whole := b.entries(id)
	short := func(at int, text string) transcript.Kept {
		return transcript.Kept{ItemID: whole[at].Item.ID, Form: transcript.FormClipped, Text: text}
	}
	prune := func(cid transcript.CompactionID, kept ...transcript.Kept) { b.pruned(id, 0, cid, kept...) }
	prune("first", short(1, "one"), short(3, "three"))
	once := mustJSON(t, b.entries(id))
	prune("second", short(3, "3"), short(5, "5"))
	twice := b.entries(id)
	if transcript.Text(twice[3].Item.Body) != "3" || transcript.Text(twice[1].Item.Body) != "one" {
		t.Fatalf("the prunes show %q and %q", transcript.Text(twice[1].Item.Body), transcript.Text(twice[3].Item.Body))
	}
	if ack := b.undo(id, "second"); ack.Epoch != 0 {
		t.Errorf("the undo of a prune opened epoch %d", ack.Epoch)
	}
	if mustJSON(t, b.entries(id)) != once {
		t.Error("the undo of the second prune is not the first one")
	}
	fork, err := b.svc.Fork(t.Context(), threads.ForkParams{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	for _, on := range []transcript.ThreadID{fork.Thread.ID, id} {
		b.undo(on, "first")
		b.restart()
		if mustJSON(t, b.entries(on)) != mustJSON(t, whole) {
			t.Error("the undo of both prunes is not what was before")
		}
		_, err := b.svc.UndoCompaction(t.Context(), threads.UndoParams{Thread: on, Compaction: "first"})
		if r := refusal(t, err); r.Code != threads.UndoAlready || r.Undoable != "" {
			t.Errorf("undone twice: %+v", r)
		}
	}
}

// A prune of an epoch that a compaction closed comes back with that epoch, and what
// the undo restores keeps its forms.
func TestFormsComeBackAsTheyWere(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	whole := b.entries(id)
	b.pruned(id, 0, "prune", transcript.Kept{ItemID: whole[1].Item.ID, Form: transcript.FormStub, Text: "[gone]"})
	pruned := mustJSON(t, b.entries(id))
	done := b.shrink(id, threads.CompactParams{Budget: 6000})
	_, err := b.svc.UndoCompaction(t.Context(), threads.UndoParams{Thread: id, Compaction: "prune"})
	if r := refusal(t, err); r.Code != threads.UndoAlready {
		t.Errorf("a prune of an epoch that is closed: %+v", r)
	}
	b.undo(id, done.CompactionID)
	if mustJSON(t, b.entries(id)) != pruned {
		t.Error("the undo is not what the prune had left")
	}
}

// After the undo of what came later a prune can be undone, because it is in effect (I8):
// one from before the compaction, and one that pruned what was said since.
func TestAPruneBelowAnUndoneCompactionCanBeUndone(t *testing.T) {
	b := newBench(t)
	id := b.create()
	say := func(n int) { b.turn(id, fmt.Sprint("step ", n), big(fmt.Sprint("answer", n), 2000)) }
	for n := range 4 {
		say(n)
	}
	early := b.entries(id)
	short := func(e transcript.Entry, text string) transcript.Kept {
		return transcript.Kept{ItemID: e.Item.ID, Form: transcript.FormClipped, Text: text}
	}
	b.pruned(id, 0, "below", short(early[1], "one"))
	over := b.shrink(id, threads.CompactParams{Budget: 3000})
	if *over.Outcome != compaction.Completed {
		t.Fatal(mustJSON(t, over))
	}
	say(4)
	above := b.entries(id)
	late := above[len(above)-2:]
	b.pruned(id, 1, "above", short(late[1], "four"), short(early[7], "seven"))
	b.undo(id, over.CompactionID)
	whole := append(append([]transcript.Entry{}, early...), late...)
	if now := b.entries(id); len(now) != len(whole) || transcript.Text(now[1].Item.Body) != "one" ||
		transcript.Text(now[9].Item.Body) != "four" || mustJSON(t, now[7]) != mustJSON(t, whole[7]) {
		t.Fatalf("the prunes are not in effect as they were: %d items", len(now))
	}
	b.restart()
	for _, on := range []transcript.ThreadID{b.fork(threads.ForkParams{Thread: id}).ID, b.moved(id), id} {
		b.undo(on, "below")
		b.undo(on, "above")
		b.restart()
		if mustJSON(t, b.entries(on)) != mustJSON(t, whole) {
			t.Error("what the prunes hid does not come back")
		}
		_, err := b.svc.UndoCompaction(t.Context(), threads.UndoParams{Thread: on, Compaction: "below"})
		if r := refusal(t, err); r.Code != threads.UndoAlready || r.Undoable != "" {
			t.Errorf("undone twice: %+v", r)
		}
	}
}

// What somebody wanted back is not taken away at once, but when the context has grown.
func TestAnUndoIsNotUndoneByTheNextTurn(t *testing.T) {
	b := newBench(t, func(c *threads.Config) { c.Policy.Off = true })
	b.puppet.window = 64_000
	b.restart()
	id := b.create()
	for i := range 14 {
		b.turn(id, fmt.Sprint("step ", i), big(fmt.Sprint("answer", i), 4000))
	}
	rec := b.shrink(id, threads.CompactParams{})
	b.config.Policy.Off = false
	b.restart()
	b.undo(id, rec.CompactionID)
	automatic := func() (n int) {
		for _, p := range b.payloads(id) {
			if u, ok := p.(threads.CompactionUpdated); ok && u.Record.Trigger.Automatic() && u.Record.Terminal() {
				n++
			}
		}
		return n
	}
	over, err := b.svc.ReadThread(t.Context(), id)
	if err != nil || over.Thread.Occupancy.Context < 54_400 {
		t.Fatalf("the thread is below its line: %+v, %v", over.Thread.Occupancy, err)
	}
	b.turn(id, "short", "yes")
	b.restart()
	b.turn(id, "short again", "yes")
	if n := automatic(); n != 0 {
		t.Errorf("the undo was taken back by %d compactions:\n%s", n, b.log(id))
	}
}
