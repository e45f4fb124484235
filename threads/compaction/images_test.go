package compaction

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
	"pgregory.net/rapid"
)

func imagePart(blob string) transcript.Part {
	return transcript.Part{Type: transcript.PartImage, Blob: blob, MediaType: "image/png"}
}

// screens is F24: n screenshots as results of calls, after a request with an image.
func screens(n int) []transcript.Entry {
	entries := []transcript.Entry{withID("ask", 1, transcript.UserMessage{Content: []transcript.Part{{Type: transcript.PartText, Text: "make it look so"}, imagePart("goal")}})}
	for i := range n {
		id := fmt.Sprint(i)
		entries = append(entries, withID("c"+id, 1, call(id, "screenshot", `{}`)),
			withID("r"+id, 1, transcript.ToolResult{CallID: transcript.CallID(id), Output: []transcript.Part{{Type: transcript.PartText, Text: "at " + id}, imagePart("shot" + id)}}))
	}
	return entries
}

func sized(n int) func(string) int { return func(string) int { return n } }

// P086: 42 screenshots of 800 KB over a limit of 32 MB: the oldest go, as many as
// must, and their items stay.
func TestTheOldestImagesAreStripped(t *testing.T) {
	entries := screens(42)
	kept, freed := StripImages(entries, nil, 43*800_000-32_000_000*8/10, sized(800_000))
	if len(kept) != 11 || freed != 11*800_000 {
		t.Fatalf("%d items, %d bytes", len(kept), freed)
	}
	for i, k := range kept {
		want := transcript.Kept{ItemID: transcript.ItemID(fmt.Sprintf("r%d", i)), Form: transcript.FormClipped, Text: fmt.Sprintf("at %d\n[image left out to save bytes: image/png]", i)}
		if d := cmp.Diff(want, k); d != "" {
			t.Error(d)
		}
		if it := transcript.Render(entries[2+2*i].Item, k); transcript.Images(it.Body) != 0 || it.Body.(transcript.ToolResult).CallID != transcript.CallID(fmt.Sprint(i)) {
			t.Errorf("%+v", it.Body)
		}
	}
}

// P087: where nothing can be stripped nothing is, and the caller is told.
func TestWithoutImagesNothingIsStripped(t *testing.T) {
	for name, c := range map[string]struct {
		entries []transcript.Entry
		excess  int
		size    int
	}{
		"talk":             {script("u a c1 r1", 5, 4_000), 1_000, 800},
		"not in a request": {screens(5), 1_000, 0},
		"nothing too much": {screens(5), 0, 800},
		"empty":            {nil, 1_000, 800},
	} {
		if kept, freed := StripImages(c.entries, nil, c.excess, sized(c.size)); len(kept) > 0 || freed != 0 {
			t.Errorf("%s: %d items, %d bytes", name, len(kept), freed)
		}
	}
}

func TestTheLastRequestAndWhatIsOpenLoseTheirImagesLast(t *testing.T) {
	entries := screens(3)
	open := map[transcript.ItemID]bool{"r0": true}
	order := func(excess int) (ids []transcript.ItemID) {
		kept, _ := StripImages(entries, open, excess, sized(10))
		for _, k := range kept {
			ids = append(ids, k.ItemID)
		}
		return ids
	}
	for excess, want := range map[int][]transcript.ItemID{
		1: {"r1"}, 11: {"r1", "r2"}, 21: {"ask", "r1", "r2"}, 31: {"ask", "r0", "r1", "r2"}, 1_000: {"ask", "r0", "r1", "r2"},
	} {
		if d := cmp.Diff(want, order(excess)); d != "" {
			t.Errorf("%d bytes: %s", excess, d)
		}
	}
	kept, freed := StripImages([]transcript.Entry{withID("i", 1, transcript.Image{Blob: "b", MediaType: "image/gif", Path: "a.gif"})}, nil, 5, sized(10))
	if freed != 10 || kept[0].Text != "[image left out to save bytes: image/gif]\na.gif" {
		t.Errorf("%d bytes, %+v", freed, kept)
	}
}

// Stripping is enough or takes all there is, in order, each item once; done again on
// its result it finds only what it left.
func TestStrippingOverAnyContext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := contexts(t, "g")
		for i := range entries {
			if m, ok := entries[i].Item.Body.(transcript.UserMessage); ok && rapid.Bool().Draw(t, "image") {
				m.Content = append(m.Content, imagePart(fmt.Sprint(i)), imagePart("x"))
				entries[i].Item.Body = m
			}
		}
		size := func(blob string) int { return 10 + 7*len(blob) }
		excess := rapid.IntRange(-5, 400).Draw(t, "excess")
		kept, freed := StripImages(entries, nil, excess, size)
		if len(kept) == 0 && freed != 0 {
			t.Fatal("freed by nothing")
		}
		left, next, sum := 0, 0, 0
		for _, e := range entries {
			n := imageBytes(e.Item.Body, size)
			if next < len(kept) && kept[next].ItemID == e.Item.ID {
				body := transcript.Render(e.Item, kept[next]).Body
				if sum += n; transcript.Images(body) != 0 || strings.Count(transcript.Text(body), "[image left out") < 1 {
					t.Fatalf("%s shows as %+v", e.Item.ID, body)
				}
				next++
				continue
			}
			left += n
		}
		if next != len(kept) || sum != freed || freed < excess && left > 0 {
			t.Fatalf("%d of %d items in order, %d of %d bytes freed, %d left", next, len(kept), freed, excess, left)
		}
		entries = overlay(entries, &Composed{Prune: kept})
		if _, more := StripImages(entries, nil, 1<<30, size); more != left {
			t.Fatalf("%d bytes are left, and %d are found", left, more)
		}
	})
}
