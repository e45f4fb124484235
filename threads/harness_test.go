package threads_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/mem"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// patience bounds the waits of tests; a test that is right never needs it.
const patience = 90 * time.Second

// A puppet is a model whose strings the test holds: every request waits until
// the test answers it, chunk by chunk.
type puppet struct {
	window   int
	requests chan *request
	ability  adapters.Ability
	unfit    *adapters.Refusal // nil: it writes checkpoints
	maxBytes int               // of a request; 0: unknown
}

// A request is one that the puppet got.
type request struct {
	adapters.Request
	chunks chan adapters.Chunk
	fail   chan error
}

func newPuppet() *puppet {
	return &puppet{
		window: 100_000, requests: make(chan *request, 16),
		ability: adapters.Ability{Refusal: &adapters.Refusal{Code: "nativeUnsupported", Reason: "a puppet cannot compact", Remedy: "use route local"}},
		unfit:   &adapters.Refusal{Code: "writerUnfit", Reason: "a puppet writes nothing", Remedy: "none"},
	}
}

func (p *puppet) Carries(string) (images bool, maxBytes int) { return true, p.maxBytes }

func (p *puppet) Unfit() *adapters.Refusal { return p.unfit }

func (p *puppet) Models(context.Context) ([]adapters.ModelInfo, error) {
	return []adapters.ModelInfo{{ID: "puppet", DisplayName: "Puppet", ContextWindow: p.window, MaxOutput: 1000}}, nil
}
func (p *puppet) Base() adapters.Base { return adapters.Base{System: "You are a puppet."} }
func (p *puppet) Count(context.Context, adapters.Request) (int, bool, error) {
	return 0, false, nil
}
func (p *puppet) Compaction() adapters.Ability { return p.ability }

func (p *puppet) Stream(ctx context.Context, req adapters.Request) iter.Seq2[adapters.Chunk, error] {
	return func(yield func(adapters.Chunk, error) bool) {
		r := &request{req, make(chan adapters.Chunk), make(chan error)}
		p.requests <- r
		for {
			select {
			case c := <-r.chunks:
				if _, done := c.(adapters.Done); !yield(c, nil) || done {
					return
				}
			case err := <-r.fail:
				yield(nil, err)
				return
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

// send gives the provider's next chunks.
func (r *request) send(t testing.TB, chunks ...adapters.Chunk) {
	t.Helper()
	for _, c := range chunks {
		select {
		case r.chunks <- c:
		case <-time.After(patience):
			t.Fatalf("nobody takes chunk %T", c)
		}
	}
}

// answer ends the request with a text, and counts honestly.
func (r *request) answer(t testing.TB, text string) {
	t.Helper()
	r.send(t, adapters.MessageText{Text: text}, adapters.UsageChunk{Usage: r.usage(text)}, adapters.Done{Stop: adapters.StopEnd})
}

// usage is what the request and a text weigh by transcript.Ruler.
func (r *request) usage(text string) adapters.Usage {
	in := transcript.Tokens(transcript.Notice{Text: r.Base.System})
	for _, e := range r.Entries {
		in += transcript.Tokens(e.Item.Body)
	}
	return adapters.Usage{InputTokens: in, OutputTokens: transcript.Tokens(transcript.AgentMessage{Text: text})}
}

// texts is what the model read, one entry a line.
func (r *request) texts() []string {
	var out []string
	for _, e := range r.Entries {
		out = append(out, string(e.Item.Body.Kind())+": "+transcript.Text(e.Item.Body))
	}
	return out
}

// A bench is a running service with one puppet.
type bench struct {
	t       *testing.T
	svc     *threads.Service
	journal *counting
	puppet  *puppet
	config  threads.Config

	reading sync.Mutex                                // guards decoded
	decoded map[transcript.ThreadID][]threads.Payload // by payloads
}

// counting is a journal that counts its commits.
type counting struct {
	events.Journal
	mu      sync.Mutex
	appends int
}

func (c *counting) Append(ctx context.Context, a events.Append) (int64, error) {
	c.mu.Lock()
	c.appends++
	c.mu.Unlock()
	return c.Journal.Append(ctx, a)
}

func (c *counting) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.appends
}

// unclosed keeps the journal in memory when its service closes, as a file stays
// when its server does.
type unclosed struct{ events.Journal }

func (unclosed) Close() error { return nil }

// never keeps threads from compacting by themselves.
func never(c *threads.Config) { c.Policy.Off = true }

func newBench(t *testing.T, change ...func(*threads.Config)) *bench {
	t.Helper()
	b := &bench{t: t, puppet: newPuppet(), journal: &counting{Journal: mem.New()}}
	b.config = threads.Config{
		Journal:   unclosed{b.journal},
		Providers: []threads.Provider{{Name: "puppet", Kind: "puppet", Adapter: agent.New(b.puppet)}},
	}
	for _, c := range change {
		c(&b.config)
	}
	b.open()
	t.Cleanup(func() {
		b.close()
		if err := b.journal.Journal.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) open() {
	b.t.Helper()
	svc, err := threads.Open(context.Background(), b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	b.svc = svc
}

func (b *bench) close() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.svc.Close(ctx); err != nil {
		b.t.Error(err)
	}
}

// restart closes the service and opens it on the same journal.
func (b *bench) restart() {
	b.t.Helper()
	b.close()
	b.open()
}

func (b *bench) create() transcript.ThreadID {
	b.t.Helper()
	r, err := b.svc.CreateThread(b.t.Context(), threads.CreateParams{})
	if err != nil {
		b.t.Fatal(err)
	}
	return r.Thread.ID
}

func (b *bench) start(id transcript.ThreadID, text string) threads.TurnAck {
	b.t.Helper()
	ack, err := b.svc.StartTurn(b.t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts(text)})
	if err != nil {
		b.t.Fatal(err)
	}
	return ack
}

// request waits for the puppet's next request.
func (b *bench) request() *request {
	b.t.Helper()
	select {
	case r := <-b.puppet.requests:
		return r
	case <-time.After(patience):
		b.t.Fatal("no request reached the provider")
		return nil
	}
}

// turn has a whole turn happen.
func (b *bench) turn(id transcript.ThreadID, user, agent string) transcript.TurnID {
	b.t.Helper()
	ack := b.start(id, user)
	b.request().answer(b.t, agent)
	b.await(id, ended(ack.Turn.ID))
	return ack.Turn.ID
}

// payloads returns all events of a thread, decoded: those that it has returned before
// are decoded once, as no row changes (see I8, which looks at the rows).
func (b *bench) payloads(id transcript.ThreadID) []threads.Payload {
	b.t.Helper()
	b.reading.Lock()
	defer b.reading.Unlock()
	out := b.decoded[id]
	defer func() {
		if b.decoded == nil {
			b.decoded = map[transcript.ThreadID][]threads.Payload{}
		}
		b.decoded[id] = slices.Clip(out)
	}()
	for after := int64(len(out)); ; {
		evs, err := b.journal.Read(context.Background(), string(id), after, 100)
		if err != nil {
			b.t.Fatal(err)
		}
		if len(evs) == 0 {
			return out
		}
		for _, e := range evs {
			if e.Seq != after+1 {
				b.t.Fatalf("event %d follows %d", e.Seq, after)
			}
			after = e.Seq
			p, err := threads.Decode(e)
			if err != nil {
				b.t.Fatal(err)
			}
			out = append(out, p)
		}
	}
}

// await follows the thread until an event satisfies ok, and returns it.
func (b *bench) await(id transcript.ThreadID, ok func(threads.Payload) bool) threads.Payload {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	been := b.payloads(id)
	if i := slices.IndexFunc(been, ok); i >= 0 {
		return been[i]
	}
	info, err := b.journal.Info(ctx, string(id))
	if err != nil {
		b.t.Fatal(err)
	}
	for m, err := range b.svc.Follow(ctx, id, &events.Cursor{Journal: info.JournalID, N: int64(len(been))}, 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		if m.Kind != events.KindEvent || m.Repeat {
			continue
		}
		p, err := threads.Decode(m.Event)
		if err != nil {
			b.t.Fatal(err)
		}
		if ok(p) {
			return p
		}
	}
	b.t.Fatalf("the event never came; there are:\n%s", b.log(id))
	return nil
}

func ended(turn transcript.TurnID) func(threads.Payload) bool {
	return func(p threads.Payload) bool {
		done, ok := p.(threads.TurnCompleted)
		return ok && done.Turn.ID == turn
	}
}

// log is the thread's events, one a line, without ids and times.
func (b *bench) log(id transcript.ThreadID) string {
	return strings.Join(describe(b.payloads(id)), "\n")
}

func describe(ps []threads.Payload) []string {
	var lines []string
	for _, p := range ps {
		line := p.EventType()
		switch p := p.(type) {
		case threads.StatusChanged:
			line += " " + string(p.Status)
			for _, f := range p.Flags {
				line += " " + string(f)
			}
		case threads.RequestCreated:
			line += " " + p.Request.Method
		case threads.RequestResolved:
			line += " " + string(p.Outcome)
			if p.Answer != nil {
				line += strings.TrimRight(" "+string(p.Answer.Decision), " ")
			}
		case threads.QueueChanged:
			line += fmt.Sprintf(" %d", len(p.Queue))
		case threads.TurnStarted:
			line += " " + string(p.Turn.Kind)
		case threads.TurnCompleted:
			line += " " + string(p.Turn.Status)
		case threads.ItemStarted:
			line += " " + string(p.Item.Body.Kind())
		case threads.ItemCompleted:
			line += fmt.Sprintf(" %s %q", p.Item.Body.Kind(), clip(transcript.Text(p.Item.Body)))
		case threads.CompactionUpdated:
			line += " " + string(p.Record.Phase)
			if p.Record.Outcome != nil {
				line += " " + string(*p.Record.Outcome)
			}
		case threads.ErrorRaised:
			line += fmt.Sprintf(" %s willRetry=%v", p.Error.Code, p.WillRetry)
		default:
		}
		lines = append(lines, line)
	}
	return lines
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// tail returns what happened after the first n events.
func tail(lines []string, n int) string { return strings.Join(lines[n:], "\n") }

// mustJSON encodes for comparison.
func mustJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// big returns text of about n tokens that no two calls share.
func big(tag string, n int) string {
	var s strings.Builder
	for i := 0; s.Len() < 4*n; i++ {
		fmt.Fprintf(&s, "%s line %d says something about pier %d\n", tag, i, i*7)
	}
	return s.String()
}

func TestMain(m *testing.M) {
	if crashChild() {
		return
	}
	goleak.VerifyTestMain(m)
}

var errScripted = errors.New("the provider broke")

// answerWith is answer, and returns the request.
func (r *request) answerWith(t testing.TB, text string) *request {
	t.Helper()
	r.answer(t, text)
	return r
}
