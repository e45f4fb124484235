package events_test

import (
	"testing"

	"github.com/plimsoll-dev/plimsoll/events"
)

func FuzzParseCursor(f *testing.F) {
	for _, s := range []string{
		"", ".", "abcd0123.0", "abcd0123.9223372036854775807", "abcd0123.9223372036854775808", "abcd0123.-1",
		"abcd0123.+1", "abcd0123.01", "abcd0123.1.2", "ABCD0123.1", "abcd012.1", "abcd0123 .1", "abcd0123.1\n", "ábcd012.1", "abcd0123.٣",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := events.ParseCursor(s)
		if err != nil {
			if c != (events.Cursor{}) {
				t.Errorf("%q: %v together with %+v", s, err, c)
			}
			return
		}
		if c.N < 0 || c.String() != s {
			t.Errorf("%q is read as %+v and written as %q", s, c, c)
		}
	})
}

func TestParseCursorReadsWhatStringWrites(t *testing.T) {
	seen := map[string]bool{}
	for n := range int64(1000) {
		c := events.Cursor{Journal: events.NewID(), N: n * n * n * n}
		if got, err := events.ParseCursor(c.String()); err != nil || got != c {
			t.Fatalf("%+v: got %+v, %v", c, got, err)
		}
		if seen[c.Journal] {
			t.Fatalf("id %s came twice", c.Journal)
		}
		seen[c.Journal] = true
	}
}

func TestParseCursorRefusesEverythingElse(t *testing.T) {
	for _, s := range []string{
		"", "abcd0123", "abcd0123.", ".1", "abcd0123.-1", "abcd0123.+1", "abcd0123.01", "abcd0123.1.2",
		"ABCD0123.1", "abcd01234.1", "abcd0123.9223372036854775808", " abcd0123.1", "abcd-123.1",
	} {
		if c, err := events.ParseCursor(s); err == nil {
			t.Errorf("%q is read as %+v", s, c)
		}
	}
}
