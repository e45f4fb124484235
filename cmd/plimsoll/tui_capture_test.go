package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What differs from one run to the next, and what a capture has instead.
var tuiBlurs = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?m)^WARNING: proceeding, .*\n`), ""}, // the home of codex is temporary
	{regexp.MustCompile(`(?m) +⚠ \d+ warnings? · f2 to view$`), ""},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "THREAD"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`\(v\d+\.\d+\.\d+\)`), "(VERSION)"},
	{regexp.MustCompile(`Worked for (<?\d+[ms] ?)+ • \d\d:\d\d`), "Worked for SECONDS • TIME"},
	{regexp.MustCompile(`\((\d+[ms] ?)+ • esc`), "(SECONDS • esc"},
	{regexp.MustCompile(`(?m)^(  [› ] )(now|\d+[sm] ago) +`), "${1}AGO  "},
	{regexp.MustCompile(`Reconnecting to server… \(\d+s\)`), "Reconnecting to server… (SECONDS)"},
	{regexp.MustCompile(`(?m)^• The water rises slowly[a-z, ]*$`), "• The water rises slowly (AND SOME MORE)"}, // as far as it came
}

// blurred is a screen as a capture has it.
func (d *desk) blurred(screen string) string {
	screen = strings.ReplaceAll(screen, d.dir, "/tmp/DESK")
	for _, b := range tuiBlurs {
		screen = b.pattern.ReplaceAllString(screen, b.with)
	}
	return trimLines(screen)
}

// captured waits until the screen is the one of docs/tui. With -update it waits until
// the screen does not change any more, and makes it that.
func (tm *terminal) captured(name string) {
	tm.t.Helper()
	path := filepath.Join("..", "..", "docs", "tui", name+".txt")
	if *update {
		mustDo(tm.t, os.WriteFile(path, []byte(tm.settled()), 0o644))
		return
	}
	golden, err := os.ReadFile(path)
	mustDo(tm.t, err)
	deadline := time.Now().Add(tuiPatience)
	tm.await("became that of "+path, func(s string) bool {
		diff := cmp.Diff(string(golden), tm.blurred(s))
		if diff != "" && time.Now().After(deadline) {
			tm.t.Errorf("the screen differs from %s (-want +got):\n%s", path, diff)
		}
		return diff == ""
	})
}

// settled returns the screen once it has been the same for a second.
func (tm *terminal) settled() string {
	tm.t.Helper()
	last, since := "", time.Now()
	tm.await("settled", func(s string) bool {
		if s = tm.blurred(s); s != last {
			last, since = s, time.Now()
		}
		return time.Since(since) > time.Second
	})
	return last
}

// Every capture is explained, and every explanation has its capture.
func TestCapturesOfTheTerminalAreExplained(t *testing.T) {
	if *update {
		t.Skip("SKIPPED: the captures are being written")
	}
	t.Parallel()
	dir := filepath.Join("..", "..", "docs", "tui")
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	mustDo(t, err)
	explained := map[string]bool{}
	for _, m := range regexp.MustCompile(`\]\(([\w-]+\.txt)\)`).FindAllStringSubmatch(string(readme), -1) {
		explained[m[1]] = true
	}
	there := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	mustDo(t, err)
	for _, f := range files {
		there[filepath.Base(f)] = true
	}
	if diff := cmp.Diff(there, explained); diff != "" || len(there) == 0 {
		t.Errorf("the captures and those that the README explains (-there +explained):\n%s", diff)
	}
}
