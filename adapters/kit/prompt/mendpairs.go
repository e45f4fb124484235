package prompt

import (
	"fmt"
	"slices"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// mendPairs answers every call once, directly after its message (L1, L2), and gives
// every call an id of its own (L3). Results keep to their calls: the first result
// of an id to its first call. What answers nothing is told as text.
func mendPairs(ms []Message) []Message {
	answers, orphans := match(ms)
	renamed := map[string]bool{}
	var out []Message
	for i, m := range ms {
		switch {
		case m.Role == Tool:
			var late []Part
			for j, p := range m.Parts {
				if orphans[[2]int{i, j}] {
					late = append(late, asText(p))
				}
			}
			if len(late) > 0 {
				out = append(out, Message{Role: User, Parts: late})
			}
		case m.Role == Assistant && m.has(Call):
			calls, results, rest := Message{Role: Assistant}, Message{Role: Tool}, Message{Role: Assistant}
			for j, p := range m.Parts {
				if p.Kind != Call {
					if calls.has(Call) {
						rest.Parts = append(rest.Parts, p)
					} else {
						calls.Parts = append(calls.Parts, p)
					}
					continue
				}
				answer, ok := answers[[2]int{i, j}]
				if !ok {
					answer = aborted(p)
				}
				p.CallID = ownID(p.CallID, renamed)
				answer.CallID, answer.Name = p.CallID, p.Name
				calls.Parts, results.Parts = append(calls.Parts, p), append(results.Parts, answer)
			}
			out = append(out, calls, results)
			if len(rest.Parts) > 0 {
				out = append(out, rest)
			}
		default:
			out = append(out, m)
		}
	}
	return out
}

// match finds the answer of each call, and the results that answer none, by their
// places.
func match(ms []Message) (answers map[[2]int]Part, orphans map[[2]int]bool) {
	answers, orphans = map[[2]int]Part{}, map[[2]int]bool{}
	open := map[string][][2]int{}
	for i, m := range ms {
		for j, p := range m.Parts {
			at := [2]int{i, j}
			switch {
			case p.Kind == Call && m.Role == Assistant:
				open[p.CallID] = append(open[p.CallID], at)
			case p.Kind == Result && m.Role == Tool:
				waiting := open[p.CallID]
				if len(waiting) == 0 {
					orphans[at] = true
					continue
				}
				answers[waiting[0]] = p
				open[p.CallID] = slices.Clone(waiting[1:])
			}
		}
	}
	return answers, orphans
}

// aborted is the result of a call that nothing answers.
func aborted(call Part) Part {
	return Part{
		Kind: Result, By: transcript.KindToolResult, CallID: call.CallID, Name: call.Name, IsError: true,
		Output: []Part{{Kind: Text, By: transcript.KindToolResult, Text: transcript.AbortedText}},
	}
}

// ownID is an id that no call before has.
func ownID(id string, used map[string]bool) string {
	if id == "" {
		id = "call"
	}
	own := id
	for n := 2; used[own]; n++ {
		own = fmt.Sprintf("%s-%d", id, n)
	}
	used[own] = true
	return own
}
