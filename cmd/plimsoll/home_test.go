package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

func TestHomeIsFoundByFlagThenVariableThenStateFolder(t *testing.T) {
	t.Parallel()
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	tests := []struct {
		flag string
		env  func(string) string
		want string
	}{
		{"/a", env("PLIMSOLL_HOME", "/b", "XDG_STATE_HOME", "/c", "HOME", "/d"), "/a"},
		{"", env("PLIMSOLL_HOME", "/b", "XDG_STATE_HOME", "/c", "HOME", "/d"), "/b"},
		{"", env("XDG_STATE_HOME", "/c", "HOME", "/d"), "/c/plimsoll"},
		{"", env("XDG_STATE_HOME", "relative", "HOME", "/d"), "/d/.local/state/plimsoll"},
		{"", env("HOME", "/d"), "/d/.local/state/plimsoll"},
		{"", env(), ""},
	}
	for _, tt := range tests {
		h, err := resolveHome(tt.flag, tt.env)
		if h.dir != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("flag %q: got %q, %v; want %q", tt.flag, h.dir, err, tt.want)
		}
	}
}

func TestHomeIsMadePrivate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		files   []string // with mode 0644, in a folder with mode 0755
		refused bool
	}{
		"empty folder":     {},
		"a home":           {files: []string{tokenFile, dbFile, dbFile + "-wal"}},
		"somebody's files": {files: []string{"thesis.txt"}, refused: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := home{filepath.Join(t.TempDir(), "h")}
			mustDo(t, os.Mkdir(h.dir, 0o755))
			mustDo(t, os.Chmod(h.dir, 0o755))
			for _, f := range tt.files {
				mustDo(t, os.WriteFile(h.path(f), nil, 0o644))
				mustDo(t, os.Chmod(h.path(f), 0o644))
			}
			err := h.create()
			if tt.refused {
				if err == nil || !strings.Contains(err.Error(), "chmod 700 "+h.dir) {
					t.Fatalf("got %v, want a refusal that names the fix", err)
				}
				if mode(t, h.dir) != 0o755 {
					t.Error("the refused folder was changed")
				}
				return
			}
			mustDo(t, err)
			if got := mode(t, h.dir); got != 0o700 {
				t.Errorf("the home has mode %04o", got)
			}
			for _, f := range tt.files {
				if got := mode(t, h.path(f)); got != 0o600 {
					t.Errorf("%s has mode %04o", f, got)
				}
			}
		})
	}
}

func TestHomeOfOtherKindsIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	mustDo(t, os.WriteFile(file, nil, 0o600))
	if err := (home{file}).create(); err == nil || !strings.Contains(err.Error(), "not a folder") {
		t.Errorf("a file: got %v", err)
	}
	if err := (home{filepath.Join(file, "x")}).create(); err == nil {
		t.Error("a home below a file was made")
	}
}

func TestRacingProcessesAgreeOnOneToken(t *testing.T) {
	t.Parallel()
	h := home{t.TempDir()}
	const n = 16
	tokens := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			tok, err := h.token()
			if err != nil {
				t.Error(err)
			}
			tokens[i] = tok
		})
	}
	wg.Wait()
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(tokens[0]) {
		t.Errorf("token %q is not 256 bits in hex", tokens[0])
	}
	for _, tok := range tokens {
		if tok != tokens[0] {
			t.Fatalf("two tokens: %v", tokens)
		}
	}
	entries, err := os.ReadDir(h.dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the home holds %v, %v; want the token only", entries, err)
	}
	if got := mode(t, h.path(tokenFile)); got != 0o600 {
		t.Errorf("the token has mode %04o", got)
	}
}

func TestBrokenTokenIsRefusedAndNotShown(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "short\n", "two words that are long enough to be a token", strings.Repeat("x", 2000)} {
		h := home{t.TempDir()}
		mustDo(t, os.WriteFile(h.path(tokenFile), []byte(content), 0o600))
		_, err := h.token()
		if err == nil || content != "" && strings.Contains(err.Error(), strings.TrimSpace(content)) {
			t.Errorf("token file %.20q: got %v", content, err)
		}
	}
}

func TestReplacedTokenCountsAtOnce(t *testing.T) {
	t.Parallel()
	h := home{t.TempDir()}
	first, err := h.token()
	mustDo(t, err)
	watch := h.watchToken(slog.New(slog.DiscardHandler))
	for range 2 { // read, then remembered
		if got := watch(); got != first {
			t.Errorf("the token is %q, want the one of the file", got)
		}
	}
	second := strings.Repeat("0a", tokenBytes)
	mustDo(t, os.WriteFile(h.path("new"), []byte(second+"\n"), 0o600))
	mustDo(t, os.Rename(h.path("new"), h.path(tokenFile)))
	if got := watch(); got != second {
		t.Errorf("after the file was replaced the token is %q", got)
	}
	mustDo(t, os.Remove(h.path(tokenFile)))
	if got := watch(); got != "" {
		t.Errorf("without a file the token is %q, want none", got)
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	mustDo(t, err)
	return info.Mode().Perm()
}
