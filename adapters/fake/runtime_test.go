package fake_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/fake"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func script(t *testing.T, text string) *fake.Script {
	t.Helper()
	s, err := fake.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func opened(t *testing.T, r *fake.Runtime, p adapters.OpenParams) adapters.Session {
	t.Helper()
	s, err := r.Open(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closed(t *testing.T, s adapters.Session) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func wantHistory(t *testing.T, r *fake.Runtime, id string, want ...string) {
	t.Helper()
	got, err := r.History(id)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("session %s (-want +got):\n%s", id, diff)
	}
}

func entry(b transcript.Body) transcript.Entry {
	return transcript.Entry{Item: transcript.Item{Body: b}, Form: transcript.FormWhole}
}

func TestARuntimeRemembersItsSessions(t *testing.T) {
	for name, dir := range map[string]string{"in memory": "", "in a folder": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			r := fake.NewRuntime(script(t, "-- turn * --\nthink Hm.\nrun make => ok\nsay Done."), fake.RuntimeOptions{Dir: dir, Base: 10})
			s := opened(t, r, adapters.OpenParams{Thread: "t"})
			if _, err := newHost(t).Play(t.Context(), s, "go"); err != nil {
				t.Fatal(err)
			}
			id := s.NativeID()
			if _, err := r.Open(t.Context(), adapters.OpenParams{NativeID: id}); !errors.Is(err, adapters.ErrInUse) {
				t.Errorf("a session that is open: %v", err)
			}
			closed(t, s)
			if dir != "" {
				r = fake.NewRuntime(script(t, "-- turn * --\nsay Again."), fake.RuntimeOptions{Dir: dir})
			}
			s = opened(t, r, adapters.OpenParams{NativeID: id})
			wantHistory(t, r, id, "userMessage: go", "command: make\nok", "agentMessage: Done.")
			closed(t, s)
			if err := r.Lose(id); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Open(t.Context(), adapters.OpenParams{NativeID: id}); !errors.Is(err, adapters.ErrNoSession) {
				t.Errorf("a session that is lost: %v", err)
			}
			s = opened(t, r, adapters.OpenParams{})
			if s.NativeID() == id {
				t.Errorf("the id %s is used again", id)
			}
			closed(t, s)
		})
	}
}

func TestARuntimeTakesNoHistoryThatIsNone(t *testing.T) {
	r := fake.NewRuntime(script(t, ""), fake.RuntimeOptions{})
	call, result := entry(transcript.ToolCall{CallID: "c", Name: "look"}), entry(transcript.ToolResult{CallID: "c", Output: transcript.TextParts("seen")})
	said, checkpoint := entry(transcript.UserMessage{Content: transcript.TextParts("hello")}), entry(transcript.Checkpoint{Text: "notes"})
	for want, seed := range map[string][]transcript.Entry{
		"result c without":      {said, result},
		"1 calls without":       {said, call},
		"a checkpoint in the m": {said, checkpoint},
	} {
		if _, err := r.Open(t.Context(), adapters.OpenParams{Seed: seed}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s := opened(t, r, adapters.OpenParams{Seed: []transcript.Entry{checkpoint, said, call, result}})
	wantHistory(t, r, s.NativeID(), "checkpoint: notes", "userMessage: hello", "toolCall: look", "toolResult: seen")
	closed(t, s)
	if _, err := r.Open(t.Context(), adapters.OpenParams{NativeID: s.NativeID(), Seed: []transcript.Entry{said}}); err == nil {
		t.Error("a session that is resumed takes another history")
	}
	broken := errors.New("no room")
	r.Reject(broken)
	if _, err := r.Open(t.Context(), adapters.OpenParams{}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

func TestARuntimeCompactsAsTheScriptSays(t *testing.T) {
	for how, c := range map[string]struct {
		err      error
		replaced bool
	}{
		"ok": {nil, true}, "lossy": {adapters.ErrLossy, true},
		"nothing": {adapters.ErrNothingToCompact, false}, "uncertain": {adapters.ErrUncertain, false},
	} {
		r := fake.NewRuntime(script(t, "-- turn * --\nsay Yes."), fake.RuntimeOptions{})
		s := opened(t, r, adapters.OpenParams{})
		if _, err := newHost(t).Play(t.Context(), s, "go"); err != nil {
			t.Fatal(err)
		}
		r.Play(script(t, "-- compact "+how+" --"))
		if _, err := s.Compact(t.Context(), adapters.CompactInput{ID: "c"}, newHost(t)); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", how, err)
		}
		want := []string{"userMessage: go", "agentMessage: Yes."}
		if c.replaced {
			want = []string{fake.NativeNotes}
		}
		wantHistory(t, r, s.NativeID(), want...)
		closed(t, s)
	}
}

func TestARuntimeOverflows(t *testing.T) {
	r := fake.NewRuntime(script(t, "-- turn * --\nsay Yes."), fake.RuntimeOptions{Window: 100, Base: 50})
	s := opened(t, r, adapters.OpenParams{})
	defer closed(t, s)
	if _, err := newHost(t).Play(t.Context(), s, strings.Repeat("word ", 100)); !errors.Is(err, adapters.ErrOverflow) {
		t.Errorf("%v", err)
	}
}
