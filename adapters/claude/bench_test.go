package claude

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// What the adapter costs per turn and per delta, with a peer on the pipe whose lines are
// made beforehand, so that only the adapter is measured. The issue allows 1 ms per turn,
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

// ready opens a session whose peer answers each message with the same lines; UUID in
// them stands for the message's.
func ready(tb testing.TB, lines []string) adapters.Session {
	tb.Helper()
	o := Options{Env: []string{"HOME=" + tb.TempDir()}, LeaseDir: tb.TempDir()}
	o.dial = func(context.Context, []string) (child.Conn, error) {
		ours, theirs := child.Pipe()
		go answering(theirs, lines)
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

func between(s, before, after string) string {
	_, rest, _ := strings.Cut(s, before)
	part, _, _ := strings.Cut(rest, after)
	return part
}

func answering(conn child.Conn, lines []string) {
	ctx := context.Background()
	for {
		line, err := conn.Next()
		if err != nil {
			return
		}
		in := string(line)
		if strings.Contains(in, `"type":"control_request"`) {
			answer := `{"type":"control_response","response":{"subtype":"success","request_id":"` + between(in, `"request_id":"`, `"`) + `","response":{"commands":[{"name":"compact"}]}}}`
			if conn.Send(ctx, []byte(answer)) != nil {
				return
			}
			continue
		}
		uuid := between(in, `"uuid":"`, `"`)
		for _, l := range lines {
			if strings.Contains(l, "UUID") {
				l = strings.ReplaceAll(l, "UUID", uuid)
			}
			if conn.Send(ctx, []byte(l)) != nil {
				return
			}
		}
	}
}

// turnLines is a turn whose answer streams in n deltas.
func turnLines(n int) []string {
	event := func(e string) string {
		return `{"type":"stream_event","event":` + e + `,"session_id":"5fe45079-be74-4eb3-abfd-a6da72b6629a","parent_tool_use_id":null,"uuid":"0fe45079-be74-4eb3-abfd-a6da72b6629a"}`
	}
	lines := []string{
		`{"type":"command_lifecycle","command_uuid":"UUID","state":"started"}`,
		event(`{"type":"message_start","message":{"id":"msg_1","model":"claude-x","content":[],"usage":{"input_tokens":9,"output_tokens":1}}}`),
		event(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
	}
	for range n {
		lines = append(lines, event(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" twenty bytes of it."}}`))
	}
	return append(lines,
		`{"type":"assistant","parent_tool_use_id":null,"message":{"id":"msg_1","model":"claude-x","role":"assistant","content":[{"type":"text","text":"`+strings.Repeat(" twenty bytes of it.", n)+`"}]}}`,
		event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":9,"output_tokens":30}}`),
		event(`{"type":"message_stop"}`),
		`{"type":"result","subtype":"success","is_error":false,"result":"","terminal_reason":"completed","user_message_uuids":["UUID"],"modelUsage":{"claude-x":{"inputTokens":9,"outputTokens":30,"contextWindow":200000}}}`,
		`{"type":"command_lifecycle","command_uuid":"UUID","state":"completed"}`)
}

func runs(tb testing.TB, s adapters.Session, h *sink) {
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
	if each := (int64(heapOf()) - int64(before)) / sessions; each > limit {
		t.Errorf("a session that has had a turn of 2,000 deltas holds %d bytes", each)
	} else {
		t.Logf("%d bytes per session", each)
	}
	runtime.KeepAlive(all)
}
