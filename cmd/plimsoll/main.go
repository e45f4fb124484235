package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

// The exit codes of every command.
const (
	exitOK      = 0
	exitFailure = 1 // it was understood and did not work
	exitUsage   = 2 // it was not understood
)

func main() {
	// Everything this process creates is private, whatever the caller's umask.
	syscall.Umask(0o077)
	// A reader that is gone is an error of the write, so that what was begun is cleaned
	// up. Children do not inherit this, as they would an ignored signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	m := &Main{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	os.Exit(m.Run(signalContext(os.Stderr), os.Args[1:]))
}

// echo is how long a signal may be told twice: a supervisor that signals the process
// and then its group means it once.
const echo = 100 * time.Millisecond

// signalContext returns a context that ends with the first SIGINT, SIGTERM or SIGHUP;
// the second one ends the process at once. Under nohup SIGHUP stays ignored.
func signalContext(stderr io.Writer) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	sigs := make(chan os.Signal, 2)
	signal.Notify(sigs, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(sigs, syscall.SIGHUP)
	}
	go func() { // lives as long as the process
		awaitSignals(sigs, cancel)
		say(stderr, "plimsoll: second signal, exiting at once\n")
		os.Exit(exitFailure)
	}()
	return ctx
}

// awaitSignals calls first at the first signal and returns at the second one. The
// same signal again within echo of the first is that one, and a SIGHUP never is the
// second: a terminal that closes tells it more than once, and supervisors beside
// their SIGTERM.
func awaitSignals(sigs <-chan os.Signal, first func()) {
	sig := <-sigs
	at := time.Now()
	first()
	for again := range sigs {
		if again != syscall.SIGHUP && (again != sig || time.Since(at) > echo) {
			return
		}
	}
}

// Main is one run of the command line. Tests fill it as main does, so they run
// the same wiring.
type Main struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string

	style style
}

// A usageError is a command line that was not understood.
type usageError struct {
	msg  string
	help string // the command line that explains it
}

func (e usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error {
	return usageError{fmt.Sprintf(format, args...), "plimsoll help"}
}

// of names the command that was not understood, if it got that far.
func (e usageError) of(command *kong.Node) usageError {
	if command != nil && command.Name != "help" { // that one explains them all
		e.help = command.FullPath() + " --help"
	}
	return e
}

// parseProblemOf words an error of the parser of the command line.
func parseProblemOf(err error) error {
	// An empty member of an enum is only how a flag is left out.
	usage := usageError{strings.Replace(err.Error(), `must be one of "",`, "must be one of ", 1), "plimsoll help"}
	if parse, ok := errors.AsType[*kong.ParseError](err); ok {
		command := parse.Context.Selected()
		if name, ok := strings.CutPrefix(usage.msg, "unexpected argument "); ok && command == nil {
			name, hint, _ := strings.Cut(name, ",") // with what could have been meant
			usage.msg = noSuchCommand(name)
			if hint != "" {
				usage.msg += "," + hint
			}
		}
		return usage.of(command)
	}
	return usage
}

func noSuchCommand(name string) string { return fmt.Sprintf("there is no command %q", name) }

// noCommand answers an empty command line with the help. It is no result, so it
// goes to stderr.
func (m *Main) noCommand(ctx context.Context) int {
	help := *m
	help.Stdout = m.Stderr
	help.Run(ctx, []string{"--help"})
	return exitUsage
}

// errSilent ends a command with exitFailure after it has said why itself.
var errSilent = errors.New("failed")

// exitRequest carries the code with which kong wants to exit after printing
// help, through kong's own control flow.
type exitRequest int

// Run parses args, runs the command and returns the exit code.
func (m *Main) Run(ctx context.Context, args []string) (code int) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exitRequest:
			code = int(r)
		default:
			panic(r)
		}
	}()
	var cli CLI
	parser, err := m.parser(&cli)
	if err != nil {
		panic(err) // the struct tags of CLI are wrong
	}
	if len(args) == 0 {
		return m.noCommand(ctx)
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		return m.fail(parseProblemOf(err))
	}
	m.setColour()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kctx.BindTo(ctx, (*context.Context)(nil))
	run := *m
	out := &output{w: m.Stdout, gone: cancel}
	run.Stdout = out
	err = kctx.Run(&run)
	if usage, ok := errors.AsType[usageError](err); ok {
		err = usage.of(kctx.Selected())
	}
	switch {
	case errors.Is(out.err, syscall.EPIPE):
		err = errSilent // as with head: whoever read it has seen enough
	case err == nil && out.err != nil:
		err = fmt.Errorf("write output: %w", out.err)
	}
	return m.fail(err)
}

// parser builds the parser of the whole command line into cli.
func (m *Main) parser(cli *CLI) (*kong.Kong, error) {
	return kong.New(cli,
		kong.Name("plimsoll"),
		kong.Description("Hosts agent threads and keeps every one of them under its load line: the model's context window.\n\nExit status: 0 it worked, 1 it failed, 2 the command line was not understood."),
		kong.Writers(m.Stdout, m.Stderr),
		kong.Exit(func(code int) { panic(exitRequest(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.NamedMapper("tokens", kong.MapperFunc(decodeTokens)),
	)
}

// fail reports err to the user and returns the exit code that goes with it.
func (m *Main) fail(err error) int {
	if err == nil {
		return exitOK
	}
	if usage, ok := errors.AsType[usageError](err); ok {
		say(m.Stderr, "plimsoll: %s\nRun `%s` for how it is used.\n", usage.msg, usage.help)
		return exitUsage
	}
	if !errors.Is(err, errSilent) {
		say(m.Stderr, "plimsoll: %s\n", err)
	}
	return exitFailure
}

// maxTokens is what the API takes as a budget.
const maxTokens = 100_000_000

// decodeTokens reads a flag that is a number of tokens. It takes the next word even
// if that begins with a dash, to say what is wrong with it.
func decodeTokens(ctx *kong.DecodeContext, target reflect.Value) error {
	word := ctx.Scan.Pop().String()
	n, err := strconv.Atoi(word)
	if err != nil || n < 1 || n > maxTokens {
		return fmt.Errorf("want a number of tokens from 1 to %s, got %q", thousands(maxTokens), word)
	}
	target.SetInt(int64(n))
	return nil
}
