// Package instructions reads the instruction files of a project: AGENTS.md and
// CLAUDE.md, from the root of its repository down to the working folder.
//
// Guarantees:
//
//   - Nothing is remembered: what Load returns is what the files say now, and a file
//     that is gone counts no more.
//   - The same files give the same bytes. Each text is there as it is in its file,
//     below a line with the file's path.
//   - Only regular files below the root are read: no device, no pipe, and no link
//     that leads out. What is not UTF-8 is left out whole.
//   - At most MaxBytes of text are read. The file nearest to the working folder is
//     the last to be left out.
//   - What is left out is said in the error that comes beside the text.
package instructions

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"
)

// MaxBytes bounds the text of all files together.
const MaxBytes = 32 << 10

// maxDepth bounds the folders between the root and the working folder.
const maxDepth = 64

// names are the files of one folder, in order. One that says the same as the other
// of its folder is left out.
var names = []string{"AGENTS.md", "CLAUDE.md"}

// A file is one that counts.
type file struct {
	path string // absolute
	text string
}

// Load returns the text of the files that count in a folder, the outermost first;
// empty if there are none. The error says what was left out; the text is good all
// the same.
func Load(cwd string) (string, error) {
	if !filepath.IsAbs(cwd) {
		return "", nil
	}
	folders := foldersOf(filepath.Clean(cwd))
	root, err := os.OpenRoot(folders[0])
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("instruction files of %s cannot be read: %w", cwd, reason(err))
	}
	defer root.Close() //nolint:errcheck // it was only read
	var files []file
	var left []error
	room := MaxBytes
	for _, dir := range slices.Backward(folders) {
		of, errs := read(root, folders[0], dir, &room)
		files = append(of, files...)
		left = append(errs, left...)
	}
	return render(files), errors.Join(left...)
}

// foldersOf lists the folders from the root of the repository down to cwd. Without a
// repository there is only cwd.
func foldersOf(cwd string) []string {
	var up []string
	for dir := cwd; len(up) < maxDepth; dir = filepath.Dir(dir) {
		up = append(up, dir)
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			slices.Reverse(up)
			return up
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return []string{cwd}
}

// read reads the files of one folder, as far as there is room.
func read(root *os.Root, top, dir string, room *int) (files []file, left []error) {
	rel, err := filepath.Rel(top, dir)
	if err != nil {
		return nil, []error{err}
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		text, err := readFile(root, filepath.Join(rel, name), *room)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			left = append(left, fmt.Errorf("instruction file %s is left out: %w", path, reason(err)))
		case strings.TrimSpace(text) == "" || len(files) > 0 && files[0].text == text:
		default:
			*room -= len(text)
			files = append(files, file{path, text})
		}
	}
	return files, left
}

// Why a file is left out.
var (
	errKind     = errors.New("it is not a regular file")
	errEncoding = errors.New("it is not valid UTF-8")
)

// readFile reads a regular file of at most room bytes. Opening never waits, whatever
// the name stands for.
func readFile(root *os.Root, name string, room int) (text string, err error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errKind
	}
	b, err := io.ReadAll(io.LimitReader(f, int64(room)+1))
	switch {
	case err != nil:
		return "", err
	case len(b) > room:
		return "", fmt.Errorf("all instruction files together may have %d bytes", MaxBytes)
	case !utf8.Valid(b):
		return "", errEncoding
	}
	return string(b), nil
}

// reason is an error without the path, which is named already.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// render frames the texts. Each is there verbatim.
func render(files []file) string {
	if len(files) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Instructions of the project. Where two files disagree, the later one counts.\n")
	for _, f := range files {
		fmt.Fprintf(&b, "\n--- %s ---\n%s", f.path, f.text)
		if !strings.HasSuffix(f.text, "\n") {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "--- end of %s ---\n", f.path)
	}
	return b.String()
}
