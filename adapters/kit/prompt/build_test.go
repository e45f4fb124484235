package prompt_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/prompt"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func entry(b transcript.Body) transcript.Entry {
	return transcript.Entry{Item: transcript.Item{Body: b}, Form: transcript.FormWhole}
}

func entries(bodies ...transcript.Body) []transcript.Entry {
	var out []transcript.Entry
	for _, b := range bodies {
		out = append(out, entry(b))
	}
	return out
}

func asks(s string) transcript.Body { return transcript.UserMessage{Content: transcript.TextParts(s)} }

func calls(id, args string) transcript.Body {
	return transcript.ToolCall{CallID: transcript.CallID(id), Name: "look", Arguments: transcript.RawJSON(args)}
}

func returns(id, text string) transcript.Body {
	return transcript.ToolResult{CallID: transcript.CallID(id), Output: transcript.TextParts(text)}
}

func fails(id, text string) transcript.Body {
	return transcript.ToolResult{CallID: transcript.CallID(id), Output: transcript.TextParts(text), IsError: true}
}

// TestHowEntriesAreTold has a row for each thing that a context can hold, and for
// each way in which calls and results can lie.
func TestHowEntriesAreTold(t *testing.T) {
	zero := 0
	for _, c := range []struct {
		name string
		in   []transcript.Entry
		want string
	}{
		{"a plain turn", entries(asks("hi"), transcript.AgentMessage{Text: "Hello."}), "user text hi\nassistant text Hello.\n"},
		{
			"parallel calls whose results came in another order",
			entries(asks("go"), transcript.AgentMessage{Text: "Looking."}, calls("1", `{"n":1}`), calls("2", `{"n":2}`), returns("2", "b"), returns("1", "a")),
			"user text go\nassistant text Looking.\nassistant call 1 look {\"n\":1}\nassistant call 2 look {\"n\":2}\ntool result 1 look | text a\ntool result 2 look | text b\n",
		},
		{
			"call and result in turn",
			entries(asks("go"), calls("1", `{}`), returns("1", "a"), calls("2", `{}`), returns("2", "b")),
			"user text go\nassistant call 1 look {}\ntool result 1 look | text a\nassistant call 2 look {}\ntool result 2 look | text b\n",
		},
		{
			"a steer and a notice between call and result",
			entries(asks("go"), calls("1", `{}`), asks("also this"), transcript.Notice{Source: "meta", Text: "it is late"}, returns("1", "a")),
			"user text go\nassistant call 1 look {}\ntool result 1 look | text a\nuser text also this\nuser text it is late\n",
		},
		{
			"a result deep in the tail (F5)",
			entries(asks("u1"), calls("7", `{}`), transcript.AgentMessage{Text: "a1"}, asks("u2"), returns("7", "late"), transcript.AgentMessage{Text: "a2"}),
			"user text u1\nassistant call 7 look {}\ntool result 7 look | text late\nassistant text a1\nuser text u2\nassistant text a2\n",
		},
		{
			"a result whose call was summarised (F10)",
			entries(transcript.Checkpoint{Text: "notes"}, asks("go"), returns("bg", "built")),
			"user text notes\nuser text go\nuser text [late result of a tool (call bg), which was answered before or is no longer part of this conversation]\nbuilt\n",
		},
		{
			"a second result of a call",
			entries(asks("go"), calls("1", `{}`), fails("1", transcript.AbortedText), returns("1", "done after all")),
			"user text go\nassistant call 1 look {}\ntool result 1 look | text aborted: this call was never answered\nuser text [late result of look (call 1), which was answered before or is no longer part of this conversation]\ndone after all\n",
		},
		{
			"an id that is used again",
			entries(asks("go"), calls("1", `{"n":1}`), returns("1", "a"), calls("1", `{"n":2}`), returns("1", "b")),
			"user text go\nassistant call 1 look {\"n\":1}\ntool result 1 look | text a\nassistant call 1 look {\"n\":2}\ntool result 1 look | text b\n",
		},
		{
			"arguments that were refused (F27)",
			entries(calls("1", `"{\"a\":"`), fails("1", `not valid JSON: {"a":`), calls("2", `[1]`), fails("2", "must be an object"), calls("3", `null`), returns("3", "x"), calls("4", ``), returns("4", "x"), calls("5", `{"a":1}}`), fails("5", "no")),
			"assistant call 1 look {}\ntool result 1 look | text not valid JSON: {\"a\":\nassistant call 2 look {}\ntool result 2 look | text must be an object\nassistant call 3 look {}\ntool result 3 look | text x\nassistant call 4 look {}\ntool result 4 look | text x\nassistant call 5 look {}\ntool result 5 look | text no\n",
		},
		{
			"arguments of a tool that takes text",
			entries(calls("1", `"*** patch"`), returns("1", "applied")),
			"assistant call 1 look {\"input\":\"*** patch\"}\ntool result 1 look | text applied\n",
		},
		{
			"nothing said and nothing printed",
			entries(asks(" "), transcript.AgentMessage{Text: "\u200b"}, calls("1", `{}`), returns("1", ""), transcript.Notice{Text: " "}),
			"user text (empty message)\nassistant call 1 look {}\ntool result 1 look | text (no output)\n",
		},
		{
			"facts that are restated again after a second boundary",
			entries(transcript.Checkpoint{Text: "notes"}, transcript.Notice{Source: "reanchor", Text: "facts"}, asks("go"), transcript.Notice{Source: "reanchor", Text: "facts"}, asks("on")),
			"user text notes\nuser text go\nuser text facts\nuser text on\n",
		},
		{
			"what a runtime did",
			entries(
				transcript.Command{Command: "make", Output: "ok", ExitCode: &zero, Status: "completed"},
				transcript.Command{Command: "true", Status: "failed"},
				transcript.FileChange{Changes: []transcript.Change{{Path: "a.go", Op: "add", Diff: "+x"}}, Status: "completed"},
				transcript.Plan{Steps: []transcript.PlanStep{{Step: "build", Status: "pending"}}}, transcript.Plan{},
				transcript.Image{Blob: "png", MediaType: "image/png", Path: "a.png"},
				transcript.Opaque{Origin: "abroad", Raw: transcript.RawJSON(`{}`), Text: "searched"}, transcript.Opaque{Origin: "abroad", Raw: transcript.RawJSON(`{}`)},
				transcript.ContextCompaction{},
			),
			"user text [command that was run: completed, exit 0]\n$ make\nok\nuser text [command that was run: failed]\n$ true\n(no output)\n" +
				"user text [files that were changed: completed]\nadd a.go\n+x\nuser text [plan]\n[pending] build\nuser text [plan: no steps]\n" +
				"user text [image image/png a.png]\nuser text searched\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, show(prompt.Build("", c.in, prompt.Options{}))); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReasoningIsSentWholeOrNotAtAll(t *testing.T) {
	at := func(ms int64, form transcript.Form, b transcript.Body) transcript.Entry {
		when := transcript.FromMillis(ms)
		return transcript.Entry{Form: form, Item: transcript.Item{StartedAt: when, CompletedAt: when.Add(time.Millisecond), Body: b}}
	}
	think := func(s string) transcript.Body { return transcript.Reasoning{Text: s} }
	in := []transcript.Entry{
		at(100, transcript.FormWhole, transcript.Checkpoint{Text: "notes"}),
		at(50, transcript.FormWhole, think("older than the boundary")),
		at(60, transcript.FormWhole, asks("go")),
		at(200, transcript.FormStub, think("[…]")),
		at(210, transcript.FormClipped, think("clip … ped")),
		at(220, transcript.FormWhole, think("fresh")),
		at(230, transcript.FormWhole, transcript.AgentMessage{Text: "Yes."}),
		at(240, transcript.FormWhole, asks("stop")),
		at(250, transcript.FormWhole, think("came to nothing")),
	}
	for _, c := range []struct {
		o    prompt.Options
		want string
	}{
		{prompt.Options{Echo: true, Rules: prompt.Rules{Reasoning: true}}, "user text notes\nuser text go\nassistant reasoning fresh\nassistant text Yes.\nuser text stop\n"},
		{prompt.Options{Echo: true}, "user text notes\nuser text go\nassistant text Yes.\nuser text stop\n"},
		{prompt.Options{Rules: prompt.Rules{Reasoning: true}}, "user text notes\nuser text go\nassistant text Yes.\nuser text stop\n"},
	} {
		if diff := cmp.Diff(c.want, show(prompt.Build("", in, c.o))); diff != "" {
			t.Errorf("messages (-want +got):\n%s", diff)
		}
	}
}

func TestOpaqueItemsGoToTheirOriginOnly(t *testing.T) {
	in := entries(asks("go"), transcript.Opaque{Origin: "home", Raw: transcript.RawJSON(`{"e": 1}`), Text: "searched"})
	ms := prompt.Build("", in, prompt.Options{Rules: prompt.Rules{Origins: []string{"home"}}})
	if p := ms[1].Parts[0]; p.Kind != prompt.Opaque || string(p.Raw) != `{"e": 1}` || p.Sum != prompt.SumOf(p) {
		t.Errorf("its origin gets %+v", p)
	}
	if got := show(prompt.Build("", in, prompt.Options{})); got != "user text go\nuser text searched\n" {
		t.Errorf("another one gets %q", got)
	}
}

func TestWhereImagesGo(t *testing.T) {
	image := transcript.Part{Type: transcript.PartImage, Blob: "png", MediaType: "image/png"}
	in := entries(
		transcript.UserMessage{Content: []transcript.Part{{Type: transcript.PartText, Text: "look"}, image}},
		calls("1", `{}`), calls("2", `{}`), transcript.ToolResult{CallID: "1", Output: []transcript.Part{image}}, returns("2", "ok"), asks("and?"),
	)
	for where, want := range map[prompt.Images]string{
		prompt.ImagesAll:  "user text look\nuser image image/png [image image/png]\nassistant call 1 look {}\nassistant call 2 look {}\ntool result 1 look | image [image image/png]\ntool result 2 look | text ok\nuser text and?\n",
		prompt.ImagesUser: "user text look\nuser image image/png [image image/png]\nassistant call 1 look {}\nassistant call 2 look {}\ntool result 1 look | text [its images follow below]\ntool result 2 look | text ok\nuser image image/png [image image/png]\nuser text and?\n",
		prompt.ImagesNone: "user text look\nuser text [image image/png]\nassistant call 1 look {}\nassistant call 2 look {}\ntool result 1 look | text [image image/png]\ntool result 2 look | text ok\nuser text and?\n",
	} {
		ms := prompt.Build("", in, prompt.Options{Rules: prompt.Rules{Images: where}, Blob: blob})
		if diff := cmp.Diff(want, show(ms)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", where, diff)
		}
	}
	if got := show(prompt.Build("", in, prompt.Options{Rules: prompt.Rules{Images: prompt.ImagesAll}})); strings.Contains(got, " image ") {
		t.Errorf("without bytes:\n%s", got)
	}
	gone := func(string) ([]byte, error) { return nil, errors.New("gone") }
	ms, found := prompt.Prepare("", in, prompt.Options{Rules: prompt.Rules{Images: prompt.ImagesAll}, Blob: gone})
	if len(found) != 2 || found[0].Rule != "L8" || strings.Contains(show(ms), " image ") {
		t.Errorf("with bytes that are gone: %v\n%s", found, show(ms))
	}
}

// TestOneSystemMessageWhateverTheContextHolds is F12: the summary is the user's side.
func TestOneSystemMessageWhateverTheContextHolds(t *testing.T) {
	in := entries(transcript.Checkpoint{Text: "notes"}, transcript.Notice{Source: "reanchor", Text: "facts"}, asks("go"))
	for merge, want := range map[bool][]prompt.Role{
		false: {prompt.System, prompt.User, prompt.User, prompt.User},
		true:  {prompt.System, prompt.User},
	} {
		ms, found := prompt.Prepare(systemText, in, prompt.Options{Rules: prompt.Rules{MergeRoles: merge}})
		var roles []prompt.Role
		for _, m := range ms {
			roles = append(roles, m.Role)
		}
		if diff := cmp.Diff(want, roles); diff != "" || len(found) > 0 {
			t.Errorf("merge %v: findings %v, roles (-want +got):\n%s", merge, found, diff)
		}
		if last := ms[len(ms)-1].Parts; last[len(last)-1].Text != "go" {
			t.Errorf("the last words are %q", last[len(last)-1].Text)
		}
	}
}

// TestNoCutMakesABadRequest is F1 and F3: whatever a careless compaction leaves.
func TestNoCutMakesABadRequest(t *testing.T) {
	for _, history := range [][]transcript.Entry{
		entries(asks("u1"), calls("1", `{}`), returns("1", "a"), calls("2", `{}`), returns("2", "b"), calls("3", `{}`), returns("3", "c"), transcript.AgentMessage{Text: "a"}),
		entries(asks("u1"), calls("1", `{}`), fails("1", transcript.AbortedText), asks("u2"), transcript.AgentMessage{Text: "a"}, asks("u3")),
	} {
		for from := range history {
			for to := from; to <= len(history); to++ {
				for _, r := range []prompt.Rules{{}, {MergeRoles: true, UserFirst: true}, {Bridge: true, MergeRoles: true}} {
					ms, _ := prompt.Prepare(systemText, history[from:to], prompt.Options{Rules: r})
					if left := prompt.Lint(ms, r); len(left) > 0 || !valid(ms) {
						t.Errorf("entries %d to %d by %+v: %v\n%s", from, to, r, left, show(ms))
					}
				}
			}
		}
	}
}

func TestNamesFitAndStayApart(t *testing.T) {
	form := prompt.Ident{Max: 64, Chars: prompt.Word}
	long := strings.Repeat("mcp__server__tool_", 5)
	for _, c := range []struct{ in, head string }{
		{"look", "look"}, {long + "a", long[:50]}, {long + "b", long[:50]}, {"a tool!", "a_tool_"}, {"日本語", "___"}, {"", ""},
	} {
		got := form.Fit(c.in)
		if !form.Fits(got) || !strings.HasPrefix(got, c.head) || form.Fit(got) != got || form.Fit(c.in) != got {
			t.Errorf("%q became %q", c.in, got)
		}
	}
	if form.Fit(long+"a") == form.Fit(long+"b") {
		t.Error("two long names became one")
	}
}
