package chat

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/prompt"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// sentMessage is a message of either wire as a server reads it.
type sentMessage struct {
	Role  string `json:"role"`
	Calls []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
	Content json.RawMessage `json:"content"`
	CallID  string          `json:"tool_call_id"`
}

func sentMessages(t *testing.T, body []byte) []sentMessage {
	t.Helper()
	var sent struct{ Messages []sentMessage }
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	return sent.Messages
}

// neutral reads a body back, so that the lint can judge what really went out.
func neutral(sent []sentMessage) []prompt.Message {
	roles := map[string]prompt.Role{"system": prompt.System, "developer": prompt.System, "user": prompt.User, "assistant": prompt.Assistant, "tool": prompt.Tool}
	var out []prompt.Message
	for _, m := range sent {
		n := prompt.Message{Role: roles[m.Role]}
		text := prompt.Part{Kind: prompt.Text, By: transcript.KindUserMessage, Text: string(m.Content)}
		if m.Role == "tool" {
			n.Parts = []prompt.Part{{Kind: prompt.Result, CallID: m.CallID, Name: "look", Output: []prompt.Part{text}}}
		} else if s := string(m.Content); s != "" && s != "null" && s != `""` && s != "[]" {
			n.Parts = append(n.Parts, text)
		}
		for _, c := range m.Calls {
			args := c.Function.Arguments
			if s := ""; json.Unmarshal(args, &s) == nil {
				args = transcript.RawJSON(s)
			}
			n.Parts = append(n.Parts, prompt.Part{Kind: prompt.Call, CallID: c.ID, Name: c.Function.Name, Arguments: args})
		}
		out = append(out, n)
	}
	return out
}

// serves says what a strict server says of the pairs in a body.
func serves(sent []sentMessage) bool {
	var open []string
	asked, used := false, map[string]bool{}
	for i, m := range sent {
		switch {
		case m.Role == "tool":
			k := slices.Index(open, m.CallID)
			if k < 0 {
				return false
			}
			open = slices.Delete(open, k, k+1)
			continue
		case len(open) > 0, i > 0 && (m.Role == "system" || m.Role == "developer"):
			return false
		case m.Role == "user" && (string(m.Content) == "[]" || string(m.Content) == `""`):
			return false
		case m.Role == "user":
			asked = true
		}
		for _, c := range m.Calls {
			if used[c.ID] {
				return false
			}
			used[c.ID] = true
			open = append(open, c.ID)
		}
		if m.Role == "assistant" && len(m.Calls) == 0 && (len(m.Content) == 0 || string(m.Content) == "null" || string(m.Content) == `""`) {
			return false
		}
	}
	last := sent[len(sent)-1].Role
	return len(open) == 0 && asked && (last == "user" || last == "tool")
}

// TestTheLintFindsEveryMutationOfABody: each message and call of a recorded body of
// each profile is taken away, doubled and moved. What a strict server would refuse
// is found, and nothing else (P037).
func TestTheLintFindsEveryMutationOfABody(t *testing.T) {
	req := adapters.Request{Model: "m", Base: adapters.Base{System: "You are careful."}, Entries: entries(
		user(text("look at both")), say("Looking."),
		call("c1", "look", `{"n":1}`), call("c2", "look", `{"n":2}`), result("c2", "two"), result("c1", "one"),
		say("Both are there."), user(text("and the third?")),
		call("c3", "look", `{"n":3}`), result("c3", "three"),
	)}
	for _, p := range profiles {
		t.Run(p.name, func(t *testing.T) {
			body := bodyOf(t, p, req, 0)
			rules := p.rules(false, false, 0)
			rules.MergeRoles, rules.UserFirst, rules.Bridge = false, false, false // serves does not judge these
			if found := prompt.Lint(neutral(sentMessages(t, body)), rules); len(found) > 0 {
				t.Fatalf("the body as it was sent: %v\n%s", found, body)
			}
			all, err := adaptertest.MutateBody(body, "messages")
			if err != nil {
				t.Fatal(err)
			}
			broken := 0
			for _, m := range all {
				sent := sentMessages(t, m.Body)
				found := prompt.Lint(neutral(sent), rules)
				if serves(sent) != (len(found) == 0) {
					t.Errorf("%s: a strict server takes it: %v, found %v", m.What, serves(sent), found)
				}
				if len(found) > 0 {
					broken++
				}
			}
			if broken < 15 {
				t.Errorf("only %d of %d mutations break the body", broken, len(all))
			}
		})
	}
}
