package threads_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// notices are the texts of the notices of a source that a request carries.
func (r *request) notices(source string) (texts []string) {
	for _, e := range r.Entries {
		if n, ok := e.Item.Body.(transcript.Notice); ok && n.Source == source {
			texts = append(texts, n.Text)
		}
	}
	return texts
}

// asked has a turn happen and returns its first request.
func (b *bench) asked(id transcript.ThreadID, text string) *request {
	b.t.Helper()
	ack := b.start(id, text)
	r := b.request()
	r.answer(b.t, "yes")
	b.await(id, ended(ack.Turn.ID))
	return r
}

// The plan is state: whatever a compaction takes away, the first request of every
// epoch says it again, once, and a session that was told before is told again.
func TestThePlanIsSaidAgainOnceInEveryEpoch(t *testing.T) {
	b := newBench(t, withTools)
	id := b.create()
	ack := b.start(id, "plan it")
	b.request().callsTool(t, "update_plan", `{"steps":[{"step":"splice the mainbrace","status":"completed"},{"step":"weigh the anchor","status":"inProgress"},{"step":"set sail","status":"pending"}]}`)
	b.request().answer(t, "planned")
	b.await(id, ended(ack.Turn.ID))
	for epoch := range 3 {
		for i := range 4 {
			b.turn(id, big("question", 1500), big("answer", 1500+i))
		}
		if rec := b.shrink(id, threads.CompactParams{Budget: 4000}); *rec.Outcome != compaction.Completed {
			t.Fatalf("compaction %d ended %s", epoch, *rec.Outcome)
		}
		first := b.asked(id, "go on").notices("reanchor")
		if len(first) != 1 || !strings.Contains(first[0], "weigh the anchor (inProgress)") || !strings.Contains(first[0], "set sail (pending)") || strings.Contains(first[0], "splice") {
			t.Errorf("epoch %d: the first request says %q", epoch+1, first)
		}
		if second := b.asked(id, "go on").notices("reanchor"); !slices.Equal(first, second) {
			t.Errorf("epoch %d: the second request says %q", epoch+1, second)
		}
	}
}

// A witness is an adapter that notes what its sessions are told of each turn.
type witness struct {
	adapters.Adapter
	told *[]adapters.TurnInput
}

func (w witness) Open(ctx context.Context, p adapters.OpenParams) (adapters.Session, error) {
	s, err := w.Adapter.Open(ctx, p)
	return witnessed{s, w.told}, err
}

type witnessed struct {
	adapters.Session
	told *[]adapters.TurnInput
}

func (w witnessed) Run(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
	*w.told = append(*w.told, in)
	return w.Session.Run(ctx, in, h)
}

func TestSettingsAreTheSameAfterACompaction(t *testing.T) {
	var told []adapters.TurnInput
	b := newBench(t, func(c *threads.Config) { c.Providers[0].Adapter = witness{c.Providers[0].Adapter, &told} })
	want := threads.Settings{Provider: "puppet", Model: "puppet", Cwd: "/srv/ship", ApprovalPolicy: "never", Sandbox: "read-only", Mode: "plan", Effort: "high"}
	r, err := b.svc.CreateThread(t.Context(), threads.CreateParams{Settings: want})
	if err != nil {
		t.Fatal(err)
	}
	id := r.Thread.ID
	for range 8 {
		b.turn(id, "go", big("answer", 4000))
	}
	if rec := b.shrink(id, threads.CompactParams{}); *rec.Outcome != compaction.Completed {
		t.Fatalf("the compaction ended %s", *rec.Outcome)
	}
	said := strings.Join(b.asked(id, "and now?").notices("reanchor"), "\n")
	for _, fact := range []string{"/srv/ship", "approvals: never", "sandbox: read-only", "model: puppet"} {
		if !strings.Contains(said, fact) {
			t.Errorf("the first request does not say %q:\n%s", fact, said)
		}
	}
	if read, err := b.svc.ReadThread(t.Context(), id); err != nil || read.Thread.Settings != want {
		t.Errorf("the settings are %+v, %v", read.Thread.Settings, err)
	}
	for i, in := range told {
		if in.Approval != "never" || in.Sandbox != "read-only" {
			t.Errorf("turn %d ran with %s, %s", i, in.Approval, in.Sandbox)
		}
	}
}

// A record says everything about its compaction: sizes and who counted them, how
// long it took, and what became of every turn; what it stands for can be read.
func TestARecordSaysWhatBecameOfEverything(t *testing.T) {
	b := newBench(t)
	id := b.create()
	for range 40 {
		b.turn(id, big("question", 200), big("answer", 300))
	}
	before, err := b.svc.ListTurns(t.Context(), id, threads.TurnQuery{})
	if err != nil {
		t.Fatal(err)
	}
	rec := b.shrink(id, threads.CompactParams{Budget: 2500})
	if *rec.Outcome != compaction.Completed || rec.Trigger != compaction.TriggerManual || *rec.Writer != compaction.WriterExtractive {
		t.Fatalf("the record is %s", mustJSON(t, rec))
	}
	if rec.Before.Source == "" || rec.After.Source == "" || *rec.Before.Window != 100_000 || rec.After.Tokens >= rec.Before.Tokens || rec.After.Tokens > 2500 {
		t.Errorf("before %+v, after %+v", rec.Before, rec.After)
	}
	if rec.RequestedAt == 0 || *rec.StartedAt < rec.RequestedAt || *rec.CompletedAt < *rec.StartedAt {
		t.Errorf("requested %d, started %d, completed %d", rec.RequestedAt, *rec.StartedAt, *rec.CompletedAt)
	}
	seen := map[transcript.TurnID]int{}
	for _, turn := range append(slices.Clone(rec.SummarizedTurnIDs), rec.RetainedTurnIDs...) {
		seen[turn]++
	}
	for _, turn := range before.Turns {
		if seen[turn.ID] != 1 {
			t.Errorf("turn %s is accounted for %d times", turn.ID, seen[turn.ID])
		}
	}
	if len(seen) != len(before.Turns) || len(rec.SummarizedTurnIDs) == 0 {
		t.Errorf("%d turns are accounted for, there were %d; %d are summarised", len(seen), len(before.Turns), len(rec.SummarizedTurnIDs))
	}
	first := b.entries(id)[0].Item
	if first.ID != rec.Checkpoint.ItemID || transcript.Text(first.Body) == "" {
		t.Errorf("the checkpoint %s cannot be read: the context begins with %s", rec.Checkpoint.ItemID, first.ID)
	}
	for _, turn := range rec.SummarizedTurnIDs { // nothing of it is lost
		page, err := b.svc.ListItems(t.Context(), id, threads.ItemQuery{Turn: turn})
		if err != nil || len(page.Items) != 2 {
			t.Errorf("turn %s has %d items, %v", turn, len(page.Items), err)
		}
	}
}

func TestInstructionsAreForTheWriterAlone(t *testing.T) {
	const canary = "CANARY-DO-X"
	b := newBench(t)
	b.puppet.unfit = nil
	id := b.laden()
	cid := b.ask(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Writer: compaction.WriterModel, Instructions: "Name every port. " + canary})
	writer := b.request()
	if text := strings.Join(writer.texts(), "\n"); !writer.Writer || strings.Count(writer.Base.System+text, canary) != 1 {
		t.Errorf("the writer was asked (%v):\n%.400s", writer.Writer, text)
	}
	writer.fail <- errScripted
	b.await(id, func(p threads.Payload) bool {
		u, ok := p.(threads.CompactionUpdated)
		return ok && u.Record.CompactionID == cid && u.Record.Terminal()
	})
	b.await(id, func(p threads.Payload) bool {
		c, ok := p.(threads.TurnCompleted)
		return ok && c.Turn.Kind == transcript.TurnCompact
	})
	next := b.asked(id, "go on")
	if text := next.Base.System + strings.Join(next.texts(), "\n"); strings.Contains(text, canary) || strings.Contains(text, transcript.WriterMark) {
		t.Error("the next request has what was for the writer")
	}
	_, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id, Instructions: strings.Repeat("é", 4001)})
	if fault.CodeOf(err) != fault.Invalid {
		t.Errorf("4,001 characters: %v", err)
	}
}
