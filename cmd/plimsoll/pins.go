package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/plimsoll-dev/plimsoll/api"
)

type pinCmd struct {
	Add    pinAddCmd    `cmd:"" help:"Pin a text: every request of the thread carries it, whatever is compacted."`
	List   pinListCmd   `cmd:"" help:"List the pins of a thread, oldest first."`
	Remove pinRemoveCmd `cmd:"" help:"Take a pin away."`
}

// ofThread is what names a thread and how to print.
type ofThread struct {
	homeFlag
	Thread string `arg:"" help:"The thread's id, or its beginning."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

func (f ofThread) do(ctx context.Context, m *Main, with func(cl *client, thread string) error) error {
	arg, err := parseThread(f.Thread)
	if err != nil {
		return err
	}
	return f.withClient(ctx, m, func(cl *client) error {
		id, err := cl.thread(ctx, arg)
		if err != nil {
			return err
		}
		return with(cl, id)
	})
}

type pinAddCmd struct {
	ofThread
	Text string `arg:"" help:"The text."`
}

// Run pins a text and prints the pin's id.
func (c *pinAddCmd) Run(ctx context.Context, m *Main) error {
	return c.do(ctx, m, func(cl *client, thread string) error {
		var res api.PinAddResult
		body := struct {
			Text string `json:"text"`
		}{c.Text}
		if err := cl.call(ctx, http.MethodPost, threadPath(thread, "/pins"), body, &res); err != nil {
			return fmt.Errorf("pin: %w", err)
		}
		if c.JSON {
			return printJSON(m.Stdout, res)
		}
		if !res.Added {
			say(m.Stderr, "it was pinned before\n")
		}
		say(m.Stdout, "%s\n", res.Pin.ID)
		return nil
	})
}

type pinListCmd struct{ ofThread }

// Run lists the pins of a thread.
func (c *pinListCmd) Run(ctx context.Context, m *Main) error {
	return c.do(ctx, m, func(cl *client, thread string) error {
		var res api.PinListResult
		if err := cl.call(ctx, http.MethodGet, threadPath(thread, "/pins"), nil, &res); err != nil {
			return fmt.Errorf("list pins: %w", err)
		}
		return printPins(m, &res, c.JSON)
	})
}

type pinRemoveCmd struct {
	ofThread
	Pin string `arg:"" help:"The pin's id, as list prints it."`
}

// Run takes a pin away and lists the others.
func (c *pinRemoveCmd) Run(ctx context.Context, m *Main) error {
	return c.do(ctx, m, func(cl *client, thread string) error {
		if strings.ContainsAny(c.Pin, "/?#%") || c.Pin == "" {
			return usagef("%q is not the id of a pin; see `plimsoll pin list`", c.Pin)
		}
		var res api.PinListResult
		if err := cl.call(ctx, http.MethodDelete, threadPath(thread, "/pins/", c.Pin), nil, &res); err != nil {
			return fmt.Errorf("remove pin: %w", err)
		}
		return printPins(m, &res, c.JSON)
	})
}

func printPins(m *Main, l *api.PinListResult, asJSON bool) error {
	if asJSON {
		return printJSON(m.Stdout, l)
	}
	t := &table{head: []string{"PIN", "TOKENS", "TEXT"}}
	for _, p := range l.Data {
		t.add(p.ID, fmt.Sprint(p.Tokens), oneLine(printable(p.Text), 90))
	}
	if len(l.Data) > 0 {
		t.print(m.Stdout, m.style)
	}
	say(m.Stderr, "%s of at most %d are pinned\n", plural(l.Tokens, "token"), l.Limit)
	return nil
}
