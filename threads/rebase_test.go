package threads_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A keeper is a runtime that keeps what was said in each of its sessions, over restarts
// of the server, as a program does in its files.
type keeper struct {
	mu       sync.Mutex
	sessions map[string]*kept
	made     int
	refuses  bool  // it has no compaction of its own
	lossy    bool  // its compaction loses what was said
	broken   error // of Open with a seed
	fits     int   // the bytes of a history that a model still takes; 0: any
	begins   bool  // it says something before it finds that a turn does not fit
	runs     []adapters.TurnInput
	reports  int // the size of its context, in tokens; 0: as it is, with a base of 5,000
	opened   []adapters.OpenParams
}

// kept is one session: its history as texts.
type kept struct {
	texts []string
	busy  bool
}

const keeperNotes = "[the keeper's own notes]"

func newKeeper() *keeper { return &keeper{sessions: map[string]*kept{}, reports: 4000} }

func (k *keeper) size(id string) int {
	if k.reports > 0 {
		return k.reports
	}
	return 5000 + len(strings.Join(k.history(id), ""))/4
}

func (k *keeper) Models(context.Context) ([]adapters.ModelInfo, error) {
	return []adapters.ModelInfo{{ID: "k1", ContextWindow: 64_000}, {ID: "k2", ContextWindow: 64_000}}, nil
}

func (k *keeper) Probe(context.Context) adapters.Probe {
	return adapters.Probe{Compaction: k.ability()}
}

func (k *keeper) ability() adapters.Ability {
	if k.refuses {
		return adapters.Ability{Refusal: &adapters.Refusal{Code: "commandMissing", Reason: "it has no such command", Remedy: adapters.UseLocal}}
	}
	return adapters.Ability{Native: &adapters.Native{Form: "kept"}}
}

// spoken are the texts of entries that a program is told.
func spoken(entries []transcript.Entry) []string {
	var out []string
	for _, e := range entries {
		switch e.Item.Body.Kind() {
		case transcript.KindUserMessage, transcript.KindAgentMessage, transcript.KindCheckpoint:
			out = append(out, transcript.Text(e.Item.Body))
		default:
		}
	}
	return out
}

func (k *keeper) Open(_ context.Context, p adapters.OpenParams) (adapters.Session, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.opened = append(k.opened, p)
	id := p.NativeID
	switch s := k.sessions[id]; {
	case id == "" && k.broken != nil:
		return nil, k.broken
	case id == "":
		k.made++
		id = fmt.Sprintf("session-%d", k.made)
		k.sessions[id] = &kept{texts: spoken(p.Seed)}
	case s == nil:
		return nil, fault.Wrap(fault.Unavailable, adapters.ErrNoSession, "no session %s", id)
	case s.busy:
		return nil, fault.Wrap(fault.Unavailable, adapters.ErrInUse, "session %s is open", id)
	}
	k.sessions[id].busy = true
	return &keeperSession{k: k, id: id}, nil
}

// history is what a session holds.
func (k *keeper) history(id string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.sessions[id]; s != nil {
		return slices.Clone(s.texts)
	}
	return nil
}

type keeperSession struct {
	adapters.Session
	k  *keeper
	id string
}

func (s *keeperSession) NativeID() string                { return s.id }
func (s *keeperSession) Base() adapters.Base             { return adapters.Base{} }
func (s *keeperSession) Compaction() adapters.Ability    { return s.k.ability() }
func (s *keeperSession) Interrupt(context.Context) error { return nil }
func (s *keeperSession) Steer(context.Context, []transcript.Part) error {
	return adapters.ErrNotSteerable
}

func (s *keeperSession) Close() error {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	if own := s.k.sessions[s.id]; own != nil {
		own.busy = false
	}
	return nil
}

func (s *keeperSession) say(text string) {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	s.k.sessions[s.id].texts = append(s.k.sessions[s.id].texts, text)
}

func (s *keeperSession) Run(ctx context.Context, in adapters.TurnInput, h adapters.Host) (adapters.End, error) {
	text := transcript.PartsText(in.Input)
	s.k.mu.Lock()
	s.k.runs = append(s.k.runs, in)
	over := s.k.fits > 0 && len(strings.Join(s.k.sessions[s.id].texts, "")+text) > s.k.fits
	s.k.mu.Unlock()
	if over {
		if s.k.begins {
			if err := h.Emit(ctx, says(h, "I begin", 0).Updates...); err != nil {
				return adapters.End{}, err
			}
		}
		return adapters.End{}, &adapters.Error{Class: adapters.ClassOverflow, Message: "the prompt is too long"}
	}
	s.say(text)
	answer := "answer to " + text
	s.say(answer)
	return says(h, answer, s.k.size(s.id)), nil
}

func (s *keeperSession) Compact(context.Context, adapters.CompactInput, adapters.Host) (adapters.NativeResult, error) {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	s.k.sessions[s.id].texts = []string{keeperNotes}
	if s.k.lossy {
		return adapters.NativeResult{}, adapters.ErrLossy
	}
	return adapters.NativeResult{Form: "kept"}, nil
}

// keeping returns a bench whose provider is a keeper.
func keeping(t *testing.T, k *keeper, change ...func(*threads.Config)) *bench {
	t.Helper()
	return newBench(t, append([]func(*threads.Config){func(c *threads.Config) {
		c.Providers = []threads.Provider{{Name: "keeper", Kind: "keeper", Adapter: k}}
		c.Policy = compaction.Policy{Off: true}
	}}, change...)...)
}

// native is the id of a thread's session.
func (b *bench) native(id transcript.ThreadID) string { return b.read(id).NativeSession }

// wantKept checks that the session of a thread has what the thread's context holds.
func (b *bench) wantKept(f fataler, k *keeper, id transcript.ThreadID) {
	f.Helper()
	native := b.native(id)
	if diff := cmp.Diff(spoken(b.entries(id)), k.history(native)); diff != "" {
		f.Fatalf("session %s of %s (-context +history):\n%s", native, id, diff)
	}
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func (b *bench) filled(id transcript.ThreadID, turns int) {
	for i := range turns {
		b.said(id, fmt.Sprintf("part %d: %s", i, strings.Repeat("words of the work. ", 60)))
	}
}

func TestANativeSessionIsResumedAfterARestart(t *testing.T) {
	k := newKeeper()
	b := keeping(t, k)
	id := b.create()
	b.said(id, "hello")
	first := b.native(id)
	if first == "" {
		t.Fatal("the session is not known")
	}
	b.restart()
	b.said(id, "again")
	if got := b.native(id); got != first {
		t.Errorf("the thread was resumed in %s, it was in %s", got, first)
	}
	b.wantKept(t, k, id)
	opened := 0
	for _, p := range b.payloads(id) {
		if _, ok := p.(threads.SessionUpdated); ok {
			opened++
		}
	}
	if opened != 1 {
		t.Errorf("%d events tell of the session", opened)
	}
}

func TestARefusingRuntimeIsRebasedByALocalCompaction(t *testing.T) {
	k := newKeeper()
	k.refuses = true
	b := keeping(t, k)
	id := b.create()
	b.filled(id, 20)
	old := b.native(id)
	before := k.history(old)
	rec := b.compact(threads.CompactParams{Thread: id, Budget: 4000})
	if *rec.Outcome != compaction.Completed || rec.Rebase == nil || *rec.Rebase.From != old || rec.Rebase.To == old {
		t.Fatalf("record %s", mustJSON(t, rec))
	}
	if len(rec.Skipped) == 0 || rec.Skipped[0].Code != "commandMissing" {
		t.Errorf("the refusal is not told: %+v", rec.Skipped)
	}
	if now := b.native(id); now != rec.Rebase.To {
		t.Errorf("the thread is in %s", now)
	}
	b.wantKept(t, k, id)
	if diff := cmp.Diff(before, k.history(old)); diff != "" {
		t.Errorf("the old session changed:\n%s", diff)
	}
	b.said(id, "go on")
	b.restart()
	b.said(id, "and on")
	b.wantKept(t, k, id)
}

func TestARebaseThatFailsChangesNothing(t *testing.T) {
	k := newKeeper()
	b := keeping(t, k)
	id := b.create()
	b.filled(id, 20)
	old := b.native(id)
	k.broken = fault.New(fault.Unavailable, "no room on the disk")
	rec := b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Budget: 4000})
	if *rec.Outcome != compaction.Failed || *rec.Code != "rebaseFailed" || !strings.Contains(*rec.Reason, "no room on the disk") || rec.Remedy == nil {
		t.Errorf("record %s", mustJSON(t, rec))
	}
	if b.native(id) != old || b.read(id).Epoch != 0 {
		t.Errorf("the thread is in %s, epoch %d", b.native(id), b.read(id).Epoch)
	}
	b.said(id, "go on")
	b.wantKept(t, k, id)
}

func TestUndoOfARebaseGoesBackToTheOldSession(t *testing.T) {
	k := newKeeper()
	b := keeping(t, k)
	id := b.create()
	b.filled(id, 20)
	old := b.native(id)
	rec := b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Budget: 4000})
	b.undo(id, rec.CompactionID)
	if got := b.native(id); got != old {
		t.Errorf("the thread is in %s, want the old session %s", got, old)
	}
	b.wantKept(t, k, id)

	rec = b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Budget: 4000})
	b.said(id, "something new")
	b.undo(id, rec.CompactionID)
	if got := b.native(id); got == old || got == rec.Rebase.To {
		t.Errorf("the thread is in %s, which does not have what was said since", got)
	}
	b.wantKept(t, k, id)
	b.said(id, "go on")
	b.wantKept(t, k, id)
}

func TestUndoOfANativeCompactionTellsAFreshSessionEverything(t *testing.T) {
	k := newKeeper()
	b := keeping(t, k)
	id := b.create()
	b.filled(id, 3)
	first := b.compact(threads.CompactParams{Thread: id})
	second := b.compact(threads.CompactParams{Thread: id})
	if k.history(b.native(id))[0] != keeperNotes {
		t.Fatalf("record %s", mustJSON(t, second))
	}
	_, err := b.svc.UndoCompaction(t.Context(), threads.UndoParams{Thread: id, Compaction: first.CompactionID})
	if r, ok := errors.AsType[*fault.Error](err); !ok || r.Data.(threads.UndoRefusal).Code != threads.UndoNotNewest || r.Data.(threads.UndoRefusal).Undoable != second.CompactionID {
		t.Errorf("undo of the older one: %v", err)
	}
	b.undo(id, second.CompactionID)
	b.wantKept(t, k, id)
	_, err = b.svc.UndoCompaction(t.Context(), threads.UndoParams{Thread: id, Compaction: second.CompactionID})
	if r, ok := errors.AsType[*fault.Error](err); !ok || r.Data.(threads.UndoRefusal).Code != threads.UndoAlready {
		t.Errorf("undo again: %v", err)
	}
	b.said(id, "go on")
	b.wantKept(t, k, id)
}

func TestForksRevertsAndOtherProvidersBeginSessionsWithTheContext(t *testing.T) {
	k, other := newKeeper(), newKeeper()
	b := keeping(t, k, func(c *threads.Config) {
		c.Providers = append(c.Providers, threads.Provider{Name: "other", Kind: "keeper", Adapter: other})
	})
	id := b.create()
	b.said(id, "one")
	second := b.said(id, "two")
	source := b.native(id)
	fork := b.fork(threads.ForkParams{Thread: id}).ID
	b.said(fork, "in the fork")
	b.wantKept(t, k, fork)
	if b.native(fork) == source || b.native(id) != source {
		t.Errorf("fork in %s, source in %s", b.native(fork), b.native(id))
	}
	b.revert(id, second)
	if b.native(id) != "" {
		t.Error("a session with turns that are gone is the thread's")
	}
	b.said(id, "two again")
	b.wantKept(t, k, id)
	name := "other"
	if _, err := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Provider: &name}); err != nil {
		t.Fatal(err)
	}
	b.said(id, "with another provider")
	b.wantKept(t, other, id)
}

func TestAnotherModelKeepsTheSession(t *testing.T) {
	k := newKeeper()
	b := keeping(t, k)
	id := b.create()
	b.said(id, "one")
	before := b.native(id)
	model := "k2"
	if _, err := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Model: &model}); err != nil {
		t.Fatal(err)
	}
	b.said(id, "two")
	if got := b.native(id); got != before || k.opened[len(k.opened)-1].Model != model {
		t.Errorf("session %s with model %s", got, k.opened[len(k.opened)-1].Model)
	}
	b.wantKept(t, k, id)
}

func TestALostSessionIsNoSilentLoss(t *testing.T) {
	for _, rebase := range []bool{false, true} {
		t.Run(fmt.Sprint(rebase), func(t *testing.T) {
			k := newKeeper()
			b := keeping(t, k, func(c *threads.Config) { c.Providers[0].AutoRebase = rebase })
			id := b.create()
			b.filled(id, 12)
			lost := b.native(id)
			b.close()
			delete(k.sessions, lost)
			b.open()
			turn := b.played(id, "go on")
			if rebase {
				if turn.Status != transcript.TurnCompleted {
					t.Errorf("the turn ended %s: %+v", turn.Status, turn.Error)
				}
				b.wantKept(t, k, id)
				return
			}
			if turn.Status != transcript.TurnFailed || !strings.Contains(turn.Error.Message, "does not know its session") || !strings.Contains(turn.Error.Message, "route local") {
				t.Fatalf("the turn ended %s: %+v", turn.Status, turn.Error)
			}
			rec := b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Budget: 3000})
			if *rec.Outcome != compaction.Completed {
				t.Fatalf("record %s", mustJSON(t, rec))
			}
			b.said(id, "and now")
			b.wantKept(t, k, id)
		})
	}
}

func TestASessionInWhichNothingWasSaidMayBeLost(t *testing.T) {
	k := newKeeper()
	b := keeping(t, k)
	id := b.create()
	b.filled(id, 20)
	rec := b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Budget: 4000})
	b.close()
	delete(k.sessions, rec.Rebase.To) // codex writes no file before something is said (codex 0.171, observed)
	b.open()
	b.said(id, "go on")
	b.wantKept(t, k, id)
}

func TestALossyCompactionIsMadeGoodFromTheJournal(t *testing.T) {
	for _, route := range []compaction.Route{"", compaction.RouteNative} {
		t.Run("route "+string(route), func(t *testing.T) {
			k := newKeeper()
			k.lossy = true
			b := keeping(t, k)
			id := b.create()
			b.filled(id, 20)
			rec := b.compact(threads.CompactParams{Thread: id, Route: route, Budget: 4000})
			if route == "" && (*rec.Outcome != compaction.Completed || rec.Rebase == nil) {
				t.Errorf("record %s", mustJSON(t, rec))
			}
			if route != "" && (*rec.Outcome != compaction.Failed || *rec.Code != "nativeInvalid") {
				t.Errorf("record %s", mustJSON(t, rec))
			}
			b.said(id, "go on")
			b.wantKept(t, k, id)
		})
	}
}

func TestAPreviewOpensNoSessionBesideTheThreads(t *testing.T) {
	k := newKeeper()
	b := keeping(t, k)
	id := b.create()
	b.filled(id, 3)
	b.restart()
	n := len(k.opened)
	v := b.preview(threads.CompactParams{Thread: id})
	if *v.Record.Route != compaction.RouteNative || len(k.opened) != n {
		t.Errorf("%d sessions were opened for %s", len(k.opened)-n, mustJSON(t, v.Record))
	}
	k.refuses = true
	if v = b.preview(threads.CompactParams{Thread: id, Budget: 1000}); *v.Record.Route != compaction.RouteLocal {
		t.Errorf("record %s", mustJSON(t, v.Record))
	}
}

func TestAutomaticRebasesAreWanted(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		k := newKeeper()
		k.refuses, k.reports = true, 0
		b := keeping(t, k, func(c *threads.Config) {
			c.Policy = compaction.Policy{}
			c.Providers[0].AutoRebase = wanted
		})
		id := b.create()
		for i := range 10 {
			b.said(id, fmt.Sprintf("part %d: %s", i, strings.Repeat("words of the work. ", 700)))
		}
		b.settle(id)
		recs := b.records(id)
		if done := slices.ContainsFunc(recs, func(r compaction.Record) bool { return r.Rebase != nil }); done != wanted {
			t.Errorf("auto_rebase %v: rebased %v, %s", wanted, done, mustJSON(t, recs))
		}
		b.wantKept(t, k, id)
	}
}

// Whatever is done to threads, a session has what its thread's context holds, from the
// last compaction of the provider's own on.
func TestSessionsHoldWhatContextsHold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := newKeeper()
		b := keeping(t, k)
		defer b.close()
		id := b.create()
		n := 0
		rt.Repeat(map[string]func(*rapid.T){
			"turn": func(*rapid.T) {
				n++
				b.said(id, fmt.Sprintf("turn %d %s", n, strings.Repeat("word ", 100)))
			},
			"local": func(rt *rapid.T) {
				k.broken = nil
				if rapid.Bool().Draw(rt, "broken") {
					k.broken = errors.New("no room")
				}
				b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteLocal, Budget: 1500})
				k.broken = nil
			},
			"native": func(rt *rapid.T) {
				k.refuses, k.lossy = rapid.Bool().Draw(rt, "refuses"), rapid.Bool().Draw(rt, "lossy")
				b.compact(threads.CompactParams{Thread: id, Budget: 1500})
				k.refuses, k.lossy = false, false
			},
			"undo": func(*rapid.T) {
				recs := b.records(id)
				for _, r := range slices.Backward(recs) {
					if _, err := b.svc.UndoCompaction(t.Context(), threads.UndoParams{Thread: id, Compaction: r.CompactionID}); err == nil {
						return
					}
				}
			},
			"fork":    func(*rapid.T) { id = b.fork(threads.ForkParams{Thread: id}).ID },
			"restart": func(*rapid.T) { b.restart() },
			"": func(rt *rapid.T) {
				native := b.native(id)
				if native == "" {
					return // the next turn begins one
				}
				want, got := spoken(b.entries(id)), k.history(native)
				if len(got) > 0 && got[0] == keeperNotes {
					got = got[1:]
					want = want[max(0, len(want)-len(got)):]
				}
				if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")); diff != "" {
					rt.Fatalf("session %s (-context +history):\n%s", native, diff)
				}
			},
		})
	})
}
