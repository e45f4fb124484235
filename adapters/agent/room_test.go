package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func chunk(c adapters.Chunk) adaptertest.Step { return adaptertest.Step{Chunk: c} }

func tooLong() adaptertest.Step {
	return adaptertest.Fail(&adapters.Error{Class: adapters.ClassOverflow, Message: "too long", Requested: 20, Limit: 10})
}

func repaired(rule string) adaptertest.Step {
	return chunk(adapters.Repaired{Rule: rule, Text: "a call without a result"})
}

func TestARepairIsToldOncePerRuleAndTurn(t *testing.T) {
	_, s := open(t, adaptertest.Script{
		{repaired("L2"), repaired("L2"), repaired("L4"), adaptertest.Call("1", "a", "{}"), adaptertest.Stop(adapters.StopTools)},
		append(adaptertest.Reply{repaired("L2")}, adaptertest.Answer("Done.")...),
		append(adaptertest.Reply{repaired("L2")}, adaptertest.Answer("Again.")...),
	})
	h := adaptertest.NewHost(t)
	h.WantWarnings = true
	for i, want := range []int{2, 3} {
		if _, err := h.Play(t.Context(), s, "go"); err != nil {
			t.Fatal(err)
		}
		if got := h.Warnings(); len(got) != want || !strings.Contains(got[0], "L2: a call without a result") {
			t.Errorf("after turn %d the warnings are %q, want %d", i+1, got, want)
		}
	}
	// A warning costs no commit of its own.
	if n := len(h.Commits()); n != 5 {
		t.Errorf("%d commits, want 3 for the turn with a tool and 2 for the plain one", n)
	}
}

func TestARetryIsToldAtOnce(t *testing.T) {
	seen := make(chan string, 2)
	_, s := open(t, adaptertest.Script{
		{chunk(adapters.Retried{Message: "503, again in 1 s"}), adaptertest.HangThen(func() { seen <- "the provider waits" })},
	})
	h := adaptertest.NewHost(t)
	h.OnUpdate = func(u adapters.Update) {
		if r, is := u.(adapters.Retrying); is {
			seen <- r.Message
			if err := s.Interrupt(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := h.Play(t.Context(), s, "go"); !errors.Is(err, context.Canceled) {
		t.Errorf("the turn ended with %v", err)
	}
	if got := <-seen; got != "503, again in 1 s" {
		t.Errorf("first %q, want the news of the retry", got)
	}
}

func TestAnOverflowIsToldWithItsNumbersAndAfterWhatWasSpent(t *testing.T) {
	_, s := open(t, adaptertest.Script{{adaptertest.Spend(20, 0), tooLong()}, adaptertest.Answer("It fits.")})
	h := adaptertest.NewHost(t)
	h.OnOverflow = func(ctx context.Context, o adapters.Overflow) (adapters.Context, error) {
		if o.Requested != 20 || o.Limit != 10 || o.Length || !errors.Is(o.Err, adapters.ErrOverflow) {
			t.Errorf("overflow %+v", o)
		}
		if len(h.Usages()) != 1 {
			t.Errorf("usages %+v when the overflow is told, want that of the refused request", h.Usages())
		}
		return h.Room(ctx, o)
	}
	if _, err := h.Play(t.Context(), s, "go"); err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"usage"}, {"started agentMessage"}, {"completed agentMessage", "usage"}}
	if diff := cmp.Diff(want, shape(h.Commits())); diff != "" {
		t.Errorf("commits (-want +got):\n%s", diff)
	}
}

// A request that went through ends the count: the context may fill up again in the
// same turn. Whether room is made again is for the host to say.
func TestATurnMayOverflowAgainAfterAnAnswer(t *testing.T) {
	calls := adaptertest.Reply{adaptertest.Call("", "a", "{}"), adaptertest.Stop(adapters.StopTools)}
	m, s := open(t, adaptertest.Script{{tooLong()}, calls, {tooLong()}, adaptertest.Answer("Done.")})
	h := adaptertest.NewHost(t)
	h.OnOverflow = h.Room
	if _, err := h.Play(t.Context(), s, "go"); err != nil {
		t.Fatal(err)
	}
	if n, told := len(m.Requests()), len(h.Overflows()); n != 4 || told != 2 {
		t.Errorf("%d requests and %d overflows, want 4 and 2", n, told)
	}
}

func TestAHostThatMakesNoRoomEndsTheTurnWithItsError(t *testing.T) {
	m, s := open(t, adaptertest.Script{{tooLong()}})
	h := adaptertest.NewHost(t)
	off := errors.New("automatic compaction is off")
	h.OnOverflow = func(context.Context, adapters.Overflow) (adapters.Context, error) { return adapters.Context{}, off }
	if _, err := h.Play(t.Context(), s, "go"); !errors.Is(err, off) {
		t.Errorf("the turn ended with %v, want the host's error", err)
	}
	if n := len(m.Requests()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// Calls of an answer that the window cut are not run: their results would not fit.
func TestCallsOfACutAnswerAreDropped(t *testing.T) {
	for _, last := range []adaptertest.Step{adaptertest.Stop(adapters.StopWindow), tooLong()} {
		_, s := open(t, adaptertest.Script{
			{adaptertest.Say("Looking."), adaptertest.Call("1", "a", "{}"), last}, adaptertest.Answer("Done."),
		})
		h := adaptertest.NewHost(t)
		h.OnOverflow = h.Room
		h.OnTool = func(context.Context, transcript.ToolCall) (transcript.ToolResult, error) {
			t.Error("a call of a cut answer was run")
			return transcript.ToolResult{}, nil
		}
		if _, err := h.Play(t.Context(), s, "go"); err != nil {
			t.Fatal(err)
		}
		for _, it := range h.Items() {
			if it.Body.Kind() == transcript.KindToolCall {
				t.Errorf("the call was journaled: %+v", it)
			}
		}
	}
}

// An output limit that cuts an answer with calls is no end: those that are whole
// are run, and the model goes on.
func TestCallsBeforeAnOutputLimitAreRun(t *testing.T) {
	_, s := open(t, adaptertest.Script{
		{adaptertest.Call("1", "a", "{}"), adaptertest.Call("2", "b", `{"path": "x`), adaptertest.Stop(adapters.StopLength)},
		adaptertest.Answer("Done."),
	})
	h := adaptertest.NewHost(t)
	end, err := h.Play(t.Context(), s, "go")
	if err != nil || end.Stop != adapters.StopEnd {
		t.Errorf("the turn ended with %+v, %v", end, err)
	}
	var failed []bool
	for _, it := range h.Items() {
		if r, is := it.Body.(transcript.ToolResult); is {
			failed = append(failed, r.IsError)
		}
	}
	if len(failed) != 2 || failed[0] == failed[1] {
		t.Errorf("results that are errors: %v, want that of the cut call only", failed)
	}
}

func TestATurnThatSaysNothingWarns(t *testing.T) {
	for name, c := range map[string]struct {
		script adaptertest.Script
		warns  int
	}{
		"nothing at all":  {adaptertest.Script{{adaptertest.Stop(adapters.StopEnd)}}, 1},
		"thoughts only":   {adaptertest.Script{{adaptertest.Think("hm"), adaptertest.Stop(adapters.StopEnd)}}, 1},
		"a call and then": {adaptertest.Script{{adaptertest.Say("Looking."), adaptertest.Call("1", "a", "{}"), adaptertest.Stop(adapters.StopTools)}, {adaptertest.Stop(adapters.StopEnd)}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, s := open(t, c.script)
			h := adaptertest.NewHost(t)
			h.WantWarnings = true
			if _, err := h.Play(t.Context(), s, "go"); err != nil {
				t.Fatal(err)
			}
			if got := h.Warnings(); len(got) != c.warns {
				t.Errorf("warnings %q, want %d", got, c.warns)
			}
			for _, it := range h.Items() {
				if m, is := it.Body.(transcript.AgentMessage); is && m.Text == "" {
					t.Error("an empty answer left an item")
				}
			}
		})
	}
}

// The journal takes 4 MiB of text in one item. What is more is not lost in silence.
func TestTextWithoutEndIsCutWithAWarning(t *testing.T) {
	piece := strings.Repeat("鯨", 1<<20/3+1) // the limit falls into a character
	reply := adaptertest.Reply{}
	for range 5 {
		reply = append(reply, adaptertest.Say(piece))
	}
	_, s := open(t, adaptertest.Script{append(reply, adaptertest.Stop(adapters.StopEnd))})
	h := adaptertest.NewHost(t)
	h.WantWarnings = true
	end, err := h.Play(t.Context(), s, "go")
	if err != nil || end.Stop != adapters.StopLength || len(h.Warnings()) != 1 {
		t.Fatalf("the turn ended with %q, %v and the warnings %q", end.Stop, err, h.Warnings())
	}
	text := transcript.Text(h.Items()[1].Body)
	if len(text) > 4<<20 || len(text) < 4<<20-3 || strings.Trim(text, "鯨") != "" {
		t.Errorf("the text has %d bytes", len(text))
	}
}

func TestOnlySoManyCallsOfAnAnswerAreRun(t *testing.T) {
	reply := adaptertest.Reply{}
	for i := range 130 {
		reply = append(reply, adaptertest.Call(fmt.Sprint(i), "a", "{}"))
	}
	_, s := open(t, adaptertest.Script{append(reply, adaptertest.Stop(adapters.StopTools)), adaptertest.Answer("Done.")})
	h := adaptertest.NewHost(t)
	if _, err := h.Play(t.Context(), s, "go"); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, it := range h.Items() {
		if r, is := it.Body.(transcript.ToolResult); is && r.IsError {
			refused++
		}
	}
	if refused != 2 {
		t.Errorf("%d calls were refused, want the 2 beyond 128", refused)
	}
}

// counting is a model that can count and writes nothing.
type counting struct {
	*adaptertest.Model
	asked []adapters.Request
}

func (m *counting) Count(_ context.Context, req adapters.Request) (int, bool, error) {
	m.asked = append(m.asked, req)
	return len(req.Base.System) + len(req.Entries), true, nil
}

func (*counting) Unfit() *adapters.Refusal {
	return &adapters.Refusal{Code: "writerUnfit", Reason: "it counts", Remedy: "ask another"}
}

// The size is that of the request that a turn would make: with the preamble, the
// tools of the thread and without what is not sent.
func TestCountIsOfTheNextRequest(t *testing.T) {
	m := &counting{Model: adaptertest.NewModel(t, adaptertest.Script{adaptertest.Answer("Hello.")})}
	s, err := agent.New(m).Open(t.Context(), adapters.OpenParams{Tools: []adapters.ToolSpec{{Name: "of_the_client"}}})
	if err != nil {
		t.Fatal(err)
	}
	h := adaptertest.NewHost(t)
	h.Preamble = "Rules."
	var input adapters.Context
	h.Edit = func(c *adapters.Context) {
		stub := transcript.Entry{Form: transcript.FormStub, Item: transcript.Item{ID: "r", Body: transcript.Reasoning{Text: "[…]"}}}
		c.Entries = append([]transcript.Entry{stub}, c.Entries...)
		input = *c
	}
	if _, err := h.Play(t.Context(), s, "go"); err != nil {
		t.Fatal(err)
	}
	n, known, err := s.(adapters.Counter).Count(t.Context(), input)
	if err != nil || !known || n != len("You play a script.\n\nRules.")+1 {
		t.Errorf("count %d, %v, %v", n, known, err)
	}
	if diff := cmp.Diff(m.Requests()[0], m.asked[0]); diff != "" {
		t.Errorf("what was counted (-sent +counted):\n%s", diff)
	}
	if len(input.Entries) != 2 {
		t.Error("the host's context was changed")
	}
	if u := s.(adapters.Summarizer).Unfit(); u == nil || u.Code != "writerUnfit" {
		t.Errorf("unfit: %+v, want the refusal of the model", u)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestWhatWasMendedInAWritersRequestIsReturned(t *testing.T) {
	_, s := open(t, adaptertest.Script{append(adaptertest.Reply{repaired("L4")}, adaptertest.Answer("Notes.")...)})
	sum, err := s.(adapters.Summarizer).Summarize(t.Context(), adapters.SummaryRequest{Text: "data"})
	if err != nil || sum.Text != "Notes." {
		t.Errorf("summary %+v, %v", sum, err)
	}
	if diff := cmp.Diff([]string{"L4: a call without a result"}, sum.Repaired); diff != "" {
		t.Errorf("repaired (-want +got):\n%s", diff)
	}
}
