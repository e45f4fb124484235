package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/failpoint"
)

// childEnv makes the test binary the process that is killed.
const childEnv = "PLIMSOLL_TEST_CRASH_CHILD"

// pointEnv makes it kill itself at a failpoint.
const pointEnv = "PLIMSOLL_TEST_CRASH_POINT"

const crashWriters = 8

// crashChild appends, stores open texts and prints what was acknowledged until
// it is killed.
func crashChild(path string) {
	j, err := Open(path, Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var mu sync.Mutex
	acknowledge := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	fail := make(chan error)
	for w := range crashWriters {
		go func() { fail <- crashWriter(j, fmt.Sprint("t", w), acknowledge) }()
	}
	fmt.Fprintln(os.Stderr, <-fail)
	os.Exit(1)
}

func crashWriter(j *Journal, thread string, acknowledge func(string, ...any)) error {
	ctx := context.Background()
	info, err := j.Info(ctx, thread)
	if err != nil && !errors.Is(err, events.ErrNotFound) {
		return err
	}
	for head := info.Head; ; {
		text := []byte(fmt.Sprintf("%s-%d", thread, head))
		a := events.Append{
			Thread: thread, Expect: head, Blobs: []events.Blob{{Hash: events.BlobHash(text), Data: text}},
			Info: fmt.Appendf(nil, "%d", head+3),
		}
		for i := range int64(3) {
			a.Events = append(a.Events, events.Event{Type: "t", Data: fmt.Appendf(nil, "%d", head+i+1)})
		}
		if head, err = j.Append(ctx, a); err != nil {
			return err
		}
		acknowledge("append %s %d", thread, head)
		if err := j.PutOpen(ctx, thread, events.OpenText{Item: "i", Text: fmt.Sprint(head)}); err != nil {
			return err
		}
		acknowledge("open %s %d", thread, head)
	}
}

// Everything acknowledged survives kill -9, appends are there whole or not at
// all, and nothing is out of order.
func TestAppendSurvivesKill9(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	appended, opened := map[string]int64{}, map[string]int64{}
	for round := range 5 {
		n := killed(t, path, 50+rand.IntN(600), appended, opened)
		j, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for w := range crashWriters {
			thread := fmt.Sprint("t", w)
			checkCrashed(t, j, thread, appended[thread], opened[thread])
		}
		checkOrder(t, j)
		closeJournal(t, j)
		t.Logf("round %d: %d acknowledged", round, n)
	}
}

// killed runs a child and kills it after n acknowledgements.
func killed(t *testing.T, path string, n int, appended, opened map[string]int64) (acknowledged int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			break // what comes after the last newline was not acknowledged
		}
		var what, thread string
		var head int64
		if _, err := fmt.Sscan(line, &what, &thread, &head); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if what == "append" {
			appended[thread] = head
		} else {
			opened[thread] = head
		}
		if acknowledged++; acknowledged == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); acknowledged < n || err == nil || stderr.Len() > 0 {
		t.Fatalf("the child ended by itself: %v, %s", err, stderr.String())
	}
	return acknowledged
}

func checkCrashed(t *testing.T, j *Journal, thread string, appended, opened int64) {
	t.Helper()
	ctx := context.Background()
	info, err := j.Info(ctx, thread)
	if errors.Is(err, events.ErrNotFound) && appended == 0 {
		return
	}
	if err != nil || info.Head < appended || info.Head%3 != 0 || string(info.Info) != fmt.Sprint(info.Head) {
		t.Fatalf("%s: info %+v, acknowledged %d, %v", thread, info, appended, err)
	}
	evs, err := j.Read(ctx, thread, 0, 1<<20)
	if err != nil || int64(len(evs)) != info.Head {
		t.Fatalf("%s: %d events, head %d, %v", thread, len(evs), info.Head, err)
	}
	for i, e := range evs {
		if e.Seq != int64(i)+1 || string(e.Data) != fmt.Sprint(i+1) {
			t.Fatalf("%s: event %d is %+v", thread, i+1, e)
		}
	}
	for head := int64(0); head < info.Head; head += 3 {
		want := fmt.Sprintf("%s-%d", thread, head)
		if got, err := j.Blob(ctx, events.BlobHash([]byte(want))); err != nil || string(got) != want {
			t.Fatalf("blob %s: %q, %v", want, got, err)
		}
	}
	open, err := j.Open(ctx, thread)
	if err != nil {
		t.Fatal(err)
	}
	var stored int64
	if len(open) == 1 {
		if _, err := fmt.Sscan(open[0].Text, &stored); err != nil {
			t.Fatal(err)
		}
	}
	if stored < opened || len(open) > 1 {
		t.Fatalf("%s: open texts %v, acknowledged %d", thread, open, opened)
	}
}

func checkOrder(t *testing.T, j *Journal) {
	t.Helper()
	all, head, err := j.ReadAll(context.Background(), 0, 1<<20)
	if err != nil || len(all) == 0 || all[len(all)-1].Pos != head {
		t.Fatalf("%d events, head %d, %v", len(all), head, err)
	}
	next := map[string]int64{}
	for _, e := range all {
		if next[e.Thread]++; e.Seq != next[e.Thread] {
			t.Fatalf("%s: seq %d at place %d", e.Thread, e.Seq, next[e.Thread])
		}
	}
}

// The lock of a killed owner is free at once.
func TestKilledOwnerLeavesNoLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	killed(t, path, 1, map[string]int64{}, map[string]int64{})
	openJournal(t, path, Options{})
}

// crashAt makes the child kill itself when its tenth append of one thread gets
// to a point.
func crashAt(path, point string) {
	j, err := Open(path, Options{})
	for i := int64(0); err == nil; i++ {
		if i == 9 {
			failpoint.Arm(func(name string) {
				if name == point {
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // if it fails the parent sees a child that lives
				}
			})
		}
		_, err = j.Append(context.Background(), one("a", i, fmt.Sprint(i+1)))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// S4 and S5: an append killed before its commit never was; one killed after it
// is there, although nobody was told.
func TestKilledAroundTheCommit(t *testing.T) {
	for point, want := range map[string]int64{BeforeCommit: 9, AfterCommit: 10} {
		path := filepath.Join(t.TempDir(), "plimsoll.db")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+path, pointEnv+"="+point)
		out, err := cmd.CombinedOutput()
		if state, ok := errors.AsType[*exec.ExitError](err); !ok || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("%s: %v: %s", point, err, out)
		}
		j := openJournal(t, path, Options{})
		info, err := j.Info(t.Context(), "a")
		if err != nil || info.Head != want {
			t.Fatalf("%s: head %d, want %d: %v", point, info.Head, want, err)
		}
		add(t, j, one("a", want, "1"))
		checkOrder(t, j)
	}
}
