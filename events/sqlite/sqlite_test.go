package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/journaltest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if point := os.Getenv(pointEnv); point != "" {
			crashAt(path, point)
		}
		crashChild(path)
	}
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	var mu sync.Mutex
	paths := map[events.Journal]string{}
	openAt := func(t *testing.T, path string) events.Journal {
		j, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		paths[j] = path
		return j
	}
	journaltest.Run(t, journaltest.Backend{
		Open: func(t *testing.T) events.Journal {
			dir, err := os.MkdirTemp(t.TempDir(), "j")
			if err != nil {
				t.Fatal(err)
			}
			return openAt(t, filepath.Join(dir, "plimsoll.db"))
		},
		Reopen: func(t *testing.T, j events.Journal) events.Journal {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			path := paths[j]
			delete(paths, j)
			mu.Unlock()
			return openAt(t, path)
		},
	})
}

func openJournal(t *testing.T, path string, opts Options) *Journal {
	t.Helper()
	j, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeJournal(t, j) })
	return j
}

func closeJournal(t *testing.T, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

func one(thread string, expect int64, data string) events.Append {
	return events.Append{Thread: thread, Expect: expect, Events: []events.Event{{Type: "t", Data: []byte(data)}}}
}

func add(t *testing.T, j *Journal, a events.Append) {
	t.Helper()
	if _, err := j.Append(context.Background(), a); err != nil {
		t.Fatal(err)
	}
}

func TestSecondOpenNamesTheOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	j := openJournal(t, path, Options{})
	add(t, j, one("a", 0, "1"))
	_, err := Open(path, Options{})
	var owned *events.OwnedError
	if !errors.As(err, &owned) || owned.PID != os.Getpid() || owned.Path != path {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("the message does not name the owner: %v", err)
	}
	add(t, j, one("a", 1, "2")) // the owner goes on
	closeJournal(t, j)
	openJournal(t, path, Options{})
}

func TestFilesArePrivateUnderAnyUmask(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o777} {
		dir := t.TempDir()
		path := filepath.Join(dir, "plimsoll.db")
		old := syscall.Umask(umask)
		j, err := Open(path, Options{})
		if err == nil {
			add(t, j, one("a", 0, "1"))
			_, err = j.Read(t.Context(), "a", 0, 1)
		}
		syscall.Umask(old)
		if err != nil {
			t.Fatalf("umask %#o: %v", umask, err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		seen := ""
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			seen += e.Name() + " "
			if info.Mode().Perm() != 0o600 {
				t.Errorf("umask %#o: %s has mode %v", umask, e.Name(), info.Mode())
			}
		}
		if want := "plimsoll.db plimsoll.db-shm plimsoll.db-wal plimsoll.db.lock "; seen != want {
			t.Errorf("files %q, want %q", seen, want)
		}
		closeJournal(t, j)
	}
}

func TestOpenTightensTheModeOfAnOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	closeJournal(t, openJournal(t, path, Options{}))
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	openJournal(t, path, Options{})
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
}

func TestPathsWithMarksOfURIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a #?%41&b=c ü.db")
	j := openJournal(t, path, Options{})
	add(t, j, one("a", 0, "1"))
	if _, err := j.Info(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
}

func TestCloseFoldsTheLogBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	j := openJournal(t, path, Options{})
	for i := range int64(50) {
		add(t, j, one("a", i, "1"))
	}
	closeJournal(t, j)
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("log is still there: %v", err)
	}
}

func TestLogStaysBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	j := openJournal(t, path, Options{})
	text := `"` + strings.Repeat("x", 64<<10) + `"`
	for i := range int64(500) { // 32 MB
		add(t, j, one("a", i, text))
		if i%50 == 0 {
			if _, err := j.Read(t.Context(), "a", 0, 100); err != nil {
				t.Fatal(err)
			}
		}
	}
	if st, err := os.Stat(path + "-wal"); err != nil || st.Size() > 9<<20 {
		t.Fatalf("log has %d bytes, %v", st.Size(), err)
	}
}

// An append that fails for want of space leaves nothing, takes no other down,
// and the journal works again once there is space.
func TestFullDatabaseLosesNothingAndRecovers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	j := openJournal(t, path, Options{MaxPages: 100})
	ctx := t.Context()
	big := `"` + strings.Repeat("x", 20_000) + `"`
	var n int64
	for ; n < 1000; n++ {
		a := one("a", n, big)
		a.Events = append(a.Events, events.Event{Type: "t", Data: []byte(big)})
		a.Expect = 2 * n
		a.Blobs = []events.Blob{{Hash: events.BlobHash([]byte(fmt.Sprint(n))), Data: []byte(fmt.Sprint(n))}}
		if _, err := j.Append(ctx, a); errors.Is(err, events.ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	check := func(head int64) {
		t.Helper()
		evs, err := j.Read(ctx, "a", 0, 1000)
		if err != nil || int64(len(evs)) != head {
			t.Fatalf("%d events, want %d: %v", len(evs), head, err)
		}
		info, err := j.Info(ctx, "a")
		if err != nil || info.Head != head {
			t.Fatalf("head %d, want %d: %v", info.Head, head, err)
		}
	}
	if n == 0 || n == 1000 {
		t.Fatalf("never full, or at once: %d", n)
	}
	check(2 * n)
	if _, err := j.Blob(ctx, events.BlobHash([]byte(fmt.Sprint(n)))); !errors.Is(err, events.ErrNotFound) {
		t.Fatalf("blob of the failed append: %v", err)
	}
	smallOnesSurvive(t, j, big)
	if _, err := j.Append(ctx, events.Append{Thread: "b", Expect: 1, Events: one("", 0, `"gone"`).Events, Delete: true}); err != nil {
		t.Fatalf("delete in a full database: %v", err)
	}
	if err := j.PutSnapshot(ctx, "a", events.Snapshot{Seq: 2 * n, Data: []byte("s")}); err != nil {
		t.Fatal(err)
	}
	if err := j.Trim(ctx, "a", n); err != nil {
		t.Fatal(err)
	}
	add(t, j, one("a", 2*n, big))
}

// smallOnesSurvive shares commits between appends that fit and one that does
// not.
func smallOnesSurvive(t *testing.T, j *Journal, big string) {
	add(t, j, one("b", 0, "0"))
	const small = 8
	var wg sync.WaitGroup
	errs := make([]error, small+1)
	hold := make(chan struct{})
	release := holdWriter(j, hold)
	for i := range small + 1 {
		a := one(fmt.Sprint("small", i), 0, "1")
		if i == small/2 {
			a = one("big", 0, `"`+strings.Repeat(big[1:len(big)-1], 20)+`"`)
		}
		wg.Go(func() { _, errs[i] = j.Append(context.Background(), a) })
	}
	release()
	wg.Wait()
	for i, err := range errs {
		if i == small/2 {
			if !errors.Is(err, events.ErrFull) {
				t.Errorf("the big one: %v", err)
			}
		} else if err != nil {
			t.Errorf("a small one: %v", err)
		}
	}
}

// holdWriter keeps the writer busy until all of the test's appends are queued.
func holdWriter(j *Journal, hold chan struct{}) (release func()) {
	started := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- j.write(context.Background(), "hold", "writer", func(*writer) error {
			close(started)
			<-hold
			return events.ErrNotFound
		})
	}()
	<-started
	return func() {
		for len(j.queue) < 9 {
			runtime.Gosched()
		}
		close(hold)
		if err := <-done; !errors.Is(err, events.ErrNotFound) {
			panic(err)
		}
	}
}

func TestCommitsAreSynced(t *testing.T) {
	j := openJournal(t, filepath.Join(t.TempDir(), "plimsoll.db"), Options{})
	const full = 2
	err := j.write(t.Context(), "look", "writer", func(w *writer) error {
		if n, err := queryInt(w.conn, "pragma synchronous"); n != full || err != nil {
			t.Errorf("synchronous is %d, %v", n, err)
		}
		var mode string
		if err := w.row("pragma journal_mode", nil, &mode); mode != "wal" || err != nil {
			t.Errorf("journal mode is %q, %v", mode, err)
		}
		return events.ErrNotFound
	})
	if !errors.Is(err, events.ErrNotFound) {
		t.Fatal(err)
	}
}

func TestReadersCannotWrite(t *testing.T) {
	j := openJournal(t, filepath.Join(t.TempDir(), "plimsoll.db"), Options{})
	err := j.reads.with(t.Context(), func(s *session) error {
		_, err := s.exec("delete from thread")
		return err
	})
	if err == nil {
		t.Fatal("a reader wrote")
	}
}

// P148: twenty images named again by thirty appends take their space once.
func TestBlobsTakeTheirSpaceOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	j := openJournal(t, path, Options{})
	var images []events.Blob
	for i := range 20 {
		data := bytes.Repeat([]byte{byte(i), 1, 2, 3}, 25_000)
		images = append(images, events.Blob{Hash: events.BlobHash(data), Data: data})
	}
	for i := range int64(30) {
		a := one(fmt.Sprint("t", i%3), i/3, "1")
		a.Blobs = images
		add(t, j, a)
	}
	closeJournal(t, j)
	if st, err := os.Stat(path); err != nil || st.Size() > 2*20*100_000 {
		t.Fatalf("%d bytes, %v", st.Size(), err)
	}
}
