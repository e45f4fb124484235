package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads"
)

type requestsCmd struct {
	homeFlag
	Thread string `arg:"" optional:"" help:"The thread's id, or its beginning (default: all threads; then the thread of each is printed before it)."`
	JSON   bool   `name:"json" help:"Print one JSON object a line."`
}

// Run lists what a thread, or every thread, waits for an answer to, oldest first.
func (c *requestsCmd) Run(ctx context.Context, m *Main) error {
	if c.Thread == "" {
		return c.withClient(ctx, m, func(cl *client) error { return c.ofAll(ctx, m, cl) })
	}
	return c.inThread(ctx, m, c.Thread, func(cl *client, thread string) error {
		list, err := cl.requests(ctx, thread)
		if err != nil {
			return fmt.Errorf("list requests: %w", err)
		}
		return c.print(m, "", list)
	})
}

// ofAll lists the requests of the threads that are not at rest: those that are ask
// nothing. Archived ones are at rest.
func (c *requestsCmd) ofAll(ctx context.Context, m *Main, cl *client) error {
	var busy []string
	err := cl.eachOf(ctx, false, func(page api.ThreadListResult) error {
		for _, t := range page.Data {
			if t.Status.Type != string(threads.StatusIdle) && t.Plimsoll.Damaged == nil {
				busy = append(busy, t.ID)
			}
		}
		return nil
	})
	n := 0
	for _, thread := range busy {
		var list []protocol.ServerRequest
		if err == nil {
			list, err = cl.requests(ctx, thread)
		}
		if notFound(err) {
			err = nil // deleted meanwhile
		}
		if n += len(list); len(list) > 0 && err == nil {
			err = c.print(m, printable(thread)+"  ", list)
		}
	}
	if err != nil {
		return fmt.Errorf("list requests: %w", err)
	}
	if n == 0 {
		return c.print(m, "", nil)
	}
	return nil
}

// print writes requests, each behind the name of its thread if there is one.
func (c *requestsCmd) print(m *Main, thread string, list []protocol.ServerRequest) error {
	for _, r := range list {
		if !c.JSON {
			say(m.Stdout, "%s%s  %s\n", thread, printable(r.ID), questionText(r))
		} else if err := printJSON(m.Stdout, r); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		say(m.Stderr, "nothing waits for an answer\n")
	}
	return nil
}

type answerCmd struct {
	homeFlag
	Thread   string `arg:"" help:"The thread's id, or its beginning."`
	Request  string `arg:"" help:"The request's id, or its beginning; see plimsoll requests."`
	Decision string `arg:"" enum:"accept,acceptForSession,decline,cancel" help:"accept, acceptForSession, decline, or cancel to stop the turn as well."`
}

// Run answers an approval. The first valid answer counts, whoever gives it.
func (c *answerCmd) Run(ctx context.Context, m *Main) error {
	return c.inThread(ctx, m, c.Thread, func(cl *client, thread string) error {
		id, err := cl.request(ctx, thread, c.Request)
		if err != nil {
			return fmt.Errorf("answer: %w", err)
		}
		in := map[string]any{"result": map[string]string{"decision": c.Decision}}
		if err := cl.call(ctx, http.MethodPost, threadPath(thread, "/requests/"+url.PathEscape(id)+"/answer"), in, nil); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
		return nil
	})
}

// inThread runs do with a client of the home and the thread that arg names.
func (f homeFlag) inThread(ctx context.Context, m *Main, arg string, do func(cl *client, thread string) error) error {
	arg, err := parseThread(arg)
	if err != nil {
		return err
	}
	return f.withClient(ctx, m, func(cl *client) error {
		id, err := cl.thread(ctx, arg)
		if err != nil {
			return err
		}
		return do(cl, id)
	})
}

func (c *client) requests(ctx context.Context, thread string) ([]protocol.ServerRequest, error) {
	var list api.RequestListResult
	err := c.call(ctx, http.MethodGet, threadPath(thread, "/requests"), nil, &list)
	return list.Data, err
}

// request returns the id of the request that arg begins. A whole id is not looked
// up: whether it still waits is for the server to say.
func (c *client) request(ctx context.Context, thread, arg string) (string, error) {
	if len(arg) >= maxThread {
		return arg, nil
	}
	list, err := c.requests(ctx, thread)
	if err != nil {
		return "", err
	}
	list = slices.DeleteFunc(list, func(r protocol.ServerRequest) bool { return !strings.HasPrefix(r.ID, arg) })
	switch len(list) {
	case 0:
		return "", fmt.Errorf("no request that waits has an id that begins with %q; see `plimsoll requests %s`", arg, thread)
	case 1:
		return list[0].ID, nil
	}
	return "", fmt.Errorf("%q begins the ids of %d requests, write more of the one you mean", arg, len(list))
}
