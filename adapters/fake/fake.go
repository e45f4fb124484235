// Package fake is an adapter that plays a script: it streams, asks, runs, fails and
// compacts as a runtime would, without anything behind it. It exists for tests of
// what stands above adapters, and is part of no release.
//
// Guarantees:
//
//   - What a turn does depends on the script and the text of the input only.
//   - Items have ids that follow from the turn and the step, so that a session goes
//     on with a turn that another process began (adapters.Continuer).
//   - Waiting ends with the turn's context, and time is that of package time, which
//     testing/synctest makes its own.
package fake

import (
	"context"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// New returns an adapter that plays s.
func New(s *Script) adapters.Adapter { return adapter{s} }

type adapter struct{ script *Script }

var _ adapters.Continuer = adapter{}

// Models implements adapters.Adapter.
func (adapter) Models(context.Context) ([]adapters.ModelInfo, error) {
	return []adapters.ModelInfo{
		{ID: "fake", DisplayName: "Fake", ContextWindow: 100_000, MaxOutput: 4000},
		{ID: "fake-small", DisplayName: "Fake, small", ContextWindow: 8000, MaxOutput: 1000},
	}, nil
}

// Open implements adapters.Adapter.
func (a adapter) Open(_ context.Context, p adapters.OpenParams) (adapters.Session, error) {
	return &session{script: a.script, cwd: p.Cwd, tools: p.Tools, steered: make(chan struct{}, 1)}, nil
}

// Continues implements adapters.Continuer.
func (adapter) Continues() bool { return true }
