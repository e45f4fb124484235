package child

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/proc"
)

// A Spec says what to start.
type Spec struct {
	Argv []string // see proc.Spec
	Dir  string
	Env  []string
	// MaxLine bounds one line of its output, in bytes; 0 means 64 MiB.
	MaxLine int
	// Patience is how long it has after Close to end by itself; 0 means 2 s. Then its
	// group is killed.
	Patience time.Duration
}

// ErrLine: the other side printed a line that is too long.
var ErrLine = errors.New("child: a line is too long")

// ErrClosed: the conversation was closed on this side.
var ErrClosed = errors.New("child: closed")

const (
	defaultMaxLine  = 64 << 20
	defaultPatience = 2 * time.Second
	keptStderr      = 8 << 10
)

// A Conn is one end of a conversation by lines. Next has one caller at a time; the
// other methods may be called by several goroutines at once.
type Conn interface {
	// Next returns the next line, without its end. The slice is the caller's. After
	// the last line it returns what ended the conversation.
	Next() ([]byte, error)
	// Send writes one line.
	Send(ctx context.Context, line []byte) error
	// Kill ends the other side at once, without waiting for it.
	Kill()
	// Ending reports whether the other side was killed or closed from here, also by a Send
	// that was given up in the middle of a line. It may take until Next tells that it is
	// over, but nothing can begin any more.
	Ending() bool
	// Close ends the conversation and returns when nothing is left of the other side.
	Close() error
}

// A Child is a program that is talked with.
type Child struct {
	proc     *proc.Process
	lines    *bufio.Reader
	maxLine  int
	patience time.Duration
	stdin    *os.File
	stdout   *os.File
	stderr   *tail
	secrets  []string
	sending  chan struct{} // held by who writes
	once     sync.Once
	closed   chan struct{}
	ending   atomic.Bool
}

var _ Conn = (*Child)(nil)

// Start starts a program.
func Start(s Spec) (*Child, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("child: %w", err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("child: %w", err), inR.Close(), inW.Close())
	}
	c := &Child{
		maxLine: orDefault(s.MaxLine, defaultMaxLine), patience: orDefault(s.Patience, defaultPatience),
		stdin: inW, stdout: outR, lines: bufio.NewReaderSize(outR, 64<<10), stderr: &tail{max: keptStderr},
		secrets: Secrets(s.Env),
		sending: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	c.proc, err = proc.Start(proc.Spec{Argv: s.Argv, Dir: s.Dir, Env: s.Env, Family: true, Stdin: inR, Stdout: outW, Stderr: c.stderr})
	err = errors.Join(err, inR.Close(), outW.Close()) // the child has its own
	if err != nil {
		if c.proc != nil {
			c.proc.Kill()
			<-c.proc.Done()
		}
		return nil, errors.Join(err, inW.Close(), outR.Close())
	}
	return c, nil
}

func orDefault[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// Next implements Conn.
func (c *Child) Next() ([]byte, error) {
	line, err := readLine(c.lines, c.maxLine)
	if err == nil {
		return line, nil
	}
	if errors.Is(err, ErrLine) {
		c.Kill()
		return nil, err
	}
	return nil, c.ended()
}

// ended is what ended the conversation, once the process has: it is killed if it
// closed its output and lives on.
func (c *Child) ended() error {
	select {
	case <-c.closed:
		return ErrClosed
	default:
	}
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	select {
	case <-c.proc.Done():
	case <-timer.C:
		c.Kill()
		<-c.proc.Done()
	}
	exit, _ := c.proc.Wait() // how the copying of its complaints went is of no matter
	return &ExitError{Exit: exit, Stderr: c.Stderr()}
}

// An ExitError is a program that ended.
type ExitError struct {
	Exit   proc.Exit
	Stderr string // the end of what it complained about, fit to be shown
}

// Error implements error.
func (e *ExitError) Error() string {
	how := fmt.Sprintf("exited with status %d", e.Exit.Code)
	if e.Exit.Signal != "" {
		how = "was ended by the signal " + e.Exit.Signal
	}
	if said := lastLines(e.Stderr, 400); said != "" {
		how += ": " + said
	}
	return how
}

// Stderr is the end of what the program has complained about so far, fit to be shown.
func (c *Child) Stderr() string { return shown(c.stderr.String(), c.secrets) }

// Send implements Conn.
func (c *Child) Send(ctx context.Context, line []byte) error {
	select {
	case c.sending <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.closed:
		return ErrClosed
	}
	defer func() { <-c.sending }()
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := c.stdin.SetWriteDeadline(time.Time{}); err != nil {
		return ErrClosed
	}
	stop := context.AfterFunc(ctx, func() {
		_ = c.stdin.SetWriteDeadline(time.Unix(1, 0)) // fails only if it is closed, which ends the write too
	})
	_, err := c.stdin.Write(append(slices.Clip(line), '\n'))
	switch {
	case !stop() && err != nil:
		c.Kill() // half a line was written: nothing can follow it
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("child: it takes no input: %w", err)
	}
	return nil
}

// Kill implements Conn.
func (c *Child) Kill() {
	c.ending.Store(true)
	c.proc.Kill()
}

// Ending implements Conn.
func (c *Child) Ending() bool { return c.ending.Load() }

// Done is closed when the process has ended.
func (c *Child) Done() <-chan struct{} { return c.proc.Done() }

// Close implements Conn: the program sees the end of its input, and is killed if
// that does not end it soon.
func (c *Child) Close() error {
	var err error
	c.once.Do(func() {
		c.ending.Store(true)
		close(c.closed)
		err = c.stdin.Close()
		drained := make(chan struct{})
		go func() { // what it prints at its end must not block it
			defer close(drained)
			_, _ = io.Copy(io.Discard, c.stdout) // ends with the process, or with the file
		}()
		timer := time.NewTimer(c.patience)
		defer timer.Stop()
		select {
		case <-c.proc.Done():
		case <-timer.C:
			c.proc.Kill()
			<-c.proc.Done()
		}
		err = errors.Join(err, c.stdout.Close())
		<-drained
	})
	<-c.proc.Done()
	return err
}

// readLine returns the next line of r, without its end.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrLine, limit)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return trimEnd(line), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return trimEnd(line), nil // the end is told with the next one
		default:
			return nil, err
		}
	}
}

func trimEnd(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r"))
}
