package main

import (
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestEventStreamIsReadAsTheFormatSays(t *testing.T) {
	t.Parallel()
	src := ": hello\r\nid: j.1\r\ndata: one\r\n\r\n" +
		"data: two\ndata: lines\n\n" +
		"id: j.3\n\n" + // no data: nothing is dispatched
		"event: x\nretry: 5\ndata:three\n\n" +
		"data: " + strings.Repeat("x", 200_000) + "\n\n" +
		"id: j.9\ndata: cut off\n"
	var got []string
	for ev, err := range sseEvents(iotest.OneByteReader(strings.NewReader(src))) {
		if err != nil {
			t.Fatal(err)
		}
		data := string(ev.data)
		if len(data) > 100 {
			data = data[:5]
		}
		got = append(got, ev.id+" "+data)
	}
	want := []string{"j.1 one", " two\nlines", " three", " xxxxx"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEventStreamReportsABrokenConnection(t *testing.T) {
	t.Parallel()
	n, failed := 0, false
	for _, err := range sseEvents(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("data: x\n\n")))) {
		if failed = err != nil; !failed {
			n++
		}
	}
	if n != 0 || !failed {
		t.Errorf("%d events, failed %t; want an error only", n, failed)
	}
}
