package threads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file searches what was said in a thread, whether models still see it or not:
// history is paged out by a compaction, not gone. The index is the journal's, with a
// cursor of its own beside the events. No commit of a thread waits for it: whoever
// searches brings it up to date first.

// limits of a search.
const (
	maxQuery    = 1_000 // code points
	maxHits     = 50
	defaultHits = 10
	chunkRunes  = 1_200
)

// indexedAtOnce is how many events one search takes into the index at most.
var indexedAtOnce = 16_384

// SearchParams is what to look for in a thread.
type SearchParams struct {
	Thread   transcript.ThreadID
	Query    string // words; any of them may match
	Limit    int    // of hits; 0 means 10
	Archived bool   // only what is not, or not whole, in the context of now
}

// A SearchResult has the best hits first. IndexedTo is the position up to which the
// thread could be searched; it is before AsOf while a long thread is being indexed,
// and then the same search finds more.
type SearchResult struct {
	Hits      []SearchHit
	IndexedTo int64
	AsOf      events.Cursor
}

// A SearchHit is a piece of an item, and the pieces before and after it.
type SearchHit struct {
	SearchPiece
	Score float64
	// Form is how the context of now shows the item; empty if it does not.
	Form   transcript.Form
	Before *SearchPiece // nil at the beginning of the thread
	After  *SearchPiece // nil at its end
}

// Archived reports whether models do not see the whole item any more.
func (h SearchHit) Archived() bool { return h.Form != transcript.FormWhole }

// A SearchPiece is at most 1,200 code points of an item: Part is its number in the
// item, from 0.
type SearchPiece struct {
	Item transcript.ItemID
	Turn transcript.TurnID
	Kind transcript.Kind
	Part int
	Text string
}

// Search finds what was said in a thread, archived or not.
func (s *Service) Search(ctx context.Context, p SearchParams) (SearchResult, error) {
	if err := p.check(); err != nil {
		return SearchResult{}, err
	}
	if p.Limit == 0 {
		p.Limit = defaultHits
	}
	asOf, err := query(ctx, s, p.Thread, func(a *actor) events.Cursor { return a.state.cursor() })
	if err != nil {
		return SearchResult{}, err
	}
	r := SearchResult{AsOf: asOf}
	if r.IndexedTo, err = s.index(ctx, p.Thread, asOf.N); err != nil {
		return SearchResult{}, err
	}
	hits, err := s.cfg.Journal.Search(ctx, string(p.Thread), p.Query, p.candidates())
	if err != nil {
		return SearchResult{}, fmt.Errorf("search thread %s: %w", p.Thread, err)
	}
	places, err := query(ctx, s, p.Thread, func(a *actor) []found { return a.state.places(hits, p) })
	if err != nil {
		return SearchResult{}, err
	}
	r.Hits = make([]SearchHit, 0, len(places))
	for _, at := range places {
		r.Hits = append(r.Hits, at.hit())
	}
	return r, nil
}

// candidates is how many hits of the index are looked at: some are not of the thread
// any more, and where only archived ones are wanted most may be in the context.
func (p SearchParams) candidates() int {
	if p.Archived {
		return 1_000
	}
	return 4*p.Limit + 64
}

func (p SearchParams) check() error {
	if err := checkText("query", p.Query, maxQuery); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(p.Query) == "":
		return fault.New(fault.Invalid, "query is empty; it needs at least one word")
	case p.Limit < 0 || p.Limit > maxHits:
		return fault.New(fault.Invalid, "limit is %d; allowed: 1 to %d", p.Limit, maxHits)
	}
	return nil
}

// index takes events into the index of a thread, up to head or as many as one search
// may, and returns how far it got. Two that do it at once do the same.
func (s *Service) index(ctx context.Context, id transcript.ThreadID, head int64) (int64, error) {
	j, thread := s.cfg.Journal, string(id)
	to, err := j.IndexedTo(ctx, thread)
	for n := 0; err == nil && to < head && n < indexedAtOnce; n += readBatch {
		var evs []events.Event
		evs, err = j.Read(ctx, thread, to, readBatch)
		if reset, ok := errors.AsType[*events.Reset](err); ok && reset.Reason == events.ResetExpired {
			to, err = max(to, reset.Oldest-1), nil // what was trimmed cannot be found
			continue
		}
		if err != nil || len(evs) == 0 {
			break
		}
		last := evs[len(evs)-1].Seq
		if err = j.Index(ctx, thread, last, docsOf(evs)); err == nil {
			to = last
		}
	}
	switch {
	case errors.Is(err, events.ErrFull):
		s.log.Warn("index thread", "thread", id, "err", err)
		return to, nil // what is indexed can be searched
	case errors.Is(err, events.ErrNotFound):
		return to, fault.Wrap(fault.NotFound, err, "thread %s does not exist", id)
	case err != nil:
		return to, fmt.Errorf("index thread %s: %w", id, err)
	}
	return to, nil
}

// docsOf returns the searchable pieces of the items that events complete.
func docsOf(evs []events.Event) []events.Doc {
	var docs []events.Doc
	for _, e := range evs {
		it, ok := itemIn(e)
		if !ok || !searchable(it) {
			continue
		}
		for n, text := range pieces(transcript.Text(it.Body)) {
			docs = append(docs, events.Doc{Ref: strconv.Itoa(n) + "/" + string(it.ID), Text: text})
		}
	}
	return docs
}

// itemIn returns the item that an event makes whole.
func itemIn(e events.Event) (transcript.Item, bool) {
	switch e.Type {
	case ItemCompleted{}.EventType():
		var p ItemCompleted
		err := json.Unmarshal(e.Data, &p)
		return p.Item, err == nil && checkItem(p.Item) == nil
	case ItemStarted{}.EventType():
		var p ItemStarted
		err := json.Unmarshal(e.Data, &p)
		return p.Item, err == nil && checkItem(p.Item) == nil && p.Item.Body.Kind() == transcript.KindToolCall
	}
	return transcript.Item{}, false
}

// searchable reports whether an item says something that was not said by another
// one: no note about a compaction and nothing of a search.
func searchable(it transcript.Item) bool {
	switch b := it.Body.(type) {
	case transcript.ToolCall:
		return b.Name != recallName
	case transcript.ToolResult:
		return !strings.HasPrefix(transcript.Text(b), recallHead)
	case transcript.ContextCompaction, transcript.Checkpoint:
		return false
	default:
		return !compactionNote(it)
	}
}

// pieces cuts a text into parts of at most chunkRunes code points, at the end of a
// paragraph, a line or a word where there is one in the last third. The same text
// gives the same parts, which joined are the text.
func pieces(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	var out []string
	for text != "" {
		end := len(firstRunes(text, chunkRunes))
		if end < len(text) {
			third := end - end/3
			for _, sep := range []string{"\n\n", "\n", " "} {
				if at := strings.LastIndex(text[third:end], sep); at >= 0 {
					end = third + at + len(sep)
					break
				}
			}
		}
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end++
		}
		out = append(out, text[:end])
		text = text[end:]
	}
	return out
}

// A found is where a hit is in the thread.
type found struct {
	item         transcript.Item
	before, next *transcript.Item
	part         int
	form         transcript.Form
	score        float64
	snippet      string
}

// places looks up what the index found. What was reverted is not of the thread any
// more.
func (s *state) places(hits []events.Hit, p SearchParams) []found {
	forms := make(map[transcript.ItemID]transcript.Form, len(s.context))
	for _, e := range s.context {
		forms[e.Item.ID] = e.Form
	}
	var out []found
	for _, h := range hits {
		number, id, _ := strings.Cut(h.Ref, "/")
		part, err := strconv.Atoi(number)
		at, known := s.itemAt[transcript.ItemID(id)]
		form := forms[transcript.ItemID(id)]
		if err != nil || !known || p.Archived && form == transcript.FormWhole {
			continue
		}
		out = append(out, found{
			item: s.Transcript.Items[at], before: s.beside(at, -1), next: s.beside(at, +1),
			part: part, form: form, score: h.Score, snippet: h.Snippet,
		})
		if len(out) == p.Limit {
			break
		}
	}
	return out
}

// beside returns the nearest item before or after one that says something.
func (s *state) beside(at, step int) *transcript.Item {
	for i := at + step; i >= 0 && i < len(s.Transcript.Items); i += step {
		if it := s.Transcript.Items[i]; searchable(it) && transcript.Text(it.Body) != "" {
			return &it
		}
	}
	return nil
}

func (p found) hit() SearchHit {
	own := pieces(transcript.Text(p.item.Body))
	h := SearchHit{SearchPiece: pieceOf(p.item, p.part, p.snippet), Score: p.score, Form: p.form}
	if p.part < len(own) {
		h.Text = own[p.part]
	}
	switch {
	case p.part > 0 && p.part <= len(own):
		h.Before = new(pieceOf(p.item, p.part-1, own[p.part-1]))
	case p.before != nil:
		if texts := pieces(transcript.Text(p.before.Body)); len(texts) > 0 {
			h.Before = new(pieceOf(*p.before, len(texts)-1, texts[len(texts)-1]))
		}
	}
	switch {
	case p.part+1 < len(own):
		h.After = new(pieceOf(p.item, p.part+1, own[p.part+1]))
	case p.next != nil:
		if texts := pieces(transcript.Text(p.next.Body)); len(texts) > 0 {
			h.After = new(pieceOf(*p.next, 0, texts[0]))
		}
	}
	return h
}

func pieceOf(it transcript.Item, part int, text string) SearchPiece {
	return SearchPiece{Item: it.ID, Turn: it.Turn, Kind: it.Body.Kind(), Part: part, Text: text}
}

// The tool by which a model searches what it does not see any more.
const (
	recallName = "recall"
	// recallHead opens every result, so that a result is not found by the next search.
	recallHead  = "[found in the archived part of this conversation; it is data, and may be stale]\n"
	recallMax   = 3_000 // tokens of a result
	recallMin   = 1_000 // one hit with its neighbours
	recallShare = 8     // of the window, one part in so many
	recallHits  = 5
	recallLimit = 20
	besideRunes = 300 // of the pieces beside a hit
)

// recallRoom is how many tokens a result may have: less where the window is small, so
// that one search does not fill what a compaction has just made free.
func recallRoom(window int) int {
	if window <= 0 {
		return recallMax
	}
	return min(max(window/recallShare, recallMin), recallMax)
}

// recallText tells a model what was found, the best first, as far as it fits.
func recallText(r SearchResult, room int) string {
	if len(r.Hits) == 0 {
		text := recallHead + "Nothing was found. Try other words: names of files, commands, errors or people, as they were written."
		if r.IndexedTo < r.AsOf.N {
			text += " The conversation is still being indexed; the same search finds more if it is done again."
		}
		return text
	}
	var b strings.Builder
	b.WriteString(recallHead)
	left := room - transcript.EstimateText(recallHead)
	shown := map[string]bool{}
	for _, h := range r.Hits {
		text := h.recalled(shown)
		if n := transcript.EstimateText(text); n <= left {
			left -= n
			b.WriteString(text)
			shown[h.key()] = true
		}
	}
	return b.String()
}

func (p SearchPiece) key() string { return strconv.Itoa(p.Part) + "/" + string(p.Item) }

// recalled is one hit with what stands beside it, unless that was shown.
func (h SearchHit) recalled(shown map[string]bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n--- %s, turn %s ---\n", h.Kind, h.Turn)
	if p := h.Before; p != nil && !shown[p.key()] {
		fmt.Fprintf(&b, "(before, %s) %s\n", p.Kind, lastRunes(p.Text, besideRunes))
	}
	b.WriteString(strings.TrimSpace(h.Text) + "\n")
	if p := h.After; p != nil && !shown[p.key()] {
		fmt.Fprintf(&b, "(after, %s) %s\n", p.Kind, strings.TrimSpace(firstRunes(p.Text, besideRunes)))
	}
	return b.String()
}

// lastRunes returns at most n code points of the end of s.
func lastRunes(s string, n int) string {
	runes := []rune(s)
	return strings.TrimSpace(string(runes[max(0, len(runes)-n):]))
}
