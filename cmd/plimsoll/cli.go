package main

import (
	"context"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// CLI is the command line: the struct is its grammar.
type CLI struct {
	Serve     serveCmd     `cmd:"" help:"Run the server on a home."`
	AppServer appServerCmd `cmd:"" name:"app-server" help:"Speak the protocol of codex app-server, on stdio unless told otherwise."`
	Demo      demoCmd      `cmd:"" help:"Show a compaction from end to end on a bundled session."`
	Import    importCmd    `cmd:"" help:"Import a session file of Claude Code, pi or plimsoll as a new thread."`
	Export    exportCmd    `cmd:"" help:"Write a thread as a file that import reads."`
	Threads   threadsCmd   `cmd:"" help:"List threads, or show one."`
	Compact   compactCmd   `cmd:"" help:"Compact a thread, or a session file without any server."`
	Search    searchCmd    `cmd:"" help:"Search what was said in a thread, whether its context still holds it or not."`
	Pin       pinCmd       `cmd:"" help:"Pin texts that every request of a thread carries, list or remove them."`
	Requests  requestsCmd  `cmd:"" help:"List what waits for an answer."`
	Answer    answerCmd    `cmd:"" help:"Answer an approval."`
	Tail      tailCmd      `cmd:"" help:"Follow what happens in a thread."`
	Token     tokenCmd     `cmd:"" help:"Print the token of a home, give others away that may do less, take them back."`
	Doctor    doctorCmd    `cmd:"" help:"Check a home and name the fix of what is wrong."`
	Conform   conformCmd   `cmd:"" help:"Hold providers to what clients rely on, and print the matrix."`
	Tap       tapCmd       `cmd:"" name:"conform-tap" hidden:"" help:"Stand between an adapter and its program."`
	Version   versionCmd   `cmd:"" help:"Print the version."`
	Help      helpCmd      `cmd:"" help:"Print help, also of one command."`

	ShowVersion versionFlag `name:"version" help:"Print the version."`
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
func (c *helpCmd) Run(ctx context.Context, m *Main, app *kong.Kong) error {
	node := app.Model.Node
	for _, name := range c.Command {
		i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == name })
		if i < 0 {
			return usageError{noSuchCommand(strings.Join(c.Command, " ")), "plimsoll help"}
		}
		node = node.Children[i]
	}
	if code := m.Run(ctx, append(c.Command, "--help")); code != exitOK {
		return errSilent
	}
	return nil
}
