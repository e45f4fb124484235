package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

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
	m := &Main{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	os.Exit(m.Run(signalContext(os.Stderr), os.Args[1:]))
}

// signalContext returns a context that ends with the first SIGINT or SIGTERM;
// the second one ends the process at once.
func signalContext(stderr io.Writer) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	sigs := make(chan os.Signal, 2)
	signal.Notify(sigs, os.Interrupt, syscall.SIGTERM)
	go func() { // lives as long as the process
		<-sigs
		cancel()
		<-sigs
		say(stderr, "plimsoll: second signal, exiting at once\n")
		os.Exit(exitFailure)
	}()
	return ctx
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
type usageError struct{ msg string }

func (e usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

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
	kctx, err := parser.Parse(args)
	if err != nil {
		return m.fail(usageError{err.Error()})
	}
	m.setColour()
	kctx.BindTo(ctx, (*context.Context)(nil))
	run := *m
	out := &output{w: m.Stdout}
	run.Stdout = out
	err = kctx.Run(&run)
	if err == nil && out.err != nil {
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
	)
}

// fail reports err to the user and returns the exit code that goes with it.
func (m *Main) fail(err error) int {
	if err == nil {
		return exitOK
	}
	if usage, ok := errors.AsType[usageError](err); ok {
		say(m.Stderr, "plimsoll: %s\nRun `plimsoll help` for the commands.\n", usage.msg)
		return exitUsage
	}
	if !errors.Is(err, errSilent) {
		say(m.Stderr, "plimsoll: %s\n", clientText(err))
	}
	return exitFailure
}
