package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file holds the cases for models: what a session sends is looked at here.

// A Provider plays a script. Bodies returns the bodies of the requests that it got,
// in order, as they came over the wire.
type Provider struct {
	Adapter adapters.Adapter
	Bodies  func() []string
}

// RunModel is RunScripted and the rules that hold for models beside it. play is
// called once for each case.
func RunModel(t *testing.T, play func(t *testing.T, s Script) Provider) {
	RunScripted(t, func(t *testing.T, s Script) adapters.Adapter { return play(t, s).Adapter })
	for _, c := range modelCases {
		t.Run(c.name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			script, check := c.make()
			f := openModel(t.Context(), t, play(t, script))
			within(t, "the case", func() { check(t.Context(), t, f) })
			within(t, "Close", func() { ok(t, "close", f.session.Close()) })
			goleak.VerifyNone(t, before)
		})
	}
}

// modelFixture is what a case for models works on.
type modelFixture struct {
	fixture
	bodies func() []string
}

// suiteTool is a tool that the thread's clients declare.
const suiteTool = "suite_tool"

func openModel(ctx context.Context, r Reporter, p Provider) modelFixture {
	s, err := p.Adapter.Open(ctx, adapters.OpenParams{Thread: thread, Tools: []adapters.ToolSpec{{
		Name: suiteTool, Description: "does nothing", Schema: transcript.RawJSON(`{"type":"object","properties":{}}`),
	}}})
	ok(r, "open", err)
	return modelFixture{fixture{adapter: p.Adapter, session: s, host: NewHost(r)}, p.Bodies}
}

// modelCase makes a script and the check that goes with it. It reports to a
// Reporter, so that a test can see it fail.
type modelCase struct {
	name string
	make func() (Script, func(context.Context, Reporter, modelFixture))
}

var modelCases = []modelCase{
	{"after an overflow room is made and the turn goes on", makesRoom},
	{"a second overflow ends the turn", overflowsAgain},
	{"an overflow in the middle of an answer keeps what was said", overflowsLate},
	{"an answer that the window cut is kept and goes on", windowStop},
	{"an answer that its limit cut warns", lengthWarns},
	{"an answer that a filter cut fails the turn and keeps its text", filterStop},
	{"the preamble is in each request, the same", preambleStays},
	{"a stub of reasoning is not sent", stubsStay},
	{"a summary is asked for without tools and history", summarizes},
	{"a summary can be asked for while a turn waits", summarizesInTurn},
	{"what a failed summary cost is told", summaryFails},
	{"a summary that calls a tool says so", summaryCalls},
	{"a summary that was cut says so", summaryCut},
	{"a summary that does not fit is an overflow", summaryOverflows},
	{"interrupting ends a turn that waits for a summary", interruptSummary},
	{"closing ends a summary", closeSummary},
}

// tooLong is what a provider says of a request that does not fit.
func tooLong() Step {
	return Fail(&adapters.Error{Class: adapters.ClassOverflow, Message: "prompt is too long: 2000 tokens > 1000 maximum", Requested: 2000, Limit: 1000})
}

func (f modelFixture) wantRequests(r Reporter, n int) []string {
	r.Helper()
	bodies := f.bodies()
	if len(bodies) != n {
		r.Errorf("%d requests, want %d", len(bodies), n)
	}
	return bodies
}

// wantOverflows checks what the host was told; each value says whether it was an
// answer that did not fit.
func (f modelFixture) wantOverflows(r Reporter, want ...bool) {
	r.Helper()
	var got []bool
	for _, o := range f.host.Overflows() {
		got = append(got, o.Length)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("overflows of answers (-want +got):\n%s", diff)
	}
}

func makesRoom() (Script, func(context.Context, Reporter, modelFixture)) {
	return Script{Answer("One."), {tooLong()}, Answer("It fits.")}, func(ctx context.Context, r Reporter, f modelFixture) {
		f.host.OnOverflow = f.host.Room
		_, err := f.host.Play(ctx, f.session, "remember the plover")
		ok(r, "the turn before", err)
		_, err = f.host.Play(ctx, f.session, "and now?")
		ok(r, "run", err)
		wantSaid(r, f.fixture, "One.", "It fits.")
		f.wantOverflows(r, false)
		bodies := f.wantRequests(r, 3)
		if last := bodies[len(bodies)-1]; strings.Contains(last, "plover") || !strings.Contains(last, "what was done so far") {
			r.Errorf("the request after the overflow is not the smaller context: %.300s", last)
		}
		if o := f.host.Overflows(); len(o) == 1 && (o[0].Limit != 1000 && o[0].Limit != 0 || !errors.Is(o[0].Err, adapters.ErrOverflow)) {
			r.Errorf("overflow %+v, the provider named a window of 1000", o[0])
		}
	}
}

func overflowsAgain() (Script, func(context.Context, Reporter, modelFixture)) {
	return Script{{tooLong()}, {tooLong()}}, func(ctx context.Context, r Reporter, f modelFixture) {
		f.host.OnOverflow = f.host.Room
		if _, err := f.host.Play(ctx, f.session, "hello"); !errors.Is(err, adapters.ErrOverflow) {
			r.Errorf("the turn ended with %v, want ErrOverflow", err)
		}
		f.wantOverflows(r, false)
		f.wantRequests(r, 2)
	}
}

func overflowsLate() (Script, func(context.Context, Reporter, modelFixture)) {
	return Script{{Say("Half an "), tooLong()}, Answer("answer.")}, func(ctx context.Context, r Reporter, f modelFixture) {
		f.host.OnOverflow = f.host.Room
		_, err := f.host.Play(ctx, f.session, "hello")
		ok(r, "run", err)
		wantSaid(r, f.fixture, "Half an ", "answer.")
		f.wantOverflows(r, true)
	}
}

func windowStop() (Script, func(context.Context, Reporter, modelFixture)) {
	return Script{{Say("Half an "), Spend(900, 99), Stop(adapters.StopWindow)}, Answer("answer.")}, func(ctx context.Context, r Reporter, f modelFixture) {
		f.host.OnOverflow = f.host.Room
		_, err := f.host.Play(ctx, f.session, "hello")
		ok(r, "run", err)
		wantSaid(r, f.fixture, "Half an ", "answer.")
		f.wantOverflows(r, true)
		if n := len(f.host.Usages()); n != 2 {
			r.Errorf("%d usages, want one for each request", n)
		}
		if b := f.wantRequests(r, 2); !strings.Contains(b[len(b)-1], "go on where it ended") {
			r.Errorf("the request after the cut does not say that it was cut: %.300s", b[len(b)-1])
		}
	}
}

func lengthWarns() (Script, func(context.Context, Reporter, modelFixture)) {
	return Script{{Say("and then the"), Spend(1, 1), Stop(adapters.StopLength)}}, func(ctx context.Context, r Reporter, f modelFixture) {
		f.host.WantWarnings = true
		end, err := f.host.Play(ctx, f.session, "a story")
		ok(r, "run", err)
		if end.Stop != adapters.StopLength || len(f.host.Warnings()) != 1 {
			r.Errorf("the turn ended with %q and the warnings %q, want length and one", end.Stop, f.host.Warnings())
		}
		f.wantOverflows(r)
	}
}

func filterStop() (Script, func(context.Context, Reporter, modelFixture)) {
	return Script{{Say("The recipe"), Spend(1, 1), Stop(adapters.StopFilter)}}, func(ctx context.Context, r Reporter, f modelFixture) {
		_, err := f.host.Play(ctx, f.session, "cook")
		if e := (*adapters.Error)(nil); !errors.As(err, &e) || e.Class != adapters.ClassFiltered {
			r.Errorf("the turn ended with %v, want an error of class %s", err, adapters.ClassFiltered)
		}
		wantSaid(r, f.fixture, "The recipe")
		if n := len(f.host.Usages()); n != 1 {
			r.Errorf("%d usages: what was spent must be reported", n)
		}
	}
}

// preambleStays has a compaction between two requests and in the middle of a turn.
func preambleStays() (Script, func(context.Context, Reporter, modelFixture)) {
	script := Script{
		{Call("c1", suiteTool, `{}`), Spend(1, 1), Stop(adapters.StopTools)}, {tooLong()}, Answer("One."), Answer("Two."),
	}
	return script, func(ctx context.Context, r Reporter, f modelFixture) {
		f.host.OnOverflow = f.host.Room
		f.host.Preamble = "RULE-7731:\talways say \"ahoy\".\n\n  鯨 is spelt with one character."
		_, err := f.host.Play(ctx, f.session, "hello")
		ok(r, "run", err)
		f.host.Shrink("they greeted each other")
		_, err = f.host.Play(ctx, f.session, "again")
		ok(r, "run after a compaction", err)
		for i, b := range f.wantRequests(r, 4) {
			if n := strings.Count(b, inJSON(f.host.Preamble)); n != 1 {
				r.Errorf("request %d has the preamble %d times, want it once, byte for byte: %.300s", i+1, n, b)
			}
		}
		if s := f.session.Base().System; strings.Contains(s, "RULE-7731") {
			r.Errorf("the session takes the preamble for its own: %q", s)
		}
	}
}

// inJSON is a text inside a JSON string.
func inJSON(s string) string {
	b, err := transcript.Encode(s)
	if err != nil { // a string always encodes
		panic(err)
	}
	return strings.Trim(string(b), `"`)
}

func stubsStay() (Script, func(context.Context, Reporter, modelFixture)) {
	return Script{Answer("One.")}, func(ctx context.Context, r Reporter, f modelFixture) {
		const stub = "[reasoning of 77 tokens]"
		f.host.Edit = func(c *adapters.Context) {
			c.Entries = append([]transcript.Entry{{
				Form: transcript.FormStub, Item: transcript.Item{ID: "old", Body: transcript.Reasoning{Text: stub}},
			}}, c.Entries...)
		}
		_, err := f.host.Play(ctx, f.session, "hello")
		ok(r, "run", err)
		for _, b := range f.wantRequests(r, 1) {
			if strings.Contains(b, stub) {
				r.Errorf("the request holds the stub of reasoning: %.300s", b)
			}
		}
	}
}

// writer returns the session's Summarizer; nil if its model writes none.
func (f modelFixture) writer(r Reporter) adapters.Summarizer {
	w, is := f.session.(adapters.Summarizer)
	if !is {
		r.Errorf("the session of a model is no Summarizer")
		return nil
	}
	u := w.Unfit()
	if u == nil {
		return w
	}
	if u.Code == "" || u.Reason == "" || u.Remedy == "" {
		r.Errorf("a refusal to write needs code, reason and remedy: %+v", *u)
	}
	return nil
}

var asksNotes = adapters.SummaryRequest{System: "Write notes about the data.", Text: "DATA: they built a dyke", MaxOutput: 500}

func summarizes() (Script, func(context.Context, Reporter, modelFixture)) {
	script := Script{Answer("One."), {Think("hm"), Say("They built "), Say("a dyke."), Spend(30, 4), Stop(adapters.StopEnd)}}
	return script, func(ctx context.Context, r Reporter, f modelFixture) {
		w := f.writer(r)
		if w == nil {
			return
		}
		f.host.Preamble = "RULE-7731"
		_, err := f.host.Play(ctx, f.session, "remember the plover")
		ok(r, "run", err)
		before := len(f.host.Commits())
		got, err := w.Summarize(ctx, asksNotes)
		ok(r, "summarize", err)
		want := adapters.Summary{Text: "They built a dyke.", Stop: adapters.StopEnd, Usage: adapters.Usage{InputTokens: 30, OutputTokens: 4}}
		if diff := cmp.Diff(want, got); diff != "" {
			r.Errorf("summary (-want +got):\n%s", diff)
		}
		if n := len(f.host.Commits()); n != before {
			r.Errorf("a summary journaled %d commits", n-before)
		}
		bodies := f.wantRequests(r, 2)
		if !strings.Contains(bodies[0], suiteTool) {
			r.Errorf("the turn's request does not offer the tool of the thread: %.300s", bodies[0])
		}
		body := bodies[len(bodies)-1]
		for _, no := range []string{"plover", "RULE-7731", suiteTool, "One."} {
			if strings.Contains(body, no) {
				r.Errorf("the writer's request holds %q of the thread: %.300s", no, body)
			}
		}
		for _, yes := range []string{inJSON(asksNotes.System), inJSON(asksNotes.Text), fmt.Sprint(asksNotes.MaxOutput)} {
			if !strings.Contains(body, yes) {
				r.Errorf("the writer's request does not hold %q: %.300s", yes, body)
			}
		}
	}
}

func summarizesInTurn() (Script, func(context.Context, Reporter, modelFixture)) {
	return Script{Answer("They built a dyke."), Answer("One.")}, func(ctx context.Context, r Reporter, f modelFixture) {
		w := f.writer(r)
		if w == nil {
			return
		}
		f.host.OnContext = func() {
			if s, err := w.Summarize(ctx, asksNotes); err != nil || s.Text != "They built a dyke." {
				r.Errorf("summary %+v, %v", s, err)
			}
		}
		_, err := f.host.Play(ctx, f.session, "hello")
		ok(r, "run", err)
		wantSaid(r, f.fixture, "One.")
		if n := len(f.host.Usages()); n != 1 {
			r.Errorf("%d usages were reported to the turn, want its own only", n)
		}
	}
}

func summaryFails() (Script, func(context.Context, Reporter, modelFixture)) {
	return Script{{Say("They bu"), Spend(30, 4), Fail(errors.New("connection reset"))}}, func(ctx context.Context, r Reporter, f modelFixture) {
		w := f.writer(r)
		if w == nil {
			return
		}
		s, err := w.Summarize(ctx, asksNotes)
		if err == nil || errors.Is(err, context.Canceled) {
			r.Errorf("a summary that broke ended with %v", err)
		}
		if s.Usage.InputTokens != 30 || s.Usage.OutputTokens != 4 {
			r.Errorf("usage %+v: what a failed summary cost must be told", s.Usage)
		}
	}
}

// summaryStop makes a case of a summary that is not all of an answer.
func summaryStop(reply Reply, want adapters.StopReason) func() (Script, func(context.Context, Reporter, modelFixture)) {
	return func() (Script, func(context.Context, Reporter, modelFixture)) {
		return Script{reply}, func(ctx context.Context, r Reporter, f modelFixture) {
			w := f.writer(r)
			if w == nil {
				return
			}
			s, err := w.Summarize(ctx, asksNotes)
			ok(r, "summarize", err)
			if s.Stop != want {
				r.Errorf("the summary ended with %q, want %q", s.Stop, want)
			}
		}
	}
}

var (
	summaryCalls = summaryStop(Reply{Say("Let me look."), Call("c1", suiteTool, `{}`), Spend(1, 1), Stop(adapters.StopTools)}, adapters.StopTools)
	summaryCut   = summaryStop(Reply{Say("They bu"), Spend(1, 1), Stop(adapters.StopLength)}, adapters.StopLength)
)

func summaryOverflows() (Script, func(context.Context, Reporter, modelFixture)) {
	return Script{{tooLong()}}, func(ctx context.Context, r Reporter, f modelFixture) {
		w := f.writer(r)
		if w == nil {
			return
		}
		_, err := w.Summarize(ctx, asksNotes)
		if e := (*adapters.Error)(nil); !errors.Is(err, adapters.ErrOverflow) || !errors.As(err, &e) {
			r.Errorf("a summary that did not fit ended with %v, want an *adapters.Error that is ErrOverflow", err)
		}
	}
}

func interruptSummary() (Script, func(context.Context, Reporter, modelFixture)) {
	hangs := make(chan struct{})
	return Script{{tooLong()}, {HangThen(func() { close(hangs) })}, Answer("Next.")}, func(ctx context.Context, r Reporter, f modelFixture) {
		w := f.writer(r)
		if w == nil {
			return
		}
		over, asked := make(chan struct{}), make(chan bool, 1)
		f.host.OnOverflow = func(ctx context.Context, _ adapters.Overflow) (adapters.Context, error) {
			_, err := w.Summarize(ctx, asksNotes)
			return adapters.Context{}, err
		}
		go func() {
			hung := awaits(r, hangs, over)
			if hung {
				ok(r, "interrupt", f.session.Interrupt(ctx))
			}
			asked <- hung
		}()
		_, err := f.host.Play(ctx, f.session, "hello")
		close(over)
		if !<-asked {
			return
		}
		interrupted(r, err)
		_, err = f.host.Play(ctx, f.session, "still there?")
		ok(r, "the turn after", err)
	}
}

func closeSummary() (Script, func(context.Context, Reporter, modelFixture)) {
	hangs := make(chan struct{})
	return Script{{HangThen(func() { close(hangs) })}}, func(ctx context.Context, r Reporter, f modelFixture) {
		w := f.writer(r)
		if w == nil {
			return
		}
		over, closed := make(chan struct{}), make(chan error, 1)
		go func() {
			if awaits(r, hangs, over) {
				closed <- f.session.Close()
			} else {
				closed <- nil
			}
		}()
		if _, err := w.Summarize(ctx, asksNotes); !errors.Is(err, context.Canceled) {
			r.Errorf("the summary of a closed session ended with %v", err)
		}
		close(over)
		ok(r, "close", <-closed)
		if _, err := w.Summarize(ctx, asksNotes); err == nil {
			r.Errorf("a closed session summarises")
		}
	}
}

// body is a request as text: what a model without a wire got.
func body(req adapters.Request) string {
	b, err := json.Marshal(struct {
		adapters.Request
		Blob *int
	}{Request: req})
	if err != nil {
		return fmt.Sprintf("%+v", req)
	}
	return string(b)
}
