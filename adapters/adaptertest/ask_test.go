package adaptertest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// askingRuntime is a runtime that asks by itself, without any wire. What waits is
// its own to remember, so that another session can go on with it.
type askingRuntime struct {
	adapters.Adapter
	model *Model
	fault string // what its sessions do wrong

	waiting []wish
}

// wish is a command that waits for an answer.
type wish struct {
	command string
	item    transcript.ItemID // empty until it was asked
}

func (*askingRuntime) Continues() bool { return true }

func (a *askingRuntime) Open(context.Context, adapters.OpenParams) (adapters.Session, error) {
	return &askingSession{runtime: a}, nil
}

type askingSession struct {
	adapters.Session
	runtime *askingRuntime

	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

func (s *askingSession) Interrupt(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
	return nil
}

func (s *askingSession) Close() error {
	s.mu.Lock()
	cancel, done := s.cancel, s.done
	s.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
	return nil
}

func (s *askingSession) Run(ctx context.Context, in adapters.TurnInput, host adapters.Host) (adapters.End, error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	s.mu.Lock()
	s.cancel, s.done = cancel, done
	s.mu.Unlock()
	defer func() {
		cancel()
		s.mu.Lock()
		s.cancel = nil
		s.mu.Unlock()
		close(done)
	}()
	if !in.Continue {
		s.runtime.waiting = nil
	}
	for {
		err := s.settle(ctx, in, host)
		var end adapters.End
		if err == nil {
			end, err = s.step(ctx, in, host)
		}
		if s.runtime.fault == "hides that it was cancelled" && errors.Is(err, context.Canceled) {
			err = errors.New("broken")
		}
		if s.runtime.fault == "takes a failure for a success" && err != nil {
			return adapters.End{}, nil
		}
		if err != nil || len(s.runtime.waiting) == 0 {
			return end, err
		}
	}
}

// settle asks about everything that waits.
func (s *askingSession) settle(ctx context.Context, in adapters.TurnInput, host adapters.Host) error {
	rt := s.runtime
	for len(rt.waiting) > 0 {
		w := &rt.waiting[0]
		if w.item == "" || in.Continue && rt.fault == "goes on with another item" {
			w.item = host.NewItemID()
		}
		body := transcript.Command{Command: w.command, Cwd: "/work", Status: "inProgress"}
		it := transcript.Item{ID: w.item, Turn: in.Turn, Body: body}
		a, err := s.ask(ctx, it, w.command, host)
		if err != nil {
			return err
		}
		body.Status = "completed"
		if !a.Decision.Allows() && rt.fault != "does what was declined" {
			body.Status = "declined"
		}
		it.Body = body
		if rt.fault != "leaves its item open" {
			if err := host.Emit(ctx, adapters.ItemCompleted{Item: it}); err != nil {
				return err
			}
		}
		rt.waiting = rt.waiting[1:]
		if a.Decision == adapters.Cancel && rt.fault != "goes on after a cancel" {
			<-ctx.Done()
			return ctx.Err()
		}
	}
	return nil
}

func (s *askingSession) ask(ctx context.Context, it transcript.Item, command string, host adapters.Host) (adapters.Answer, error) {
	q := adapters.CommandApproval{Item: it, Command: command, Cwd: "/work"}
	switch s.runtime.fault {
	case "asks about no command":
		q.Command = ""
	case "asks about a message":
		q.Item.Body = transcript.AgentMessage{}
	case "asks twice":
		if _, err := host.Ask(ctx, q); err != nil {
			return adapters.Answer{}, err
		}
	case "does not ask":
		return adapters.Answer{Decision: adapters.Accept}, host.Emit(ctx, adapters.ItemStarted{Item: it})
	}
	return host.Ask(ctx, q)
}

// step plays one reply.
func (s *askingSession) step(ctx context.Context, in adapters.TurnInput, host adapters.Host) (adapters.End, error) {
	var text strings.Builder
	end := adapters.End{Stop: adapters.StopEnd}
	for step, err := range s.runtime.model.Next(ctx, adapters.Request{}) {
		if err != nil {
			return end, err
		}
		if step.Ask != nil {
			s.runtime.waiting = append(s.runtime.waiting, wish{command: step.Ask.Command})
		}
		if c, is := step.Chunk.(adapters.MessageText); is {
			text.WriteString(c.Text)
		}
	}
	if len(s.runtime.waiting) > 0 {
		return end, nil
	}
	it := transcript.Item{ID: host.NewItemID(), Turn: in.Turn, Body: transcript.AgentMessage{}}
	err := host.Emit(ctx, adapters.ItemStarted{Item: it}, adapters.TextDelta{Item: it.ID, Text: text.String()})
	it.Body = transcript.AgentMessage{Text: text.String()}
	end.Updates = []adapters.Update{adapters.ItemCompleted{Item: it}}
	return end, err
}

// TestTheQuestionCasesReportBrokenSessions is what makes them worth running.
func TestTheQuestionCasesReportBrokenSessions(t *testing.T) {
	for fault, want := range map[string]string{
		"":                              "",
		"does not ask":                  "was asked 0 times",
		"asks twice":                    "was asked 2 times",
		"asks about no command":         "names no command",
		"asks about a message":          "it must be a command or a file change",
		"does what was declined":        "commands that were run (-want +got)",
		"leaves its item open":          "is open",
		"goes on after a cancel":        "the script has 1 replies",
		"hides that it was cancelled":   "want an error that is context.Canceled",
		"takes a failure for a success": "want the host's error",
		"goes on with another item":     "and then about item",
	} {
		t.Run(fault, func(t *testing.T) {
			n := &notes{}
			for _, c := range askCases {
				script, check := c.make()
				rt := &askingRuntime{model: NewModel(n, script), fault: fault}
				s, err := rt.Open(t.Context(), adapters.OpenParams{})
				if err != nil {
					t.Fatal(err)
				}
				within(t, c.name, func() { check(t.Context(), n, fixture{adapter: rt, session: s, host: NewHost(n)}) })
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			all := strings.Join(n.errs, "\n")
			if (all == "") != (fault == "") || !strings.Contains(all, want) {
				t.Errorf("reports %q, want one with %q", all, want)
			}
		})
	}
}
