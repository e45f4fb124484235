// Package lease makes sure that one process at a time drives a thing that knows no
// locks itself, such as a session of an agent program.
//
// Guarantees:
//
//   - A lease is held by one process at most, and only while it lives: the kernel
//     lets go of it with the process, kill -9 included.
//   - Who does not get it is told who has it, as far as that can be known.
//   - Two leases of one process on the same thing are a conflict too.
//   - Release lets go at once, and only of what this Lease holds: it may be called again,
//     at the same time, and on nil.
package lease

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// A HeldError says that somebody else has the lease.
type HeldError struct {
	By string // what the holder wrote about itself; may be empty
}

// Error implements error.
func (e *HeldError) Error() string {
	if e.By == "" {
		return "another process has it"
	}
	return e.By + " has it"
}

// A Lease is held until Release. It is safe for concurrent use.
type Lease struct {
	mu   sync.Mutex
	file *os.File // nil once it is released
}

// maxHolder bounds what is read about a holder, in bytes.
const maxHolder = 200

// Take takes the lease of a thing. Its lock is a file in dir, a folder that is made if
// need be and must be the same one for everybody who could drive the thing. By says
// who takes it, in a few words.
func Take(dir, thing, by string) (*Lease, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	sum := sha256.Sum256([]byte(thing))
	f, err := os.OpenFile(filepath.Join(dir, hex.EncodeToString(sum[:12])+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		held := &HeldError{}
		if said, readErr := io.ReadAll(io.LimitReader(f, maxHolder)); readErr == nil {
			held.By = strings.ToValidUTF8(strings.TrimSpace(string(said)), "")
		}
		closeErr := f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(held, closeErr)
		}
		return nil, errors.Join(fmt.Errorf("lease: lock %s: %w", f.Name(), err), closeErr)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(by+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lease: %w", err), f.Close())
	}
	return &Lease{file: f}, nil
}

// Release lets go of the lease. A Lease that is released, or nil, has nothing to let go
// of: then it returns nil, whoever holds the thing by now. The file stays: taking it
// away could give two processes two files.
func (l *Lease) Release() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	// A child of this process has the file open too until it becomes its program, so
	// that closing it alone would let go only then.
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	if err != nil {
		err = fmt.Errorf("lease: unlock %s: %w", f.Name(), err)
	}
	return errors.Join(err, f.Close())
}
