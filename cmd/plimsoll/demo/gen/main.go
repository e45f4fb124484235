// Command gen writes the session that plimsoll demo imports: a made-up coding
// session in the record format of Claude Code, on the made-up service of
// testdata/harbour. Everything in it was written for this purpose.
//
// It is deterministic; a test fails when the committed session differs from what
// it writes. After a change: go generate ./cmd/plimsoll/demo/gen
package main

import (
	"embed"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:generate go run . -out ../session.jsonl

//go:embed testdata
var testdata embed.FS

func main() {
	out := flag.String("out", "session.jsonl", "the file to write")
	workspace := flag.String("workspace", "", "also write the service as the session leaves it, to this folder")
	flag.Parse()
	if err := run(*out, *workspace); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(out, workspace string) error {
	s := tell()
	if err := os.WriteFile(out, s.out.Bytes(), 0o644); err != nil {
		return err
	}
	if workspace == "" {
		return nil
	}
	for path, text := range s.files {
		file := filepath.Join(workspace, strings.TrimSuffix(path, ".txt"))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// tell writes the whole session.
func tell() *story {
	s := newStory(folder("testdata/harbour"))
	fresh := folder("testdata/new")
	s.explore()
	s.reproduce(fresh)
	s.fix(fresh)
	s.postgres()
	s.bucket(fresh)
	s.middleware(fresh)
	s.settings(fresh)
	s.staging()
	s.correct()
	s.metrics()
	s.prune()
	s.drain(fresh)
	s.measure(fresh)
	s.review()
	s.close()
	return s
}

// folder returns the files of an embedded folder by their path in it.
func folder(dir string) map[string]string {
	files := map[string]string{}
	err := fs.WalkDir(testdata, dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := testdata.ReadFile(path)
		files[strings.TrimPrefix(path, dir+"/")] = string(raw)
		return err
	})
	if err != nil {
		panic(err)
	}
	return files
}
