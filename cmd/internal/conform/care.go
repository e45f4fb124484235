package conform

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// This file looks for what a row left behind.

// children returns the processes whose environment names a folder, as far as this
// system tells (Linux does).
func children(dir string) (pids []int) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is valid
	for _, path := range environs {
		env, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(env, []byte("="+dir)) {
			continue // it ended, or is somebody else's
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && pid != os.Getpid() && alive(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// alive reports whether a process runs: one that ended and was not reaped yet has no
// command line.
func alive(pid int) bool {
	cmd, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && len(cmd) > 0
}

// leftFor is how long something may take to be gone after Close has returned: the
// kernel and the network's goroutines are not ours.
const leftFor = 3 * time.Second

// eventually asks again and again until it is so, or too late.
func eventually(is func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(leftFor); ; {
		if is() {
			return true
		}
		select {
		case <-tick.C:
		case <-late:
			return is()
		}
	}
}

// gone fails if a process is left that works in a folder. It ends what is left.
func gone(dir string) error {
	if eventually(func() bool { return len(children(dir)) == 0 }) {
		return nil
	}
	var left []string
	for _, pid := range children(dir) {
		cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may end meanwhile
		left = append(left, fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(cmd, []byte{0}, []byte{' '})))
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if left == nil {
		return nil
	}
	return fmt.Errorf("processes are left: %s", strings.Join(left, "; "))
}

// kill ends the processes of a site as the system's killer of processes would.
func kill(dir string) error {
	pids := children(dir)
	if len(pids) == 0 {
		return errors.New("no process of the provider runs")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// A census is which goroutines of this module there are.
type census map[string]int

// ours is in the stack of every goroutine that this module has started.
const ours = "github.com/plimsoll-dev/plimsoll/"

// count takes a census, by where goroutines were started.
func count() census {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	c := census{}
	for _, stack := range strings.Split(string(buf), "\n\n")[1:] { // the first one is this one
		_, made, found := strings.Cut(stack, "created by ")
		if found && strings.HasPrefix(made, ours) {
			from, _, _ := strings.Cut(made, " in goroutine")
			c[from]++
		}
	}
	return c
}

// since returns what there is more of than before.
func (c census) since(before census) (more []string) {
	for from, n := range c {
		if n > before[from] {
			more = append(more, fmt.Sprintf("%d of %s", n-before[from], strings.TrimPrefix(from, ours)))
		}
	}
	slices.Sort(more)
	return more
}

// leaked fails if goroutines are left that were not there before.
func leaked(before census) error {
	if eventually(func() bool { return len(count().since(before)) == 0 }) {
		return nil
	}
	return fmt.Errorf("goroutines are left: %s", strings.Join(count().since(before), ", "))
}

// littered returns the files of the temporary folder that are named like this
// package's and were not there before.
func littered() []string {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "conform*")) // the pattern is valid
	return left
}
