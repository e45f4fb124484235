package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Unfit implements adapters.Summarizer.
func (s *session) Unfit() *adapters.Refusal {
	if u, is := s.model.(adapters.Unwriting); is {
		return u.Unfit()
	}
	return nil
}

// Summarize implements adapters.Summarizer. The request has no tools and nothing of
// the thread but what it is given. Of a failed one the usage is returned as well.
func (s *session) Summarize(ctx context.Context, req adapters.SummaryRequest) (adapters.Summary, error) {
	ctx, finish, err := s.beside(ctx)
	if err != nil {
		return adapters.Summary{}, err
	}
	defer finish()
	w := &writer{}
	err = w.stream(s.model.Stream(ctx, adapters.Request{
		Model: s.name, Base: adapters.Base{System: req.System}, MaxOutput: req.MaxOutput, Writer: true,
		Entries: []transcript.Entry{{
			Item: transcript.Item{ID: "summary", Body: transcript.UserMessage{Content: transcript.TextParts(req.Text)}},
			Form: transcript.FormWhole,
		}},
	}))
	if ctx.Err() != nil { // whatever the transport made of it
		err = ctx.Err()
	}
	w.sum.Text = strings.ToValidUTF8(w.text.String(), replacement)
	if err != nil {
		return w.sum, fmt.Errorf("writer request: %w", err)
	}
	return w.sum, nil
}

// beside opens a completion beside the turn; Close ends it and waits for finish.
func (s *session) beside(ctx context.Context) (_ context.Context, finish func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, fault.New(fault.Unavailable, "the session is closed")
	}
	s.aside.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(s.over, cancel)
	return ctx, func() {
		release()
		cancel()
		s.aside.Done()
	}, nil
}

// writer takes the answer to a summary request.
type writer struct {
	sum    adapters.Summary
	text   strings.Builder
	called bool
}

// stream reads the answer up to its Done. Thinking is no part of it, and a call is
// no answer: nobody runs it.
func (w *writer) stream(answer func(yield func(adapters.Chunk, error) bool)) error {
	for chunk, err := range answer {
		if err != nil {
			return err
		}
		switch c := chunk.(type) {
		case adapters.MessageText:
			if w.text.Len()+len(c.Text) > maxText {
				w.sum.Stop = adapters.StopLength
				return nil
			}
			w.text.WriteString(c.Text)
		case adapters.CallChunk:
			w.called = true
		case adapters.UsageChunk:
			w.sum.Usage = c.Usage
		case adapters.Done:
			if w.sum.Stop = c.Stop; w.called {
				w.sum.Stop = adapters.StopTools
			}
			return nil
		case adapters.Repaired:
			w.sum.Repaired = append(w.sum.Repaired, c.Rule+": "+c.Text)
		case adapters.ReasoningText, adapters.Retried:
		default:
			return fmt.Errorf("unknown chunk %T", chunk)
		}
	}
	return &adapters.Error{Class: adapters.ClassCut, Message: "the writer's answer ended before it was complete"}
}

// Count implements adapters.Counter: of the request that a turn would make of c.
func (s *session) Count(ctx context.Context, c adapters.Context) (tokens int, known bool, err error) {
	return s.model.Count(ctx, s.ask(c, ""))
}
