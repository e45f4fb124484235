package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/importer"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// recordedSessions returns the session files of both programs, or skips the test
// loudly: they are not part of the repository.
func recordedSessions(t *testing.T) []string {
	t.Helper()
	dir := os.Getenv("PLIMSOLL_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("SKIPPED, no recorded session was compacted: %v (set PLIMSOLL_DATA)", err)
	}
	var files []string
	for pattern, want := range map[string]int{"claude-code/*.jsonl*": 30, "pi/*.jsonl*": 2} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) < want {
			t.Fatalf("%s has %d files of %s, want %d: %v", dir, len(found), pattern, want, err)
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	return files
}

// TestRecordedSessionsCompactByTheContract compacts every recorded session to
// three budgets, its current epoch and all of it, as the command does. With -short
// it takes every fourth file. What it checks, it reads from the output and from
// the session; it asks nothing of the package that made them.
func TestRecordedSessionsCompactByTheContract(t *testing.T) {
	t.Parallel()
	for i, path := range recordedSessions(t) {
		if testing.Short() && i%4 != 0 {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(path)
			mustDo(t, err)
			writers := []compaction.Writer{compaction.WriterExtractive}
			if i%8 == 0 {
				writers = append(writers, compaction.WriterFixed)
			}
			var all []fileOptions
			for _, w := range writers {
				for _, budget := range []int{8_000, 16_000, 24_000} {
					all = append(all, fileOptions{budget: budget, writer: w}, fileOptions{budget: budget, writer: w, whole: true})
				}
			}
			compactByTheContract(t, raw, all)
		})
	}
}

// compactByTheContract reads a file twice and compacts it in all ways, the second
// time in the other order: whatever was done before, the bytes are the same.
func compactByTheContract(t *testing.T, raw []byte, all []fileOptions) {
	t.Helper()
	first, second := readSession(t, raw), readSession(t, raw)
	outputs := map[fileOptions]string{}
	for _, opts := range all {
		done, err := compactSession(t.Context(), first, opts)
		if err != nil {
			t.Fatalf("%+v: %v", opts, err)
		}
		outputs[opts] = printed(t, done)
		for _, broken := range brokenRules(contextOf(t, first, opts.whole), done, opts) {
			t.Errorf("%+v: %s", opts, broken)
		}
	}
	for _, opts := range slices.Backward(all) {
		done, err := compactSession(t.Context(), second, opts)
		if err != nil {
			t.Fatalf("%+v: %v", opts, err)
		}
		if diff := cmp.Diff(outputs[opts], printed(t, done)); diff != "" {
			t.Errorf("%+v: two runs differ:\n%s", opts, diff)
		}
	}
}

func readSession(t *testing.T, raw []byte) *importer.Session {
	t.Helper()
	session, err := importer.Read(bytes.NewReader(raw), importer.Limits{})
	mustDo(t, err)
	return session
}

// printed is what the command prints as JSON: the context, then the record.
func printed(t *testing.T, done *fileCompaction) string {
	t.Helper()
	var out bytes.Buffer
	mustDo(t, printJSON(&out, fileContext(done)))
	mustDo(t, printJSON(&out, done.record))
	return out.String()
}

// contextOf is the context that a compaction of the session begins with.
func contextOf(t *testing.T, session *importer.Session, whole bool) []transcript.Entry {
	t.Helper()
	tr, err := threads.TranscriptOf(session)
	mustDo(t, err)
	if whole {
		tr.Boundaries = nil
	}
	entries, err := tr.Context(tr.Epoch())
	mustDo(t, err)
	return entries
}

// brokenRules says what is wrong with the compaction of a context.
func brokenRules(before []transcript.Entry, done *fileCompaction, opts fileOptions) []string {
	r := &done.record
	was, is := sizeOf(before), sizeOf(done.entries)+(len([]rune(done.reanchor))+3)/4
	for _, skip := range r.Skipped {
		if skip.Link != string(compaction.RouteNative) {
			return []string{fmt.Sprintf("link %s was skipped: %s: %s", skip.Link, skip.Code, skip.Reason)}
		}
	}
	switch {
	case *r.Outcome == compaction.Unchanged && deref(r.Code) == compaction.CodeNothingToCompact:
		if was > opts.budget || cmp.Diff(shown(before), shown(done.entries)) != "" {
			return []string{fmt.Sprintf("unchanged, but there are %d tokens, or the context is another", was)}
		}
		return nil
	case *r.Outcome != compaction.Completed:
		return []string{fmt.Sprintf("outcome %s{%s}: %s", *r.Outcome, deref(r.Code), deref(r.Reason))}
	}
	var broken []string
	rule := func(holds bool, format string, args ...any) {
		if !holds {
			broken = append(broken, fmt.Sprintf(format, args...))
		}
	}
	rule(was > opts.budget, "completed although %d tokens fit", was)
	rule(is <= opts.budget && is < was, "%d tokens became %d", was, is)
	rule(r.Before.Tokens == was && r.After.Tokens == is && done.tokens == is,
		"the record says %d → %d and the context %d tokens, counted %d → %d", r.Before.Tokens, r.After.Tokens, done.tokens, was, is)
	rule(*r.Writer == opts.writer, "writer %s", *r.Writer)
	broken = append(broken, brokenSides(before, done.entries, r)...)
	broken = append(broken, brokenPairs(before, done.entries)...)
	return append(broken, brokenRequest(before, done.entries)...)
}

// sizeOf measures by the ruler that the design names.
func sizeOf(entries []transcript.Entry) int {
	sum := 0
	for _, e := range entries {
		sum += (len([]rune(transcript.Text(e.Item.Body))) + 3) / 4
	}
	return sum
}

// shown is what a model sees of a context.
func shown(entries []transcript.Entry) []string {
	out := []string{}
	for _, e := range entries {
		out = append(out, string(e.Item.ID)+" "+string(e.Form)+" "+transcript.Text(e.Item.Body))
	}
	return out
}

// brokenSides checks that a context is the checkpoint and items of the one before
// in their order, and that the record counts them and their turns so.
func brokenSides(before, after []transcript.Entry, r *compaction.Record) []string {
	if len(after) == 0 || after[0].Item.Body.Kind() != transcript.KindCheckpoint || after[0].Item.ID != r.Checkpoint.ItemID {
		return []string{"the context does not begin with the checkpoint"}
	}
	var broken []string
	kept := map[transcript.ItemID]bool{}
	counts := compaction.ItemCounts{Summarized: len(before)}
	for _, e := range after[1:] {
		kept[e.Item.ID] = true
		counts.Summarized--
		switch e.Form {
		case transcript.FormWhole:
			counts.Whole++
		case transcript.FormClipped:
			counts.Clipped++
		case transcript.FormStub:
			counts.Stub++
		}
	}
	if counts != *r.Items || len(kept) != len(after)-1 {
		broken = append(broken, fmt.Sprintf("items are %+v and %d different ones, the record says %+v", counts, len(kept), *r.Items))
	}
	left := after[1:]
	for _, e := range before {
		if !kept[e.Item.ID] {
			continue
		}
		if len(left) == 0 || left[0].Item.ID != e.Item.ID {
			return append(broken, fmt.Sprintf("item %s is out of order", e.Item.ID))
		}
		if left[0].Form == transcript.FormWhole && transcript.Text(left[0].Item.Body) != transcript.Text(e.Item.Body) {
			broken = append(broken, fmt.Sprintf("item %s is whole and says something else", e.Item.ID))
		}
		left = left[1:]
	}
	if len(left) > 0 {
		broken = append(broken, fmt.Sprintf("%d retained items are not from the context", len(left)))
	}
	return append(broken, brokenTurns(before, kept, r)...)
}

// brokenTurns checks that the turns without a kept item are the summarised ones.
func brokenTurns(before []transcript.Entry, kept map[transcript.ItemID]bool, r *compaction.Record) []string {
	var turns []transcript.TurnID
	retained := map[transcript.TurnID]bool{}
	for _, e := range before {
		if e.Item.Body.Kind() != transcript.KindCheckpoint && !slices.Contains(turns, e.Item.Turn) {
			turns = append(turns, e.Item.Turn)
		}
		retained[e.Item.Turn] = retained[e.Item.Turn] || kept[e.Item.ID]
	}
	gone := slices.DeleteFunc(slices.Clone(turns), func(id transcript.TurnID) bool { return retained[id] })
	left := slices.DeleteFunc(turns, func(id transcript.TurnID) bool { return !retained[id] })
	if diff := cmp.Diff([2][]transcript.TurnID{gone, left}, [2][]transcript.TurnID{r.SummarizedTurnIDs, r.RetainedTurnIDs}); diff != "" {
		return []string{"turns summarised and retained (-want +got):\n" + diff}
	}
	return nil
}

// brokenPairs checks that no result is without its call, and that no call lost
// its result.
func brokenPairs(before, after []transcript.Entry) []string {
	var broken []string
	kept := map[transcript.ItemID]bool{}
	for _, e := range after {
		kept[e.Item.ID] = true
	}
	call := map[transcript.CallID]transcript.ItemID{} // the newest one of an id
	for _, e := range before {
		switch b := e.Item.Body.(type) {
		case transcript.ToolCall:
			call[b.CallID] = e.Item.ID
		case transcript.ToolResult:
			switch owner, ok := call[b.CallID]; {
			case !ok && kept[e.Item.ID]:
				broken = append(broken, fmt.Sprintf("result %s has no call", e.Item.ID))
			case ok && kept[owner] != kept[e.Item.ID]:
				broken = append(broken, fmt.Sprintf("call %s (kept: %t) and its result %s are separated", owner, kept[owner], e.Item.ID))
			}
		}
	}
	open := map[transcript.CallID]int{} // as an endpoint would count them
	for _, e := range after {
		switch b := e.Item.Body.(type) {
		case transcript.ToolCall:
			open[b.CallID]++
		case transcript.ToolResult:
			if open[b.CallID]--; open[b.CallID] < 0 {
				broken = append(broken, fmt.Sprintf("result %s comes before its call", e.Item.ID))
			}
		}
	}
	return broken
}

// brokenRequest checks that the last request of the user is there, whole or with
// a reference to where it is.
func brokenRequest(before, after []transcript.Entry) []string {
	for _, e := range slices.Backward(before) {
		if e.Item.Body.Kind() != transcript.KindUserMessage {
			continue
		}
		text := transcript.Text(e.Item.Body)
		for _, k := range after {
			got := transcript.Text(k.Item.Body)
			if k.Item.ID == e.Item.ID && (got == text || bytes.Contains([]byte(got), []byte(e.Item.ID))) {
				return nil
			}
		}
		return []string{fmt.Sprintf("the last user request %s does not survive", e.Item.ID)}
	}
	return nil
}

// What checks recorded sessions must itself be seen to fail.
func TestBrokenCompactionsOfRecordedSessionsAreSeen(t *testing.T) {
	t.Parallel()
	session := readSession(t, demoSession)
	opts := fileOptions{budget: 8_000, writer: compaction.WriterExtractive}
	before := contextOf(t, session, false)
	at := func(entries []transcript.Entry, kind transcript.Kind) int {
		return slices.IndexFunc(entries, func(e transcript.Entry) bool { return e.Item.Body.Kind() == kind })
	}
	for name, damage := range map[string]func(*fileCompaction){
		"": func(*fileCompaction) {},
		"a lost call": func(d *fileCompaction) {
			i := at(d.entries, transcript.KindToolCall)
			d.entries = slices.Delete(d.entries, i, i+1)
		},
		"a lost result": func(d *fileCompaction) {
			i := at(d.entries, transcript.KindToolResult)
			d.entries = slices.Delete(d.entries, i, i+1)
		},
		"no checkpoint":        func(d *fileCompaction) { d.entries = d.entries[1:] },
		"another order":        func(d *fileCompaction) { slices.Reverse(d.entries[1:]) },
		"a larger context":     func(d *fileCompaction) { d.entries = append(d.entries, before...) },
		"a wrong size":         func(d *fileCompaction) { d.record.After.Tokens-- },
		"a skipped link":       func(d *fileCompaction) { d.record.Skipped = []compaction.Skip{{Link: "checkpoint(extractive)"}} },
		"another outcome":      func(d *fileCompaction) { d.record.Outcome = new(compaction.Failed) },
		"a turn on both sides": func(d *fileCompaction) { d.record.SummarizedTurnIDs = d.record.RetainedTurnIDs },
		"a lost request": func(d *fileCompaction) {
			d.entries = slices.DeleteFunc(d.entries, func(e transcript.Entry) bool { return e.Item.Body.Kind() == transcript.KindUserMessage })
		},
		"nothing, but too much": func(d *fileCompaction) {
			d.record.Outcome, d.record.Code = new(compaction.Unchanged), new(compaction.CodeNothingToCompact)
			d.entries = before
		},
	} {
		done, err := compactSession(t.Context(), session, opts)
		mustDo(t, err)
		damage(done)
		if broken := brokenRules(before, done, opts); (len(broken) == 0) != (name == "") {
			t.Errorf("%q is reported as %q", name, broken)
		}
	}
}
