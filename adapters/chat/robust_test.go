package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/httpx"
)

// events splits a recorded stream after each of its events, lines or, of one that
// is a single value, in the middle.
func events(rec recording) []string {
	sep := "\n\n"
	if rec.pl.p.native {
		sep = "\n"
	}
	if strings.HasPrefix(rec.stream, "{") && !rec.pl.p.native {
		return []string{rec.stream[:len(rec.stream)/2], rec.stream[len(rec.stream)/2:]}
	}
	return strings.SplitAfter(rec.stream, sep)
}

// complete reports whether what came of a stream is a whole answer.
func complete(chunks []adapters.Chunk) bool {
	if len(chunks) == 0 {
		return false
	}
	_, is := chunks[len(chunks)-1].(adapters.Done)
	return is
}

// saysEnd reports whether a part of a stream says that the answer is over: a reason
// that is not null, [DONE], or the native done.
func saysEnd(part string) bool {
	return strings.Contains(part, `"finish_reason": "`) || strings.Contains(part, "[DONE]") || strings.Contains(part, `"done": true`)
}

func TestAStreamThatEndsEarlyIsNeverAWholeAnswer(t *testing.T) {
	n := 0
	for _, rec := range recordings(t) {
		parts := events(rec)
		for i := range parts {
			head := strings.Join(parts[:i], "")
			// Also in the middle of the event after it.
			for _, stream := range []string{head, head + parts[i][:len(parts[i])/2]} {
				_, chunks, err := listen(t, rec.pl, strings.NewReader(stream))
				n++
				if whole := complete(chunks); whole == (err != nil) {
					t.Errorf("%s after %d events: done %v and the error %v", rec.name, i, whole, err)
				} else if whole && !saysEnd(stream) {
					t.Errorf("%s after %d events is a whole answer, and nobody said so:\n%s", rec.name, i, stream)
				}
				if err != nil {
					noCalls(t, rec.name, chunks)
				}
			}
		}
	}
	if n < 500 {
		t.Errorf("only %d places to end at", n)
	}
}

// noCalls checks that nothing is called by an answer that failed.
func noCalls(t *testing.T, name string, chunks []adapters.Chunk) {
	t.Helper()
	for _, c := range chunks {
		if _, is := c.(adapters.CallChunk); is {
			t.Errorf("%s: an answer that failed calls a tool", name)
		}
	}
}

func TestAStreamThatIsCutWithAnErrorAfterItsEndIsWhole(t *testing.T) {
	stream := `data: {"choices":[{"delta":{"content":"Hi."},"finish_reason":"stop"}]}` + "\n\n"
	reset := io.MultiReader(strings.NewReader(stream), brokenReader{})
	lines, _, err := listen(t, planOf(t, ""), reset)
	if err != nil || len(lines) != 2 {
		t.Errorf("got %q and %v, want the answer: it was complete", lines, err)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, fmt.Errorf("connection reset") }

// FuzzStream: whatever a server sends, an answer ends with Done or with an error,
// its calls have ids, its texts are valid UTF-8, and nothing hangs.
func FuzzStream(f *testing.F) {
	for _, rec := range recordings(f) {
		f.Add(rec.pl.p.native, rec.stream)
	}
	f.Fuzz(func(t *testing.T, native bool, stream string) {
		pl := planOf(t, "window: 1000\nmax: 100")
		pl.p.native, pl.p.silent, pl.p.blank = native, true, native
		_, chunks, err := listen(t, pl, strings.NewReader(stream))
		if complete(chunks) == (err != nil) {
			t.Fatalf("done %v and the error %v", complete(chunks), err)
		}
		ids := map[string]bool{}
		for _, c := range chunks {
			switch c := c.(type) {
			case adapters.CallChunk:
				if id := string(c.Call.CallID); id == "" || ids[id] {
					t.Fatalf("the id %q is empty or used twice", id)
				} else {
					ids[id] = true
				}
			case adapters.MessageText:
				if !utf8.ValidString(c.Text) {
					t.Fatalf("text %q", c.Text)
				}
			case adapters.UsageChunk:
				if c.Usage.InputTokens < c.Usage.CachedInputTokens || c.Usage.OutputTokens < 0 {
					t.Fatalf("usage %+v", c.Usage)
				}
			}
		}
	})
}

// FuzzPieces: the same call in any pieces is the same call.
func FuzzPieces(f *testing.F) {
	f.Add(`{"path":"a\\b \" 🚢","n":[1,2,{"x":null}]}`, 3)
	f.Add(`{}`, 1)
	f.Fuzz(func(t *testing.T, args string, size int) {
		if !json.Valid([]byte(args)) || !utf8.ValidString(args) || size <= 0 {
			t.Skip()
		}
		var b strings.Builder
		head := `{"index":0,"id":"c","function":{"name":"read","arguments":%s}}`
		for rest := args; rest != ""; head = `{"index":0,"function":{"arguments":%s}}` {
			n := min(size, len(rest))
			for n < len(rest) && !utf8.RuneStart(rest[n]) {
				n++
			}
			piece, _ := json.Marshal(rest[:n])
			fmt.Fprintf(&b, `data: {"choices":[{"delta":{"tool_calls":[`+head+`]}}]}`+"\n\n", piece)
			rest = rest[n:]
		}
		b.WriteString("data: [DONE]\n\n")
		_, chunks, err := listen(t, planOf(t, ""), strings.NewReader(b.String()))
		if err != nil || len(chunks) != 3 { // the call, that nobody counted, the end
			t.Fatalf("%d chunks, error %v", len(chunks), err)
		}
		if c, is := chunks[0].(adapters.CallChunk); !is || string(c.Call.Arguments) != args {
			t.Fatalf("got %+v, want the arguments %s", chunks[0], args)
		}
	})
}

// bigCall is a stream with one call of that many bytes in pieces of 1 KB, whose
// name comes with every piece if repeat is set.
func bigCall(size int, repeat bool) []byte {
	var b bytes.Buffer
	name := `"name":"write",`
	fmt.Fprintf(&b, `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{%s"arguments":"{\"text\":\""}}]}}]}`+"\n\n", name)
	if !repeat {
		name = ""
	}
	piece := strings.Repeat("0123456789abcde ", 64)
	for n := 0; n < size; n += len(piece) {
		fmt.Fprintf(&b, `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{%s"arguments":"%s"}}]}}]}`+"\n\n", name, piece)
	}
	b.WriteString(`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n")
	return b.Bytes()
}

// TestABigToolArgumentCostsLinearWork counts bytes: those that the decoder reads
// again, and those that are allocated.
func TestABigToolArgumentCostsLinearWork(t *testing.T) {
	for _, repeat := range []bool{false, true} {
		measure := func(size int) (moved, allocated int) {
			stream := bigCall(size, repeat)
			m, err := New(Options{BaseURL: "http://localhost:1/v1"})
			if err != nil {
				t.Fatal(err)
			}
			var got int
			r := &run{Model: m, cancel: func() {}, yield: func(c adapters.Chunk, _ error) bool {
				if call, is := c.(adapters.CallChunk); is {
					got = len(call.Call.Arguments)
				}
				return true
			}}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d := m.newDecoder(planOf(t, ""))
			if err := r.read(d, io.NopCloser(bytes.NewReader(stream))); err != nil {
				t.Fatal(err)
			}
			moved = d.calls.moved
			if err := r.end(planOf(t, ""), d, nil); err != nil || got < size {
				t.Fatalf("%d bytes of arguments, error %v", got, err)
			}
			runtime.ReadMemStats(&after)
			return moved, int(after.TotalAlloc - before.TotalAlloc)
		}
		half, halfMemory := measure(5 << 18)
		whole, wholeMemory := measure(10 << 18)
		if whole > 22*half/10 {
			t.Errorf("2.5 MB cost %d bytes of reading, half of it %d: more than twice as much", whole, half)
		}
		if wholeMemory > 23*halfMemory/10 {
			t.Errorf("2.5 MB cost %d bytes of memory, half of it %d: more than twice as much", wholeMemory, halfMemory)
		}
	}
}

func BenchmarkBigToolArgument(b *testing.B) {
	for _, mb := range []int{5, 10} {
		b.Run(fmt.Sprintf("%dMB", mb), func(b *testing.B) {
			stream := bigCall(mb<<20, false)
			pl := planOf(b, "")
			b.SetBytes(int64(len(stream)))
			for b.Loop() {
				if _, _, err := listen(b, pl, bytes.NewReader(stream)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestWhatAServerSendsIsBounded(t *testing.T) {
	text := func(s string) string {
		return `data: {"choices":[{"delta":{"content":"` + s + `"}}]}` + "\n\n"
	}
	many := func(n int, f func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(f(i))
		}
		return b.String()
	}
	small := limits{line: 4 << 10, text: 8 << 10, args: 8 << 10, calls: 4, name: 100}
	piece := strings.Repeat("x", 1000)
	for name, stream := range map[string]string{
		"a line":   text(strings.Repeat("x", 5<<10)),
		"an event": "data: {\n" + many(10, func(int) string { return "data: " + piece + "\n" }) + "\n",
		"the text": many(20, func(int) string { return text(piece) }),
		"thoughts": many(20, func(int) string { return `data: {"choices":[{"delta":{"reasoning":"` + piece + `"}}]}` + "\n\n" }),
		"arguments": many(20, func(int) string {
			return `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"` + piece + `"}}]}}]}` + "\n\n"
		}),
		"an object": many(20, func(i int) string {
			return fmt.Sprintf(`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":{"k%d":"%s"}}}]}}]}`+"\n\n", i, piece)
		}),
		"calls": many(9, func(i int) string {
			return fmt.Sprintf(`data: {"choices":[{"delta":{"tool_calls":[{"index":%d,"function":{"name":"read"}}]}}]}`+"\n\n", i)
		}),
		"a name": many(9, func(i int) string {
			return fmt.Sprintf(`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"%d%s"}}]}}]}`+"\n\n", i, piece[:50])
		}),
		"one value": `{"choices":[{"message":{"content":"` + strings.Repeat("x", 5<<10) + `"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			m, err := New(Options{BaseURL: "http://localhost:1/v1"})
			if err != nil {
				t.Fatal(err)
			}
			size := 0
			r := &run{Model: m, cancel: func() {}, yield: func(c adapters.Chunk, _ error) bool {
				size += len(describe(c))
				return true
			}}
			m.lim = small
			err = r.listen(context.Background(), planOf(t, ""), httpx.Request{}, io.NopCloser(strings.NewReader(stream+"data: [DONE]\n\n")))
			e, is := errors.AsType[*adapters.Error](err)
			if !is || !strings.Contains(e.Message, "too large") || e.Class != adapters.ClassServer {
				t.Errorf("got %v, want an error that it is too large", err)
			}
			if size > small.text+small.args {
				t.Errorf("%d bytes were given out", size)
			}
		})
	}
}
