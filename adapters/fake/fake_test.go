package fake_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/adapters/fake"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func open(t *testing.T, script string) adapters.Session {
	t.Helper()
	s, err := fake.Parse(script)
	if err != nil {
		t.Fatal(err)
	}
	session, err := fake.New(s).Open(t.Context(), adapters.OpenParams{Thread: "t", Cwd: "/work"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	})
	return session
}

func newHost(t *testing.T) *adaptertest.Host {
	h := adaptertest.NewHost(t)
	h.OwnIDs = true
	return h
}

// texts is what the items say, in order.
func texts(h *adaptertest.Host) []string {
	var out []string
	for _, it := range h.Items() {
		out = append(out, string(it.Body.Kind())+": "+strings.TrimSpace(transcript.Text(it.Body)))
	}
	return out
}

func TestATurnPlaysTheStepsOfItsWord(t *testing.T) {
	s := open(t, "-- turn deploy --\nthink Hm.\nrun make => ok\nrun make test => no exit 2\nsay All done.\nusage 10 5\n-- turn * --\nsay Hello.")
	h := newHost(t)
	if _, err := h.Play(t.Context(), s, "please deploy it"); err != nil {
		t.Fatal(err)
	}
	want := []string{"userMessage: please deploy it", "reasoning: Hm.", "command: make\nok", "command: make test\nno", "agentMessage: All done."}
	if diff := cmp.Diff(want, texts(h)); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
}

func TestAnAnswerDecidesWhetherAStepIsDone(t *testing.T) {
	for decision, status := range map[adapters.Decision]string{adapters.Accept: "completed", adapters.Decline: "declined"} {
		s := open(t, "-- turn * --\nask run rm x => gone\nsay Next.")
		h := newHost(t)
		h.OnAsk = func(_ context.Context, q adapters.Question) (adapters.Answer, error) {
			if a, ok := q.(adapters.CommandApproval); !ok || a.Command != "rm x" {
				t.Errorf("asked %+v", q)
			}
			return adapters.Answer{Decision: decision}, nil
		}
		if _, err := h.Play(t.Context(), s, "go"); err != nil {
			t.Fatal(err)
		}
		if b, ok := h.Items()[1].Body.(transcript.Command); !ok || b.Status != status {
			t.Errorf("after %s: %+v", decision, h.Items()[1].Body)
		}
	}
}

func TestAHoldEndsWithASteer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "-- turn * --\nhold\nquote")
		h := newHost(t)
		done := make(chan error, 1)
		go func() { _, err := h.Play(t.Context(), s, "go"); done <- err }()
		synctest.Wait()
		if err := s.Steer(t.Context(), transcript.TextParts("faster")); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := texts(h); got[len(got)-1] != "agentMessage: You said: faster" {
			t.Errorf("%q", got)
		}
	})
}

func TestPaceAndDelayTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "-- turn * --\npace 1s\ndelay 10s\nsay one two three")
		h := newHost(t)
		begun := time.Now()
		if _, err := h.Play(t.Context(), s, "go"); err != nil || time.Since(begun) != 13*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestInterruptEndsWhateverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "-- turn * --\nhold")
		done := make(chan error, 1)
		go func() { _, err := newHost(t).Play(t.Context(), s, "go"); done <- err }()
		synctest.Wait()
		if err := s.Interrupt(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the turn ended with %v", err)
		}
	})
}

func TestAFailureIsTheTurns(t *testing.T) {
	s := open(t, "-- turn * --\nsay Half.\nfail the provider is down")
	h := newHost(t)
	if _, err := h.Play(t.Context(), s, "go"); fault.MessageOf(err) != "the provider is down" {
		t.Errorf("%v", err)
	}
}

func TestWrongScriptsNameTheLine(t *testing.T) {
	for script, want := range map[string]string{
		"say hello":                           "line 1: a step before",
		"-- turn --":                          "line 1: a turn needs",
		"-- turn * --\njump":                  "line 2: unknown step",
		"-- turn * --\nask say hello":         "line 2: only run and edit",
		"-- turn * --\ndelay soon":            "line 2: time: invalid duration",
		"-- compact sometimes --":             "line 1: compact",
		"-- other --":                         "line 1: section",
		"-- turn * --\nrun x => y exit three": "line 2: strconv",
	} {
		if _, err := fake.Parse(script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", script, err, want)
		}
	}
}
