package claude

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/clis"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// Whatever the program is, it is said what is wrong with it, in time, and nothing of it
// is left.
func TestAProgramThatIsNoClaudeCode(t *testing.T) {
	for role, want := range map[string]struct{ opened, probed string }{
		"garbage": {"is it Claude Code?", `is not Claude Code: asked for its version, it says "Welcome!`},
		"hang":    {"did not start within", "did not start within"},
		"echo":    {"refuses initialize: nobody is there to answer", "is not Claude Code: asked for its version, "},
		"wrong":   {"what the program answers to initialize is not understood; is it Claude Code?", "is not Claude Code: asked for its version, "},
		"flood":   {"printed without end while nothing ran", `is not Claude Code: asked for its version, it says`},
		"die":     {"unknown option '--permission-prompt-tool'", "is not Claude Code: asked for its version, "},
		"endless": {"a line is too long", "is not Claude Code: asked for its version"},
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
			if s != nil || fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), want.opened) {
				t.Errorf("%v", err)
			}
			if p := a.Probe(context.Background()); len(p.Problems) != 1 || p.Problems[0].Fix == "" || !strings.Contains(p.Problems[0].Text, want.probed) {
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

// What a doctor is told first is what helps: what the program is, not how it failed.
func TestTheProbeNamesWhatIsMissing(t *testing.T) {
	ls := clis.Tool(t, "ls")
	for name, tt := range map[string]struct {
		o         Options
		text, fix string
	}{
		"no program": {Options{Program: "/nowhere/claude"}, "there is no program /nowhere/claude", "install Claude Code"},
		"another":    {Options{Program: ls}, ls + " is not Claude Code: asked for its version, it says", "set program in [providers.claude]"},
		"no home":    {Options{Program: ls, Home: filepath.Join(t.TempDir(), "home")}, "is not there", "correct home in [providers.claude], or make the folder"},
	} {
		tt.o.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
		p := New(tt.o).Probe(t.Context())
		if len(p.Problems) != 1 || !strings.Contains(p.Problems[0].Text, tt.text) || !strings.Contains(p.Problems[0].Fix, tt.fix) {
			t.Errorf("%s: %+v", name, p.Problems)
		}
	}
}

// Claude Code would make it, and begin without a login.
func TestAHomeThatIsGoneIsNotMade(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	a := New(Options{Program: os.Args[0], Home: gone, Env: []string{roleEnv + "=hang", "HOME=" + t.TempDir()}})
	_, err := a.Open(t.Context(), adapters.OpenParams{Cwd: t.TempDir()})
	_, listed := a.Models(t.Context())
	for _, err := range []error{err, listed} {
		if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "the home "+gone+" of Claude Code is not there") {
			t.Errorf("%v", err)
		}
	}
	if _, err := os.Stat(gone); err == nil {
		t.Error("the home was made")
	}
}

func TestVersionLines(t *testing.T) {
	for line, want := range map[string]string{"2.1.332 (Claude Code)": "2.1.332", "ls (GNU coreutils) 9.4": "", "": "", " (Claude Code)": "", "codex-cli 0.171.0": ""} {
		if v, ok := VersionOf(line); ok != (want != "") || ok && v != want {
			t.Errorf("%q: %q, %v", line, v, ok)
		}
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

// dying is a conversation with a process that was killed and is not gone yet.
type dying struct {
	child.Conn
	killed atomic.Bool
}

func (d *dying) Kill()        { d.killed.Store(true) }
func (d *dying) Ending() bool { return d.killed.Load() }

// The kernel takes its time. A turn that begins meanwhile is not one of the process that
// was killed when the turn before was given up.
func TestAProcessThatWasKilledIsNotUsedAgain(t *testing.T) {
	a := playWith(t, nil, nil, Options{}).(*adapter)
	dial := a.o.dial
	a.o.dial = func(ctx context.Context, args []string) (child.Conn, error) {
		conn, err := dial(ctx, args)
		return &dying{Conn: conn}, err
	}
	open, err := a.Open(t.Context(), adapters.OpenParams{Cwd: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Close() }() // always nil
	s := open.(*session)
	before := s.peer
	before.conn.Kill()
	p, err := s.ensure(t.Context())
	if err != nil || p == before || p.conn.Ending() {
		t.Errorf("%v, the same process: %v", err, p == before)
	}
	if before.ended() == nil {
		t.Error("the process before was not waited for")
	}
}
