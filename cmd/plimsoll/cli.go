package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// CLI is the command line: the struct is its grammar.
type CLI struct {
	Serve   serveCmd   `cmd:"" help:"Run the server on a home."`
	Demo    demoCmd    `cmd:"" help:"Show a compaction from end to end on a bundled session."`
	Import  importCmd  `cmd:"" help:"Import a session file of Claude Code, pi or plimsoll as a new thread."`
	Export  exportCmd  `cmd:"" help:"Write a thread as a file that import reads."`
	Threads threadsCmd `cmd:"" help:"List threads, or show one."`
	Compact compactCmd `cmd:"" help:"Compact a thread, or a session file without any server."`
	Tail    tailCmd    `cmd:"" help:"Follow what happens in a thread."`
	Token   tokenCmd   `cmd:"" help:"Print the token of a home."`
	Doctor  doctorCmd  `cmd:"" help:"Check a home and name the fix of what is wrong."`
	Version versionCmd `cmd:"" help:"Print the version."`
	Help    helpCmd    `cmd:"" help:"Print help, also of one command."`
}

// homeFlag is the flag of every command that needs a home.
type homeFlag struct {
	Home string `name:"home" placeholder:"DIR" help:"The home (default: $$PLIMSOLL_HOME, else the XDG state folder)."`
}

func (f homeFlag) resolve(m *Main) (home, error) { return resolveHome(f.Home, m.Getenv) }

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command to explain."`
}

// Run prints the help as --help does.
func (c *helpCmd) Run(ctx context.Context, m *Main) error {
	if code := m.Run(ctx, append(c.Command, "--help")); code != exitOK {
		return errSilent
	}
	return nil
}

type versionCmd struct{}

// version is set by release builds.
var version = "0.1.0-dev"

// Run prints the program's and the toolchain's version.
func (c *versionCmd) Run(m *Main) error {
	_, err := fmt.Fprintf(m.Stdout, "plimsoll %s %s %s/%s%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, revision())
	return err
}

// revision is the commit that the program was built from, if it is known.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return " " + s.Value[:12]
		}
	}
	return ""
}

type tokenCmd struct{ homeFlag }

// Run prints the home's token, making home and token if there are none, so that
// a client can be set up before the server first starts.
func (c *tokenCmd) Run(m *Main) error {
	h, err := c.resolve(m)
	if err != nil {
		return err
	}
	if err := h.create(); err != nil {
		return err
	}
	tok, err := h.token()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(m.Stdout, tok)
	return err
}
