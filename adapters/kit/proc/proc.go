package proc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A Spec says what to start.
type Spec struct {
	// Argv is the program and its arguments. A program without a slash is looked up
	// in the PATH of the server, never in a folder that a PATH names relatively.
	Argv []string
	Dir  string   // to run in; empty: that of the server
	Env  []string // NAME=value; the whole environment
	// Family: whatever the child starts ends with it, in whatever group or session, and
	// with the server, kill -9 included. Else only its group does.
	Family bool
	// Stdin is what the child reads; nil: nothing. Stdout and Stderr take what it
	// prints; nil: it is thrown away. An *os.File is handed over as it is; anything
	// else is copied by goroutines that end with the child.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// An Exit is how a child ended.
type Exit struct {
	Code   int    // its status; -1 if a signal ended it
	Signal string // such as "killed"; empty if it ended by itself
}

// A Process is a child that was started. Its methods may be called by several
// goroutines at once.
type Process struct {
	pid    int
	family string // the mark of all that it starts; empty: only its group ends with it
	done   chan struct{}

	// Written before done is closed.
	exit Exit
	err  error

	mu     sync.Mutex // guards what follows
	reaped bool       // or about to be: the number may soon be another's
}

// drain is how long the output of a child that ended is waited for. What it printed
// itself is there at once; only somebody who escaped from its group can keep it open.
const drain = time.Second

// Find returns the path of the program that an argv names.
func Find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("proc: %w", err)
	}
	return path, nil
}

// Missing reports whether an error of Find or Start says that there is no such program,
// or none that may be run.
func Missing(err error) bool {
	return errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}

// Start starts a child. It must be waited for, or killed, by the caller.
func Start(s Spec) (*Process, error) {
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return nil, errors.New("proc: no program is named")
	}
	path, err := Find(s.Argv[0])
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: path, Args: s.Argv, Dir: s.Dir, Env: s.Env, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr,
		SysProcAttr: attributes(), WaitDelay: drain,
	}
	if cmd.Env == nil {
		cmd.Env = []string{} // nil is the whole environment of the server
	}
	p := &Process{done: make(chan struct{}), exit: Exit{Code: -1}}
	if s.Family {
		if p.family = newFamily(); p.family != "" {
			cmd.Env = append(slices.Clip(cmd.Env), familyEnv+"="+p.family)
		}
	}
	started := make(chan error)
	go p.run(cmd, started)
	if err := <-started; err != nil {
		where := ""
		if s.Dir != "" {
			where = " in " + s.Dir
		}
		return nil, fmt.Errorf("proc: start %s%s: %w", s.Argv[0], where, err)
	}
	return p, nil
}

// run starts the child, waits for it and reaps it. All of it happens on one thread,
// which stays as long as the child does: Linux kills the child when the thread that
// started it ends (prctl(2), PR_SET_PDEATHSIG).
func (p *Process) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	p.pid = cmd.Process.Pid
	started <- nil
	awaitExit(p.pid)
	p.retire()
	if p.family != "" {
		endFamily(p.family)
	}
	p.err = cmd.Wait()
	if cmd.ProcessState != nil {
		p.exit = exitOf(cmd.ProcessState)
	}
	if _, ended := errors.AsType[*exec.ExitError](p.err); ended || errors.Is(p.err, exec.ErrWaitDelay) {
		p.err = nil // how it ended is in the exit, and escaped children are no failure
	}
	close(p.done)
}

// retire kills what the child left in its group. From here on nobody is signalled.
func (p *Process) retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signal(syscall.SIGKILL)
	p.reaped = true
}

// Kill kills the whole group. It returns at once, and does nothing if the child has
// ended.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		p.signal(syscall.SIGKILL)
	}
}

// signal reaches every process of the group. That there is none left is no failure.
func (p *Process) signal(sig syscall.Signal) {
	_ = syscall.Kill(-p.pid, sig) // only ESRCH is possible: the group is ours
}

// Done is closed when the child was reaped and its output is complete.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns how the child ended, once it has. The error is that of a writer which
// did not take the output of a child that ended well.
func (p *Process) Wait() (Exit, error) {
	<-p.done
	return p.exit, p.err
}

func exitOf(state *os.ProcessState) Exit {
	e := Exit{Code: state.ExitCode()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Signal = status.Signal().String()
	}
	return e
}
