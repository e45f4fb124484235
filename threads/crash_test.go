package threads_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/sqlite"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/failpoint"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// The crash test runs one story in a child process, again and again, and kills
// it with SIGKILL at another failpoint each time, until every failpoint that the
// story reaches has been the last. The child is this test binary.

const (
	crashDB = "PLIMSOLL_TEST_CRASH_DB"  // path of the child's database
	crashAt = "PLIMSOLL_TEST_CRASH_AT"  // the number of the hit that kills; 0: none
	askTale = "PLIMSOLL_TEST_CRASH_ASK" // if set, the story is that of ask_crash_test.go
)

// prologue, as the number of the hit, makes the child write only what comes
// before the story; every round begins with a copy of it.
const prologue = -1

// A said line is one that the child prints; what it acknowledged must survive.
type said struct {
	What    string // hit, killed, thread, turn, context, compaction, streaming
	ID      string
	Thread  transcript.ThreadID
	Entries int // of context
}

func say(s said) {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(b))
}

// storyteller is a model that plays by itself: it calls two tools when told to,
// and answers everything else with enough text to be worth compacting.
type storyteller struct {
	puppet
	journal events.Journal
}

func (m *storyteller) Stream(ctx context.Context, req adapters.Request) iter.Seq2[adapters.Chunk, error] {
	return func(yield func(adapters.Chunk, error) bool) {
		if req.Writer {
			writeSlowly(yield)
			return
		}
		last := req.Entries[len(req.Entries)-1].Item
		chunks := []adapters.Chunk{adapters.MessageText{Text: big("answer", 3000)}}
		if u, ok := last.Body.(transcript.UserMessage); ok {
			switch transcript.Text(u) {
			case "tools":
				chunks = []adapters.Chunk{
					adapters.CallChunk{Call: transcript.ToolCall{CallID: transcript.CallID("a-" + last.ID), Name: "look", Arguments: []byte(`{"n":1}`)}},
					adapters.CallChunk{Call: transcript.ToolCall{CallID: transcript.CallID("b-" + last.ID), Name: "look", Arguments: []byte(`{"n":2}`)}},
				}
			case "ask":
				chunks = asksOfTheStory(last.ID)
			case "stream":
				yield(adapters.MessageText{Text: "half a sentence that was strea"}, nil)
				m.awaitStored()
				chunks = nil
			}
		}
		for _, c := range chunks {
			if !yield(c, nil) {
				return
			}
		}
		_ = yield(adapters.UsageChunk{Usage: adapters.Usage{InputTokens: 100, OutputTokens: 10}}, nil) &&
			yield(adapters.Done{Stop: adapters.StopEnd}, nil)
	}
}

// writeSlowly is a writer of checkpoints that takes its time: the process may be
// killed before it answers, and in the middle of its answer.
func writeSlowly(yield func(adapters.Chunk, error) bool) {
	failpoint.Hit("writer/asked")
	answer := notes()
	half := len(answer.text) / 2
	if !yield(adapters.MessageText{Text: answer.text[:half]}, nil) {
		return
	}
	failpoint.Hit("writer/answering")
	_ = yield(adapters.MessageText{Text: answer.text[half:]}, nil) &&
		yield(adapters.UsageChunk{Usage: *answer.usage}, nil) &&
		yield(adapters.Done{Stop: adapters.StopEnd}, nil)
}

// awaitStored returns when the streamed text has its row.
func (m *storyteller) awaitStored() {
	infos, err := m.journal.List(context.Background(), events.ListQuery{})
	for err == nil {
		var open []events.OpenText
		open, err = m.journal.Open(context.Background(), infos[0].Thread)
		if len(open) > 0 {
			failpoint.Hit("text/stored")
			return
		}
	}
	panic(err)
}

func openStory(path string) (*threads.Service, events.Journal, error) {
	j, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return nil, nil, err
	}
	m := &storyteller{*newPuppet(), j}
	m.unfit = nil
	svc, err := threads.Open(context.Background(), threads.Config{
		Journal:   j,
		Providers: []threads.Provider{{Name: "story", Kind: "story", Adapter: agent.New(m)}},
		Tools: map[string]threads.Tool{"look": func(context.Context, transcript.ToolCall, threads.Asker) (transcript.ToolResult, error) {
			return transcript.ToolResult{Output: transcript.TextParts("seen")}, nil
		}, "run": runTool},
	})
	return svc, j, err
}

// crashChild plays the story if this process is the child.
func crashChild() bool {
	path := os.Getenv(crashDB)
	if path == "" {
		return false
	}
	at, err := strconv.ParseInt(os.Getenv(crashAt), 10, 64)
	if err != nil {
		panic(err)
	}
	if os.Getenv(nativeTale) != "" {
		nativeChild(path, at)
		return true
	}
	if os.Getenv(sessionTale) != "" {
		sessionChild(path, at)
		return true
	}
	svc, _, err := openStory(path)
	if err != nil {
		panic(err)
	}
	s := story{svc, context.Background()}
	if at == prologue {
		id := s.create()
		for range 8 {
			s.turn(id, "chapter")
		}
		if err := svc.Close(s.ctx); err != nil {
			panic(err)
		}
		return true
	}
	armFailpoints(at)
	if os.Getenv(askTale) != "" {
		s.playAsks()
		return true
	}
	id := must(svc.ListThreads(s.ctx, threads.PageQuery{})).Threads[0].ID
	say(said{What: "thread", Thread: id})
	s.play(id)
	return true
}

// armFailpoints has the hit with a number kill the process.
func armFailpoints(at int64) {
	var hits atomic.Int64
	failpoint.Arm(func(name string) {
		if n := hits.Add(1); n == at {
			say(said{What: "killed", ID: name})
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				panic(err)
			}
			select {} // the signal is on its way: nothing may happen after it
		}
		say(said{What: "hit", ID: name})
	})
}

type story struct {
	svc *threads.Service
	ctx context.Context
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (s story) create() transcript.ThreadID {
	id := must(s.svc.CreateThread(s.ctx, threads.CreateParams{})).Thread.ID
	say(said{What: "thread", Thread: id})
	return id
}

func (s story) start(id transcript.ThreadID, text string) transcript.TurnID {
	ack := must(s.svc.StartTurn(s.ctx, threads.StartTurnParams{Thread: id, Input: transcript.TextParts(text)}))
	say(said{What: "turn", Thread: id, ID: string(ack.Turn.ID)})
	return ack.Turn.ID
}

func (s story) turn(id transcript.ThreadID, text string) {
	s.await(id, s.start(id, text))
}

func (s story) await(id transcript.ThreadID, turn transcript.TurnID) {
	for m, err := range s.svc.Follow(s.ctx, id, nil, 0) {
		if err != nil {
			panic(err)
		}
		if m.Kind == events.KindEvent && ended(turn)(must(threads.Decode(m.Event))) {
			return
		}
	}
}

// compact notes the context before, so that its loss would be seen.
func (s story) compact(p threads.CompactParams) {
	c := must(s.svc.ReadContext(s.ctx, p.Thread, nil))
	say(said{What: "context", Thread: p.Thread, ID: hashOf(c.Entries), Entries: len(c.Entries)})
	ack := must(s.svc.StartCompaction(s.ctx, p))
	say(said{What: "compaction", Thread: p.Thread, ID: string(ack.Record.CompactionID)})
}

func hashOf(v any) string {
	b := must(json.Marshal(v))
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func (s story) play(id transcript.ThreadID) {
	s.turn(id, "tools")
	s.compact(threads.CompactParams{Thread: id, Wait: true, Budget: 16000})
	s.turn(id, "chapter")
	s.compact(threads.CompactParams{Thread: id, Wait: true, Route: compaction.RouteNative})
	turn := s.start(id, "tools")
	s.compact(threads.CompactParams{Thread: id, Budget: 8000})
	last := s.start(id, "chapter")
	s.await(id, turn)
	s.await(id, last)
	other := s.create()
	s.turn(other, "chapter")
	streamed := s.start(other, "stream")
	say(said{What: "streaming", Thread: other, ID: string(streamed)})
	s.await(other, streamed)
	s.rearrange(id, other)
}

// rearrange does to threads what needs no turn. Each fact is said once it is
// acknowledged, and nothing later takes it back.
func (s story) rearrange(id, other transcript.ThreadID) {
	fork := must(s.svc.Fork(s.ctx, threads.ForkParams{Thread: id})).Thread.ID
	say(said{What: "thread", Thread: fork})
	say(said{What: "fork", Thread: fork, ID: string(id)})
	try(s.svc.SetName(s.ctx, fork, "the fork"))
	say(said{What: "name", Thread: fork, ID: "the fork"})
	must(s.svc.UpdateSettings(s.ctx, fork, threads.SettingsPatch{Effort: new("high")}))
	say(said{What: "effort", Thread: fork, ID: "high"})
	before := must(s.svc.ReadContext(s.ctx, fork, nil))
	doomed := s.start(fork, "chapter")
	s.await(fork, doomed)
	must(s.svc.Revert(s.ctx, fork, doomed))
	say(said{What: "reverted", Thread: fork, ID: string(doomed)})
	say(said{What: "left", Thread: fork, ID: hashOf(before.Entries)})
	try(s.svc.Archive(s.ctx, other))
	say(said{What: "archived", Thread: other})
}

func try(err error) {
	if err != nil {
		panic(err)
	}
}

// playUntil runs the child and returns what it acknowledged, the failpoints it
// passed, and the one at which it died.
func playUntil(t *testing.T, path string, at int, env ...string) (acks []said, hits []string, killed string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), crashDB+"="+path, crashAt+"="+strconv.Itoa(at), "GORACE=atexit_sleep_ms=0"), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		var s said
		if json.Unmarshal(sc.Bytes(), &s) != nil {
			continue // the line in which it died
		}
		switch s.What {
		case "hit":
			hits = append(hits, s.ID)
		case "killed":
			killed = s.ID
		default:
			acks = append(acks, s)
		}
	}
	err = cmd.Wait()
	if at <= 0 && err != nil {
		t.Fatalf("the undisturbed story ended with %v", err)
	}
	return acks, hits, killed
}

func TestKill9AtEveryFailpointLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	begin := filepath.Join(t.TempDir(), "prologue.db")
	playUntil(t, begin, prologue)
	written, err := os.ReadFile(begin)
	if err != nil {
		t.Fatal(err)
	}
	copied := func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "killed.db")
		if err := os.WriteFile(path, written, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	_, hits, _ := playUntil(t, copied(t), 0)
	distinct := map[string]bool{}
	for _, h := range hits {
		distinct[h] = true
	}
	t.Logf("%d rounds over %d failpoints", len(hits), len(distinct))
	if !distinct["writer/asked"] || !distinct["writer/answering"] {
		t.Error("no writer is asked in the story")
	}
	if len(hits) < 50 {
		t.Errorf("the story reaches %d failpoints, want at least 50", len(hits))
	}
	for n := 1; n <= len(hits); n++ {
		t.Run(fmt.Sprint("hit ", n), func(t *testing.T) {
			t.Parallel()
			path := copied(t)
			acks, _, killed := playUntil(t, path, n)
			checkSurvivor(t, path, killed, acks)
		})
	}
}

// checkSurvivor opens what the killed process left and holds it to the contract.
func checkSurvivor(t *testing.T, path, where string, acks []said) {
	t.Helper()
	svc, j, err := openStory(path)
	if err != nil {
		t.Errorf("%s: open: %v", where, err)
		return
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := svc.Close(ctx); err != nil {
			t.Errorf("%s: close: %v", where, err)
		}
	}()
	b := &bench{t: t, svc: svc, journal: &counting{Journal: j}}
	s := story{svc, t.Context()}
	var before said
	seen := map[transcript.ThreadID]bool{}
	for _, a := range acks {
		switch a.What {
		case "thread":
			seen[a.Thread] = true
		case "turn":
			b.await(a.Thread, ended(transcript.TurnID(a.ID))) // also those that were queued
		case "fork", "name", "effort", "left", "archived":
			checkArranged(t, b, where, a)
		case "reverted":
			if _, err := svc.ReadTurn(t.Context(), a.Thread, transcript.TurnID(a.ID)); fault.CodeOf(err) != fault.NotFound {
				t.Errorf("%s: reverted turn %s: %v", where, a.ID, err)
			}
		case "context":
			before = a
		case "compaction":
			checkCompaction(t, b, where, before, a)
		case "streaming":
			checkStreamed(t, b, where, a)
		}
	}
	for id := range seen {
		checkPairs(t, b, where, id)
		if _, err := svc.Unarchive(t.Context(), id); err != nil { // also one whose archiving nobody acknowledged
			t.Errorf("%s: %v", where, err)
		}
		s.turn(id, "chapter") // the thread goes on
	}
}

// checkArranged: what was acknowledged about a thread is so.
func checkArranged(t *testing.T, b *bench, where string, a said) {
	t.Helper()
	read, err := b.svc.ReadThread(t.Context(), a.Thread)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	c, err := b.svc.ReadContext(t.Context(), a.Thread, nil)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	got := map[string]string{
		"fork": string(read.Thread.Origin.ForkedFrom), "name": read.Thread.Name, "effort": read.Thread.Settings.Effort,
		"left": hashOf(c.Entries), "archived": "",
	}[a.What]
	if got != a.ID || a.What == "archived" && !read.Thread.Archived {
		t.Errorf("%s: %s of thread %s is %q, want %q", where, a.What, a.Thread, got, a.ID)
	}
}

// checkCompaction: one terminal outcome; the context of before is intact; a
// completed one opened an epoch, any other did not.
func checkCompaction(t *testing.T, b *bench, where string, before, a said) {
	t.Helper()
	rec, err := b.svc.ReadCompaction(t.Context(), a.Thread, transcript.CompactionID(a.ID))
	if err != nil || !rec.Terminal() {
		t.Errorf("%s: compaction %s: %v, outcome %v", where, a.ID, err, rec.Outcome)
		return
	}
	ends, boundaries := 0, 0
	for _, p := range b.payloads(a.Thread) {
		if u, ok := p.(threads.CompactionUpdated); ok && string(u.Record.CompactionID) == a.ID && u.Record.Terminal() {
			ends++
			if u.Boundary != nil {
				boundaries++
			}
		}
	}
	if completed := *rec.Outcome == compaction.Completed; ends != 1 || completed != (boundaries == 1) {
		t.Errorf("%s: compaction %s is %s with %d ends and %d boundaries", where, a.ID, *rec.Outcome, ends, boundaries)
	}
	c, err := b.svc.ReadContext(t.Context(), a.Thread, &rec.Epoch)
	if err != nil || len(c.Entries) < before.Entries || hashOf(c.Entries[:before.Entries]) != before.ID {
		t.Errorf("%s: the context before compaction %s changed (%v)", where, a.ID, err)
	}
}

// checkStreamed: the text that was stored is in the completed item.
func checkStreamed(t *testing.T, b *bench, where string, a said) {
	t.Helper()
	items, err := b.svc.ListItems(t.Context(), a.Thread, threads.ItemQuery{Turn: transcript.TurnID(a.ID)})
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	kept := false
	for _, it := range items.Items {
		if m, ok := it.Item.Body.(transcript.AgentMessage); ok {
			kept = true
			if m.Text != "half a sentence that was strea" {
				t.Errorf("%s: the streamed message reads %q", where, m.Text)
			}
		}
	}
	if where == "text/stored" && !kept {
		t.Errorf("%s: the stored text of the open message is lost", where)
	}
}

// checkPairs: every call has exactly one result, and no turn is open.
func checkPairs(t *testing.T, b *bench, where string, id transcript.ThreadID) {
	t.Helper()
	results := map[transcript.CallID]int{}
	calls := map[transcript.CallID]bool{}
	open := map[transcript.TurnID]bool{}
	for _, p := range b.payloads(id) {
		switch p := p.(type) {
		case threads.ItemStarted:
			if c, ok := p.Item.Body.(transcript.ToolCall); ok {
				calls[c.CallID] = true
			}
		case threads.ItemCompleted:
			if r, ok := p.Item.Body.(transcript.ToolResult); ok {
				results[r.CallID]++
			}
		case threads.TurnStarted:
			open[p.Turn.ID] = true
		case threads.TurnCompleted:
			if !open[p.Turn.ID] {
				t.Errorf("%s: turn %s ends twice or was never begun", where, p.Turn.ID)
			}
			delete(open, p.Turn.ID)
		default:
		}
	}
	for c := range calls {
		if results[c] != 1 {
			t.Errorf("%s: call %s has %d results", where, c, results[c])
		}
	}
	if len(open) > 0 {
		t.Errorf("%s: turns %v never end", where, open)
	}
}
