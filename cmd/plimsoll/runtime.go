package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

	ephemeral *threads.Service
}

// A lock is what clients that are not on a private socket must prove, and under
// which names they may address the server beside those of the configuration. The
// zero lock is the home's token.
type lock struct {
	token  func() string
	digest func() ([sha256.Size]byte, bool) // of a token that is not known here; nil: token counts
	grants func([sha256.Size]byte) (api.Scope, bool)
	hosts  []string
}

// An opener makes this process the owner of a home.
type opener func(home, lock, *slog.Logger) (*running, error)

// openHome makes the home ready and owns it.
func (m *Main) openHome(h home, l lock, log *slog.Logger) (*running, error) {
	if err := h.create(); err != nil {
		return nil, err
	}
	return m.openAsIs(h, l, log)
}

// openAsIs owns a home that is there, and leaves its modes as they are. Nothing else
// does the wiring.
func (m *Main) openAsIs(h home, l lock, log *slog.Logger) (*running, error) {
	cfg, err := readConfig(h.path(configFile))
	if err != nil {
		return nil, err
	}
	providers, err := openProviders(cfg, environment{m.Getenv, log})
	if err != nil {
		return nil, err
	}
	journal, err := sqlite.Open(h.path(dbFile), sqlite.Options{})
	if err != nil {
		return nil, openProblem(h, err)
	}
	domain := engineOf(threads.Config{
		Journal:   journal,
		Providers: providers,
		Logger:    log,
		Checks:    cfg.Checks.Commands,
		IdleAfter: time.Duration(cfg.Limits.IdleAfter),
		StopAfter: time.Duration(cfg.Limits.StopAfter),
	}, cfg, h, m.Getenv)
	svc, err := threads.Open(context.Background(), domain)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open home: %w", err), journal.Close())
	}
	ephemeral, err := openEphemeral(domain)
	if err != nil {
		return nil, errors.Join(err, svc.Close(context.Background()))
	}
	if l.token == nil && l.digest == nil {
		l.token, l.grants = h.watchToken(log), h.watchGrants(log)
	}
	return &running{home: h, cfg: cfg, svc: svc, ephemeral: ephemeral, api: api.New(api.Options{
		Service:   svc,
		Ephemeral: ephemeral,
		Token:     l.token,
		TokenHash: l.digest,
		Grants:    l.grants,
		Hosts:     slices.Concat(cfg.Server.Hosts, l.hosts),
		Origins:   cfg.Server.Origins,
		Logger:    log,
		Version:   version,
		Home:      h.dir,
		Limits:    limitsOf(cfg.Limits),
	})}, nil
}

func limitsOf(l limitsConfig) api.Limits {
	return api.Limits{Peers: deref(l.Peers), TokenPeers: deref(l.TokenPeers), Requests: deref(l.Requests)}
}

// Close ends what runs, journals that it was interrupted, and gives the home up.
func (r *running) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopAfter)
	defer cancel()
	ephemeral := make(chan error, 1)
	go func() { ephemeral <- r.ephemeral.Close(ctx) }()
	if err := errors.Join(r.svc.Close(ctx), <-ephemeral); err != nil {
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
