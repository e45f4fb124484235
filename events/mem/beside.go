package mem

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/plimsoll-dev/plimsoll/events"
)

// PutOpen implements events.Journal.
func (j *Journal) PutOpen(ctx context.Context, name string, open events.OpenText) error {
	t, err := j.lockLiving(ctx, name)
	if err != nil {
		return err
	}
	defer j.mu.Unlock()
	for i := range t.open {
		if t.open[i].Item == open.Item {
			t.open[i] = open
			return nil
		}
	}
	t.open = append(t.open, open)
	return nil
}

// Open implements events.Journal.
func (j *Journal) Open(ctx context.Context, name string) ([]events.OpenText, error) {
	if err := j.lock(ctx); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	if t, ok := j.threads[name]; ok {
		return append([]events.OpenText{}, t.open...), nil
	}
	return []events.OpenText{}, nil
}

// Blob implements events.Journal.
func (j *Journal) Blob(ctx context.Context, hash string) ([]byte, error) {
	if err := j.lock(ctx); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	data, ok := j.blobs[hash]
	if !ok {
		return nil, fmt.Errorf("blob %s: %w", hash, events.ErrNotFound)
	}
	return append([]byte{}, data...), nil
}

// PutSnapshot implements events.Journal.
func (j *Journal) PutSnapshot(ctx context.Context, name string, s events.Snapshot) error {
	t, err := j.lockLiving(ctx, name)
	if err != nil {
		return err
	}
	defer j.mu.Unlock()
	if s.Seq < 1 || s.Seq > t.info.Head {
		return fmt.Errorf("%w: snapshot at %d, the head is %d", events.ErrInvalid, s.Seq, t.info.Head)
	}
	if t.snap == nil || s.Seq >= t.snap.Seq {
		s.Data = append([]byte{}, s.Data...)
		t.snap = &s
	}
	return nil
}

// Snapshot implements events.Journal.
func (j *Journal) Snapshot(ctx context.Context, name string) (events.Snapshot, error) {
	if err := j.lock(ctx); err != nil {
		return events.Snapshot{}, err
	}
	defer j.mu.Unlock()
	t, ok := j.threads[name]
	if !ok || t.snap == nil {
		return events.Snapshot{}, fmt.Errorf("snapshot of %s: %w", name, events.ErrNotFound)
	}
	s := *t.snap
	s.Data = bytes.Clone(s.Data)
	return s, nil
}

// Trim implements events.Journal.
func (j *Journal) Trim(ctx context.Context, name string, seq int64) error {
	t, err := j.lockLiving(ctx, name)
	if err != nil {
		return err
	}
	defer j.mu.Unlock()
	if seq < t.info.Oldest {
		return nil
	}
	if t.snap == nil || seq > t.snap.Seq {
		return fmt.Errorf("trim %s up to %d: %w", name, seq, events.ErrNoSnapshot)
	}
	n := seq - t.info.Oldest + 1
	j.trimmed = max(j.trimmed, t.events[n-1].Pos)
	t.events = slices.Clone(t.events[n:])
	t.info.Oldest = seq + 1
	j.all = slices.DeleteFunc(j.all, func(e events.Event) bool { return e.Thread == name && e.Seq <= seq })
	return nil
}

// Index implements events.Journal.
func (j *Journal) Index(ctx context.Context, name string, upTo int64, docs []events.Doc) error {
	t, err := j.lockLiving(ctx, name)
	if err != nil {
		return err
	}
	defer j.mu.Unlock()
	if upTo < 0 || upTo > t.info.Head {
		return fmt.Errorf("%w: index up to %d, the head is %d", events.ErrInvalid, upTo, t.info.Head)
	}
	for _, d := range docs {
		if i := slices.IndexFunc(t.docs, func(o events.Doc) bool { return o.Ref == d.Ref }); i >= 0 {
			t.docs[i] = d
		} else {
			t.docs = append(t.docs, d)
		}
	}
	t.indexed = upTo
	return nil
}

// IndexedTo implements events.Journal.
func (j *Journal) IndexedTo(ctx context.Context, name string) (int64, error) {
	t, err := j.lockThread(ctx, name)
	if err != nil {
		return 0, err
	}
	defer j.mu.Unlock()
	return t.indexed, nil
}

// Search implements events.Journal.
func (j *Journal) Search(ctx context.Context, name, query string, limit int) ([]events.Hit, error) {
	t, err := j.lockThread(ctx, name)
	if err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	terms := events.QueryTerms(query)
	var docs []events.Doc
	var matches []events.Match
	for i := len(t.docs) - 1; i >= 0 && len(terms) > 0; i-- {
		if m, ok := matchDoc(t.docs[i].Text, terms); ok {
			docs, matches = append(docs, t.docs[i]), append(matches, m)
		}
	}
	events.Rank(matches, len(t.docs))
	hits := []events.Hit{}
	for i, m := range matches {
		hits = append(hits, events.Hit{Ref: docs[i].Ref, Snippet: events.Snippet(docs[i].Text, terms), Score: m.Score})
	}
	slices.SortStableFunc(hits, func(a, b events.Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits[:min(max(limit, 0), len(hits))], nil
}

func matchDoc(text string, terms []events.Term) (m events.Match, any bool) {
	var tokens []string
	events.Tokens(text, func(token string, _, _ int) bool {
		tokens = append(tokens, token)
		return true
	})
	m = events.Match{Counts: make([]int, len(terms)), Length: len(tokens)}
	for i, term := range terms {
		for at := 0; at+len(term) <= len(tokens); at++ {
			if slices.Equal(tokens[at:at+len(term)], term) {
				m.Counts[i]++
				any = true
			}
		}
	}
	return m, any
}
