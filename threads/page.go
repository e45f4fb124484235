package threads

import (
	"strconv"
	"strings"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// PageQuery selects a page. Cursor is what the page before returned as Next, or,
// to go the other way from where a page began, what that one returned as Back.
type PageQuery struct {
	Cursor string
	Limit  int // 1 to 1,000; 0 means 100
	Desc   bool
}

// limits of a page.
const (
	defaultPage = 100
	maxPage     = 1000
)

func pageLimit(n int) (int, error) {
	if n == 0 {
		return defaultPage, nil
	}
	if n < 1 || n > maxPage {
		return 0, fault.New(fault.Invalid, "limit is %d; allowed: 1 to %d", n, maxPage)
	}
	return n, nil
}

// A page's cursor is a position: of the last element of the page before, which the
// next page leaves out, or, behind an at sign, of the element that the next page
// begins with. Growth at the end moves nothing.
const including = "@"

// badCursor is codex's text (codex 0.171, observed).
func badCursor(cursor string) error { return fault.New(fault.Invalid, "invalid cursor: %s", cursor) }

// cursorAt is the cursor of a page that begins with the element at a position.
func cursorAt(i int) string { return including + strconv.Itoa(i) }

// newest is the cursor of the page, in descending order, that begins with the
// last of n elements; empty if there are none.
func newest(n int) string {
	if n == 0 {
		return ""
	}
	return cursorAt(n - 1)
}

// span walks positions 0 … n-1 of a list, forward or backward, from where the
// cursor says.
func span(q PageQuery, n int) (next func() (int, bool), limit int, err error) {
	limit, err = pageLimit(q.Limit)
	if err != nil {
		return nil, 0, err
	}
	i, step := -1, 1
	if q.Desc {
		i, step = n, -1
	}
	if q.Cursor != "" {
		digits, include := strings.CutPrefix(q.Cursor, including)
		at, err := strconv.Atoi(digits)
		if atEnd := at == n && q.Desc && !include; err != nil || at < 0 || at >= n && !atEnd {
			return nil, 0, badCursor(q.Cursor)
		}
		if i = at; include {
			i -= step
		}
	}
	return func() (int, bool) {
		i += step
		return i, i >= 0 && i < n
	}, limit, nil
}

// paged is the result of a query that makes a page.
type paged[T any] struct {
	items []T
	next  string // for the same direction; empty on the last page
	back  string // for the other one; empty if the page is
	err   error
}

// page collects up to limit elements; at yields the element at a position, or
// false for one that is not shown.
func page[T any](q PageQuery, n int, at func(i int) (T, bool)) paged[T] {
	next, limit, err := span(q, n)
	if err != nil {
		return paged[T]{err: err}
	}
	p, last := paged[T]{items: []T{}}, 0
	for i, ok := next(); ok; i, ok = next() {
		v, shown := at(i)
		if !shown {
			continue
		}
		if len(p.items) == limit {
			p.next = strconv.Itoa(last)
			return p
		}
		if len(p.items) == 0 {
			p.back = cursorAt(i)
		}
		p.items, last = append(p.items, v), i
	}
	return p
}
