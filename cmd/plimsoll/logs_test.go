package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestALineThatRepeatsIsHeldBackAndCounted(t *testing.T) {
	var out bytes.Buffer
	q := newQuiet(slog.NewTextHandler(&out, nil))
	at := time.Unix(1_000_000, 0)
	say := func(h slog.Handler, text string, args ...any) {
		r := slog.NewRecord(at, slog.LevelWarn, text, 0)
		r.Add(args...)
		if err := h.Handle(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	lines := func() int {
		n := strings.Count(out.String(), "\n")
		return n
	}
	for range 5000 {
		say(q, "the disk is slow", "thread", "a")
	}
	if n := lines(); n != logBurst {
		t.Errorf("%d of 5,000 equal lines were written, want %d", n, logBurst)
	}
	say(q, "the disk is slow", "thread", "b")
	say(q.WithAttrs([]slog.Attr{slog.String("of", "x")}), "the disk is slow", "thread", "a")
	if n := lines(); n != logBurst+2 {
		t.Errorf("lines that differ were held back: %s", out.String())
	}
	at = at.Add(logWindow)
	say(q, "the disk is slow", "thread", "a")
	if want := fmt.Sprintf("held_back=%d", 5000-logBurst); !strings.Contains(out.String(), want) {
		t.Errorf("no line says %s", want)
	}
	at = at.Add(logWindow)
	out.Reset()
	for i := range 3 * logKinds {
		say(q, fmt.Sprint("line ", i))
	}
	if n := lines(); n != 3*logKinds || len(q.said.lines) > logKinds {
		t.Errorf("%d lines of %d that differ, %d are remembered", n, 3*logKinds, len(q.said.lines))
	}
}
