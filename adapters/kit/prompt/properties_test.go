package prompt_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/prompt"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// mended holds Mend to what it promises about any messages.
func mended(t *rapid.T, ms []prompt.Message, r prompt.Rules) {
	found := prompt.Lint(ms, r)
	out, told := prompt.Mend(ms, r)
	if len(told) < len(found) {
		t.Fatalf("Mend tells of %d findings, Lint of %d", len(told), len(found))
	}
	if len(found) == 0 {
		if diff := cmp.Diff(ms, out); diff != "" {
			t.Fatalf("a clean request was changed (-want +got):\n%s", diff)
		}
	}
	if left := prompt.Lint(out, r); len(left) > 0 {
		t.Fatalf("after Mend: %v\nbefore: %v\nin  %+v\nout %+v", left, found, ms, out)
	}
	again, more := prompt.Mend(out, r)
	if diff := cmp.Diff(out, again); diff != "" || len(more) > 0 {
		t.Fatalf("Mend is not idempotent: %v\n%s", more, diff)
	}
}

func TestMendLeavesNothingOfAnyEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := prompt.Options{Rules: anyRules(t), Echo: rapid.Bool().Draw(t, "echo"), Blob: blob}
		mended(t, prompt.Build(words.Draw(t, "system"), anyEntries(t), o), o.Rules)
	})
}

func TestMendLeavesNothingOfAnyMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { mended(t, anyMessages(t), anyRules(t)) })
}

func TestMendDoesNotTouchWhatItIsGiven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms, r := anyMessages(t), anyRules(t)
		before := slices.Clone(ms)
		for i := range before {
			before[i].Parts = slices.Clone(ms[i].Parts)
			for j := range before[i].Parts {
				before[i].Parts[j].Output = slices.Clone(ms[i].Parts[j].Output)
			}
		}
		prompt.Mend(ms, r)
		if !reflect.DeepEqual(before, ms) {
			t.Fatalf("Mend changed its argument (-want +got):\n%s", cmp.Diff(before, ms))
		}
	})
}

// settled are entries as our own server journals them: text, steps with calls that
// are answered, notices between.
func settled(t *rapid.T) []transcript.Entry {
	var out []transcript.Entry
	add := func(b transcript.Body) {
		out = append(out, transcript.Entry{Item: transcript.Item{Body: b}, Form: transcript.FormWhole})
	}
	n := 0
	for range rapid.IntRange(1, 5).Draw(t, "turns") {
		add(transcript.UserMessage{Content: transcript.TextParts(rapid.SampledFrom([]string{"do it", " "}).Draw(t, "said"))})
		for range rapid.IntRange(0, 3).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "thinks") {
				add(transcript.Reasoning{Text: "hm"})
			}
			if rapid.Bool().Draw(t, "speaks") {
				add(transcript.AgentMessage{Text: "Looking."})
			}
			calls := rapid.IntRange(1, 3).Draw(t, "calls")
			for i := range calls {
				args := rapid.SampledFrom([]string{`{"a":1}`, `"patch"`}).Draw(t, "args")
				add(transcript.ToolCall{CallID: id(n + i), Name: "look", Arguments: transcript.RawJSON(args)})
			}
			order := rapid.Permutation(seq(n, calls)).Draw(t, "order")
			for _, i := range order {
				add(transcript.ToolResult{CallID: id(i), Output: transcript.TextParts(rapid.SampledFrom([]string{"", "ok"}).Draw(t, "out"))})
			}
			n += calls
			if rapid.Bool().Draw(t, "noted") {
				add(transcript.Notice{Source: "meta", Text: "note"})
			}
		}
		add(transcript.AgentMessage{Text: rapid.SampledFrom([]string{"Done.", ""}).Draw(t, "answer")})
	}
	add(transcript.UserMessage{Content: transcript.TextParts("and now?")})
	return out
}

func id(n int) transcript.CallID { return transcript.CallID(rune('a' + n)) }

func seq(from, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = from + i
	}
	return out
}

// What our own server journals needs no mending, on any wire.
func TestAnHonestHistoryIsClean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := prompt.Options{Rules: anyRules(t), Echo: true}
		o.Rules.Writer = false
		if found := prompt.Lint(prompt.Build(systemText, settled(t), o), o.Rules); len(found) > 0 {
			t.Fatalf("findings: %v", found)
		}
	})
}

// flat are the parts of messages with their roles: what goes over the wire in
// order.
func flat(ms []prompt.Message) []prompt.Message {
	var out []prompt.Message
	for _, m := range ms {
		for _, p := range m.Parts {
			out = append(out, prompt.Message{Role: m.Role, Parts: []prompt.Part{p}})
		}
	}
	return out
}

// A cache of prefixes is only of use if the beginning of a request stays.
func TestTheBeginningStaysWhenAHistoryGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := prompt.Options{Rules: anyRules(t), Echo: true, Blob: blob}
		entries := settled(t)
		whole := flat(prompt.Build(systemText, entries, o))
		for n := range entries {
			if waiting(entries[:n]) {
				continue
			}
			part := flat(prompt.Build(systemText, entries[:n], o))
			if len(part) > len(whole) || !reflect.DeepEqual(part, whole[:len(part)]) {
				t.Fatalf("the first %d entries:\n%s", n, cmp.Diff(part, whole[:min(len(whole), len(part))]))
			}
		}
	})
}

func waiting(entries []transcript.Entry) bool {
	open := 0
	for _, e := range entries {
		switch e.Item.Body.(type) {
		case transcript.ToolCall:
			open++
		case transcript.ToolResult:
			open--
		}
	}
	return open > 0
}

// Each call keeps its result, under whatever id.
func TestIDsAreMappedAlikeAndApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		form := prompt.Ident{Min: 9, Max: 9, Chars: prompt.Alnum}
		var entries []transcript.Entry
		ids := rapid.SliceOfNDistinct(rapid.StringN(1, 12, -1), 1, 8, rapid.ID[string]).Draw(t, "ids")
		for _, id := range ids {
			for _, b := range []transcript.Body{
				transcript.ToolCall{CallID: transcript.CallID(id), Name: "n", Arguments: transcript.RawJSON(`{}`)},
				transcript.ToolResult{CallID: transcript.CallID(id), Output: transcript.TextParts("of " + id)},
			} {
				entries = append(entries, transcript.Entry{Item: transcript.Item{Body: b}, Form: transcript.FormWhole})
			}
		}
		of := map[string]string{}
		for _, m := range prompt.Build("", entries, prompt.Options{Rules: prompt.Rules{IDs: form}}) {
			for _, p := range m.Parts {
				if !form.Fits(p.CallID) {
					t.Fatalf("id %q does not fit", p.CallID)
				}
				if p.Kind == prompt.Result {
					of[p.CallID] = p.Output[0].Text
				}
			}
		}
		if len(of) != len(ids) {
			t.Fatalf("%d ids became %d", len(ids), len(of))
		}
	})
}

func FuzzBuildAndMend(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		o := prompt.Options{Rules: anyRules(t), Echo: rapid.Bool().Draw(t, "echo"), Blob: blob}
		mended(t, prompt.Build(words.Draw(t, "system"), anyEntries(t), o), o.Rules)
		mended(t, anyMessages(t), o.Rules)
	}))
}
