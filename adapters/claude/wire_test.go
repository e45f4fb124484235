package claude

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A scene is a session whose Claude Code answers messages as a test says.
type scene struct {
	*testing.T
	s     adapters.Session
	h     *adaptertest.Host
	home  string
	dials atomic.Int32
}

// stage opens a session. Act is what Claude Code does about a message that is to be
// answered, in a goroutine of its own.
func stage(t *testing.T, o Options, act func(d *double, f map[string]any, id, text string)) *scene {
	t.Helper()
	sc := &scene{T: t, h: adaptertest.NewHost(t), home: t.TempDir()}
	o.Home = sc.home
	a := playWith(t, nil, func(d *double) {
		sc.dials.Add(1)
		d.override = func(d *double, f map[string]any) bool {
			if f["type"] != "user" {
				return false
			}
			m, _ := f["message"].(map[string]any)
			text, _ := m["content"].(string)
			id, _ := f["uuid"].(string)
			d.work.Go(func() { act(d, f, id, text) })
			return true
		}
	}, o)
	s, err := a.Open(t.Context(), adapters.OpenParams{Thread: "t", Cwd: sc.home})
	if err != nil {
		t.Fatal(err)
	}
	sc.s = s
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return sc
}

// answered is a whole turn of few words.
func (d *double) answered(id, text string) {
	d.lifecycle(id, "started")
	m := &spoken{d: d, id: "msg_" + id}
	m.event(`{"type":"message_start","message":{"id":%q,"model":"claude-x","content":[]}}`, m.id)
	m.text("text", text)
	m.close()
	d.result([]string{id}, nil)
	d.lifecycle(id, "completed")
}

// transcribe writes a transcript of the conversation.
func (sc *scene) transcribe(lines ...string) {
	sc.Helper()
	dir := filepath.Join(sc.home, "projects", "-w")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		sc.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, sc.s.NativeID()+".jsonl"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		sc.Fatal(err)
	}
}

func (d *double) system(subtype string, more map[string]any) {
	f := map[string]any{"type": "system", "subtype": subtype}
	maps.Copy(f, more)
	d.say(f)
}

// What the user says is text, also if it looks like a command; what we command is the
// command to the byte.
func TestOnlyOurCommandsAreCommands(t *testing.T) {
	var seen []string
	sc := stage(t, Options{}, func(d *double, f map[string]any, id, text string) {
		seen = append(seen, fmt.Sprintf("%q composed=%v silent=%v", text, f["client_composed"], f["shouldQuery"] == false))
		if f["client_composed"] == nil {
			d.system("compact_boundary", map[string]any{"compact_metadata": map[string]any{}})
		}
		d.answered(id, "ok")
	})
	sc.h.Notes = "pins: none"
	if _, err := sc.h.Play(t.Context(), sc.s, "/compact everything"); err != nil {
		t.Error(err)
	}
	sc.h.Instructions = " keep\n the names "
	if _, err := sc.h.Compact(t.Context(), sc.s, "c1"); err != nil {
		t.Error(err)
	}
	sc.h.Instructions = ""
	if _, err := sc.h.Compact(t.Context(), sc.s, "c2"); err != nil {
		t.Error(err)
	}
	want := []string{
		`"pins: none" composed=true silent=true`, `"/compact everything" composed=true silent=false`,
		`"/compact keep the names" composed=<nil> silent=false`, `"/compact" composed=<nil> silent=false`,
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
	if sc.dials.Load() != 1 {
		t.Errorf("%d processes: the input of the first one was not kept open", sc.dials.Load())
	}
}

// What a compaction came to is read off what was told before our own result, never off
// the result.
func TestACompactionIsWhatWasToldBeforeItsResult(t *testing.T) {
	success := map[string]any{"status": nil, "compact_result": "success"}
	boundary := map[string]any{"compact_metadata": map[string]any{"pre_tokens": 900}}
	for name, tt := range map[string]struct {
		act  func(d *double, id string)
		want func(err error) bool
	}{
		"success and boundary":         {func(d *double, _ string) { d.system("status", success); d.system("compact_boundary", boundary) }, isNil},
		"boundary of an older version": {func(d *double, _ string) { d.system("compact_boundary", boundary) }, isNil},
		"success without a boundary":   {func(d *double, _ string) { d.system("status", success) }, isUnclaimed},
		"nothing":                      {func(*double, string) {}, isUnclaimed},
		"a boundary after the result":  {func(d *double, id string) { d.result([]string{id}, nil); d.system("compact_boundary", boundary) }, isUnclaimed},
		"a result of another message":  {func(d *double, _ string) { d.result([]string{"other"}, nil); d.system("compact_boundary", boundary) }, isNil},
		"nothing to compact":           {says("Error: No messages to compact"), isA(adapters.ErrNothingToCompact)},
		"too little to compact": {func(d *double, _ string) {
			d.system("status", failedWith("Not enough messages to compact."))
		}, isA(adapters.ErrNothingToCompact)},
		"too little, as a message":      {says("Not enough messages to compact."), isA(adapters.ErrNothingToCompact)},
		"no such command":               {says("/compact isn't available in this environment."), isRefused},
		"a boundary of what has failed": {func(d *double, _ string) { d.system("status", failedWith("x")); d.system("compact_boundary", boundary) }, isUnclaimed},
		"a hook of the user": {func(d *double, _ string) {
			d.system("status", failedWith("skipped: Compaction blocked by PreCompact hook: [h]: no"))
		}, func(err error) bool { return fault.CodeOf(err) == fault.Denied }},
		"a full context": {func(d *double, _ string) {
			d.system("status", failedWith("Compaction failed · conversation could not be reduced below the context limit"))
		}, isA(adapters.ErrOverflow)},
		"a model that wants a rest": {func(d *double, _ string) {
			d.system("status", failedWith("API Error: Request rejected (429) · This request would exceed your rate limit."))
		}, isClass(adapters.ClassRateLimited)},
		"a model that is not there": {func(d *double, _ string) {
			d.system("status", failedWith("API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)"))
		}, isClass(adapters.ClassUnreachable)},
		"a model that is down": {func(d *double, _ string) {
			d.system("status", failedWith("Error during compaction: API Error: 529 overloaded"))
		}, isClass(adapters.ClassOverloaded)},
	} {
		t.Run(name, func(t *testing.T) {
			sc := stage(t, Options{}, func(d *double, _ map[string]any, id, _ string) {
				d.lifecycle(id, "started")
				d.system("status", map[string]any{"status": "compacting"})
				tt.act(d, id)
				d.result([]string{id}, nil)
				d.lifecycle(id, "completed")
			})
			if _, err := sc.h.Compact(t.Context(), sc.s, "c1"); !tt.want(err) {
				t.Errorf("%v", err)
			}
		})
	}
}

func failedWith(text string) map[string]any {
	return map[string]any{"status": nil, "compact_result": "failed", "compact_error": text}
}

func says(text string) func(d *double, id string) {
	return func(d *double, _ string) {
		d.say(map[string]any{"type": "assistant", "message": map[string]any{"id": "m", "model": synthetic, "content": []any{map[string]any{"type": "text", "text": text}}}})
	}
}

func isNil(err error) bool { return err == nil }

func isA(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func isRefused(err error) bool {
	_, ok := errors.AsType[*adapters.RefusedError](err)
	return ok
}

func isUnclaimed(err error) bool { return err != nil && !isRefused(err) }

func isClass(c adapters.Class) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*adapters.Error](err)
		return ok && e.Class == c
	}
}

// A command that is done without any result is looked for in the transcript, and
// nothing is claimed that is not there.
func TestACommandWithoutAResult(t *testing.T) {
	sc := stage(t, Options{}, func(d *double, _ map[string]any, id, _ string) { d.lifecycle(id, "completed") })
	if _, err := sc.h.Compact(t.Context(), sc.s, "c1"); !errors.Is(err, adapters.ErrUncertain) {
		t.Errorf("without a transcript: %v", err)
	}
	sc.transcribe(`{"type":"user"}`, `{"type":"system","subtype":"compact_boundary","timestamp":"2020-01-01T00:00:00Z","compactMetadata":{"trigger":"manual"}}`, `half a li`)
	if _, err := sc.h.Compact(t.Context(), sc.s, "c2"); !errors.Is(err, adapters.ErrNotCompacted) {
		t.Errorf("with an old boundary: %v", err)
	}
	sc.transcribe(fmt.Sprintf(`{"type":"system","subtype":"compact_boundary","timestamp":%q,"compactMetadata":{"trigger":"manual"}}`, time.Now().Add(time.Minute).Format(time.RFC3339)),
		`{"type":"user","isCompactSummary":true,"message":{"role":"user","content":"the summary"}}`)
	res, err := sc.h.Compact(t.Context(), sc.s, "c3")
	if err != nil || len(res.Warnings) != 1 || !strings.Contains(string(res.Disclosed), "the summary") {
		t.Errorf("with a boundary: %+v, %v", res, err)
	}
}

// A compaction that does not end is interrupted, then its process is killed; the next
// turn has a new one.
func TestACompactionThatHangs(t *testing.T) {
	sc := stage(t, Options{CompactTimeout: 20 * time.Millisecond, StopTimeout: 20 * time.Millisecond}, func(d *double, _ map[string]any, id, text string) {
		if !strings.HasPrefix(text, "/compact") {
			d.answered(id, "here")
		}
	})
	sc.transcribe(`{"type":"user"}`)
	if _, err := sc.h.Compact(t.Context(), sc.s, "c1"); fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "did not finish its compaction within 20ms") {
		t.Errorf("%v", err)
	}
	if _, err := sc.h.Play(t.Context(), sc.s, "hello"); err != nil {
		t.Error(err)
	}
	if n := sc.dials.Load(); n != 2 {
		t.Errorf("%d processes", n)
	}
}

// Versions that tell no lifecycle of messages work as well.
func TestAVersionWithoutLifecycles(t *testing.T) {
	sc := stage(t, Options{}, func(d *double, _ map[string]any, id, _ string) { d.result([]string{id}, nil) })
	sc.h.Notes = "a note"
	if _, err := sc.h.Play(t.Context(), sc.s, "hello"); err != nil {
		t.Error(err)
	}
}

func TestANoteThatIsNotTakenDoesNotHang(t *testing.T) {
	sc := stage(t, Options{OpenTimeout: 50 * time.Millisecond}, func(*double, map[string]any, string, string) {})
	sc.h.Notes = "a note"
	if _, err := sc.h.Play(t.Context(), sc.s, "hello"); !strings.Contains(fmt.Sprint(err), "did not take a text of the server within 50ms") {
		t.Errorf("%v", err)
	}
}

// hooked asks a hook, and returns the answer.
func (d *double) hooked(event map[string]any) map[string]any {
	return d.ask(map[string]any{"subtype": "hook_callback", "callback_id": "x", "input": event}, nil)
}

// A compaction that Claude Code makes by itself asks the user's hooks, is told as its
// own, and its model is told how things stand. Those of sub-agents are none of ours.
func TestItsOwnCompactionIsRecognised(t *testing.T) {
	asked := 0
	var answers []map[string]any
	sc := stage(t, Options{}, func(d *double, _ map[string]any, id, _ string) {
		answers = append(answers,
			d.hooked(map[string]any{"hook_event_name": "PreCompact", "trigger": "auto", "agent_id": "a1"}),
			d.hooked(map[string]any{"hook_event_name": "PreCompact", "trigger": "auto"}))
		d.system("status", map[string]any{"status": "compacting"})
		answers = append(answers, d.hooked(map[string]any{"hook_event_name": "SessionStart", "source": "compact"}))
		d.system("status", map[string]any{"status": nil, "compact_result": "success"})
		d.system("compact_boundary", map[string]any{"compact_metadata": map[string]any{"trigger": "auto", "pre_tokens": 900}})
		d.answered(id, "ok")
	})
	sc.h.OnMayCompact = func(context.Context) (string, error) { asked++; return "keep names", nil }
	sc.h.OnReanchor = func(context.Context) (string, error) { return "how things stand", nil }
	if _, err := sc.h.Play(t.Context(), sc.s, "hello"); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(asked, answers); !strings.Contains(got, "1 [map[] map[systemMessage:keep names]") || !strings.Contains(got, "how things stand") {
		t.Error(got)
	}
	var ended []adapters.CompactionEnded
	for _, u := range slices.Concat(sc.h.Commits()...) {
		if e, ok := u.(adapters.CompactionEnded); ok {
			ended = append(ended, e)
		}
	}
	if len(ended) != 1 || ended[0].Err != nil || ended[0].Result.Before != 900 || !ended[0].Result.Reanchored {
		t.Errorf("%+v", ended)
	}
}

func TestItsOwnCompactionIsDenied(t *testing.T) {
	var answer map[string]any
	sc := stage(t, Options{}, func(d *double, _ map[string]any, id, _ string) {
		answer = d.hooked(map[string]any{"hook_event_name": "PreCompact", "trigger": "auto"})
		d.answered(id, "ok")
	})
	sc.h.OnMayCompact = func(context.Context) (string, error) { return "", errors.New("the hook cannot be started") }
	if _, err := sc.h.Play(t.Context(), sc.s, "hello"); err != nil {
		t.Fatal(err)
	}
	if answer["decision"] != "block" || answer["reason"] == "" {
		t.Errorf("%v", answer)
	}
}

// Permissions are asked for in every turn of a process, and for what runs beside it.
func TestLaterTurnsAndSubAgentsCanAsk(t *testing.T) {
	var answers []any
	sc := stage(t, Options{}, func(d *double, _ map[string]any, id, _ string) {
		ask := func(use, agent string) {
			q := map[string]any{"subtype": "can_use_tool", "tool_name": "Bash", "input": map[string]any{"command": "make"}, "tool_use_id": use}
			if agent != "" {
				q["agent_id"] = agent
			}
			answers = append(answers, d.ask(q, nil)["behavior"])
		}
		ask(d.unique(""), "")
		ask(d.unique(""), "agent-1")
		answers = append(answers, d.ask(map[string]any{"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": map[string]any{}, "tool_use_id": d.unique("")}, nil)["behavior"])
		d.answered(id, "ok")
	})
	sc.h.OnAsk = func(context.Context, adapters.Question) (adapters.Answer, error) {
		return adapters.Answer{Decision: adapters.Accept}, nil
	}
	for _, text := range []string{"one", "two", "three"} {
		if _, err := sc.h.Play(t.Context(), sc.s, text); err != nil {
			t.Fatal(err)
		}
	}
	want := slices.Repeat([]any{"allow", "allow", "deny"}, 3)
	if diff := cmp.Diff(want, answers); diff != "" || sc.dials.Load() != 1 {
		t.Errorf("%s in %d processes", diff, sc.dials.Load())
	}
}

// A Claude Code that takes its input for closed is not let go on.
func TestAClosedStreamEndsTheTurn(t *testing.T) {
	sc := stage(t, Options{StopTimeout: 20 * time.Millisecond}, func(d *double, _ map[string]any, _, _ string) {
		m := &spoken{d: d, id: "msg_1"}
		for range maxUnheard {
			use := d.unique("")
			d.use(m, use, "Bash", []byte(`{"command":"make"}`))
			d.returns(use, "Tool permission request failed: Error: Stream closed", true)
		}
	})
	if _, err := sc.h.Play(t.Context(), sc.s, "go"); !strings.Contains(fmt.Sprint(err), "cannot ask for permissions any more") {
		t.Errorf("%v", err)
	}
}

// The occupancy is that of the newest request, however many a turn had.
func TestTheOccupancyIsThatOfTheNewestRequest(t *testing.T) {
	sc := stage(t, Options{}, func(d *double, _ map[string]any, id, _ string) {
		for n, input := range []int{100, 250} {
			m := &spoken{d: d, id: fmt.Sprintf("msg_%d", n)}
			m.event(`{"type":"message_start","message":{"id":%q,"model":"claude-x","content":[]}}`, m.id)
			m.event(`{"type":"message_delta","delta":{},"usage":{"input_tokens":%d,"cache_read_input_tokens":40,"cache_creation_input_tokens":10,"output_tokens":5}}`, input)
		}
		d.raw(`{"type":"stream_event","parent_tool_use_id":"toolu_x","event":{"type":"message_delta","usage":{"input_tokens":9999,"output_tokens":1}}}`)
		d.answered(id, "ok")
	})
	if _, err := sc.h.Play(t.Context(), sc.s, "go"); err != nil {
		t.Fatal(err)
	}
	want := adapters.Usage{InputTokens: 300, CachedInputTokens: 40, CacheWriteInputTokens: 10, OutputTokens: 5}
	usages := sc.h.Usages()
	if len(usages) != 2 || usages[1] != want {
		t.Errorf("%+v", usages)
	}
}

func TestFailuresOfATurnHaveTheirClass(t *testing.T) {
	for name, tt := range map[string]struct {
		word string
		more map[string]any
		want func(error) bool
	}{
		"too long":      {"invalid_request", map[string]any{"terminal_reason": "prompt_too_long", "api_error_status": 400}, isA(adapters.ErrOverflow)},
		"blocked":       {"", map[string]any{"terminal_reason": "blocking_limit"}, isA(adapters.ErrOverflow)},
		"thrashing":     {"", map[string]any{"terminal_reason": "rapid_refill_breaker"}, isA(adapters.ErrOverflow)},
		"not logged in": {"authentication_failed", map[string]any{"terminal_reason": "api_error"}, isClass(adapters.ClassDenied)},
		"down":          {"server_error", map[string]any{"terminal_reason": "api_error"}, isClass(adapters.ClassUnreachable)},
		"overloaded":    {"overloaded", map[string]any{"terminal_reason": "api_error", "api_error_status": 529}, isClass(adapters.ClassOverloaded)},
		"rate":          {"rate_limit", map[string]any{"terminal_reason": "api_error", "api_error_status": 429}, isClass(adapters.ClassRateLimited)},
		"cut off":       {"", map[string]any{"terminal_reason": "aborted_streaming"}, isA(context.Canceled)},
	} {
		t.Run(name, func(t *testing.T) {
			sc := stage(t, Options{}, func(d *double, _ map[string]any, id, _ string) {
				if tt.word != "" {
					d.say(map[string]any{"type": "assistant", "error": tt.word, "message": map[string]any{"id": "m", "model": synthetic, "content": "it failed"}})
				}
				tt.more["is_error"], tt.more["result"] = true, "it failed"
				d.result([]string{id}, tt.more)
				d.lifecycle(id, "cancelled")
			})
			if _, err := sc.h.Play(t.Context(), sc.s, "go"); !tt.want(err) {
				t.Errorf("%v", err)
			}
			if n := len(sc.h.Items()); n != 1 {
				t.Errorf("%d items: the error became one", n)
			}
		})
	}
}

// A session that dies in a turn fails that turn, not the next one, and keeps what was
// said.
func TestDeathInATurnFailsThatTurn(t *testing.T) {
	sc := stage(t, Options{}, func(d *double, _ map[string]any, id, text string) {
		if text == "die" {
			m := &spoken{d: d, id: "msg_1"}
			m.event(`{"type":"message_start","message":{"id":%q,"model":"claude-x","content":[]}}`, m.id)
			m.text("text", "half")
			d.conn.Kill()
			return
		}
		d.answered(id, "whole")
	})
	if _, err := sc.h.Play(t.Context(), sc.s, "die"); fault.CodeOf(err) != fault.Unavailable || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := sc.h.Play(t.Context(), sc.s, "on"); err != nil {
		t.Error(err)
	}
	var got []string
	for _, it := range sc.h.Items() {
		got = append(got, transcript.Text(it.Body))
	}
	if !slices.Contains(got, "whole") {
		t.Errorf("%q", got)
	}
}
