package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/plimsoll-dev/plimsoll/events"
)

// An owner is the lock that says which process has the journal. The kernel
// drops it when the process ends, however that happens. The file stays: a
// removed lock file would let two processes hold two different ones.
type owner struct{ f *os.File }

func acquire(path string) (*owner, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pid, err := io.ReadAll(io.LimitReader(f, 32))
		n, perr := strconv.Atoi(strings.TrimSpace(string(pid)))
		if err != nil || perr != nil {
			n = 0
		}
		return nil, errors.Join(&events.OwnedError{Path: path, PID: n}, f.Close())
	}
	if err == nil {
		err = f.Chmod(0o600)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock journal: %w", err), f.Close())
	}
	return &owner{f}, nil
}

func (o *owner) release() error {
	return errors.Join(o.f.Truncate(0), o.f.Close())
}
