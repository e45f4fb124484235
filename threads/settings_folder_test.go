package threads_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A program works in the thread's folder, and one that is not there is not found out in
// the middle of a turn. Whoever only tells it to a model does not care.
func TestARuntimeNeedsAFolderThatIsThere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := keeping(t, newKeeper(t, "ok"), func(c *threads.Config) {
		c.Cwd = t.TempDir()
		c.Providers = append(c.Providers, threads.Provider{Name: "second", Kind: "puppet", Adapter: agent.New(newPuppet())})
	})
	id := b.create()
	n := len(b.payloads(id))
	for _, cwd := range []string{"/there/is/no/such/folder", file} {
		_, made := b.svc.CreateThread(t.Context(), threads.CreateParams{Settings: threads.Settings{Cwd: cwd}})
		_, set := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Cwd: new(cwd)})
		_, begun := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("x"), Settings: threads.SettingsPatch{Cwd: new(cwd)}})
		for what, err := range map[string]error{"create": made, "settings": set, "turn": begun} {
			if fault.CodeOf(err) != fault.Invalid || !strings.Contains(fault.MessageOf(err), "no folder here") {
				t.Errorf("%s in %s: %v", what, cwd, err)
			}
		}
		other, err := b.svc.CreateThread(t.Context(), threads.CreateParams{Settings: threads.Settings{Provider: "second", Cwd: cwd}})
		if err != nil {
			t.Fatalf("a provider that works nowhere: %v", err)
		}
		if _, err := b.svc.UpdateSettings(t.Context(), other.Thread.ID, threads.SettingsPatch{Provider: new("keeper")}); fault.CodeOf(err) != fault.Invalid {
			t.Errorf("it moved to the runtime: %v", err)
		}
	}
	if got := len(b.payloads(id)); got != n {
		t.Errorf("%d events were written", got-n)
	}
}

// A folder that went away later keeps nobody from changing something else.
func TestSettingsOfARuntimeWhoseFolderWentAwayCanBeChanged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b := keeping(t, newKeeper(t, "ok"), func(c *threads.Config) { c.Cwd = dir })
	id := b.create()
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Effort: new("high")}); err != nil {
		t.Error(err)
	}
	if _, err := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Cwd: new(t.TempDir())}); err != nil {
		t.Error(err)
	}
}

// A turn without its folder would work somewhere else.
func TestATurnOfARuntimeWithoutItsFolderFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	k := newKeeper(t, "ok")
	b := keeping(t, k, func(c *threads.Config) { c.Cwd = dir })
	id := b.create()
	b.said(id, "hello")
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	turn := b.outcome(id, "and now?")
	if turn.Status != transcript.TurnFailed || !strings.Contains(turn.Error.Message, dir+", is gone") {
		t.Errorf("the turn ended %s: %+v", turn.Status, turn.Error)
	}
	if n := len(k.Inputs()); n != 1 {
		t.Errorf("the program was told %d inputs", n)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if turn := b.outcome(id, "and now?"); turn.Status != transcript.TurnCompleted {
		t.Errorf("with the folder it ended %s: %+v", turn.Status, turn.Error)
	}
}
