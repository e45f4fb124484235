package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// process is the second process, as this one sees it.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startClient(ctx context.Context, what string) (*process, error) {
	cmd := exec.CommandContext(ctx, os.Args[0], "-client", what)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &process{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

func (p *process) line() (string, error) {
	line, err := p.out.ReadString('\n')
	return strings.TrimSpace(line), err
}

// thread returns the thread that the client made.
func (p *process) thread() (string, error) { return p.line() }

func (p *process) expect(word string) error {
	line, err := p.line()
	if err == nil && line != word {
		err = fmt.Errorf("the client said %q, want %q", line, word)
	}
	return err
}

// measured is the median of some turns.
type measured struct {
	cpu, wall     time.Duration
	bytes, frames int
	grown         int // KB of resident memory over all of them
}

// turns lets the client make turns.
func (p *process) turns(n int) (measured, error) {
	var cpus, walls []time.Duration
	var m measured
	held, err := resident()
	if err != nil {
		return m, err
	}
	for range n {
		before, err := cpu()
		if err != nil {
			return m, err
		}
		begun := time.Now()
		if _, err := io.WriteString(p.in, "turn\n"); err != nil {
			return m, err
		}
		line, err := p.line()
		if err != nil {
			return m, err
		}
		walls = append(walls, time.Since(begun))
		after, err := cpu()
		if err != nil {
			return m, err
		}
		cpus = append(cpus, after-before)
		if _, err := fmt.Sscan(line, &m.bytes, &m.frames); err != nil {
			return m, fmt.Errorf("the client said %q: %w", line, err)
		}
	}
	slices.Sort(cpus)
	slices.Sort(walls)
	m.cpu, m.wall = cpus[n/2], walls[n/2]
	after, err := resident()
	m.grown = after - held
	return m, err
}

// stop lets the client end.
func (p *process) stop() error {
	return errors.Join(p.in.Close(), p.cmd.Wait())
}

// kill ends a client that does not listen.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	err := p.cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil // it was killed
	}
	return err
}

// resident returns the resident memory of this process in KB after a collection.
func resident() (int, error) {
	runtime.GC()
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(rest, "kB")))
		}
	}
	return 0, errors.New("no VmRSS in /proc/self/status")
}
