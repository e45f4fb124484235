package compaction

import (
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// StripImages makes a context smaller by bytes, not by tokens: it replaces the
// oldest images by markers until images with at least excess bytes are gone, and
// returns the items that change, in order, as they are to be shown. size returns the
// bytes of an image in a request, by the hash of its blob. An image that is in no
// request (size 0) stays. The images of an item go together; those of open items and
// of the last message of the user go last. Freed is what all of it saves: less than
// excess if there is not enough to strip.
//
// It is what a request needs that the provider refused as too many bytes (413), or
// that is over the provider's limit of bytes: no compaction, no boundary, and no call
// of a model.
func StripImages(entries []transcript.Entry, open map[transcript.ItemID]bool, excess int, size func(blob string) int) (kept []transcript.Kept, freed int) {
	last := lastRequest(entries)
	strip := map[int]bool{}
	for _, newest := range []bool{false, true} {
		for i := range entries {
			it := &entries[i].Item
			if freed >= excess {
				break
			}
			if (open[it.ID] || i == last) != newest {
				continue
			}
			if n := imageBytes(it.Body, size); n > 0 {
				strip[i], freed = true, freed+n
			}
		}
	}
	for i := range entries {
		if strip[i] {
			kept = append(kept, transcript.Kept{ItemID: entries[i].Item.ID, Form: transcript.FormClipped, Text: withoutImages(entries[i].Item.Body)})
		}
	}
	return kept, freed
}

// lastRequest is the index of the last message of the user, −1 if there is none.
func lastRequest(entries []transcript.Entry) int {
	for i, e := range slices.Backward(entries) {
		if m, ok := e.Item.Body.(transcript.UserMessage); ok && !isInterruption(transcript.PartsText(m.Content)) {
			return i
		}
	}
	return -1
}

// imageBytes is what the images of a body weigh.
func imageBytes(b transcript.Body, size func(blob string) int) int {
	parts := []transcript.Part(nil)
	switch b := b.(type) {
	case transcript.UserMessage:
		parts = b.Content
	case transcript.ToolResult:
		parts = b.Output
	case transcript.Image:
		return size(b.Blob)
	default:
	}
	n := 0
	for _, p := range parts {
		if p.Type == transcript.PartImage {
			n += size(p.Blob)
		}
	}
	return n
}

// withoutImages is the text of a body with a marker for each image.
func withoutImages(b transcript.Body) string {
	var texts []string
	switch b := b.(type) {
	case transcript.UserMessage:
		texts = partTexts(b.Content)
	case transcript.ToolResult:
		texts = partTexts(b.Output)
	case transcript.Image:
		texts = []string{imageMark(b.MediaType)}
		if b.Path != "" {
			texts = append(texts, b.Path)
		}
	default:
	}
	return strings.ToValidUTF8(strings.Join(texts, "\n"), "\uFFFD")
}

func partTexts(parts []transcript.Part) []string {
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.Type == transcript.PartImage {
			texts = append(texts, imageMark(p.MediaType))
		} else {
			texts = append(texts, p.Text)
		}
	}
	return texts
}

// imageMark stands for an image that is left out.
func imageMark(mediaType string) string {
	return strings.TrimSpace("[image left out to save bytes: "+oneLine(mediaType, 40)) + "]"
}

// Lightened is the record of a prune by StripImages, from its beginning to its end: it
// has no phases of its own, because nothing is written and nobody is asked. The sizes
// are estimates in tokens.
func (r Record) Lightened(entries []transcript.Entry, kept []transcript.Kept, before int, w Window, at int64) (Record, transcript.Prune) {
	r.Phase, r.Outcome, r.Route = PhaseTerminal, new(Completed), new(RouteLocal)
	r.StartedAt, r.CompletedAt = &at, &at
	r.RetainedTurnIDs, r.Items = append([]transcript.TurnID{}, turnsOf(entries)...), &ItemCounts{}
	short, after := map[transcript.ItemID]transcript.Kept{}, before
	for _, k := range kept {
		short[k.ItemID] = k
		r.PrunedItemIDs = append(r.PrunedItemIDs, k.ItemID)
	}
	for i := range entries {
		e := &entries[i]
		if k, ok := short[e.Item.ID]; ok {
			r.Items.add(k.Form)
			after -= transcript.Estimate(e.Item.Body) - transcript.Estimate(transcript.Render(e.Item, k).Body)
		} else {
			r.Items.add(e.Form)
		}
	}
	r.Ruler = RulerMeter
	r.Before = &Measure{Tokens: before, Window: optional(w.Tokens), WindowSource: optional(w.Source), Source: SourceEstimate}
	r.After = &Measure{Tokens: max(after, 0), Window: optional(w.Tokens), WindowSource: optional(w.Source), Source: SourceEstimate}
	return r, transcript.Prune{Epoch: r.Epoch, CompactionID: r.CompactionID, Kept: kept}
}
