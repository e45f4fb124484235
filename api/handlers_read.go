package api

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// contextRead reads what a request of an epoch holds: the base, and every item in
// the form it is rendered in.
func (s *Server) contextRead(ctx context.Context, p *ContextReadParams) (*ContextReadResult, error) {
	epoch, at, err := p.from()
	if err != nil {
		return nil, err
	}
	c, err := s.service(transcript.ThreadID(p.ThreadID)).ReadContext(ctx, transcript.ThreadID(p.ThreadID), epoch)
	if err != nil {
		return nil, err
	}
	r, total := wireContext(c), len(c.Entries)
	if at > total {
		return nil, badContextCursor(p.Cursor)
	}
	rest := c.Entries[at:min(total, at+cmp.Or(p.Limit, maxPage))]
	size := 0
	for i, e := range rest {
		entry := ContextEntryOf(e)
		if size += weighText(entry.Text); size > s.caps.PageBytes && i > 0 {
			break
		}
		r.Entries = append(r.Entries, entry)
	}
	if at += len(r.Entries); at < total {
		r.NextCursor = new(strconv.Itoa(c.Epoch) + "." + strconv.Itoa(at))
	}
	return r, nil
}

// Sizes of a page, in elements.
const (
	defaultPage = 100
	maxPage     = 1000
)

// from reads where a page begins. A cursor is the epoch and the position in it.
func (p *ContextReadParams) from() (epoch *int, at int, err error) {
	if p.Cursor == "" {
		return p.Epoch, 0, nil
	}
	e, n, _ := strings.Cut(p.Cursor, ".")
	if !isInteger(e) || !isInteger(n) {
		return nil, 0, badContextCursor(p.Cursor)
	}
	of, err1 := strconv.Atoi(e)
	at, err2 := strconv.Atoi(n)
	if err1 != nil || err2 != nil || of < 0 || at < 0 || p.Epoch != nil && *p.Epoch != of {
		return nil, 0, badContextCursor(p.Cursor)
	}
	return &of, at, nil
}

func badContextCursor(cursor string) error {
	return invalid("field `cursor`: want the nextCursor of a page of this epoch, got %q", clip(cursor))
}

// threadEventsRead reads the events of a thread: a page of them over JSON-RPC and for
// a client that accepts application/json and no text/event-stream, and for every other
// a stream of all of them and then of whatever comes.
func (s *Server) threadEventsRead(ctx context.Context, p *EventsReadParams) (*EventsReadResult, error) {
	return s.readEvents(ctx, transcript.ThreadID(p.ThreadID), p.EventsParams)
}

// eventsRead reads the events of all threads, in the order of their commits: a page of
// them over JSON-RPC and for a client that accepts application/json and no
// text/event-stream, and for every other a stream of all of them and then of whatever
// comes.
func (s *Server) eventsRead(ctx context.Context, p *EventsParams) (*EventsReadResult, error) {
	return s.readEvents(ctx, "", *p)
}

// eventBatch is how many events are read at once, before it is known how large
// they are.
const eventBatch = 32

// readEvents reads a page of events batch by batch, until it has as many as were
// asked for, their data is as much as an answer may hold, or there are no more.
func (s *Server) readEvents(ctx context.Context, thread transcript.ThreadID, p EventsParams) (*EventsReadResult, error) {
	after, err := cursorOf("field `after`", p.After)
	if err != nil {
		return nil, err
	}
	r := &EventsReadResult{Data: []protocol.Notification{}}
	limit, size := cmp.Or(p.Limit, defaultPage), 0
	for more := true; more; {
		evs, next, err := s.service(thread).ReadEvents(ctx, thread, after, min(limit-len(r.Data), eventBatch))
		if err != nil {
			return nil, err
		}
		fit := slices.IndexFunc(evs, func(e events.Event) bool {
			first := size == 0
			size += len(e.Data)
			return size > s.caps.PageBytes && !first
		})
		if more = fit < 0 && len(evs) > 0; fit >= 0 {
			evs, next = evs[:fit], lastOf(evs[:fit], thread, next.Journal, after)
		}
		for _, e := range evs {
			n, err := s.notification(e)
			if err != nil {
				return nil, err
			}
			r.Data = append(r.Data, n)
		}
		after, r.Cursor = &next, next.String()
		more = more && len(r.Data) < limit
	}
	return r, nil
}

// lastOf is the cursor of the last of evs, or after if there are none.
func lastOf(evs []events.Event, thread transcript.ThreadID, journal string, after *events.Cursor) events.Cursor {
	if len(evs) == 0 {
		return *after
	}
	last := events.Cursor{Journal: journal, N: evs[len(evs)-1].Seq}
	if thread == "" {
		last.N = evs[len(evs)-1].Pos
	}
	return last
}

// cursorOf reads a cursor that a client sent; nil if it sent none.
func cursorOf(where, text string) (*events.Cursor, error) {
	if text == "" {
		return nil, nil
	}
	c, err := events.ParseCursor(text)
	if err != nil {
		return nil, invalid("%s: want a cursor as this server returned it, got %q", where, clip(text))
	}
	return &c, nil
}
