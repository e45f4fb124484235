package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/plimsoll-dev/plimsoll/api"
)

type searchCmd struct {
	homeFlag
	Thread string   `arg:"" help:"The thread's id, or its beginning."`
	Query  []string `arg:"" help:"Words to look for; any of them may match."`
	Limit  int      `default:"5" help:"The most places to print (at most 50)."`
	JSON   bool     `name:"json" help:"Print JSON."`
}

// Run searches a thread, what its context still holds and what it does not. A long
// thread is indexed first, in several steps if need be.
func (c *searchCmd) Run(ctx context.Context, m *Main) error {
	arg, err := parseThread(c.Thread)
	if err != nil {
		return err
	}
	if c.Limit < 1 || c.Limit > 50 {
		return usagef("--limit is %d; allowed: 1 to 50", c.Limit)
	}
	return c.withClient(ctx, m, func(cl *client) error {
		id, err := cl.thread(ctx, arg)
		if err != nil {
			return err
		}
		res, err := cl.search(ctx, id, strings.Join(c.Query, " "), c.Limit)
		if err != nil {
			return fmt.Errorf("search: %w", err)
		}
		if c.JSON {
			return printJSON(m.Stdout, res)
		}
		for _, h := range res.Data {
			where := "in the context"
			switch {
			case h.Form == nil:
				where = "archived"
			case h.Archived:
				where = string(*h.Form) + " in the context"
			}
			say(m.Stdout, "%s\n%s\n\n", m.style.dim(fmt.Sprintf("── %s · %s · turn %s · item %s", h.Kind, where, h.TurnID, h.ItemID)), printable(strings.TrimSpace(h.Text)))
		}
		if len(res.Data) == 0 {
			say(m.Stderr, "nothing was found\n")
			return errSilent
		}
		return nil
	})
}

// search searches all of a thread.
func (c *client) search(ctx context.Context, thread, query string, limit int) (*api.ContextSearchResult, error) {
	path := threadPath(thread, "/context/search?limit=", strconv.Itoa(limit), "&query=", url.QueryEscape(query))
	for indexed := int64(-1); ; {
		var res api.ContextSearchResult
		err := c.call(ctx, http.MethodGet, path, nil, &res)
		if err != nil || res.Complete || res.IndexedSeq <= indexed {
			return &res, err
		}
		indexed = res.IndexedSeq
	}
}
