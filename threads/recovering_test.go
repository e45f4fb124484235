package threads_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// lost returns a bench whose server stopped while the provider compacted, and did not
// see how that ended: the session never answered. The next server is not open yet.
func lost(t *testing.T, e *engine, change ...func(*threads.Config)) (*bench, transcript.ThreadID, threads.CompactAck) {
	t.Helper()
	reached, free := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(free) })
	good := e.compact
	e.compact = func(context.Context, adapters.CompactInput, adapters.Host) (adapters.NativeResult, error) {
		close(reached)
		<-free
		return adapters.NativeResult{}, errScripted
	}
	b := driving(t, e, append(change, func(c *threads.Config) { c.StopAfter = 20 * time.Millisecond })...)
	id := b.create()
	b.said(id, "hello")
	ack, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	<-reached
	b.close()
	e.compact = good
	return b, id, ack
}

func TestAfterARestartTheProviderIsAskedWhatBecameOfItsCompaction(t *testing.T) {
	for name, c := range map[string]struct {
		recover func(context.Context, adapters.Unfinished) (adapters.NativeResult, error)
		opens   error
		want    string
		reason  string
	}{
		"it completed": {recover: func(context.Context, adapters.Unfinished) (adapters.NativeResult, error) {
			return adapters.NativeResult{Form: "engine", After: 7_000, Usage: &adapters.Usage{InputTokens: 41_000, OutputTokens: 800}}, nil
		}, want: "manual completed"},
		"it did not happen": {recover: func(context.Context, adapters.Unfinished) (adapters.NativeResult, error) {
			return adapters.NativeResult{}, adapters.ErrNotCompacted
		}, want: "manual failed(notCompacted)", reason: "did not happen"},
		"nobody can tell": {recover: func(context.Context, adapters.Unfinished) (adapters.NativeResult, error) {
			return adapters.NativeResult{}, fmt.Errorf("%w: two of them ran", adapters.ErrUncertain)
		}, want: "manual uncertain(nativeUncertain)", reason: "two of them ran"},
		"it lost everything": {recover: func(context.Context, adapters.Unfinished) (adapters.NativeResult, error) {
			return adapters.NativeResult{}, adapters.ErrLossy
		}, want: "manual failed(nativeInvalid)"},
		"another error": {recover: func(context.Context, adapters.Unfinished) (adapters.NativeResult, error) {
			return adapters.NativeResult{}, &adapters.Error{Class: adapters.ClassUnreachable, Message: "no route to the provider"}
		}, want: "manual uncertain(nativeUncertain)", reason: "no route to the provider"},
		"a panic": {
			recover: func(context.Context, adapters.Unfinished) (adapters.NativeResult, error) { panic("boom") },
			want:    "manual uncertain(nativeUncertain)",
		},
		"it cannot be asked": {want: "manual uncertain(nativeUncertain)", reason: "no way to tell"},
		"no session":         {opens: errors.New("gone"), want: "manual uncertain(nativeUncertain)", reason: "could not be opened"},
		"no answer in time": {recover: func(ctx context.Context, _ adapters.Unfinished) (adapters.NativeResult, error) {
			<-ctx.Done()
			return adapters.NativeResult{}, ctx.Err()
		}, want: "manual uncertain(nativeUncertain)", reason: "no answer within 50ms"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine()
			b, id, ack := lost(t, e, func(c *threads.Config) { c.RecoverWithin = 50 * time.Millisecond })
			var got adapters.Unfinished
			if c.recover != nil {
				e.recover = func(ctx context.Context, u adapters.Unfinished) (adapters.NativeResult, error) {
					got = u
					return c.recover(ctx, u)
				}
			}
			if c.opens != nil {
				e.opens = func(adapters.OpenParams) error { return c.opens }
			}
			b.open()
			b.await(id, ended(ack.Record.TurnID))
			recs := b.records(id)
			if s := outcomes(recs); s != c.want || !strings.Contains(text(recs[0].Reason), c.reason) {
				t.Errorf("records %s", mustJSON(t, recs))
			}
			if c.recover != nil && (got.ID != ack.Record.CompactionID || got.StartedAt.UnixMilli() != *recs[0].StartedAt) {
				t.Errorf("the provider is asked for %+v", got)
			}
			if *recs[0].Outcome == compaction.Completed {
				us := b.usages(id)
				last := us[len(us)-1]
				if recs[0].After.Tokens != 7_000 || last.Context != 7_000 || last.Total.InputTokens != 39_990+41_000 || len(recs[0].Warnings) != 1 || !strings.Contains(b.log(id), "item/completed contextCompaction") {
					t.Errorf("record %s, usage %s", mustJSON(t, recs[0]), mustJSON(t, last))
				}
			}
			e.opens = nil
			b.said(id, "the thread goes on")
			endsOnce(t, b, id)
		})
	}
}

// endsOnce checks that every compaction and every turn of a thread at rest has one end.
func endsOnce(t *testing.T, b *bench, id transcript.ThreadID) {
	t.Helper()
	begun, ends := map[transcript.CompactionID]bool{}, map[transcript.CompactionID]int{}
	for _, p := range b.payloads(id) {
		if u, ok := p.(threads.CompactionUpdated); ok {
			begun[u.Record.CompactionID] = true
			if u.Record.Terminal() {
				ends[u.Record.CompactionID]++
			}
		}
	}
	for c := range begun {
		if ends[c] != 1 {
			t.Errorf("compaction %s has %d ends:\n%s", c, ends[c], b.log(id))
		}
	}
	checkPairs(t, b, "", id)
}

// Until the provider has answered the compaction goes on: inputs wait, a second start
// returns it, and a server that stops meanwhile leaves it to the next one.
func TestInputsWaitWhileACompactionIsAskedFor(t *testing.T) {
	e := newEngine()
	b, id, ack := lost(t, e)
	asking, answer := make(chan struct{}, 8), make(chan struct{})
	e.recover = func(ctx context.Context, _ adapters.Unfinished) (adapters.NativeResult, error) {
		asking <- struct{}{}
		select {
		case <-answer:
			return adapters.NativeResult{Form: "engine"}, nil
		case <-ctx.Done():
			return adapters.NativeResult{}, ctx.Err()
		}
	}
	b.open()
	<-asking
	first := b.start(id, "first")
	if !first.Queued || b.read(id).Status != threads.StatusActive {
		t.Errorf("the input is %+v", first)
	}
	again, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil || again.Record.CompactionID != ack.Record.CompactionID {
		t.Errorf("a second start: %v, %s", err, mustJSON(t, again.Record))
	}
	b.restart()
	<-asking
	if r := b.records(id); r[0].Terminal() {
		t.Fatalf("the server stopped and claims %s", outcomes(r))
	}
	close(answer)
	b.await(id, ended(first.Turn.ID))
	if s := outcomes(b.records(id)); s != "manual completed" {
		t.Errorf("records %s", s)
	}
	endsOnce(t, b, id)
}

// Who does not want to wait gets an honest end.
func TestAskingForACompactionCanBeStopped(t *testing.T) {
	for _, how := range []string{"interrupt", "cancel", "delete"} {
		t.Run(how, func(t *testing.T) {
			e := newEngine()
			b, id, ack := lost(t, e)
			asking := make(chan struct{})
			e.recover = func(ctx context.Context, _ adapters.Unfinished) (adapters.NativeResult, error) {
				close(asking)
				<-ctx.Done()
				return adapters.NativeResult{}, ctx.Err()
			}
			b.open()
			<-asking
			switch how {
			case "interrupt":
				b.must(b.svc.InterruptTurn(t.Context(), id, ack.Record.TurnID))
			case "cancel":
				_, err := b.svc.CancelCompaction(t.Context(), id, ack.Record.CompactionID)
				b.must(err)
			case "delete":
				b.must(b.svc.DeleteThread(t.Context(), id))
				return
			}
			b.await(id, ended(ack.Record.TurnID))
			if s := outcomes(b.records(id)); s != "manual uncertain(nativeUncertain)" {
				t.Errorf("records %s", s)
			}
			endsOnce(t, b, id)
		})
	}
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// A session that does not obey is abandoned; what it was compacting is asked for, and
// what it says later counts no more.
func TestAnAbandonedCompactionIsAskedFor(t *testing.T) {
	e := newEngine()
	reached, free, returned := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var once sync.Once
	e.compact = func(context.Context, adapters.CompactInput, adapters.Host) (adapters.NativeResult, error) {
		defer once.Do(func() { close(returned) })
		close(reached)
		<-free
		return adapters.NativeResult{Form: "late"}, nil
	}
	e.recover = func(context.Context, adapters.Unfinished) (adapters.NativeResult, error) {
		return adapters.NativeResult{}, adapters.ErrNotCompacted
	}
	b := driving(t, e, func(c *threads.Config) { c.StopAfter = 20 * time.Millisecond })
	id := b.create()
	b.said(id, "hello")
	ack, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	b.must(err)
	<-reached
	b.must(b.svc.InterruptTurn(t.Context(), id, ack.Record.TurnID))
	b.await(id, ended(ack.Record.TurnID))
	if s := outcomes(b.records(id)); s != "manual failed(notCompacted)" {
		t.Errorf("records %s", s)
	}
	close(free)
	<-returned
	b.said(id, "the thread goes on")
	if s := outcomes(b.records(id)); s != "manual failed(notCompacted)" {
		t.Errorf("records %s", s)
	}
	endsOnce(t, b, id)
}

// A fresh session, where the provider has forgotten the one that compacted, is not asked
// about it: that it knows of no compaction would say nothing.
func TestAFreshSessionIsNotAskedAboutACompaction(t *testing.T) {
	e := newEngine()
	b, id, ack := lost(t, e, func(c *threads.Config) { c.Providers[0].AutoRebase = true })
	e.recover = func(context.Context, adapters.Unfinished) (adapters.NativeResult, error) {
		t.Error("it is asked")
		return adapters.NativeResult{}, adapters.ErrNotCompacted
	}
	e.opens = func(p adapters.OpenParams) error {
		if p.NativeID != "" {
			return adapters.ErrNoSession
		}
		return nil
	}
	e.names = func(adapters.OpenParams) string { return "another" }
	b.open()
	b.await(id, ended(ack.Record.TurnID))
	if s := outcomes(b.records(id)); s != "manual uncertain(nativeUncertain)" {
		t.Errorf("records %s", s)
	}
	b.said(id, "the thread goes on")
	endsOnce(t, b, id)
}
