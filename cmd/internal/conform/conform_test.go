package conform

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/clis"
)

// TestMain makes the test binary a tap when a program of it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == TapArg {
		os.Exit(Tap(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == childArg {
		os.Exit(childMain())
	}
	if len(os.Args) > 1 && os.Args[1] == peerArg {
		os.Exit(peerMain())
	}
	if len(os.Args) > 1 && os.Args[1] == claudePeerArg {
		os.Exit(claudePeerMain(os.Args[2:]))
	}
	code := m.Run()
	close(forgotten)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// held holds a subject to every row and fails for those that fail.
func held(t *testing.T, s Subject) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			res := hold(t.Context(), s, r)
			t.Logf("%s %s %s (%d ms)", res.Outcome, res.Code, res.Reason, res.DurationMs)
			if res.Outcome == Fail {
				t.Errorf("expected: %s\nseen: %s", res.Expected, res.Seen)
			}
		})
	}
}

func TestOfflineConforms(t *testing.T) { held(t, Offline()) }

func TestChatConforms(t *testing.T) { held(t, Chat()) }

func TestClaudeConforms(t *testing.T) {
	clis.Claude(t)
	path, version, err := clis.Installed("claude")
	if err != nil {
		t.Fatal(err)
	}
	held(t, Claude(path, version))
}

func TestCodexConforms(t *testing.T) {
	clis.Codex(t)
	path, version, err := clis.Installed("codex")
	if err != nil {
		t.Fatal(err)
	}
	held(t, Codex(path, version))
}
