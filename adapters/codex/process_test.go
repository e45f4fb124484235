package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/clis"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// What a doctor is told first is what helps: what the program is, not how it failed.
func TestTheProbeNamesWhatIsMissing(t *testing.T) {
	ls := clis.Tool(t, "ls")
	for name, tt := range map[string]struct {
		o         Options
		text, fix string
	}{
		"no program": {Options{Program: "/nowhere/codex"}, "there is no program /nowhere/codex", "install codex"},
		"another":    {Options{Program: ls}, ls + " is not codex: asked for its version, it says", "set program in [providers.codex]"},
		"no home":    {Options{Program: ls, Home: filepath.Join(t.TempDir(), "home")}, "is not there", "correct home in [providers.codex], or make the folder"},
	} {
		tt.o.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
		p := New(tt.o).Probe(t.Context())
		if len(p.Problems) != 1 || !strings.Contains(p.Problems[0].Text, tt.text) || !strings.Contains(p.Problems[0].Fix, tt.fix) {
			t.Errorf("%s: %+v", name, p.Problems)
		}
	}
}

// The lease of a thread would make the folder, and hide that codex has no login there.
func TestAHomeThatIsGoneIsNotMade(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	a := New(Options{Program: clis.Tool(t, "ls"), Home: gone, Env: []string{"HOME=" + t.TempDir()}})
	_, err := a.Open(t.Context(), adapters.OpenParams{Cwd: t.TempDir(), NativeID: "01a230ed-0000-70d3-aab2-c794b1a85cb4"})
	_, listed := a.Models(t.Context())
	for _, err := range []error{err, listed} {
		if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "the home "+gone+" of codex is not there") {
			t.Errorf("%v", err)
		}
	}
	if _, err := os.Stat(gone); err == nil {
		t.Error("the home was made")
	}
}

// Something else may speak JSON too.
func TestAnAnswerThatIsNotCodexs(t *testing.T) {
	for answer, want := range map[string]string{
		`{"id":%s,"result":"hi"}`:                                "what the program answers to initialize is not understood; is it codex?",
		`{"id":%s,"method":"initialize","params":{}}`:            "did not start within",
		`{"id":%s,"error":{"code":-32601,"message":"who asks"}}`: "codex refuses initialize: who asks",
	} {
		a := playWith(t, nil, func(d *double) {
			d.override = func(d *double, id, method string, _ json.RawMessage) bool {
				d.say(answer, id)
				return true
			}
		}, Options{OpenTimeout: 300 * time.Millisecond})
		_, err := a.Open(t.Context(), adapters.OpenParams{Cwd: t.TempDir()})
		if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(fault.MessageOf(err), want) {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

// A program that has nothing to do and talks without end would keep a core busy for ever.
// It is ended, and what comes next has another one.
func TestAFloodBetweenTurnsIsEnded(t *testing.T) {
	floods := make(chan struct{}, 1)
	floods <- struct{}{}
	flooded := make(chan struct{})
	a := playWith(t, nil, func(d *double) {
		d.override = func(d *double, id, method string, _ json.RawMessage) bool {
			if method != "initialized" {
				return false
			}
			select {
			case <-floods:
			default:
				return true // the one that follows is silent
			}
			d.work.Go(func() {
				defer close(flooded)
				line := []byte(`{"method":"thread/status/changed","params":{}}`)
				for d.conn.Send(t.Context(), line) == nil { // until it is ended
				}
			})
			return true
		}
	}, Options{})
	s, err := a.Open(t.Context(), adapters.OpenParams{Cwd: t.TempDir()})
	<-flooded
	if err != nil { // the flood was ended before codex had answered
		if s, err = a.Open(t.Context(), adapters.OpenParams{Cwd: t.TempDir()}); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _ = s.Close() }() // always nil
	if p, err := s.(*session).ensure(t.Context()); err != nil || p.ended() != nil {
		t.Errorf("%v", err)
	}
}

// Nothing is claimed of versions that nobody has tried.
func TestTheCompactionOfAnOldVersionIsRefused(t *testing.T) {
	for version, want := range map[string]string{
		"0.170.9": "codex 0.170.9 is older than 0.171, ", "0.30": "codex 0.30 is older than 0.171, ", "": "this codex tells no version, ", "dev": "this codex tells no version, ",
		"0.171.0": "", "0.172.0-alpha.3": "", "1.0": "",
	} {
		a := ability(version)
		if (a.Native != nil) != (want == "") || a.Refusal != nil && (a.Refusal.Code != "versionTooOld" || !strings.HasPrefix(a.Refusal.Reason, want)) {
			t.Errorf("%q: %+v, %+v", version, a.Native, a.Refusal)
		}
	}
}

func TestVersionLines(t *testing.T) {
	for line, want := range map[string]string{
		"codex-cli 0.171.0": "0.171.0", "codex-cli 0.172.0-alpha.3": "0.172.0-alpha.3", "ls (GNU coreutils) 9.4": "", "": "", "2.1.332 (Claude Code)": "",
	} {
		if v, ok := VersionOf(line); ok != (want != "") || ok && v != want {
			t.Errorf("%q: %q, %v", line, v, ok)
		}
	}
}

// The keys are those of the real program: it takes each of them, and the probe tells of
// one that it does not know, of which our list cannot know either.
func TestSettingsAreThoseOfCodex(t *testing.T) {
	program, home := clis.Codex(t), t.TempDir()
	values := map[string]string{
		"model_auto_compact_token_limit": "5000", "model_context_window": "100000", "model_provider": "openai", "model_reasoning_effort": "high",
		"model_reasoning_summary": "auto", "model_verbosity": "low", "personality": "friendly", "project_doc_max_bytes": "100", "tool_output_token_limit": "100",
		"web_search": "disabled", "features.plugins": "false",
	}
	for _, key := range append(slices.Clone(settings), "features.plugins", "features.tides", "models") {
		a := New(Options{Program: program, Home: home, Env: []string{"PATH=" + os.Getenv("PATH")}, Config: map[string]string{key: cmp.Or(values[key], "x")}})
		p, wrong := a.(*adapter).settingsProblem(t.Context())
		if want := key == "features.tides" || key == "models"; wrong != want || wrong && p.Text != "codex does not know the setting `"+key+"`" {
			t.Errorf("%s: %+v", key, p)
		}
		if Setting(key) != (key != "models") {
			t.Errorf("%s may be set: %v", key, Setting(key))
		}
	}
	if Setting("features.") || Setting("model") || Setting("features.a.b") || Setting("approval_policy") {
		t.Error("what is no setting is one")
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
	a.o.dial = func(ctx context.Context) (child.Conn, error) {
		conn, err := dial(ctx)
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
