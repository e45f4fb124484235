package threads_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// closing counts the sessions that were closed.
type closing struct {
	adapters.Session
	n *atomic.Int64
}

func (c closing) Close() error {
	c.n.Add(1)
	return c.Session.Close()
}

// twoProviders has a second provider with another window.
func twoProviders(second *puppet, closed *atomic.Int64) func(*threads.Config) {
	return func(c *threads.Config) {
		first := c.Providers[0].Adapter
		c.Providers[0].Adapter = wrapped{first, func(s adapters.Session) adapters.Session { return closing{s, closed} }}
		c.Providers = append(c.Providers, threads.Provider{Name: "second", Kind: "puppet", Adapter: agent.New(second)})
	}
}

func TestAnotherModelAnswersFromTheNextTurnOn(t *testing.T) {
	second := newPuppet()
	second.window = 5000
	var closed atomic.Int64
	b := newBench(t, twoProviders(second, &closed))
	id := b.create()
	ack := b.start(id, "one")
	r := b.request()
	set, err := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Provider: new("second")})
	if err != nil || set.Provider != "second" || set.Model != "puppet" {
		t.Fatalf("settings %+v, %v", set, err)
	}
	r.answer(t, "first model") // the turn that runs ends as it began
	b.await(id, ended(ack.Turn.ID))
	for _, p := range b.payloads(id) {
		if u, ok := p.(threads.UsageUpdated); ok && u.Window != b.puppet.window {
			t.Errorf("the turn that ran on reports a window of %d", u.Window)
		}
	}
	ack = b.start(id, "two")
	select {
	case r = <-second.requests:
	case <-b.puppet.requests:
		t.Fatal("the first model was asked again")
	}
	if got := strings.Join(r.texts(), "\n"); !strings.Contains(got, "first model") {
		t.Errorf("the second model reads:\n%s", got)
	}
	r.answer(t, "second model")
	b.await(id, ended(ack.Turn.ID))
	if n := closed.Load(); n != 1 {
		t.Errorf("%d sessions of the first provider were closed, want 1", n)
	}
	if th := b.read(id); th.Occupancy.Window != 5000 {
		t.Errorf("window %d, want the second model's", th.Occupancy.Window)
	}
}

// A turn that goes on for an input that came late ends with the model it began with.
func TestAnotherModelDoesNotTakeATurnOver(t *testing.T) {
	end := make(chan struct{})
	second := newPuppet()
	b := newBench(t, func(c *threads.Config) { c.Providers[0].Adapter = lateAdapter{c.Providers[0].Adapter, end} }, twoProviders(second, new(atomic.Int64)))
	id := b.create()
	ack := b.start(id, "first")
	b.request().answer(t, "1")
	<-end // the model is done, the turn is not
	_, err1 := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Provider: new("second")})
	_, err2 := b.svc.SteerTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("more")}, ack.Turn.ID)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	end <- struct{}{}
	select {
	case r := <-b.puppet.requests:
		r.answer(t, "2")
	case <-second.requests:
		t.Fatal("the second model took the turn over")
	}
	<-end
	end <- struct{}{}
	b.await(id, ended(ack.Turn.ID))
	next := b.start(id, "second")
	(<-second.requests).answer(t, "3")
	b.await(id, ended(next.Turn.ID))
}

func TestSettingsOfATurnStayAndCostNoCommitOfTheirOwn(t *testing.T) {
	b := newBench(t)
	id := b.create()
	patch := threads.SettingsPatch{ApprovalPolicy: new("never"), Effort: new("high"), Mode: new("plan"), Cwd: new("/w")}
	for i, want := range []int{1, 0} { // the second turn says what is so already
		n, commits := len(b.payloads(id)), b.journal.count()
		ack, err := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("go"), Settings: patch})
		if err != nil {
			t.Fatal(err)
		}
		b.request().answer(t, "ok")
		b.await(id, ended(ack.Turn.ID))
		if got := b.journal.count() - commits; got != 3 {
			t.Errorf("turn %d took %d commits, want 3", i, got)
		}
		changes := 0
		for _, p := range b.payloads(id)[n:] {
			if _, ok := p.(threads.SettingsUpdated); ok {
				changes++
			}
		}
		if changes != want {
			t.Errorf("turn %d told %d changes of settings, want %d", i, changes, want)
		}
	}
	got := b.read(id).Settings
	want := threads.Settings{Provider: "puppet", Model: "puppet", Cwd: "/w", ApprovalPolicy: "never", Sandbox: "read-only", Effort: "high", Mode: "plan"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	b.restart()
	if diff := cmp.Diff(want, b.read(id).Settings); diff != "" {
		t.Errorf("after a restart:\n%s", diff)
	}
	page, err := b.svc.ListThreads(t.Context(), threads.PageQuery{})
	if err != nil || page.Threads[0].Settings != want {
		t.Errorf("the listing says %+v, %v", page.Threads[0].Settings, err)
	}
}

func TestSettingsAreChangedByAQueuedAndASteeringInputToo(t *testing.T) {
	b := newBench(t)
	id := b.create()
	ack := b.start(id, "one")
	r := b.request()
	_, err1 := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("two"), Settings: threads.SettingsPatch{Effort: new("low")}})
	_, err2 := b.svc.SteerTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("more"), Settings: threads.SettingsPatch{Mode: new("plan")}}, ack.Turn.ID)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if set := b.read(id).Settings; set.Effort != "low" || set.Mode != "plan" {
		t.Errorf("settings %+v", set)
	}
	r.answer(t, "1")
	b.request().answer(t, "more")
	b.await(id, ended(ack.Turn.ID))
	b.request().answer(t, "2")
}

func TestSettingsThatCannotBeChangeNothing(t *testing.T) {
	b := newBench(t)
	id := b.create()
	n := len(b.payloads(id))
	for name, c := range map[string]struct {
		p    threads.SettingsPatch
		says string
	}{
		"provider": {threads.SettingsPatch{Provider: new("x")}, "configured: puppet"},
		"model":    {threads.SettingsPatch{Model: new("x")}, "it has: puppet"},
		"cwd":      {threads.SettingsPatch{Cwd: new("relative")}, "absolute"},
		"policy":   {threads.SettingsPatch{ApprovalPolicy: new("always")}, "on-request, untrusted, never"},
		"sandbox":  {threads.SettingsPatch{Sandbox: new("none")}, "read-only, workspace-write"},
		"mode":     {threads.SettingsPatch{Mode: new("yolo")}, "default, plan"},
		"effort":   {threads.SettingsPatch{Effort: new(strings.Repeat("x", 65))}, "at most 64"},
	} {
		_, err1 := b.svc.UpdateSettings(t.Context(), id, c.p)
		_, err2 := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("x"), Settings: c.p})
		for _, err := range []error{err1, err2} {
			if fault.CodeOf(err) != fault.Invalid || !strings.Contains(fault.MessageOf(err), c.says) {
				t.Errorf("%s: %v, want invalid saying %q", name, err, c.says)
			}
		}
	}
	if _, err := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Mode: new("default"), Sandbox: new("")}); err != nil {
		t.Errorf("what is so already: %v", err)
	}
	if got := len(b.payloads(id)); got != n {
		t.Errorf("%d events were written", got-n)
	}
}

// A thread whose provider is gone can still be moved to another folder, or to a
// provider that is there.
func TestSettingsOfAThreadWhoseProviderIsGone(t *testing.T) {
	second := newPuppet()
	var closed atomic.Int64
	b := newBench(t, twoProviders(second, &closed))
	r, err := b.svc.CreateThread(t.Context(), threads.CreateParams{Settings: threads.Settings{Provider: "second"}})
	if err != nil {
		t.Fatal(err)
	}
	id := r.Thread.ID
	b.close()
	b.config.Providers = b.config.Providers[:1]
	b.open()
	if set, err := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Cwd: new("/elsewhere")}); err != nil || set.Provider != "second" {
		t.Errorf("another folder: %+v, %v", set, err)
	}
	if _, err := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Provider: new("puppet")}); err != nil {
		t.Error(err)
	}
	b.turn(id, "hello", "hi")
}

func TestNameIsSetTakenAwayAndListed(t *testing.T) {
	b := newBench(t)
	id := b.create()
	for _, name := range []string{"Port 4711", "Port 4711", ""} {
		if err := b.svc.SetName(t.Context(), id, name); err != nil {
			t.Fatal(err)
		}
		page, err := b.svc.ListThreads(t.Context(), threads.PageQuery{})
		if err != nil || page.Threads[0].Name != name || b.read(id).Name != name {
			t.Errorf("listed as %q, read as %q, %v", page.Threads[0].Name, b.read(id).Name, err)
		}
	}
	if n := len(b.payloads(id)); n != 3 {
		t.Errorf("%d events, want three: the same name again writes nothing", n)
	}
	for _, bad := range []string{strings.Repeat("x", 201), "\xff"} {
		if err := b.svc.SetName(t.Context(), id, bad); fault.CodeOf(err) != fault.Invalid {
			t.Errorf("name %.5q: %v, want invalid", bad, err)
		}
	}
	ack := b.start(id, "during a turn")
	r := b.request()
	if err := b.svc.SetName(t.Context(), id, "busy"); err != nil {
		t.Error(err)
	}
	r.answer(t, "ok")
	b.await(id, ended(ack.Turn.ID))
}

func TestArchivedThreadTakesNoInputUntilItIsBroughtBack(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	start := threads.StartTurnParams{Thread: id, Input: transcript.TextParts("x"), IdempotencyKey: "k"}
	ack, err := b.svc.StartTurn(t.Context(), start)
	if err != nil {
		t.Fatal(err)
	}
	r := b.request()
	if err := b.svc.Archive(t.Context(), id); fault.CodeOf(err) != fault.Busy {
		t.Errorf("archiving during a turn: %v, want busy", err)
	}
	r.answer(t, "y")
	b.await(id, ended(ack.Turn.ID))
	for range 2 {
		if err := b.svc.Archive(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	n := len(b.payloads(id))
	_, startErr := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("x")})
	_, compactErr := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id, Route: compaction.RouteLocal})
	injectErr := b.svc.InjectItems(t.Context(), id, []transcript.RawJSON{[]byte(`{}`)})
	for what, err := range map[string]error{"an input": startErr, "a compaction": compactErr, "an injection": injectErr} {
		if fault.CodeOf(err) != fault.Refused || !strings.Contains(err.Error(), "unarchive it first") {
			t.Errorf("%s on an archived thread: %v", what, err)
		}
	}
	if again, err := b.svc.StartTurn(t.Context(), start); err != nil || again.Turn.ID != ack.Turn.ID {
		t.Errorf("a key that was used before is answered with %+v, %v", again, err)
	}
	if len(b.payloads(id)) != n {
		t.Error("what was refused wrote something")
	}
	b.restart()
	for _, archived := range []bool{false, true} {
		page, err := b.svc.FindThreads(t.Context(), threads.ThreadQuery{Archived: archived})
		if err != nil || (len(page.Threads) == 1) != archived {
			t.Errorf("archived=%v: %d threads, %v", archived, len(page.Threads), err)
		}
	}
	for range 2 {
		back, err := b.svc.Unarchive(t.Context(), id)
		if err != nil || back.Thread.Archived {
			t.Errorf("brought back: %+v, %v", back.Thread, err)
		}
	}
	if got := strings.Count(b.log(id), "thread/archived") + strings.Count(b.log(id), "thread/unarchived"); got != 2 {
		t.Errorf("%d events about archiving, want 2", got)
	}
	b.turn(id, "go on", "yes")
}

func TestMetadataIsPatched(t *testing.T) {
	b := newBench(t)
	id := b.create()
	for _, c := range []struct {
		p    threads.MetadataPatch
		want *threads.GitInfo
	}{
		{threads.MetadataPatch{}, nil},
		{threads.MetadataPatch{SHA: new("abc"), Branch: new("main")}, &threads.GitInfo{SHA: "abc", Branch: "main"}},
		{threads.MetadataPatch{OriginURL: new("https://git.example/x")}, &threads.GitInfo{SHA: "abc", Branch: "main", OriginURL: "https://git.example/x"}},
		{threads.MetadataPatch{SHA: new("abc")}, &threads.GitInfo{SHA: "abc", Branch: "main", OriginURL: "https://git.example/x"}},
		{threads.MetadataPatch{SHA: new(""), Branch: new(""), OriginURL: new("")}, nil},
	} {
		r, err := b.svc.UpdateMetadata(t.Context(), id, c.p)
		if err != nil {
			t.Fatal(err)
		}
		page, err := b.svc.ListThreads(t.Context(), threads.PageQuery{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]*threads.GitInfo{c.want, c.want}, []*threads.GitInfo{r.Thread.Git, page.Threads[0].Git}); diff != "" {
			t.Error(diff)
		}
	}
	if n := len(b.payloads(id)); n != 4 {
		t.Errorf("%d events, want 4: what changes nothing writes nothing", n)
	}
	if _, err := b.svc.UpdateMetadata(t.Context(), id, threads.MetadataPatch{Branch: new(strings.Repeat("x", 1001))}); fault.CodeOf(err) != fault.Invalid {
		t.Errorf("a long branch: %v", err)
	}
}

func TestNewThreadSaysWhoMadeItAndWhatItCanCall(t *testing.T) {
	b := newBench(t)
	object := transcript.RawJSON(`{"type":"object"}`)
	r, err := b.svc.CreateThread(t.Context(), threads.CreateParams{
		Origin: threads.Origin{ForkedFrom: "made up", Client: "tui", Source: "user"}, Git: &threads.GitInfo{SHA: "abc"},
		Tools: []threads.DynamicTool{{Name: "look", Schema: object}, {Namespace: "n", Name: "look", Schema: object}},
	})
	if err != nil || r.Thread.Origin != (threads.Origin{Client: "tui", Source: "user"}) || r.Thread.Git == nil || r.Thread.Git.SHA != "abc" {
		t.Errorf("thread %+v, %v", r.Thread, err)
	}
	many := make([]threads.DynamicTool, 257)
	for name, c := range map[string]struct {
		p    threads.CreateParams
		code fault.Code
		says string
	}{
		"no name":   {threads.CreateParams{Tools: []threads.DynamicTool{{Schema: object}}}, fault.Invalid, "no name"},
		"twice":     {threads.CreateParams{Tools: []threads.DynamicTool{{Name: "a", Schema: object}, {Name: "a", Schema: object}}}, fault.Invalid, "twice"},
		"no schema": {threads.CreateParams{Tools: []threads.DynamicTool{{Name: "a"}}}, fault.Invalid, "JSON object"},
		"array":     {threads.CreateParams{Tools: []threads.DynamicTool{{Name: "a", Schema: []byte(`[1]`)}}}, fault.Invalid, "JSON object"},
		"deep":      {threads.CreateParams{Tools: []threads.DynamicTool{{Name: "a", Schema: nested(501)}}}, fault.Invalid, "500 levels"},
		"long":      {threads.CreateParams{Tools: []threads.DynamicTool{{Name: strings.Repeat("a", 129), Schema: object}}}, fault.Invalid, "at most 128"},
		"many":      {threads.CreateParams{Tools: many}, fault.TooLarge, "at most 256"},
		"big":       {threads.CreateParams{Tools: []threads.DynamicTool{{Name: "a", Schema: object, Description: strings.Repeat("x", 1<<20)}}}, fault.TooLarge, "1048576"},
		"name":      {threads.CreateParams{Name: strings.Repeat("x", 201)}, fault.Invalid, "name has 201"},
		"git":       {threads.CreateParams{Git: &threads.GitInfo{Branch: "\xff"}}, fault.Invalid, "branch is not valid UTF-8"},
		"client":    {threads.CreateParams{Origin: threads.Origin{Client: strings.Repeat("x", 1001)}}, fault.Invalid, "client has 1001"},
	} {
		_, err := b.svc.CreateThread(t.Context(), c.p)
		if fault.CodeOf(err) != c.code || !strings.Contains(fault.MessageOf(err), c.says) {
			t.Errorf("%s: %v (%s), want %s saying %q", name, err, fault.CodeOf(err), c.code, c.says)
		}
	}
}

// nested is a JSON object with so many levels.
func nested(levels int) transcript.RawJSON {
	return transcript.RawJSON(strings.Repeat(`{"a":`, levels-1) + "{}" + strings.Repeat("}", levels-1))
}

func TestInjectedItemsReachTheModelAndNobodyElse(t *testing.T) {
	b := newBench(t)
	id := b.create()
	b.turn(id, "hello", "hi")
	raw := []transcript.RawJSON{
		[]byte(`{"type":"message","role":"user","content":[{"type":"input_text","text":"the tide"},{"type":"input_text","text":"is high"}]}`),
		[]byte(`{"role":"assistant","content":"I know <it> & more"}`),
		[]byte(`{"type":"reasoning","encrypted_content":"c2VhbGVk"}`),
		[]byte(`{"type":"function_call_output","call_id":"nobody's","output":"an orphan"}`),
	}
	before := b.read(id)
	if err := b.svc.InjectItems(t.Context(), id, raw); err != nil {
		t.Fatal(err)
	}
	after := b.read(id)
	if after.Turns != before.Turns || after.Occupancy.Context <= 0 || after.Occupancy.Source != transcript.Ruler {
		t.Errorf("the thread is %+v", after)
	}
	b.restart()
	ack := b.start(id, "next")
	r := b.request()
	want := []string{
		"userMessage: hello", "agentMessage: hi", "opaque: the tide\nis high", "opaque: I know <it> & more",
		"opaque: " + string(raw[2]), "opaque: " + string(raw[3]), "userMessage: next",
	}
	if diff := cmp.Diff(want, r.texts()); diff != "" {
		t.Errorf("the model reads:\n%s", diff)
	}
	for i, e := range r.Entries[2:6] {
		if o := e.Item.Body.(transcript.Opaque); o.Origin != "responses" || string(o.Raw) != string(raw[i]) {
			t.Errorf("item %d is %+v, want it byte for byte", i, o)
		}
	}
	r.answer(t, "ok")
	b.await(id, ended(ack.Turn.ID))
	b.revert(id, ack.Turn.ID) // what was injected before stays
	if got := b.nextRequest(id); !strings.Contains(got, "the tide") {
		t.Errorf("after a revert:\n%s", got)
	}
}

func TestInjectedItemsSurviveACompactionAsText(t *testing.T) {
	b := newBench(t)
	id := b.create()
	if err := b.svc.InjectItems(t.Context(), id, []transcript.RawJSON{[]byte(`{"role":"user","content":"before any turn"}`)}); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		b.turn(id, "q", big("a", 3000))
	}
	rec := b.compact(threads.CompactParams{Thread: id, Budget: 8000})
	if *rec.Outcome != compaction.Completed {
		t.Fatalf("record %s", mustJSON(t, rec))
	}
	for _, ids := range [][]transcript.TurnID{rec.SummarizedTurnIDs, rec.RetainedTurnIDs} {
		for _, turn := range ids {
			if turn == "" {
				t.Error("the record names a turn without an id")
			}
		}
	}
	b.turn(id, "go on", "yes")
}

func TestWhatCannotBeInjectedChangesNothing(t *testing.T) {
	b := newBench(t)
	id := b.create()
	n := len(b.payloads(id))
	many := make([]transcript.RawJSON, 1001)
	for i := range many {
		many[i] = []byte(`{}`)
	}
	for name, c := range map[string]struct {
		items []transcript.RawJSON
		code  fault.Code
		says  string
	}{
		"none":      {nil, fault.Invalid, "items is empty"},
		"null":      {[]transcript.RawJSON{[]byte(`{}`), []byte(`null`)}, fault.Invalid, "items[1] is not a JSON object"},
		"array":     {[]transcript.RawJSON{[]byte(`[]`)}, fault.Invalid, "not a JSON object"},
		"two":       {[]transcript.RawJSON{[]byte(`{}{}`)}, fault.Invalid, "not a JSON object"},
		"empty":     {[]transcript.RawJSON{nil}, fault.Invalid, "not a JSON object"},
		"not UTF-8": {[]transcript.RawJSON{[]byte("{\"a\":\"\xff\"}")}, fault.Invalid, "valid UTF-8"},
		"deep":      {[]transcript.RawJSON{nested(501)}, fault.Invalid, "500 deep"},
		"many":      {many, fault.TooLarge, "at most 1000"},
		"big":       {[]transcript.RawJSON{[]byte(`{"a":"` + strings.Repeat("x", 4<<20) + `"}`)}, fault.TooLarge, "4194304"},
	} {
		err := b.svc.InjectItems(t.Context(), id, c.items)
		if fault.CodeOf(err) != c.code || !strings.Contains(fault.MessageOf(err), c.says) {
			t.Errorf("%s: %v (%s), want %s saying %q", name, err, fault.CodeOf(err), c.code, c.says)
		}
	}
	if got := len(b.payloads(id)); got != n {
		t.Errorf("%d events were written", got-n)
	}
	if err := b.svc.InjectItems(t.Context(), id, []transcript.RawJSON{nested(500), []byte(`{"quoted":"[[[\"{{{"}`)}); err != nil {
		t.Errorf("as deep as allowed: %v", err)
	}
	ack := b.start(id, "busy")
	r := b.request()
	n = len(b.payloads(id))
	if err := b.svc.InjectItems(t.Context(), id, []transcript.RawJSON{[]byte(`{}`)}); fault.CodeOf(err) != fault.Busy {
		t.Errorf("during a turn: %v, want busy", err)
	}
	if got := len(b.payloads(id)); got != n {
		t.Errorf("%d events were written", got-n)
	}
	r.answer(t, "ok")
	b.await(id, ended(ack.Turn.ID))
	before := b.see(id)
	b.restart()
	if diff := cmp.Diff(before, b.see(id)); diff != "" {
		t.Errorf("different after a restart:\n%s", diff)
	}
}
