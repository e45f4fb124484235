package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/sse"
)

const bound = 1 << 20

// read returns the events of a stream as name|id|data, and its error.
func read(r io.Reader, max int) (got []string, err error) {
	for e, fail := range sse.Read(r, max) {
		if fail != nil {
			err = fail
			if !errors.Is(fail, io.ErrUnexpectedEOF) || e.Data == nil && e.Name == "" {
				break
			}
		}
		got = append(got, fmt.Sprintf("%s|%s|%s", e.Name, e.ID, e.Data))
	}
	return got, err
}

var streams = []struct {
	name, in string
	want     []string
	err      error
}{
	{"one event", "data: a\n\n", []string{"||a"}, nil},
	{"nothing", "", nil, nil},
	{"only blank lines", "\n\r\n\r\r", nil, nil},
	{"carriage returns", "data: a\r\rdata: b\r\r", []string{"||a", "||b"}, nil},
	{"both", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"||a", "||b"}, nil},
	{"a mixture", "data: a\r\n\rdata: b\n\r\ndata: c\r\n\n", []string{"||a", "||b", "||c"}, nil},
	{"an LF after a CR ends no line of its own", "data: a\r\ndata: b\r\n\r\n", []string{"||a\nb"}, nil},
	{"many lines", "data: a\ndata:\ndata: c\n\n", []string{"||a\n\nc"}, nil},
	{"an empty line of data is an event", "data\n\ndata:\n\n", []string{"||", "||"}, nil},
	{"one blank is cut", "data:a\n\ndata:  b \n\n", []string{"||a", "|| b "}, nil},
	{"names", "event: error\ndata: {}\n\ndata: x\n\n", []string{"error||{}", "||x"}, nil},
	{"the id stays", "id: 7\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []string{"|7|a", "|7|b", "||c"}, nil},
	{"an id with a NUL is ignored", "id: 7\nid: 8\x00\ndata: a\n\n", []string{"|7|a"}, nil},
	{"an event without data is none", "event: ping\n\nid: 3\n\ndata: a\n\n", []string{"|3|a"}, nil},
	{"comments and unknown fields", ": OPENROUTER PROCESSING\n\nretry: 10\nfoo: bar\n:\ndata: a\n\n", []string{"||a"}, nil},
	{"a BOM", "\ufeffdata: a\n\n", []string{"||a"}, nil},
	{"a BOM elsewhere is part of the field's name", "\n\ufeffdata: a\n\n", nil, nil},
	{"half a BOM", "\xef\xbb", nil, nil},
	{"colons in the data", "data: {\"a\": 1}\n\n", []string{`||{"a": 1}`}, nil},
	{"the end marker is data", "data: [DONE]\n\n", []string{"||[DONE]"}, nil},
	{"bytes that are no UTF-8 pass", "data: \xff\x00\n\n", []string{"||\xff\x00"}, nil},

	{"no blank line at the end", "data: a\n\ndata: [DONE]\n", []string{"||a", "||[DONE]"}, io.ErrUnexpectedEOF},
	{"no end of the last line", "data: [DONE]", []string{"||[DONE]"}, io.ErrUnexpectedEOF},
	{"cut after a CR", "data: a\r", []string{"||a"}, io.ErrUnexpectedEOF},
	{"cut in a name", "event: err", []string{"err||"}, io.ErrUnexpectedEOF},
	{"cut in a comment", "data: a\n\n: keep", []string{"||a"}, nil},
	{"cut in an unknown field", "data: a\n\nretry: 1", []string{"||a"}, nil},
}

// Each stream is read whole, byte by byte, and with the error beside the last
// bytes, as HTTP bodies do.
func TestRead(t *testing.T) {
	t.Parallel()
	for _, c := range streams {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for how, r := range map[string]io.Reader{
				"whole":       strings.NewReader(c.in),
				"in bytes":    iotest.OneByteReader(strings.NewReader(c.in)),
				"in halves":   iotest.HalfReader(strings.NewReader(c.in)),
				"error early": iotest.DataErrReader(strings.NewReader(c.in)),
			} {
				got, err := read(r, bound)
				if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, c.err) {
					t.Errorf("%s: error %v, want %v; events (-want +got):\n%s", how, err, c.err, diff)
				}
			}
		})
	}
}

func TestReadDeliversBeforeTheNextByteComes(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r\n", "\r\n\r"} {
		r, w := io.Pipe()
		go func() { _, _ = w.Write([]byte("data: a" + end)) }() // ends when the reader is closed
		for e, err := range sse.Read(r, bound) {
			if err != nil || string(e.Data) != "a" {
				t.Errorf("after %q: %q, %v", end, e.Data, err)
			}
			break
		}
		r.Close()
	}
}

func TestReadEndsWithTheErrorOfTheReader(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset")
	got, err := read(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(reset)), bound)
	if diff := cmp.Diff([]string{"||a"}, got); diff != "" || !errors.Is(err, reset) {
		t.Errorf("error %v; events (-want +got):\n%s", err, diff)
	}
	if _, err := read(stuck{}, bound); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that brings nothing: %v", err)
	}
}

// stuck is a reader that never brings anything.
type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestReadHoldsItsBound(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"a line without an end": "data: " + strings.Repeat("x", 200),
		"a line":                "data: " + strings.Repeat("x", 200) + "\n\n",
		"lines of one event":    strings.Repeat("data: "+strings.Repeat("x", 40)+"\n", 3) + "\n",
		"a comment":             ":" + strings.Repeat("x", 200) + "\n",
		"empty lines of data":   strings.Repeat("data\n", 200),
	} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			if got, err := read(r, 100); !errors.Is(err, sse.ErrTooLarge) || got != nil {
				t.Errorf("%s: events %q, error %v", name, got, err)
			}
		}
	}
	in := "data: " + strings.Repeat("x", 94) + "\n\n"
	if got, err := read(strings.NewReader(strings.Repeat(in, 50)), 100); err != nil || len(got) != 50 {
		t.Errorf("many events, each within the bound: %d, error %v", len(got), err)
	}
}

func TestReadStops(t *testing.T) {
	t.Parallel()
	n := 0
	for _, err := range sse.Read(strings.NewReader("data: a\n\ndata: b\n\n"), bound) {
		if n++; err != nil {
			t.Error(err)
		}
		break
	}
	if n != 1 {
		t.Errorf("%d events after a break", n)
	}
}

// pieces hands out a stream in pieces of n bytes.
type pieces struct {
	r io.Reader
	n int
}

func (p pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.n)]) }

// Eight times the length takes about eight times as long. The best of some runs is
// compared, with room for a busy machine; quadratic work would be 64.
func TestReadIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures")
	}
	for name, stream := range map[string]func(n int) []byte{
		"one line":     func(n int) []byte { return []byte("data: " + strings.Repeat("x", n) + "\n\n") },
		"one event":    func(n int) []byte { return []byte(strings.Repeat("data: 0123456789\n", n/17) + "\n") },
		"many events":  func(n int) []byte { return []byte(strings.Repeat("data: 0123456789\n\n", n/18)) },
		"only CRs":     func(n int) []byte { return bytes.Repeat([]byte("\r"), n) },
		"a long start": func(n int) []byte { return []byte("data: " + strings.Repeat("x", n/2) + strings.Repeat("\r", n/2)) },
	} {
		const size = 256 << 10
		if ratio := best(stream(8*size)).Seconds() / best(stream(size)).Seconds(); ratio > 30 {
			t.Errorf("%s: eight times the bytes took %.1f times as long", name, ratio)
		}
	}
}

func best(stream []byte) time.Duration {
	best := time.Hour
	for range 3 {
		start := time.Now()
		for _, err := range sse.Read(pieces{bytes.NewReader(stream), 1 << 10}, 64<<20) {
			if err != nil {
				panic(err)
			}
		}
		best = min(best, time.Since(start))
	}
	return best
}

// FuzzRead holds that the pieces in which a stream arrives, and the way its lines
// end, change nothing.
func FuzzRead(f *testing.F) {
	for _, c := range streams {
		f.Add([]byte(c.in), 3)
	}
	f.Fuzz(func(t *testing.T, stream []byte, n int) {
		const bound = 64
		want, wantErr := read(bytes.NewReader(stream), bound)
		got, err := read(pieces{bytes.NewReader(stream), max(1, n)}, bound)
		if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("in pieces of %d: %v, whole: %v (-whole +pieces):\n%s", n, err, wantErr, diff)
		}
		if bytes.ContainsRune(stream, '\r') {
			return
		}
		crlf := bytes.ReplaceAll(stream, []byte("\n"), []byte("\r\n"))
		got, err = read(bytes.NewReader(crlf), bound)
		if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("with CRLF: %v, with LF: %v (-LF +CRLF):\n%s", err, wantErr, diff)
		}
		for _, e := range got {
			if len(e) > 3*bound+2 {
				t.Errorf("an event of %d bytes", len(e))
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	chunk := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 80) + `"}}]}` + "\n\n"
	stream := []byte(strings.Repeat(chunk, 10_000))
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range sse.Read(bytes.NewReader(stream), bound) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
