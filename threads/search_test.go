package threads_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// search searches a thread.
func (b *bench) search(id transcript.ThreadID, query string) threads.SearchResult {
	b.t.Helper()
	r, err := b.svc.Search(b.t.Context(), threads.SearchParams{Thread: id, Query: query})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// best is the text of the first hit.
func best(t *testing.T, r threads.SearchResult) threads.SearchHit {
	t.Helper()
	if len(r.Hits) == 0 {
		t.Fatalf("nothing was found (%+v)", r)
	}
	return r.Hits[0]
}

// compact compacts a thread locally.
func (b *bench) shrink(id transcript.ThreadID, p threads.CompactParams) compaction.Record {
	b.t.Helper()
	p.Thread, p.Route, p.Wait = id, compaction.RouteLocal, true
	if p.Writer == "" {
		p.Writer = compaction.WriterExtractive
	}
	ack, err := b.svc.StartCompaction(b.t.Context(), p)
	if err != nil {
		b.t.Fatal(err)
	}
	return ack.Record
}

func TestSearchFindsWhatACompactionTookAway(t *testing.T) {
	b := newBench(t)
	id := b.create()
	b.turn(id, "the harbour master keeps the key KX-7731 behind the barometer", "noted")
	for i := range 6 {
		b.turn(id, big(fmt.Sprint("question", i), 1500), big(fmt.Sprint("answer", i), 1500))
	}
	if h := best(t, b.search(id, "barometer")); h.Archived() || !strings.Contains(h.Text, "KX-7731") {
		t.Fatalf("before the compaction: %+v", h)
	}
	if rec := b.shrink(id, threads.CompactParams{Budget: 4000}); *rec.Outcome != compaction.Completed {
		t.Fatalf("the compaction ended %s", *rec.Outcome)
	}
	old := best(t, b.search(id, "question0 answer0 pier"))
	if !old.Archived() {
		t.Errorf("a hit of the summarised range is not archived: %+v", old)
	}
	if old.Before == nil || old.After == nil {
		t.Errorf("the hit has no neighbours: %+v", old)
	}
	h := best(t, b.search(id, "BAROMETER key"))
	if !strings.Contains(h.Text, "KX-7731") || h.Kind != transcript.KindUserMessage || h.Turn == "" {
		t.Errorf("got %+v", h)
	}

	b.restart()
	if again := best(t, b.search(id, "barometer")); again.Item != h.Item {
		t.Errorf("after a restart another item is found: %+v", again)
	}
	fork, err := b.svc.Fork(t.Context(), threads.ForkParams{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.svc.DeleteThread(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if of := best(t, b.search(fork.Thread.ID, "barometer")); of.Item != h.Item {
		t.Errorf("the fork finds another item: %+v", of)
	}
	if _, err := b.svc.Search(t.Context(), threads.SearchParams{Thread: id, Query: "barometer"}); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("a deleted thread is searched: %v", err)
	}
}

func TestSearchForgetsWhatWasReverted(t *testing.T) {
	b := newBench(t)
	id := b.create()
	b.turn(id, "alpha stays", "yes")
	gone := b.turn(id, "omega goes", "no")
	b.search(id, "omega")
	if _, err := b.svc.Revert(t.Context(), id, gone); err != nil {
		t.Fatal(err)
	}
	if r := b.search(id, "omega"); len(r.Hits) != 0 {
		t.Errorf("what was reverted is found: %+v", r.Hits)
	}
	if h := best(t, b.search(id, "alpha")); !strings.Contains(h.Text, "alpha stays") {
		t.Errorf("got %+v", h)
	}
}

func TestSearchOfALongThreadIsBoundedAndGoesOn(t *testing.T) {
	defer threads.SetIndexedAtOnce(128)()
	b := newBench(t)
	id := b.create()
	for i := range 60 {
		b.turn(id, fmt.Sprint("message number", i), "ok")
	}
	b.turn(id, "the last word is zanzibar", "ok")
	first := b.search(id, "zanzibar")
	if first.IndexedTo >= first.AsOf.N || len(first.Hits) != 0 {
		t.Fatalf("one search indexed all %d events (%d)", first.AsOf.N, first.IndexedTo)
	}
	for range 20 {
		r := b.search(id, "zanzibar")
		if r.IndexedTo <= first.IndexedTo {
			t.Fatalf("no progress after %d", first.IndexedTo)
		}
		if first = r; r.IndexedTo == r.AsOf.N {
			break
		}
	}
	best(t, first)
}

func TestPiecesAreSmallAndLoseNothing(t *testing.T) {
	for _, text := range []string{
		"", " \n ", "short", strings.Repeat("word ", 2000), strings.Repeat("界", 5000), strings.Repeat("é", 1199) + "\n\nnext" + strings.Repeat("x", 1300),
		strings.Repeat("a paragraph of some length.\n\n", 400), "\xff\xfe" + strings.Repeat("\xffa", 3000),
	} {
		parts := threads.Pieces(text)
		if strings.TrimSpace(text) != "" && strings.Join(parts, "") != text {
			t.Errorf("%.20q: the parts are not the text", text)
		}
		for _, p := range parts {
			if n := len([]rune(p)); n > 1200 || n == 0 {
				t.Errorf("%.20q: a part has %d code points", text, n)
			}
		}
	}
}

func TestBadSearchesAreRefused(t *testing.T) {
	b := newBench(t)
	id := b.create()
	for _, p := range []threads.SearchParams{
		{Query: ""}, {Query: " \t"}, {Query: "\xff"}, {Query: strings.Repeat("x", 1001)}, {Query: "x", Limit: -1}, {Query: "x", Limit: 51},
	} {
		p.Thread = id
		if _, err := b.svc.Search(t.Context(), p); fault.CodeOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if r := b.search(id, `" OR * NEAR/2 ( -`); len(r.Hits) != 0 {
		t.Errorf("signs found %+v", r.Hits)
	}
}

// calls answers a request with one tool call.
func (r *request) callsTool(t testing.TB, name, args string) {
	t.Helper()
	r.send(t, adapters.CallChunk{Call: transcript.ToolCall{CallID: transcript.CallID(name + fmt.Sprint(len(r.Entries))), Name: name, Arguments: transcript.RawJSON(args)}},
		adapters.Done{Stop: adapters.StopTools})
}

// result is the last tool result that a request carries.
func (r *request) result(t testing.TB) transcript.ToolResult {
	t.Helper()
	for _, e := range slices.Backward(r.Entries) {
		if res, ok := e.Item.Body.(transcript.ToolResult); ok {
			return res
		}
	}
	t.Fatal("there is no result")
	return transcript.ToolResult{}
}

func withTools(c *threads.Config) { c.Providers[0].Tools = true }

func TestModelsRecallWhatWasArchived(t *testing.T) {
	b := newBench(t, withTools)
	id := b.create()
	b.turn(id, big("zebra", 3000), "seen")
	for i := range 6 {
		b.turn(id, big(fmt.Sprint("question", i), 1500), big(fmt.Sprint("answer", i), 1500))
	}
	rec := b.shrink(id, threads.CompactParams{Budget: 4000})
	if *rec.Outcome != compaction.Completed {
		t.Fatalf("the compaction ended %s", *rec.Outcome)
	}
	ack := b.start(id, "what was it about?")
	first := b.request()
	if text := strings.Join(first.texts(), "\n"); !strings.Contains(text, "recall") {
		t.Errorf("the checkpoint does not name the tool:\n%.2000s", text)
	}
	if names := toolNames(first); fmt.Sprint(names) != "[update_plan recall]" {
		t.Errorf("the model is offered %v", names)
	}
	first.callsTool(t, "recall", `{"query":"zebra line 77","limit":20}`)
	second := b.request()
	res := second.result(t)
	text := transcript.PartsText(res.Output)
	if res.IsError || !strings.Contains(text, "zebra line 77 ") {
		t.Errorf("recall returned:\n%.3000s", text)
	}
	if n := transcript.EstimateText(text); n > 3000 {
		t.Errorf("the result has %d tokens", n)
	}
	second.callsTool(t, "recall", `{"query":"zebra line 77"}`)
	third := b.request()
	if again := transcript.PartsText(third.result(t).Output); strings.Count(again, "it is data, and may be stale") != 1 {
		t.Errorf("a search finds the result of a search:\n%s", again)
	}
	third.callsTool(t, "recall", `{"query":""}`)
	if r := b.request().answerWith(t, "done").result(t); !r.IsError {
		t.Errorf("an empty query was searched: %+v", r)
	}
	b.await(id, ended(ack.Turn.ID))
}

func toolNames(r *request) (names []string) {
	for _, s := range r.Base.Tools {
		names = append(names, s.Name)
	}
	return names
}

func TestModelsKeepAPlan(t *testing.T) {
	b := newBench(t, withTools)
	id := b.create()
	ack := b.start(id, "do it")
	for _, bad := range []string{
		`{}`, `not json`, `{"steps":"a"}`, `{"steps":[{"step":"","status":"pending"}]}`, `{"steps":[{"step":"a","status":"later"}]}`,
		`{"steps":[{"step":"a","status":"inProgress"},{"step":"b","status":"inProgress"}]}`,
		`{"steps":[` + strings.Repeat(`{"step":"a","status":"pending"},`, 100) + `{"step":"a","status":"pending"}]}`,
		`{"steps":[{"step":"` + strings.Repeat("x", 501) + `","status":"pending"}]}`,
	} {
		b.request().callsTool(t, "update_plan", bad)
		r := b.request()
		if res := r.result(t); !res.IsError {
			t.Errorf("%.60s was taken: %s", bad, transcript.PartsText(res.Output))
		}
		r.callsTool(t, "nothing", `{}`) // the next request follows
	}
	b.request().callsTool(t, "update_plan", `{"steps":[{"step":"splice the mainbrace","status":"completed"},{"step":"weigh anchor","status":"in_progress"}]}`)
	r := b.request()
	if res := r.result(t); res.IsError || !strings.Contains(transcript.PartsText(res.Output), "1 of 2") {
		t.Errorf("got %+v", res)
	}
	r.answer(t, "done")
	b.await(id, ended(ack.Turn.ID))
	var plans []threads.PlanUpdated
	for _, p := range b.payloads(id) {
		if u, ok := p.(threads.PlanUpdated); ok {
			plans = append(plans, u)
		}
	}
	want := transcript.Plan{Steps: []transcript.PlanStep{{Step: "splice the mainbrace", Status: "completed"}, {Step: "weigh anchor", Status: "inProgress"}}}
	if len(plans) != 1 || mustJSON(t, plans[0].Plan) != mustJSON(t, want) || plans[0].TurnID != ack.Turn.ID {
		t.Errorf("the plans are %+v", plans)
	}
}

func TestAToolThatAClientDeclaresWins(t *testing.T) {
	b := newBench(t, withTools)
	r, err := b.svc.CreateThread(t.Context(), threads.CreateParams{Tools: []threads.DynamicTool{
		{Name: "recall", Description: "of the client", Schema: transcript.RawJSON(`{"type":"object"}`)},
		{Namespace: "ns", Name: "update_plan", Description: "of the client", Schema: transcript.RawJSON(`{"type":"object"}`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ack := b.start(r.Thread.ID, "hello")
	req := b.request()
	if names := toolNames(req); fmt.Sprint(names) != "[update_plan recall ns__update_plan]" {
		t.Errorf("the model is offered %v", names)
	}
	for _, s := range req.Base.Tools {
		if s.Name == "recall" && s.Description != "of the client" {
			t.Error("the tool of the server took the client's name")
		}
	}
	req.answer(t, "hi")
	b.await(r.Thread.ID, ended(ack.Turn.ID))
}

func TestOnlyModelsAreOfferedToolsOfTheServer(t *testing.T) {
	b := newBench(t)
	id := b.create()
	ack := b.start(id, "hello")
	req := b.request()
	if names := toolNames(req); names != nil {
		t.Errorf("offered: %v", names)
	}
	req.answer(t, "hi")
	b.await(id, ended(ack.Turn.ID))
}

func TestWhatIsRecalledLeavesRoomInASmallWindow(t *testing.T) {
	for window, want := range map[int]int{0: 3_000, 200_000: 3_000, 16_000: 2_000, 8_192: 1_024, 4_096: 1_000} {
		if got := threads.RecallRoom(window); got != want {
			t.Errorf("with a window of %d a result may have %d tokens, want %d", window, got, want)
		}
	}
}
