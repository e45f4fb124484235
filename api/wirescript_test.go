package api

import (
	"context"
	"errors"
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/adapters/fake"
	"github.com/plimsoll-dev/plimsoll/adapters/offline"
	"github.com/plimsoll-dev/plimsoll/adapters/titles"
	"github.com/plimsoll-dev/plimsoll/api/codexschema"
	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
	"github.com/plimsoll-dev/plimsoll/api/wiretest"
	"github.com/plimsoll-dev/plimsoll/events/mem"
	"github.com/plimsoll-dev/plimsoll/threads"
)

var updateWire = flag.Bool("update", false, "write what came into the wire scripts")

// wireServer serves a script's provider in memory, without a listener.
type wireServer struct {
	t       *testing.T
	journal *mem.Journal
	script  *fake.Script
	svc     *threads.Service
	passing *threads.Service // of ephemeral threads
	server  *Server
	stop    context.CancelFunc
	ctx     context.Context
	served  []chan struct{}
}

func (w *wireServer) start() error {
	providers := []threads.Provider{
		{Name: "fake", Kind: "fake", Adapter: fake.New(w.script)},
		{Name: "offline", Kind: "offline", Adapter: agent.New(offline.New())},
	}
	var err error
	if w.svc, err = threads.Open(context.Background(), threads.Config{Journal: w.journal, Providers: providers}); err != nil {
		return err
	}
	providers = append(providers, threads.Provider{Name: providerTitle, Kind: "titles", Adapter: agent.New(titles.New())})
	if w.passing, err = threads.Open(context.Background(), threads.Config{Journal: mem.New(), Providers: providers}); err != nil {
		return err
	}
	w.server = New(Options{Service: w.svc, Ephemeral: w.passing, Version: "0.0.0-test", Home: "/home"})
	w.ctx, w.stop = context.WithCancel(context.Background())
	return nil
}

func (w *wireServer) Dial() (jsonrpc.Transport, error) {
	client, server := jsonrpc.Pipe()
	done := make(chan struct{})
	w.served = append(w.served, done)
	s, ctx := w.server, w.ctx
	go func() {
		defer close(done)
		_ = s.ServeConn(ctx, server) // why it ended is seen by the client
	}()
	return client, nil
}

func (w *wireServer) end() error {
	w.stop()
	for _, done := range w.served {
		<-done
	}
	w.served = nil
	return errors.Join(w.passing.Close(context.Background()), w.svc.Close(context.Background()))
}

// Restart loses what is not in the journal yet, as a crash does.
func (w *wireServer) Restart() error {
	if err := w.journal.Close(); err != nil {
		return err
	}
	_ = w.end() // it has no journal to write to
	w.journal.Reopen()
	return w.start()
}

func TestWireScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	var schema *codexschema.Schema // nil without codex; the scripts are played all the same
	t.Run("schema", func(t *testing.T) { schema = codexschema.Load(t).Own("thread/subscribe") })
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			s, err := wiretest.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			script, err := fake.Parse(s.Fake)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				w := &wireServer{t: t, journal: mem.New(), script: script}
				if err := w.start(); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := w.end(); err != nil {
						t.Error(err)
					}
				}()
				settle := func(d time.Duration) { <-time.After(d); synctest.Wait() }
				wiretest.Run{Server: w, Settle: settle, Schema: schema, Update: *updateWire}.Play(t, s)
			})
		})
	}
}
