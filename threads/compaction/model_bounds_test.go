package compaction

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

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
	t.Parallel()
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

// talk is a session of messages alone, those of the user of a size.
func talk(first, turns, size int) []transcript.Entry {
	var bodies []transcript.Body
	for i := first; i < first+turns; i++ {
		bodies = append(bodies, user(fmt.Sprintf("Now the limit of part %d is to be looked at. ", i)+filler(i, size)), transcript.AgentMessage{Text: fmt.Sprintf("The limit of part %d is checked, and it holds. ", i) + filler(i, 900)})
	}
	return renamed(inOrderOf(bodies...), fmt.Sprint("talk", first))
}

// withoutUsers leaves the work of a session.
func withoutUsers(entries []transcript.Entry) []transcript.Entry {
	return slices.DeleteFunc(entries, func(e transcript.Entry) bool { return e.Item.Body.Kind() == transcript.KindUserMessage })
}

// Notes that fill their room to the last character take nothing from the messages of
// the user that are owed verbatim, whatever their number and size (I9), nor do they
// where the next generation has no model. Check proves it.
func TestFullNotesLeaveTheWordsOfTheUser(t *testing.T) {
	t.Parallel()
	brim := func(p Prompt) (Answer, error) {
		a, err := full(p)
		room := utf8.RuneCountInString(a.Text) * 100 / askedFor // full leaves a little
		text := strings.Builder{}
		text.WriteString(a.Text)
		for i, n := 0, utf8.RuneCountInString(a.Text); n < room; i++ {
			line := fmt.Sprintf("- one more: %d\n", i)
			text.WriteString(line)
			n += utf8.RuneCountInString(line)
		}
		a.Text = text.String()
		return a, err
	}
	quoted := 0
	for _, size := range []int{20, 60, 120, 240, 480, 960} {
		for _, budget := range []int{2_000, 3_000, 5_000, 9_000, 16_000, 0} {
			entries := append(talk(0, 24*480/max(size, 240), size), renamed(withoutUsers(history(150, 400)), "work")...)
			p := &pen{replies: []reply{brim}}
			job := modelJob(p)
			job.Input = Input{Entries: entries, Window: 64_000, Budget: budget}
			v := mustRun(t, job, p)
			if v.Outcome != Completed || v.Writer != WriterModel {
				t.Errorf("messages of %d, budget %d: %s by %s, skipped %v", size, budget, v.Outcome, v.Writer, v.Skipped)
				continue
			}
			quoted += strings.Count(v.Composed.Checkpoint.Text, "\n- Now the limit of part")
			next := append(nextContext(entries, v.Composed, "cp"), append(talk(160, 12, size), renamed(withoutUsers(historyFrom(200, 150, 400)), "more")...)...)
			c := mustCompose(t, Input{Entries: next, Window: 64_000, Budget: budget})
			if !strings.Contains(c.Checkpoint.Text, earlierNotes) && budget >= 5_000 {
				t.Errorf("messages of %d, budget %d: the notes are gone", size, budget)
			}
		}
	}
	if quoted < 100 {
		t.Errorf("only %d messages were quoted: the test shows nothing", quoted)
	}
}
