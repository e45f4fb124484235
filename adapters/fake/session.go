package fake

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// session is one thread's conversation.
type session struct {
	script  *Script
	cwd     string
	tools   []adapters.ToolSpec
	steered chan struct{} // has one token if the user steered since the last look

	mu     sync.Mutex // guards what follows
	said   []string   // what the user steered with
	stop   context.CancelCauseFunc
	over   chan struct{} // closed when what was begun last has ended; nil: nothing was
	closed bool
}

var (
	errInterrupted = fmt.Errorf("interrupted: %w", context.Canceled)
	errClosed      = fault.New(fault.Unavailable, "the session is closed")
)

// begin is the beginning of a turn or a compaction: its context, which Interrupt and
// Close end, and what is to be called at its end.
func (s *session) begin(ctx context.Context) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, errClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	s.stop, s.said, s.over = cancel, nil, over
	return ctx, func() {
		cancel(nil)
		close(over)
	}, nil
}

// NativeID implements adapters.Session.
func (s *session) NativeID() string { return "fake" }

// Base implements adapters.Session.
func (s *session) Base() adapters.Base { return adapters.Base{System: "A script.", Tools: s.tools} }

// Close implements adapters.Session.
func (s *session) Close() error {
	s.mu.Lock()
	s.closed = true
	stop, over := s.stop, s.over
	s.mu.Unlock()
	if over != nil {
		stop(errInterrupted)
		<-over
	}
	return nil
}

// Steer implements adapters.Session.
func (s *session) Steer(_ context.Context, input []transcript.Part) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return adapters.ErrNotSteerable
	}
	s.said = append(s.said, transcript.PartsText(input))
	s.mu.Unlock()
	select {
	case s.steered <- struct{}{}:
	default:
	}
	return nil
}

// Interrupt implements adapters.Session.
func (s *session) Interrupt(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop(errInterrupted)
	}
	return nil
}

// Compaction implements adapters.Session.
func (s *session) Compaction() adapters.Ability {
	return s.script.ability()
}

func (s *Script) ability() adapters.Ability {
	if c := s.compact; c.how == "none" {
		return adapters.Ability{Refusal: c.refusal()}
	}
	return adapters.Ability{Native: &adapters.Native{Form: "fake"}}
}

func (c compaction) refusal() *adapters.Refusal {
	return &adapters.Refusal{Code: "nativeUnsupported", Reason: c.reason, Remedy: adapters.UseLocal}
}

// Compact implements adapters.Session.
func (s *session) Compact(ctx context.Context, _ adapters.CompactInput, _ adapters.Host) (adapters.NativeResult, error) {
	ctx, over, err := s.begin(ctx)
	if err != nil {
		return adapters.NativeResult{}, err
	}
	defer over()
	return s.script.compacts(ctx)
}

// compacts is how the provider's own compaction ends.
func (s *Script) compacts(ctx context.Context) (res adapters.NativeResult, err error) {
	switch c := s.compact; c.how {
	case "fail":
		return res, fault.New(fault.Unavailable, "%s", c.reason)
	case "hang":
		<-ctx.Done()
		return res, context.Cause(ctx)
	case "refuse":
		return res, &adapters.RefusedError{Refusal: *c.refusal()}
	case "deny":
		return res, fault.New(fault.Denied, "%s", c.reason)
	case "nothing":
		return res, adapters.ErrNothingToCompact
	case "lossy":
		return res, adapters.ErrLossy
	case "uncertain":
		return res, adapters.ErrUncertain
	}
	return adapters.NativeResult{Form: "fake"}, nil
}

// Run implements adapters.Session.
func (s *session) Run(ctx context.Context, in adapters.TurnInput, host adapters.Host) (adapters.End, error) {
	ctx, over, err := s.begin(ctx)
	if err != nil {
		return adapters.End{}, err
	}
	defer over()
	seen, err := host.Context(ctx)
	if err != nil {
		return adapters.End{}, err
	}
	input, done := asked(seen, in.Turn)
	if !in.Continue {
		input = transcript.PartsText(in.Input)
	}
	steps, ok := s.script.stepsFor(input)
	if !ok {
		return adapters.End{}, fault.New(fault.Invalid, "the script has no turn for this input")
	}
	p := &play{session: s, ctx: ctx, host: host, turn: in.Turn, done: done}
	for n, st := range steps {
		if err := p.step(n, st); err != nil {
			return adapters.End{}, errors.Join(err, context.Cause(ctx))
		}
	}
	for s.hasSteered() { // it is read, as the contract asks
		if _, err := host.Context(ctx); err != nil {
			return adapters.End{}, err
		}
	}
	return adapters.End{Updates: p.last, Stop: adapters.StopEnd}, nil
}

// asked returns the first thing that the user said in a turn, and the items of it
// that are complete.
func asked(c adapters.Context, turn transcript.TurnID) (string, map[transcript.ItemID]bool) {
	input, said := "", false
	done := map[transcript.ItemID]bool{}
	answered := map[transcript.CallID]bool{}
	for _, e := range c.Entries {
		if r, ok := e.Item.Body.(transcript.ToolResult); ok {
			answered[r.CallID] = true
		}
	}
	for _, e := range c.Entries {
		if e.Item.Turn != turn {
			continue
		}
		switch b := e.Item.Body.(type) {
		case transcript.UserMessage:
			if !said {
				input, said = transcript.Text(b), true
			}
		case transcript.ToolCall:
			done[e.Item.ID] = answered[b.CallID]
		default:
			done[e.Item.ID] = !e.Item.CompletedAt.IsZero()
		}
	}
	return input, done
}

func (s *session) hasSteered() bool {
	select {
	case <-s.steered:
		return true
	default:
		return false
	}
}

// lastSteer is what the user steered with last.
func (s *session) lastSteer() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.said) == 0 {
		return ""
	}
	return s.said[len(s.said)-1]
}

// wait lets time pass.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// words cuts a text into what is streamed at once: a word with the blank before it.
func words(text string) []string {
	var out []string
	for text != "" {
		n := strings.IndexByte(text[1:], ' ') + 1
		if n == 0 {
			n = len(text)
		}
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}
