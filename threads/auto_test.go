package threads_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A player is a model that answers by itself, as play says. It counts honestly.
type player struct {
	infos []adapters.ModelInfo
	unfit *adapters.Refusal
	base  adapters.Base

	mu   sync.Mutex // guards what follows
	play func(p *player, req adapters.Request) played
	reqs []adapters.Request
}

// played is an answer. Where it has no usage of its own, it has an honest one.
type played struct {
	text  string
	calls []transcript.ToolCall
	usage *adapters.Usage
	stop  adapters.StopReason
	err   error
	hang  bool // until the request is cancelled
}

func newPlayer(window int) *player {
	return &player{
		infos: []adapters.ModelInfo{{ID: "m", ContextWindow: window, MaxOutput: 1000}},
		unfit: &adapters.Refusal{Code: "writerUnfit", Reason: "it writes nothing", Remedy: "none"},
		base:  adapters.Base{System: "You are a player."},
		play:  func(*player, adapters.Request) played { return played{text: "ok"} },
	}
}

func (p *player) Models(context.Context) ([]adapters.ModelInfo, error) { return p.infos, nil }
func (p *player) Base() adapters.Base                                  { return p.base }
func (p *player) Unfit() *adapters.Refusal                             { return p.unfit }
func (p *player) Count(context.Context, adapters.Request) (int, bool, error) {
	return 0, false, nil
}

func (p *player) Compaction() adapters.Ability {
	return adapters.Ability{Refusal: &adapters.Refusal{Code: "nativeUnsupported", Reason: "a player cannot compact", Remedy: "use route local"}}
}

func (p *player) Stream(ctx context.Context, req adapters.Request) iter.Seq2[adapters.Chunk, error] {
	return func(yield func(adapters.Chunk, error) bool) {
		p.mu.Lock()
		p.reqs = append(p.reqs, req)
		a := p.play(p, req)
		p.mu.Unlock()
		if a.hang {
			<-ctx.Done()
			a.err = ctx.Err()
		}
		if a.err != nil {
			yield(nil, a.err)
			return
		}
		stop := adapters.StopEnd
		if len(a.calls) > 0 {
			stop = adapters.StopTools
		}
		if a.stop != "" {
			stop = a.stop
		}
		u := a.usage
		if u == nil {
			u = new((&request{Request: req}).usage(a.text))
		}
		chunks := []adapters.Chunk{}
		if a.text != "" {
			chunks = append(chunks, adapters.MessageText{Text: a.text})
		}
		for _, c := range a.calls {
			chunks = append(chunks, adapters.CallChunk{Call: c})
		}
		for _, c := range append(chunks, adapters.UsageChunk{Usage: *u}, adapters.Done{Stop: stop}) {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// requests returns what the model was asked, the writer's requests apart.
func (p *player) requests() (turns, writers []adapters.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.reqs {
		if r.Writer {
			writers = append(writers, r)
		} else {
			turns = append(turns, r)
		}
	}
	return turns, writers
}

// answering has the player answer each request with the next of the texts, and the
// last one for ever.
func (p *player) answering(texts ...string) *player {
	n := 0
	p.play = func(*player, adapters.Request) played {
		n++
		return played{text: texts[min(n, len(texts))-1]}
	}
	return p
}

// playing is a bench whose provider is the player.
func playing(t *testing.T, p *player, change ...func(*threads.Config)) *bench {
	t.Helper()
	return newBench(t, append([]func(*threads.Config){func(c *threads.Config) {
		c.Providers = []threads.Provider{{Name: "player", Kind: "player", Adapter: agent.New(p)}}
	}}, change...)...)
}

// played has a turn happen that the player plays, and returns how it ended.
func (b *bench) played(id transcript.ThreadID, text string) transcript.Turn {
	b.t.Helper()
	ack := b.start(id, text)
	return b.await(id, ended(ack.Turn.ID)).(threads.TurnCompleted).Turn
}

// records returns the compactions of a thread, oldest first.
func (b *bench) records(id transcript.ThreadID) []compaction.Record {
	b.t.Helper()
	p, err := b.svc.ListCompactions(b.t.Context(), id, threads.PageQuery{})
	if err != nil {
		b.t.Fatal(err)
	}
	return p.Records
}

// settle waits until the thread rests and nothing waits in it.
func (b *bench) settle(id transcript.ThreadID) {
	b.t.Helper()
	for {
		read, err := b.svc.ReadThread(b.t.Context(), id)
		if err != nil {
			b.t.Fatal(err)
		}
		if busy := read.Thread.Status == threads.StatusActive || read.Thread.Queued > 0; !busy {
			return
		}
		ctx, cancel := context.WithTimeout(b.t.Context(), patience)
		for m, err := range b.svc.Follow(ctx, id, &read.AsOf, 0) {
			if err != nil || m.Event.Seq > 0 {
				break
			}
		}
		if ctx.Err() != nil {
			b.t.Fatalf("the thread never rests:\n%s", b.log(id))
		}
		cancel()
	}
}

// outcomes lists trigger and outcome of each compaction.
func outcomes(recs []compaction.Record) string {
	var out []string
	for _, r := range recs {
		o := "open"
		if r.Outcome != nil {
			o = string(*r.Outcome)
		}
		if r.Code != nil {
			o += "(" + *r.Code + ")"
		}
		out = append(out, string(r.Trigger)+" "+o)
	}
	return strings.Join(out, ", ")
}

func (b *bench) wantOutcomes(id transcript.ThreadID, want string) {
	b.t.Helper()
	if got := outcomes(b.records(id)); got != want {
		b.t.Errorf("compactions: %s; want: %s\n%s", got, want, b.log(id))
	}
}

func call(id, name string) transcript.ToolCall {
	return transcript.ToolCall{CallID: transcript.CallID(id), Name: name, Arguments: []byte(`{}`)}
}

// withTool offers a tool whose result is text.
func withTool(text string) func(*threads.Config) {
	return func(c *threads.Config) {
		c.Tools = map[string]threads.Tool{"look": func(context.Context, transcript.ToolCall, threads.Asker) (transcript.ToolResult, error) {
			return transcript.ToolResult{Output: transcript.TextParts(text)}, nil
		}}
	}
}

func TestAnInputThatCrossesTheLineWaitsForACompaction(t *testing.T) {
	p := newPlayer(20_000).answering(big("a", 5000), big("b", 5000), big("c", 5000), "done")
	b := playing(t, p)
	id := b.create()
	for range 3 {
		b.played(id, "go on")
	}
	b.wantOutcomes(id, "")
	ack := b.start(id, big("NEW", 2500))
	if !ack.Queued {
		t.Error("the input that crosses the line is not queued")
	}
	b.await(id, ended(ack.Turn.ID))
	b.wantOutcomes(id, "preTurn completed")
	turns, _ := p.requests()
	last := turns[len(turns)-1]
	prompts := 0
	for _, e := range last.Entries {
		if strings.HasPrefix(transcript.Text(e.Item.Body), "NEW line 0") {
			prompts++
		}
	}
	if k := last.Entries[0].Item.Body.Kind(); k != transcript.KindCheckpoint || prompts != 1 {
		t.Errorf("the request begins with %s and holds the prompt %d times", k, prompts)
	}
	if end := last.Entries[len(last.Entries)-1].Item.Body; end.Kind() != transcript.KindUserMessage {
		t.Errorf("the request ends with %s, want the new prompt", end.Kind())
	}
	if rec := b.records(id)[0]; rec.After.Tokens >= rec.Before.Tokens || rec.Before.Tokens < 15_000 {
		t.Errorf("record %s", mustJSON(t, rec))
	}
}

func TestATurnThatEndsOverTheLineIsCompactedBeforeTheQueue(t *testing.T) {
	p := newPlayer(20_000).answering(big("a", 18_000), "second")
	b := playing(t, p)
	id := b.create()
	b.played(id, "go")
	b.settle(id)
	b.wantOutcomes(id, "postTurn completed")
	b.played(id, "hi") // P008: the report of before the boundary says nothing any more
	b.played(id, "and again")
	b.wantOutcomes(id, "postTurn completed")
	turns, _ := p.requests()
	if k := turns[1].Entries[0].Item.Body.Kind(); k != transcript.KindCheckpoint {
		t.Errorf("the next request begins with %s", k)
	}
}

func TestNoPostTurnWaitsForTheNextInput(t *testing.T) {
	b := playing(t, newPlayer(20_000).answering(big("a", 18_000), "second"), func(c *threads.Config) { c.Policy.NoPostTurn = true })
	id := b.create()
	b.played(id, "go")
	b.settle(id)
	b.wantOutcomes(id, "")
	b.played(id, "hi")
	b.wantOutcomes(id, "preTurn completed")
}

// looping is a model that calls a tool n times in a turn and then answers.
func looping(window, n int) *player {
	p := newPlayer(window)
	p.play = func(p *player, req adapters.Request) played {
		if turns := len(p.reqs); turns <= n {
			return played{calls: []transcript.ToolCall{call("c"+string(rune('a'+turns)), "look")}}
		}
		return played{text: "done"}
	}
	return p
}

func TestAToolLoopThatCrossesTheLineIsCompactedInsideItsTurn(t *testing.T) {
	p := looping(20_000, 5)
	b := playing(t, p, withTool(big("seen", 4500)))
	id := b.create()
	turn := b.played(id, "THE-PROMPT")
	if turn.Status != transcript.TurnCompleted {
		t.Fatalf("the turn is %s", mustJSON(t, turn))
	}
	b.settle(id)
	if recs := b.records(id); len(recs) == 0 || recs[0].Trigger != compaction.TriggerMidTurn || *recs[0].Outcome != compaction.Completed || recs[0].TurnID != turn.ID {
		t.Fatalf("compactions: %s", outcomes(recs))
	}
	turns, _ := p.requests()
	for i, r := range turns {
		if r.Entries[0].Item.Body.Kind() != transcript.KindCheckpoint {
			continue
		}
		sources := []string{}
		prompt := false
		for _, e := range r.Entries {
			if n, ok := e.Item.Body.(transcript.Notice); ok {
				sources = append(sources, n.Source)
			}
			prompt = prompt || transcript.Text(e.Item.Body) == "THE-PROMPT"
		}
		if !prompt || !slices.Equal(sources, []string{"reanchor", "continue"}) {
			t.Errorf("request %d after the boundary has the prompt: %v, and the notices %v", i, prompt, sources)
		}
		break
	}
	if read, err := b.svc.ReadContext(t.Context(), id, nil); err != nil || read.Reanchor != "" {
		t.Errorf("the re-anchor is still pending: %v", err)
	}
}

func TestAModelWithASmallerWindowCompactsFirst(t *testing.T) {
	p := newPlayer(100_000).answering(big("a", 15_000), big("b", 15_000), "small")
	p.infos = append(p.infos, adapters.ModelInfo{ID: "small", ContextWindow: 20_000, MaxOutput: 1000})
	b := playing(t, p)
	id := b.create()
	b.played(id, "one")
	b.played(id, "two")
	ack, err := b.svc.StartTurn(t.Context(), threads.StartTurnParams{
		Thread: id, Input: transcript.TextParts("three"), Settings: threads.SettingsPatch{Model: new("small")},
	})
	if err != nil || !ack.Queued {
		t.Fatalf("%+v, %v, want it queued", ack, err)
	}
	b.await(id, ended(ack.Turn.ID))
	b.wantOutcomes(id, "smallerWindow completed")
	if rec := b.records(id)[0]; *rec.Before.Window != 20_000 || rec.After.Tokens >= 17_000 {
		t.Errorf("record %s", mustJSON(t, rec))
	}
}

func TestAThreadThatRestsIsCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := playing(t, newPlayer(40_000).answering(big("a", 25_000), "ok"), func(c *threads.Config) {
			c.Policy.Idle, c.IdleAfter = time.Hour, time.Minute
		})
		id := b.create()
		b.played(id, "go")
		time.Sleep(59 * time.Minute)
		b.wantOutcomes(id, "")
		if len(b.svc.Loaded()) != 1 {
			t.Error("the thread was unloaded while a compaction is due")
		}
		if err := b.svc.SetName(t.Context(), id, "it did not rest"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Minute)
		b.wantOutcomes(id, "")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		b.wantOutcomes(id, "idle completed")
		time.Sleep(3 * time.Hour)
		b.wantOutcomes(id, "idle completed")
		if n := len(b.svc.Loaded()); n > 1 {
			t.Errorf("%d threads are loaded", n)
		}
	})
}

func TestNothingCompactsByItselfWhereThatIsOff(t *testing.T) {
	p := newPlayer(20_000).answering(big("a", 18_000), big("b", 18_000), "c")
	b := playing(t, p, never, func(c *threads.Config) { c.Policy.Idle = time.Nanosecond })
	id := b.create()
	for range 3 {
		b.played(id, "go")
	}
	b.settle(id)
	b.wantOutcomes(id, "")
	if rec := b.compact(threads.CompactParams{Thread: id}); *rec.Outcome != compaction.Completed {
		t.Errorf("a manual one is %s", mustJSON(t, rec))
	}
}

var errOverflow = &adapters.Error{Class: adapters.ClassOverflow, Message: "prompt is too long: 25000 tokens > 20000 maximum", Requested: 25_000, Limit: 20_000}

func TestAnOverflowIsCompactedAndTriedOnceMore(t *testing.T) {
	p := newPlayer(100_000)
	p.play = func(p *player, req adapters.Request) played {
		if u := (&request{Request: req}).usage(""); u.InputTokens > 20_000 {
			return played{err: errOverflow}
		}
		return played{text: big("answer", 4_500)}
	}
	b := playing(t, p)
	id := b.create()
	for range 6 {
		if turn := b.played(id, "go"); turn.Status != transcript.TurnCompleted {
			t.Fatalf("the turn is %s\n%s", mustJSON(t, turn), b.log(id))
		}
	}
	b.settle(id)
	recs := b.records(id)
	if len(recs) == 0 || recs[0].Trigger != compaction.TriggerOverflow || *recs[0].Outcome != compaction.Completed {
		t.Fatalf("compactions: %s", outcomes(recs))
	}
	read, err := b.svc.ReadThread(t.Context(), id)
	if err != nil || read.Thread.Occupancy.Window != 20_000 {
		t.Errorf("the window is %d, want the learned one (%v)", read.Thread.Occupancy.Window, err)
	}
	other := b.create() // P083, and what one thread learned counts for the others
	if read, err := b.svc.ReadThread(t.Context(), other); err != nil || read.Thread.Occupancy.Window != 20_000 {
		t.Errorf("another thread's window is %d (%v)", read.Thread.Occupancy.Window, err)
	}
	b.restart()
	if read, err := b.svc.ReadThread(t.Context(), id); err != nil || read.Thread.Occupancy.Window != 20_000 {
		t.Errorf("after a restart the window is %d (%v)", read.Thread.Occupancy.Window, err)
	}
}

func TestALearnedWindowExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlayer(100_000)
		p.play = func(p *player, req adapters.Request) played { return played{err: errOverflow} }
		b := playing(t, p, never)
		id := b.create()
		if turn := b.played(id, "go"); turn.Error == nil || turn.Error.Code != "contextWindowExceeded" {
			t.Fatalf("the turn is %s", mustJSON(t, turn))
		}
		window := func() int {
			t.Helper()
			b.restart()
			read, err := b.svc.ReadThread(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return read.Thread.Occupancy.Window
		}
		if w := window(); w != 20_000 {
			t.Errorf("the window is %d, want the learned one", w)
		}
		time.Sleep(threads.LearnedFor + time.Minute)
		if w := window(); w != 100_000 {
			t.Errorf("a day later the window is %d, want the known one", w)
		}
	})
}

func TestAProviderThatAlwaysOverflowsCostsOneCompaction(t *testing.T) {
	for _, form := range []string{"error", "length"} {
		t.Run(form, func(t *testing.T) {
			p := newPlayer(100_000)
			n := 0
			p.play = func(p *player, req adapters.Request) played {
				if n++; n <= 4 {
					return played{text: big("answer", 6_000)}
				}
				if form == "length" {
					return played{text: "", stop: adapters.StopWindow}
				}
				return played{err: errOverflow}
			}
			b := playing(t, p)
			id := b.create()
			for range 4 {
				b.played(id, "go")
			}
			before, _ := p.requests()
			turn := b.played(id, "too much")
			if turn.Status != transcript.TurnFailed || turn.Error.Code != "contextWindowExceeded" {
				t.Errorf("the turn is %s", mustJSON(t, turn))
			}
			after, _ := p.requests()
			if calls := len(after) - len(before); calls > 3 {
				t.Errorf("the turn cost %d main calls, want at most 3", calls)
			}
			want := map[string]string{"error": "overflow completed", "length": "length completed"}[form]
			b.wantOutcomes(id, want)
		})
	}
}

func TestWithoutAutomaticCompactionAnOverflowEndsTheTurn(t *testing.T) {
	p := newPlayer(20_000)
	p.infos = append(p.infos, adapters.ModelInfo{ID: "large", ContextWindow: 200_000})
	p.play = func(p *player, req adapters.Request) played {
		if req.Model == "m" {
			return played{err: errOverflow}
		}
		return played{text: "fine"}
	}
	b := playing(t, p, never)
	id := b.create()
	if turn := b.played(id, "go"); turn.Error == nil || turn.Error.Code != "contextWindowExceeded" {
		t.Fatalf("the turn is %s", mustJSON(t, turn))
	}
	b.wantOutcomes(id, "")
	if _, err := b.svc.UpdateSettings(t.Context(), id, threads.SettingsPatch{Model: new("large")}); err != nil {
		t.Fatal(err)
	}
	if turn := b.played(id, "again"); turn.Status != transcript.TurnCompleted {
		t.Errorf("with the larger model the turn is %s", mustJSON(t, turn))
	}
}

func TestFailuresOfProvidersKeepTheirClass(t *testing.T) {
	for _, class := range []adapters.Class{adapters.ClassDenied, adapters.ClassRateLimited, adapters.ClassCut, adapters.ClassTooLarge} {
		p := newPlayer(20_000)
		p.play = func(*player, adapters.Request) played {
			return played{err: errors.Join(&adapters.Error{Class: class, Message: "no"})}
		}
		b := playing(t, p)
		if turn := b.played(b.create(), "go"); turn.Error == nil || turn.Error.Code != string(class) {
			t.Errorf("%s: the turn is %s", class, mustJSON(t, turn))
		}
	}
}
