package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// A store is what doubles of one home share: the threads, and how far the script got.
type store struct {
	t      *testing.T
	script adaptertest.Script
	path   string // of the file of every thread; empty: there is none

	mu      sync.Mutex // guards what follows
	at      int        // of the script
	started int
	told    map[string][]string // by thread
	blind   bool                // nobody can read what is stored
}

func newStore(t *testing.T, s adaptertest.Script) *store {
	return &store{t: t, script: s, told: map[string][]string{}}
}

// dialled is an adapter whose every process is a double of the store.
func (st *store) dialled(setup func(*double), o Options) adapters.Runtime {
	o.dial = func(context.Context) (child.Conn, error) {
		ours, theirs := child.Pipe()
		d := &double{
			t: st.t, conn: theirs, script: st.script, store: st, thread: threadID,
			answers: map[string]chan json.RawMessage{}, params: map[string]json.RawMessage{},
		}
		if setup != nil {
			setup(d)
		}
		go func() {
			d.serve()
			d.work.Wait()
		}()
		return ours, nil
	}
	return New(o)
}

// file is the path of a thread's file as codex tells it.
func (st *store) file() string {
	if st.path == "" {
		return "null"
	}
	return quote(st.path)
}

func (st *store) unreadable() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.blind
}

// Told is that of adaptertest.Program.
func (st *store) Told(id string) []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.Clone(st.told[id])
}

// Lose is that of adaptertest.Program.
func (st *store) Lose(id string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.told, id)
}

func (d *double) threadID() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.thread
}

// open starts a thread, or finds the one to resume.
func (d *double) open(method string, params json.RawMessage) (id string, found bool) {
	var p struct{ ThreadID string }
	if err := json.Unmarshal(params, &p); err != nil {
		d.t.Error(err)
	}
	st := d.store
	st.mu.Lock()
	defer st.mu.Unlock()
	if id, found = p.ThreadID, st.told[p.ThreadID] != nil; method == "thread/start" {
		st.started++
		id, found = fmt.Sprintf("%s%012d", threadID[:24], st.started), true
		st.told[id] = []string{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.thread = id
	return id, found
}

// hear stores what a request puts before the model, in codex's order: the context of the
// application comes before the input.
func (d *double) hear(params json.RawMessage) {
	var p struct {
		ThreadID string
		Items    []struct {
			Content []struct{ Text string }
		}
		Context map[string]struct{ Value string } `json:"additionalContext"`
		Input   []struct{ Text string }
	}
	if err := json.Unmarshal(params, &p); err != nil {
		d.t.Error(err)
	}
	var told []string
	for _, it := range p.Items {
		for _, c := range it.Content {
			told = append(told, c.Text)
		}
	}
	for _, c := range p.Context {
		told = append(told, c.Value)
	}
	for _, in := range p.Input {
		told = append(told, in.Text)
	}
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	d.store.told[p.ThreadID] = append(d.store.told[p.ThreadID], told...)
}

// fails ends a compaction in codex's words for an error (codex 0.171, observed).
func (d *double) fails(turn, item string, err error) {
	switch {
	case errors.Is(err, adapters.ErrLossy): // an empty summary, for which it takes its newest answer
		line := fmt.Sprintf(`{"timestamp":%q,"type":"compacted","payload":{"message":"Another model began this.\nDone.","replacement_history":[]}}`,
			time.Now().UTC().Format(time.RFC3339Nano))
		if err := os.WriteFile(d.store.path, []byte(line+"\n"), 0o600); err != nil {
			d.t.Error(err)
		}
		d.note("item/completed", `"turnId":%q,"item":{"type":"contextCompaction","id":%q}`, turn, item)
		d.finish(turn, "completed", "")
	case errors.Is(err, adapters.ErrUncertain): // it dies, and what it stored cannot be read
		d.store.mu.Lock()
		d.store.blind = true
		d.store.mu.Unlock()
		d.conn.Kill()
	case fault.CodeOf(err) == fault.Denied:
		d.note("hook/completed", `"turnId":%q,"run":{"eventName":"preCompact","status":"stopped","entries":[{"kind":"stop","text":%s}]}`, turn, quote(err.Error()))
		d.finish(turn, "interrupted", "")
	default:
		d.finish(turn, "failed", failureOf(err))
	}
}

func TestRuntimeSuite(t *testing.T) {
	adaptertest.RunRuntime(t, func(t *testing.T, s adaptertest.Script) adaptertest.Program {
		st := newStore(t, s)
		for _, reply := range s {
			for _, step := range reply {
				_, refused := errors.AsType[*adapters.RefusedError](step.Err)
				switch {
				case errors.Is(step.Err, adapters.ErrNothingToCompact):
					t.Skip("codex compacts whatever there is (0.171, observed)")
				case refused:
					t.Skip("codex has no words for it: its version says whether it compacts, before it is asked")
				case errors.Is(step.Err, adapters.ErrLossy):
					st.path = filepath.Join(t.TempDir(), "rollout.jsonl")
				}
			}
		}
		o := Options{LeaseDir: t.TempDir()}
		return adaptertest.Program{Runtime: st.dialled(nil, o), Other: st.dialled(nil, o), Told: st.Told, Lose: st.Lose}
	})
}
