package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// over serves a script on what is read from r, and returns what is written.
func over(t *testing.T, r io.Reader, h Handler) string {
	t.Helper()
	var out bytes.Buffer
	if err := Serve(t.Context(), Lines(r, &out, func() error { return nil }), h, Options{MaxWaiting: 1000}); err != nil {
		t.Error(err)
	}
	return out.String()
}

func TestLinesEndWithALineFeedOnly(t *testing.T) {
	in := `{"id":1,"method":"m","params":"` + "\u2028\u2029\u0085" + `"}` + "\r\n" +
		"\n \n\r\n" + // a blank is no JSON, nothing is nothing
		`{"id":2,"method":"m","params":"\u000b"}` + "\r" + `{}` + "\n" +
		`{"id":3,"method":"m","params":"without an end"}`
	want := `{"id":1,"result":"` + "\u2028\u2029\u0085" + `"}` + "\n" +
		`{"id":null,"error":{"code":-32700,"message":"Parse error: a frame is one JSON text in UTF-8"}}` + "\n" +
		`{"id":null,"error":{"code":-32700,"message":"Parse error: a frame is one JSON text in UTF-8"}}` + "\n" +
		`{"id":3,"result":"without an end"}` + "\n"
	for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in)), iotest.DataErrReader(strings.NewReader(in))} {
		got := strings.SplitAfter(over(t, r, &script{}), "\n")
		if got := strings.Join(sortedByID(got), ""); got != strings.Join(sortedByID(strings.SplitAfter(want, "\n")), "") {
			t.Errorf("got\n%s", got)
		}
	}
}

// sortedByID orders answers: those of the reader overtake those of a lane.
func sortedByID(lines []string) []string {
	var ids, nulls []string
	for _, l := range lines {
		if strings.HasPrefix(l, `{"id":null`) {
			nulls = append(nulls, l)
		} else {
			ids = append(ids, l)
		}
	}
	return append(ids, nulls...)
}

func TestALineOfAnySizeDoesNotEndTheConnection(t *testing.T) {
	request := func(id string, size int) string {
		s := `{"id":` + id + `,"method":"m","params":""}`
		return s[:len(s)-2] + strings.Repeat("x", size-len(s)) + `"}`
	}
	length := func(_ context.Context, r *Request) { r.Reply(len(r.Params)) }
	for _, c := range []struct {
		size int
		ends string
		fits bool
	}{
		{MaxFrame, "\n", true},
		{MaxFrame, "\r\n", true},
		{MaxFrame, "", true},
		{MaxFrame + 1, "\n", false},
		{MaxFrame + 1, "\r\n", false},
		{MaxFrame + 1, "", false},
		{2*MaxFrame + 7, "\n", false},
	} {
		in := request("1", c.size) + c.ends
		if c.ends != "" {
			in += `{"id":2,"method":"m","params":[]}`
		}
		got := over(t, strings.NewReader(in), &script{req: length})
		if fits := strings.Contains(got, fmt.Sprintf(`{"id":1,"result":%d}`, c.size-len(`{"id":1,"method":"m","params":}`))); fits != c.fits {
			t.Errorf("%d bytes and %q: %.200s", c.size, c.ends, got)
		}
		if refused := strings.Contains(got, `{"id":null,"error":{"code":-32700`); refused == c.fits {
			t.Errorf("%d bytes and %q: %.200s", c.size, c.ends, got)
		}
		if c.ends != "" && !strings.Contains(got, `{"id":2,"result":2}`) {
			t.Errorf("%d bytes and %q: not alive: %.200s", c.size, c.ends, got)
		}
	}
}

var exes = bytes.Repeat([]byte("x"), 64<<10)

// An endless reader is one long line, and then a request.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	const last = "\n" + `{"id":1,"method":"m"}`
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	for done := 0; done < n; {
		done += copy(p[done:n], exes)
	}
	if e.left -= n; e.left == 0 {
		copy(p[n-len(last):], last)
	}
	return n, nil
}

func TestALongLineIsNotKept(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := over(t, &endless{left: 12*MaxFrame - 100}, &script{})
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 8*MaxFrame {
		t.Errorf("%d MiB", taken>>20)
	}
	if strings.Count(got, "\n") != 2 || !strings.Contains(got, `{"id":1,"result":null}`) {
		t.Error(got)
	}
}

func TestWhatTheHandlerGetsIsItsOwn(t *testing.T) {
	var in strings.Builder
	var want, got []string
	var mu sync.Mutex
	keep := map[string][]byte{}
	for i := range 100 {
		n := fmt.Sprint(i)
		fmt.Fprintf(&in, `{"id":%s,"result":%s}`+"\n"+`{"id":0,"method":"m","params":%s}`+"\n"+`{"method":"m","params":%s}`+"\n", n, n, n, n)
		want = append(want, n, n, n, n)
	}
	note := func(kind string, b []byte) {
		mu.Lock()
		defer mu.Unlock()
		keep[kind+" "+string(b)] = b
	}
	over(t, strings.NewReader(in.String()), &script{
		req:    func(_ context.Context, r *Request) { note("request", r.Params); r.Reply(1) },
		note:   func(_ context.Context, _ string, params json.RawMessage) { note("notification", params) },
		answer: func(id, result json.RawMessage, _ *Error) { note("id", id); note("result", result) },
	})
	for kind, b := range keep {
		_, n, _ := strings.Cut(kind, " ")
		if n != string(b) {
			t.Fatalf("%s became %s", kind, b)
		}
		got = append(got, n)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d of %d", len(got), len(want))
	}
}

func TestEachFrameIsOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out bytes.Buffer
		l := Lines(strings.NewReader(""), &out, func() error { return nil }).(*lines)
		frames := rapid.SliceOf(rapid.Map(rapid.StringMatching(`[\na ]{0,9}`), func(s string) []byte { return []byte(s) })).Draw(t, "frames")
		if rapid.Bool().Draw(t, "long") {
			frames = append(frames, bytes.Repeat([]byte("x\n"), pieceBytes))
		}
		if err := l.writeBatch(frames, func() {}); err != nil {
			t.Fatal(err)
		}
		var want []byte
		for _, f := range frames {
			want = append(append(want, bytes.ReplaceAll(f, []byte("\n"), []byte(" "))...), '\n')
		}
		if !bytes.Equal(out.Bytes(), want) {
			t.Fatalf("%q", out.Bytes())
		}
	})
}

// A scribbler counts the writes.
type scribbler struct {
	bytes.Buffer
	writes int
	err    error
}

func (s *scribbler) Write(p []byte) (int, error) {
	s.writes++
	if s.err != nil {
		return 0, s.err
	}
	return s.Buffer.Write(p)
}

func TestFramesThatWaitAreWrittenAtOnce(t *testing.T) {
	var out scribbler
	r, w := io.Pipe()
	c := NewConn(Lines(r, &out, r.Close), Options{})
	for i := range 100 {
		if err := c.Send(t.Context(), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	_ = w.Close()
	if err := c.Serve(t.Context(), &script{}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "\n"); got != 100 || out.writes != 1 {
		t.Errorf("%d lines in %d writes", got, out.writes)
	}
}

func TestAWriteErrorEndsStandardIO(t *testing.T) {
	broken := errors.New("broken pipe")
	r, w := io.Pipe()
	c := NewConn(Lines(r, &scribbler{err: broken}, r.Close), Options{})
	if err := c.Send(t.Context(), []byte(`1`)); err != nil {
		t.Fatal(err)
	}
	if err := c.Serve(t.Context(), &script{}); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := w.Write([]byte("x")); err == nil {
		t.Error("not closed")
	}
}

// TestLateAnswersAreStillWritten: standard input may end before the answer is
// known, also if the handler has returned.
func TestLateAnswersAreStillWritten(t *testing.T) {
	later := make(chan *Request, 1)
	go func() { (<-later).Reply("late") }()
	got := over(t, strings.NewReader(`{"id":1,"method":"m"}`), &script{req: func(_ context.Context, r *Request) { later <- r }})
	if got != `{"id":1,"result":"late"}`+"\n" {
		t.Errorf("%q", got)
	}
}

// TestStandardIOThatBlocksIsLeft: nothing makes a read of it return.
func TestStandardIOThatBlocksIsLeft(t *testing.T) {
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = inR.Fd(), outW.Fd() // they block from now on, as those of the process do
	ctx, cancel := context.WithCancel(t.Context())
	p := &peer{t: t, Transport: Lines(outR, inW, outR.Close), done: make(chan error, 1)}
	p.conn = NewConn(Lines(inR, outW, nil), Options{})
	go func() { p.done <- p.conn.Serve(ctx, &script{}) }()
	p.alive()
	big := bytes.Repeat([]byte("x"), 1<<20)
	if err := p.conn.Send(ctx, big); err != nil { // nobody reads it
		t.Fatal(err)
	}
	cancel()
	if err := <-p.done; err != nil {
		t.Error(err)
	}
	for _, f := range []*os.File{inW, outR, inR, outW} { // what was left behind ends
		_ = f.Close()
	}
}
