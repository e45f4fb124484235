package threads_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// runTool is a tool of the server that asks before it runs a command.
func runTool(ctx context.Context, call transcript.ToolCall, ask threads.Asker) (transcript.ToolResult, error) {
	var args struct{ Command string }
	if err := json.Unmarshal(call.Arguments, &args); err != nil {
		return transcript.ToolResult{}, err
	}
	a, err := ask(ctx, adapters.CommandApproval{Command: args.Command, Cwd: "/w", Reason: "because"})
	if err != nil {
		return transcript.ToolResult{}, err
	}
	text := "ran " + args.Command
	if !a.Decision.Allows() {
		text = strings.TrimRight(string(a.Decision)+": "+a.Reason, ": ")
	}
	return transcript.ToolResult{Output: transcript.TextParts(text), IsError: !a.Decision.Allows()}, nil
}

// clientTool is a tool that the clients of a thread run.
var clientTool = threads.DynamicTool{Namespace: "editor", Name: "open_file", Description: "Opens a file.", Schema: []byte(`{"type":"object"}`)}

const clientToolName = "editor__open_file"

// asking is a bench with a tool that asks, and a thread with a tool of its
// clients.
func asking(t *testing.T, change ...func(*threads.Config)) (*bench, transcript.ThreadID) {
	t.Helper()
	b := newBench(t, append(change, func(c *threads.Config) {
		if c.Tools == nil {
			c.Tools = map[string]threads.Tool{}
		}
		c.Tools["run"] = runTool
	})...)
	return b, b.createAsking(threads.Settings{})
}

func (b *bench) createAsking(s threads.Settings) transcript.ThreadID {
	b.t.Helper()
	r, err := b.svc.CreateThread(b.t.Context(), threads.CreateParams{Settings: s, Tools: []threads.DynamicTool{clientTool}})
	if err != nil {
		b.t.Fatal(err)
	}
	return r.Thread.ID
}

// calls has the model call tools, each given as id, name and arguments.
func (r *request) calls(t testing.TB, calls ...[3]string) {
	t.Helper()
	for _, c := range calls {
		r.send(t, adapters.CallChunk{Call: transcript.ToolCall{CallID: transcript.CallID(c[0]), Name: c[1], Arguments: []byte(c[2])}})
	}
	r.send(t, adapters.Done{Stop: adapters.StopTools})
}

// pending waits until n requests of the thread wait, and returns them.
func (b *bench) pending(id transcript.ThreadID, n int) []threads.Request {
	b.t.Helper()
	var rs []threads.Request
	b.await(id, func(p threads.Payload) bool {
		if _, created := p.(threads.RequestCreated); !created {
			return false
		}
		var err error
		if rs, err = b.svc.Requests(b.t.Context(), id); err != nil {
			b.t.Fatal(err)
		}
		return len(rs) == n
	})
	return rs
}

func (b *bench) answer(id transcript.ThreadID, r threads.RequestID, d adapters.Decision) {
	b.t.Helper()
	if err := b.svc.Answer(b.t.Context(), id, r, threads.RequestAnswer{Decision: d}, "editor"); err != nil {
		b.t.Fatal(err)
	}
}

// results is what the model reads of the results of its calls, by call.
func (r *request) results() map[string]string {
	got := map[string]string{}
	for _, e := range r.Entries {
		if res, ok := e.Item.Body.(transcript.ToolResult); ok {
			got[string(res.CallID)] = transcript.Text(res)
		}
	}
	return got
}

func (r *request) wantResults(t testing.TB, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, r.results()); diff != "" {
		t.Errorf("results that the model reads (-want +got):\n%s", diff)
	}
}

// from returns the events from the first one that begins with prefix.
func (b *bench) from(id transcript.ThreadID, prefix string) string {
	b.t.Helper()
	log := b.log(id)
	i := strings.Index(log, prefix)
	if i < 0 {
		b.t.Fatalf("no event %s in\n%s", prefix, log)
	}
	return log[i:]
}

// A director is a runtime whose sessions do in a turn what the test says.
type director struct {
	adapters.Adapter
	run       func(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error)
	continues bool
}

func (d *director) Continues() bool { return d.continues }

func (d *director) Open(ctx context.Context, p adapters.OpenParams) (adapters.Session, error) {
	s, err := d.Adapter.Open(ctx, p)
	return directed{s, d}, err
}

type directed struct {
	adapters.Session
	d *director
}

func (s directed) Run(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
	return s.d.run(ctx, in, h)
}

func directedBench(t *testing.T, d *director) *bench {
	t.Helper()
	return newBench(t, func(c *threads.Config) {
		d.Adapter = c.Providers[0].Adapter
		c.Providers[0].Adapter = d
	})
}

// askCommand asks about a command item of its own and completes it as answered.
func askCommand(ctx context.Context, in adapters.TurnInput, h adapters.Host, command string) (adapters.End, adapters.Answer, error) {
	it := transcript.Item{ID: h.NewItemID(), Turn: in.Turn, Body: transcript.Command{Command: command, Cwd: "/w", Status: "inProgress"}}
	a, err := h.Ask(ctx, adapters.CommandApproval{Item: it, Command: command, Cwd: "/w"})
	if err != nil {
		return adapters.End{}, a, err
	}
	it.Body = transcript.Command{Command: command, Cwd: "/w", Status: "completed", Output: "done", ExitCode: new(0)}
	if !a.Decision.Allows() {
		it.Body = transcript.Command{Command: command, Cwd: "/w", Status: "declined"}
	}
	return adapters.End{Updates: []adapters.Update{adapters.ItemCompleted{Item: it}}}, a, nil
}

func TestACommandsQuestionIsOneCommitInCodexOrder(t *testing.T) {
	b := directedBench(t, &director{run: func(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		end, _, err := askCommand(ctx, in, h, "make")
		return end, err
	}})
	id := b.create()
	before := b.journal.count()
	ack := b.start(id, "build")
	r := b.pending(id, 1)[0]
	if n := b.journal.count() - before; n != 2 {
		t.Errorf("the turn's start and its question took %d commits, want 2", n)
	}
	if r.Method != threads.AskCommand || r.TurnID != ack.Turn.ID || r.Command == nil || r.Command.Command != "make" {
		t.Errorf("the request is %s", mustJSON(t, r))
	}
	before = b.journal.count()
	b.answer(id, r.ID, adapters.Accept)
	b.await(id, ended(ack.Turn.ID))
	if n := b.journal.count() - before; n != 2 {
		t.Errorf("the answer and the turn's end took %d commits, want 2", n)
	}
	wantLog(t, b.from(id, "thread/status/changed active waitingOnApproval"), `
thread/status/changed active waitingOnApproval
item/started command
serverRequest/created item/commandExecution/requestApproval
serverRequest/resolved answered accept
thread/status/changed active
item/completed command "make\ndone"
thread/status/changed idle
turn/completed completed`)
}

func TestAFileChangesQuestionFollowsItsItem(t *testing.T) {
	b := directedBench(t, &director{run: func(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		it := transcript.Item{ID: h.NewItemID(), Turn: in.Turn, Body: transcript.FileChange{Status: "inProgress", Changes: []transcript.Change{{Path: "a.go", Op: "add"}}}}
		_, err := h.Ask(ctx, adapters.FileApproval{Item: it, Reason: "outside of the workspace"})
		return adapters.End{}, err
	}})
	id := b.create()
	ack := b.start(id, "write")
	b.answer(id, b.pending(id, 1)[0].ID, adapters.Decline)
	b.await(id, ended(ack.Turn.ID))
	log := b.from(id, "item/started fileChange")
	wantLog(t, log, `
item/started fileChange
thread/status/changed active waitingOnApproval
serverRequest/created item/fileChange/requestApproval
serverRequest/resolved answered decline
thread/status/changed active
item/completed fileChange "add a.go\n\n"
thread/status/changed idle
turn/completed completed`)
	items, err := b.svc.ListItems(t.Context(), id, threads.ItemQuery{PageQuery: threads.PageQuery{Desc: true}})
	if err != nil {
		t.Fatal(err)
	}
	if f, ok := items.Items[0].Item.Body.(transcript.FileChange); !ok || f.Status != "declined" {
		t.Errorf("the declined change ends as %+v", items.Items[0].Item.Body)
	}
}

func TestAClientRunsItsToolAndTheModelReadsTheOutput(t *testing.T) {
	b, id := asking(t)
	ack := b.start(id, "open it")
	r := b.request()
	if diff := cmp.Diff([]adapters.ToolSpec{{Name: clientToolName, Description: "Opens a file.", Schema: []byte(`{"type":"object"}`)}}, r.Base.Tools); diff != "" {
		t.Errorf("tools that the model is offered (-want +got):\n%s", diff)
	}
	r.calls(t, [3]string{"c1", clientToolName, `{"path":"a.go"}`})
	q := b.pending(id, 1)[0]
	want := &threads.ToolQuestion{CallID: "c1", Namespace: "editor", Tool: "open_file", Arguments: []byte(`{"path":"a.go"}`)}
	if diff := cmp.Diff(want, q.Tool); q.Method != threads.AskTool || diff != "" {
		t.Errorf("request %s (-want +got):\n%s", q.Method, diff)
	}
	before := b.journal.count()
	if err := b.svc.Answer(t.Context(), id, q.ID, threads.RequestAnswer{Output: transcript.TextParts("package a")}, "editor"); err != nil {
		t.Fatal(err)
	}
	if n := b.journal.count() - before; n != 1 {
		t.Errorf("the answer took %d commits, want 1", n)
	}
	r = b.request()
	r.wantResults(t, map[string]string{"c1": "package a"})
	r.answer(t, "opened")
	b.await(id, ended(ack.Turn.ID))
	wantLog(t, b.from(id, "item/started toolCall"), `
item/started toolCall
serverRequest/created item/tool/call
serverRequest/resolved answered
item/completed toolResult "package a"
item/started agentMessage
item/completed agentMessage "opened"
thread/tokenUsage/updated
thread/status/changed idle
turn/completed completed`)
}

func TestAClientThatFailsFailsTheCallAndTheTurnGoesOn(t *testing.T) {
	b, id := asking(t)
	ack := b.start(id, "both")
	b.request().calls(t, [3]string{"c1", clientToolName, `{}`}, [3]string{"c2", "run", `{"command":"make"}`})
	for _, q := range b.pending(id, 2) {
		if err := b.svc.Answer(t.Context(), id, q.ID, threads.RequestAnswer{Failed: "the editor is gone"}, "editor"); err != nil {
			t.Fatal(err)
		}
	}
	r := b.request()
	r.wantResults(t, map[string]string{"c1": "the editor is gone", "c2": "decline: the editor is gone"})
	r.answer(t, "sorry")
	b.await(id, ended(ack.Turn.ID))
}

func TestOfTwoAnswersAtOnceExactlyOneWins(t *testing.T) {
	b, id := asking(t)
	for range 20 {
		ack := b.start(id, "build")
		b.request().calls(t, [3]string{"c", "run", `{"command":"make"}`})
		q := b.pending(id, 1)[0]
		decisions := []adapters.Decision{adapters.Accept, adapters.Decline, adapters.Accept, adapters.Decline}
		errs := make([]error, len(decisions))
		var wg sync.WaitGroup
		for i, d := range decisions {
			wg.Go(func() {
				errs[i] = b.svc.Answer(t.Context(), id, q.ID, threads.RequestAnswer{Decision: d}, string(d))
			})
		}
		wg.Wait()
		won := []adapters.Decision{}
		for i, err := range errs {
			if err == nil {
				won = append(won, decisions[i])
			}
		}
		if len(won) != 1 {
			t.Fatalf("%d answers won: %v", len(won), errs)
		}
		for _, err := range errs {
			wantTooLate(t, err, threads.AlreadyResolved{Kind: "alreadyResolved", RequestID: q.ID, Outcome: threads.RequestAnswered, By: string(won[0])})
		}
		r := b.request()
		results := r.results()
		if got := results[lastCall(r)]; (got == "ran make") != (won[0] == adapters.Accept) {
			t.Errorf("%s won, and the model reads %q", won[0], got)
		}
		r.answer(t, "done")
		b.await(id, ended(ack.Turn.ID))
	}
	if n := strings.Count(b.log(id), "serverRequest/resolved"); n != 20 {
		t.Errorf("%d of 20 requests were resolved", n)
	}
}

// wantTooLate checks an answer that lost; nil won.
func wantTooLate(t testing.TB, err error, want threads.AlreadyResolved) {
	t.Helper()
	if err == nil {
		return
	}
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Code != fault.Conflict {
		t.Errorf("a late answer got %v, want a conflict", err)
		return
	}
	if diff := cmp.Diff(any(want), f.Data); diff != "" {
		t.Errorf("data of the conflict (-want +got):\n%s", diff)
	}
}

// lastCall is the id of the newest call that the model reads.
func lastCall(r *request) string {
	for _, e := range slices.Backward(r.Entries) {
		if c, ok := e.Item.Body.(transcript.ToolCall); ok {
			return string(c.CallID)
		}
	}
	return ""
}

func TestAnAnswerThatIsNoneChangesNothing(t *testing.T) {
	b, id := asking(t)
	ack := b.start(id, "both")
	b.request().calls(t, [3]string{"c1", "run", `{"command":"make"}`}, [3]string{"c2", clientToolName, `{}`})
	var command, tool threads.RequestID
	for _, q := range b.pending(id, 2) {
		if q.Method == threads.AskTool {
			tool = q.ID
		} else {
			command = q.ID
		}
	}
	events := len(b.payloads(id))
	for name, c := range map[string]struct {
		id     threads.RequestID
		answer threads.RequestAnswer
		code   fault.Code
		says   string
	}{
		"no decision":         {command, threads.RequestAnswer{}, fault.Invalid, "allowed: accept, acceptForSession, decline, cancel"},
		"unknown decision":    {command, threads.RequestAnswer{Decision: "yes"}, fault.Invalid, `is "yes"; allowed: accept`},
		"output":              {command, threads.RequestAnswer{Decision: adapters.Accept, Output: transcript.TextParts("x")}, fault.Invalid, "with a decision"},
		"broken amendment":    {command, threads.RequestAnswer{Decision: adapters.Accept, Amendment: []byte("{")}, fault.Invalid, "not valid JSON"},
		"amended cancel":      {command, threads.RequestAnswer{Decision: adapters.Cancel, Amendment: []byte("{}")}, fault.Invalid, "accept, decline"},
		"failed and decided":  {command, threads.RequestAnswer{Failed: "x", Decision: adapters.Accept}, fault.Invalid, "neither"},
		"decision for a tool": {tool, threads.RequestAnswer{Decision: adapters.Accept}, fault.Invalid, "with its output"},
		"unknown part":        {tool, threads.RequestAnswer{Output: []transcript.Part{{Type: "audio"}}}, fault.Invalid, "text, image"},
		"no UTF-8":            {tool, threads.RequestAnswer{Output: transcript.TextParts("\xff")}, fault.Invalid, "UTF-8"},
		"too much":            {tool, threads.RequestAnswer{Output: transcript.TextParts(strings.Repeat("x", 4<<20+1))}, fault.TooLarge, "at most"},
		"unknown request":     {"nope", threads.RequestAnswer{Decision: adapters.Accept}, fault.NotFound, "no request nope"},
	} {
		err := b.svc.Answer(t.Context(), id, c.id, c.answer, "editor")
		if fault.CodeOf(err) != c.code || !strings.Contains(fault.MessageOf(err), c.says) {
			t.Errorf("%s: %v (%s), want %s saying %q", name, err, fault.CodeOf(err), c.code, c.says)
		}
	}
	if n := len(b.payloads(id)); n != events {
		t.Errorf("bad answers left %d events", n-events)
	}
	b.answer(id, command, adapters.Accept)
	if err := b.svc.Answer(t.Context(), id, tool, threads.RequestAnswer{}, "editor"); err != nil {
		t.Errorf("a tool without output: %v", err)
	}
	b.request().answer(t, "done")
	b.await(id, ended(ack.Turn.ID))
}

func TestTheFlagGoesWithTheLastApproval(t *testing.T) {
	b, id := asking(t)
	ack := b.start(id, "three things")
	b.request().calls(t, [3]string{"c1", "run", `{"command":"a"}`}, [3]string{"c2", "run", `{"command":"b"}`}, [3]string{"c3", clientToolName, `{}`})
	var tool threads.RequestID
	var approvals []threads.RequestID
	for _, q := range b.pending(id, 3) {
		if q.Method == threads.AskTool {
			tool = q.ID
		} else {
			approvals = append(approvals, q.ID)
		}
	}
	b.answer(id, approvals[0], adapters.Accept)
	b.answer(id, approvals[1], adapters.Decline)
	if err := b.svc.Answer(t.Context(), id, tool, threads.RequestAnswer{Output: transcript.TextParts("x")}, ""); err != nil {
		t.Fatal(err)
	}
	b.request().answer(t, "done")
	b.await(id, ended(ack.Turn.ID))
	var got []string
	for line := range strings.SplitSeq(b.log(id), "\n") {
		if strings.HasPrefix(line, "serverRequest/") || strings.HasPrefix(line, "thread/status") {
			got = append(got, strings.TrimPrefix(line, "thread/"))
		}
	}
	got = got[1:] // the turn's own
	created, resolved := got[:4], got[4:]
	if n := strings.Count(strings.Join(created, "\n"), "status/changed active waitingOnApproval"); n != 1 {
		t.Errorf("the flag is raised %d times:\n%s", n, strings.Join(created, "\n"))
	}
	wantLog(t, strings.Join(resolved, "\n"), `
serverRequest/resolved answered accept
serverRequest/resolved answered decline
status/changed active
serverRequest/resolved answered
status/changed idle`)
}

func TestNobodyIsAskedTwiceForWhatWasAcceptedForTheSession(t *testing.T) {
	file := func(h adapters.Host, in adapters.TurnInput, paths ...string) transcript.Item {
		var f transcript.FileChange
		f.Status = "inProgress"
		for _, p := range paths {
			f.Changes = append(f.Changes, transcript.Change{Path: p, Op: "update"})
		}
		return transcript.Item{ID: h.NewItemID(), Turn: in.Turn, Body: f}
	}
	var asks func(h adapters.Host, in adapters.TurnInput) adapters.Question
	auto := make(chan adapters.Answer, 1)
	b := directedBench(t, &director{run: func(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		a, err := h.Ask(ctx, asks(h, in))
		if err == nil {
			auto <- a
		}
		return adapters.End{}, err
	}})
	command := func(command, cwd string) func(adapters.Host, adapters.TurnInput) adapters.Question {
		return func(h adapters.Host, in adapters.TurnInput) adapters.Question {
			it := transcript.Item{ID: h.NewItemID(), Turn: in.Turn, Body: transcript.Command{Command: command, Cwd: cwd, Status: "inProgress"}}
			return adapters.CommandApproval{Item: it, Command: command, Cwd: cwd}
		}
	}
	files := func(root string, paths ...string) func(adapters.Host, adapters.TurnInput) adapters.Question {
		return func(h adapters.Host, in adapters.TurnInput) adapters.Question {
			return adapters.FileApproval{Item: file(h, in, paths...), GrantRoot: root}
		}
	}
	id := b.create()
	for _, c := range []struct {
		name    string
		asks    func(adapters.Host, adapters.TurnInput) adapters.Question
		granted bool
		restart bool
	}{
		{"a command", command("make", "/w"), false, false},
		{"the same command", command("make", "/w"), true, false},
		{"the same command after a restart", command("make", "/w"), true, true},
		{"the same command elsewhere", command("make", "/"), false, false},
		{"another command", command("make install", "/w"), false, false},
		{"a root", files("/etc", "/etc/a"), false, false},
		{"the same root, another file", files("/etc", "/etc/b"), true, false},
		{"two files", files("", "a", "b"), false, false},
		{"one of them", files("", "b"), true, false},
		{"one of them and another", files("", "b", "c"), false, false},
		{"no files at all", files(""), false, false},
		{"no files again", files(""), false, false},
	} {
		if c.restart {
			b.restart()
		}
		asks = c.asks
		ack := b.start(id, c.name)
		if !c.granted {
			b.answer(id, b.pending(id, 1)[0].ID, adapters.AcceptForSession)
		}
		b.await(id, ended(ack.Turn.ID))
		if a := <-auto; !a.Decision.Allows() || a.Auto != c.granted {
			t.Errorf("%s: the answer is %+v, want granted %v", c.name, a, c.granted)
		}
	}
}

func TestPolicyNeverAsksNobody(t *testing.T) {
	b, _ := asking(t)
	id := b.createAsking(threads.Settings{ApprovalPolicy: "never"})
	ack := b.start(id, "build")
	b.request().calls(t, [3]string{"c1", "run", `{"command":"make"}`})
	r := b.request()
	r.wantResults(t, map[string]string{"c1": "decline: the approval policy is never: nobody is asked, and it is not allowed"})
	r.answer(t, "then not")
	b.await(id, ended(ack.Turn.ID))
	if strings.Contains(b.log(id), "serverRequest") || strings.Contains(b.log(id), "waiting") {
		t.Errorf("there was a request:\n%s", b.log(id))
	}
}

func TestInterruptingATurnThatWaitsCancelsItsRequestsAfterItsEnd(t *testing.T) {
	b, id := asking(t)
	ack := b.start(id, "build")
	b.request().calls(t, [3]string{"c1", "run", `{"command":"make"}`}, [3]string{"c2", clientToolName, `{}`})
	qs := b.pending(id, 2)
	if err := b.svc.InterruptTurn(t.Context(), id, ack.Turn.ID); err != nil {
		t.Fatal(err)
	}
	b.await(id, ended(ack.Turn.ID))
	log := strings.Split(b.log(id), "\n")
	wantLog(t, tail(log, len(log)-7), `
thread/status/changed active
item/completed toolResult "aborted: this call was never answered"
item/completed toolResult "aborted: this call was never answered"
thread/status/changed idle
turn/completed interrupted
serverRequest/resolved cancelled
serverRequest/resolved cancelled`)
	for _, q := range qs {
		err := b.svc.Answer(t.Context(), id, q.ID, threads.RequestAnswer{Decision: adapters.Accept}, "late")
		if err == nil {
			t.Error("an answer after the end was taken")
		}
		wantTooLate(t, err, threads.AlreadyResolved{Kind: "alreadyResolved", RequestID: q.ID, Outcome: threads.RequestCancelled})
	}
	b.turn(id, "go on", "yes")
}

func TestCancelIsAnAnswerAndInterruptsTheTurn(t *testing.T) {
	answers := make(chan adapters.Answer, 1)
	b := directedBench(t, &director{run: func(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		end, a, err := askCommand(ctx, in, h, "make")
		answers <- a
		if _, err := h.Context(ctx); err == nil {
			t.Error("a cancelled turn reached another request")
		}
		return end, err
	}})
	id := b.create()
	ack := b.start(id, "build")
	b.answer(id, b.pending(id, 1)[0].ID, adapters.Cancel)
	done := b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted)
	if done.Turn.Status != transcript.TurnInterrupted {
		t.Errorf("the turn is %s, want interrupted", done.Turn.Status)
	}
	<-answers
	wantLog(t, b.from(id, "serverRequest/resolved"), `
serverRequest/resolved answered cancel
thread/status/changed active
item/completed command "make\n"
thread/status/changed idle
turn/completed interrupted`)
	items, err := b.svc.ListItems(t.Context(), id, threads.ItemQuery{PageQuery: threads.PageQuery{Desc: true}})
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := items.Items[0].Item.Body.(transcript.Command); !ok || c.Status != "declined" {
		t.Errorf("the cancelled command ends as %+v", items.Items[0].Item.Body)
	}
}

func TestAQuestionThatIsTakenBackIsCancelledAndTheTurnGoesOn(t *testing.T) {
	takeBack := make(chan struct{})
	b := directedBench(t, &director{run: func(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		asking, cancel := context.WithCancel(ctx)
		go func() {
			<-takeBack
			cancel()
		}()
		if _, _, err := askCommand(asking, in, h, "make"); err == nil {
			t.Error("a question that was taken back got an answer")
		}
		end, _, err := askCommand(ctx, in, h, "make test")
		return end, err
	}})
	id := b.create()
	ack := b.start(id, "build")
	first := b.pending(id, 1)[0]
	close(takeBack)
	b.await(id, func(p threads.Payload) bool {
		r, ok := p.(threads.RequestResolved)
		return ok && r.Outcome == threads.RequestCancelled
	})
	wantTooLate(t, b.svc.Answer(t.Context(), id, first.ID, threads.RequestAnswer{Decision: adapters.Accept}, ""),
		threads.AlreadyResolved{Kind: "alreadyResolved", RequestID: first.ID, Outcome: threads.RequestCancelled})
	for {
		waits := b.pending(id, 1)
		if waits[0].ID != first.ID {
			b.answer(id, waits[0].ID, adapters.Accept)
			break
		}
	}
	b.await(id, ended(ack.Turn.ID))
	wantLog(t, b.from(id, "serverRequest/resolved"), `
serverRequest/resolved cancelled
thread/status/changed active
thread/status/changed active waitingOnApproval
item/started command
serverRequest/created item/commandExecution/requestApproval
serverRequest/resolved answered accept
thread/status/changed active
item/completed command "make test\ndone"
item/completed command "make\n"
thread/status/changed idle
turn/completed completed`)
}

func TestWhoJoinsLateSeesWhatWaits(t *testing.T) {
	b, id := asking(t)
	ack := b.start(id, "build")
	b.request().calls(t, [3]string{"c1", "run", `{"command":"make"}`})
	want := b.pending(id, 1)
	joined, err := b.svc.Join(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, joined.Requests); diff != "" {
		t.Errorf("requests of who joins late (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]threads.StatusFlag{threads.WaitingOnApproval}, joined.Thread.Flags); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
	list, err := b.svc.ListThreads(t.Context(), threads.PageQuery{})
	if err != nil || len(list.Threads[0].Flags) != 1 {
		t.Errorf("the list does not show that the thread waits: %+v, %v", list.Threads, err)
	}
	b.answer(id, want[0].ID, adapters.Accept)
	b.request().answer(t, "built")
	b.await(id, ended(ack.Turn.ID))
}

func TestNobodyHasToBeThereForAnApprovalToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, id := asking(t, func(c *threads.Config) { c.IdleAfter = time.Minute })
		ack := b.start(id, "build")
		b.request().calls(t, [3]string{"c1", "run", `{"command":"make"}`})
		q := b.pending(id, 1)[0]
		events := len(b.payloads(id))
		time.Sleep(48 * time.Hour) // of the test's clock
		if n := len(b.payloads(id)); n != events {
			t.Errorf("while nobody was there %d events happened:\n%s", n-events, b.log(id))
		}
		b.answer(id, q.ID, adapters.Accept)
		b.request().answer(t, "built")
		b.await(id, ended(ack.Turn.ID))
	})
}

func TestDeletingAThreadThatWaitsEndsTheWaiting(t *testing.T) {
	failed := make(chan error, 1)
	b := directedBench(t, &director{run: func(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
		end, _, err := askCommand(ctx, in, h, "make")
		failed <- err
		return end, err
	}})
	id := b.create()
	b.start(id, "build")
	q := b.pending(id, 1)[0]
	if err := b.svc.DeleteThread(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Error("the question of a deleted thread was answered")
	}
	if err := b.svc.Answer(t.Context(), id, q.ID, threads.RequestAnswer{Decision: adapters.Accept}, ""); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("an answer to a deleted thread: %v, want not found", err)
	}
}

func TestWhatArrivesWhileATurnWaitsFindsItsPlace(t *testing.T) {
	b, id := asking(t)
	ack := b.start(id, "build")
	b.request().calls(t, [3]string{"c1", "run", `{"command":"make"}`})
	q := b.pending(id, 1)[0]
	compact, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil || compact.Record.Phase != "requested" {
		t.Fatalf("compaction %+v, %v", compact.Record, err)
	}
	steered, err := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Mode: threads.ModeSteer, Input: transcript.TextParts("quickly")})
	if err != nil || !steered.Steered {
		t.Fatalf("steer: %+v, %v", steered, err)
	}
	queued := b.start(id, "then test")
	if !queued.Queued {
		t.Errorf("an input on a waiting turn is not queued: %+v", queued)
	}
	if rec, err := b.svc.ReadCompaction(t.Context(), id, compact.Record.CompactionID); err != nil || rec.Phase != "requested" {
		t.Errorf("the compaction does not wait: %s, %v", rec.Phase, err)
	}
	b.answer(id, q.ID, adapters.Accept)
	r := b.request()
	if got := strings.Join(r.texts(), "\n"); !strings.Contains(got, "ran make") || !strings.Contains(got, "quickly") {
		t.Errorf("the model reads\n%s", got)
	}
	if rec, err := b.svc.ReadCompaction(t.Context(), id, compact.Record.CompactionID); err != nil || !rec.Terminal() {
		t.Errorf("the compaction did not run at the step boundary: %s, %v", rec.Phase, err)
	}
	r.answer(t, "built")
	b.await(id, ended(ack.Turn.ID))
	b.request().answer(t, "tested")
	b.await(id, ended(queued.Turn.ID))
}

func TestSettingsReachTheSessionWithEachTurn(t *testing.T) {
	inputs := make(chan adapters.TurnInput, 1)
	b := directedBench(t, &director{run: func(_ context.Context, in adapters.TurnInput, _ adapters.Host) (adapters.End, error) {
		inputs <- in
		return adapters.End{}, nil
	}})
	r, err := b.svc.CreateThread(t.Context(), threads.CreateParams{Settings: threads.Settings{ApprovalPolicy: "untrusted", Sandbox: "workspace-write"}})
	if err != nil {
		t.Fatal(err)
	}
	b.start(r.Thread.ID, "hello")
	if in := <-inputs; in.Approval != "untrusted" || in.Sandbox != "workspace-write" || in.Continue {
		t.Errorf("the session's input is %+v", in)
	}
}

func TestNamesOfClientToolsFitEveryProvider(t *testing.T) {
	long := strings.Repeat("x", 70)
	tools := []threads.DynamicTool{
		{Name: "read"},
		{Namespace: "editor", Name: "read"},
		{Name: "editor__read"},
		{Namespace: "a b", Name: "ü"},
		{Name: long},
		{Name: long + "y"},
		{Name: "taken"},
		{Name: "read"},
		{Name: ""},
	}
	names := threads.OfferedNames(tools, map[string]threads.Tool{"taken": nil})
	seen := map[string]bool{"taken": true}
	for i, n := range names {
		if seen[n] || n == "" || len(n) > 64 || strings.Trim(n, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			t.Errorf("tool %+v is offered as %q", tools[i], n)
		}
		seen[n] = true
	}
	if names[0] != "read" || names[1] != "editor__read" || !strings.HasPrefix(names[5], long[:50]) {
		t.Errorf("names %q", names)
	}
	if diff := cmp.Diff(names, threads.OfferedNames(tools, map[string]threads.Tool{"taken": nil})); diff != "" {
		t.Errorf("names change from one time to the next:\n%s", diff)
	}
}
