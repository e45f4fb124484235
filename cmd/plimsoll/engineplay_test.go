package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
)

// The tests of this file run the whole program as it is wired, configured by a file,
// on scripted model servers.

// filling is a model that fills its window of 8,192 tokens in four turns, and writes
// checkpoints as the exchanges that are added to it say.
const filling = `model filling-1 window=8192 output=1024
limit 8192
-- answer --
repeat
say <<END
Step ${n}: harbour listens on port 8443.

END
pad 6600
`

// writes gives the notes a writer is good for: the first ones, and those that replace
// them.
const writes = `-- first notes --
writer
unless "notes so far (data)"
repeat
say <<END
## Goal
- The user wants the release of the service harbour planned, step by step, with what is checked before each.
## Constraints
- harbour listens on port 8443.
## Next
- The plan has its steps; none of them was carried out so far, and the user was told so in the last answer.
END
-- new notes --
writer
when "notes so far (data)"
repeat
say <<END
## Goal
- A plan for releasing harbour was asked for by the user, who then asked about order, checks and the way back.
## Constraints
- Port 8443 is where harbour listens, as the assistant repeated in each of its answers to the user.
## Done
- Steps one to four were described at length. Nothing was done to any file, and no command was run.
END
`

const failsToWrite = `-- no notes --
writer
repeat
status 500
`

// A played is a server of this program on a home of its own, and one of its threads.
type played struct {
	t      *testing.T
	home   home
	cl     *client
	thread string
}

// play starts a server with a configuration.
func play(t *testing.T, toml string) *played {
	t.Helper()
	p := &played{t: t, home: home{filepath.Join(t.TempDir(), "home")}}
	mustDo(t, p.home.create())
	mustDo(t, os.WriteFile(p.home.path(configFile), []byte(toml), 0o600))
	m := &Main{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: os.Getenv}
	s, err := m.startServer(context.Background(), p.home, "127.0.0.1:0", slog.New(slog.DiscardHandler))
	mustDo(t, err)
	t.Cleanup(func() { mustDo(t, s.close()) })
	var ok bool
	if p.cl, ok = dialSocket(p.home); !ok {
		t.Fatal("the socket does not answer")
	}
	t.Cleanup(func() { mustDo(t, p.cl.close()) })
	var started api.ThreadStartResult
	p.call(http.MethodPost, "/v1/threads", map[string]string{"cwd": t.TempDir()}, &started)
	p.thread = started.Thread.ID
	return p
}

func (p *played) call(method, path string, in, out any) {
	p.t.Helper()
	mustDo(p.t, p.cl.call(p.t.Context(), method, path, in, out))
}

// say runs turns one after the other, and waits until the thread rests after each.
func (p *played) say(inputs ...string) {
	p.t.Helper()
	for _, input := range inputs {
		var turn map[string]any
		p.call(http.MethodPost, threadPath(p.thread, "/turns"), map[string]string{"input": input}, &turn)
		p.rest()
	}
}

// rest waits until nothing runs and nothing waits.
func (p *played) rest() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	for {
		var read api.ThreadReadResult
		p.call(http.MethodGet, threadPath(p.thread), nil, &read)
		if read.Thread.Status.Type != "active" && read.Thread.Plimsoll.Queued == 0 {
			return
		}
		select {
		case <-ctx.Done():
			p.t.Fatal("the thread does not come to rest")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// await returns what is in a file of the home, once it is there.
func (p *played) await(file string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	for {
		if b, err := os.ReadFile(p.home.path(file)); err == nil {
			return string(b)
		}
		select {
		case <-ctx.Done():
			p.t.Fatalf("there is no %s", file)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// records are those of all compactions, the oldest first.
func (p *played) records() []compaction.Record {
	p.t.Helper()
	var list api.CompactionListResult
	p.call(http.MethodGet, threadPath(p.thread, "/compactions"), nil, &list)
	var out []compaction.Record
	for _, r := range list.Data {
		out = append([]compaction.Record{r}, out...)
	}
	return out
}

// outcomes are trigger, outcome and writer of each compaction.
func (p *played) outcomes() []string {
	p.t.Helper()
	var out []string
	for _, r := range p.records() {
		text := fmt.Sprint(r.Trigger, " ", *r.Outcome)
		if r.Writer != nil {
			text += " " + string(*r.Writer)
		}
		out = append(out, text)
	}
	return out
}

func chatProvider(name string, s *upstream.Server) string {
	return fmt.Sprintf("[providers.%s]\nadapter = \"chat\"\nbase_url = \"%s/v1\"\nattempts = 1\n", name, s.URL)
}

// hookLine makes a hook of a line for the shell.
func hookLine(event, line string) string {
	b, err := json.Marshal([]string{"sh", "-c", line})
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("[[hooks.%s]]\ncommand = %s\n", event, b)
}

var fourTurns = []string{"Plan the release of harbour.", "What comes first?", "What is checked?", "What is the way back?"}

func TestWhatHooksSayReachesTheWriterOfAnAutomaticCompaction(t *testing.T) {
	t.Parallel()
	model := upstream.New(t, filling+writes)
	p := play(t, chatProvider("local", model)+
		hookLine("pre_compact", `cat > "$PLIMSOLL_HOME/asked"; echo "Never lose the word HERON."`)+
		hookLine("post_compact", `cd "$PLIMSOLL_HOME" && cat > new && mv new told`))
	p.say(fourTurns...)
	if diff := cmp.Diff([]string{"postTurn completed model"}, p.outcomes()); diff != "" {
		t.Fatal(diff)
	}
	wrote := 0
	for _, r := range model.Requests() {
		if r.Writer {
			wrote++
			if !strings.Contains(string(r.Body), "Never lose the word HERON.") {
				t.Errorf("the writer was not told what the hook says: %s", r.Body)
			}
		}
	}
	if wrote == 0 {
		t.Error("no writer was asked")
	}
	for file, want := range map[string][]string{
		"asked": {`"hook_event_name":"PreCompact"`, `"trigger":"auto"`, `"compaction_trigger":"postTurn"`, `"model":"filling-1"`},
		"told":  {`"hook_event_name":"PostCompact"`, `"outcome":"completed"`, `"writer":"model"`},
	} {
		b := p.await(file)
		for _, w := range want {
			if !strings.Contains(b, w) {
				t.Errorf("what the hook was %s lacks %s: %s", file, w, b)
			}
		}
	}
}

func TestWhatAHookSaysAfterwardsIsAddedToTheRecord(t *testing.T) {
	t.Parallel()
	p := play(t, chatProvider("local", upstream.New(t, filling+writes))+
		hookLine("post_compact", `echo '{"systemMessage": "indexed"}'`)+hookLine("post_compact", `echo no room >&2; exit 9`))
	p.say(fourTurns...)
	want := []string{"PostCompact hook 1 (sh) says: indexed", "PostCompact hook 2 (sh) exited with status 9: no room"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	for len(got) < len(want) {
		select {
		case <-ctx.Done():
			t.Fatalf("the record has the warnings %q", got)
		case <-time.After(10 * time.Millisecond):
		}
		got = slices.DeleteFunc(p.records()[0].Warnings, func(w string) bool { return !strings.HasPrefix(w, "PostCompact") })
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// P056: nobody has to guess why a thread knows less than before. The compaction is an
// item of its own, told before what waited for it begins.
func TestAnAutomaticCompactionIsToldBeforeTheThreadGoesOn(t *testing.T) {
	t.Parallel()
	p := play(t, chatProvider("local", upstream.New(t, filling+writes)))
	for _, input := range append(slices.Clone(fourTurns), "And then?") { // all but the first one wait
		var turn map[string]any
		p.call(http.MethodPost, threadPath(p.thread, "/turns"), map[string]string{"input": input}, &turn)
	}
	p.rest()
	var page api.EventsReadResult
	p.call(http.MethodGet, threadPath(p.thread, "/events?limit=1000"), nil, &page)
	var got []string
	for _, n := range page.Data {
		switch text := string(n.Params); {
		case n.Method == "turn/started":
			got = append(got, "turn")
		case n.Method == "item/completed" && strings.Contains(text, `"type":"userMessage"`):
			got = append(got, "input")
		case n.Method == "item/completed" && strings.Contains(text, `"type":"contextCompaction"`):
			got = append(got, "compacted")
		}
	}
	want := []string{"turn", "input", "turn", "input", "turn", "input", "turn", "input", "turn", "compacted", "turn", "input"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A denial shuts the gate: the hook is asked again when there is more to compact, not
// after every turn. The thread goes on meanwhile, and nothing of it is lost.
func TestADeniedCompactionIsNotAskedForAgainAtOnce(t *testing.T) {
	t.Parallel()
	model := upstream.New(t, strings.Replace(filling, "repeat\n", "repeat 4\n", 1)+"-- brief --\nrepeat\nsay Yes.\n"+writes)
	p := play(t, chatProvider("local", model)+hookLine("pre_compact", `echo asked >> "$PLIMSOLL_HOME/asked"; echo "not now" >&2; exit 2`))
	p.say(fourTurns...)
	p.say("Good?")
	if diff := cmp.Diff([]string{"postTurn denied"}, p.outcomes()); diff != "" {
		t.Fatal(diff)
	}
	if why := p.records()[0].Reason; why == nil || *why != "PreCompact hook 1 (sh) denied the compaction: not now" {
		t.Errorf("the reason is %v", why)
	}
	b, err := os.ReadFile(p.home.path("asked"))
	mustDo(t, err)
	if string(b) != "asked\n" {
		t.Errorf("the hook was asked:\n%s", b)
	}
	var read api.ContextReadResult
	p.call(http.MethodGet, threadPath(p.thread, "/context"), nil, &read)
	for _, e := range read.Entries {
		if e.Form != "whole" {
			t.Errorf("an item is %s although nothing was compacted", e.Form)
		}
	}
}

// P134: the configured writer, else the thread's own model, else nobody.
func TestWritersTakeOverFromEachOther(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		other, own string
		want       string
		asked      [2]bool  // the other one, the thread's own
		told       []string // by the record, of those who failed
	}{
		"the configured one":  {writes, failsToWrite, "postTurn completed model", [2]bool{true, false}, nil},
		"the thread's own":    {failsToWrite, writes, "postTurn completed model", [2]bool{true, true}, []string{"cheap/notes-1"}},
		"nobody that answers": {failsToWrite, failsToWrite, "postTurn completed extractive", [2]bool{true, true}, []string{"checkpoint(model)", "cheap/notes-1", "local/filling-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own, other := upstream.New(t, filling+tt.own), upstream.New(t, "model notes-1 window=32000 output=2048\n"+tt.other)
			p := play(t, chatProvider("local", own)+chatProvider("cheap", other)+"[compaction]\nwriter_provider = \"cheap\"\n")
			p.say(fourTurns...)
			if diff := cmp.Diff([]string{tt.want}, p.outcomes()); diff != "" {
				t.Fatal(diff)
			}
			wrote := func(s *upstream.Server) bool {
				for _, r := range s.Requests() {
					if r.Writer {
						return true
					}
				}
				return false
			}
			if got := [2]bool{wrote(other), wrote(own)}; got != tt.asked {
				t.Errorf("asked for notes: the configured model %v, the thread's own %v", got[0], got[1])
			}
			r := p.records()[0]
			told := strings.Join(r.Warnings, "\n")
			for _, skip := range r.Skipped {
				told += "\n" + skip.Link + ": " + skip.Reason
			}
			for _, w := range tt.told {
				if !strings.Contains(told, w) {
					t.Errorf("the record does not tell %q:\n%s", w, told)
				}
			}
			if tt.told == nil && strings.Contains(told, "500") {
				t.Errorf("the record tells of a failure that there was not:\n%s", told)
			}
		})
	}
}
