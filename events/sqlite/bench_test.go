package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/events"
)

func benchJournal(b *testing.B) *Journal {
	j, err := Open(filepath.Join(b.TempDir(), "plimsoll.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := j.Close(); err != nil {
			b.Error(err)
		}
	})
	return j
}

func BenchmarkAppend(b *testing.B) {
	j := benchJournal(b)
	data := []byte(`"` + strings.Repeat("x", 1000) + `"`)
	b.ReportAllocs()
	head := int64(0)
	for b.Loop() {
		var err error
		a := events.Append{Thread: "a", Expect: head, Events: []events.Event{{Type: "t", Data: data}}}
		if head, err = j.Append(context.Background(), a); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadPage(b *testing.B) {
	j := benchJournal(b)
	data := []byte(`"` + strings.Repeat("x", 1000) + `"`)
	a := events.Append{Thread: "a"}
	for range 256 {
		a.Events = append(a.Events, events.Event{Type: "t", Data: data})
	}
	if _, err := j.Append(context.Background(), a); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if evs, err := j.Read(context.Background(), "a", 0, 256); err != nil || len(evs) != 256 {
			b.Fatal(len(evs), err)
		}
	}
}

// BenchmarkSearch looks for two of many words in one of 50 threads with 500
// documents of 100 words each.
func BenchmarkSearch(b *testing.B) {
	j := benchJournal(b)
	ctx := context.Background()
	r := rand.New(rand.NewPCG(1, 2))
	word := func() string { return fmt.Sprint("word", int(1000*r.Float64()*r.Float64())) }
	for t := range 50 {
		thread := fmt.Sprint("t", t)
		if _, err := j.Append(ctx, events.Append{Thread: thread, Events: []events.Event{{Type: "t", Data: []byte("1")}}}); err != nil {
			b.Fatal(err)
		}
		var docs []events.Doc
		for d := range 500 {
			var text strings.Builder
			for range 100 {
				text.WriteString(word() + " ")
			}
			docs = append(docs, events.Doc{Ref: fmt.Sprint(d), Text: text.String()})
		}
		if err := j.Index(ctx, thread, 1, docs); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if hits, err := j.Search(ctx, "t7", "word3 word700", 10); err != nil || len(hits) != 10 {
			b.Fatal(len(hits), err)
		}
	}
}
