package adaptertest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// Model plays a Script as an adapters.Model. The exported fields may be changed
// before it is used.
type Model struct {
	Infos   []adapters.ModelInfo
	Fixed   adapters.Base
	Ability adapters.Ability

	r      Reporter
	script Script

	mu       sync.Mutex
	requests []adapters.Request
}

// NewModel returns a Model with one model, no tools, and no native compaction.
func NewModel(r Reporter, s Script) *Model {
	return &Model{
		Infos: []adapters.ModelInfo{{ID: "scripted", DisplayName: "Scripted", ContextWindow: 100_000, MaxOutput: 4_000}},
		Fixed: adapters.Base{System: "You play a script."},
		Ability: adapters.Ability{Refusal: &adapters.Refusal{
			Code: "nativeUnsupported", Reason: "a script cannot compact", Remedy: "use route local",
		}},
		r:      r,
		script: s,
	}
}

// Requests returns the requests so far.
func (m *Model) Requests() []adapters.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// Bodies returns the requests so far as JSON.
func (m *Model) Bodies() []string {
	var out []string
	for _, req := range m.Requests() {
		out = append(out, body(req))
	}
	return out
}

// Models implements adapters.Model.
func (m *Model) Models(context.Context) ([]adapters.ModelInfo, error) { return m.Infos, nil }

// Base implements adapters.Model.
func (m *Model) Base() adapters.Base { return m.Fixed }

// Count implements adapters.Model: a script cannot count.
func (m *Model) Count(context.Context, adapters.Request) (int, bool, error) { return 0, false, nil }

// Compaction implements adapters.Model.
func (m *Model) Compaction() adapters.Ability { return m.Ability }

// Stream implements adapters.Model.
func (m *Model) Stream(ctx context.Context, req adapters.Request) iter.Seq2[adapters.Chunk, error] {
	return func(yield func(adapters.Chunk, error) bool) {
		for s, err := range m.Next(ctx, req) {
			if s.Completed != nil {
				m.r.Errorf("the script completes a compaction where a turn is answered")
			}
			if s.Ask != nil {
				s.Chunk = s.Ask.call()
			}
			if !yield(s.Chunk, err) {
				return
			}
		}
	}
}

// Next plays the next reply of the script step by step: those that send
// something, then the error of one that breaks or hangs. Stream is made of it; a
// fake of a provider that compacts natively uses it for that.
func (m *Model) Next(ctx context.Context, req adapters.Request) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		m.mu.Lock()
		n := len(m.requests)
		m.requests = append(m.requests, req)
		m.mu.Unlock()
		if n >= len(m.script) {
			m.r.Errorf("request %d came, the script has %d replies", n+1, len(m.script))
			yield(Step{}, fmt.Errorf("the script is over"))
			return
		}
		for _, s := range m.script[n] {
			err := s.Err
			if s.Hang {
				if s.Then != nil {
					s.Then()
				}
				<-ctx.Done()
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(Step{}, err)
				return
			}
			if !yield(s, nil) {
				return
			}
		}
	}
}
