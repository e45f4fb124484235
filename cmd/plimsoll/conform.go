package main

import (
	"cmp"
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
	Provider   []string `arg:"" optional:"" help:"What to hold to the contract, each with a scripted model: offline, chat, codex, claude (default: all four)."`
	Configured []string `name:"configured" placeholder:"NAME" sep:"none" help:"[providers.NAME] of config.toml, as it is there: its program, its account, its real model; may be repeated."`
	Row        []string `name:"row" placeholder:"NAME" sep:"none" help:"Only this row; may be repeated."`
	JSON       bool     `name:"json" xor:"format" help:"Print one JSON object for each row."`
	Markdown   bool     `name:"markdown" xor:"format" help:"Print a page for the documentation."`
	Yes        bool     `name:"yes" help:"Run also the rows that ask a real model, which may cost money."`
}

// builtIn are the subjects that bring their own model.
var builtIn = []string{"offline", "chat", "codex", "claude"}

// Run holds providers to what clients rely on, and fails if one does not keep it, or if
// one that was named could not be tried.
func (c *conformCmd) Run(ctx context.Context, m *Main) error {
	names, _ := conform.Rows()
	for _, r := range c.Row {
		if !slices.Contains(names, r) {
			return usagef("there is no row %q; there are %s", r, strings.Join(names, ", "))
		}
	}
	subjects, err := c.subjects(ctx, m)
	if err != nil {
		return err
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
	return c.verdict(matrix, subjects)
}

// verdict is the status of the command. That nothing was tried is no success.
func (c *conformCmd) verdict(matrix conform.Matrix, subjects []conform.Subject) error {
	if n := matrix.Failed(); n > 0 {
		return fmt.Errorf("conform: %s failed", plural(n, "row"))
	}
	var idle []string
	for _, s := range subjects {
		if !matrix.Tried(s.Name) {
			idle = append(idle, s.Name)
		}
	}
	if named := len(c.Provider) + len(c.Configured); len(idle) == len(subjects) || named > 0 && len(idle) > 0 {
		return fmt.Errorf("conform: every row of %s was skipped, so nothing is known of it", strings.Join(idle, ", "))
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

// subjects returns what is to be tried.
func (c *conformCmd) subjects(ctx context.Context, m *Main) (all []conform.Subject, err error) {
	names := c.Provider
	if len(names)+len(c.Configured) == 0 {
		names = builtIn
	}
	path, cfg, err := c.configuration(m)
	if err != nil && len(c.Configured) > 0 {
		return nil, err
	}
	for _, name := range names {
		s, err := scriptedSubject(ctx, m, name, len(c.Provider) > 0)
		_, too := cfg.Providers[name]
		switch usage := (usageError{}); {
		case errors.As(err, &usage) && too:
			return nil, usagef("%q has no scripted model; [providers.%s] of %s is tried with its real one: --configured %s", name, name, path, name)
		case err != nil:
			return nil, err
		case too:
			say(m.Stderr, "%s: the scripted one; [providers.%s] of %s is tried with --configured %s\n", name, name, path, name)
		}
		all = append(all, s)
	}
	for _, name := range c.Configured {
		s, err := c.configured(ctx, m, path, cfg, name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// configuration reads the one of the home.
func (c *conformCmd) configuration(m *Main) (path string, cfg config, err error) {
	h, err := c.resolve(m)
	if err != nil {
		return "", config{}, err
	}
	cfg, err = readConfig(h.path(configFile))
	return h.path(configFile), cfg, err
}

// scriptedSubject returns the subject of a name that brings its own model. If its program was
// asked for, by its name or by the variable, there must be one.
func scriptedSubject(ctx context.Context, m *Main, name string, named bool) (s conform.Subject, err error) {
	variables := map[string]string{"codex": "PLIMSOLL_CODEX", "claude": "PLIMSOLL_CLAUDE"}
	var path, version string
	variable, program := variables[name]
	if program {
		at := m.Getenv(variable)
		if path, version, err = conform.Find(ctx, name, at); err != nil && (named || at != "") {
			return s, fmt.Errorf("conform: %s: %w; install it, or set %s to its path", name, err, variable)
		}
	}
	switch name {
	case "offline":
		s = conform.Offline()
	case "chat":
		s = conform.Chat()
	case "codex":
		s = conform.Codex(path, version)
	case "claude":
		s = conform.Claude(path, version)
	default:
		return s, usagef("there is no provider %q with a scripted model; there are %s, and those of %s with --configured",
			name, strings.Join(builtIn, ", "), configFile)
	}
	if err != nil {
		s.Missing = err.Error()
	}
	return s, nil
}

// configured returns a provider of the configuration, with its real model. Its name is
// that of its section, so that nobody takes it for the scripted one.
func (c *conformCmd) configured(ctx context.Context, m *Main, path string, cfg config, name string) (s conform.Subject, err error) {
	p, ok := cfg.Providers[name]
	if !ok {
		return s, usagef("%s has no [providers.%s]; its providers: %s", path, name, cmp.Or(strings.Join(cfg.order, ", "), "none"))
	}
	kind, env := adapterKinds[p.Adapter], environment{m.Getenv, slog.New(slog.DiscardHandler)}
	s = conform.Subject{
		Name: "providers." + name, Kind: p.Adapter, Tools: kind.able,
		Open: func(conform.Site) (adapters.Adapter, error) { return kind.open(name, p, env) },
	}
	adapter, err := kind.open(name, p, env)
	if err != nil {
		return s, err
	}
	rt, ok := adapter.(adapters.Runtime)
	if !ok {
		return s, nil
	}
	probe := rt.Probe(ctx)
	s.Version = probe.Version
	for _, f := range findingsOf(name, probe) {
		if f.Status == findingFailed {
			return s, fmt.Errorf("conform: [providers.%s] of %s cannot be tried: %s; %s", name, path, strings.TrimPrefix(f.Detail, name+": "), f.Fix)
		}
	}
	return s, nil
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
