package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/events"
)

// cut stands between runes that are words of their own, so that FTS4 sees them
// so. It is taken out again when text leaves the index.
const cut = '\x1f'

// spread makes the text that FTS4 indexes. NUL would end it.
func spread(text string) string {
	var b strings.Builder
	b.Grow(len(text) + len(text)/8)
	prev := false
	for _, r := range text { // invalid bytes become U+FFFD
		single := events.SpacelessRune(r)
		if single || prev {
			b.WriteRune(cut)
		}
		if prev = single; r == 0 || r == cut {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

func gather(indexed string) string { return strings.ReplaceAll(indexed, string(cut), "") }

// Index implements events.Journal.
func (j *Journal) Index(ctx context.Context, thread string, upTo int64, docs []events.Doc) error {
	spreads := make([]string, len(docs))
	for i, d := range docs {
		spreads[i] = spread(d.Text)
	}
	return j.write(ctx, "index", thread, func(w *writer) error {
		h, err := w.living(thread)
		if err != nil {
			return err
		}
		if upTo < 0 || upTo > h.seq {
			return fmt.Errorf("%w: index up to %d, the head is %d", events.ErrInvalid, upTo, h.seq)
		}
		for i, d := range docs {
			if err := w.indexDoc(h.id, d.Ref, spreads[i]); err != nil {
				return err
			}
		}
		_, err = w.exec("update thread set indexed=? where id=?", upTo, h.id)
		return err
	})
}

func (w *writer) indexDoc(thread int64, ref, text string) error {
	var id int64
	err := w.row("select id from doc_ref where thread=? and ref=?", args(thread, ref), &id)
	switch {
	case err == nil:
		_, err = w.exec("delete from doc where docid=?", id)
	case errors.Is(err, io.EOF):
		var res driver.Result
		if res, err = w.exec("insert into doc_ref(thread, ref) values(?, ?)", thread, ref); err == nil {
			id, err = res.LastInsertId()
		}
	}
	if err != nil {
		return err
	}
	_, err = w.exec("insert into doc(docid, thread, text) values(?, ?, ?)", id, threadToken(thread), text)
	return err
}

// threadToken is the word that all documents of a thread have in their column
// thread. It begins with a rune that FTS4 takes for part of a word and
// events.QueryTerms does not, so that no query can ask for it.
func threadToken(id int64) string { return fmt.Sprintf("\uE000%d", id) }

// IndexedTo implements events.Journal.
func (j *Journal) IndexedTo(ctx context.Context, thread string) (upTo int64, err error) {
	err = j.read(ctx, "read index cursor of "+thread, func(s *session) error {
		return notFound(s.row("select indexed from thread where name=?", args(thread), &upTo))
	})
	return upTo, err
}

type found struct {
	id  int64
	ref string
	events.Match
}

// Search implements events.Journal.
func (j *Journal) Search(ctx context.Context, thread, query string, limit int) ([]events.Hit, error) {
	terms := events.QueryTerms(query)
	hits := []events.Hit{}
	err := j.read(ctx, "search "+thread, func(s *session) error {
		return s.view(func() error {
			_, id, err := s.thread(thread)
			if err != nil || len(terms) == 0 || limit <= 0 {
				return err
			}
			best, err := s.match(ctx, id, terms)
			if err != nil {
				return err
			}
			for _, f := range best[:min(limit, len(best))] {
				var text string
				if err := s.row("select text from doc where docid=?", args(f.id), &text); err != nil {
					return err
				}
				hits = append(hits, events.Hit{Ref: f.ref, Snippet: events.Snippet(gather(text), terms), Score: f.Score})
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return hits, nil
}

// match returns the documents of a thread that have a term, best first.
func (s *session) match(ctx context.Context, thread int64, terms []events.Term) ([]found, error) {
	var docs int64
	if err := s.row("select count(*) from doc_ref where thread=?", args(thread), &docs); err != nil {
		return nil, err
	}
	var all []found
	err := s.each(ctx, `select r.id, r.ref, matchinfo(doc, 'yl') from doc join doc_ref r on r.id = doc.docid where doc match ?`,
		args(matchExpr(thread, terms)), func(v []driver.Value) error {
			var f found
			var info []byte
			if err := scan(v, &f.id, &f.ref, &info); err != nil {
				return err
			}
			if f.Match = matchOf(info, len(terms)); slices.Max(f.Counts) > 0 {
				all = append(all, f)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	matches := make([]events.Match, len(all))
	for i := range all {
		matches[i] = all[i].Match
	}
	events.Rank(matches, int(docs))
	for i := range all {
		all[i].Match = matches[i]
	}
	slices.SortStableFunc(all, func(a, b found) int {
		if a.Score != b.Score {
			if a.Score > b.Score {
				return -1
			}
			return 1
		}
		return int(b.id - a.id) // the newer one
	})
	return all, nil
}

// matchExpr writes the query in FTS4's syntax. Tokens are quoted, and consist
// of letters and digits, so nothing in them is syntax.
func matchExpr(thread int64, terms []events.Term) string {
	var b strings.Builder
	fmt.Fprintf(&b, "thread:%s AND (", threadToken(thread))
	for i, t := range terms {
		if i > 0 {
			b.WriteString(" OR ")
		}
		fmt.Fprintf(&b, `"%s"`, strings.Join(t, " "))
	}
	b.WriteByte(')')
	return b.String()
}

// matchOf reads matchinfo 'yl': hits per phrase and column, the phrase of the
// thread first, then tokens per column.
func matchOf(info []byte, terms int) events.Match {
	at := func(i int) int {
		if len(info) < 4*i+4 {
			return 0
		}
		return int(binary.NativeEndian.Uint32(info[4*i:]))
	}
	const columns, text = 2, 1
	m := events.Match{Counts: make([]int, terms)}
	for i := range terms {
		m.Counts[i] = at((i+1)*columns + text)
	}
	m.Length = at((terms+1)*columns + text)
	return m
}
