package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/events"
)

// filled makes a journal with some content and returns its bytes.
func filled(t *testing.T, path string) []byte {
	t.Helper()
	j := openJournal(t, path, Options{})
	for i := range int64(50) {
		add(t, j, one("a", i, `"`+strings.Repeat("x", 500)+`"`))
	}
	closeJournal(t, j)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestUnusableFilesAreRefusedAndLeftUntouched(t *testing.T) {
	good := filled(t, filepath.Join(t.TempDir(), "plimsoll.db"))
	broken := bytes.Clone(good)
	copy(broken[100:], bytes.Repeat([]byte{0xff}, 3000)) // the root of the schema
	for name, content := range map[string][]byte{
		"text":            []byte("this is a note, not a database, and it is long enough to have a header of its own\n"),
		"short text":      []byte("hi"),
		"cut header":      good[:10],
		"cut":             good[:3*4096],
		"damaged":         broken,
		"another program": otherProgram(t),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "plimsoll.db")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the lock must be free again
				j, err := Open(path, Options{})
				if err == nil {
					closeJournal(t, j)
				}
				if !errors.Is(err, events.ErrCorrupt) || !strings.Contains(err.Error(), path) {
					t.Fatalf("got %v", err)
				}
				t.Log(err)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, content) {
				t.Fatalf("the file was changed: %d bytes, now %d, %v", len(content), len(after), err)
			}
		})
	}
}

func otherProgram(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.db")
	conn, err := connect(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec("create table bookmarks(url text); pragma user_version=42", nil); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestNewerFileIsRefusedNamingBothVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	filled(t, path)
	conn, err := connect(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec("pragma user_version=99", nil); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(path, Options{})
	var v *events.VersionError
	if !errors.As(err, &v) || v.Have != 99 || v.Knows != len(migrations()) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"99", fmt.Sprint(len(migrations())), path} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Fatalf("the file was changed: %v", err)
	}
}

func TestMigrationIsOneTransactionPerStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.db")
	conn, err := connect(path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	scripts := []string{"create table one(x)", "create table two(x); insert into two values(1); create table one(x)"}
	if err := migrate(conn, scripts); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Fatalf("got %v", err)
	}
	state := func() (version, tables int64) {
		for query, n := range map[string]*int64{"pragma user_version": &version, "select count(*) from sqlite_master": &tables} {
			if *n, err = queryInt(conn, query); err != nil {
				t.Fatal(err)
			}
		}
		return version, tables
	}
	if version, tables := state(); version != 1 || tables != 1 || !conn.AutoCommit() {
		t.Fatalf("version %d with %d tables", version, tables)
	}
	scripts[1] = "create table two(x)"
	for range 2 { // the second time there is nothing to do
		if err := migrate(conn, scripts); err != nil {
			t.Fatal(err)
		}
		if version, tables := state(); version != 2 || tables != 2 {
			t.Fatalf("version %d with %d tables", version, tables)
		}
	}
}

// A reader that meets damage later on says so, too.
func TestDamagedPageIsReportedOnRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	content := filled(t, path)
	at := bytes.Index(content, []byte(strings.Repeat("x", 400)))
	if at < 0 {
		t.Fatal("no event in the file")
	}
	page := at / 4096 * 4096
	copy(content[page:page+4096], bytes.Repeat([]byte{0xfe}, 4096))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	j := openJournal(t, path, Options{})
	if _, err := j.Read(t.Context(), "a", 0, 1000); !errors.Is(err, events.ErrCorrupt) {
		t.Fatalf("got %v", err)
	}
}
