package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	plimsoll "github.com/plimsoll-dev/plimsoll"
	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

func TestAThreadIsCreatedReadListedAndDeleted(t *testing.T) {
	d := open(t)
	a := d.do("POST", "/v1/threads", `{"cwd":"/w","name":"First","sandbox":"workspace-write"}`)
	var started ThreadStartResult
	d.into(a, 201, &started)
	id := started.Thread.ID
	if started.ModelProvider != "offline" || started.Sandbox.Type != "workspaceWrite" || *started.Thread.Name != "First" || started.Thread.CLIVersion != "0.0.0-test" {
		t.Errorf("started: %s", a.body)
	}
	read := call[ThreadReadResult](d, 200, "GET", "/v1/threads/"+id, "")
	if diff := cmp.Diff(started.Thread, read.Thread); diff != "" {
		t.Errorf("read differs from started (-started +read):\n%s", diff)
	}
	if read.AsOf != started.AsOf {
		t.Errorf("asOf %s after start, %s when read", started.AsOf, read.AsOf)
	}
	list := call[ThreadListResult](d, 200, "GET", "/v1/threads", "")
	if len(list.Data) != 1 || list.Data[0].ID != id || list.NextCursor != nil {
		t.Errorf("list: %+v", list)
	}
	call[Empty](d, 200, "DELETE", "/v1/threads/"+id, "")
	d.problem(404, "GET", "/v1/threads/"+id, "")
	if list := call[ThreadListResult](d, 200, "GET", "/v1/threads", ""); len(list.Data) != 0 {
		t.Errorf("a deleted thread is listed: %+v", list)
	}
}

func TestThreadsAreListedInPages(t *testing.T) {
	d := open(t)
	var want []string
	for range 5 {
		want = append(want, d.newThread("offline"))
	}
	slices.Reverse(want) // newest change first
	var got []string
	for cursor := ""; ; {
		page := call[ThreadListResult](d, 200, "GET", "/v1/threads?limit=2&cursor="+cursor, "")
		if len(page.Data) > 2 {
			t.Fatalf("page of %d", len(page.Data))
		}
		for _, th := range page.Data {
			got = append(got, th.ID)
		}
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestATurnIsAcceptedAndItsItemsAreRead(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	for _, input := range []string{
		`"What is a load line?"`,
		`[{"type":"text","text":"What is a load line?","text_elements":[]}]`,
		`[{"type":"text","text":"What is a"},{"type":"text","text":" load line?"}]`,
	} {
		r := call[TurnStartResult](d, 202, "POST", "/v1/threads/"+id+"/turns", `{"input":`+input+`,"clientUserMessageId":"m-1"}`)
		if r.Queued || r.Steered || r.Turn.Status != "inProgress" {
			t.Errorf("ack: %+v", r)
		}
		d.settled(id, r.Turn.ID)
		turn := call[TurnReadResult](d, 200, "GET", "/v1/threads/"+id+"/turns/"+r.Turn.ID, "").Turn
		if turn.Status != "completed" || turn.ItemsView != "full" || turn.StartedAt == nil || turn.CompletedAt == nil || turn.DurationMs == nil {
			t.Errorf("turn: %+v", turn)
		}
		user, ok := turn.Items[0].ItemVariant.(protocol.UserMessageItem)
		if !ok || *user.ClientID != "m-1" {
			t.Errorf("first item: %+v", turn.Items[0])
		}
		if last, ok := turn.Items[len(turn.Items)-1].ItemVariant.(protocol.AgentMessageItem); !ok || last.Text == "" {
			t.Errorf("last item: %+v", turn.Items[len(turn.Items)-1])
		}
		items := call[ItemListResult](d, 200, "GET", "/v1/threads/"+id+"/items?turnId="+r.Turn.ID, "")
		var listed []protocol.ThreadItem
		for _, e := range items.Data {
			listed = append(listed, e.Item)
		}
		if diff := cmp.Diff(turn.Items, listed); diff != "" {
			t.Errorf("items of the turn and of the list differ:\n%s", diff)
		}
	}
	turns := call[TurnListResult](d, 200, "GET", "/v1/threads/"+id+"/turns", "")
	oldest := call[TurnListResult](d, 200, "GET", "/v1/threads/"+id+"/turns?sortDirection=asc&limit=1", "")
	if len(turns.Data) != 3 || turns.Data[2].ID != oldest.Data[0].ID || oldest.NextCursor == nil {
		t.Errorf("turns are not newest first by default: %+v", turns)
	}
}

func TestInputIsQueuedOrSteeredWhileATurnRuns(t *testing.T) {
	d := open(t)
	id := d.newThread("puppet")
	first := call[TurnStartResult](d, 202, "POST", "/v1/threads/"+id+"/turns", `{"input":"one"}`)
	queued := call[TurnStartResult](d, 202, "POST", "/v1/threads/"+id+"/turns", `{"input":"two"}`)
	if !queued.Queued || !queued.Turn.Queued || queued.Turn.StartedAt != nil || queued.Turn.Status != "inProgress" || queued.Turn.ID == first.Turn.ID {
		t.Errorf("queued: %+v", queued)
	}
	steered := call[TurnStartResult](d, 202, "POST", "/v1/threads/"+id+"/turns", `{"input":"also","mode":"steer"}`)
	if !steered.Steered || steered.Turn.ID != first.Turn.ID {
		t.Errorf("steered: %+v", steered)
	}
	call[Empty](d, 200, "POST", "/v1/threads/"+id+"/turns/"+queued.Turn.ID+"/interrupt", `{}`)
	call[Empty](d, 200, "POST", "/v1/threads/"+id+"/turns/"+first.Turn.ID+"/interrupt", `{}`)
	d.settled(id, first.Turn.ID)
	if got := call[TurnReadResult](d, 200, "GET", "/v1/threads/"+id+"/turns/"+first.Turn.ID, "").Turn.Status; got != "interrupted" {
		t.Errorf("status after the interrupt: %s", got)
	}
	if p := d.problem(409, "POST", "/v1/threads/"+id+"/turns/"+first.Turn.ID+"/interrupt", `{}`); p.Code != fault.Conflict {
		t.Errorf("interrupt of an ended turn: %+v", p)
	}
}

func TestAToolCallAndItsResultAreOneItem(t *testing.T) {
	d := open(t)
	id := d.newThread("puppet")
	r := call[TurnStartResult](d, 202, "POST", "/v1/threads/"+id+"/turns", `{"input":"use the tool"}`)
	d.puppet.say(t, adapters.CallChunk{Call: transcriptCall("c1", "echo", `{"a":"b"}`)}, adapters.Done{Stop: adapters.StopTools})
	d.puppet.say(t, text("done"), done())
	d.settled(id, r.Turn.ID)
	page := call[EventsReadResult](d, 200, "GET", "/v1/threads/"+id+"/events?limit=1000", "", header("Accept", jsonType))
	var lifecycle []string
	var last protocol.DynamicToolCallItem
	for _, n := range page.Data {
		var p struct{ Item protocol.ThreadItem }
		if err := json.Unmarshal(n.Params, &p); err != nil || p.Item.ItemVariant == nil {
			continue
		}
		if v, ok := p.Item.ItemVariant.(protocol.DynamicToolCallItem); ok {
			lifecycle, last = append(lifecycle, n.Method+" "+v.Status+" "+v.ID), v
		}
	}
	want := []string{"item/started inProgress " + last.ID, "item/completed completed " + last.ID}
	if diff := cmp.Diff(want, lifecycle); diff != "" {
		t.Errorf("life of the call:\n%s", diff)
	}
	if last.Tool != "echo" || !sameJSON(last.Arguments, `{"a":"b"}`) || !*last.Success || *(*last.ContentItems)[0].Text != `{"a":"b"}` || last.ResultItemID == nil || *last.ResultItemID == last.ID {
		t.Errorf("completed call: %+v", last)
	}
	turn := call[TurnReadResult](d, 200, "GET", "/v1/threads/"+id+"/turns/"+r.Turn.ID, "").Turn
	if diff := cmp.Diff(last, turn.Items[1].ItemVariant); diff != "" {
		t.Errorf("the item that is read differs from the one that was sent:\n%s", diff)
	}
	if len(turn.Items) != 3 {
		t.Errorf("the result is an item of its own: %d items", len(turn.Items))
	}
}

func TestACompactionIsStartedReadAndListed(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	for range 3 {
		d.turn(id, strings.Repeat("The harbour has many ships and each one has a mark. ", 400))
	}
	started := call[CompactStartResult](d, 200, "POST", "/v1/threads/"+id+"/compact", `{"route":"local","budget":4000,"wait":true}`)
	rec := started.Compaction
	if rec.Outcome == nil || *rec.Outcome != "completed" || string(rec.CompactionID) != started.CompactionID || string(rec.ThreadID) != id {
		t.Fatalf("record: %s", mustEncode(t, rec))
	}
	read := call[CompactionReadResult](d, 200, "GET", "/v1/threads/"+id+"/compactions/"+started.CompactionID, "")
	if diff := cmp.Diff(rec, read.Compaction); diff != "" {
		t.Errorf("read differs from started:\n%s", diff)
	}
	list := call[CompactionListResult](d, 200, "GET", "/v1/threads/"+id+"/compactions", "")
	if len(list.Data) != 1 || list.Data[0].CompactionID != rec.CompactionID {
		t.Errorf("list: %+v", list)
	}
	now := call[ContextReadResult](d, 200, "GET", "/v1/threads/"+id+"/context", "")
	before := call[ContextReadResult](d, 200, "GET", "/v1/threads/"+id+"/context?epoch=0", "")
	if now.Epoch != 1 || now.CurrentEpoch != 1 || *now.CompactionID != started.CompactionID || before.Epoch != 0 || now.Tokens >= before.Tokens {
		t.Errorf("context: epoch %d with %d tokens, before %d with %d", now.Epoch, now.Tokens, before.Epoch, before.Tokens)
	}
	if p := d.problem(404, "GET", "/v1/threads/"+id+"/context?epoch=7", ""); !strings.Contains(p.Detail, "7") {
		t.Errorf("unknown epoch: %+v", p)
	}
}

func TestARefusedCompactionIsAProblemWithItsRecord(t *testing.T) {
	d := open(t)
	id := d.newThread("puppet")
	p := d.problem(409, "POST", "/v1/threads/"+id+"/compact?wait=true", `{"route":"native"}`)
	data, err := json.Marshal(p.Data)
	if err != nil {
		t.Fatal(err)
	}
	var r CompactStartResult
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if p.Code != fault.Refused || *r.Compaction.Outcome != "refused" || *r.Compaction.Code != "nativeUnsupported" || !strings.Contains(p.Detail, "a puppet cannot compact") {
		t.Errorf("problem: %s", mustEncode(t, p))
	}
	d.spec.value(t, "CompactStartResult", data)
	key := header("Idempotency-Key", "k")
	ack := call[CompactStartResult](d, 202, "POST", "/v1/threads/"+id+"/compact", `{"route":"native"}`, key)
	d.problem(409, "POST", "/v1/threads/"+id+"/compact", `{"route":"native","wait":true}`, key)
	again := call[CompactStartResult](d, 202, "POST", "/v1/threads/"+id+"/compact", `{"route":"native"}`, key)
	if again.CompactionID != ack.CompactionID || again.Compaction.Outcome == nil || *again.Compaction.Outcome != "refused" {
		t.Errorf("the record of a refusal, without wait: %+v", again)
	}
	if ack.CompactionID == r.CompactionID {
		t.Errorf("the second request got the first one's compaction")
	}
}

func TestProvidersAreListed(t *testing.T) {
	d := open(t)
	r := call[ProviderListResult](d, 200, "GET", "/v1/providers", "")
	if len(r.Data) != 2 || !r.Data[0].IsDefault || r.Data[0].Name != "offline" {
		t.Fatalf("providers: %s", mustEncode(t, r))
	}
	want := Model{
		ID: "puppet-1", DisplayName: "Puppet", ContextWindow: new(100_000), WindowSource: new("config"), MaxOutput: new(1000),
		Price: &Price{Input: 2, CachedInput: 0.2, Output: 8},
	}
	if diff := cmp.Diff(want, r.Data[1].Models[0]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAnExportIsImportedAgain(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	d.turn(id, "What is a load line?")
	export := d.do("GET", "/v1/threads/"+id+"/export", "")
	if export.status != 200 || export.header.Get("Content-Type") != ndjsonType || !strings.Contains(export.header.Get("Content-Disposition"), id) {
		t.Fatalf("export: %d %v", export.status, export.header)
	}
	for _, media := range importTypes {
		r := call[ImportResult](d, 201, "POST", "/v1/imports?cwd=/elsewhere", string(export.body), header("Content-Type", media))
		if r.Thread.ID == id || r.Items["userMessage"] != 1 || r.Items["agentMessage"] != 1 || r.Thread.Cwd != "/elsewhere" {
			t.Errorf("import: %s", mustEncode(t, r))
		}
	}
	d.problem(400, "POST", "/v1/imports", "this is no session file", header("Content-Type", ndjsonType))
	d.problem(415, "POST", "/v1/imports", string(export.body))
	d.problem(404, "GET", "/v1/threads/nobody/export", "")
}

func TestARequestIsDoneOncePerIdempotencyKey(t *testing.T) {
	d := open(t)
	key := header("Idempotency-Key", "key-1")
	one := call[ThreadStartResult](d, 201, "POST", "/v1/threads", `{"cwd":"/w"}`, key)
	two := call[ThreadStartResult](d, 201, "POST", "/v1/threads", `{"cwd":"/w"}`, key)
	if one.Thread.ID != two.Thread.ID {
		t.Error("one key made two threads")
	}
	key = header("Idempotency-Key", "key-2")
	turns := "/v1/threads/" + one.Thread.ID + "/turns"
	first := call[TurnStartResult](d, 202, "POST", turns, `{"input":"hello"}`, key)
	d.settled(one.Thread.ID, first.Turn.ID)
	if again := call[TurnStartResult](d, 202, "POST", turns, `{"input":"hello"}`, key); again.Turn.ID != first.Turn.ID {
		t.Error("one key made two turns")
	}
	if p := d.problem(409, "POST", turns, `{"input":"something else"}`, key); p.Code != fault.Conflict {
		t.Errorf("another body with the same key: %+v", p)
	}
	for _, bad := range []string{"", "two words", "übel", strings.Repeat("k", 201)} {
		d.problem(400, "POST", "/v1/threads", `{}`, header("Idempotency-Key", bad))
	}
	d.problem(400, "POST", "/v1/threads", `{}`, header("Idempotency-Key", "a", "b"))
}

func TestTheDoorDescribesItself(t *testing.T) {
	d := open(t)
	a := d.do("GET", "/openapi.yaml", "")
	if a.status != 200 || string(a.body) != string(plimsoll.OpenAPI) {
		t.Errorf("openapi.yaml: %d, %d bytes", a.status, len(a.body))
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if a := d.do("GET", path, "", header("Authorization")); a.status != 200 || strings.Contains(string(a.body), "0.0.0") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if err := d.svc.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.problem(http.StatusServiceUnavailable, "GET", "/readyz", "")
}

func TestPrivateHandlerNeedsNeitherHostNorToken(t *testing.T) {
	d := open(t)
	d.stop()
	d.ln = newMemListener()
	d.client = &http.Client{Transport: &http.Transport{DialContext: d.ln.dial}}
	d.server.guarded = d.server.private // what ServePrivate serves
	d.serve()
	a := d.do("GET", "/v1/threads", "", header("Authorization"), host("plimsoll"))
	if a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	d.problem(403, "GET", "/v1/threads", "", header("Origin", "http://evil.example"))
}
