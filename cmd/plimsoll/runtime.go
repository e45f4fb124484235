package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/sqlite"
	"github.com/plimsoll-dev/plimsoll/threads"
)

// stopAfter is how long a closing home waits for running work to be interrupted
// and journaled.
const stopAfter = 15 * time.Second

// A running home is owned by this process until Close.
type running struct {
	home home
	cfg  config
	svc  *threads.Service
	api  *api.Server
}

// openHome makes the home ready and owns it: nothing else does the wiring.
func (m *Main) openHome(h home, log *slog.Logger) (*running, error) {
	if err := h.create(); err != nil {
		return nil, err
	}
	cfg, err := readConfig(h.path(configFile))
	if err != nil {
		return nil, err
	}
	providers, err := openProviders(cfg)
	if err != nil {
		return nil, err
	}
	journal, err := sqlite.Open(h.path(dbFile), sqlite.Options{})
	if err != nil {
		return nil, openProblem(h, err)
	}
	svc, err := threads.Open(context.Background(), threads.Config{
		Journal:   journal,
		Providers: providers,
		Logger:    log,
		Checks:    cfg.Checks.Commands,
		IdleAfter: time.Duration(cfg.Limits.IdleAfter),
		StopAfter: time.Duration(cfg.Limits.StopAfter),
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open home: %w", err), journal.Close())
	}
	return &running{home: h, cfg: cfg, svc: svc, api: api.New(api.Options{
		Service: svc,
		Token:   h.watchToken(log),
		Hosts:   cfg.Server.Hosts,
		Origins: cfg.Server.Origins,
		Logger:  log,
		Version: version,
	})}, nil
}

// Close ends what runs, journals that it was interrupted, and gives the home up.
func (r *running) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopAfter)
	defer cancel()
	if err := r.svc.Close(ctx); err != nil {
		return fmt.Errorf("close home: %w", err)
	}
	return nil
}

// openProblem says what to do about a journal that does not open.
func openProblem(h home, err error) error {
	if owned, ok := errors.AsType[*events.OwnedError](err); ok {
		return &ownedError{home: h, OwnedError: owned}
	}
	if errors.Is(err, events.ErrCorrupt) {
		return fmt.Errorf("%w\nIt was left as it is. Move it away to start with an empty journal, or restore a copy; `plimsoll doctor` checks it", err)
	}
	return err
}
