package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/adapters/offline"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/mem"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// rpc calls a method as JSON-RPC does, with the experimental capability, and
// decodes its result.
func rpcCall[T any](d *door, method, params string) (T, *problemOfRPC) {
	d.t.Helper()
	var v T
	m, ok := methodNamed(method)
	if !ok {
		d.t.Fatalf("no method %s", method)
	}
	ctx := withClient(d.t.Context(), "tester")
	p, err := decodeRPC(m, json.RawMessage(params), true)
	var result any
	if err == nil {
		result, err = m.call(d.server, ctx, p)
	}
	if err != nil {
		e := d.server.rpcProblem(ctx, m, p, err)
		return v, &problemOfRPC{e.Code, e.Message, string(e.Data)}
	}
	if err := json.Unmarshal([]byte(mustEncode(d.t, result)), &v); err != nil {
		d.t.Fatal(err)
	}
	return v, nil
}

// problemOfRPC is an error of JSON-RPC in a form that can be compared.
type problemOfRPC struct {
	Code    int64
	Message string
	Data    string
}

// awaitEvent waits for the first event of a type in a thread.
func awaitEvent[P threads.Payload](d *door, thread string) P {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for m, err := range d.server.service(transcript.ThreadID(thread)).Follow(ctx, transcript.ThreadID(thread), nil, 0) {
		if err != nil {
			d.t.Fatal(err)
		}
		if m.Kind != events.KindEvent {
			continue
		}
		p, err := threads.Decode(m.Event)
		if err != nil {
			d.t.Fatal(err)
		}
		if want, ok := p.(P); ok {
			return want
		}
	}
	panic("unreachable")
}

func idsOf(list []protocol.Thread) []string {
	return mapped(list, func(t protocol.Thread) string { return t.ID })
}

func TestAThreadIsNamedPutAwayAndBroughtBack(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	path := "/v1/threads/" + id
	call[Empty](d, 200, "POST", path+"/name", `{"name":"Harbour"}`)
	if p := d.problem(400, "POST", path+"/name", `{"name":" "}`); p.Detail != "thread name must not be empty" {
		t.Errorf("a blank name: %s", p.Detail)
	}
	call[Empty](d, 200, "POST", path+"/archive", `{}`)
	if list := call[ThreadListResult](d, 200, "GET", "/v1/threads", ""); len(list.Data) != 0 {
		t.Errorf("an archived thread is listed: %+v", list.Data)
	}
	if p := d.problem(409, "POST", path+"/turns", `{"input":"x"}`); p.Code != fault.Refused {
		t.Errorf("an archived thread takes input: %+v", p)
	}
	archived := call[ThreadListResult](d, 200, "GET", "/v1/threads?archived=true", "")
	if len(archived.Data) != 1 || *archived.Data[0].Name != "Harbour" || !archived.Data[0].Plimsoll.Archived {
		t.Errorf("archived: %+v", archived.Data)
	}
	back := call[ThreadResult](d, 200, "POST", path+"/unarchive", `{}`)
	if back.Thread.Plimsoll.Archived || back.AsOf == "" {
		t.Errorf("unarchived: %+v", back)
	}
	call[ThreadResult](d, 200, "POST", path+"/metadata", `{"gitInfo":{"branch":"main","sha":"abc"}}`)
	git := call[ThreadResult](d, 200, "POST", path+"/metadata", `{"gitInfo":{"sha":null}}`)
	if g := git.Thread.GitInfo; g == nil || *g.Branch != "main" || g.SHA != nil {
		t.Errorf("git after a patch: %+v", g)
	}
	d.problem(400, "POST", path+"/metadata", `{}`)
	d.problem(400, "POST", path+"/metadata", `{"gitInfo":{}}`)
	d.problem(400, "POST", path+"/metadata", `{"gitInfo":{"colour":"red"}}`)
}

func TestSettingsAreThoseOfTheThreadFromThenOn(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	path := "/v1/threads/" + id
	set := call[SettingsUpdateResult](d, 200, "POST", path+"/settings", `{"approvalPolicy":"never","sandboxPolicy":{"type":"workspaceWrite"},"effort":"high"}`).ThreadSettings
	if set.ApprovalPolicy != "never" || set.SandboxPolicy.Type != "workspaceWrite" || *set.Effort != "high" || set.Cwd != "/w" {
		t.Errorf("settings: %+v", set)
	}
	d.problem(400, "POST", path+"/settings", `{"model":"nobody"}`)
	d.problem(400, "POST", path+"/turns", `{"input":"x","model":"nobody"}`)
	r := call[TurnStartResult](d, 202, "POST", path+"/turns", `{"input":"x","cwd":"/elsewhere"}`)
	d.settled(id, r.Turn.ID)
	if th := call[ThreadReadResult](d, 200, "GET", path, "").Thread; th.Cwd != "/elsewhere" || *th.ReasoningEffort != "high" {
		t.Errorf("thread: %+v", th)
	}
	resumed, problem := rpcCall[ThreadResumeResult](d, "thread/resume", `{"threadId":"`+id+`","permissions":":danger-full-access","excludeTurns":true}`)
	if problem != nil || resumed.Sandbox.Type != "dangerFullAccess" || resumed.ActivePermissionProfile.ID != ":danger-full-access" || resumed.Cwd != "/elsewhere" {
		t.Errorf("resumed: %+v, %v", resumed.ThreadRuns, problem)
	}
	_, problem = rpcCall[Empty](d, "thread/settings/update", `{"threadId":"`+id+`","permissions":":read-only","sandboxPolicy":{"type":"readOnly"}}`)
	if problem == nil || !strings.Contains(problem.Message, "cannot be combined") {
		t.Errorf("both words for a sandbox: %v", problem)
	}
}

func TestAForkHasTheTurnsUpToItsPoint(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	var turns []string
	for _, s := range []string{"one", "two", "three"} {
		turns = append(turns, d.turn(id, s).Turn.ID)
	}
	path := "/v1/threads/" + id
	idsOfTurns := func(list []protocol.Turn) []string {
		return mapped(list, func(u protocol.Turn) string {
			if u.ItemsView != "full" || len(u.Items) == 0 {
				t.Errorf("turn %s has the view %s of %d items", u.ID, u.ItemsView, len(u.Items))
			}
			return u.ID
		})
	}
	fork := call[ThreadStartResult](d, 201, "POST", path+"/fork", `{"lastTurnId":"`+turns[1]+`"}`)
	if diff := cmp.Diff(turns[:2], idsOfTurns(fork.Thread.Turns)); diff != "" || *fork.Thread.ForkedFromID != id {
		t.Errorf("forked from %v: %s", fork.Thread.ForkedFromID, diff)
	}
	before := call[ThreadStartResult](d, 201, "POST", path+"/fork", `{"beforeTurnId":"`+turns[1]+`","excludeTurns":true}`)
	if before.Thread.Plimsoll.Turns != 1 || len(before.Thread.Turns) != 0 {
		t.Errorf("fork before the second turn: %+v", before.Thread)
	}
	d.problem(400, "POST", path+"/fork", `{"lastTurnId":"`+turns[1]+`","beforeTurnId":"`+turns[1]+`"}`)
	reverted := call[ThreadRevertResult](d, 200, "POST", path+"/revert", `{"beforeTurnId":"`+turns[2]+`"}`)
	if reverted.Thread.Plimsoll.Turns != 2 || reverted.TurnsBackwardsCursor == nil {
		t.Errorf("reverted: %+v", reverted)
	}
	whole := call[ThreadReadResult](d, 200, "GET", path+"?includeTurns=true", "")
	if diff := cmp.Diff(turns[:2], idsOfTurns(whole.Thread.Turns)); diff != "" {
		t.Error(diff)
	}
	if p := d.problem(404, "POST", path+"/revert", `{"beforeTurnId":"`+turns[2]+`"}`); p.Detail != "turn not found: "+turns[2] {
		t.Errorf("revert to a turn that is gone: %s", p.Detail)
	}
}

// Who joins pages backwards from that moment, whatever comes meanwhile.
func TestWhoResumesPagesBackwardsFromThere(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	var turns []string
	for _, s := range []string{"one", "two", "three"} {
		turns = append(turns, d.turn(id, s).Turn.ID)
	}
	joined, problem := rpcCall[ThreadResumeResult](d, "thread/resume", `{"threadId":"`+id+`","excludeTurns":true,"initialTurnsPage":{"limit":1}}`)
	if problem != nil || len(joined.Thread.Turns) != 0 || joined.TurnsBackwardsCursor == nil || joined.ItemsBackwardsCursor == nil {
		t.Fatalf("resumed: %+v, %v", joined, problem)
	}
	if page := joined.InitialTurnsPage; page == nil || page.Data[0].ID != turns[2] || page.Data[0].ItemsView != "summary" || len(page.Data[0].Items) != 2 {
		t.Errorf("initial page: %+v", page)
	}
	d.turn(id, "four")
	var got []string
	cursor := *joined.TurnsBackwardsCursor
	for cursor != "" {
		page, problem := rpcCall[TurnListResult](d, "thread/turns/list", `{"threadId":"`+id+`","cursor":"`+cursor+`","limit":2,"sortDirection":"desc","itemsView":"notLoaded"}`)
		if problem != nil {
			t.Fatal(problem)
		}
		got = append(got, mapped(page.Data, func(u protocol.Turn) string { return u.ID })...)
		if cursor = ""; page.NextCursor != nil {
			cursor = *page.NextCursor
		}
	}
	slices.Reverse(got)
	if diff := cmp.Diff(turns, got); diff != "" {
		t.Errorf("turns (-said +paged):\n%s", diff)
	}
	items, problem := rpcCall[ItemListResult](d, "thread/items/list", `{"threadId":"`+id+`","cursor":"`+*joined.ItemsBackwardsCursor+`","limit":1,"sortDirection":"desc"}`)
	if problem != nil || items.Data[0].TurnID != turns[2] || items.BackwardsCursor == nil {
		t.Errorf("items: %+v, %v", items, problem)
	}
	newer, problem := rpcCall[ItemListResult](d, "thread/items/list", `{"threadId":"`+id+`","cursor":"`+*items.BackwardsCursor+`","limit":100}`)
	if problem != nil || newer.Data[0].Item.ItemVariant == nil || mustEncode(t, newer.Data[0]) != mustEncode(t, items.Data[0]) || len(newer.Data) < 3 {
		t.Errorf("the other way: %+v, %v", newer, problem)
	}
}

func TestThreadsAreSelected(t *testing.T) {
	d := open(t)
	a := call[ThreadStartResult](d, 201, "POST", "/v1/threads", `{"cwd":"/a","name":"Harbour"}`).Thread.ID
	b := call[ThreadStartResult](d, 201, "POST", "/v1/threads", `{"cwd":"/b","modelProvider":"puppet"}`).Thread.ID
	d.turn(a, "newest change")
	for params, want := range map[string][]string{
		`{}`:                                      {b, a}, // by creation, as in codex
		`{"sortKey":"updated_at"}`:                {a, b},
		`{"sortDirection":"asc"}`:                 {a, b},
		`{"cwd":"/a"}`:                            {a},
		`{"cwd":["/a","/b"]}`:                     {b, a},
		`{"modelProviders":["puppet"]}`:           {b},
		`{"modelProviders":[]}`:                   {b, a},
		`{"searchTerm":"HARB"}`:                   {a},
		`{"includedThreadIds":["` + b + `"]}`:     {b},
		`{"includedThreadIds":[]}`:                {},
		`{"includedThreadIds":null}`:              {b, a},
		`{"excludedThreadIds":["` + b + `"]}`:     {a},
		`{"sourceKinds":["cli","vscode"]}`:        {b, a},
		`{"sourceKinds":[]}`:                      {b, a},
		`{"sourceKinds":["subAgentThreadSpawn"]}`: {},
		`{"ancestorThreadId":"` + a + `"}`:        {},
		`{"sectionId":null}`:                      {b, a},
		`{"sectionId":"pinned"}`:                  {},
		`{"archived":true}`:                       {},
		`{"archived":null,"useStateDbOnly":true}`: {b, a},
		`{"unused":"hide"}`:                       {a},
		`{"unused":"hide","cwd":"/b"}`:            {},
	} {
		if !strings.Contains(params, "unused") {
			params = strings.Replace(strings.Replace(params, "{", `{"unused":"show",`, 1), ",}", "}", 1)
		}
		list, problem := rpcCall[ThreadListResult](d, "thread/list", params)
		if problem != nil {
			t.Errorf("%s: %v", params, problem)
		} else if diff := cmp.Diff(want, idsOf(list.Data)); diff != "" {
			t.Errorf("%s:\n%s", params, diff)
		}
	}
	if list, _ := rpcCall[ThreadListResult](d, "thread/list", `{}`); len(list.Data) != 1 {
		t.Errorf("JSON-RPC lists a thread in which nobody has said anything: %v", idsOf(list.Data))
	}
	if diff := cmp.Diff([]string{a, b}, idsOf(call[ThreadListResult](d, 200, "GET", "/v1/threads", "").Data)); diff != "" {
		t.Errorf("over REST:\n%s", diff)
	}
	if diff := cmp.Diff([]string{b}, idsOf(call[ThreadListResult](d, 200, "GET", "/v1/threads?cwd=/b&sortKey=created_at", "").Data)); diff != "" {
		t.Errorf("over REST, by folder:\n%s", diff)
	}
	loaded, _ := rpcCall[ThreadLoadedResult](d, "thread/loaded/list", `{"limit":1}`)
	if len(loaded.Data) != 1 || loaded.NextCursor == nil {
		t.Fatalf("loaded: %+v", loaded)
	}
	rest, _ := rpcCall[ThreadLoadedResult](d, "thread/loaded/list", `{"cursor":"`+*loaded.NextCursor+`"}`)
	both := append(loaded.Data, rest.Data...)
	slices.Sort(both)
	want := []string{a, b}
	slices.Sort(want)
	if diff := cmp.Diff(want, both); diff != "" || rest.NextCursor != nil {
		t.Errorf("loaded: %s", diff)
	}
}

func TestTheQueueIsListedAndShortened(t *testing.T) {
	d := open(t)
	id := d.newThread("puppet")
	path := "/v1/threads/" + id
	first := call[TurnStartResult](d, 202, "POST", path+"/turns", `{"input":"one"}`)
	for _, s := range []string{"two", "three"} {
		call[TurnStartResult](d, 202, "POST", path+"/turns", `{"input":"`+s+`"}`)
	}
	page := call[QueueListResult](d, 200, "GET", path+"/queue?limit=1", "")
	if len(page.Data) != 1 || *page.Data[0].Input[0].Text != "two" || page.NextCursor == nil {
		t.Fatalf("queue: %+v", page)
	}
	second := call[QueueListResult](d, 200, "GET", path+"/queue?cursor="+*page.NextCursor, "")
	if len(second.Data) != 1 || *second.Data[0].Input[0].Text != "three" || second.NextCursor != nil {
		t.Errorf("second page: %+v", second)
	}
	for _, e := range append(page.Data, second.Data...) {
		for _, want := range []bool{true, false} {
			if got := call[QueueDeleteResult](d, 200, "DELETE", path+"/queue/"+e.ID, ""); got.Deleted != want {
				t.Errorf("delete %s: %v, want %v", e.ID, got.Deleted, want)
			}
		}
	}
	d.puppet.say(t, done())
	d.settled(id, first.Turn.ID)
	if th := call[ThreadReadResult](d, 200, "GET", path, "").Thread; th.Plimsoll.Turns != 1 || th.Plimsoll.Queued != 0 {
		t.Errorf("deleted inputs became turns: %+v", th.Plimsoll)
	}
}

// A tool of the client is asked for on every door and answered on any: here all
// of it is REST.
func TestAToolOfTheClientIsAnsweredOverREST(t *testing.T) {
	d := open(t)
	id := call[ThreadStartResult](d, 201, "POST", "/v1/threads", `{"modelProvider":"puppet","cwd":"/w","dynamicTools":[
		{"type":"namespace","name":"port","description":"d","tools":[{"type":"function","name":"depth","description":"d","inputSchema":{"type":"object"}}]}]}`).Thread.ID
	path := "/v1/threads/" + id
	turn := call[TurnStartResult](d, 202, "POST", path+"/turns", `{"input":"How deep?"}`)
	d.puppet.say(t, adapters.CallChunk{Call: transcriptCall("c-1", "port__depth", `{"at":"quay"}`)}, adapters.Done{Stop: adapters.StopTools})
	asked := awaitEvent[threads.RequestCreated](d, id)
	list := call[RequestListResult](d, 200, "GET", path+"/requests", "")
	if len(list.Data) != 1 || list.Data[0].ID != string(asked.Request.ID) || list.Data[0].Method != "item/tool/call" {
		t.Fatalf("requests: %+v", list)
	}
	answer := path + "/requests/" + list.Data[0].ID + "/answer"
	for _, bad := range []string{`{}`, `{"result":{"decision":"accept"}}`, `{"result":{}}`, `{"result":{"contentItems":[]},"error":"x"}`} {
		d.problem(400, "POST", answer, bad)
	}
	call[Empty](d, 200, "POST", answer, `{"result":{"contentItems":[{"type":"inputText","text":"42 fathoms"},{"type":"inputImage"}],"success":true}}`)
	late := d.problem(409, "POST", answer, `{"result":{"contentItems":[],"success":true}}`)
	if data, _ := late.Data.(map[string]any); late.Code != fault.Conflict || data["kind"] != "alreadyResolved" {
		t.Errorf("a late answer: %+v", late)
	}
	d.problem(404, "POST", path+"/requests/none/answer", `{"error":"x"}`)
	d.puppet.say(t, text("Deep."), done())
	d.settled(id, turn.Turn.ID)
	items := call[ItemListResult](d, 200, "GET", path+"/items", "")
	i := slices.IndexFunc(items.Data, func(e ItemEntry) bool { _, ok := e.Item.ItemVariant.(protocol.DynamicToolCallItem); return ok })
	out := *items.Data[i].Item.ItemVariant.(protocol.DynamicToolCallItem).ContentItems
	if len(out) != 2 || *out[0].Text != "42 fathoms" || !strings.Contains(*out[1].Text, "left out") {
		t.Errorf("output: %+v", out)
	}
}

// fleeting opens a door that has ephemeral threads, and a provider of titles.
func fleeting(t *testing.T) *door {
	svc, err := threads.Open(t.Context(), threads.Config{
		Journal: mem.New(),
		Providers: []threads.Provider{
			{Name: "offline", Kind: "offline", Adapter: agent.New(offline.New())},
			{Name: providerTitle, Kind: "title", Adapter: agent.New(offline.New())},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := svc.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return open(t, func(o *Options) { o.Ephemeral = svc })
}

func TestAnEphemeralThreadIsLikeAnyOtherAndNotListed(t *testing.T) {
	d := fleeting(t)
	a := call[ThreadStartResult](d, 201, "POST", "/v1/threads", `{"ephemeral":true,"cwd":"/w"}`)
	id := a.Thread.ID
	if !a.Thread.Ephemeral || a.ModelProvider != "offline" {
		t.Errorf("started: %+v", a)
	}
	r := call[TurnStartResult](d, 202, "POST", "/v1/threads/"+id+"/turns", `{"input":"hello"}`)
	awaitEvent[threads.TurnCompleted](d, id)
	if th := call[ThreadReadResult](d, 200, "GET", "/v1/threads/"+id+"?includeTurns=true", "").Thread; !th.Ephemeral || len(th.Turns) != 1 || th.Turns[0].ID != r.Turn.ID {
		t.Errorf("read: %+v", th)
	}
	if list := call[ThreadListResult](d, 200, "GET", "/v1/threads", ""); len(list.Data) != 0 {
		t.Errorf("listed: %+v", list.Data)
	}
	if loaded, _ := rpcCall[ThreadLoadedResult](d, "thread/loaded/list", `{}`); !slices.Contains(loaded.Data, id) {
		t.Errorf("not among the loaded: %+v", loaded)
	}
	if err := d.server.forget(t.Context(), transcript.ThreadID(id)); err != nil {
		t.Fatal(err)
	}
	d.problem(404, "GET", "/v1/threads/"+id, "")
	if kept := d.newThread("offline"); d.server.forget(t.Context(), transcript.ThreadID(kept)) != nil || call[ThreadReadResult](d, 200, "GET", "/v1/threads/"+kept, "").Thread.Ephemeral {
		t.Error("a thread that is to be kept was forgotten")
	}
}

func TestThreadsThatFindATitleRunWhereTitlesAreFound(t *testing.T) {
	d := fleeting(t)
	start := `{"ephemeral":true,"threadSource":"thread_title","approvalPolicy":"never","permissions":":read-only","dynamicTools":[],"environments":[],"config":{"features.x":false}}`
	title, problem := rpcCall[ThreadStartResult](d, "thread/start", start)
	if problem != nil || title.ModelProvider != providerTitle || *title.Thread.ThreadSource != "thread_title" || title.ApprovalPolicy != "never" {
		t.Fatalf("started: %+v, %v", title, problem)
	}
	turn := `{"threadId":"%t","input":[{"type":"text","text":"x"}],"outputSchema":{"type":"object"}}`
	if _, problem := rpcCall[TurnStartResult](d, "turn/start", ids(turn, title.Thread.ID, "")); problem != nil {
		t.Errorf("a title with a schema: %v", problem)
	}
	awaitEvent[threads.TurnCompleted](d, title.Thread.ID)
	if _, problem := rpcCall[TurnStartResult](d, "turn/start", ids(turn, d.newThread("offline"), "")); problem == nil || !strings.Contains(problem.Message, "outputSchema") {
		t.Errorf("any other turn with a schema: %v", problem)
	}
}

func TestEphemeralThreadsAreRefusedWhereThereAreNone(t *testing.T) {
	if p := open(t).problem(400, "POST", "/v1/threads", `{"ephemeral":true}`); !strings.Contains(p.Detail, "ephemeral") {
		t.Error(p.Detail)
	}
}

// The texts are codex's where it has one.
func TestProblemsOnJSONRPC(t *testing.T) {
	d := open(t)
	id := d.newThread("puppet")
	turn := call[TurnStartResult](d, 202, "POST", "/v1/threads/"+id+"/turns", `{"input":"one"}`).Turn.ID
	for _, c := range []struct {
		method, params string
		code           int64
		message        string
	}{
		{"thread/read", `{"threadId":"` + someThread + `"}`, -32600, "thread not loaded: " + someThread},
		{"thread/turns/list", `{"threadId":"` + someThread + `"}`, -32600, "thread not loaded: " + someThread},
		{"thread/resume", `{"threadId":"` + someThread + `"}`, -32600, "no rollout found for thread id " + someThread},
		{"thread/fork", `{"threadId":"` + someThread + `"}`, -32600, "no rollout found for thread id " + someThread},
		{"thread/unarchive", `{"threadId":"` + someThread + `"}`, -32600, "no archived rollout found for thread id " + someThread},
		{"thread/compact/start", `{"threadId":"` + someThread + `"}`, -32600, "thread not found: " + someThread},
		{"turn/start", `{"threadId":"` + someThread + `","input":[{"type":"text","text":"x"}]}`, -32600, "thread not found: " + someThread},
		{"turn/steer", `{"threadId":"` + someThread + `","input":[{"type":"text","text":"x"}],"expectedTurnId":"x"}`, -32600, "thread not found: " + someThread},
		{"turn/interrupt", `{"threadId":"` + id + `","turnId":"other"}`, -32600, "no active turn to interrupt"},
		{"turn/steer", `{"threadId":"` + id + `","input":[{"type":"text","text":"x"}],"expectedTurnId":"other"}`, -32600, "expected active turn id `other` but found `" + turn + "`"},
		{"thread/revert", `{"threadId":"` + d.newThread("offline") + `","beforeTurnId":"other"}`, -32600, "turn not found: other"},
		{"thread/name/set", `{"threadId":"` + id + `","name":""}`, -32600, "thread name must not be empty"},
		{"thread/list", `{"cursor":"zzz"}`, -32600, "invalid cursor: zzz"},
		{"thread/metadata/update", `{"threadId":"` + id + `","gitInfo":{}}`, -32600, "gitInfo must include at least one field"},
		{"thread/turns/read", `{"threadId":"` + someThread + `","turnId":"x"}`, -32600, "thread " + someThread + " does not exist"},
		{"thread/archive", `{"threadId":"` + id + `"}`, -32600, "thread " + id + " is at work; interrupt it, or wait until it is idle"},
	} {
		_, got := rpcCall[json.RawMessage](d, c.method, c.params)
		if got == nil || got.Code != c.code || got.Message != c.message || !strings.Contains(got.Data, `"code"`) {
			t.Errorf("%s %s: %+v\nwant %d %s", c.method, c.params, got, c.code, c.message)
		}
	}
	for code, want := range map[fault.Code]problemOfRPC{
		fault.Overloaded:  {-32001, "Server overloaded; retry later.", ""},
		fault.Internal:    {-32603, "m", `{"code":"internal"}`},
		fault.Unavailable: {-32603, "m", `{"code":"unavailable"}`},
		fault.Refused:     {-32600, "m", `{"code":"refused"}`},
	} {
		e := d.server.rpcProblem(t.Context(), method{}, nil, fault.New(code, "m"))
		if diff := cmp.Diff(want, problemOfRPC{e.Code, e.Message, string(e.Data)}); diff != "" {
			t.Errorf("%s:\n%s", code, diff)
		}
	}
	e := d.server.rpcProblem(t.Context(), method{}, nil, &fault.Error{Code: fault.Busy, Message: "m", Data: threads.NotSteerable{TurnKind: transcript.TurnCompact}})
	want := `{"additionalDetails":null,"codexErrorInfo":{"activeTurnNotSteerable":{"turnKind":"compact"}},"message":"cannot steer a compact turn","misalignment":null}`
	if e.Code != -32600 || e.Message != "cannot steer a compact turn" || string(e.Data) != want {
		t.Errorf("steer of a compaction: %+v %s", e, e.Data)
	}
}

func TestAModelIsAlwaysListed(t *testing.T) {
	list := codexModels(threads.ProviderInfo{Name: "dead", Error: "it does not answer"})
	if len(list) != 1 || !list[0].IsDefault || list[0].Description != "it does not answer" {
		t.Errorf("%+v", list)
	}
	if got := listed(list[0].Model); got != "" {
		t.Errorf("its name, sent back, means the model %q", got)
	}
}

func TestAPersonsCommandIsNotRunAndSaidSo(t *testing.T) {
	d := open(t)
	id := d.newThread("offline")
	if _, problem := rpcCall[Empty](d, "thread/shellCommand", `{"threadId":"`+id+`","command":"ls"}`); problem != nil {
		t.Fatal(problem)
	}
	if c := awaitEvent[threads.TurnCompleted](d, id); c.Turn.Status != transcript.TurnFailed || !strings.Contains(c.Turn.Error.Message, "was not run") {
		t.Errorf("%+v", c.Turn)
	}
}

func TestRPCOnlyMethodsHaveNoRoute(t *testing.T) {
	d := open(t)
	if a := d.exchange(d.request(http.MethodPost, "/v1/threads/"+d.newThread("offline")+"/resume", `{}`)); a.status != 404 {
		t.Errorf("status %d", a.status)
	}
}
