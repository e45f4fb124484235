package agent

import (
	"context"
	"fmt"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// New returns an Adapter whose sessions drive m.
func New(m adapters.Model) adapters.Adapter { return adapter{m} }

type adapter struct{ model adapters.Model }

var _ adapters.Continuer = adapter{}

// Models implements adapters.Adapter.
func (a adapter) Models(ctx context.Context) ([]adapters.ModelInfo, error) {
	return a.model.Models(ctx)
}

// Open implements adapters.Adapter. A model is stateless, so there is nothing to
// resume; only an unnamed model has to be looked up.
func (a adapter) Open(ctx context.Context, p adapters.OpenParams) (adapters.Session, error) {
	name := p.Model
	if name == "" {
		infos, err := a.model.Models(ctx)
		if err != nil {
			return nil, fmt.Errorf("list models: %w", err)
		}
		if len(infos) == 0 {
			return nil, fault.New(fault.NotFound, "the provider offers no model; name one")
		}
		name = infos[0].ID
	}
	return newSession(a.model, name, p), nil
}

// Continues implements adapters.Continuer: all that a session knows is in the
// context.
func (a adapter) Continues() bool { return true }
