package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/uuid"
)

// A target is what `plimsoll compact` works on: a thread or a file.
type target struct {
	thread string // a UUID in lower-case text form
	file   string // a path, or - for stdin
}

// threadID matches how a UUID is written; uuid.Parse accepts more forms.
var threadID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// parseThread returns a thread's id in canonical form.
func parseThread(arg string) (string, error) {
	if !threadID.MatchString(arg) {
		return "", usagef("%q is not a thread id: want a UUID as `plimsoll threads list` prints it", arg)
	}
	return uuid.MustParse(arg).String(), nil
}

// parseTarget tells a thread from a file: a UUID is a thread; what exists, or has
// a path separator or an extension, is a file. What could be both, or is
// neither, is refused with the way out.
func parseTarget(arg string, exists func(string) bool) (target, error) {
	if arg == "-" {
		return target{file: arg}, nil
	}
	if threadID.MatchString(arg) {
		if exists(arg) {
			return target{}, usagef("%q is a thread id and also the name of a file here; for the file write %q", arg, "./"+arg)
		}
		id, err := parseThread(arg)
		return target{thread: id}, err
	}
	if exists(arg) || strings.ContainsRune(arg, filepath.Separator) || filepath.Ext(arg) != "" {
		return target{file: arg}, nil
	}
	return target{}, usagef("%q is neither a thread id (a UUID, see `plimsoll threads list`) nor a file that exists", arg)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
