package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

// asked is what else than compacting a compact command is for.
type asked struct {
	Preview bool   `help:"Of a thread: say what the compaction would do, and do nothing." xor:"what"`
	Undo    string `placeholder:"ID" help:"Of a thread: take a completed compaction back (last: the newest one)." xor:"what"`
	Cancel  string `placeholder:"ID" help:"Of a thread: end a compaction that has not ended (last: the newest one)." xor:"what"`
}

// any reports whether it is for something else.
func (a asked) any() bool { return a.Preview || a.Undo != "" || a.Cancel != "" }

// askedWell refuses flags that say nothing about what is asked for.
func (c *compactCmd) askedWell() error {
	switch {
	case (c.Undo != "" || c.Cancel != "") && (c.Route != "" || c.Writer != "" || c.Budget != 0 || c.Wait != nil):
		return usagef("--undo and --cancel take no --route, --writer, --budget, --wait or --no-wait")
	case c.Preview && c.Wait != nil:
		return usagef("--preview takes no --wait or --no-wait: it does nothing that there would be to wait for")
	}
	return nil
}

// other does what the command is for if it is not to compact.
func (c *compactCmd) other(ctx context.Context, m *Main, cl *client, thread string) error {
	switch {
	case c.Undo != "":
		return c.undo(ctx, m, cl, thread)
	case c.Cancel != "":
		return c.cancel(ctx, m, cl, thread)
	}
	return c.preview(ctx, m, cl, thread)
}

// preview prints what a compaction would do. That it would be refused is no failure
// of the command: it was only asked.
func (c *compactCmd) preview(ctx context.Context, m *Main, cl *client, thread string) error {
	var res api.CompactPreviewResult
	body := compactBody{Route: c.Route, Writer: c.Writer, Budget: c.Budget}
	if err := cl.call(ctx, http.MethodPost, threadPath(thread, "/compact/preview"), body, &res); err != nil {
		return fmt.Errorf("preview: %w", cl.remedied(ctx, thread, err))
	}
	if c.JSON {
		return printJSON(m.Stdout, res)
	}
	printPreview(m, &res)
	return nil
}

func printPreview(m *Main, p *api.CompactPreviewResult) {
	r := &p.Compaction
	t := &table{head: []string{"", ""}}
	row := func(name, text string) {
		if text != "" {
			t.add(name, printable(text))
		}
	}
	row("would end", outcomeText(m.style, r))
	row("code", deref(r.Code))
	row("reason", deref(r.Reason))
	row("remedy", deref(r.Remedy))
	row("route", string(deref(r.Route)))
	row("writer", string(deref(r.Writer)))
	row("models", strings.Join(p.Writers, ", "))
	if u := p.Cost; u != nil {
		text := fmt.Sprintf("about %s in, at most %s out, in %s", plural(u.InputTokens, "token"), plural(u.OutputTokens, "token"), plural(u.Requests, "request"))
		if u.CostUSD != nil {
			text += fmt.Sprintf(", $%.4f", *u.CostUSD)
		}
		row("cost", text)
	}
	row("before", measureText(r.Before))
	row("after", measureText(r.After))
	if r.Target != nil {
		row("target", plural(*r.Target, "token"))
	}
	if r.Items != nil {
		row("items", itemsText(r.Items))
	}
	for _, turn := range r.SummarizedTurnIDs {
		row("summarised", "turn "+string(turn))
	}
	if len(r.PrunedItemIDs) > 0 {
		row("pruned", plural(len(r.PrunedItemIDs), "item"))
	}
	for _, skip := range r.Skipped {
		row("skipped", skip.Link+": "+skip.Code+": "+skip.Reason)
	}
	t.print(m.Stdout, m.style)
}

func (c *compactCmd) undo(ctx context.Context, m *Main, cl *client, thread string) error {
	id, err := cl.compaction(ctx, thread, c.Undo, func(r *compaction.Record) bool {
		return r.Outcome != nil && *r.Outcome == compaction.Completed
	})
	if err != nil {
		return err
	}
	var res api.CompactUndoResult
	if err := cl.call(ctx, http.MethodPost, compactionPath(thread, id, "/undo"), struct{}{}, &res); err != nil {
		return fmt.Errorf("undo: %w", err)
	}
	if c.JSON {
		return printJSON(m.Stdout, res)
	}
	say(m.Stdout, "compaction %s is undone: the context has %s again, in epoch %d\n", res.CompactionID, plural(res.Tokens, "token"), res.Epoch)
	switch {
	case res.NativeID != nil && res.Retold:
		say(m.Stdout, "the provider was told the context anew, in the session %s\n", printable(*res.NativeID))
	case res.NativeID != nil:
		say(m.Stdout, "the provider goes on with its session of before, %s\n", printable(*res.NativeID))
	}
	return nil
}

func (c *compactCmd) cancel(ctx context.Context, m *Main, cl *client, thread string) error {
	id, err := cl.compaction(ctx, thread, c.Cancel, func(r *compaction.Record) bool { return !r.Terminal() })
	if err != nil {
		return err
	}
	var res api.CompactCancelResult
	if err := cl.call(ctx, http.MethodPost, compactionPath(thread, id, "/cancel"), struct{}{}, &res); err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	if c.JSON {
		return printJSON(m.Stdout, res.Compaction)
	}
	printRecord(m.Stdout, m.style, &res.Compaction, true)
	return nil
}

func compactionPath(thread, id, rest string) string {
	return threadPath(thread, "/compactions/", id, rest)
}

// compaction returns the id of a thread's compaction that arg names: by its id, by
// the beginning of it, or as the last one that is wanted.
func (c *client) compaction(ctx context.Context, thread, arg string, wanted func(*compaction.Record) bool) (string, error) {
	var found []string
	for cursor := ""; ; {
		var page api.CompactionListResult
		path := threadPath(thread, "/compactions?limit=1000")
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		if err := c.call(ctx, http.MethodGet, path, nil, &page); err != nil {
			return "", fmt.Errorf("find compaction: %w", err)
		}
		for i := range page.Data {
			id := string(page.Data[i].CompactionID)
			switch {
			case arg == id, arg == "last" && wanted(&page.Data[i]):
				return id, nil
			case arg != "last" && strings.HasPrefix(id, strings.ToLower(arg)):
				found = append(found, id)
			}
		}
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	switch {
	case arg == "last":
		return "", errors.New("the thread has no such compaction; see `plimsoll threads show`")
	case len(found) == 0:
		return "", fmt.Errorf("the thread has no compaction %s; see `plimsoll threads show`", arg)
	case len(found) > 1:
		return "", fmt.Errorf("%s begins the ids of %d compactions, write more of the one you mean: %s", arg, len(found), strings.Join(found, ", "))
	}
	return found[0], nil
}
