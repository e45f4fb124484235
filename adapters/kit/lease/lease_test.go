package lease_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/lease"
)

// roleEnv makes the test binary a process that holds a lease until its input ends.
const roleEnv = "PLIMSOLL_TEST_LEASE_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(roleEnv); dir != "" {
		if _, err := lease.Take(dir, "session 1", "another server"); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestOneHasTheLeaseAndTheOtherIsToldWho(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	first, err := lease.Take(dir, "session 1", "the first server")
	if err != nil {
		t.Fatal(err)
	}
	_, err = lease.Take(dir, "session 1", "the second server")
	if held, ok := errors.AsType[*lease.HeldError](err); !ok || held.By != "the first server" {
		t.Errorf("the second one got %v", err)
	}
	other, err := lease.Take(dir, "session 2", "the second server")
	if err != nil {
		t.Fatalf("another thing: %v", err)
	}
	if err := errors.Join(other.Release(), first.Release()); err != nil {
		t.Fatal(err)
	}
	again, err := lease.Take(dir, "session 1", "the second server")
	if err != nil {
		t.Fatalf("after it was released: %v", err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of leases: %v, %v", info.Mode(), err)
	}
}

func TestALeaseEndsWithItsProcess(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	word := make([]byte, 4)
	if _, err := io.ReadFull(stdout, word); err != nil || string(word) != "held" {
		t.Fatalf("the other process says %q: %v", word, err)
	}
	if _, err := lease.Take(dir, "session 1", "this one"); err == nil {
		t.Fatal("two processes have one lease")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
	l, err := lease.Take(dir, "session 1", "this one")
	if err != nil {
		t.Fatalf("after kill -9 of the holder: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

func TestReleaseMayBeCalledAgainAndFreesNothingOfAnother(t *testing.T) {
	dir := t.TempDir()
	first, err := lease.Take(dir, "session 1", "the first")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := first.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	second, err := lease.Take(dir, "session 1", "the second")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Release(); err != nil {
		t.Errorf("released before: %v", err)
	}
	if _, err := lease.Take(dir, "session 1", "the third"); err == nil {
		t.Error("a lease that is released twice let go of another's")
	}
	var none *lease.Lease
	if err := errors.Join(second.Release(), none.Release()); err != nil {
		t.Error(err)
	}
}

// A child that is being started has the files of this process for a moment.
func TestReleaseLetsGoAlsoIfTheFileIsOpenElsewhere(t *testing.T) {
	dir := t.TempDir()
	l, err := lease.Take(dir, "session 1", "this one")
	if err != nil {
		t.Fatal(err)
	}
	locks, err := filepath.Glob(filepath.Join(dir, "*.lock"))
	if err != nil || len(locks) != 1 {
		t.Fatalf("%q: %v", locks, err)
	}
	held := openAs(t, locks[0])
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := lease.Take(dir, "session 1", "this one")
	if err != nil {
		t.Errorf("while somebody has the released file open: %v", err)
	}
	if err := errors.Join(again.Release(), syscall.Close(held)); err != nil {
		t.Error(err)
	}
}

// openAs returns another descriptor of a file that this process has open.
func openAs(t *testing.T, path string) int {
	t.Helper()
	fds, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skip("the open files of a process cannot be listed here")
	}
	want, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range fds {
		info, err := os.Stat(filepath.Join("/dev/fd", e.Name()))
		if err != nil || !os.SameFile(info, want) {
			continue
		}
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		other, err := syscall.Dup(n)
		if err != nil {
			t.Fatal(err)
		}
		return other
	}
	t.Fatal("the lease has no open file")
	return 0
}

func TestAFolderThatCannotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lease.Take(filepath.Join(file, "leases"), "x", "y"); err == nil {
		t.Error("a lease below a file")
	}
}
