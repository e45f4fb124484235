package prompt_test

import (
	"slices"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/prompt"
)

// valid says by its own lights whether a request is one that every wire takes: a
// second opinion on Lint. It knows text, calls and results.
func valid(ms []prompt.Message) bool {
	asked, used := false, map[string]bool{}
	for i := 0; i < len(ms); i++ {
		m := ms[i]
		if len(m.Parts) == 0 {
			return false
		}
		switch m.Role {
		case prompt.System:
			if i > 0 {
				return false
			}
		case prompt.User:
			asked = true
		case prompt.Tool:
			return false // those that belong somewhere were passed over with their calls
		case prompt.Assistant:
			var calls, answers []string
			for j, p := range m.Parts {
				if p.Kind != prompt.Call {
					if len(calls) > 0 {
						return false
					}
					continue
				}
				if p.CallID == "" || used[p.CallID] || m.Parts[j].Arguments[len(p.Arguments)-1] != '}' {
					return false
				}
				used[p.CallID] = true
				calls = append(calls, p.CallID)
			}
			for len(calls) > 0 && i+1 < len(ms) && ms[i+1].Role == prompt.Tool {
				i++
				if len(ms[i].Parts) == 0 {
					return false
				}
				for _, p := range ms[i].Parts {
					answers = append(answers, p.CallID)
				}
			}
			slices.Sort(calls)
			slices.Sort(answers)
			if !slices.Equal(calls, answers) {
				return false
			}
		}
	}
	return asked && (ms[len(ms)-1].Role == prompt.User || ms[len(ms)-1].Role == prompt.Tool)
}

// TestLintFindsEveryMutationThatBreaksARequest: a guard that never fires guards
// nothing (P037).
func TestLintFindsEveryMutationThatBreaksARequest(t *testing.T) {
	clean := []prompt.Message{
		msg(prompt.System, says(systemText)),
		user("a"),
		msg(prompt.Assistant, says("Looking."), call("1", `{"n":1}`), call("2", `{"n":2}`), call("3", `{"n":3}`)),
		msg(prompt.Tool, result("1", "x"), result("2", "y"), result("3", "z")),
		msg(prompt.Assistant, call("4", `{}`)),
		msg(prompt.Tool, result("4", "x")),
		assistant("Done."),
		user("b"),
		msg(prompt.Assistant, call("5", `{}`)),
		msg(prompt.Tool, result("5", "x")),
	}
	if found := prompt.Lint(clean, liberal); len(found) > 0 || !valid(clean) {
		t.Fatalf("the clean request: %v", found)
	}
	broken := 0
	for _, m := range adaptertest.Mutate(clean) {
		found := prompt.Lint(m.Messages, liberal)
		if ok := valid(m.Messages); ok != (len(found) == 0) {
			t.Errorf("%s: valid is %v, found %v", m.What, ok, found)
		}
		if len(found) > 0 {
			broken++
		}
		out, _ := prompt.Mend(m.Messages, liberal)
		if !valid(out) {
			t.Errorf("%s: mended to\n%s", m.What, show(out))
		}
	}
	if broken < 40 {
		t.Errorf("only %d mutations break the request", broken)
	}
}
