package compaction

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// namesInput is a history whose tail uses names that only the summarised part
// introduces.
func namesInput() Input {
	in := modelInput()
	in.Budget = 7_000
	var uses []string
	for i := range 7 {
		name := fmt.Sprintf("resolveBinding%c", 'A'+i)
		in.Entries[2].Item.Body = result("rcall-0", transcript.Text(in.Entries[2].Item.Body)+fmt.Sprintf("\nfunc %s(scope *Scope) error {", name), false)
		uses = append(uses, name)
	}
	in.Entries = renumber(append(in.Entries, inOrderOf(user("go on"), transcript.AgentMessage{Text: "Next come " + strings.Join(uses, ", ")})...))
	return in
}

// without answers as honest does, but for lines that hold a word.
func without(word string, tail string) reply {
	return func(p Prompt) (Answer, error) {
		var out []string
		for line := range strings.Lines(honestNotes(p)) {
			if !strings.Contains(line, word) {
				out = append(out, line)
			}
		}
		return Answer{Text: strings.Join(out, "") + tail, Complete: true}, nil
	}
}

// Facts that the notes miss are asked for once, and what is missing then is appended
// as it stands. The better text is kept.
func TestMissingFactsAreRepairedOnce(t *testing.T) {
	t.Parallel()
	forgetful := without("resolveBinding", "")
	short := writes("## Facts\n- resolveBindingA, resolveBindingB: functions of /w/app/pkg0/file0.go, said the assistant, and resolveBindingC, resolveBindingD, resolveBindingE, resolveBindingF, resolveBindingG, all of which take a scope and return an error\n")
	for name, c := range map[string]struct {
		replies  []reply
		requests int
		warning  string
		also     bool // facts are appended by us
	}{
		"nothing is missing":     {[]reply{honest}, 1, "", false},
		"the repair is good":     {[]reply{forgetful, honest}, 2, "", false},
		"the repair is no good":  {[]reply{forgetful, forgetful}, 2, "made them no better", true},
		"the repair fails":       {[]reply{forgetful, fails(badRequest)}, 2, "the repair failed: unknown variant", true},
		"the repair is rejected": {[]reply{forgetful, writes(skeleton)}, 2, "the repair failed: the notes say too little", true},
		"the repair loses much":  {[]reply{forgetful, short}, 2, "made them no better", true},
		"nothing is left":        {[]reply{fails(rateLimited), fails(badRequest), forgetful}, 3, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pen{replies: c.replies}
			job := modelJob(p)
			job.Input = namesInput()
			v := mustRun(t, job, p)
			if v.Outcome != Completed || v.Writer != WriterModel || len(p.prompts) != c.requests {
				t.Fatalf("%s by %s after %d requests, skipped %v", v.Outcome, v.Writer, len(p.prompts), v.Skipped)
			}
			if c.warning != "" && !slices.ContainsFunc(v.Warnings, func(w string) bool { return strings.Contains(w, c.warning) }) {
				t.Errorf("warnings %q", v.Warnings)
			}
			text := v.Composed.Checkpoint.Text
			if strings.Contains(text, "\n## Also\n") != c.also {
				t.Errorf("facts appended: %v\n%s", !c.also, text)
			}
			if !strings.Contains(text, "Please change the limit in file0.go") || !strings.Contains(text, "### In progress") {
				t.Errorf("the first text was lost:\n%s", text)
			}
			f := v.Composed.Fidelity
			if f.Kept+len(f.Missing) != f.Total || f.Total < 7 || f.Kept < f.Total {
				t.Errorf("fidelity %+v", f)
			}
		})
	}
	p := &pen{replies: []reply{forgetful, honest}}
	job := modelJob(p)
	job.Input = namesInput()
	mustRun(t, job, p)
	repair := p.prompts[1]
	if !strings.Contains(repair.Text, "func resolveBindingG(scope *Scope) error") || strings.Contains(repair.Text, "[result]") || sizeOf(repair) > 6_000 {
		t.Errorf("the repair is not a small request that names the facts: %d tokens", sizeOf(repair))
	}
	if !strings.Contains(p.prompts[0].Text, "func resolveBindingG(scope *Scope) error") {
		t.Error("the first request does not say what must not be missed")
	}
}
