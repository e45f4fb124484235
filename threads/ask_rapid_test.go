package threads_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/events/mem"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// asker is a model that calls what it is told to, by the user's words, and says
// "ok" to everything else.
type asker struct{ puppet }

func (m *asker) reply(req adapters.Request) []adapters.Chunk {
	last := req.Entries[len(req.Entries)-1].Item
	u, ok := last.Body.(transcript.UserMessage)
	if !ok {
		return []adapters.Chunk{adapters.MessageText{Text: "ok"}, adapters.Done{Stop: adapters.StopEnd}}
	}
	var chunks []adapters.Chunk
	for i, what := range transcript.Text(u) {
		name := map[rune]string{'r': "run", 'c': clientToolName, 'l': "look"}[what]
		if name == "" {
			continue
		}
		chunks = append(chunks, adapters.CallChunk{Call: transcript.ToolCall{
			CallID: transcript.CallID(fmt.Sprint(i, "-", last.ID)), Name: name, Arguments: []byte(`{"command":"make"}`),
		}})
	}
	if len(chunks) == 0 {
		return []adapters.Chunk{adapters.MessageText{Text: "ok"}, adapters.Done{Stop: adapters.StopEnd}}
	}
	return append(chunks, adapters.Done{Stop: adapters.StopTools})
}

func (m *asker) Stream(ctx context.Context, req adapters.Request) iter.Seq2[adapters.Chunk, error] {
	return func(yield func(adapters.Chunk, error) bool) {
		for _, c := range m.reply(req) {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

// Whatever happens in whatever order, every request ends exactly once, every call
// has one result, every turn ends, no answer wins twice, and a thread that is
// loaded again is the same.
func TestRequestsSurviveAnyOrderOfEvents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newAskWorld(t, rt)
		defer w.end()
		rt.Repeat(map[string]func(*rapid.T){
			"start":     func(rt *rapid.T) { w.start(rt) },
			"answer":    func(rt *rapid.T) { w.answer(rt) },
			"interrupt": func(*rapid.T) { w.interrupt() },
			"compact":   func(*rapid.T) { w.compact() },
			"restart":   func(*rapid.T) { w.b.restart() },
			"":          func(*rapid.T) { w.check() },
		})
	})
}

type askWorld struct {
	b    *bench
	id   transcript.ThreadID
	rt   *rapid.T
	won  map[threads.RequestID]int
	last transcript.TurnID
}

func newAskWorld(t *testing.T, rt *rapid.T) *askWorld {
	m := &asker{*newPuppet()}
	b := &bench{t: t, puppet: &m.puppet, journal: &counting{Journal: mem.New()}}
	b.config = threads.Config{
		Journal:   unclosed{b.journal},
		Providers: []threads.Provider{{Name: "puppet", Kind: "puppet", Adapter: agent.New(m)}},
		Tools: map[string]threads.Tool{"run": runTool, "look": func(context.Context, transcript.ToolCall, threads.Asker) (transcript.ToolResult, error) {
			return transcript.ToolResult{Output: transcript.TextParts("seen")}, nil
		}},
	}
	b.open()
	return &askWorld{b: b, id: b.createAsking(threads.Settings{}), rt: rt, won: map[threads.RequestID]int{}}
}

func (w *askWorld) start(rt *rapid.T) {
	mode := rapid.SampledFrom([]threads.InputMode{threads.ModeQueue, threads.ModeSteer}).Draw(rt, "mode")
	text := rapid.SampledFrom([]string{"r", "c", "rc", "rrc", "rl", "l", "nothing", "cc"}).Draw(rt, "text")
	ack, err := w.b.svc.StartTurn(context.Background(), threads.StartTurnParams{Thread: w.id, Mode: mode, Input: transcript.TextParts(text)})
	if err != nil {
		rt.Fatalf("start: %v", err)
	}
	w.last = ack.Turn.ID
}

// answer gives two answers at once to something that waits, or to nothing.
func (w *askWorld) answer(rt *rapid.T) {
	waits, err := w.b.svc.Requests(context.Background(), w.id)
	if err != nil {
		rt.Fatalf("requests: %v", err)
	}
	r := threads.Request{ID: "none", Method: threads.AskCommand}
	if len(waits) > 0 {
		r = waits[rapid.IntRange(0, len(waits)-1).Draw(rt, "request")]
	}
	decisions := []adapters.Decision{adapters.Accept, adapters.AcceptForSession, adapters.Decline, adapters.Cancel, "maybe"}
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i := range errs {
		a := threads.RequestAnswer{Decision: rapid.SampledFrom(decisions).Draw(rt, "decision")}
		if r.Method == threads.AskTool && a.Decision != "maybe" {
			a = threads.RequestAnswer{Output: transcript.TextParts("out")}
		}
		wg.Go(func() { errs[i] = w.b.svc.Answer(context.Background(), w.id, r.ID, a, "") })
	}
	wg.Wait()
	for _, err := range errs {
		switch fault.CodeOf(err) {
		case "":
			w.won[r.ID]++
		case fault.Conflict, fault.Invalid, fault.NotFound:
		default:
			rt.Errorf("answer: %v", err)
		}
	}
}

func (w *askWorld) interrupt() {
	err := w.b.svc.InterruptTurn(context.Background(), w.id, w.last)
	if code := fault.CodeOf(err); err != nil && code != fault.Conflict && code != fault.NotFound {
		w.rt.Errorf("interrupt: %v", err)
	}
}

func (w *askWorld) compact() {
	if _, err := w.b.svc.StartCompaction(context.Background(), threads.CompactParams{Thread: w.id}); err != nil {
		w.rt.Errorf("compact: %v", err)
	}
}

// check looks at the journal: flags say what waits, and nothing happened twice.
func (w *askWorld) check() {
	waits := map[threads.RequestID]threads.Request{}
	ended := map[threads.RequestID]bool{}
	flagged := false
	for i, p := range w.b.payloads(w.id) {
		switch p := p.(type) {
		case threads.RequestCreated:
			if _, twice := waits[p.Request.ID]; twice || ended[p.Request.ID] {
				w.rt.Fatalf("event %d makes request %s again", i+1, p.Request.ID)
			}
			waits[p.Request.ID] = p.Request
			if p.Request.Method != threads.AskTool && !flagged {
				w.rt.Fatalf("event %d: an approval waits without the flag", i+1)
			}
		case threads.RequestResolved:
			if _, known := waits[p.RequestID]; !known {
				w.rt.Fatalf("event %d ends request %s, which does not wait", i+1, p.RequestID)
			}
			delete(waits, p.RequestID)
			ended[p.RequestID] = true
		case threads.StatusChanged:
			flagged = slices.Contains(p.Flags, threads.WaitingOnApproval)
		default:
		}
	}
	for id, n := range w.won {
		if n != 1 || !ended[id] {
			w.rt.Fatalf("request %s took %d answers; it ended: %v", id, n, ended[id])
		}
	}
}

// end lets everything finish: what waits is answered until the thread is at rest.
func (w *askWorld) end() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		read, err := w.b.svc.ReadThread(ctx, w.id)
		if err != nil {
			w.rt.Fatalf("the thread does not come to rest: %v\n%s", err, w.b.log(w.id))
		}
		if read.Thread.Status != threads.StatusActive && read.Thread.Queued == 0 {
			break
		}
		waits, err := w.b.svc.Requests(ctx, w.id)
		if err != nil {
			w.rt.Fatalf("requests: %v", err)
		}
		for _, r := range waits {
			// It may have been cancelled meanwhile.
			if err := w.b.svc.Answer(ctx, w.id, r.ID, answerOf(r), ""); err != nil && fault.CodeOf(err) != fault.Conflict {
				w.rt.Errorf("answer at the end: %v", err)
			}
		}
	}
	w.check()
	checkPairs(w.b.t, w.b, "at the end", w.id)
	before, err := w.b.svc.ReadContext(ctx, w.id, nil)
	if err != nil {
		w.rt.Errorf("context: %v", err)
	}
	w.b.restart()
	after, err := w.b.svc.ReadContext(ctx, w.id, nil)
	if err != nil || mustJSON(w.b.t, after.Entries) != mustJSON(w.b.t, before.Entries) {
		w.rt.Errorf("the thread is another one after a restart: %v", err)
	}
	w.b.close()
	if err := w.b.journal.Journal.Close(); err != nil {
		w.rt.Error(err)
	}
}
