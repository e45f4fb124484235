package threads_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A life is a thread to which anything happens that can happen to one, and what is
// known of it: for every turn, what the next request would have been before it.
type life struct {
	*bench
	rt     *rapid.T
	id     transcript.ThreadID
	turns  []transcript.TurnID
	before map[transcript.TurnID]string
}

// whole notes a turn that happened.
func (l *life) whole(before string, turn transcript.TurnID) {
	l.turns, l.before[turn] = append(l.turns, turn), before
}

func (l *life) must(err error) {
	l.t.Helper()
	if err != nil {
		l.rt.Fatal(err)
	}
}

// asks has a turn begin, whose settings may change.
func (l *life) asks(p threads.SettingsPatch) (threads.TurnAck, *request) {
	before := l.nextRequest(l.id)
	ack, err := l.svc.StartTurn(l.t.Context(), threads.StartTurnParams{Thread: l.id, Input: transcript.TextParts("question"), Settings: p})
	l.must(err)
	l.whole(before, ack.Turn.ID)
	return ack, l.request()
}

func (l *life) anyPatch() threads.SettingsPatch {
	return rapid.SampledFrom([]threads.SettingsPatch{
		{}, {Effort: new("low")}, {Effort: new("high")}, {Cwd: new("/a")}, {Cwd: new("/b")}, {ApprovalPolicy: new("never")}, {Mode: new("plan")}, {Mode: new("default")},
	}).Draw(l.rt, "patch")
}

func (l *life) anyTurn() int { return rapid.IntRange(0, len(l.turns)-1).Draw(l.rt, "turn") }

// steps are what can happen.
var steps = map[string]func(*life){
	"turn": func(l *life) {
		ack, r := l.asks(l.anyPatch())
		r.answer(l.t, big("a", rapid.IntRange(1, 2500).Draw(l.rt, "size")))
		l.await(l.id, ended(ack.Turn.ID))
	},
	"turn too": func(l *life) {
		ack, r := l.asks(threads.SettingsPatch{})
		r.answer(l.t, big("b", 2500))
		l.await(l.id, ended(ack.Turn.ID))
	},
	"failed turn": func(l *life) {
		ack, r := l.asks(threads.SettingsPatch{})
		r.fail <- errScripted
		l.await(l.id, ended(ack.Turn.ID))
	},
	"turn that breaks off": func(l *life) {
		ack, r := l.asks(threads.SettingsPatch{})
		r.send(l.t, adapters.MessageText{Text: big("c", 200)}, adapters.MessageText{})
		r.fail <- errScripted
		l.await(l.id, ended(ack.Turn.ID))
	},
	"interrupted turn": func(l *life) {
		ack, _ := l.asks(threads.SettingsPatch{})
		l.must(l.svc.InterruptTurn(l.t.Context(), l.id, ack.Turn.ID))
		l.await(l.id, ended(ack.Turn.ID))
	},
	"compaction": func(l *life) {
		before := l.nextRequest(l.id)
		rec := l.compact(threads.CompactParams{Thread: l.id, Budget: rapid.SampledFrom([]int{1500, 4000}).Draw(l.rt, "budget")})
		l.await(l.id, ended(rec.TurnID))
		l.whole(before, rec.TurnID)
	},
	"injection": func(l *life) {
		text := fmt.Sprintf(`{"role":"user","content":"injected %d"}`, rapid.IntRange(0, 99).Draw(l.rt, "n"))
		l.must(l.svc.InjectItems(l.t.Context(), l.id, []transcript.RawJSON{[]byte(text)}))
	},
	"revert": func(l *life) {
		if len(l.turns) == 0 {
			return
		}
		i := l.anyTurn()
		turn := l.turns[i]
		l.revert(l.id, turn)
		l.turns = l.turns[:i]
		if diff := cmp.Diff(l.before[turn], l.nextRequest(l.id)); diff != "" {
			l.rt.Fatalf("after the revert the next request is not that of before:\n%s", diff)
		}
	},
	"fork": func(l *life) {
		p, want := threads.ForkParams{Thread: l.id}, l.nextRequest(l.id)
		if len(l.turns) > 0 && rapid.Bool().Draw(l.rt, "cut") {
			i := l.anyTurn()
			p.BeforeTurn, want = l.turns[i], l.before[l.turns[i]]
			l.turns = l.turns[:i]
		}
		l.id = l.fork(p).ID // life goes on in the fork
		if diff := cmp.Diff(want, l.nextRequest(l.id)); diff != "" {
			l.rt.Fatalf("the fork's next request is not the source's:\n%s", diff)
		}
	},
	"name": func(l *life) {
		l.must(l.svc.SetName(l.t.Context(), l.id, rapid.StringMatching("[a-c]{0,2}").Draw(l.rt, "name")))
	},
	"settings": func(l *life) {
		_, err := l.svc.UpdateSettings(l.t.Context(), l.id, l.anyPatch())
		l.must(err)
	},
	"metadata": func(l *life) {
		_, err := l.svc.UpdateMetadata(l.t.Context(), l.id, threads.MetadataPatch{Branch: new(rapid.StringMatching("[a-c]?").Draw(l.rt, "branch"))})
		l.must(err)
	},
	"archive": func(l *life) {
		l.must(l.svc.Archive(l.t.Context(), l.id))
		if rapid.Bool().Draw(l.rt, "restart while archived") {
			l.unchanged(l.restart)
		}
		_, err := l.svc.Unarchive(l.t.Context(), l.id)
		l.must(err)
	},
	"restart": func(l *life) { l.unchanged(l.restart) },
	"unload": func(l *life) {
		l.unchanged(func() { l.must(l.svc.Unload(l.t.Context(), l.id)) })
	},
}

// unchanged checks that something leaves no trace in what clients and models see.
func (l *life) unchanged(f func()) {
	l.t.Helper()
	want, next, joined := l.see(l.id), l.nextRequest(l.id), mustJSON(l.t, l.join(l.id))
	f()
	if diff := cmp.Diff(want, l.see(l.id)); diff != "" {
		l.rt.Fatalf("the thread came back different:\n%s", diff)
	}
	if diff := cmp.Diff(next, l.nextRequest(l.id)); diff != "" {
		l.rt.Fatalf("its next request is different:\n%s", diff)
	}
	if diff := cmp.Diff(joined, mustJSON(l.t, l.join(l.id))); diff != "" {
		l.rt.Fatalf("it is joined differently:\n%s", diff)
	}
}

// Whatever happens in the life of a thread, in whatever order: a thread that is
// loaded again is the same, from its events or from a snapshot; a revert and a fork
// are exactly what was before; and the listing says what reading says.
func TestThreadIsTheSameAfterWhateverHappened(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		l := &life{bench: b, rt: rt, id: b.create(), before: map[transcript.TurnID]string{}}
		names := []string{
			"turn", "turn too", "failed turn", "turn that breaks off", "interrupted turn", "compaction", "injection", "revert", "fork", "name", "settings",
			"metadata", "archive", "restart", "unload",
		}
		if len(names) != len(steps) {
			rt.Fatalf("%d of %d steps are taken", len(names), len(steps))
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			steps[rapid.SampledFrom(names).Draw(rt, "step")](l)
			read := b.read(l.id)
			listed := b.find(threads.ThreadQuery{Only: []transcript.ThreadID{l.id}}).Threads
			if diff := cmp.Diff([]threads.Thread{read}, listed); diff != "" {
				rt.Fatalf("the listing differs from what is read (-read +listed):\n%s", diff)
			}
			if read.Turns != len(l.turns) {
				rt.Fatalf("%d turns, want %d", read.Turns, len(l.turns))
			}
		}
		l.unchanged(l.restart)
		l.unchanged(l.restart)
		b.close()
		b.open()
	})
}
