package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/adapters/offline"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/events/mem"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds the waits of tests; a test that is right never needs it.
const patience = 90 * time.Second

const testToken = "s3cr3t-token-of-the-tests"

// A door is a server that listens in memory, over a real service.
type door struct {
	t       testing.TB
	svc     *threads.Service
	journal *mem.Journal
	server  *Server
	ln      *memListener
	client  *http.Client
	log     *syncBuffer
	stop    func() // ends Serve and waits
	puppet  *puppet
	spec    *spec
}

// open starts a door; change alters the server's options.
func open(t testing.TB, change ...func(*Options)) *door {
	t.Helper()
	d := &door{t: t, journal: mem.New(), ln: newMemListener(), log: &syncBuffer{}, puppet: newPuppet(), spec: loadSpec(t)}
	log := slog.New(slog.NewJSONHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	svc, err := threads.Open(t.Context(), threads.Config{
		Journal: d.journal,
		Providers: []threads.Provider{
			{Name: "offline", Kind: "offline", Adapter: agent.New(offline.New())},
			{Name: "puppet", Kind: "puppet", Adapter: agent.New(d.puppet)},
		},
		Tools:  map[string]threads.Tool{"echo": echo, "run": runs},
		Policy: compaction.Policy{Off: true}, // these tests compact when they say so
	})
	if err != nil {
		t.Fatal(err)
	}
	d.svc = svc
	opts := Options{Service: svc, Token: func() string { return testToken }, Logger: log, Version: "0.0.0-test", Limits: Limits{Requests: 1_000_000}}
	for _, c := range change {
		c(&opts)
	}
	d.server = New(opts)
	d.client = &http.Client{Transport: &http.Transport{DialContext: d.ln.dial, DisableCompression: true}}
	d.serve()
	t.Cleanup(d.close)
	return d
}

// echo is a tool that answers with its arguments.
func echo(_ context.Context, call transcript.ToolCall, _ threads.Asker) (transcript.ToolResult, error) {
	return transcript.ToolResult{CallID: call.CallID, Output: transcript.TextParts(string(call.Arguments))}, nil
}

// runs is a tool that asks before it says what it ran.
func runs(ctx context.Context, call transcript.ToolCall, ask threads.Asker) (transcript.ToolResult, error) {
	a, err := ask(ctx, adapters.CommandApproval{Command: "touch x", Cwd: "/w", Reason: "May I?"})
	if err != nil {
		return transcript.ToolResult{}, err
	}
	return transcript.ToolResult{CallID: call.CallID, Output: transcript.TextParts("it was " + string(a.Decision))}, nil
}

func (d *door) serve() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.server.Serve(ctx, d.ln) }()
	d.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			d.t.Errorf("serve: %v", err)
		}
	})
}

func (d *door) close() {
	d.client.CloseIdleConnections()
	d.stop()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := d.svc.Close(ctx); err != nil {
		d.t.Errorf("close the service: %v", err)
	}
}

// An answer is what came back for a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// An edit changes a request before it is sent.
type edit func(*http.Request)

func header(name string, values ...string) edit {
	return func(r *http.Request) {
		r.Header.Del(name)
		for _, v := range values {
			r.Header.Add(name, v)
		}
	}
}

func host(name string) edit { return func(r *http.Request) { r.Host = name } }

// request makes a request that would be let in.
func (d *door) request(method, target, body string, edits ...edit) *http.Request {
	d.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, "http://localhost"+target, r)
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, e := range edits {
		e(req)
	}
	return req
}

// do sends a request and checks the exchange against openapi.yaml.
func (d *door) do(method, target, body string, edits ...edit) answer {
	d.t.Helper()
	return d.send(d.request(method, target, body, edits...), body)
}

func (d *door) send(req *http.Request, body string) answer {
	d.t.Helper()
	a := d.exchange(req)
	d.spec.check(d.t, req, body, a)
	return a
}

// exchange sends a request and checks nothing.
func (d *door) exchange(req *http.Request) answer {
	d.t.Helper()
	resp, err := d.client.Do(req)
	if err != nil {
		d.t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatalf("%s %s: read the answer: %v", req.Method, req.URL, err)
	}
	return answer{resp.StatusCode, resp.Header, data}
}

// into decodes the answer after checking its status.
func (d *door) into(a answer, status int, v any) {
	d.t.Helper()
	if a.status != status {
		d.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		d.t.Fatalf("decode %s: %v", a.body, err)
	}
}

// call sends a request whose answer is a T.
func call[T any](d *door, status int, method, target, body string, edits ...edit) T {
	d.t.Helper()
	var v T
	d.into(d.do(method, target, body, edits...), status, &v)
	return v
}

// problem sends a request that must fail and returns why.
func (d *door) problem(status int, method, target, body string, edits ...edit) Problem {
	d.t.Helper()
	return call[Problem](d, status, method, target, body, edits...)
}

// newThread creates a thread of a provider and returns its id.
func (d *door) newThread(provider string) string {
	d.t.Helper()
	return call[ThreadStartResult](d, 201, "POST", "/v1/threads", `{"modelProvider":"`+provider+`","cwd":"/w"}`).Thread.ID
}

// turn runs a whole turn of the offline provider.
func (d *door) turn(thread, text string) TurnStartResult {
	d.t.Helper()
	body := mustEncode(d.t, map[string]string{"input": text})
	r := call[TurnStartResult](d, 202, "POST", "/v1/threads/"+thread+"/turns", body)
	d.settled(thread, r.Turn.ID)
	return r
}

// settled waits until a turn ended.
func (d *door) settled(thread, turn string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for m, err := range d.svc.Follow(ctx, transcript.ThreadID(thread), nil, 0) {
		if err != nil {
			d.t.Fatal(err)
		}
		if m.Kind != events.KindEvent {
			continue
		}
		p, err := threads.Decode(m.Event)
		if err != nil {
			d.t.Fatal(err)
		}
		if c, ok := p.(threads.TurnCompleted); ok && string(c.Turn.ID) == turn {
			return
		}
	}
	d.t.Fatalf("turn %s did not end", turn)
}

func mustEncode(t testing.TB, v any) string {
	t.Helper()
	b, err := encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// syncBuffer collects the log.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// memListener hands out pairs of net.Pipe, whose deadlines follow the clock of a
// synctest bubble.
type memListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemListener() *memListener {
	return &memListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *memListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, errors.New("refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memListener) Addr() net.Addr { return memAddr{} }

type memAddr struct{}

func (memAddr) Network() string { return "mem" }
func (memAddr) String() string  { return "mem" }

// A puppet is a model whose strings the test holds: it says chunk by chunk what
// the test gives it.
type puppet struct {
	chunks chan adapters.Chunk
}

func newPuppet() *puppet { return &puppet{chunks: make(chan adapters.Chunk)} }

func (p *puppet) Models(context.Context) ([]adapters.ModelInfo, error) {
	return []adapters.ModelInfo{{
		ID: "puppet-1", DisplayName: "Puppet", ContextWindow: 100_000, MaxOutput: 1000, WindowSource: "config",
		Price: &adapters.Price{Input: 2, CachedInput: 0.2, Output: 8},
	}}, nil
}

func (p *puppet) Base() adapters.Base {
	return adapters.Base{System: "You are a puppet.", Tools: []adapters.ToolSpec{{Name: "echo", Description: "says it again", Schema: []byte(`{"type":"object"}`)}}}
}

func (p *puppet) Count(context.Context, adapters.Request) (int, bool, error) { return 0, false, nil }

func (p *puppet) Compaction() adapters.Ability {
	return adapters.Ability{Refusal: &adapters.Refusal{Code: "nativeUnsupported", Reason: "a puppet cannot compact", Remedy: "use route local"}}
}

func (p *puppet) Stream(ctx context.Context, _ adapters.Request) iter.Seq2[adapters.Chunk, error] {
	return func(yield func(adapters.Chunk, error) bool) {
		for {
			select {
			case c := <-p.chunks:
				if _, done := c.(adapters.Done); !yield(c, nil) || done {
					return
				}
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

// say gives the model's next chunks.
func (p *puppet) say(t testing.TB, chunks ...adapters.Chunk) {
	t.Helper()
	for _, c := range chunks {
		select {
		case p.chunks <- c:
		case <-time.After(patience):
			t.Fatalf("nobody takes chunk %T", c)
		}
	}
}

func text(s string) adapters.Chunk { return adapters.MessageText{Text: s} }

func done() adapters.Chunk { return adapters.Done{Stop: adapters.StopEnd} }

func transcriptCall(id, name, args string) transcript.ToolCall {
	return transcript.ToolCall{CallID: transcript.CallID(id), Name: name, Arguments: transcript.RawJSON(args)}
}

func sameJSON(raw []byte, want string) bool {
	var a, b any
	return json.Unmarshal(raw, &a) == nil && json.Unmarshal([]byte(want), &b) == nil && reflect.DeepEqual(a, b)
}
