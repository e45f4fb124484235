package proc

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
)

// This file ends the family of a child: what it started, and what that did, also in
// sessions of their own, as agent programs start the commands of their models. Neither
// signals to a group nor parenthood find these once the child is gone, but their
// environment does: it holds a mark that each inherits. Who takes the mark out of its
// environment is not found.

const (
	familyEnv = "PLIMSOLL_FAMILY" // the mark: the house and a number
	keeperEnv = "PLIMSOLL_KEEPER" // makes this program a keeper, of the house that it names
)

// A house is a process that has families.
type house struct {
	name string
	door *os.File // open as long as the process lives
}

// ours is the house of this process.
var ours = sync.OnceValue(func() house {
	name := rand.Text()
	return house{name, keep(name)}
})

var families atomic.Int64

// newFamily returns the mark of a new family.
func newFamily() string { return ours().name + "." + strconv.FormatInt(families.Add(1), 10) }

// rounds bounds how often a family is looked for: who starts others while it is killed is
// faster than that only if it does nothing else.
const rounds = 50

// endFamily kills every process whose mark begins like this.
func endFamily(mark string) {
	want := []byte(familyEnv + "=" + mark)
	for range rounds {
		if !killMarked(want) {
			return
		}
	}
}

// killMarked kills who has the mark now, and reports whether there was somebody.
func killMarked(want []byte) (found bool) {
	proc, err := os.Open("/proc")
	if err != nil {
		return false
	}
	defer func() { _ = proc.Close() }() // it was only read
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return false
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() || !marked(name, want) {
			continue
		}
		p, err := os.FindProcess(pid) // from here on the number cannot be another's
		if err != nil {
			continue
		}
		if marked(name, want) && p.Signal(syscall.SIGKILL) == nil {
			found = true
		}
		_ = p.Release() // always nil here
	}
	return found
}

// marked reports whether a process has the mark in its environment. One that has ended
// has none.
func marked(pid string, want []byte) bool {
	env, err := os.ReadFile("/proc/" + pid + "/environ")
	if err != nil {
		return false // it is gone, or another user's
	}
	for pair := range bytes.SplitSeq(env, []byte{0}) {
		if rest, ok := bytes.CutPrefix(pair, want); ok && (len(rest) == 0 || rest[0] == '.') {
			return true
		}
	}
	return false
}

// keep starts this program once more, as a keeper: it waits until this process is gone,
// whatever ended it, and then kills what is left of its families. Without one a crash may
// leave something, and nothing else is different.
func keep(name string) (door *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer func() { _ = r.Close() }() // the keeper has its own
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"plimsoll-keeper"}, Dir: "/", Env: []string{keeperEnv + "=" + name},
		Stdin: r, SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // a signal of the terminal is not for it
	}
	if cmd.Start() != nil {
		_ = w.Close() // nobody reads
		return nil
	}
	_ = cmd.Process.Release() // nobody waits for it: it ends after this process
	return w
}

func init() {
	if of := os.Getenv(keeperEnv); of != "" {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is that of the house
		endFamily(of)
		os.Exit(0)
	}
}
