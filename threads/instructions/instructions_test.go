package instructions_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/instructions"
)

// A tree is a folder of files, by path.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range files {
		write(t, filepath.Join(dir, path), text)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, cwd string) string {
	t.Helper()
	text, err := instructions.Load(cwd)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// inOrder fails unless all parts are in text, one after the other.
func inOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, p := range parts {
		at := strings.Index(rest, p)
		if at < 0 {
			t.Fatalf("%q is not there, or not in order:\n%s", p, text)
		}
		rest = rest[at+len(p):]
	}
}

func TestFilesCountFromTheRepositoryDownToTheFolder(t *testing.T) {
	dir := tree(t, map[string]string{
		"AGENTS.md":               "outside the repository",
		"repo/.git/HEAD":          "ref",
		"repo/AGENTS.md":          "rule of the root\n",
		"repo/CLAUDE.md":          "another one of the root",
		"repo/sub/deep/AGENTS.md": "rule of the folder",
		"repo/other/AGENTS.md":    "rule of another folder",
	})
	text := load(t, filepath.Join(dir, "repo/sub/deep"))
	inOrder(t, text,
		filepath.Join(dir, "repo/AGENTS.md"), "rule of the root\n",
		filepath.Join(dir, "repo/CLAUDE.md"), "another one of the root",
		filepath.Join(dir, "repo/sub/deep/AGENTS.md"), "rule of the folder",
	)
	for _, not := range []string{"outside", "another folder"} {
		if strings.Contains(text, not) {
			t.Errorf("%q is there:\n%s", not, text)
		}
	}
	if again := load(t, filepath.Join(dir, "repo/sub/deep")); again != text {
		t.Error("the same files gave other bytes")
	}
}

func TestWithoutARepositoryOnlyTheFolderCounts(t *testing.T) {
	dir := tree(t, map[string]string{"AGENTS.md": "of the parent", "sub/AGENTS.md": "of the folder"})
	text := load(t, filepath.Join(dir, "sub"))
	if !strings.Contains(text, "of the folder") || strings.Contains(text, "of the parent") {
		t.Errorf("got:\n%s", text)
	}
}

func TestAFileCountsAsItIsNow(t *testing.T) {
	dir := tree(t, map[string]string{".git": "gitdir: elsewhere", "AGENTS.md": "first"})
	path := filepath.Join(dir, "AGENTS.md")
	before := load(t, dir)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, "other") // of the same size, and made to look as old
	if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if after := load(t, dir); after == before || !strings.Contains(after, "other") {
		t.Errorf("the file changed, the text did not:\n%s", after)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if gone := load(t, dir); gone != "" {
		t.Errorf("the file is gone, the text is not:\n%s", gone)
	}
}

func TestOneTextUnderTwoNamesIsThereOnce(t *testing.T) {
	dir := tree(t, map[string]string{".git": "", "AGENTS.md": "the only rule"})
	if err := os.Symlink("AGENTS.md", filepath.Join(dir, "CLAUDE.md")); err != nil {
		t.Fatal(err)
	}
	if text := load(t, dir); strings.Count(text, "the only rule") != 1 {
		t.Errorf("got:\n%s", text)
	}
}

func TestWhatIsNoPlainFileOfTheProjectIsLeftOut(t *testing.T) {
	secret := filepath.Join(tree(t, map[string]string{"secret": "the secret"}), "secret")
	for name, make := range map[string]func(path string) error{
		"link that leads out":    func(path string) error { return os.Symlink(secret, path) },
		"link to a device":       func(path string) error { return os.Symlink("/dev/zero", path) },
		"pipe":                   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"folder":                 func(path string) error { return os.Mkdir(path, 0o700) },
		"bytes that are no text": func(path string) error { return os.WriteFile(path, []byte("a\xff\xfe"), 0o600) },
		"unreadable link":        func(path string) error { return os.Symlink("CLAUDE.md", path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, map[string]string{".git": "", "AGENTS.md": "the rule"})
			path := filepath.Join(dir, "CLAUDE.md")
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			text, err := instructions.Load(dir)
			if !strings.Contains(text, "the rule") || strings.Contains(text, "secret") || strings.Contains(text, "a\xff") {
				t.Errorf("got:\n%s", text)
			}
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("nobody is told that %s is left out: %v", path, err)
			}
		})
	}
}

func TestTooMuchIsLeftOutFromTheOutsideIn(t *testing.T) {
	half := strings.Repeat("x", instructions.MaxBytes/2)
	dir := tree(t, map[string]string{
		".git": "", "AGENTS.md": "outer " + half, "sub/AGENTS.md": "inner " + half, "sub/CLAUDE.md": "small",
	})
	text, err := instructions.Load(filepath.Join(dir, "sub"))
	if !strings.Contains(text, "inner ") || !strings.Contains(text, "small") || strings.Contains(text, "outer ") {
		t.Errorf("the wrong files are left out (%d bytes)", len(text))
	}
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "AGENTS.md")) || !strings.Contains(err.Error(), "32768") {
		t.Errorf("the warning is %v", err)
	}
	write(t, filepath.Join(dir, "AGENTS.md"), strings.Repeat("y", instructions.MaxBytes*64))
	if text, err := instructions.Load(dir); text != "" || err == nil {
		t.Errorf("a huge file gave %d bytes and %v", len(text), err)
	}
}

func TestFoldersThatAreNotThereSayNothing(t *testing.T) {
	for _, cwd := range []string{"", "relative", "/nowhere/at/all", filepath.Join(t.TempDir(), "gone")} {
		if text := load(t, cwd); text != "" {
			t.Errorf("%q: %s", cwd, text)
		}
	}
}
