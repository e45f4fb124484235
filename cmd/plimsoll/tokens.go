package main

import (
	"fmt"
	"os"
	"time"

	"github.com/plimsoll-dev/plimsoll/api"
)

// tokenCmd are the commands about the tokens of a home.
type tokenCmd struct {
	Show   tokenShowCmd   `cmd:"" default:"withargs" help:"Print the owner's token (default)."`
	New    tokenNewCmd    `cmd:"" help:"Give a token away that may do less, and print it, once."`
	List   tokenListCmd   `cmd:"" help:"List the tokens that were given away."`
	Revoke tokenRevokeCmd `cmd:"" help:"Take a token back; what it opened is closed within a second."`
	Rotate tokenRotateCmd `cmd:"" help:"Replace the owner's token and print the new one; what the old one opened is closed within a second."`
}

type tokenShowCmd struct{ homeFlag }

// Run prints the home's token, making home and token if there are none, so that
// a client can be set up before the server first starts.
func (c *tokenShowCmd) Run(m *Main) error {
	h, err := c.open(m)
	if err != nil {
		return err
	}
	tok, err := h.token()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(m.Stdout, tok)
	return err
}

// open makes the home ready, and says so if it made it.
func (f homeFlag) open(m *Main) (home, error) {
	h, err := f.resolve(m)
	if err != nil {
		return h, err
	}
	fresh := h.isNew()
	if err := h.create(); err != nil {
		return h, err
	}
	if fresh {
		h.noteNew(m.Stderr)
	}
	return h, nil
}

type tokenNewCmd struct {
	homeFlag
	Name    string        `arg:"" help:"What to call it."`
	Scope   string        `default:"read" placeholder:"SCOPES" help:"What it may do, of read, write, approve and admin, separated by commas (default: read)."`
	Expires time.Duration `placeholder:"DURATION" help:"How long it counts, such as 12h (default: until it is revoked)."`
}

// Run gives a token away.
func (c *tokenNewCmd) Run(m *Main) error {
	scope, err := api.ParseScope(c.Scope)
	if err != nil {
		return usagef("--scope: %s", err)
	}
	if c.Expires < 0 {
		return usagef("--expires %s: want a time to come", c.Expires)
	}
	h, err := c.open(m)
	if err != nil {
		return err
	}
	now := time.Now()
	g := grant{Name: c.Name, Scopes: scope.String(), CreatedAt: now.UnixMilli()}
	if c.Expires > 0 {
		g.ExpiresAt = now.Add(c.Expires).UnixMilli()
	}
	tok, err := h.grantTo(g)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(m.Stdout, tok)
	return err
}

type tokenListCmd struct {
	homeFlag
	JSON bool `help:"One JSON object per line."`
}

// Run lists what was given away, never a token.
func (c *tokenListCmd) Run(m *Main) error {
	h, err := c.resolve(m)
	if err != nil {
		return err
	}
	gs, err := h.readGrants()
	if err != nil {
		return err
	}
	t := &table{head: []string{"NAME", "SCOPES", "MADE", "EXPIRES"}}
	for _, g := range gs {
		if c.JSON {
			if err := printJSON(m.Stdout, g); err != nil {
				return err
			}
			continue
		}
		expires := "never"
		if g.ExpiresAt != 0 {
			expires = dateText(g.ExpiresAt)
		}
		if g.expired(time.Now()) {
			expires = "has expired"
		}
		t.add(g.Name, g.Scopes, dateText(g.CreatedAt), expires)
	}
	if c.JSON {
		return nil
	}
	if len(gs) == 0 {
		say(m.Stderr, "no token was given away\n")
		return nil
	}
	t.print(m.Stdout, m.style)
	return nil
}

func dateText(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04") }

type tokenRevokeCmd struct {
	homeFlag
	Name string `arg:"" help:"Its name, as list prints it."`
}

// Run takes a token back.
func (c *tokenRevokeCmd) Run(m *Main) error {
	h, err := c.resolve(m)
	if err != nil {
		return err
	}
	return h.revoke(c.Name)
}

type tokenRotateCmd struct{ homeFlag }

// Run replaces the owner's token. Those that were given away stay.
func (c *tokenRotateCmd) Run(m *Main) error {
	h, err := c.open(m)
	if err != nil {
		return err
	}
	tok := newToken()
	if err := h.alone(func() error { return h.put(tokenFile, []byte(tok+"\n"), os.Rename) }); err != nil {
		return err
	}
	_, err = fmt.Fprintln(m.Stdout, tok)
	return err
}
