package threads_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/mem"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func TestFullDiskChangesNothingAndTheThreadGoesOn(t *testing.T) {
	b := newBench(t)
	id := b.create()
	j := b.journal.Journal.(*mem.Journal)
	j.FailNext(events.ErrFull, false)
	_, err := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("x")})
	if fault.CodeOf(err) != fault.Full {
		t.Errorf("a full disk gives %v, want the code full", err)
	}
	if n := len(b.payloads(id)); n != 1 {
		t.Errorf("there are %d events after the failure, want 1", n)
	}
	if got := fault.MessageOf(err); !strings.Contains(got, "disk") {
		t.Errorf("a full disk is told as %q", got)
	}
	j.FailNext(fault.Wrap(fault.Full, events.ErrFull, "no more than 3 bytes"), false)
	_, err = b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("x")})
	if got := fault.MessageOf(err); got != "no more than 3 bytes" || fault.CodeOf(err) != fault.Full {
		t.Errorf("a journal that says what is full is told as %q, %v", got, fault.CodeOf(err))
	}
	b.turn(id, "space again", "fine")
}

func TestLostAnswerOfTheDiskIsRecovered(t *testing.T) {
	for _, persist := range []bool{false, true} {
		t.Run(fmt.Sprintf("persisted=%v", persist), func(t *testing.T) {
			b := newBench(t)
			id := b.create()
			b.journal.Journal.(*mem.Journal).FailNext(errors.New("i/o error"), persist)
			_, err := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("x")})
			if fault.CodeOf(err) != fault.Unavailable {
				t.Errorf("a lost answer gives %v, want unavailable", err)
			}
			read, err := b.svc.ReadThread(t.Context(), id)
			for fault.CodeOf(err) == fault.Unavailable {
				read, err = b.svc.ReadThread(t.Context(), id)
			}
			if err != nil || read.Thread.Status != threads.StatusIdle {
				t.Fatalf("after the failure: %+v, %v", read.Thread, err)
			}
			log := b.log(id)
			if got := strings.Contains(log, "turn/completed interrupted"); got != persist {
				t.Errorf("the turn was ended: %v, want %v:\n%s", got, persist, log)
			}
			b.turn(id, "go on", "fine")
		})
	}
}

func TestEveryCommitOfACompactionSurvivesALostAnswer(t *testing.T) {
	for _, persist := range []bool{false, true} {
		for nth := range 6 {
			t.Run(fmt.Sprintf("commit %d persisted=%v", nth, persist), func(t *testing.T) {
				b := newBench(t)
				id := b.laden()
				f := &failNth{Journal: b.journal, nth: nth, persist: persist, mem: b.journal.Journal.(*mem.Journal)}
				b.close()
				b.config.Journal = unclosed{f}
				b.open()
				f.armed = true
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				_, err := b.svc.StartCompaction(ctx, threads.CompactParams{Thread: id, Wait: true})
				if err != nil && fault.CodeOf(err) != fault.Unavailable && fault.CodeOf(err) != fault.NotFound {
					t.Errorf("start: %v", err)
				}
				b.restart()
				page, err := b.svc.ListCompactions(t.Context(), id, threads.PageQuery{})
				if err != nil {
					t.Fatal(err)
				}
				read, err := b.svc.ReadThread(t.Context(), id)
				if err != nil || read.Thread.Status == threads.StatusActive {
					t.Errorf("thread %+v, %v", read.Thread, err)
				}
				completed := 0
				for _, r := range page.Records {
					if !r.Terminal() {
						t.Errorf("record %s is open after a restart", r.CompactionID)
					} else if *r.Outcome == compaction.Completed {
						completed++
					}
				}
				if completed != read.Thread.Epoch {
					t.Errorf("%d completed compactions, epoch %d", completed, read.Thread.Epoch)
				}
			})
		}
	}
}

// failNth makes the nth append after arming fail.
type failNth struct {
	events.Journal
	mem     *mem.Journal
	armed   bool
	nth     int
	persist bool
}

func (f *failNth) Append(ctx context.Context, a events.Append) (int64, error) {
	if f.armed {
		if f.nth == 0 {
			f.mem.FailNext(errors.New("i/o error"), f.persist)
		}
		f.nth--
	}
	return f.Journal.Append(ctx, a)
}

func TestIdleThreadIsUnloadedAndComesBackTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		id := b.create()
		for i := range 20 {
			b.turn(id, fmt.Sprint("question ", i), fmt.Sprint("answer ", i))
		}
		before, err := b.svc.ReadThread(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Minute) // of synctest's clock
		synctest.Wait()
		if _, err := b.journal.Snapshot(t.Context(), string(id)); err != nil {
			t.Errorf("no snapshot was made when the thread was unloaded: %v", err)
		}
		after, err := b.svc.ReadThread(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("the thread came back different:\n%s", diff)
		}
		b.turn(id, "still there?", "yes")
	})
}

func TestSnapshotAndFoldAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		id := b.create()
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				b.compact(threads.CompactParams{Thread: id, Budget: rapid.SampledFrom([]int{1000, 4000, 9000}).Draw(rt, "budget")})
			case 1:
				b.restart()
			default:
				b.turn(id, "q", big("a", rapid.IntRange(1, 2000).Draw(rt, "size")))
			}
		}
		folded := b.see(id)
		b.restart() // writes a snapshot where one is worth it
		b.restart() // reads it
		if diff := cmp.Diff(folded, b.see(id)); diff != "" {
			rt.Fatalf("the snapshot differs from the fold:\n%s", diff)
		}
		b.close()
		b.open()
	})
}

// see is everything that can be read of a thread.
func (b *bench) see(id transcript.ThreadID) map[string]string {
	b.t.Helper()
	read, err1 := b.svc.ReadThread(b.t.Context(), id)
	items, err2 := b.svc.ListItems(b.t.Context(), id, threads.ItemQuery{PageQuery: threads.PageQuery{Limit: 1000}})
	turns, err3 := b.svc.ListTurns(b.t.Context(), id, threads.TurnQuery{PageQuery: threads.PageQuery{Limit: 1000}, View: threads.ItemsSummary})
	recs, err4 := b.svc.ListCompactions(b.t.Context(), id, threads.PageQuery{Limit: 1000})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		b.t.Fatal(err)
	}
	out := map[string]string{
		"thread": mustJSON(b.t, read), "items": mustJSON(b.t, items), "turns": mustJSON(b.t, turns), "compactions": mustJSON(b.t, recs),
	}
	for e := range read.Thread.Epoch + 1 {
		c, err := b.svc.ReadContext(b.t.Context(), id, &e)
		if err != nil {
			b.t.Fatal(err)
		}
		c.Base = adapters.Base{} // known once the session is open
		out[fmt.Sprint("epoch ", e)] = mustJSON(b.t, c.Entries)
	}
	return out
}

func TestDeletedThreadIsGoneAndItsFollowersAreTold(t *testing.T) {
	b := newBench(t)
	id, other := b.create(), b.create()
	ack := b.start(id, "long")
	b.request().send(t, adapters.MessageText{Text: "I will be del"})
	if err := b.svc.DeleteThread(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for m, err := range b.svc.Follow(t.Context(), id, nil, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == events.KindEvent && m.Event.Type != "thread/deleted" {
			t.Errorf("event %s of a deleted thread", m.Event.Type)
		}
	}
	_, readErr := b.svc.ReadThread(t.Context(), id)
	_, turnErr := b.svc.ReadTurn(t.Context(), id, ack.Turn.ID)
	_, startErr := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("x")})
	delErr := b.svc.DeleteThread(t.Context(), id)
	for _, err := range []error{readErr, turnErr, startErr, delErr} {
		if fault.CodeOf(err) != fault.NotFound {
			t.Errorf("a deleted thread answers %v, want not found", err)
		}
	}
	page, err := b.svc.ListThreads(t.Context(), threads.PageQuery{})
	if err != nil || len(page.Threads) != 1 || page.Threads[0].ID != other {
		t.Errorf("threads after the deletion: %+v, %v", page.Threads, err)
	}
}

func TestListsPageInBothDirectionsWithoutGapOrRepeat(t *testing.T) {
	b := newBench(t)
	id := b.create()
	var want []string
	for i := range 7 {
		b.turn(id, fmt.Sprint("q", i), fmt.Sprint("a", i))
		want = append(want, fmt.Sprint("q", i), fmt.Sprint("a", i))
	}
	for _, desc := range []bool{false, true} {
		var got []string
		for cursor := ""; ; {
			p, err := b.svc.ListItems(t.Context(), id, threads.ItemQuery{PageQuery: threads.PageQuery{Cursor: cursor, Limit: 3, Desc: desc}})
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range p.Items {
				got = append(got, transcript.Text(it.Item.Body))
			}
			if cursor = p.Next; cursor == "" {
				break
			}
		}
		if desc {
			for i, j := 0, len(got)-1; i < j; i, j = i+1, j-1 {
				got[i], got[j] = got[j], got[i]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("desc=%v:\n%s", desc, diff)
		}
	}
}

func TestDamagedThreadIsListedAndSaysWhy(t *testing.T) {
	b := newBench(t)
	id := b.create()
	b.turn(id, "q", "a")
	b.close()
	info, err := b.journal.Info(t.Context(), string(id))
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.journal.Append(t.Context(), events.Append{Thread: string(id), Expect: info.Head, Events: []events.Event{{Type: "from/the/future", Data: []byte(`{}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	b.open()
	_, err = b.svc.ReadThread(t.Context(), id)
	if fault.CodeOf(err) != fault.Corrupt || !strings.Contains(err.Error(), fmt.Sprint(info.Head+1)) {
		t.Errorf("a damaged thread answers %v, want corrupt and the event's number", err)
	}
	page, err := b.svc.ListThreads(t.Context(), threads.PageQuery{})
	if err != nil || len(page.Threads) != 1 {
		t.Errorf("threads: %+v, %v", page.Threads, err)
	}
}

func TestExportAndImportGiveTheSameThread(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	b.compact(threads.CompactParams{Thread: id})
	b.turn(id, "after", "the boundary")
	var first, second bytes.Buffer
	if err := b.svc.Export(t.Context(), id, &first); err != nil {
		t.Fatal(err)
	}
	res, err := b.svc.Import(t.Context(), bytes.NewReader(first.Bytes()), threads.ImportParams{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Epochs != 1 || len(res.Warnings) > 0 {
		t.Errorf("imported %+v", res)
	}
	if err := b.svc.Export(t.Context(), res.Thread.ID, &second); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(eventLines(first.String()), eventLines(second.String())); diff != "" {
		t.Errorf("the copy's events differ:\n%s", diff)
	}
	want, got := b.see(id), b.see(res.Thread.ID)
	for _, part := range []string{"items", "turns", "epoch 0", "epoch 1"} {
		if diff := cmp.Diff(want[part], got[part]); diff != "" {
			t.Errorf("%s of the copy differ:\n%s", part, diff)
		}
	}
}

// eventLines are the lines of an export that hold events, without their times.
func eventLines(s string) []string {
	var out []string
	for line := range strings.Lines(s) {
		var e struct {
			Type string          `json:"type"`
			Data json.RawMessage `json:"data"`
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Type != "" {
			out = append(out, e.Type+" "+string(e.Data))
		}
	}
	return out
}

func TestExportOfARunningThreadImportsAtRest(t *testing.T) {
	b := newBench(t)
	id := b.create()
	b.start(id, "running")
	b.start(id, "queued")
	b.request().send(t, adapters.MessageText{Text: "unfinished"})
	var file bytes.Buffer
	if err := b.svc.Export(t.Context(), id, &file); err != nil {
		t.Fatal(err)
	}
	res, err := b.svc.Import(t.Context(), &file, threads.ImportParams{})
	if err != nil {
		t.Fatal(err)
	}
	if th := res.Thread; th.Status != threads.StatusIdle || th.Queued != 0 || th.Turns != 1 {
		t.Errorf("the copy is %+v, want it at rest with one turn", th)
	}
}

func TestBadImportLeavesNothing(t *testing.T) {
	b := newBench(t)
	for name, file := range map[string]string{
		"empty":       "",
		"no session":  "{\"hello\":1}\n",
		"not JSON":    "once upon a time",
		"no start":    `{"plimsoll":"export","version":1}` + "\n" + `{"type":"thread/status/changed","at":1,"data":{"status":"idle"}}` + "\n",
		"bad event":   `{"plimsoll":"export","version":1}` + "\n" + `{"type":"x/y","at":1,"data":{}}` + "\n",
		"new version": `{"plimsoll":"export","version":99}` + "\n",
	} {
		_, err := b.svc.Import(t.Context(), strings.NewReader(file), threads.ImportParams{})
		if code := fault.CodeOf(err); code != fault.Invalid && code != fault.Corrupt {
			t.Errorf("%s: %v (%s), want a clear refusal", name, err, code)
		}
	}
	page, err := b.svc.ListThreads(t.Context(), threads.PageQuery{})
	if err != nil || len(page.Threads) != 0 {
		t.Errorf("bad imports left %d threads", len(page.Threads))
	}
}

// Real Claude Code and pi sessions become threads that can be compacted and
// continued.
func TestRealSessionsImportCompactAndContinue(t *testing.T) {
	root := os.Getenv("PLIMSOLL_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "shared", "data")
	}
	files, _ := filepath.Glob(filepath.Join(root, "claude-code", "*.jsonl.gz"))
	pi, _ := filepath.Glob(filepath.Join(root, "pi", "*.jsonl"))
	files = append(files, pi...)
	if len(files) == 0 {
		t.Skipf("SKIPPED: no sessions in %s; set PLIMSOLL_DATA", root)
	}
	for i, path := range files {
		if i%4 != 0 {
			continue // every file is compacted by cmd/plimsoll's test of compact FILE
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			b := newBench(t)
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			res, err := b.svc.Import(t.Context(), f, threads.ImportParams{})
			if err != nil {
				t.Fatal(err)
			}
			rec := b.compact(threads.CompactParams{Thread: res.Thread.ID, Budget: 16000})
			if o := *rec.Outcome; o != compaction.Completed && o != compaction.Unchanged {
				t.Errorf("outcome %s", mustJSON(t, rec))
			}
			b.turn(res.Thread.ID, "go on", "yes")
			want := b.see(res.Thread.ID)
			b.restart()
			if diff := cmp.Diff(want, b.see(res.Thread.ID)); diff != "" {
				t.Errorf("different after a restart:\n%s", diff)
			}
		})
	}
}

func TestThreadsThatWereOnlyMadeCanBeLeftOut(t *testing.T) {
	b := newBench(t)
	used := b.create()
	ack := b.start(used, "hello")
	b.request().answer(t, "yes")
	b.await(used, ended(ack.Turn.ID))
	made := b.create()
	all, err := b.svc.FindThreads(t.Context(), threads.ThreadQuery{})
	if err != nil || len(all.Threads) != 2 {
		t.Fatalf("all: %+v, %v", all, err)
	}
	begun, err := b.svc.FindThreads(t.Context(), threads.ThreadQuery{Begun: true})
	if err != nil || len(begun.Threads) != 1 || begun.Threads[0].ID != used {
		t.Errorf("begun: %+v, %v; want %s and not %s", begun, err, used, made)
	}
}
