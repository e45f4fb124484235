package threads_test

import (
	"slices"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

func (b *bench) preview(p threads.CompactParams) threads.Preview {
	b.t.Helper()
	v, err := b.svc.PreviewCompaction(b.t.Context(), p)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// bare is a record without what a preview cannot know.
func bare(r compaction.Record) compaction.Record {
	r.CompactionID, r.TurnID, r.BaseSeq, r.Phase, r.Usage = "", "", 0, "", nil
	r.RequestedAt, r.StartedAt, r.CompletedAt = 0, nil, nil
	if r.Checkpoint != nil {
		c := *r.Checkpoint
		c.ItemID = ""
		r.Checkpoint = &c
	}
	return r
}

func TestAPreviewSaysWhatTheCompactionDoes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.laden()
	b.pin(id, "a pin")
	for _, p := range []threads.CompactParams{
		{Writer: compaction.WriterExtractive},
		{Writer: compaction.WriterExtractive, Budget: 6000},
		{Writer: compaction.WriterFixed, Budget: 5000},
		{Writer: compaction.WriterExtractive, Budget: 20},
		{Writer: compaction.WriterExtractive, Budget: 900_000},
	} {
		for _, fresh := range []bool{false, true} {
			f, err := b.svc.Fork(t.Context(), threads.ForkParams{Thread: id})
			if err != nil {
				t.Fatal(err)
			}
			p.Thread, p.Route = f.Thread.ID, compaction.RouteLocal
			if fresh {
				b.restart() // no session is open
			}
			n := len(b.payloads(p.Thread))
			v := b.preview(p)
			if again := b.preview(p); mustJSON(t, again) != mustJSON(t, v) {
				t.Error("the same preview again is another one")
			}
			if len(b.payloads(p.Thread)) != n {
				t.Error("a preview was journaled")
			}
			rec := b.shrink(p.Thread, p)
			if got, want := mustJSON(t, bare(v.Record)), mustJSON(t, bare(rec)); got != want {
				t.Errorf("budget %d, writer %s: the preview is\n%s\nand the record\n%s", p.Budget, p.Writer, got, want)
			}
			if v.Cost != nil || v.Writers != nil {
				t.Errorf("a model would be asked: %+v", v)
			}
			if rec.Items != nil && (len(v.Summarized) != rec.Items.Summarized || len(v.Clipped) != rec.Items.Clipped || len(v.Stubbed) != rec.Items.Stub) {
				t.Errorf("the items are %+v; the preview names %d, %d, %d", *rec.Items, len(v.Summarized), len(v.Clipped), len(v.Stubbed))
			}
		}
	}
}

func TestAPreviewAsksNoModelAndNamesThePrice(t *testing.T) {
	b := newBench(t)
	b.puppet.unfit = nil
	id := b.laden()
	v := b.preview(threads.CompactParams{Thread: id, Route: compaction.RouteLocal})
	if !slices.Equal(v.Writers, []string{"puppet/puppet"}) || *v.Record.Writer != compaction.WriterModel {
		t.Errorf("the writers are %v", v.Writers)
	}
	if v.Cost == nil || v.Cost.InputTokens < 5_000 || v.Cost.Requests < 1 || v.Cost.OutputTokens <= 0 || v.Cost.CostUSD != nil {
		t.Errorf("the cost is %s", mustJSON(t, v.Cost))
	}
	if slices.ContainsFunc(v.Record.Skipped, func(s compaction.Skip) bool { return s.Code == "preview" }) {
		t.Errorf("skipped: %+v", v.Record.Skipped)
	}
	select {
	case <-b.puppet.requests:
		t.Error("the model was asked")
	default:
	}
}

func TestAPreviewOfTheNativeRouteSaysOnlyThat(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	v := b.preview(threads.CompactParams{Thread: id, Route: compaction.RouteNative})
	if *v.Record.Outcome != compaction.Refused || v.Record.Code == nil || v.Record.Remedy == nil {
		t.Errorf("a route that does not exist: %s", mustJSON(t, v.Record))
	}
	b.puppet.ability = adapters.Ability{Native: &adapters.Native{Form: "strings"}}
	v = b.preview(threads.CompactParams{Thread: id})
	if *v.Record.Route != compaction.RouteNative || v.Record.Native.Form != "strings" || v.Record.After != nil {
		t.Errorf("the native route: %s", mustJSON(t, v.Record))
	}
	if _, err := b.svc.PreviewCompaction(t.Context(), threads.CompactParams{Thread: id, Budget: -1}); fault.CodeOf(err) != fault.Invalid {
		t.Errorf("a bad budget: %v", err)
	}
	if _, err := b.svc.PreviewCompaction(t.Context(), threads.CompactParams{Thread: "nobody"}); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("no thread: %v", err)
	}
}
