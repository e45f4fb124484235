package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/api/codexschema"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A witness calls methods as JSON-RPC does and lets codex's schema judge what it
// asks and what it is answered.
type witness struct {
	*door
	schema *codexschema.Schema
	asked  map[string]bool
}

func witnessOf(t *testing.T, change ...func(*Options)) *witness {
	s := codexschema.Load(t)
	return &witness{open(t, change...), s, map[string]bool{}}
}

// ask calls a method with params, which may be empty, and decodes its result.
func (w *witness) ask(method, params string, into any) {
	w.t.Helper()
	result, err := w.try(method, params)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, params, err)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(result, into); err != nil {
		w.t.Fatalf("%s: decode %s: %v", method, result, err)
	}
}

func (w *witness) try(method, params string) (json.RawMessage, error) {
	w.t.Helper()
	m, ok := methodNamed(method)
	if !ok {
		w.t.Fatalf("no method %s", method)
	}
	w.asked[method] = true
	request := fmt.Sprintf(`{"id":1,"method":%q,"params":%s}`, method, params)
	if params == "" {
		request = fmt.Sprintf(`{"id":1,"method":%q}`, method)
	}
	if err := w.schema.Validate(codexschema.FromClient, []byte(request), ""); err != nil {
		w.t.Errorf("%s: the request: %v", method, err)
	}
	p, err := decodeRPC(m, json.RawMessage(params), true)
	if err != nil {
		return nil, err
	}
	ctx := withClient(w.t.Context(), "witness")
	result, err := m.call(w.server, ctx, p)
	if err != nil {
		problem := w.server.rpcProblem(ctx, m, p, err)
		w.judge(mustEncode(w.t, map[string]any{"id": 1, "error": problem}), method)
		return nil, problem
	}
	b := mustEncode(w.t, result)
	w.judge(`{"id":1,"result":`+b+`}`, method)
	return json.RawMessage(b), nil
}

func (w *witness) judge(frame, method string) {
	w.t.Helper()
	if err := w.schema.Validate(codexschema.FromServer, []byte(frame), method); err != nil {
		w.t.Errorf("%s: %v", method, err)
	}
}

// params writes parameters; %t stands for a thread, %u for a turn.
func ids(format, thread, turn string) string {
	return strings.NewReplacer("%t", thread, "%u", turn).Replace(format)
}

// lived is a thread that has seen everything that the offline provider can do.
func (w *witness) lived() (thread, turn string) {
	w.t.Helper()
	var started ThreadStartResult
	w.ask("thread/start", `{"cwd":"/w","threadSource":"user","ephemeral":false,"historyMode":"paginated","config":{},"sandbox":"workspace-write",
		"dynamicTools":[{"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"f","description":"d","inputSchema":{"type":"object"}}]},
		{"type":"function","name":"g","description":"d","inputSchema":{"type":"object"},"deferLoading":true}]}`, &started)
	thread = started.Thread.ID
	for _, said := range []string{"The harbour is at /srv/harbour.", "What did I say about the harbour?"} {
		w.turn(thread, said)
	}
	w.ask("thread/compact/start", ids(`{"threadId":"%t","wait":true}`, thread, ""), nil)
	return thread, w.turn(thread, "Where is the harbour?").Turn.ID
}

func TestEveryResultIsOneOfCodex(t *testing.T) {
	w := witnessOf(t)
	thread, turn := w.lived()
	page := `"limit":2,"sortDirection":"asc","cursor":null`
	for _, c := range []struct{ method, params string }{
		{"thread/read", `{"threadId":"%t"}`},
		{"thread/read", `{"threadId":"%t","includeTurns":true}`},
		{"thread/list", `{"limit":25,"sortKey":"updated_at","sourceKinds":["cli","vscode"],"archived":false,"cwd":["/w"],"searchTerm":"harbour","useStateDbOnly":true}`},
		{"thread/list", `{"sectionId":"x","sortKey":"section_position"}`},
		{"thread/list", `{"ancestorThreadId":"%t","sourceKinds":["subAgentThreadSpawn"]}`},
		{"thread/loaded/list", `{}`},
		{"thread/turns/list", `{"threadId":"%t"}`},
		{"thread/turns/list", `{"threadId":"%t","itemsView":"full",` + page + `}`},
		{"thread/turns/list", `{"threadId":"%t","itemsView":"notLoaded"}`},
		{"thread/turns/read", `{"threadId":"%t","turnId":"%u"}`},
		{"thread/items/list", `{"threadId":"%t"}`},
		{"thread/items/list", `{"threadId":"%t","turnId":"%u",` + page + `}`},
		{"thread/resume", `{"threadId":"%t"}`},
		{"thread/resume", `{"threadId":"%t","excludeTurns":true,"initialTurnsPage":{"limit":1},"approvalPolicy":"never"}`},
		{"thread/fork", `{"threadId":"%t","lastTurnId":"%u","excludeTurns":true}`},
		{"thread/fork", `{"threadId":"%t","beforeTurnId":"%u"}`},
		{"thread/name/set", `{"threadId":"%t","name":"Harbour"}`},
		{"thread/archive", `{"threadId":"%t"}`},
		{"thread/unarchive", `{"threadId":"%t"}`},
		{"thread/settings/update", `{"threadId":"%t","permissions":":read-only","effort":"low","collaborationMode":{"mode":"default","settings":{"model":"offline-extractive","reasoning_effort":null,"developer_instructions":null}}}`},
		{"thread/metadata/update", `{"threadId":"%t","gitInfo":{"branch":"main","sha":null}}`},
		{"thread/inject_items", `{"threadId":"%t","items":[{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}]}`},
		{"thread/queue/list", `{"threadId":"%t"}`},
		{"thread/queue/delete", `{"threadId":"%t","queuedSubmissionId":"none"}`},
		{"thread/request/list", `{"threadId":"%t"}`},
		{"thread/compact/list", `{"threadId":"%t"}`},
		{"thread/context/read", `{"threadId":"%t"}`},
		{"thread/context/search", `{"threadId":"%t","query":"harbour","limit":3}`},
		{"thread/compact/preview", `{"threadId":"%t","route":"local","budget":5000}`},
		{"thread/pin/add", `{"threadId":"%t","text":"The harbour is closed on Sundays."}`},
		{"thread/pin/list", `{"threadId":"%t"}`},
		{"thread/events/read", `{"threadId":"%t"}`},
		{"thread/shellCommand", `{"threadId":"%t","command":"ls"}`},
		{"thread/goal/get", `{"threadId":"%t"}`},
		{"thread/backgroundTerminals/list", `{"threadId":"%t"}`},
		{"thread/attachment/list", `{"threadId":"%t"}`},
		{"thread/revert", `{"threadId":"%t","beforeTurnId":"%u"}`},
		{"events/read", `{}`},
		{"provider/list", `{}`},
		{"account/read", `{}`},
		{"account/read", `{"refreshToken":false}`},
		{"model/list", `{"includeHidden":true}`},
		{"model/list", `{"modelProvider":"puppet","limit":1}`},
		{"config/read", `{"cwd":".","includeLayers":true}`},
		{"configRequirements/read", ``},
		{"skills/list", `{"cwds":["/w"],"forceReload":true}`},
		{"hooks/list", `{"cwds":["/w"]}`},
		{"collaborationMode/list", `{}`},
		{"plugin/installed", `{}`},
		{"plugin/list", `{}`},
		{"app/list", `{}`},
		{"app/installed", `{}`},
		{"mcpServerStatus/list", `{}`},
		{"permissionProfile/list", `{}`},
		{"experimentalFeature/list", `{}`},
		{"threadSection/list", `{}`},
		{"project/list", `{}`},
		{"account/bedrock/checkGovCloudRequirements", `{}`},
		{"thread/delete", `{"threadId":"%t"}`},
	} {
		w.ask(c.method, ids(c.params, thread, turn), nil)
	}
	for _, m := range methods {
		elsewhere := map[string]bool{ // each has a test of its own
			"turn/start": true, "turn/steer": true, "turn/interrupt": true, "thread/compact/read": true, "thread/request/answer": true,
			"thread/compact/cancel": true, "thread/compact/undo": true, "thread/pin/remove": true,
		}
		if m.call != nil && !w.asked[m.name] && !elsewhere[m.name] && !isConnection(m.name) {
			t.Errorf("%s was not asked", m.name)
		}
	}
}

func isConnection(name string) bool {
	for _, m := range connectionMethods {
		if m.name == name {
			return true
		}
	}
	return false
}

func TestTheResultsOfARunningTurnAreThoseOfCodex(t *testing.T) {
	w := witnessOf(t)
	thread := w.newThread("puppet")
	var turn TurnStartResult
	w.ask("turn/start", ids(`{"threadId":"%t","clientUserMessageId":"m","approvalPolicy":"on-request","cwd":"/w","model":"puppet-1","turnTrigger":"user","runtimeWorkspaceRoots":["/w"],
		"collaborationMode":{"mode":"default","settings":{"model":"puppet-1","reasoning_effort":null,"developer_instructions":null}},
		"input":[{"type":"text","text":"Go","text_elements":[]}]}`, thread, ""), &turn)
	w.puppet.say(t, text("I am"))
	var again TurnStartResult
	w.ask("turn/start", ids(`{"threadId":"%t","input":[{"type":"text","text":"faster","text_elements":[]}]}`, thread, ""), &again)
	if again.Turn.ID != turn.Turn.ID || !again.Steered {
		t.Errorf("a second turn/start went to %s, steered %v; want %s", again.Turn.ID, again.Steered, turn.Turn.ID)
	}
	var steered TurnSteerResult
	w.ask("turn/steer", ids(`{"threadId":"%t","expectedTurnId":"%u","input":[{"type":"text","text":"still","text_elements":[]}]}`, thread, turn.Turn.ID), &steered)
	if steered.TurnID != turn.Turn.ID {
		t.Errorf("steered %s, want %s", steered.TurnID, turn.Turn.ID)
	}
	_, err := w.try("turn/steer", ids(`{"threadId":"%t","expectedTurnId":"other","input":[{"type":"text","text":"x","text_elements":[]}]}`, thread, ""))
	if want := "expected active turn id `other` but found `" + turn.Turn.ID + "`"; err == nil || err.Error() != want {
		t.Errorf("steer of another turn: %v, want %s", err, want)
	}
	w.ask("turn/start", ids(`{"threadId":"%t","mode":"queue","input":[{"type":"text","text":"later","text_elements":[]}]}`, thread, ""), nil)
	var queue QueueListResult
	w.ask("thread/queue/list", ids(`{"threadId":"%t","limit":10}`, thread, ""), &queue)
	if len(queue.Data) != 1 {
		t.Fatalf("queue: %+v", queue)
	}
	var gone QueueDeleteResult
	w.ask("thread/queue/delete", ids(`{"threadId":"%t","queuedSubmissionId":"%u"}`, thread, queue.Data[0].ID), &gone)
	var resumed ThreadResumeResult
	w.ask("thread/resume", ids(`{"threadId":"%t"}`, thread, ""), &resumed)
	if !gone.Deleted || resumed.Thread.Status.Type != "active" || len(resumed.Thread.Turns) != 1 {
		t.Errorf("deleted %v; resumed %+v", gone.Deleted, resumed.Thread)
	}
	w.ask("turn/interrupt", ids(`{"threadId":"%t","turnId":"%u"}`, thread, turn.Turn.ID), nil)
	w.settled(thread, turn.Turn.ID)
	w.history(thread)
}

// history lets codex judge every notification of a thread.
func (w *witness) history(thread string) {
	w.t.Helper()
	evs, _, err := w.svc.ReadEvents(w.t.Context(), transcript.ThreadID(thread), nil, maxPage)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range evs {
		frame, err := w.server.encodeEvent(e)
		if err != nil {
			w.t.Fatal(err)
		}
		w.judge(string(frame), "")
	}
}

func TestTheHistoryOfAThreadIsOneOfCodex(t *testing.T) {
	w := witnessOf(t)
	thread, _ := w.lived()
	w.history(thread)
	var list CompactionListResult
	w.ask("thread/compact/list", ids(`{"threadId":"%t"}`, thread, ""), &list)
	w.ask("thread/compact/read", ids(`{"threadId":"%t","compactionId":"%u"}`, thread, string(list.Data[0].CompactionID)), nil)
}

func TestEveryNotificationIsOneOfCodex(t *testing.T) {
	s := codexschema.Load(t)
	judge := func(name string, n protocol.Notification) {
		t.Helper()
		if err := s.Validate(codexschema.FromServer, []byte(mustEncode(t, n)), ""); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	told := map[string]bool{}
	for _, c := range wireForms() {
		n, err := testAPI.notification(event(t, c.payload))
		if err != nil {
			t.Fatal(err)
		}
		told[n.Method] = true
		judge(c.name, n)
	}
	for _, body := range []transcript.Body{transcript.AgentMessage{}, transcript.Reasoning{}} {
		e := event(t, threads.ItemStarted{Item: item("i-1", body)})
		o, err := openedBy(&e)
		if err != nil {
			t.Fatal(err)
		}
		n, err := o.delta(events.Delta{Item: "i-1", Text: "x", Offset: 3})
		if err != nil {
			t.Fatal(err)
		}
		told[n.Method] = true
		judge("delta of "+string(body.Kind()), n)
	}
	for method, params := range map[string]any{
		methodStreamLive: protocol.StreamLiveParams{Cursor: "a.1"}, methodStreamReset: protocol.StreamResetParams{Reason: "ahead", Cursor: "a.0"},
	} {
		n, err := message(method, params, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		told[method] = true
		judge(method, n)
	}
	for _, n := range Notifications() {
		if !told[n.Method] {
			t.Errorf("%s was not judged", n.Method)
		}
	}
}

func TestEveryVariantOfAnItemIsOneOfCodex(t *testing.T) {
	s := codexschema.Load(t)
	seen := map[string]bool{}
	for _, c := range wireForms() {
		var it transcript.Item
		switch p := c.payload.(type) {
		case threads.ItemStarted:
			it = p.Item
		case threads.ItemCompleted:
			it = p.Item
		default:
			continue
		}
		w, shown := wireItem(it, nil)
		if !shown {
			continue
		}
		entry := mustEncode(t, ItemListResult{Data: []ItemEntry{{TurnID: "u", Item: w}}})
		if err := s.Validate(codexschema.FromServer, []byte(`{"id":1,"result":`+entry+`}`), "thread/items/list"); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var head struct{ Type string }
		if err := json.Unmarshal([]byte(mustEncode(t, w)), &head); err != nil {
			t.Fatal(err)
		}
		seen[head.Type] = true
	}
	seen["userMessage"] = true // every history of a thread has some
	for _, v := range protocol.ItemVariants() {
		b := mustEncode(t, protocol.ThreadItem{ItemVariant: v})
		var head struct{ Type string }
		if err := json.Unmarshal([]byte(b), &head); err == nil && head.Type != "" && !seen[head.Type] {
			t.Errorf("no item of type %s was judged", head.Type)
		}
	}
	if len(seen) != len(protocol.ItemVariants()) {
		t.Errorf("%d types were judged, there are %d: %v", len(seen), len(protocol.ItemVariants()), seen)
	}
}

func TestEveryRequestOfTheServerIsOneOfCodex(t *testing.T) {
	s := codexschema.Load(t)
	n := 0
	for _, c := range wireForms() {
		p, ok := c.payload.(threads.RequestCreated)
		if !ok {
			continue
		}
		n++
		r, err := wireRequest("t-1", p.Request)
		if err != nil {
			t.Fatal(err)
		}
		frame := mustEncode(t, map[string]any{"id": r.ID, "method": r.Method, "params": r.Params})
		if err := s.Validate(codexschema.FromServer, []byte(frame), ""); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if n != 3 {
		t.Errorf("%d requests were judged, want one of each method", n)
	}
}

// Whatever codex's schema allows as an answer is understood.
func TestEveryAnswerOfAClientIsUnderstood(t *testing.T) {
	s := codexschema.Load(t)
	for _, c := range []struct {
		method, result string
		want           threads.RequestAnswer
	}{
		{threads.AskCommand, `{"decision":"accept"}`, threads.RequestAnswer{Decision: adapters.Accept}},
		{threads.AskCommand, `{"decision":"acceptForSession"}`, threads.RequestAnswer{Decision: adapters.AcceptForSession}},
		{threads.AskCommand, `{"decision":"decline"}`, threads.RequestAnswer{Decision: adapters.Decline}},
		{threads.AskCommand, `{"decision":"cancel"}`, threads.RequestAnswer{Decision: adapters.Cancel}},
		{
			threads.AskCommand, `{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["rm"]}}}`,
			threads.RequestAnswer{Decision: adapters.Accept, Amendment: []byte(`{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["rm"]}}`)},
		},
		{
			threads.AskCommand, `{"decision":{"applyNetworkPolicyAmendment":{"network_policy_amendment":{"host":"h","action":"deny"}}}}`,
			threads.RequestAnswer{Decision: adapters.Decline, Amendment: []byte(`{"applyNetworkPolicyAmendment":{"network_policy_amendment":{"host":"h","action":"deny"}}}`)},
		},
		{threads.AskFile, `{"decision":"acceptForSession"}`, threads.RequestAnswer{Decision: adapters.AcceptForSession}},
		{threads.AskTool, `{"contentItems":[{"type":"inputText","text":"out"}],"success":false}`, threads.RequestAnswer{Output: transcript.TextParts("out"), IsError: true}},
	} {
		if err := s.Validate(codexschema.FromClient, []byte(`{"id":"r","result":`+c.result+`}`), c.method); err != nil {
			t.Errorf("%s: %v", c.result, err)
		}
		var r RequestResult
		if err := lenientInto(json.RawMessage(c.result), &r); err != nil {
			t.Errorf("%s: %v", c.result, err)
			continue
		}
		got, err := r.answer(c.method)
		if items := r.ContentItems; items != nil {
			got.Output, got.Images = toolOutput(t.Context(), nil, *items)
		}
		if err != nil || mustEncode(t, got) != mustEncode(t, c.want) {
			t.Errorf("%s: understood as %s, %v; want %s", c.result, mustEncode(t, got), err, mustEncode(t, c.want))
		}
	}
}

func TestWhatIsNoAnswerIsRefused(t *testing.T) {
	for _, c := range []struct{ method, result string }{
		{threads.AskCommand, `{}`},
		{threads.AskCommand, `{"decision":"yes"}`},
		{threads.AskCommand, `{"decision":null}`},
		{threads.AskCommand, `{"decision":{"acceptWithExecpolicyAmendment":{}}}`},
		{threads.AskCommand, `{"decision":{"applyNetworkPolicyAmendment":{"network_policy_amendment":{"host":"h","action":"?"}}}}`},
		{threads.AskCommand, `{"contentItems":[]}`},
		{threads.AskTool, `{"decision":"accept"}`},
		{threads.AskTool, `{"success":true}`},
		{threads.AskTool, `{"contentItems":[{"type":"outputText"}]}`},
		{threads.AskTool, `[]`},
	} {
		var r RequestResult
		err := lenientInto(json.RawMessage(c.result), &r)
		if err == nil {
			_, err = r.answer(c.method)
		}
		if err == nil {
			t.Errorf("%s: %s was understood", c.method, c.result)
		}
	}
}
