package compaction

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A pen plays a model that writes: it gives the replies in order, the last one again
// and again, and records what it was asked.
type pen struct {
	replies []reply
	prompts []Prompt
	waits   []time.Duration
	counted int // answers with a usage
}

type reply func(Prompt) (Answer, error)

func (p *pen) ask(ctx context.Context, prompt Prompt) (Answer, error) {
	p.prompts = append(p.prompts, prompt)
	a, err := p.replies[min(len(p.prompts), len(p.replies))-1](prompt)
	p.counted++
	a.Usage = Usage{InputTokens: 1_000, OutputTokens: 100, DurationMs: 10}
	return a, err
}

func (p *pen) wait(ctx context.Context, d time.Duration) error {
	p.waits = append(p.waits, d)
	return ctx.Err()
}

// writes answers with a text.
func writes(text string) reply {
	return func(Prompt) (Answer, error) { return Answer{Text: text, Complete: true, Stop: "end"}, nil }
}

// stops answers with a text that is not all of it.
func stops(text, why string) reply {
	return func(Prompt) (Answer, error) { return Answer{Text: text, Stop: why}, nil }
}

func fails(e AskError) reply {
	return func(Prompt) (Answer, error) { return Answer{}, &e }
}

// honest writes notes as a good model does: facts of the history, those that were
// asked for among them, and of the notes so far a part.
func honest(p Prompt) (Answer, error) {
	return Answer{Text: honestNotes(p), Complete: true, Stop: "end"}, nil
}

func honestNotes(p Prompt) string {
	var b strings.Builder
	var room int
	_, s, _ := strings.Cut(p.Text, "At most ")
	if _, err := fmt.Sscanf(s, "%d characters", &room); err != nil {
		panic(err)
	}
	add := func(title string, lines []string, every, max int) {
		b.WriteString("## " + title + "\n")
		for i := 0; i < len(lines) && max > 0; i += every {
			line := "- the history has: " + oneLine(bareLine(lines[i]), 160) + "\n"
			if max -= len(line); max > 0 {
				b.WriteString(line)
			}
		}
	}
	add("Goal", dataOf(p.Text, "--- notes so far"), 2, room/10)
	for _, line := range dataOf(p.Text, "--- notes (data") { // a repair keeps what there is
		b.WriteString(line + "\n")
	}
	history := dataOf(p.Text, "--- history")
	add("In progress", history, max(len(history)/12, 1), room/4)
	add("Facts", append(dataOf(p.Text, "--- facts"), dataOf(p.Text, "--- missing")...), 1, room/2)
	return b.String()
}

// dataOf returns the lines of data of a part of a prompt.
func dataOf(text, part string) []string {
	var out []string
	in := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "--- "):
			in = strings.HasPrefix(line, part)
		case in && strings.HasPrefix(line, "  ") && (len(strings.TrimSpace(line)) > 12 || strings.HasPrefix(line, "  #")):
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// history is a session with turns of a request, calls and an answer.
func history(turns, size int) []transcript.Entry { return historyFrom(0, turns, size) }

func historyFrom(first, turns, size int) []transcript.Entry {
	var bodies []transcript.Body
	for i := first; i < first+turns; i++ {
		id := fmt.Sprintf("call-%d", i)
		bodies = append(bodies,
			user(fmt.Sprintf("Please change the limit in file%d.go, and do not touch the api of it", i)),
			call("r"+id, "Read", fmt.Sprintf(`{"file_path":"/w/app/pkg%d/file%d.go"}`, i%5, i)),
			result("r"+id, "package pkg\n\nfunc parseLimit"+fmt.Sprint(i)+"() {}\n"+filler(i, size), false),
			call("e"+id, "Edit", fmt.Sprintf(`{"file_path":"/w/app/pkg%d/file%d.go","old_string":"limit = 1","new_string":"limit = %d"}`, i%5, i, i)),
			result("e"+id, "edited", false),
			call("b"+id, "Bash", fmt.Sprintf(`{"command":"go test ./pkg%d/..."}`, i%5)),
			result("b"+id, fmt.Sprintf("ok  app/pkg%d 0.01s", i%5), false),
			transcript.AgentMessage{Text: fmt.Sprintf("The limit of parseLimit%d is now %d, and the tests pass.", i, i)},
		)
	}
	return inOrderOf(bodies...)
}

// modelInput is a history of which most must be summarised.
func modelInput() Input { return Input{Entries: history(60, 1_500), Budget: 5_000, Window: 64_000} }

func modelJob(p *pen) Job {
	return Job{Route: RouteLocal, Input: modelInput(), Wait: p.wait, Models: []ModelWriter{{Name: "test/pen", Window: 128_000, MaxOutput: 16_000, Ask: p.ask}}}
}

// mustRun runs a job and checks everything that holds whatever a writer answers.
func mustRun(t testing.TB, job Job, pens ...*pen) Verdict {
	t.Helper()
	v := Run(context.Background(), job)
	checkVerdict(t, job, v)
	requests, counted := 0, 0
	for _, p := range pens {
		requests += len(p.prompts)
		counted += p.counted
		seen := map[Prompt]bool{}
		for _, prompt := range p.prompts {
			if seen[prompt] {
				t.Error("the same payload was sent twice")
			}
			seen[prompt] = true
		}
	}
	if v.Usage == nil && requests > 0 || v.Usage != nil && (v.Usage.Requests != requests || v.Usage.InputTokens != 1_000*counted || v.Usage.DurationMs != int64(10*counted)) {
		t.Errorf("usage %+v for %d requests", v.Usage, requests)
	}
	return v
}

// tester is what tests and properties have in common.
type tester interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
}

func checkVerdict(t tester, job Job, v Verdict) {
	t.Helper()
	switch v.Outcome {
	case Completed:
		in := job.Input
		in.Writer, in.Recover = v.Composed.Writer, job.Trigger.Recovers()
		if v.Composed.Prune != nil && job.Auto != nil {
			in.PruneTo = job.Auto.Rearm
		}
		if err := Check(in, v.Composed); err != nil {
			t.Error(err)
		}
		if err := wireValid(in, v.Composed); err != nil {
			t.Error(err)
		}
		for _, bad := range []string{transcript.WriterMark, "[user]", "=== turn"} {
			if strings.Contains(v.Composed.Checkpoint.Text, bad) && !strings.Contains(textOf(in.Entries), bad) {
				t.Errorf("the checkpoint holds %q", bad)
			}
		}
	case Unchanged, Interrupted, Failed, Denied, Refused:
	default:
		t.Errorf("outcome %q", v.Outcome)
	}
}

func TestTheModelWritesTheCheckpoint(t *testing.T) {
	p := &pen{replies: []reply{honest}}
	v := mustRun(t, modelJob(p), p)
	if v.Outcome != Completed || v.Writer != WriterModel || v.Composed.Checkpoint.Version != VersionModel || len(v.Skipped) > 0 || len(v.Warnings) > 0 {
		t.Fatalf("%s by %s, skipped %v, warnings %v", v.Outcome, v.Writer, v.Skipped, v.Warnings)
	}
	if len(p.prompts) != 1 {
		t.Errorf("%d requests", len(p.prompts))
	}
	text := v.Composed.Checkpoint.Text
	for _, want := range []string{"### In progress", "## Rules and decisions of the user", "## Files changed", "Tools called: Read ×", "stands for "} {
		if !strings.Contains(text, want) {
			t.Errorf("the checkpoint has no %q:\n%s", want, text)
		}
	}
	if f := v.Composed.Fidelity; f.Total == 0 || f.Kept != f.Total {
		t.Errorf("fidelity %+v", f)
	}
}

var (
	overflow    = AskError{Code: "contextWindowExceeded", Message: "prompt is too long", Overflow: true}
	rateLimited = AskError{Code: "usageLimitExceeded", Message: "slow down", Temporary: true, RetryAfter: 7 * time.Second}
	serverError = AskError{Code: "internalServerError", Message: "it broke", Temporary: true}
	cutOff      = AskError{Code: "responseStreamDisconnected", Message: "unexpected EOF", Temporary: true}
	badRequest  = AskError{Code: "badRequest", Message: "unknown variant `auto`"}
	timedOut    = AskError{Code: "timeout", Message: "no answer within 120 s"}
	denied      = AskError{Code: "unauthorized", Message: "the key is wrong"}
)

const skeleton = "## Goal\n- None\n## Constraints\nNo prior history.\n## Decisions\n- N/A\n## Done\n- (none)\n## In progress\n- (none)\n## Next\n- TBD\n"

// Every way in which a writer can fail leaves a checkpoint by the next link, after a
// bounded number of requests of which none is like another.
func TestWritersThatFail(t *testing.T) {
	t.Parallel()
	english := "- the user wants that the limit of the file is changed and that the api is not touched, and the tests have to pass: /w/app/pkg1/file1.go\n"
	for name, c := range map[string]struct {
		bad      reply
		requests int // if the writer goes on like that
		code     string
		recovers bool // if the second answer is good
	}{
		"rate limited":         {fails(rateLimited), 2, "usageLimitExceeded", true},
		"server error":         {fails(serverError), 2, "internalServerError", true},
		"cut off":              {fails(cutOff), 2, "responseStreamDisconnected", true},
		"too long to wait":     {fails(AskError{Code: "usageLimitExceeded", Temporary: true, RetryAfter: time.Minute}), 1, "usageLimitExceeded", false},
		"overflow":             {fails(overflow), 2, "contextWindowExceeded", true},
		"bad request":          {fails(badRequest), 3, "badRequest", true},
		"payload too large":    {fails(AskError{Code: "payloadTooLarge"}), 3, "payloadTooLarge", true},
		"timeout":              {fails(timedOut), 1, "timeout", false},
		"no key":               {fails(denied), 1, "unauthorized", false},
		"no AskError":          {func(Prompt) (Answer, error) { return Answer{}, errors.New("boom") }, 1, codeWriterFailed, false},
		"panic":                {func(Prompt) (Answer, error) { panic("boom") }, 1, codePanic, false},
		"empty":                {writes(""), 2, codeEmpty, true},
		"blank":                {writes(" \n\t\u200b \n"), 2, codeEmpty, true},
		"cut by length":        {stops(english+"- and the", "length"), 2, codeTruncated, true},
		"unclosed tag":         {writes("<summary>\n" + strings.Repeat(english, 6)), 2, codeTruncated, true},
		"unclosed code":        {writes(strings.Repeat(english, 6) + "```go\nfunc"), 2, codeTruncated, true},
		"only thought":         {writes("<think>\n" + strings.Repeat(english, 6)), 2, codeTruncated, true},
		"skeleton":             {writes(skeleton), 2, codeSkeleton, true},
		"too short":            {writes("## Goal\n- change the limit in file1.go\n"), 2, codeSkeleton, true},
		"about something else": {writes("## Goal\n" + strings.Repeat("- Bananas, apples, pears or oranges: delicious, healthy, colourful, juicy.\n", 12)), 2, codeUnrelated, true},
		"refusal":              {writes("I'm sorry, but I can't help with summarising this conversation. " + strings.Repeat("It would be against my rules. ", 20)), 1, codeRefusal, false},
		"filtered":             {stops("", "filter"), 1, codeRefusal, false},
		"tool call":            {stops("", "tools"), 2, codeToolCall, true},
		"another language":     {writes(strings.Repeat(notesIn["zh"], 4)), 2, codeLanguage, true},
		"its prompt":           {func(p Prompt) (Answer, error) { return Answer{Text: p.System, Complete: true}, nil }, 2, codeEcho, true},
		"its prompt, unmarked": {func(p Prompt) (Answer, error) {
			return Answer{Text: strings.ReplaceAll(p.System, transcript.WriterMark, ""), Complete: true}, nil
		}, 2, codeEcho, true},
		"the history": {func(p Prompt) (Answer, error) {
			_, h, _ := strings.Cut(p.Text, "--- history")
			return Answer{Text: headOf(h, 4_000), Complete: true}, nil
		}, 2, codeEcho, true},
		"over budget": {writes("## Done\n" + strings.Repeat(english, 400)), 2, codeOverBudget, true},
		"enormous":    {writes("## Done\n" + strings.Repeat(english, 40_000)), 2, codeOverBudget, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pen{replies: []reply{c.bad}}
			v := mustRun(t, modelJob(p), p)
			if v.Outcome != Completed || v.Writer != WriterExtractive || len(v.Skipped) != 1 || v.Skipped[0].Code != c.code || v.Skipped[0].Link != "checkpoint(model)" || !strings.HasPrefix(v.Skipped[0].Reason, "test/pen: ") {
				t.Errorf("%s by %s, skipped %+v", v.Outcome, v.Writer, v.Skipped)
			}
			if len(p.prompts) != c.requests || len(v.Warnings) != c.requests-1 {
				t.Errorf("%d requests, want %d; warnings %q", len(p.prompts), c.requests, v.Warnings)
			}
			p = &pen{replies: []reply{c.bad, honest}}
			v = mustRun(t, modelJob(p), p)
			if got := v.Writer == WriterModel; v.Outcome != Completed || got != c.recovers || len(p.prompts) > 4 {
				t.Errorf("then a good answer: %s by %s after %d requests, skipped %v, warnings %q", v.Outcome, v.Writer, len(p.prompts), v.Skipped, v.Warnings)
			}
		})
	}
}
