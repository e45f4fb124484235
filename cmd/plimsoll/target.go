package main

import (
	"os"
	"path/filepath"
	"strings"
)

// A target is what `plimsoll compact` works on: a thread or a file.
type target struct {
	thread string // a UUID in lower-case text form, or the beginning of one
	file   string // a path, or - for stdin
}

// The lengths of what names a thread: a UUID as text, or its beginning.
const (
	minThread = 6
	maxThread = 36
)

// namesThread reports whether arg is written as a UUID is, or as the beginning of
// one. Other ways to write a UUID do not count.
func namesThread(arg string) bool {
	if len(arg) < minThread || len(arg) > maxThread {
		return false
	}
	for i, c := range arg {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (c == '-') || !dash && !strings.ContainsRune("0123456789abcdefABCDEF", c) {
			return false
		}
	}
	return true
}

// parseThread returns what names a thread in canonical form: its id or, to be
// looked up, the beginning of that.
func parseThread(arg string) (string, error) {
	if !namesThread(arg) {
		return "", usagef("%q is not a thread id: want a UUID as `plimsoll threads list` prints it, or its first %d characters or more", arg, minThread)
	}
	return strings.ToLower(arg), nil
}

// parseTarget tells a thread from a file: a UUID or its beginning is a thread; what
// exists, or has a path separator or an extension, is a file. What could be both,
// or is neither, is refused with the way out.
func parseTarget(arg string, exists func(string) bool) (target, error) {
	if arg == "-" {
		return target{file: arg}, nil
	}
	if namesThread(arg) {
		if exists(arg) {
			return target{}, usagef("%q may be a thread id and is also the name of a file here; for the file write %q", arg, "./"+arg)
		}
		id, err := parseThread(arg)
		return target{thread: id}, err
	}
	if exists(arg) || strings.ContainsRune(arg, filepath.Separator) || filepath.Ext(arg) != "" {
		return target{file: arg}, nil
	}
	return target{}, usagef("%q is neither a thread id (a UUID or its beginning, see `plimsoll threads list`) nor a file that exists", arg)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
