package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// scriptedCase makes a script and the check that goes with it.
type scriptedCase struct {
	name string
	make func() (Script, func(*testing.T, fixture))
}

// scripted are the cases of RunScripted, in the order of the contract.
var scripted = []scriptedCase{
	{"text is streamed and completed", textTurn},
	{"reasoning comes before the answer", reasoningTurn},
	{"a huge text arrives whole", hugeText},
	{"a character cut between chunks arrives whole", cutCharacter},
	{"bytes that are no UTF-8 are replaced", invalidBytes},
	{"an empty answer leaves no item", emptyAnswer},
	{"usage is reported for each request", usagePerRequest},
	{"a call is answered before the next request", toolPair},
	{"text before a call stays before it", textThenCall},
	{"calls of one step run at the same time", parallelTools},
	{"an error of a tool goes to the model", toolError},
	{"a failing host ends the turn", hostFails},
	{"cancelling ends running tools", cancelInTool},
	{"call ids are made unique", callIDs},
	{"arguments that are no object never reach a tool", badArguments},
	{"cancelling ends a silent stream", cancelSilentStream},
	{"interrupting ends a silent stream", interruptSilentStream},
	{"closing ends a silent stream", closeSilentStream},
	{"a broken stream fails the turn and keeps its text", brokenStream},
	{"a stream without an end fails the turn", unfinishedStream},
	{"overflow is recognised", overflow},
	{"an answer cut at a limit says so", lengthStop},
	{"a steer is answered in the same turn", steerIsAnswered},
}

func textTurn() (Script, func(*testing.T, fixture)) {
	return Script{{Say("Hello, "), Say("world"), Say("."), Spend(12, 3), Stop(adapters.StopEnd)}},
		func(t *testing.T, f fixture) {
			end, err := f.host.Play(t.Context(), f.session, "greet me")
			ok(t, "run", err)
			if end.Stop != adapters.StopEnd {
				t.Errorf("stop reason %q, want %q", end.Stop, adapters.StopEnd)
			}
			if diff := cmp.Diff([]string{"Hello, world."}, said(f.host.Items())); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			want := []adapters.Usage{{InputTokens: 12, OutputTokens: 3}}
			if diff := cmp.Diff(want, f.host.Usages()); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		}
}

func reasoningTurn() (Script, func(*testing.T, fixture)) {
	return Script{{Think("Let me "), Think("see."), Say("It is 4."), Spend(9, 9), Stop(adapters.StopEnd)}},
		func(t *testing.T, f fixture) {
			_, err := f.host.Play(t.Context(), f.session, "2+2?")
			ok(t, "run", err)
			want := []transcript.Body{
				transcript.UserMessage{Content: transcript.TextParts("2+2?")},
				transcript.Reasoning{Text: "Let me see."},
				transcript.AgentMessage{Text: "It is 4."},
			}
			if diff := cmp.Diff(want, bodies(f.host.Items())); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
		}
}

func hugeText() (Script, func(*testing.T, fixture)) {
	const size = 1 << 20
	one := strings.Repeat("0123456789abcde\n", size/16)
	return Script{{Say(one), Say(one), Spend(1, 1), Stop(adapters.StopEnd)}},
		func(t *testing.T, f fixture) {
			_, err := f.host.Play(t.Context(), f.session, "a lot")
			ok(t, "run", err)
			if texts := said(f.host.Items()); len(texts) != 1 || texts[0] != one+one {
				t.Errorf("2 MiB of text did not arrive as they were sent")
			}
		}
}

func cutCharacter() (Script, func(*testing.T, fixture)) {
	const text = "naïve 日本語 🚢 end"
	reply := Reply{}
	for _, b := range []byte(text) { // each chunk is one byte
		reply = append(reply, Say(string([]byte{b})))
	}
	return Script{append(reply, Spend(1, 1), Stop(adapters.StopEnd))},
		func(t *testing.T, f fixture) {
			_, err := f.host.Play(t.Context(), f.session, "in pieces")
			ok(t, "run", err)
			if diff := cmp.Diff([]string{text}, said(f.host.Items())); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		}
}

func invalidBytes() (Script, func(*testing.T, fixture)) {
	return Script{{Say("a\xffb"), Say("c\xe6\x97"), Spend(1, 1), Stop(adapters.StopEnd)}},
		func(t *testing.T, f fixture) {
			_, err := f.host.Play(t.Context(), f.session, "noise")
			ok(t, "run", err)
			texts := said(f.host.Items())
			if len(texts) != 1 || !utf8.ValidString(texts[0]) || !strings.HasPrefix(texts[0], "a\uFFFDbc\uFFFD") {
				t.Errorf("answers %q, want what was readable, with replacement characters", texts)
			}
		}
}

func emptyAnswer() (Script, func(*testing.T, fixture)) {
	return Script{{Say(""), Spend(5, 0), Stop(adapters.StopEnd)}},
		func(t *testing.T, f fixture) {
			f.host.WantWarnings = true
			_, err := f.host.Play(t.Context(), f.session, "say nothing")
			ok(t, "run", err)
			if texts := said(f.host.Items()); len(texts) != 0 {
				t.Errorf("an empty answer left items: %q", texts)
			}
			if len(f.host.Usages()) != 1 {
				t.Errorf("usages: %+v, want the one of the empty answer", f.host.Usages())
			}
		}
}

func usagePerRequest() (Script, func(*testing.T, fixture)) {
	script := Script{
		{Call("c1", "look", `{}`), Spend(10, 1), Stop(adapters.StopTools)},
		{Say("Done."), Spend(20, 2), Stop(adapters.StopEnd)},
	}
	return script, func(t *testing.T, f fixture) {
		_, err := f.host.Play(t.Context(), f.session, "look")
		ok(t, "run", err)
		want := []adapters.Usage{{InputTokens: 10, OutputTokens: 1}, {InputTokens: 20, OutputTokens: 2}}
		if diff := cmp.Diff(want, f.host.Usages()); diff != "" {
			t.Errorf("usage (-want +got):\n%s", diff)
		}
	}
}

func lengthStop() (Script, func(*testing.T, fixture)) {
	return Script{{Say("and then the"), Spend(1, 1), Stop(adapters.StopLength)}},
		func(t *testing.T, f fixture) {
			f.host.WantWarnings = true
			end, err := f.host.Play(t.Context(), f.session, "a story")
			ok(t, "run", err)
			if end.Stop != adapters.StopLength {
				t.Errorf("stop reason %q, want %q", end.Stop, adapters.StopLength)
			}
		}
}

func cancelSilentStream() (Script, func(*testing.T, fixture)) {
	return Script{{Say("wait"), Hang()}},
		func(t *testing.T, f fixture) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			atFirstDelta(f.host, func() { go cancel() })
			_, err := f.host.Play(ctx, f.session, "hello")
			interrupted(t, err)
			if diff := cmp.Diff([]string{"wait"}, said(f.host.Items())); diff != "" {
				t.Errorf("the text before the cancel (-want +got):\n%s", diff)
			}
		}
}

func interruptSilentStream() (Script, func(*testing.T, fixture)) {
	return Script{{Say("wait"), Hang()}},
		func(t *testing.T, f fixture) {
			stopped := make(chan error, 1)
			atFirstDelta(f.host, func() {
				go func() { stopped <- f.session.Interrupt(t.Context()) }()
			})
			_, err := f.host.Play(t.Context(), f.session, "hello")
			interrupted(t, err)
			ok(t, "interrupt", <-stopped)
		}
}

func closeSilentStream() (Script, func(*testing.T, fixture)) {
	return Script{{Say("wait"), Hang()}},
		func(t *testing.T, f fixture) {
			closed := make(chan error, 1)
			atFirstDelta(f.host, func() {
				go func() { closed <- f.session.Close() }()
			})
			if _, err := f.host.Play(t.Context(), f.session, "hello"); err == nil {
				t.Error("the turn of a closed session succeeded")
			}
			ok(t, "close", <-closed)
		}
}

func brokenStream() (Script, func(*testing.T, fixture)) {
	reset := errors.New("connection reset")
	return Script{{Say("half an ans"), Spend(7, 2), Fail(reset)}, Answer("Whole.")},
		func(t *testing.T, f fixture) {
			_, err := f.host.Play(t.Context(), f.session, "hello")
			if err == nil || errors.Is(err, context.Canceled) {
				t.Errorf("a broken stream ended the turn with %v", err)
			}
			_, err = f.host.Play(t.Context(), f.session, "again")
			ok(t, "the turn after a broken one", err)
			if diff := cmp.Diff([]string{"half an ans", "Whole."}, said(f.host.Items())); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if len(f.host.Usages()) != 2 {
				t.Errorf("usages %+v: what a broken request cost must be reported", f.host.Usages())
			}
		}
}

func unfinishedStream() (Script, func(*testing.T, fixture)) {
	return Script{{Call("c1", "look", `{}`), Say("half")}},
		func(t *testing.T, f fixture) {
			f.host.OnTool = func(context.Context, transcript.ToolCall) (transcript.ToolResult, error) {
				t.Error("a call of an unfinished answer was run")
				return transcript.ToolResult{}, nil
			}
			if _, err := f.host.Play(t.Context(), f.session, "hello"); err == nil {
				t.Error("an answer that never ended is a success")
			}
		}
}

func overflow() (Script, func(*testing.T, fixture)) {
	return Script{{Fail(fmt.Errorf("prompt is too long: %w", adapters.ErrOverflow))}},
		func(t *testing.T, f fixture) {
			if _, err := f.host.Play(t.Context(), f.session, "hello"); !errors.Is(err, adapters.ErrOverflow) {
				t.Errorf("overflow ended the turn with %v, want ErrOverflow", err)
			}
		}
}

func steerIsAnswered() (Script, func(*testing.T, fixture)) {
	return Script{{Say("First."), Spend(1, 1), Stop(adapters.StopEnd)}, Answer("Second.")},
		func(t *testing.T, f fixture) {
			atFirstDelta(f.host, func() {
				ok(t, "steer", f.session.Steer(t.Context(), transcript.TextParts("also this")))
				f.host.Say("also this")
			})
			_, err := f.host.Play(t.Context(), f.session, "this")
			ok(t, "run", err)
			want := []transcript.Body{
				transcript.UserMessage{Content: transcript.TextParts("this")},
				transcript.AgentMessage{Text: "First."},
				transcript.UserMessage{Content: transcript.TextParts("also this")},
				transcript.AgentMessage{Text: "Second."},
			}
			if diff := cmp.Diff(want, bodies(f.host.Items())); diff != "" {
				t.Errorf("transcript (-want +got):\n%s", diff)
			}
		}
}

// bodies returns the bodies of items, in order.
func bodies(items []transcript.Item) []transcript.Body {
	out := make([]transcript.Body, len(items))
	for i, it := range items {
		out[i] = it.Body
	}
	return out
}
