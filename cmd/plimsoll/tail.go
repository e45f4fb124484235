package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

type tailCmd struct {
	homeFlag
	Thread string `arg:"" optional:"" help:"The thread's id, or its beginning (default: all threads)."`
	After  string `placeholder:"CURSOR" help:"Begin after this cursor (default: from the first event)."`
	JSON   bool   `name:"json" help:"Print the events as they are, one a line."`
}

// Run prints what happened and then what happens. A lost connection is made again
// from the last cursor, so nothing is missed and nothing is shown twice. It ends
// with the thread, and without a server, when nothing can happen, where the journal
// ends.
func (c *tailCmd) Run(ctx context.Context, m *Main) error {
	arg := ""
	if c.Thread != "" {
		var err error
		if arg, err = parseThread(c.Thread); err != nil {
			return err
		}
	}
	h, err := c.resolve(m)
	if err != nil {
		return err
	}
	cl, err := m.connect(ctx, h)
	if err != nil {
		return fmt.Errorf("tail: %w", err)
	}
	path := "/v1/events"
	if arg != "" {
		id, err := cl.thread(ctx, arg)
		if err != nil {
			return errors.Join(err, cl.close())
		}
		path = threadPath(id, "/events")
	}
	show := newEventPrinter(m.Stdout, m.style)
	err = c.follower(m, h, path, show).run(ctx, cl)
	show.endText()
	switch {
	case errors.Is(err, errDeleted):
		return nil
	case notFound(err) && c.Thread != "":
		return fmt.Errorf("tail: thread %s does not exist", strings.ToLower(c.Thread))
	case errors.Is(err, errJournalEnd):
		say(m.Stderr, "no server runs on this home: this is everything up to now\n")
		return nil
	case ctx.Err() == nil && err != nil:
		return fmt.Errorf("tail: %w", err)
	}
	return nil // the user has seen enough
}

// notFound reports whether the server said that what was asked for is not there.
func notFound(err error) bool {
	problem, ok := errors.AsType[*apiError](err)
	return ok && problem.Code == fault.NotFound
}

func (c *tailCmd) follower(m *Main, h home, path string, show *eventPrinter) *follower {
	return &follower{
		path:   path,
		one:    c.Thread != "",
		cursor: c.After,
		print: func(data []byte, n protocol.Notification) error {
			if c.JSON {
				_, err := fmt.Fprintf(m.Stdout, "%s\n", data)
				return err
			}
			show.print(n)
			return nil
		},
		reconnect: func() (*client, error) {
			cl, ok := dialSocket(h) // never owning the home, which would keep the server out
			if !ok {
				return nil, errNoServer
			}
			return cl, nil
		},
		lost: func() {
			show.endText()
			say(m.Stderr, "the server is gone; waiting for it to come back\n")
		},
	}
}

// errJournalEnd says that everything was shown and nothing more can come.
var errJournalEnd = errors.New("end of the journal")

// errDeleted says that the followed thread is gone, and that this was its last event.
var errDeleted = errors.New("the thread was deleted")

// errReset says that the cursor cannot be served.
type errReset struct{ protocol.StreamResetParams }

func (e errReset) Error() string {
	why, ok := resetTexts[events.ResetReason(e.Reason)]
	if !ok {
		why = "the cursor cannot be served (" + e.Reason + ")"
	}
	return fmt.Sprintf("%s; continue with --after %s, or from the beginning without --after", why, e.Cursor)
}

// resetTexts say why a cursor cannot be served.
var resetTexts = map[events.ResetReason]string{
	events.ResetJournalChanged: "the cursor is of another journal: of another home, or from before this one's was replaced",
	events.ResetAhead:          "the cursor is beyond the newest event",
	events.ResetExpired:        "what came after the cursor is not kept any more",
}

// errNoServer says that nobody serves the home.
var errNoServer = errors.New("no server runs on this home")

// A follower follows one stream of events over as many connections as it takes.
type follower struct {
	path      string
	one       bool   // the path is one thread's, so its deletion is the end
	cursor    string // behind the last event that was printed; empty: from the beginning
	print     func(data []byte, n protocol.Notification) error
	reconnect func() (*client, error)
	lost      func() // called when a working connection is lost and cannot be made again at once
}

// The pauses between attempts: each is twice the one before, up to the longest. An
// event that is new makes the next pause the first one again; a connection that is
// taken and ended does not, so that a server that does this is not run into.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 5 * time.Second
)

// run follows, at first with cl, until ctx is done, the journal or the thread ends
// or something is wrong that another connection would not mend. It closes every
// client.
func (f *follower) run(ctx context.Context, cl *client) (err error) {
	served, told := false, false
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		if cl != nil {
			before := f.cursor
			var ok bool
			ok, err = f.stream(ctx, cl)
			err = errors.Join(err, cl.close())
			if ok {
				served, told = true, false
			}
			if f.cursor != before {
				pause = firstPause
			}
			if ctx.Err() != nil || err != nil && (!served || final(err)) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		if cl, err = f.reconnect(); err != nil && !told {
			f.lost()
			told = true
		}
	}
}

// final reports whether err would be the same on another connection.
func final(err error) bool {
	if problem, ok := errors.AsType[*apiError](err); ok {
		return problem.Status < 500 && problem.Status != http.StatusTooManyRequests
	}
	_, reset := errors.AsType[errReset](err)
	return reset || errors.Is(err, errJournalEnd) || errors.Is(err, errDeleted) || errors.Is(err, errPrint)
}

// errPrint wraps errors of print: the reader of our output is gone.
var errPrint = errors.New("write output")

// stream follows over one connection; served says that the server accepted it.
func (f *follower) stream(ctx context.Context, cl *client) (served bool, err error) {
	path := f.path
	if f.cursor != "" {
		path += "?after=" + url.QueryEscape(f.cursor)
	}
	resp, err := cl.send(ctx, http.MethodGet, path, "", "text/event-stream", nil)
	if err != nil {
		return false, err
	}
	defer shut(resp.Body)
	for ev, err := range sseEvents(resp.Body) {
		if err != nil {
			return true, nil // the connection broke; the next one continues
		}
		if err := f.event(cl, ev); err != nil {
			return true, err
		}
	}
	return true, nil
}

func (f *follower) event(cl *client, ev sseEvent) error {
	var n protocol.Notification
	if err := json.Unmarshal(ev.data, &n); err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	if n.Method == "stream/reset" {
		var reset errReset
		if err := json.Unmarshal(n.Params, &reset.StreamResetParams); err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		return reset
	}
	if err := f.print(ev.data, n); err != nil {
		return fmt.Errorf("%w: %w", errPrint, err)
	}
	if ev.id != "" {
		f.cursor = ev.id
	}
	switch {
	case n.Method == "thread/deleted" && f.one:
		return errDeleted
	case n.Method == "stream/live" && cl.local:
		return errJournalEnd
	}
	return nil
}
