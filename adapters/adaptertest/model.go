package adaptertest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// Model plays a Script as an adapters.Model. The exported fields may be changed
// before it is used.
type Model struct {
	Infos   []adapters.ModelInfo
	Fixed   adapters.Base
	Ability adapters.Ability

	t      testing.TB
	script Script

	mu       sync.Mutex
	requests []adapters.Request
}

// NewModel returns a Model with one model, no tools, and no native compaction.
func NewModel(t testing.TB, s Script) *Model {
	return &Model{
		Infos: []adapters.ModelInfo{{ID: "scripted", DisplayName: "Scripted", ContextWindow: 100_000, MaxOutput: 4_000}},
		Fixed: adapters.Base{System: "You play a script."},
		Ability: adapters.Ability{Refusal: &adapters.Refusal{
			Code: "nativeUnsupported", Reason: "a script cannot compact", Remedy: "use route local",
		}},
		t:      t,
		script: s,
	}
}

// Requests returns the requests so far.
func (m *Model) Requests() []adapters.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
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
		m.mu.Lock()
		n := len(m.requests)
		m.requests = append(m.requests, req)
		m.mu.Unlock()
		if n >= len(m.script) {
			m.t.Errorf("request %d came, the script has %d replies", n+1, len(m.script))
			yield(nil, fmt.Errorf("the script is over"))
			return
		}
		for _, s := range m.script[n] {
			switch {
			case s.Hang:
				<-ctx.Done()
				yield(nil, ctx.Err())
				return
			case s.Err != nil:
				yield(nil, s.Err)
				return
			}
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(s.Chunk, nil) {
				return
			}
		}
	}
}
