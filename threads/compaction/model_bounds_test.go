package compaction

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A writer that fails in a new way each time has no more tries than one that fails
// in the same way.
func TestAllFailuresTogetherCostTwoRequests(t *testing.T) {
	for _, order := range [][]reply{
		{fails(rateLimited), fails(badRequest), writes(skeleton), fails(overflow), stops(good, "length"), writes("")},
		{stops(good, "length"), writes(skeleton), fails(badRequest), fails(badRequest), fails(overflow), fails(serverError)},
		{fails(overflow), fails(serverError), stops(good, "tools"), fails(badRequest), fails(badRequest)},
	} {
		p := &pen{replies: order}
		v := mustRun(t, modelJob(p), p)
		if v.Writer != WriterExtractive || len(p.prompts) != 1+spareRequests || len(v.Warnings) != spareRequests {
			t.Errorf("by %s after %d requests, skipped %v, warnings %q", v.Writer, len(p.prompts), v.Skipped, v.Warnings)
		}
	}
}

// full writes notes that fill the room they have.
func full(p Prompt) (Answer, error) {
	var room int
	_, s, _ := strings.Cut(p.Text, "At most ")
	if _, err := fmt.Sscanf(s, "%d characters", &room); err != nil {
		return Answer{}, err
	}
	var b strings.Builder
	b.WriteString("## Facts\n")
	history := dataOf(p.Text, "--- history")
	for i := 0; b.Len() < room-300; i++ {
		fmt.Fprintf(&b, "- the fact %d of this part, for %d lines of it: %s\n", i, len(history), oneLine(history[i*7%len(history)], 160))
	}
	return Answer{Text: b.String(), Complete: true, Stop: "end"}, nil
}

// Notes that fill their room leave less of the next part's.
func TestNotesSoFarCountForTheWindow(t *testing.T) {
	for _, window := range []int{12_000, 20_000} {
		p := &pen{replies: []reply{full}}
		job := modelJob(p)
		job.Models[0].Window = window
		job.Input = Input{Entries: history(150, 1_200), Window: 64_000}
		v := mustRun(t, job, p)
		if v.Writer != WriterModel || len(p.prompts) < 3 {
			t.Fatalf("by %s after %d requests, skipped %v, warnings %v", v.Writer, len(p.prompts), v.Skipped, v.Warnings)
		}
		for i, prompt := range p.prompts {
			if n := sizeOf(prompt); n > window*windowShare/100 {
				t.Errorf("window %d, request %d has %d tokens", window, i, n)
			}
		}
	}
}

// What was wrong with the answer to one part is no matter of the next.
func TestARemarkIsForOnePart(t *testing.T) {
	p := &pen{}
	p.replies = []reply{func(prompt Prompt) (Answer, error) {
		if len(p.prompts) == 1 {
			return writes(skeleton)(prompt)
		}
		return honest(prompt)
	}}
	job := modelJob(p)
	job.Input, job.Models[0].Window = Input{Entries: history(150, 1_200), Window: 64_000}, 20_000
	if v := mustRun(t, job, p); v.Writer != WriterModel || len(p.prompts) < 3 {
		t.Fatalf("by %s after %d requests, skipped %v", v.Writer, len(p.prompts), v.Skipped)
	}
	for i, prompt := range p.prompts {
		if told := strings.Contains(prompt.Text, "hardly any facts"); told != (i == 1) {
			t.Errorf("request %d is told that notes had hardly any facts: %v", i, told)
		}
	}
}

// Notes that fill their room take nothing from the messages of the user that are owed
// verbatim, whatever their number and size (I9). Check proves it in mustRun.
func TestFullNotesLeaveTheWordsOfTheUser(t *testing.T) {
	for _, size := range []int{60, 200, 500, 1_100} {
		for _, budget := range []int{3_000, 5_000, 9_000, 16_000, 0} {
			entries := history(40, 1_500)
			for i := range entries {
				if b, ok := entries[i].Item.Body.(transcript.UserMessage); ok {
					entries[i].Item.Body = user(transcript.PartsText(b.Content) + " and also " + filler(i, size))
				}
			}
			p := &pen{replies: []reply{full}}
			job := modelJob(p)
			job.Input = Input{Entries: entries, Window: 64_000, Budget: budget}
			v := mustRun(t, job, p)
			if v.Outcome == Unchanged { // what must survive does not fit
				continue
			}
			if v.Writer != WriterModel {
				t.Errorf("messages of %d, budget %d: by %s, skipped %v", size, budget, v.Writer, v.Skipped)
			}
		}
	}
}
