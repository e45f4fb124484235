package timeline_test

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/adapters/timeline"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// session runs a function as its turn.
type session struct {
	adapters.Session
	run func(ctx context.Context, line *timeline.Timeline, host adapters.Host) error
}

func (s session) Run(ctx context.Context, in adapters.TurnInput, host adapters.Host) (adapters.End, error) {
	line := timeline.New(ctx, host, in.Turn)
	if err := s.run(ctx, line, host); err != nil {
		return adapters.End{}, err
	}
	return adapters.End{Updates: line.End()}, nil
}

// told plays a turn, whose host checks the rules, and returns what it left.
func told(t *testing.T, run func(ctx context.Context, line *timeline.Timeline, host adapters.Host) error) (items []string, commits int) {
	t.Helper()
	h := adaptertest.NewHost(t)
	if _, err := h.Play(t.Context(), session{run: run}, "go"); err != nil {
		t.Fatal(err)
	}
	for _, it := range h.Items()[1:] {
		items = append(items, string(it.Body.Kind())+": "+transcript.Text(it.Body))
	}
	return items, len(h.Commits())
}

var (
	message   = transcript.AgentMessage{}
	reasoning = transcript.Reasoning{}
)

func TestTextsAreOpenedByTheirWordsAndClosedTogether(t *testing.T) {
	got, commits := told(t, func(_ context.Context, l *timeline.Timeline, _ adapters.Host) error {
		l.Begin("empty", message)
		l.Begin("a", reasoning)
		for _, err := range []error{
			l.Delta("a", reasoning, "Hm"), l.Delta("a", reasoning, "."), l.Text("a", reasoning, "Hm. So"),
			l.Text("empty", message, ""), l.Delta("b", message, ""), l.Text("b", message, "Whole at once."),
		} {
			if err != nil {
				return err
			}
		}
		l.Hold(adapters.UsageReported{Usage: adapters.Usage{InputTokens: 1}})
		return nil
	})
	if diff := cmp.Diff([]string{"reasoning: Hm. So", "agentMessage: Whole at once."}, got); diff != "" {
		t.Error(diff)
	}
	if commits != 3 { // begins one, ends it with the beginning of two, and the end
		t.Errorf("%d commits", commits)
	}
}

func TestAnotherTextThanWasStreamedDoesNotReplaceIt(t *testing.T) {
	got, _ := told(t, func(_ context.Context, l *timeline.Timeline, _ adapters.Host) error {
		if err := l.Delta("a", message, "streamed"); err != nil {
			return err
		}
		return l.Text("a", message, "other")
	})
	if diff := cmp.Diff([]string{"agentMessage: streamed"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestNothingStaysOpen(t *testing.T) {
	var ids timeline.CallIDs
	got, _ := told(t, func(_ context.Context, l *timeline.Timeline, _ adapters.Host) error {
		if err := l.Delta("m", message, "cut off"); err != nil {
			return err
		}
		for key, b := range map[string]transcript.Body{
			"c": transcript.Command{Command: "make", Status: "inProgress"},
		} {
			if _, err := l.Show(key, b); err != nil {
				return err
			}
		}
		_, err := l.Show("t", transcript.ToolCall{CallID: ids.Unique("1"), Name: "look", Arguments: transcript.RawJSON("{}")})
		return err
	})
	want := []string{"agentMessage: cut off", "command: make\n", "toolCall: look\n{}", "toolResult: the turn ended without a result of this call"}
	if len(got) != len(want) {
		t.Errorf("%q", got)
	}
	for _, w := range want {
		if !strings.Contains(strings.Join(got, "|"), strings.TrimSpace(strings.SplitN(w, "\n", 2)[0])) {
			t.Errorf("no %q in %q", w, got)
		}
	}
}

func TestACallIsAnsweredOnce(t *testing.T) {
	var ids timeline.CallIDs
	got, _ := told(t, func(ctx context.Context, l *timeline.Timeline, host adapters.Host) error {
		call := transcript.ToolCall{CallID: ids.Unique("c"), Name: "a", Arguments: transcript.RawJSON("{}")}
		if _, err := l.Show("1", call); err != nil {
			return err
		}
		it, ok := l.Run("1")
		if !ok {
			t.Error("the call is not open")
		}
		if _, err := host.Tool(ctx, it); err != nil {
			return err
		}
		if err := l.Answer("1", call, transcript.ToolResult{Output: transcript.TextParts("again")}); err != nil {
			return err
		}
		late := transcript.ToolCall{CallID: ids.Unique("c"), Name: "b", Arguments: transcript.RawJSON("{}")}
		return l.Answer("2", late, transcript.ToolResult{Output: transcript.TextParts("of one that was never begun")})
	})
	if len(got) != 4 || !strings.Contains(got[3], "of one that was never begun") {
		t.Errorf("%q", got)
	}
}

func TestKeepTellsWhatWasHeldAlthoughTheTurnIsOver(t *testing.T) {
	h := adaptertest.NewHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h.OnUpdate = nil
	_, err := h.Play(ctx, session{run: func(ctx context.Context, l *timeline.Timeline, _ adapters.Host) error {
		l.Hold(adapters.UsageReported{Usage: adapters.Usage{InputTokens: 7}})
		cancel()
		if err := l.Keep(time.Second); err != nil {
			t.Error(err)
		}
		return ctx.Err()
	}}, "go")
	if err == nil || len(h.Usages()) != 1 {
		t.Errorf("%v, usages %+v", err, h.Usages())
	}
}

func TestCallIDsAreUnique(t *testing.T) {
	var ids timeline.CallIDs
	seen := map[transcript.CallID]bool{}
	for _, id := range []string{"a", "a", "", "", "a-2"} {
		u := ids.Unique(id)
		if u == "" || seen[u] {
			t.Errorf("%q became %q", id, u)
		}
		seen[u] = true
	}
}

func TestClipKeepsBothEnds(t *testing.T) {
	long := strings.Repeat("é", 1000) + "END"
	got := timeline.Clip(long, 101)
	if !utf8.ValidString(got) || !strings.HasSuffix(got, "END") || !strings.Contains(got, "bytes left out") || len(got) > 200 {
		t.Errorf("%q", got)
	}
	if got := timeline.Clip("ok\xff", 100); got != "ok\uFFFD" {
		t.Errorf("%q", got)
	}
}

// The journal has no keys: a program hands its own on to the commands of its model.
func TestWhatIsHiddenIsInNoResult(t *testing.T) {
	const key, longer = "sk-0123456789ab", "sk-0123456789ab-and-more"
	got, _ := told(t, func(_ context.Context, l *timeline.Timeline, _ adapters.Host) error {
		l.Hide([]string{key, "scripted", longer})
		shown, err := l.Show("c", transcript.Command{Command: "curl -H " + key})
		if err != nil || shown.Body.(transcript.Command).Command != "curl -H [redacted]" {
			t.Errorf("%+v, %v", shown, err)
		}
		changes := []transcript.Change{{Path: ".env", Op: "add", Diff: "KEY=" + key}}
		for _, err := range []error{
			l.Complete("c", transcript.Command{Command: "env", Output: "A=" + longer + "\nB=" + key + "\nscripted"}),
			l.Complete("unseen", transcript.Command{Command: "env", Output: key}),
			l.Complete("f", transcript.FileChange{Changes: changes, Status: "completed"}),
			l.Answer("t", transcript.ToolCall{CallID: "x", Name: "env", Arguments: transcript.RawJSON("{}")}, transcript.ToolResult{Output: transcript.TextParts("it is " + key)}),
			l.Text("m", message, "Your key is "+key),
		} {
			if err != nil {
				return err
			}
		}
		if changes[0].Diff != "KEY="+key {
			t.Error("what belongs to the caller was changed")
		}
		return nil
	})
	all := strings.Join(got, "\n")
	if n := strings.Count(all, key); n != 1 || strings.Contains(all, "and-more") || !strings.Contains(all, "scripted") || !strings.Contains(all, "it is [redacted]") {
		t.Errorf("the key is told %d times:\n%s", n, all)
	}
}
