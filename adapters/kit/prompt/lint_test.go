package prompt_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/prompt"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func says(s string) prompt.Part {
	return prompt.Part{Kind: prompt.Text, By: transcript.KindUserMessage, Text: s}
}

func call(id, args string) prompt.Part {
	return prompt.Part{Kind: prompt.Call, By: transcript.KindToolCall, CallID: id, Name: "look", Arguments: transcript.RawJSON(args)}
}

func result(id, text string) prompt.Part {
	return prompt.Part{Kind: prompt.Result, By: transcript.KindToolResult, CallID: id, Name: "look", Output: []prompt.Part{{Kind: prompt.Text, Text: text}}}
}

func whole(p prompt.Part) prompt.Part {
	p.Sum = prompt.SumOf(p)
	return p
}

func msg(role prompt.Role, parts ...prompt.Part) prompt.Message {
	return prompt.Message{Role: role, Parts: parts}
}

func user(s string) prompt.Message { return msg(prompt.User, says(s)) }
func assistant(s string) prompt.Message {
	return msg(prompt.Assistant, prompt.Part{Kind: prompt.Text, By: transcript.KindAgentMessage, Text: s})
}

// rulesOf are the rules of findings, each once, in order.
func rulesOf(found []prompt.Finding) []string {
	var out []string
	for _, f := range found {
		if !slices.Contains(out, f.Rule) {
			out = append(out, f.Rule)
		}
	}
	return out
}

// liberal is an endpoint that takes everything.
var liberal = prompt.Rules{Images: prompt.ImagesAll, Reasoning: true, Origins: []string{"home"}}

// TestEachRuleIsFoundAndMended breaks each rule of field-cases.md, in each way that
// is told apart.
func TestEachRuleIsFoundAndMended(t *testing.T) {
	sys := msg(prompt.System, prompt.Part{Kind: prompt.Text, Text: systemText})
	note := func(kind transcript.Kind, source, text string) prompt.Part {
		return prompt.Part{Kind: prompt.Text, By: kind, Source: source, Text: text}
	}
	image := func(data, mediaType string) prompt.Part {
		return prompt.Part{Kind: prompt.Image, By: transcript.KindUserMessage, Text: "[image]", Data: []byte(data), MediaType: mediaType}
	}
	opaque := func(origin string) prompt.Part {
		return whole(prompt.Part{Kind: prompt.Opaque, Origin: origin, Raw: transcript.RawJSON(`{"e":1}`), Text: "what it says"})
	}
	thought := whole(prompt.Part{Kind: prompt.Reasoning, Text: "hm"})
	edited := thought
	edited.Text = "hm!"
	editedOpaque := opaque("home")
	editedOpaque.Raw = transcript.RawJSON(`{"e":2}`)
	mistral := prompt.Rules{IDs: prompt.Ident{Min: 9, Max: 9, Chars: prompt.Alnum}, Names: prompt.Ident{Max: 64, Chars: prompt.Word}}

	for _, c := range []struct {
		name string
		want string // rules
		r    prompt.Rules
		ms   []prompt.Message
		send string // what the mended request holds
	}{
		{"clean", "", liberal, []prompt.Message{sys, user("a"), msg(prompt.Assistant, thought, call("1", `{}`)), msg(prompt.Tool, result("1", "ok"))}, ""},
		{"result without a call", "L1", liberal, []prompt.Message{user("a"), msg(prompt.Tool, result("9", "found it"))}, "found it"},
		{"result that comes late", "L2 L1", liberal, []prompt.Message{user("a"), msg(prompt.Assistant, call("1", `{}`)), user("b"), assistant("c"), user("d"), msg(prompt.Tool, result("1", "found it"))}, "found it"},
		{"result twice", "L1", liberal, []prompt.Message{user("a"), msg(prompt.Assistant, call("1", `{}`)), msg(prompt.Tool, result("1", "x"), result("1", "found it"))}, "found it"},
		{"call without a result", "L2", liberal, []prompt.Message{user("a"), msg(prompt.Assistant, call("1", `{}`)), user("b")}, transcript.AbortedText},
		{"call without a result, at the end", "L2 L6", liberal, []prompt.Message{user("a"), msg(prompt.Assistant, call("1", `{}`))}, transcript.AbortedText},
		{"one of two calls without a result", "L2", liberal, []prompt.Message{user("a"), msg(prompt.Assistant, call("1", `{}`), call("2", `{}`)), msg(prompt.Tool, result("2", "x"))}, transcript.AbortedText},
		{"words between call and result", "L2", liberal, []prompt.Message{user("a"), msg(prompt.Assistant, call("1", `{}`), says("wait")), msg(prompt.Tool, result("1", "x"))}, "wait"},
		{"id twice", "L3", liberal, []prompt.Message{user("a"), msg(prompt.Assistant, call("1", `{"n":1}`), call("1", `{"n":2}`)), msg(prompt.Tool, result("1", "of 1"), result("1", "of 2"))}, "of 2"},
		{"empty id", "L3", liberal, []prompt.Message{user("a"), msg(prompt.Assistant, call("", `{}`)), msg(prompt.Tool, result("", "x"))}, "x"},
		{"id of another wire", "L3", mistral, []prompt.Message{user("a"), msg(prompt.Assistant, call("call_1", `{}`)), msg(prompt.Tool, result("call_1", "x"))}, "x"},
		{"blank text", "L4", liberal, []prompt.Message{user("a"), assistant(" \u200b"), user("b")}, ""},
		{"blank output", "L4", liberal, []prompt.Message{user("a"), msg(prompt.Assistant, call("1", `{}`)), msg(prompt.Tool, result("1", "\u2800"))}, "(no output)"},
		{"blank message of the user", "L6 L4", liberal, []prompt.Message{user("\n")}, "(empty message)"},
		{"message without parts", "L4", liberal, []prompt.Message{user("a"), {Role: prompt.Assistant}, user("b")}, ""},
		{"thinking that came to nothing", "L4", liberal, []prompt.Message{user("a"), msg(prompt.Assistant, thought), user("b")}, ""},
		{"bytes that are no UTF-8", "L4", liberal, []prompt.Message{user("a\xff")}, "a\ufffd"},
		{"second system message", "L5", liberal, []prompt.Message{sys, user("a"), msg(prompt.System, note("", "", "Summary: x")), user("b")}, "Summary: x"},
		{"system message at the end", "L5 L6", liberal, []prompt.Message{user("a"), msg(prompt.System, note("", "", "Go."))}, "Go."},
		{"nobody asks", "L6", liberal, []prompt.Message{sys}, "no longer part of this conversation"},
		{"notes only", "L6", liberal, []prompt.Message{msg(prompt.User, note(transcript.KindNotice, "meta", "it is late"))}, "it is late"},
		{"the model has the last word", "L6", liberal, []prompt.Message{user("a"), assistant("b")}, "Go on with what was asked."},
		{"the checkpoint is last", "L6", liberal, []prompt.Message{user("a"), msg(prompt.User, note(transcript.KindCheckpoint, "", "notes"))}, "Go on with what was asked."},
		{"two in a row", "L6", prompt.Rules{MergeRoles: true}, []prompt.Message{user("a"), user("b")}, "b"},
		{"the model begins", "L6", prompt.Rules{UserFirst: true}, []prompt.Message{assistant("a"), user("b")}, "begins in the middle"},
		{"words after results", "L6", prompt.Rules{Bridge: true}, []prompt.Message{user("a"), msg(prompt.Assistant, call("1", `{}`)), msg(prompt.Tool, result("1", "x")), user("b")}, "I have the results."},
		{"arguments that are no object", "L7", liberal, []prompt.Message{user("a"), msg(prompt.Assistant, call("1", `{"path": "x`)), msg(prompt.Tool, result("1", "x"))}, `{"path": "x`},
		{"image that is none", "L8", liberal, []prompt.Message{msg(prompt.User, says("a"), image("<svg/>", "image/png"))}, "[image]"},
		{"image without bytes", "L8", liberal, []prompt.Message{msg(prompt.User, says("a"), image("", "image/png"))}, "[image]"},
		{"image of another type", "L8", liberal, []prompt.Message{msg(prompt.User, says("a"), image(png, "image/jpeg"))}, ""},
		{"edited thinking", "L9", liberal, []prompt.Message{user("a"), msg(prompt.Assistant, edited, says("b")), user("c")}, ""},
		{"edited opaque item", "L9", liberal, []prompt.Message{user("a"), msg(prompt.Assistant, editedOpaque, says("b")), user("c")}, ""},
		{"thinking from before the boundary", "L9", liberal, []prompt.Message{msg(prompt.Assistant, thought, says("b")), msg(prompt.User, note(transcript.KindCheckpoint, "", "notes")), user("c")}, ""},
		{"item of another origin", "L10", liberal, []prompt.Message{user("a"), msg(prompt.Assistant, opaque("abroad")), user("c")}, "what it says"},
		{"role of another wire", "L10", liberal, []prompt.Message{msg("developer", says("rules")), user("a")}, "rules"},
		{"call of the user", "L10", liberal, []prompt.Message{msg(prompt.User, says("a"), call("1", `{}`))}, "[call of look: {}]"},
		{"image where none is taken", "L10", prompt.Rules{}, []prompt.Message{msg(prompt.User, says("a"), image(png, "image/png"))}, "[image]"},
		{"thinking where none is taken", "L10", prompt.Rules{}, []prompt.Message{user("a"), msg(prompt.Assistant, thought, says("b")), user("c")}, ""},
		{"tools of a writer", "L10", prompt.Rules{Writer: true}, []prompt.Message{user("a"), msg(prompt.Assistant, call("1", `{}`)), msg(prompt.Tool, result("1", "x")), user("b")}, ""},
		{"system text as a message", "L11", liberal, []prompt.Message{sys, user(systemText), user("b")}, ""},
		{"system text in the notes", "L11", liberal, []prompt.Message{sys, msg(prompt.User, note(transcript.KindCheckpoint, "", "They said: "+systemText+" Then x.")), user("b")}, "Then x."},
		{"restated twice", "L11", liberal, []prompt.Message{msg(prompt.User, note(transcript.KindNotice, "reanchor", "facts")), msg(prompt.User, note(transcript.KindNotice, "reanchor", "facts")), user("b")}, "facts"},
		{"prompt of a writer", "L12", liberal, []prompt.Message{user("a " + transcript.WriterMark + " b")}, "a  b"},
		{"prompt of a writer in arguments", "L12", liberal, []prompt.Message{user("a"), msg(prompt.Assistant, call("1", `{"s":"`+transcript.WriterMark+`"}`)), msg(prompt.Tool, result("1", "x"))}, `{"s":""}`},
		{"too many bytes", "L13", prompt.Rules{MaxBytes: 4_000}, []prompt.Message{user("a"), msg(prompt.Assistant, call("1", `{}`)), msg(prompt.Tool, result("1", strings.Repeat("line\n", 4_000)))}, "bytes omitted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := prompt.Lint(c.ms, c.r)
			if got := strings.Join(rulesOf(found), " "); got != c.want {
				t.Fatalf("found %v, want %q", found, c.want)
			}
			out, told := prompt.Mend(c.ms, c.r)
			if diff := cmp.Diff(found, told); diff != "" {
				t.Errorf("told (-found +told):\n%s", diff)
			}
			if left := prompt.Lint(out, c.r); len(left) > 0 {
				t.Errorf("after Mend: %v", left)
			}
			if sent := show(out); !strings.Contains(sent, c.send) {
				t.Errorf("sent:\n%s\nwant it with %q", sent, c.send)
			}
			for _, f := range told {
				if s := f.String(); strings.Contains(s, "%!") || strings.HasSuffix(s, "; ") {
					t.Errorf("finding %q", s)
				}
			}
		})
	}
}

// show renders messages for people, one part a line.
func show(ms []prompt.Message) string {
	var s strings.Builder
	for _, m := range ms {
		for _, p := range m.Parts {
			s.WriteString(string(m.Role) + " " + string(p.Kind))
			for _, more := range []string{p.CallID, p.Name, string(p.Arguments), p.MediaType, p.Text} {
				if more != "" {
					s.WriteString(" " + more)
				}
			}
			for _, o := range p.Output {
				s.WriteString(" | " + string(o.Kind) + " " + o.Text)
			}
			s.WriteString("\n")
		}
	}
	return s.String()
}

func TestEachCallKeepsItsOwnResultWhenIdsAreReplaced(t *testing.T) {
	ms := []prompt.Message{
		user("a"),
		msg(prompt.Assistant, call("1", `{"n":1}`), call("1", `{"n":2}`)), msg(prompt.Tool, result("1", "of 1"), result("1", "of 2")),
		msg(prompt.Assistant, call("1", `{"n":3}`)), msg(prompt.Tool, result("1", "of 3")),
		msg(prompt.Assistant, call("", `{"n":4}`)), msg(prompt.Tool, result("", "of 4")),
	}
	out, _ := prompt.Mend(ms, liberal)
	want := `user text a
assistant call 1 look {"n":1}
assistant call 1-2 look {"n":2}
tool result 1 look | text of 1
tool result 1-2 look | text of 2
assistant call 1-3 look {"n":3}
tool result 1-3 look | text of 3
assistant call call look {"n":4}
tool result call look | text of 4
`
	if diff := cmp.Diff(want, show(out)); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

// What a user or a tool quotes is theirs: only a whole text that is the system text
// is taken for a repetition.
func TestAQuotationOfTheSystemTextIsNoRepetition(t *testing.T) {
	ms := []prompt.Message{msg(prompt.System, says(systemText)), user("what does this mean: " + systemText)}
	if found := prompt.Lint(ms, liberal); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

func TestAWriterMayHoldItsOwnMark(t *testing.T) {
	ms := []prompt.Message{msg(prompt.System, says(transcript.WriterMark)), user("data")}
	if found := prompt.Lint(ms, prompt.Rules{Writer: true}); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// F24: 42 images of 800 KB are few tokens and many bytes.
func TestImagesGoOldestFirstUntilTheBytesFit(t *testing.T) {
	data := append([]byte(png), make([]byte, 800<<10)...)
	var ms []prompt.Message
	for range 42 {
		ms = append(ms, msg(prompt.User, says("look"), prompt.Part{Kind: prompt.Image, Text: "[image image/png]", MediaType: "image/png", Data: data}))
	}
	r := prompt.Rules{Images: prompt.ImagesUser, MaxBytes: 32 << 20}
	out, found := prompt.Mend(ms, r)
	if got := strings.Join(rulesOf(found), " "); got != "L13" || found[0].Stuck {
		t.Errorf("found %v", found)
	}
	shown := 0
	for i, m := range out {
		if m.Parts[1].Kind == prompt.Image {
			shown++
		} else if shown > 0 {
			t.Errorf("image %d is told as text although an older one is shown", i)
		}
	}
	if shown < 28 || shown > 31 || prompt.Bytes(out) > r.MaxBytes {
		t.Errorf("%d images are left, %d bytes", shown, prompt.Bytes(out))
	}
}

func TestWhatCannotBeMendedIsStuck(t *testing.T) {
	long := strings.Repeat("word ", 4_000)
	for name, r := range map[string]prompt.Rules{
		"a system text beyond the cap": {MaxBytes: 1_000},
		"a window that is too small":   {MaxTokens: 100},
	} {
		t.Run(name, func(t *testing.T) {
			out, found := prompt.Mend([]prompt.Message{msg(prompt.System, says(long)), user("a")}, r)
			stuck := slices.DeleteFunc(slices.Clone(found), func(f prompt.Finding) bool { return !f.Stuck })
			if len(stuck) != 1 || stuck[0].Rule != "L13" {
				t.Errorf("found %v", found)
			}
			if out[0].Parts[0].Text != long {
				t.Error("the system text was changed")
			}
		})
	}
}
