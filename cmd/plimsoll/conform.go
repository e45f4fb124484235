package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/cmd/internal/conform"
)

type conformCmd struct {
	homeFlag
	Provider []string `arg:"" optional:"" help:"What to hold to the contract: offline, chat, codex, claude, which get a scripted model, or a provider of config.toml with its real one (default: those four)."`
	Row      []string `name:"row" placeholder:"NAME" sep:"none" help:"Only this row; may be repeated."`
	JSON     bool     `name:"json" xor:"format" help:"Print one JSON object for each row."`
	Markdown bool     `name:"markdown" xor:"format" help:"Print a page for the documentation."`
	Yes      bool     `name:"yes" help:"Run also the rows that ask a real model, which may cost money."`
}

// builtIn are the subjects that bring their own model.
var builtIn = []string{"offline", "chat", "codex", "claude"}

// Run holds providers to what clients rely on, and fails if one does not keep it.
func (c *conformCmd) Run(ctx context.Context, m *Main) error {
	subjects, err := c.subjects(ctx, m)
	if err != nil {
		return err
	}
	names, _ := conform.Rows()
	for _, r := range c.Row {
		if !slices.Contains(names, r) {
			return usagef("there is no row %q; there are %s", r, strings.Join(names, ", "))
		}
	}
	var matrix conform.Matrix
	for _, s := range subjects {
		if n := conform.Costs(s); n > 0 && !c.Yes {
			say(m.Stderr, "%s: %s ask its real model, which may cost money; they run only with --yes\n", s.Name, plural(n, "row"))
		}
		o := conform.Options{Only: c.Row, Free: !c.Yes}
		if !c.JSON && !c.Markdown {
			o.Tell = func(r conform.Result) {
				say(m.Stderr, "%-8s %s, %s (%d ms)\n", r.Outcome, r.Provider, r.Row, r.DurationMs)
			}
		}
		matrix.Results = append(matrix.Results, conform.Run(ctx, s, o)...)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if err := c.print(m, matrix); err != nil {
		return err
	}
	if n := matrix.Failed(); n > 0 {
		return fmt.Errorf("conform: %s failed", plural(n, "row"))
	}
	return nil
}

func (c *conformCmd) print(m *Main, matrix conform.Matrix) error {
	switch {
	case c.JSON:
		return matrix.JSON(m.Stdout)
	case c.Markdown:
		return matrix.Markdown(m.Stdout, time.Now())
	default:
		return matrix.Table(m.Stdout)
	}
}

// subjects returns what is to be tried. A provider of the configuration goes before a
// scripted subject of the same name.
func (c *conformCmd) subjects(ctx context.Context, m *Main) (all []conform.Subject, err error) {
	names, cfg := c.Provider, config{}
	if len(names) == 0 {
		names = builtIn
	} else {
		h, err := c.resolve(m)
		if err != nil {
			return nil, err
		}
		if cfg, err = readConfig(h.path(configFile)); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		s, err := subject(ctx, m, cfg, name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func subject(ctx context.Context, m *Main, cfg config, name string) (conform.Subject, error) {
	p, configured := cfg.Providers[name]
	switch {
	case configured:
		kind := adapterKinds[p.Adapter]
		return conform.Subject{
			Name: name, Kind: p.Adapter, Tools: kind.able,
			Open: func(conform.Site) (adapters.Adapter, error) {
				return kind.open(name, p, environment{m.Getenv, slog.New(slog.DiscardHandler)})
			},
		}, nil
	case name == "offline":
		return conform.Offline(), nil
	case name == "chat":
		return conform.Chat(), nil
	case name == "codex":
		return conform.Codex(conform.Find(ctx, name, m.Getenv("PLIMSOLL_CODEX"))), nil
	case name == "claude":
		return conform.Claude(conform.Find(ctx, name, m.Getenv("PLIMSOLL_CLAUDE"))), nil
	}
	return conform.Subject{}, usagef("there is no provider %q; there are %s, and those of config.toml", name, strings.Join(builtIn, ", "))
}

// tapCmd is what conform puts between an adapter and its program.
type tapCmd struct {
	Args []string `arg:"" optional:"" passthrough:""`
}

// Run passes on what the program says until it ends.
func (c *tapCmd) Run(*Main) error {
	if status := conform.Tap(c.Args); status != 0 {
		return errors.Join(errSilent, fmt.Errorf("status %d", status))
	}
	return nil
}
