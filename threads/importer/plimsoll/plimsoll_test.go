package plimsoll_test

import (
	"bytes"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/importer/plimsoll"
	"github.com/plimsoll-dev/plimsoll/threads/importer/session"
)

func all[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}

func write(t rapid.TB, h plimsoll.Header, events []plimsoll.Event, blobs [][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := plimsoll.Write(&out, h, all(events), all(blobs)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestExportsComeBackByteForByte includes data that JSON encoders rewrite: white
// space, escapes, key order, large numbers, and bytes that are no JSON at all.
func TestExportsComeBackByteForByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.OneOf(
			rapid.SampledFrom([]string{`{"b":1,"a":2}`, `{"html":"<&>\u003c"}`, "{\n\t\"x\": 1\n}", ` [1]`, `12345678901234567890.10`, `"\ud800"`, `null`, `not json`, "\x00\xff", ``, "\u2028"}),
			rapid.StringN(0, 40, -1))
		events := []plimsoll.Event{}
		for range rapid.IntRange(1, 8).Draw(t, "events") {
			ev := plimsoll.Event{Type: rapid.String().Draw(t, "type"), AtMs: rapid.Int64().Draw(t, "at")}
			if rapid.Bool().Draw(t, "has data") {
				ev.Data = []byte(data.Draw(t, "data"))
			}
			events = append(events, ev)
		}
		blobs := rapid.SliceOfN(rapid.SliceOf(rapid.Byte()), 0, 3).Draw(t, "blobs")
		h := plimsoll.Header{ThreadID: "t", Title: rapid.String().Draw(t, "title"), CreatedAtMs: 1, Extra: []byte(`{"x":[1]}`)}
		f, err := plimsoll.Read(bytes.NewReader(write(t, h, events, blobs)), session.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(events, f.Events); diff != "" {
			t.Fatalf("events differ (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(h, f.Header); diff != "" || len(f.Warnings) > 0 {
			t.Fatalf("header differs, or warnings %v:\n%s", f.Warnings, diff)
		}
		for _, b := range blobs {
			found := false
			for _, got := range f.Blobs {
				found = found || bytes.Equal(b, got)
			}
			if !found {
				t.Fatalf("blob of %d bytes is missing", len(b))
			}
		}
	})
}

func sample(t *testing.T) []byte {
	t.Helper()
	return write(t, plimsoll.Header{ThreadID: "t1", Title: "x"},
		[]plimsoll.Event{{Type: "a", AtMs: 1, Data: []byte(`{"n":1}`)}, {Type: "b", AtMs: 2, Data: []byte(`{"n":2}`)}, {Type: "c", AtMs: 3}},
		[][]byte{[]byte("blob bytes")})
}

func TestACutOffExportYieldsAPrefixAndAWarning(t *testing.T) {
	raw := sample(t)
	whole, err := plimsoll.Read(bytes.NewReader(raw), session.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(raw) - 1 { // without its final line feed the file is whole
		f, err := plimsoll.Read(bytes.NewReader(raw[:n]), session.Limits{})
		if err != nil {
			if fault.CodeOf(err) != fault.Invalid {
				t.Fatalf("cut at %d: %v", n, err)
			}
			continue
		}
		if len(f.Warnings) != 1 {
			t.Errorf("cut at %d: warnings %v", n, f.Warnings)
		}
		if diff := cmp.Diff(whole.Events[:len(f.Events)], f.Events, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("cut at %d: no prefix:\n%s", n, diff)
		}
	}
}

// TestDamageInTheMiddleIsAnError: events build on each other, so that an export
// with a hole must not look like a thread.
func TestDamageInTheMiddleIsAnError(t *testing.T) {
	raw := string(sample(t))
	for name, c := range map[string]struct{ file, word string }{
		"a broken line":      {strings.Replace(raw, `{"n":2}`, `{"n":2`, 1), "line 3"},
		"an unknown line":    {strings.Replace(raw, `{"type":"b"`, `{"kind":"b"`, 1), "line 3"},
		"a missing event":    {strings.Replace(raw, `{"type":"b","at":2,"data":{"n":2}}`+"\n", "", 1) + "\n{}\n", "line 5"},
		"a changed blob":     {strings.Replace(raw, `"base64":"Ymxv`, `"base64":"Qmxv`, 1), "line 5"},
		"text after the end": {raw + "{}\n", "after its end"},
		"a newer version":    {strings.Replace(raw, `"version":1`, `"version":2`, 1), "versions 1 to 1"},
		"another header":     {strings.Replace(raw, `"export"`, `"diary"`, 1), "header"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plimsoll.Read(strings.NewReader(c.file), session.Limits{})
			if fault.CodeOf(err) != fault.Invalid || !strings.Contains(fault.MessageOf(err), c.word) {
				t.Errorf("error %v, want an invalid fault with %q", err, c.word)
			}
		})
	}
}

func TestAMissingEventAtTheEndIsNoticed(t *testing.T) {
	raw := strings.Replace(string(sample(t)), `{"type":"c","at":3}`+"\n", "", 1)
	f, err := plimsoll.Read(strings.NewReader(raw), session.Limits{})
	if err != nil || len(f.Events) != 2 || len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0].Reason, "counts 3 events") {
		t.Errorf("%v, %+v", err, f)
	}
}

func TestALineOverTheLimitIsRefused(t *testing.T) {
	if _, err := plimsoll.Read(bytes.NewReader(sample(t)), session.Limits{MaxRecord: 40}); fault.CodeOf(err) != fault.TooLarge {
		t.Errorf("error %v, want tooLarge", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestWriteReturnsTheErrorsOfItsParts(t *testing.T) {
	broken := errors.New("disk full")
	failing := func(yield func(plimsoll.Event, error) bool) { yield(plimsoll.Event{}, broken) }
	if err := plimsoll.Write(&bytes.Buffer{}, plimsoll.Header{}, failing, all([][]byte{})); !errors.Is(err, broken) {
		t.Errorf("events: %v", err)
	}
	if err := plimsoll.Write(failingWriter{broken}, plimsoll.Header{}, all([]plimsoll.Event{}), all([][]byte{})); !errors.Is(err, broken) {
		t.Errorf("writer: %v", err)
	}
}
