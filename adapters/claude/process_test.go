package claude

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// Whatever the program is, it is said what is wrong with it, in time, and nothing of it
// is left.
func TestAProgramThatIsNoClaudeCode(t *testing.T) {
	for role, want := range map[string]string{
		"garbage": "is it Claude Code?",
		"hang":    "did not start within",
		"die":     "unknown option '--permission-prompt-tool'",
		"endless": "a line is too long",
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			limit := 30 * time.Second // what the others do is seen before
			if role == "hang" {
				limit = 300 * time.Millisecond
			}
			a := New(Options{
				Program: os.Args[0], Env: []string{roleEnv + "=" + role, "HOME=" + t.TempDir()}, LeaseDir: t.TempDir(),
				OpenTimeout: limit,
			})
			s, err := a.Open(context.Background(), adapters.OpenParams{Cwd: t.TempDir()})
			if s != nil || fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), want) {
				t.Errorf("%v", err)
			}
			if p := a.Probe(context.Background()); len(p.Problems) != 1 || p.Problems[0].Fix == "" || !strings.Contains(p.Problems[0].Text, want) {
				t.Errorf("doctor is told %+v", p)
			}
		})
	}
}

func TestAProgramThatIsNotThere(t *testing.T) {
	a := New(Options{Program: filepath.Join(t.TempDir(), "claude"), Env: []string{"HOME=" + t.TempDir()}, LeaseDir: t.TempDir()})
	_, err := a.Open(context.Background(), adapters.OpenParams{Cwd: t.TempDir()})
	if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "npm install -g @anthropic-ai/claude-code") {
		t.Errorf("%v", err)
	}
}

// A folder that is gone is not silently another one, in which files would be changed.
func TestAWorkingFolderThatIsGone(t *testing.T) {
	a := New(Options{Program: os.Args[0], Env: []string{roleEnv + "=hang", "HOME=" + t.TempDir()}, LeaseDir: t.TempDir()})
	gone := filepath.Join(t.TempDir(), "gone")
	_, err := a.Open(context.Background(), adapters.OpenParams{Cwd: gone})
	if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), gone) {
		t.Errorf("%v", err)
	}
}

func TestTheEnvironmentIsListed(t *testing.T) {
	env := environment(Options{
		Home: "/conf", ContextWindow: 64_000,
		Env: []string{"CLAUDECODE=1", "CLAUDE_CODE_ENTRYPOINT=cli", "CLAUDE_CODE_SESSION_ID=x", "CLAUDE_CONFIG_DIR=/other", "DISABLE_AUTO_COMPACT=0", "CLAUDE_CODE_OAUTH_TOKEN=t", "A=b"},
	})
	want := "CLAUDE_CODE_OAUTH_TOKEN=t A=b DISABLE_AUTO_COMPACT=1 DISABLE_AUTOUPDATER=1 CLAUDE_CONFIG_DIR=/conf CLAUDE_CODE_MAX_RETRIES=3 CLAUDE_CODE_MAX_CONTEXT_TOKENS=64000"
	if got := strings.Join(env, " "); got != want {
		t.Errorf("\n%s\n%s", got, want)
	}
}
