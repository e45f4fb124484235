// Command harbour-api serves the berth booking API of the harbour.
package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"harbour.example/api/internal/berth"
	"harbour.example/api/internal/config"
	"harbour.example/api/internal/httpapi"
	"harbour.example/api/internal/store"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if err := run(log); err != nil {
		log.Error("harbour-api stopped", "err", err)
		os.Exit(1)
	}
}

func run(log *slog.Logger) error {
	cfg, err := config.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	st := store.NewMemory()
	if err := store.Seed(ctx, st, cfg.Berths); err != nil {
		return err
	}
	assigner := berth.NewAssigner(st, cfg.HoldFor)
	api := httpapi.New(httpapi.Options{
		Log:      log,
		Store:    st,
		Assigner: assigner,
		APIKeys:  cfg.APIKeys,
		Timeout:  cfg.RequestTimeout,
	})
	srv := &http.Server{
		Addr:              cfg.Listen,
		Handler:           api,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       90 * time.Second,
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.ListenAndServe() }()
	log.Info("listening", "addr", cfg.Listen, "berths", len(cfg.Berths))

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	shutdown, cancel := context.WithTimeout(context.Background(), cfg.ShutdownGrace)
	defer cancel()
	if err := srv.Shutdown(shutdown); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	log.Info("stopped")
	return nil
}
