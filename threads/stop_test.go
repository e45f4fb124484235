package threads_test

import (
	"context"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func (b *bench) wantAtWork(id transcript.ThreadID, want bool) {
	b.t.Helper()
	if got, _, err := b.svc.AtWork(b.t.Context(), id); got != want || err != nil {
		b.t.Errorf("at work is %v, %v, want %v", got, err, want)
	}
}

// A turn is at work as long as anything in it is: that one call waits for an answer
// does not matter until all do.
func TestWhatOnlyWaitsIsNotAtWork(t *testing.T) {
	b, id := asking(t)
	b.wantAtWork(id, false)
	ack := b.start(id, "go")
	r := b.request()
	b.wantAtWork(id, true)
	r.calls(t, [3]string{"c1", "run", `{"command":"make"}`})
	q := b.pending(id, 1)[0]
	b.wantAtWork(id, false)
	b.answer(id, q.ID, adapters.Accept)
	r = b.request()
	b.wantAtWork(id, true)
	r.answer(t, "done")
	b.await(id, ended(ack.Turn.ID))
	b.wantAtWork(id, false)
	b.wantAtWork("0198a6a0-0000-7000-8000-000000000000", false)
}

// What stopping makes happen is told before the followers are ended, and nothing is
// begun any more.
func TestAStoppedServiceStillTellsHowItsTurnsEnded(t *testing.T) {
	b := newBench(t)
	id := b.create()
	ack := b.start(id, "go")
	b.request()
	if err := b.svc.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	newest, err := b.svc.Newest(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var at int64
	for m, err := range b.svc.Follow(t.Context(), id, nil, 0) {
		if err != nil {
			t.Fatal(err)
		}
		p, err := threads.Decode(m.Event)
		if err != nil {
			t.Fatal(err)
		}
		if at = m.Cursor.N; ended(ack.Turn.ID)(p) {
			break
		}
	}
	if at > newest.N {
		t.Errorf("the turn ended at %d, the newest event is %d", at, newest.N)
	}
	if _, err := b.svc.StartTurn(context.Background(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("more")}); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("a turn began in a stopped service: %v", err)
	}
	if all, err := b.svc.Newest(t.Context(), ""); err != nil || all.N < newest.N {
		t.Errorf("the newest of all is at %d, %v", all.N, err)
	}
}
