package adaptertest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file holds the scripted cases about tools.

func toolPair() (Script, func(*testing.T, fixture)) {
	script := Script{
		{Call("c1", "read_file", `{"path":"go.mod"}`), Spend(1, 1), Stop(adapters.StopTools)},
		Answer("It is a Go module."),
	}
	return script, func(t *testing.T, f fixture) {
		f.host.OnTool = func(_ context.Context, c transcript.ToolCall) (transcript.ToolResult, error) {
			return transcript.ToolResult{Output: transcript.TextParts("module x: " + c.Name)}, nil
		}
		_, err := f.host.Play(t.Context(), f.session, "what is it?")
		ok(t, "run", err)
		want := []transcript.Body{
			transcript.UserMessage{Content: transcript.TextParts("what is it?")},
			transcript.ToolCall{CallID: "c1", Name: "read_file", Arguments: transcript.RawJSON(`{"path":"go.mod"}`)},
			transcript.ToolResult{CallID: "c1", Output: transcript.TextParts("module x: read_file")},
			transcript.AgentMessage{Text: "It is a Go module."},
		}
		if diff := cmp.Diff(want, bodies(f.host.Items())); diff != "" {
			t.Errorf("transcript (-want +got):\n%s", diff)
		}
	}
}

func textThenCall() (Script, func(*testing.T, fixture)) {
	script := Script{
		{Think("I need the file."), Say("Reading."), Call("c1", "read", `{}`), Spend(1, 1), Stop(adapters.StopTools)},
		Answer("Done."),
	}
	return script, func(t *testing.T, f fixture) {
		_, err := f.host.Play(t.Context(), f.session, "read it")
		ok(t, "run", err)
		want := []transcript.Kind{
			transcript.KindUserMessage, transcript.KindReasoning, transcript.KindAgentMessage,
			transcript.KindToolCall, transcript.KindToolResult, transcript.KindAgentMessage,
		}
		var got []transcript.Kind
		for _, it := range f.host.Items() {
			got = append(got, it.Body.Kind())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("kinds (-want +got):\n%s", diff)
		}
	}
}

// parallelTools lets no call return before all of them are running.
func parallelTools() (Script, func(*testing.T, fixture)) {
	script := Script{
		{Call("c1", "a", `{}`), Call("c2", "b", `{}`), Call("c3", "c", `{}`), Spend(1, 1), Stop(adapters.StopTools)},
		Answer("All three."),
	}
	return script, func(t *testing.T, f fixture) {
		arrived := make(chan struct{}, 3)
		all := make(chan struct{})
		go func() {
			for range 3 {
				<-arrived
			}
			close(all)
		}()
		f.host.OnTool = func(ctx context.Context, c transcript.ToolCall) (transcript.ToolResult, error) {
			arrived <- struct{}{}
			select {
			case <-all:
				return transcript.ToolResult{Output: transcript.TextParts(c.Name)}, nil
			case <-ctx.Done():
				return transcript.ToolResult{}, ctx.Err()
			}
		}
		_, err := f.host.Play(t.Context(), f.session, "three things")
		ok(t, "run", err)
		if n := len(results(f.host.Items())); n != 3 {
			t.Errorf("%d results, want 3", n)
		}
	}
}

func toolError() (Script, func(*testing.T, fixture)) {
	script := Script{
		{Call("c1", "read", `{}`), Spend(1, 1), Stop(adapters.StopTools)},
		Answer("It is missing."),
	}
	return script, func(t *testing.T, f fixture) {
		f.host.OnTool = func(context.Context, transcript.ToolCall) (transcript.ToolResult, error) {
			return transcript.ToolResult{Output: transcript.TextParts("no such file"), IsError: true}, nil
		}
		_, err := f.host.Play(t.Context(), f.session, "read it")
		ok(t, "an error that a tool reports must not end the turn", err)
		if diff := cmp.Diff([]string{"It is missing."}, said(f.host.Items())); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
	}
}

func hostFails() (Script, func(*testing.T, fixture)) {
	return Script{{Call("c1", "a", `{}`), Call("c2", "b", `{}`), Spend(1, 1), Stop(adapters.StopTools)}},
		func(t *testing.T, f fixture) {
			closing := errors.New("the thread is closing")
			f.host.OnTool = func(ctx context.Context, c transcript.ToolCall) (transcript.ToolResult, error) {
				if c.Name == "a" {
					return transcript.ToolResult{}, closing
				}
				<-ctx.Done() // the other call must be cancelled
				return transcript.ToolResult{}, ctx.Err()
			}
			if _, err := f.host.Play(t.Context(), f.session, "go"); !errors.Is(err, closing) {
				t.Errorf("the turn ended with %v, want the host's error", err)
			}
		}
}

func cancelInTool() (Script, func(*testing.T, fixture)) {
	return Script{{Call("c1", "sleep", `{}`), Spend(1, 1), Stop(adapters.StopTools)}},
		func(t *testing.T, f fixture) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f.host.OnTool = func(ctx context.Context, _ transcript.ToolCall) (transcript.ToolResult, error) {
				cancel()
				<-ctx.Done()
				return transcript.ToolResult{}, ctx.Err()
			}
			_, err := f.host.Play(ctx, f.session, "sleep")
			interrupted(t, err)
		}
}

// callIDs covers what providers send: an id twice in a step, an id of an earlier
// step again, and none at all.
func callIDs() (Script, func(*testing.T, fixture)) {
	script := Script{
		{Call("c", "a", `{"n":1}`), Call("c", "b", `{"n":2}`), Call("", "d", `{"n":3}`), Spend(1, 1), Stop(adapters.StopTools)},
		{Call("c", "e", `{"n":4}`), Spend(1, 1), Stop(adapters.StopTools)},
		Answer("Done."),
	}
	return script, func(t *testing.T, f fixture) {
		_, err := f.host.Play(t.Context(), f.session, "go")
		ok(t, "run", err)
		given := map[transcript.CallID]string{}
		for _, it := range f.host.Items() {
			if c, is := it.Body.(transcript.ToolCall); is {
				given[c.CallID] = string(c.Arguments)
			}
		}
		if len(given) != 4 {
			t.Errorf("four calls have the ids %v", given)
		}
		for _, r := range results(f.host.Items()) { // the default tool echoes its arguments
			if got := transcript.PartsText(r.Output); got != given[r.CallID] {
				t.Errorf("call %s with arguments %s got the result of %s", r.CallID, given[r.CallID], got)
			}
		}
	}
}

func badArguments() (Script, func(*testing.T, fixture)) {
	bad := []string{`{"a":`, `[1]`, `null`, `{"a":1}}`, "{\"a\":\"\xff\""}
	reply := Reply{}
	for i, args := range bad {
		reply = append(reply, Call(string(rune('a'+i)), "tool", args))
	}
	reply = append(reply, Call("good", "tool", `{"a":1}`), Call("none", "tool", ``), Spend(1, 1), Stop(adapters.StopTools))
	return Script{reply, Answer("Sorry.")}, func(t *testing.T, f fixture) {
		ran := make(chan transcript.CallID, len(reply))
		f.host.OnTool = func(_ context.Context, c transcript.ToolCall) (transcript.ToolResult, error) {
			ran <- c.CallID
			return transcript.ToolResult{Output: transcript.TextParts("fine")}, nil
		}
		_, err := f.host.Play(t.Context(), f.session, "go")
		ok(t, "run", err)
		close(ran)
		for id := range ran {
			if id != "good" && id != "none" {
				t.Errorf("call %s was run with arguments that are no object", id)
			}
		}
		failed := 0
		for _, r := range results(f.host.Items()) {
			if r.IsError {
				failed++
			}
		}
		if failed != len(bad) {
			t.Errorf("%d calls were answered with an error, want %d", failed, len(bad))
		}
	}
}
