package main

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
)

// The files of a home.
const (
	dbFile     = "plimsoll.db"
	tokenFile  = "token"
	grantsFile = "grants.json"
	configFile = "config.toml"
	logFile    = "log"
	socketFile = "plimsoll.sock"
)

// A home is the folder of one server: its journal, token and configuration.
type home struct{ dir string }

func (h home) path(name string) string { return filepath.Join(h.dir, name) }

// homeVariable of the environment names the home where no flag does.
const homeVariable = "PLIMSOLL_HOME"

// resolveHome returns the home that the flag names, else $PLIMSOLL_HOME, else the
// XDG state folder. It touches nothing.
func resolveHome(flag string, getenv func(string) string) (home, error) {
	dir := flag
	if dir == "" {
		dir = getenv(homeVariable)
	}
	if dir == "" {
		state := getenv("XDG_STATE_HOME")
		if !filepath.IsAbs(state) { // the XDG rule: a relative one is ignored
			user := getenv("HOME")
			if user == "" {
				return home{}, errors.New("find home: none of --home, PLIMSOLL_HOME, XDG_STATE_HOME and HOME is set")
			}
			state = filepath.Join(user, ".local", "state")
		}
		dir = filepath.Join(state, "plimsoll")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return home{}, fmt.Errorf("find home: %w", err)
	}
	return home{abs}, nil
}

// create makes the home, or makes sure that an existing one is private. A folder
// of somebody else, or an open one that holds other things, is refused rather
// than changed.
func (h home) create() error {
	if err := os.MkdirAll(filepath.Dir(h.dir), 0o755); err != nil {
		return fmt.Errorf("create home: %w", err)
	}
	if err := os.Mkdir(h.dir, 0o700); err == nil {
		return h.chmod(h.dir, 0o700) // a umask such as 0777 would have closed it to us too
	} else if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create home: %w", err)
	}
	info, err := os.Stat(h.dir)
	if err != nil {
		return fmt.Errorf("open home: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("open home: %s is not a folder", h.dir)
	}
	if err := ownedByUs(info, h.dir); err != nil {
		return err
	}
	if info.Mode().Perm() != 0o700 {
		mine, err := h.looksLikeHome()
		if err != nil {
			return err
		}
		if !mine {
			return fmt.Errorf("open home: %s has mode %04o and holds other files; use an empty folder, or run: chmod 700 %s",
				h.dir, info.Mode().Perm(), h.dir)
		}
		if err := h.chmod(h.dir, 0o700); err != nil {
			return err
		}
	}
	return h.closeFiles()
}

// isNew reports whether the folder has nothing of a home yet, so that create makes
// a new one.
func (h home) isNew() bool {
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return isHomeFile(e.Name()) })
}

// noteNew says that a home was made by a command that is not about making one.
func (h home) noteNew(w io.Writer) {
	say(w, "a new home was made: %s (if you meant another one, remove it; see --home and PLIMSOLL_HOME)\n", h.dir)
}

func (h home) chmod(path string, mode fs.FileMode) error {
	if err := os.Chmod(path, mode); err != nil {
		return fmt.Errorf("open home: %w", err)
	}
	return nil
}

// looksLikeHome reports whether the folder is empty or has been a home before.
func (h home) looksLikeHome() (bool, error) {
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		return false, fmt.Errorf("open home: %w", err)
	}
	for _, e := range entries {
		if isHomeFile(e.Name()) {
			return true, nil
		}
	}
	return len(entries) == 0, nil
}

// isHomeFile reports whether name is one of a home's files, SQLite's side files
// included.
func isHomeFile(name string) bool {
	switch name {
	case tokenFile, grantsFile, configFile, logFile, socketFile:
		return true
	}
	return name == dbFile || strings.HasPrefix(name, dbFile+"-") || strings.HasPrefix(name, dbFile+".")
}

// closeFiles makes every file of the home private.
func (h home) closeFiles() error {
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		return fmt.Errorf("open home: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !isHomeFile(e.Name()) || info.Mode()&fs.ModeSymlink != 0 {
			continue // vanished meanwhile, or not ours
		}
		if info.Mode().Perm()&0o077 != 0 {
			if err := h.chmod(h.path(e.Name()), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownedByUs fails if path belongs to another user.
func ownedByUs(info fs.FileInfo, path string) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("open home: %s belongs to user %d, this is user %d; choose another with --home", path, st.Uid, os.Geteuid())
	}
	return nil
}
