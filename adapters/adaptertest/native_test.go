package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// nativeAdapter is an adapter whose provider compacts by itself, without any wire:
// turns run as those of a model do, and a compaction plays the next reply.
type nativeAdapter struct {
	adapters.Adapter
	model *Model
	fault string // what its sessions do wrong
}

func newNative(r Reporter, s Script, fault string) *nativeAdapter {
	m := NewModel(r, s)
	return &nativeAdapter{Adapter: agent.New(m), model: m, fault: fault}
}

func (a *nativeAdapter) Open(ctx context.Context, p adapters.OpenParams) (adapters.Session, error) {
	s, err := a.Adapter.Open(ctx, p)
	return &nativeSession{Session: s, model: a.model, fault: a.fault}, err
}

type nativeSession struct {
	adapters.Session
	model *Model
	fault string

	mu     sync.Mutex // guards all below
	cancel context.CancelFunc
	done   chan struct{}
}

const nativeForm = "scripted"

func (s *nativeSession) Compaction() adapters.Ability {
	return adapters.Ability{Native: &adapters.Native{Form: nativeForm}}
}

func (s *nativeSession) Steer(ctx context.Context, input []transcript.Part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == "takes a steer" && s.cancel != nil {
		return nil
	}
	return s.Session.Steer(ctx, input)
}

func (s *nativeSession) Close() error {
	s.mu.Lock()
	cancel, done := s.cancel, s.done
	s.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
	return s.Session.Close()
}

func (s *nativeSession) Compact(ctx context.Context, _ adapters.CompactInput, host adapters.Host) (adapters.NativeResult, error) {
	if err := ctx.Err(); err != nil && s.fault != "starts with a done context" {
		return adapters.NativeResult{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	s.mu.Lock()
	s.cancel, s.done = cancel, done
	s.mu.Unlock()
	defer func() {
		cancel()
		s.mu.Lock()
		s.cancel = nil
		s.mu.Unlock()
		close(done)
	}()
	return s.misreport(ctx, host)
}

// await plays the reply until its completion.
func (s *nativeSession) await(ctx context.Context) (adapters.NativeResult, error) {
	res := adapters.NativeResult{Form: nativeForm}
	for step, err := range s.model.Next(ctx, adapters.Request{}) {
		if err != nil {
			return adapters.NativeResult{}, err
		}
		if u, is := step.Chunk.(adapters.UsageChunk); is {
			res.Usage = &u.Usage
		}
		if c := step.Completed; c != nil && (!c.Other || s.fault == "ends with any completion") {
			if c.Disclosed != "" {
				res.Disclosed, err = json.Marshal(c.Disclosed)
			}
			return res, err
		}
	}
	if s.fault == "takes the end for a completion" {
		return res, nil
	}
	return adapters.NativeResult{}, errors.New("the provider never completed the compaction")
}

// misreport is await with the fault put in.
func (s *nativeSession) misreport(ctx context.Context, host adapters.Host) (adapters.NativeResult, error) {
	res, err := s.await(ctx)
	switch s.fault {
	case "takes a failure for a success":
		return adapters.NativeResult{Form: nativeForm}, nil
	case "hides that it was cancelled":
		if err != nil {
			err = errors.New("compaction failed")
		}
	case "calls a failure an interrupt":
		if err != nil {
			err = context.Canceled
		}
	case "has another form":
		res.Form = "other"
	case "makes up a summary":
		res.Disclosed = []byte(`"all went well"`)
	case "discloses no JSON":
		res.Disclosed = []byte("all went well")
	case "makes up usage":
		res.Usage = &adapters.Usage{InputTokens: 1}
	case "forgets usage":
		res.Usage = nil
	case "makes a checkpoint":
		body := transcript.Checkpoint{Version: "mine", Text: "all went well"}
		err = errors.Join(err, host.Emit(ctx, adapters.ItemCompleted{Item: transcript.Item{ID: host.NewItemID(), Body: body}}))
	case "asks for a context":
		_, ask := host.Context(ctx)
		err = errors.Join(err, ask)
	case "is over afterwards":
		err = errors.Join(err, s.Session.Close())
	}
	return res, err
}

func TestANativeSessionPassesTheSuite(t *testing.T) {
	RunScripted(t, func(t *testing.T, s Script) adapters.Adapter { return newNative(t, s, "") })
}

// TestTheNativeCasesReportBrokenSessions is what makes them worth running: the
// first adapter that compacts natively is not written yet.
func TestTheNativeCasesReportBrokenSessions(t *testing.T) {
	for fault, want := range map[string]string{
		"":                               "",
		"ends with any completion":       "of another compaction ended it",
		"takes a failure for a success":  "a compaction that broke ended with",
		"takes the end for a completion": "never completed is a success",
		"hides that it was cancelled":    "want an error that is context.Canceled",
		"calls a failure an interrupt":   "a compaction that broke ended with context canceled",
		"has another form":               "has the form",
		"makes up a summary":             "disclosed is",
		"discloses no JSON":              "is not JSON",
		"makes up usage":                 "the provider reported none",
		"forgets usage":                  "usage (-want +got)",
		"makes a checkpoint":             "which only the server makes",
		"asks for a context":             "is called during a compaction",
		"takes a steer":                  "steer during a compaction",
		"starts with a done context":     "the script has 1 replies",
		"is over afterwards":             "the turn after the compaction",
	} {
		t.Run(fault, func(t *testing.T) {
			n := &notes{}
			for _, c := range native {
				script, check := c.make()
				s, err := newNative(n, script, fault).Open(t.Context(), adapters.OpenParams{Thread: "t"})
				if err != nil {
					t.Fatal(err)
				}
				within(t, c.name, func() { check(t.Context(), n, fixture{session: s, host: NewHost(n)}) })
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			all := strings.Join(n.errs, "\n")
			if (all == "") != (fault == "") || !strings.Contains(all, want) {
				t.Errorf("reports %q, want one with %q", all, want)
			}
		})
	}
}
