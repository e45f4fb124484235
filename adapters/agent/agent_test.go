package agent_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func TestConformance(t *testing.T) {
	adaptertest.RunModel(t, func(t *testing.T, s adaptertest.Script) adaptertest.Provider {
		m := adaptertest.NewModel(t, s)
		return adaptertest.Provider{Adapter: agent.New(m), Bodies: m.Bodies}
	})
}

// open returns a session over a scripted model.
func open(t *testing.T, s adaptertest.Script) (*adaptertest.Model, adapters.Session) {
	t.Helper()
	m := adaptertest.NewModel(t, s)
	session, err := agent.New(m).Open(t.Context(), adapters.OpenParams{Thread: "t"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, session
}

// shape names the updates of each commit.
func shape(commits [][]adapters.Update) [][]string {
	var out [][]string
	for _, c := range commits {
		var names []string
		for _, u := range c {
			switch u := u.(type) {
			case adapters.ItemStarted:
				names = append(names, "started "+string(u.Item.Body.Kind()))
			case adapters.ItemCompleted:
				names = append(names, "completed "+string(u.Item.Body.Kind()))
			case adapters.UsageReported:
				names = append(names, "usage")
			}
		}
		out = append(out, names)
	}
	return out
}

func TestCommitsOfATurn(t *testing.T) {
	for _, c := range []struct {
		name   string
		script adaptertest.Script
		want   [][]string // the last one is the End
	}{
		{"plain", adaptertest.Script{adaptertest.Answer("Hello there.")}, [][]string{
			{"started agentMessage"},
			{"completed agentMessage", "usage"},
		}},
		{"reasoning", adaptertest.Script{{adaptertest.Think("hm"), adaptertest.Say("Yes."), adaptertest.Spend(1, 1), adaptertest.Stop(adapters.StopEnd)}}, [][]string{
			{"started reasoning"},
			{"completed reasoning", "started agentMessage"},
			{"completed agentMessage", "usage"},
		}},
		{"tools", adaptertest.Script{
			{
				adaptertest.Say("Looking."), adaptertest.Call("1", "a", "{}"), adaptertest.Call("2", "b", "{}"),
				adaptertest.Call("3", "c", "nonsense"), adaptertest.Spend(1, 1), adaptertest.Stop(adapters.StopTools),
			},
			adaptertest.Answer("Done."),
		}, [][]string{
			{"started agentMessage"},
			{"completed agentMessage", "usage", "started toolCall", "started toolCall", "completed toolCall", "completed toolResult"},
			{"started agentMessage"},
			{"completed agentMessage", "usage"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, s := open(t, c.script)
			h := adaptertest.NewHost(t)
			if _, err := h.Play(t.Context(), s, "go"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, shape(h.Commits())); diff != "" {
				t.Errorf("commits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestsCarryTheContextOfTheHost(t *testing.T) {
	m, s := open(t, adaptertest.Script{
		{adaptertest.Call("1", "a", `{"x":1}`), adaptertest.Stop(adapters.StopTools)},
		adaptertest.Answer("Done."),
	})
	h := adaptertest.NewHost(t)
	if _, err := h.Play(t.Context(), s, "go"); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, r := range m.Requests() {
		sizes = append(sizes, len(r.Entries))
		if r.Model != "scripted" || r.Base.System != m.Fixed.System {
			t.Errorf("request for model %q with system text %q", r.Model, r.Base.System)
		}
	}
	if diff := cmp.Diff([]int{1, 3}, sizes); diff != "" {
		t.Errorf("entries of the requests (-want +got):\n%s", diff)
	}
}

func TestUnusableArgumentsStayReadable(t *testing.T) {
	_, s := open(t, adaptertest.Script{
		{adaptertest.Call("1", "write", `{"path": "a`), adaptertest.Stop(adapters.StopTools)},
		adaptertest.Answer("Sorry."),
	})
	h := adaptertest.NewHost(t)
	if _, err := h.Play(t.Context(), s, "go"); err != nil {
		t.Fatal(err)
	}
	items := h.Items()
	want := []transcript.Body{
		transcript.ToolCall{CallID: "1", Name: "write", Arguments: transcript.RawJSON(`"{\"path\": \"a"`)},
		transcript.ToolResult{CallID: "1", IsError: true, Output: transcript.TextParts(`the arguments are not valid JSON: {"path": "a`)},
	}
	if diff := cmp.Diff(want, []transcript.Body{items[1].Body, items[2].Body}); diff != "" {
		t.Errorf("call and result (-want +got):\n%s", diff)
	}
}

func TestATurnOfToolCallsHasALimit(t *testing.T) {
	script := make(adaptertest.Script, agent.MaxSteps)
	for i := range script {
		script[i] = adaptertest.Reply{adaptertest.Call("again", "a", "{}"), adaptertest.Stop(adapters.StopTools)}
	}
	_, s := open(t, script)
	h := adaptertest.NewHost(t)
	_, err := h.Play(t.Context(), s, "go")
	if fault.CodeOf(err) != fault.TooLarge {
		t.Errorf("a model that never stops ended with %v", err)
	}
}

func TestStopForToolsWithoutCallsFails(t *testing.T) {
	_, s := open(t, adaptertest.Script{{adaptertest.Say("Let me look."), adaptertest.Spend(3, 3), adaptertest.Stop(adapters.StopTools)}})
	h := adaptertest.NewHost(t)
	if _, err := h.Play(t.Context(), s, "go"); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("the turn ended with %v", err)
	}
	if len(h.Usages()) != 1 {
		t.Errorf("usages %+v: what was spent must be reported", h.Usages())
	}
}

// A steer that arrives while the context is read may be in that context already.
// The model must not be asked twice about it.
func TestASteerThatIsAlreadyAnsweredCostsNoRequest(t *testing.T) {
	m, s := open(t, adaptertest.Script{
		{adaptertest.Call("1", "a", "{}"), adaptertest.Stop(adapters.StopTools)},
		adaptertest.Answer("Both."),
	})
	h := adaptertest.NewHost(t)
	contexts := 0
	h.OnContext = func() {
		if contexts++; contexts == 2 {
			if err := s.Steer(t.Context(), transcript.TextParts("more")); err != nil {
				t.Error(err)
			}
			h.Say("more")
		}
	}
	if _, err := h.Play(t.Context(), s, "go"); err != nil {
		t.Fatal(err)
	}
	if n := len(m.Requests()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestASteerDuringToolsIsInTheNextRequest(t *testing.T) {
	m, s := open(t, adaptertest.Script{
		{adaptertest.Call("1", "a", "{}"), adaptertest.Stop(adapters.StopTools)},
		adaptertest.Answer("Both."),
	})
	h := adaptertest.NewHost(t)
	h.OnTool = func(context.Context, transcript.ToolCall) (transcript.ToolResult, error) {
		h.Say("more")
		return transcript.ToolResult{}, s.Steer(t.Context(), transcript.TextParts("more"))
	}
	contexts := 0
	h.OnContext = func() { contexts++ }
	if _, err := h.Play(t.Context(), s, "go"); err != nil {
		t.Fatal(err)
	}
	if n := len(m.Requests()); n != 2 || contexts != 2 {
		t.Errorf("%d requests from %d contexts, want 2 from 2", n, contexts)
	}
}

func TestEmitThatFailsIsNotRepeated(t *testing.T) {
	_, s := open(t, adaptertest.Script{adaptertest.Answer("Hello.")})
	h := &failingHost{Host: adaptertest.NewHost(t), err: errors.New("disk full")}
	_, err := s.Run(t.Context(), adapters.TurnInput{Turn: "turn"}, h)
	if !errors.Is(err, h.err) {
		t.Errorf("run ended with %v, want the host's error", err)
	}
	if h.emits != 1 {
		t.Errorf("%d commits were tried, want 1: nobody knows whether a failed one is journaled", h.emits)
	}
}

// failingHost cannot commit.
type failingHost struct {
	*adaptertest.Host
	err   error
	emits int
}

func (h *failingHost) Emit(context.Context, ...adapters.Update) error {
	h.emits++
	return h.err
}

func (h *failingHost) Context(context.Context) (adapters.Context, error) {
	return adapters.Context{}, nil
}

func (h *failingHost) NewItemID() transcript.ItemID { return "item" }

func TestOpenNamesTheDefaultModel(t *testing.T) {
	m := adaptertest.NewModel(t, nil)
	m.Infos = nil
	if _, err := agent.New(m).Open(t.Context(), adapters.OpenParams{}); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("open without any model: %v", err)
	}
	s, err := agent.New(m).Open(t.Context(), adapters.OpenParams{Model: "named"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestASecondRunAtTheSameTimeIsRefused(t *testing.T) {
	_, s := open(t, adaptertest.Script{adaptertest.Answer("Hello.")})
	h := adaptertest.NewHost(t)
	h.OnContext = func() {
		if _, err := s.Run(t.Context(), adapters.TurnInput{}, h); fault.CodeOf(err) != fault.Internal {
			t.Errorf("a second run was not refused: %v", err)
		}
	}
	if _, err := h.Play(t.Context(), s, "go"); err != nil {
		t.Fatal(err)
	}
}

// slowToStop is a model whose transport takes its time to notice a cancel, and
// then reports it in its own words.
type slowToStop struct {
	*adaptertest.Model
	noticed chan struct{}
}

func (m slowToStop) Stream(ctx context.Context, _ adapters.Request) iter.Seq2[adapters.Chunk, error] {
	return func(yield func(adapters.Chunk, error) bool) {
		<-ctx.Done()
		<-m.noticed
		yield(nil, errors.New("use of closed connection"))
	}
}

func TestCloseWaitsForTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := slowToStop{adaptertest.NewModel(t, nil), make(chan struct{})}
		s, err := agent.New(m).Open(t.Context(), adapters.OpenParams{})
		if err != nil {
			t.Fatal(err)
		}
		ran, closed := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := adaptertest.NewHost(t).Play(t.Context(), s, "go")
			ran <- err
		}()
		synctest.Wait()
		go func() { closed <- s.Close() }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatalf("Close returned %v while the turn was running", err)
		default:
		}
		close(m.noticed)
		if err := <-ran; !errors.Is(err, context.Canceled) {
			t.Errorf("the turn ended with %v, want a cancellation whatever the transport says", err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

func TestRequestsCarryTheEffortOfTheTurnAndTheBlobsOfTheThread(t *testing.T) {
	m := adaptertest.NewModel(t, adaptertest.Script{
		{adaptertest.Call("1", "a", `{}`), adaptertest.Stop(adapters.StopTools)}, adaptertest.Answer("Done."), adaptertest.Answer("Again."),
	})
	s, err := agent.New(m).Open(t.Context(), adapters.OpenParams{Blob: func(hash string) ([]byte, error) { return []byte("of " + hash), nil }})
	if err != nil {
		t.Fatal(err)
	}
	h := adaptertest.NewHost(t)
	for _, effort := range []string{"high", ""} {
		h.Effort = effort
		if _, err := h.Play(t.Context(), s, "go"); err != nil {
			t.Fatal(err)
		}
	}
	var efforts []string
	for _, r := range m.Requests() {
		efforts = append(efforts, r.Effort)
		if b, err := r.Blob("x"); err != nil || string(b) != "of x" {
			t.Errorf("blob %q, %v", b, err)
		}
	}
	if diff := cmp.Diff([]string{"high", "high", ""}, efforts); diff != "" {
		t.Errorf("efforts (-want +got):\n%s", diff)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
