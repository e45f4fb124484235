package threads_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// quota is a journal whose disk can be full.
type quota struct {
	events.Journal
	mu   sync.Mutex
	full bool
}

func (q *quota) set(full bool) { q.mu.Lock(); q.full = full; q.mu.Unlock() }

func (q *quota) Append(ctx context.Context, a events.Append) (int64, error) {
	q.mu.Lock()
	full := q.full
	q.mu.Unlock()
	if full {
		return 0, events.ErrFull
	}
	return q.Journal.Append(ctx, a)
}

func (b *bench) withQuota() *quota {
	b.close()
	q := &quota{Journal: b.journal}
	b.config.Journal = unclosed{q}
	b.open()
	return q
}

func TestDiskFullAtTheEndOfATurnEndsItOnceThereIsSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		id := b.create()
		q := b.withQuota()
		ack := b.start(id, "hello")
		r := b.request()
		r.send(t, adapters.MessageText{Text: "an answer that is not lo"}, adapters.MessageText{})
		q.set(true)
		r.send(t, adapters.Done{Stop: adapters.StopEnd})
		synctest.Wait()
		if read, err := b.svc.ReadThread(t.Context(), id); err != nil || read.Thread.Status != threads.StatusActive {
			t.Errorf("while the disk is full the thread reads %v, %v", read.Thread.Status, err)
		}
		_, err := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("more")})
		if fault.CodeOf(err) != fault.Full {
			t.Errorf("an input while the disk is full: %v, want full", err)
		}
		q.set(false)
		time.Sleep(3 * time.Second) // of synctest's clock
		if done := b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted); done.Turn.Status != transcript.TurnInterrupted {
			t.Errorf("the turn is %s", done.Turn.Status)
		}
		b.turn(id, "go on", "yes")
	})
}

func TestDiskFullAtTheEndOfACompactionAnswersWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		id := b.laden()
		q := b.withQuota()
		reached, release := holdAt(t, "compaction/verdict")
		got := make(chan compaction.Record, 1)
		go func() {
			ack, err := b.svc.StartCompaction(context.Background(), threads.CompactParams{Thread: id, Wait: true})
			if err != nil {
				t.Error(err)
			}
			got <- ack.Record
		}()
		<-reached
		q.set(true)
		release()
		synctest.Wait()
		q.set(false)
		rec := <-got
		if rec.Outcome == nil || *rec.Outcome != compaction.Interrupted {
			t.Errorf("record %s", mustJSON(t, rec))
		}
		if read, err := b.svc.ReadThread(t.Context(), id); err != nil || read.Thread.Epoch != 0 || read.Thread.Status == threads.StatusActive {
			t.Errorf("thread %+v, %v", read.Thread, err)
		}
	})
}

// rogue is a session that does what run says.
type rogue struct {
	adapters.Session
	run     func(ctx context.Context, h adapters.Host) (adapters.End, error)
	steered chan string
}

func (r rogue) Run(ctx context.Context, _ adapters.TurnInput, h adapters.Host) (adapters.End, error) {
	return r.run(ctx, h)
}

func (r rogue) Steer(_ context.Context, input []transcript.Part) error {
	if r.steered == nil {
		return adapters.ErrNotSteerable
	}
	r.steered <- transcript.PartsText(input)
	return nil
}

type rogueAdapter struct {
	adapters.Adapter
	rogue
	fail *error // of Open
}

func (r rogueAdapter) Open(ctx context.Context, p adapters.OpenParams) (adapters.Session, error) {
	if r.fail != nil && *r.fail != nil {
		return nil, *r.fail
	}
	s, err := r.Adapter.Open(ctx, p)
	if r.run == nil {
		return s, err
	}
	r.Session = s
	return r.rogue, err
}

func rogueBench(t *testing.T, r rogueAdapter) *bench {
	return newBench(t, func(c *threads.Config) {
		r.Adapter = c.Providers[0].Adapter
		c.Providers[0].Adapter = r
	})
}

func TestSessionThatReportsNonsenseFailsItsTurnOnly(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(context.Context, adapters.Host) (adapters.End, error){
		"an item without a body": func(ctx context.Context, h adapters.Host) (adapters.End, error) {
			return adapters.End{}, h.Emit(ctx, adapters.ItemCompleted{Item: transcript.Item{ID: "x"}})
		},
		"an end without a body": func(context.Context, adapters.Host) (adapters.End, error) {
			return adapters.End{Updates: []adapters.Update{adapters.ItemCompleted{}}}, nil
		},
		"a checkpoint": func(ctx context.Context, h adapters.Host) (adapters.End, error) {
			return adapters.End{}, h.Emit(ctx, adapters.ItemCompleted{Item: transcript.Item{ID: "x", Body: transcript.Checkpoint{}}})
		},
		"text for an item that is not open": func(ctx context.Context, h adapters.Host) (adapters.End, error) {
			return adapters.End{}, h.Emit(ctx, adapters.TextDelta{Item: "x", Text: "y"})
		},
		"a call that does not exist": func(ctx context.Context, h adapters.Host) (adapters.End, error) {
			_, err := h.Tool(ctx, transcript.Item{ID: "x", Body: transcript.ToolCall{CallID: "c", Name: "f"}})
			return adapters.End{}, err
		},
		"a panic": func(context.Context, adapters.Host) (adapters.End, error) { panic("boom") },
		"endless text": func(ctx context.Context, h adapters.Host) (adapters.End, error) {
			err := h.Emit(ctx, adapters.ItemStarted{Item: transcript.Item{ID: "x", Body: transcript.AgentMessage{}}})
			for err == nil {
				err = h.Emit(ctx, adapters.TextDelta{Item: "x", Text: strings.Repeat("x", 1<<20)})
			}
			return adapters.End{}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := rogueBench(t, rogueAdapter{rogue: rogue{run: run}})
			id := b.create()
			ack := b.start(id, "go")
			done := b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted)
			if done.Turn.Status != transcript.TurnFailed || done.Turn.Error == nil {
				t.Errorf("the turn is %+v", done.Turn)
			}
			if read, err := b.svc.ReadThread(t.Context(), id); err != nil || read.Thread.Status != threads.StatusSystemError {
				t.Errorf("thread %+v, %v", read.Thread, err)
			}
		})
	}
}

func TestResultsThatASessionReportsCarryTheirCallAndAnswerItOnce(t *testing.T) {
	call := transcript.Item{ID: "call", Body: transcript.ToolCall{CallID: "c", Name: "f", Arguments: []byte(`{}`)}}
	result := transcript.Item{ID: "result", Body: transcript.ToolResult{CallID: "c", Output: transcript.TextParts("r")}}
	late := transcript.Item{ID: "late", Body: transcript.ToolCall{CallID: "d", Name: "g", Arguments: []byte(`{}`)}}
	b := rogueBench(t, rogueAdapter{rogue: rogue{run: func(ctx context.Context, h adapters.Host) (adapters.End, error) {
		err := h.Emit(ctx, adapters.ItemStarted{Item: call})
		return adapters.End{Updates: []adapters.Update{adapters.ItemCompleted{Item: result}, adapters.ItemStarted{Item: late}}}, err
	}}})
	id := b.create()
	ack := b.start(id, "go")
	b.await(id, ended(ack.Turn.ID))
	results := map[transcript.CallID]int{}
	for _, p := range b.payloads(id) {
		if p, ok := p.(threads.ItemCompleted); ok {
			if r, ok := p.Item.Body.(transcript.ToolResult); ok {
				results[r.CallID]++
				if p.Call == nil {
					t.Errorf("the result of %s does not say its call", r.CallID)
				}
			}
		}
	}
	if diff := cmp.Diff(map[transcript.CallID]int{"c": 1, "d": 1}, results); diff != "" {
		t.Error(diff)
	}
}

func TestSteeringARuntimeIsReadOnce(t *testing.T) {
	steered, began := make(chan string, 4), make(chan struct{}, 4)
	runs := 0
	b := rogueBench(t, rogueAdapter{rogue: rogue{steered: steered, run: func(context.Context, adapters.Host) (adapters.End, error) {
		runs++
		began <- struct{}{}
		<-steered
		return adapters.End{}, nil
	}}})
	id := b.create()
	ack := b.start(id, "go")
	<-began
	s, err := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Mode: threads.ModeSteer, Input: transcript.TextParts("left")})
	if err != nil || !s.Steered {
		t.Fatalf("%+v, %v", s, err)
	}
	b.await(id, ended(ack.Turn.ID))
	if runs != 1 {
		t.Errorf("the session ran %d times, want once", runs)
	}
}

func TestItemOpenedWithoutTextIsNotOpenAfterItsTurn(t *testing.T) {
	b := rogueBench(t, rogueAdapter{rogue: rogue{run: func(ctx context.Context, h adapters.Host) (adapters.End, error) {
		return adapters.End{}, h.Emit(ctx, adapters.ItemStarted{Item: transcript.Item{ID: "x", Body: transcript.AgentMessage{}}})
	}}})
	id := b.create()
	ack := b.start(id, "go")
	b.await(id, ended(ack.Turn.ID))
	read, err := b.svc.ReadThread(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for m, err := range b.svc.Follow(t.Context(), id, &read.AsOf, 0) {
		if err != nil || m.Kind == events.KindEvent {
			t.Fatalf("a new follower gets %v, %v", m.Event.Type, err)
		}
		if m.Kind == events.KindLive {
			break
		}
	}
}

func TestDeletingAThreadThatIgnoresInterruptsLetsTheServiceClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		began := make(chan struct{})
		b := rogueBench(t, rogueAdapter{rogue: rogue{run: func(context.Context, adapters.Host) (adapters.End, error) {
			close(began)
			<-release
			return adapters.End{}, nil
		}}})
		id := b.create()
		b.start(id, "go")
		<-began
		if err := b.svc.DeleteThread(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second) // of synctest's clock
		b.restart()                  // Close returns
		close(release)
	})
}

func TestProviderThatIsDownDoesNotStopALocalCompaction(t *testing.T) {
	var down error
	b := rogueBench(t, rogueAdapter{fail: &down})
	id := b.laden()
	b.restart() // no session is open
	down = errors.New("connection refused")
	rec := b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteNative})
	if *rec.Outcome != compaction.Failed {
		t.Errorf("native: %s", mustJSON(t, rec))
	}
	rec = b.compact(threads.CompactParams{Thread: id})
	if *rec.Outcome != compaction.Completed || rec.Skipped[0].Code != "sessionUnavailable" {
		t.Errorf("local: %s", mustJSON(t, rec))
	}
}

func TestCallArgumentsAreTheSameBytesAfterAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		args := `{"html":"<a href=\"x\">&amp;</a>"}`
		b := newBench(t)
		id := b.create()
		for range 12 { // a snapshot is worth it
			ack := b.start(id, "call")
			b.request().send(t, adapters.CallChunk{Call: transcript.ToolCall{CallID: transcript.CallID(ack.Turn.ID), Name: "nope", Arguments: []byte(args)}}, adapters.Done{Stop: adapters.StopTools})
			b.request().answer(t, "ok")
			b.await(id, ended(ack.Turn.ID))
		}
		check := func(when string) {
			c, err := b.svc.ReadContext(t.Context(), id, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range c.Entries {
				if call, ok := e.Item.Body.(transcript.ToolCall); ok && string(call.Arguments) != args {
					t.Fatalf("%s the arguments are %s", when, call.Arguments)
				}
			}
		}
		check("before the reload")
		b.restart()
		if _, err := b.journal.Snapshot(t.Context(), string(id)); err != nil {
			t.Fatal(err)
		}
		check("after the reload")
	})
}

func TestDamagedRowCostsOneThread(t *testing.T) {
	for typ, data := range map[string]string{
		"item/started": `{}`, "item/completed": `{"item":{"id":"x","kind":"agentMessage","body":null}}`, "turn/started": `{}`,
		"thread/compaction/updated": `{"record":{"compactionId":"c"},"boundary":{"epoch":1,"covered":99,"kept":[]}}`,
	} {
		t.Run(strings.ReplaceAll(typ, "/", " "), func(t *testing.T) {
			b := newBench(t)
			bad, good := b.create(), b.create()
			b.close()
			_, err := b.journal.Append(t.Context(), events.Append{
				Thread: string(bad), Expect: 1, Info: []byte(`{"status":"active"}`),
				Events: []events.Event{{Type: typ, Data: json.RawMessage(data)}},
			})
			if err != nil {
				t.Fatal(err)
			}
			b.open()
			if _, err := b.svc.ReadThread(t.Context(), bad); err != nil && fault.CodeOf(err) != fault.Corrupt {
				t.Errorf("the damaged thread answers %v", err)
			}
			b.turn(good, "are you well?", "yes")
		})
	}
}

func TestHostileExportIsRefusedAndNamesTheEvent(t *testing.T) {
	start := `{"type":"thread/started","at":1,"data":{"settings":{"provider":"puppet","model":"puppet","cwd":"/w"}}}`
	for name, c := range map[string]struct{ line, says string }{
		"no body":        {`{"type":"item/started","at":1,"data":{}}`, "event 2"},
		"deleted":        {`{"type":"thread/deleted","at":1,"data":{}}`, "event 2"},
		"second start":   {start, "event 2"},
		"wide boundary":  {`{"type":"thread/compaction/updated","at":1,"data":{"record":{"compactionId":"c"},"boundary":{"epoch":1,"covered":7,"kept":[]}}}`, "epoch"},
		"wrong epoch":    {`{"type":"thread/compaction/updated","at":1,"data":{"record":{"compactionId":"c"},"boundary":{"epoch":4,"covered":0,"kept":[]}}}`, "epoch 4"},
		"unknown keeper": {`{"type":"thread/compaction/updated","at":1,"data":{"record":{"compactionId":"c"},"boundary":{"epoch":1,"covered":0,"kept":[{"itemId":"i","form":"whole"}]}}}`, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			file := strings.Join([]string{`{"plimsoll":"export","version":1}`, start, c.line}, "\n") + "\n"
			_, err := b.svc.Import(t.Context(), strings.NewReader(file), threads.ImportParams{})
			if fault.CodeOf(err) != fault.Invalid || !strings.Contains(fault.MessageOf(err), c.says) {
				t.Errorf("%v (%s), want invalid saying %q", err, fault.CodeOf(err), c.says)
			}
			if page, _ := b.svc.ListThreads(t.Context(), threads.PageQuery{}); len(page.Threads) != 0 {
				t.Errorf("%d threads remain", len(page.Threads))
			}
		})
	}
	b := newBench(t)
	active := strings.Join([]string{`{"plimsoll":"export","version":1}`, start, `{"type":"thread/status/changed","at":1,"data":{"status":"active"}}`}, "\n")
	res, err := b.svc.Import(t.Context(), strings.NewReader(active), threads.ImportParams{})
	if err != nil || res.Thread.Status != threads.StatusIdle {
		t.Errorf("an export that ends active: %+v, %v, want it idle", res.Thread, err)
	}
}

func TestKeyOfADeletedThreadIsAConflict(t *testing.T) {
	b := newBench(t)
	p := threads.CreateParams{IdempotencyKey: "k"}
	r, err := b.svc.CreateThread(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.svc.DeleteThread(t.Context(), r.Thread.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.svc.CreateThread(t.Context(), p); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("again: %v, want a conflict", err)
	}
}

func TestAKeyGetsTheAnswerItGot(t *testing.T) {
	b := newBench(t)
	id := b.create()
	b.start(id, "one")
	r := b.request()
	steer := threads.StartTurnParams{Thread: id, Mode: threads.ModeSteer, Input: transcript.TextParts("s"), IdempotencyKey: "steer"}
	queue := threads.StartTurnParams{Thread: id, Input: transcript.TextParts("q"), IdempotencyKey: "queue"}
	for range 2 {
		ack, err := b.svc.StartTurn(t.Context(), steer)
		if err != nil || !ack.Steered {
			t.Errorf("steer: %+v, %v", ack, err)
		}
	}
	queued, err := b.svc.StartTurn(t.Context(), queue)
	if err != nil || !queued.Queued {
		t.Fatalf("queue: %+v, %v", queued, err)
	}
	if err := b.svc.InterruptTurn(t.Context(), id, queued.Turn.ID); err != nil {
		t.Fatal(err)
	}
	again, err := b.svc.StartTurn(t.Context(), queue)
	if err != nil || again.Queued || again.Turn.ID != queued.Turn.ID || again.Turn.Status != transcript.TurnInterrupted {
		t.Errorf("a queued input that was taken out: %+v, %v", again, err)
	}
	r.answer(t, "1")
	b.request().answer(t, "steered")
}

func TestImportedThreadIsListedAsItIsRead(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	b.compact(threads.CompactParams{Thread: id})
	var file bytes.Buffer
	if err := b.svc.Export(t.Context(), id, &file); err != nil {
		t.Fatal(err)
	}
	res, err := b.svc.Import(t.Context(), &file, threads.ImportParams{})
	if err != nil {
		t.Fatal(err)
	}
	page, err := b.svc.ListThreads(t.Context(), threads.PageQuery{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(res.Thread, page.Threads[0]); diff != "" {
		t.Errorf("the list differs from the thread:\n%s", diff)
	}
}

func TestEventsOfAnImportedExportKeepTheirTimes(t *testing.T) {
	b := newBench(t)
	id := b.create()
	b.turn(id, "q", "a")
	var first, second bytes.Buffer
	if err := b.svc.Export(t.Context(), id, &first); err != nil {
		t.Fatal(err)
	}
	res, err := b.svc.Import(t.Context(), bytes.NewReader(first.Bytes()), threads.ImportParams{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.svc.Export(t.Context(), res.Thread.ID, &second); err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(first.String(), "\n")
	_, got, _ := strings.Cut(second.String(), "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// unlisted is a provider that does not list its models.
type unlisted struct {
	adapters.Adapter
	answer chan struct{} // closed when it does
}

func (u unlisted) Models(context.Context) ([]adapters.ModelInfo, error) {
	<-u.answer // not even when its time is over
	return nil, errors.New("no answer")
}

func TestProviderThatListsNothingDelaysTheStartByAFixedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		began := time.Now()
		b := newBench(t, func(c *threads.Config) {
			for _, name := range []string{"slow", "slower"} {
				c.Providers = append(c.Providers, threads.Provider{Name: name, Kind: "puppet", Adapter: unlisted{c.Providers[0].Adapter, answer}})
			}
		})
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("the start took %v, want 5s", took)
		}
		infos := b.svc.Providers(t.Context())
		if len(infos) != 3 || len(infos[0].Models) != 1 || len(infos[1].Models) != 0 || infos[1].Error != "it has not listed its models yet" {
			t.Errorf("providers %+v", infos)
		}
		read, err := b.svc.CreateThread(t.Context(), threads.CreateParams{Settings: threads.Settings{Provider: "slow", Model: "any"}})
		if err != nil || read.Thread.Occupancy.Window != 0 {
			t.Errorf("a thread of an unlisted model: %+v, %v", read.Thread, err)
		}
		close(answer)
	})
}

// tardy is a provider that takes its time to list its models, and not more than it has.
type tardy struct {
	adapters.Adapter
	after time.Duration
}

func (l tardy) Models(ctx context.Context) ([]adapters.ModelInfo, error) {
	select {
	case <-time.After(l.after):
		return l.Adapter.Models(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// The start does not wait for it, and what it says later counts.
func TestAProviderThatListsItsModelsLateIsKnownThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		b := newBench(t, func(c *threads.Config) {
			for name, after := range map[string]time.Duration{"late": 18 * time.Second, "never": time.Hour} {
				c.Providers = append(c.Providers, threads.Provider{Name: name, Kind: "puppet", Adapter: tardy{c.Providers[0].Adapter, after}})
			}
			slices.SortFunc(c.Providers[1:], func(a, b threads.Provider) int { return strings.Compare(a.Name, b.Name) })
		})
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("the start took %v, want 5s", took)
		}
		time.Sleep(14 * time.Second)
		synctest.Wait()
		if infos := b.svc.Providers(t.Context()); len(infos[1].Models) != 1 || infos[1].Error != "" || len(infos[2].Models) != 0 {
			t.Errorf("providers after 19s: %+v", infos)
		}
		closing := time.Now()
		if err := b.svc.Close(context.Background()); err != nil || time.Since(closing) > 0 {
			t.Errorf("closed after %v, with %v", time.Since(closing), err)
		}
	})
}

// A provider that is slow to give up is waited for, so that no child of it is left when
// the server has ended.
func TestCloseWaitsForProvidersThatAreStillAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		b := newBench(t, func(c *threads.Config) {
			c.Providers = append(c.Providers, threads.Provider{Name: "slow", Kind: "puppet", Adapter: unlisted{c.Providers[0].Adapter, answer}})
		})
		closed := make(chan error, 1)
		go func() { closed <- b.svc.Close(context.Background()) }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Errorf("closed while a provider is asked: %v", err)
		default:
		}
		close(answer)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

func TestRelativeFolderIsRefused(t *testing.T) {
	b := newBench(t)
	_, err := b.svc.CreateThread(t.Context(), threads.CreateParams{Settings: threads.Settings{Cwd: "here"}})
	if fault.CodeOf(err) != fault.Invalid {
		t.Errorf("%v, want invalid", err)
	}
	read, err := b.svc.CreateThread(t.Context(), threads.CreateParams{})
	if err != nil || !strings.HasPrefix(read.Thread.Settings.Cwd, "/") {
		t.Errorf("without a folder: %+v, %v", read.Thread.Settings, err)
	}
}

// broken is a journal that cannot be written at all.
type broken struct {
	events.Journal
	mu  sync.Mutex
	err error
}

func (b *broken) set(err error) { b.mu.Lock(); b.err = err; b.mu.Unlock() }

func (b *broken) Append(ctx context.Context, a events.Append) (int64, error) {
	b.mu.Lock()
	err := b.err
	b.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return b.Journal.Append(ctx, a)
}

func TestThreadThatCannotBeRecoveredAnswersAtOnceAndComesBack(t *testing.T) {
	b := newBench(t)
	id := b.create()
	b.close()
	j := &broken{Journal: b.journal}
	b.config.Journal = unclosed{j}
	b.open()
	ack := b.start(id, "hello")
	r := b.request()
	j.set(errors.New("input/output error"))
	r.send(t, adapters.MessageText{Text: "x"}) // its item cannot be journaled
	for _, call := range []func() error{
		func() error { _, err := b.svc.ReadThread(t.Context(), id); return err },
		func() error {
			_, err := b.svc.StartTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("x")})
			return err
		},
	} {
		var err error
		for err == nil { // until the failure is noticed
			err = call()
		}
		if fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("while nothing can be written: %v, want unavailable", err)
		}
	}
	j.set(nil)
	turn, err := b.svc.ReadTurn(t.Context(), id, ack.Turn.ID)
	for fault.CodeOf(err) == fault.Unavailable { // the load that failed is on its way out
		turn, err = b.svc.ReadTurn(t.Context(), id, ack.Turn.ID)
	}
	if err != nil || turn.Status != transcript.TurnInterrupted {
		t.Errorf("afterwards the turn is %+v, %v", turn.Turn, err)
	}
	b.turn(id, "go on", "yes")
}

// Whatever line is missing from an export, what is imported is at rest and works.
func TestExportWithAnyLineMissingIsRefusedOrAtRest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	for range 3 {
		b.turn(id, "say much", big("much", 800))
	}
	if rec := b.compact(threads.CompactParams{Thread: id, Budget: 1500}); *rec.Outcome != compaction.Completed {
		t.Fatalf("record %s", mustJSON(t, rec))
	}
	b.turn(id, "after", "the boundary")
	var file bytes.Buffer
	if err := b.svc.Export(t.Context(), id, &file); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(file.String(), "\n")
	edits := map[string]string{}
	for i := range lines {
		edits[fmt.Sprint("without line ", i+1)] = strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "")
		edits[fmt.Sprint("cut after line ", i+1)] = strings.Join(lines[:i+1], "")
		edits[fmt.Sprint("line twice ", i+1)] = strings.Join(slices.Insert(slices.Clone(lines), i, lines[i]), "")
	}
	accepted := 0
	for name, text := range edits {
		res, err := b.svc.Import(t.Context(), strings.NewReader(text), threads.ImportParams{})
		if err != nil {
			if fault.CodeOf(err) != fault.Invalid && fault.CodeOf(err) != fault.Corrupt {
				t.Errorf("%s: %v (%s)", name, err, fault.CodeOf(err))
			}
			continue
		}
		accepted++
		turns, err := b.svc.ListTurns(t.Context(), res.Thread.ID, threads.TurnQuery{PageQuery: threads.PageQuery{Limit: 1000}})
		if err != nil {
			t.Fatal(err)
		}
		recs, err := b.svc.ListCompactions(t.Context(), res.Thread.ID, threads.PageQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for _, turn := range turns.Turns {
			if turn.Status == transcript.TurnInProgress {
				t.Errorf("%s: turn %s is in progress", name, turn.ID)
			}
		}
		for _, r := range recs.Records {
			if !r.Terminal() {
				t.Errorf("%s: compaction %s is open", name, r.CompactionID)
			}
		}
		b.turn(res.Thread.ID, "does it work?", "yes")
	}
	if accepted == 0 {
		t.Error("every edit was refused")
	}
}

// down is a provider that says why it does not list its models.
type down struct{ adapters.Adapter }

func (down) Models(context.Context) ([]adapters.ModelInfo, error) {
	return nil, fmt.Errorf("list models: %w", &adapters.Error{Class: adapters.ClassUnreachable, Message: "the server did not answer: connection refused"})
}

func TestAProviderThatIsDownSaysWhy(t *testing.T) {
	b := newBench(t, func(c *threads.Config) {
		c.Providers = append(c.Providers, threads.Provider{Name: "down", Kind: "puppet", Adapter: down{c.Providers[0].Adapter}})
	})
	if infos := b.svc.Providers(t.Context()); infos[1].Error != "the server did not answer: connection refused" {
		t.Errorf("it says %q", infos[1].Error)
	}
}
