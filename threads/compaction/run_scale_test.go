package compaction

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// What people are told is in tokens, whatever units the planner has; and the budget
// that a remedy names is one that works.
func TestReasonsAndRemediesAreInTokens(t *testing.T) {
	named := regexp.MustCompile(`budget of (\d+) tokens`)
	for _, scale := range []Scale{1, 0.6, 3.3} {
		in := Input{Entries: script("u a", 40, 4_000), Base: 3_000, Window: scale.Units(200_000), Budget: scale.Units(scale.Tokens(3_100)), Scale: scale}
		job := Job{Route: RouteLocal, Writer: WriterExtractive, Input: in}
		v := Run(context.Background(), job)
		if v.Outcome != Unchanged || v.Code != CodeOverheadExceedsBudget {
			t.Fatalf("scale %v: %s %s (%s)", scale, v.Outcome, v.Code, v.Reason)
		}
		if want := strconv.Itoa(scale.Tokens(v.Composed.Target)) + " tokens"; !strings.Contains(v.Reason, want) {
			t.Errorf("scale %v: %q does not tell %s", scale, v.Reason, want)
		}
		m := named.FindStringSubmatch(v.Remedy)
		if m == nil {
			t.Fatalf("scale %v: the remedy %q names no budget", scale, v.Remedy)
		}
		tokens, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		job.Input.Budget = scale.Units(tokens)
		if v := Run(context.Background(), job); v.Outcome != Completed {
			t.Errorf("scale %v: with the budget of %d tokens that was named: %s, %s", scale, tokens, v.Outcome, v.Reason)
		}
		if scale > 1 && tokens < 3_000*2 {
			t.Errorf("scale %v: %d is no number of tokens", scale, tokens)
		}
	}
}

// The bounds of DESIGN are tokens: a context whose units are worth more than a token
// gets as many tokens, not as many units.
func TestTheTargetIsInTokens(t *testing.T) {
	t.Parallel()
	for _, scale := range []Scale{0.6, 1, 3.3} {
		for _, window := range []int{0, 8_192, 200_000} {
			in := Input{Entries: script("u a", 400, 4_000), Base: scale.Units(2_000), Window: scale.Units(window), Scale: scale}
			c := mustCompose(t, in)
			if c.Outcome != Completed {
				t.Fatalf("scale %v, window %d: %s %s", scale, window, c.Outcome, c.Code)
			}
			want := Target(2_000, window)
			if got := scale.Tokens(c.Target); got < want*98/100 || got > want*102/100 {
				t.Errorf("scale %v, window %d: the target is %d tokens, want about %d", scale, window, got, want)
			}
			if after := scale.Tokens(c.After); after > want*102/100 {
				t.Errorf("scale %v, window %d: %d tokens are left, the target is %d", scale, window, after, want)
			}
		}
	}
}
