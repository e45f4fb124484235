package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// What the adapter costs per turn and per delta, with a peer on the pipe whose lines are
// made beforehand, so that only the adapter is measured. The bounds are 1 ms per turn,
// 20 µs per delta and 2 MB per session.

// A sink is a host that keeps nothing.
type sink struct {
	adapters.Host
	n int
}

func (h *sink) Emit(context.Context, ...adapters.Update) error { return nil }

func (h *sink) NewItemID() transcript.ItemID {
	h.n++
	return transcript.ItemID(fmt.Sprintf("item-%d", h.n))
}

// turnLines is a turn whose answer streams in n deltas; TURN stands for its id.
func turnLines(n int) []string {
	note := func(method, params string) string {
		return `{"method":"` + method + `","params":{"threadId":"` + threadID + `",` + params + `},"emittedAtMs":1}`
	}
	lines := []string{
		note("turn/started", `"turn":{"id":"TURN","items":[],"status":"inProgress","error":null}`),
		note("item/started", `"turnId":"TURN","item":{"type":"agentMessage","id":"msg_1","text":""}`),
	}
	for range n {
		lines = append(lines, note("item/agentMessage/delta", `"turnId":"TURN","itemId":"msg_1","delta":" twenty bytes of it."`))
	}
	return append(lines,
		note("item/completed", `"turnId":"TURN","item":{"type":"agentMessage","id":"msg_1","text":"`+strings.Repeat(" twenty bytes of it.", n)+`"}`),
		note("thread/tokenUsage/updated", `"turnId":"TURN","tokenUsage":{"total":{"totalTokens":39,"inputTokens":9,"outputTokens":30},"last":{"totalTokens":39,"inputTokens":9,"outputTokens":30},"modelContextWindow":95000}`),
		note("turn/completed", `"turn":{"id":"TURN","items":[],"status":"completed","error":null}`))
}

// prepared answers each turn with the same lines, and everything else as the double.
func prepared(conn child.Conn, lines []string) {
	ctx, turns := context.Background(), 0
	d := &double{conn: conn, store: newStore(nil, nil), thread: threadID}
	for {
		line, err := conn.Next()
		if err != nil {
			return
		}
		var f frame
		if err := json.Unmarshal(line, &f); err != nil {
			return
		}
		if f.Method != "turn/start" {
			d.request(string(f.ID), f.Method, f.Params)
			continue
		}
		turns++
		turn := fmt.Sprintf("turn-%d", turns)
		d.say(`{"id":%s,"result":{"turn":{"id":%q,"items":[],"status":"inProgress","error":null}}}`, f.ID, turn)
		for _, l := range lines {
			if conn.Send(ctx, []byte(strings.Replace(l, "TURN", turn, 1))) != nil {
				return
			}
		}
	}
}

func ready(tb testing.TB, lines []string) adapters.Session {
	tb.Helper()
	o := Options{LeaseDir: tb.TempDir()}
	o.dial = func(context.Context) (child.Conn, error) {
		ours, theirs := child.Pipe()
		go prepared(theirs, lines)
		return ours, nil
	}
	s, err := New(o).Open(context.Background(), adapters.OpenParams{Thread: "t"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func runs(tb testing.TB, s adapters.Session, h *sink) {
	tb.Helper()
	in := adapters.TurnInput{Turn: "turn", Input: transcript.TextParts("hello"), Approval: "on-request", Sandbox: "read-only"}
	if _, err := s.Run(context.Background(), in, h); err != nil {
		tb.Fatal(err)
	}
}

func BenchmarkTurn(b *testing.B) {
	s, h := ready(b, turnLines(1)), &sink{}
	b.ReportAllocs()
	for b.Loop() {
		runs(b, s, h)
	}
}

func BenchmarkDelta(b *testing.B) {
	const deltas = 2000
	s, h := ready(b, turnLines(deltas)), &sink{}
	b.ReportAllocs()
	for b.Loop() {
		runs(b, s, h)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/deltas, "ns/delta")
}

// heapOf is what is reachable.
func heapOf() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

func TestASessionNeedsLittleMemory(t *testing.T) {
	const sessions, limit = 20, 2 << 20
	before := heapOf()
	var all []adapters.Session
	lines := turnLines(2000)
	for range sessions {
		s := ready(t, lines)
		runs(t, s, &sink{})
		all = append(all, s)
	}
	each := (int64(heapOf()) - int64(before)) / sessions
	if each > limit {
		t.Errorf("a session that has had a turn of 2,000 deltas holds %d bytes", each)
	}
	t.Logf("%d bytes per session", each)
	runtime.KeepAlive(all)
}
