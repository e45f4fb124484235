package proc

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Job is a child that reads its input, prints its answer and ends.
type Job struct {
	Argv  []string
	Dir   string
	Env   []string // NAME=value; the whole environment
	Stdin []byte
	// Timeout is when the whole group is killed; 0: only when the context is done.
	Timeout time.Duration
	// MaxOutput bounds what is kept of each of stdout and stderr, in bytes. What
	// is over it is read, counted and thrown away. 0: nothing is kept.
	MaxOutput int
}

// A Result is what became of a Job.
type Result struct {
	Exit
	Stdout, Stderr Output
	TimedOut       bool
}

// An Output is the beginning of what a child printed.
type Output struct {
	Bytes   []byte
	Dropped int64 // bytes that were over the bound
}

// Run runs a job to its end and returns how it ended; whatever the child does is no
// error. An error says that it could not be started, or that ctx was done: then it was
// killed. When Run returns nothing of the child is left.
func Run(ctx context.Context, j Job) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, context.Cause(ctx)
	}
	stdout, stderr := &bounded{max: j.MaxOutput}, &bounded{max: j.MaxOutput}
	p, err := Start(Spec{Argv: j.Argv, Dir: j.Dir, Env: j.Env, Stdin: bytes.NewReader(j.Stdin), Stdout: stdout, Stderr: stderr})
	if err != nil {
		return Result{}, err
	}
	var late <-chan time.Time
	if j.Timeout > 0 {
		timer := time.NewTimer(j.Timeout)
		defer timer.Stop()
		late = timer.C
	}
	var r Result
	var gone error
	select {
	case <-p.Done():
	case <-late:
		r.TimedOut = true
		p.Kill()
	case <-ctx.Done():
		gone = context.Cause(ctx)
		p.Kill()
	}
	exit, err := p.Wait()
	if gone != nil {
		return Result{}, gone
	}
	r.Exit, r.Stdout, r.Stderr = exit, stdout.output(), stderr.output()
	return r, err
}

// Bounds of a program that is asked for its version. Those that are started by an
// interpreter take a second or two.
const (
	versionTimeout = 20 * time.Second
	versionOutput  = 4096
)

// Version returns the first line that a program prints when it is asked for --version.
// It is ended then: not all programs know that question. The error says why there is no
// line.
func Version(ctx context.Context, program string, env []string) (string, error) {
	late, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	out := &head{bounded: bounded{max: versionOutput}, line: make(chan struct{})}
	p, err := Start(Spec{Argv: []string{program, "--version"}, Env: env, Stdout: out})
	if err != nil {
		return "", err
	}
	select {
	case <-p.Done():
	case <-out.line:
	case <-late.Done():
	}
	p.Kill()
	exit, err := p.Wait()
	text := strings.TrimLeft(string(out.out.Bytes), "\r\n")
	line, _, whole := strings.Cut(text, "\n")
	switch {
	case whole || exit.Code == 0 && text != "":
		return strings.TrimSpace(line), nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case len(out.out.Bytes) == versionOutput:
		return "", fmt.Errorf("proc: %s --version prints what is no line", program)
	case late.Err() != nil:
		return "", fmt.Errorf("proc: %s --version prints nothing for %v", program, versionTimeout)
	case err != nil:
		return "", err
	}
	return "", fmt.Errorf("proc: %s --version ended with status %d", program, exit.Code)
}

// head keeps the beginning, and tells when there is a line of it or no room for one.
type head struct {
	bounded
	line chan struct{}
	told bool
}

// Write implements io.Writer; it never fails.
func (h *head) Write(p []byte) (int, error) {
	n, err := h.bounded.Write(p)
	if text := bytes.TrimLeft(h.out.Bytes, "\r\n"); !h.told && (bytes.ContainsRune(text, '\n') || len(h.out.Bytes) == h.max) {
		h.told = true
		close(h.line)
	}
	return n, err
}

// bounded keeps the beginning of what is written to it. Its writer has ended when it
// is read.
type bounded struct {
	max int
	out Output
}

// Write implements io.Writer; it never fails.
func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), b.max-len(b.out.Bytes))
	b.out.Bytes = append(b.out.Bytes, p[:keep]...)
	b.out.Dropped += int64(len(p) - keep)
	return len(p), nil
}

func (b *bounded) output() Output { return b.out }

// Another reports whether a program is another one than that whose version line is known:
// it is missing, or says, in words, something else. Neither: it is that one, or ctx ended
// before it told.
func Another(ctx context.Context, program string, env []string, known func(line string) bool) (missing bool, says string) {
	line, err := Version(ctx, program, env)
	switch {
	case Missing(err):
		return true, ""
	case err != nil && ctx.Err() == nil:
		return false, strings.TrimPrefix(err.Error(), "proc: ")
	case err == nil && !known(line):
		return false, "it says " + strconv.Quote(line)
	}
	return false, ""
}
