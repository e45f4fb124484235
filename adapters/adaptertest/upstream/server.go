package upstream

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// T is what New needs of a test.
type T interface {
	Helper()
	Name() string
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// Options say where and how a cassette is played.
type Options struct {
	Listener net.Listener   // nil: any port of the loopback
	Recorded func(Recorded) // told of each request before it is answered
	Mistake  func(string)   // told of each mistake
}

// A Server plays a cassette.
type Server struct {
	URL string
	// Dial connects to the server, for clients that can be told how; those of a
	// server in memory must be.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	cassette *Cassette
	options  Options
	http     http.Server
	closed   chan struct{}
	done     sync.WaitGroup

	mu       sync.Mutex
	plays    map[*exchange]int
	requests []Recorded
	mistakes []string
	gates    map[string]*gate
	more     chan struct{} // closed when a request came
}

// A gate is a place in an answer where it waits.
type gate struct{ reached, released chan struct{} }

// A Recorded is a request that came.
type Recorded struct {
	Method   string
	Path     string
	Header   http.Header // without keys
	Body     []byte
	Tokens   int    // of the body, as this server counts
	Writer   bool   // it is that of a checkpoint writer, or by which a program compacts
	Exchange string // that answered it; empty if none did
	// Refused: it had more tokens than the limit.
	Refused bool
}

// New plays a cassette, given as text, on the loopback for a test. Mistakes are errors
// of the test. The server is closed when the test ends.
func New(t T, cassette string) *Server {
	t.Helper()
	return start(t, cassette, nil)
}

// NewInMemory is New without a network, for synctest: clients connect by Dial.
func NewInMemory(t T, cassette string) *Server {
	t.Helper()
	return start(t, cassette, NewListener())
}

func start(t T, cassette string, l net.Listener) *Server {
	t.Helper()
	c, err := Parse(t.Name(), []byte(cassette))
	if err != nil {
		t.Fatalf("%v", err)
	}
	s, err := Serve(c, Options{Listener: l, Mistake: func(m string) { t.Errorf("%s", m) }})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// Serve plays a cassette until the server is closed.
func Serve(c *Cassette, o Options) (*Server, error) {
	if o.Listener == nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		o.Listener = l
	}
	s := &Server{
		URL: "http://" + o.Listener.Addr().String(), Dial: (&net.Dialer{}).DialContext,
		cassette: c, options: o,
		closed: make(chan struct{}), plays: map[*exchange]int{}, gates: map[string]*gate{}, more: make(chan struct{}),
	}
	if l, is := o.Listener.(*Listener); is {
		s.Dial = l.Dial
	}
	s.http.Handler = http.HandlerFunc(s.serve)
	s.done.Go(func() { _ = s.http.Serve(o.Listener) }) // it ends by Close alone
	return s, nil
}

// Close ends every exchange, also one that hangs, and waits until nothing is left.
func (s *Server) Close() {
	s.mu.Lock()
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	s.mu.Unlock()
	_ = s.http.Close() // what it reports is of connections that are gone
	s.done.Wait()
}

// Requests returns the requests so far, in the order in which they came.
func (s *Server) Requests() []Recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Asked returns the requests to models so far, without those to other endpoints.
func (s *Server) Asked() []Recorded {
	return slices.DeleteFunc(s.Requests(), func(r Recorded) bool { return !asks(r.Path) })
}

// Mistakes returns what went wrong so far.
func (s *Server) Mistakes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mistakes)
}

// Unplayed returns the names of the exchanges that never answered and were to answer
// a certain number of times.
func (s *Server) Unplayed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, x := range s.cassette.exchanges {
		if x.repeat > s.plays[x] {
			out = append(out, x.name)
		}
	}
	return out
}

// Release lets the exchanges go on that wait at a hold, now or later.
func (s *Server) Release(name string) { s.open(s.gate(name).released) }

// Reached returns what is closed as soon as an answer waits at the hold or the hang of
// that name: all that stands before it was sent.
func (s *Server) Reached(name string) <-chan struct{} { return s.gate(name).reached }

// reach is called by an answer that is to wait.
func (s *Server) reach(name string) *gate {
	g := s.gate(name)
	s.open(g.reached)
	return g
}

func (s *Server) gate(name string) *gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[name] == nil {
		s.gates[name] = &gate{reached: make(chan struct{}), released: make(chan struct{})}
	}
	return s.gates[name]
}

// open closes a channel of a gate, once.
func (s *Server) open(c chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

// Await returns the first request, of those that came and those to come, that satisfies
// ok.
func (s *Server) Await(ctx context.Context, ok func(Recorded) bool) (Recorded, error) {
	for seen := 0; ; {
		s.mu.Lock()
		requests, more := s.requests, s.more
		s.mu.Unlock()
		for ; seen < len(requests); seen++ {
			if ok(requests[seen]) {
				return requests[seen], nil
			}
		}
		select {
		case <-more:
		case <-s.closed:
			return Recorded{}, fmt.Errorf("upstream: closed after %d requests, none of which is the one that was awaited", seen)
		case <-ctx.Done():
			return Recorded{}, fmt.Errorf("upstream: none of %d requests is the one that was awaited: %w", seen, ctx.Err())
		}
	}
}

func (s *Server) mistake(line int, format string, args ...any) {
	m := fmt.Sprintf("%s:%d: %s", s.cassette.name, line, fmt.Sprintf(format, args...))
	s.mu.Lock()
	s.mistakes = append(s.mistakes, m)
	s.mu.Unlock()
	if s.options.Mistake != nil {
		s.options.Mistake(m)
	}
}

// asks reports whether a path is one where a model is asked.
func asks(path string) bool { _, is := wireOf(path); return is }

// wireOf finds the wire of a path. What stands before it is the base URL of the
// client, such as /api for OpenRouter.
func wireOf(path string) (wire, bool) {
	for _, w := range wires {
		if path == w.path || strings.HasSuffix(path, strings.TrimPrefix(w.path, "/v1")) && w.path != ollamaWire.path {
			return w, true
		}
	}
	return wire{}, false
}

// keys are headers that hold them.
var keys = []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Proxy-Authorization", "Cookie"}

// begin lets Close wait for a request, unless it has begun to.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return false
	default:
		s.done.Add(1)
		return true
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		panic(http.ErrAbortHandler)
	}
	defer s.done.Done()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	header := r.Header.Clone()
	for _, k := range keys {
		header.Del(k)
	}
	rec := Recorded{
		Method: r.Method, Path: r.URL.Path, Header: header, Body: body, Tokens: tokens(string(body)),
		Writer: bytes.Contains(body, []byte(transcript.WriterMark)),
	}
	p := s.choose(r, &rec)
	s.mu.Lock()
	s.requests = append(s.requests, rec)
	close(s.more)
	s.more = make(chan struct{})
	s.mu.Unlock()
	if s.options.Recorded != nil {
		s.options.Recorded(rec)
	}
	p(w, r)
}

// choose decides how a request is answered and notes that in its record.
func (s *Server) choose(r *http.Request, rec *Recorded) http.HandlerFunc {
	if !s.authorized(r) {
		if w, is := wireOf(r.URL.Path); is && w.failure != nil {
			return w.error(401, w.failure(401))
		}
		return refuse(401, openAIFailure(401))
	}
	place := r.Method + " " + r.URL.Path
	if x := s.cassette.side[place]; x != nil {
		rec.Exchange = x.name
		s.judge(x, rec)
		return s.player(x, answerTo{rec: *rec, play: s.played(x)})
	}
	if wire, is := wireOf(r.URL.Path); is && r.Method == http.MethodPost {
		return s.model(wire, rec)
	}
	if e := endpointOf(place); e != nil {
		if v, has := e(s.cassette.settings, rec.Body); has {
			return refuse(200, v)
		}
	}
	return refuse(404, object{"error": object{"message": "there is no " + place, "type": "not_found_error"}})
}

// model decides how a request to a model is answered.
func (s *Server) model(w wire, rec *Recorded) http.HandlerFunc {
	invalid := func(text string) http.HandlerFunc {
		return w.error(400, object{"error": object{"message": text, "type": "invalid_request_error"}})
	}
	req, err := w.read(rec.Body, rec.Header)
	if err != nil {
		s.mistake(1, "request %d is no JSON of %s: %v", s.count(), w.path, err)
		return invalid("the request is no JSON")
	}
	if req.wrong != "" {
		s.mistake(1, "request %d, to %s, is one that its provider refuses: %s", s.count(), rec.Path, req.wrong)
		return invalid(req.wrong)
	}
	rec.Writer = rec.Writer || req.writer
	req.model = cmp.Or(req.model, named(s.cassette.settings, rec.Body).id)
	if l := s.cassette.settings.limit; s.over(l, req, rec.Tokens) {
		rec.Refused = true
		return s.overflow(w, l, req, rec.Tokens)
	}
	x, play := s.next(rec, req)
	if x == nil {
		s.mistake(1, "no exchange answers request %d, to %s, whose last message is %.200q", s.count(), rec.Path, req.last)
		return invalid("the cassette " + s.cassette.name + " has no answer to this")
	}
	rec.Exchange = x.name
	s.judge(x, rec)
	if s.over(x.limit, req, rec.Tokens) {
		rec.Refused = true
		return s.overflow(w, x.limit, req, rec.Tokens)
	}
	return s.player(x, answerTo{rec: *rec, play: play, wire: &w, req: req})
}

func (s *Server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests) + 1
}

func (s *Server) authorized(r *http.Request) bool {
	k := s.cassette.settings.key
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return k == "" || k == token || k == r.Header.Get("X-Api-Key") || k == r.Header.Get("Api-Key")
}

// over reports whether a request is over a limit.
func (s *Server) over(l *limit, req request, n int) bool {
	if l == nil {
		return false
	}
	if s.habits(l).name == "vllm" {
		n += req.maxOutput
	}
	return n > l.tokens
}

func (s *Server) habits(l *limit) server {
	if l != nil && l.server.name != "" {
		return l.server
	}
	return s.cassette.settings.server
}

func (s *Server) overflow(w wire, l *limit, req request, n int) http.HandlerFunc {
	say := s.habits(l).overflow
	if s.habits(l).name == "generic" && w.overflow != nil {
		say = w.overflow
	}
	return w.error(say(excess{input: n, output: req.maxOutput, window: l.tokens}))
}

// error answers with an error in the shape of the wire.
func (w wire) error(status int, body object) http.HandlerFunc {
	if w.refuse != nil {
		body = w.refuse(body)
	}
	return refuse(status, body)
}

// refuse answers with a JSON value.
func refuse[V any](status int, v V) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(encodeJSON(v)) // the client may have left
	}
}

// next finds the exchange that answers a request and counts it as played.
func (s *Server) next(rec *Recorded, req request) (*exchange, int) {
	var all string
	holds := func(c condition) bool {
		if c.writer {
			return rec.Writer
		}
		in := req.last
		if !c.last {
			if all = cmp.Or(all, texts(rec.Body)); strings.Contains(string(rec.Body), c.text) {
				return !c.not
			}
			in = all
		}
		return strings.Contains(in, c.text) != c.not
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var plain *exchange
	for _, x := range s.cassette.exchanges {
		switch {
		case x.repeat >= 0 && s.plays[x] >= x.repeat:
		case len(x.when) == 0:
			plain = cmp.Or(plain, x)
		case !slices.ContainsFunc(x.when, func(c condition) bool { return !holds(c) }):
			s.plays[x]++
			return x, s.plays[x]
		}
	}
	if plain == nil || rec.Writer {
		return nil, 0
	}
	s.plays[plain]++
	return plain, s.plays[plain]
}

func (s *Server) played(x *exchange) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plays[x]++
	return s.plays[x]
}

// judge holds a request against what the exchange expects of it.
func (s *Server) judge(x *exchange, rec *Recorded) {
	if len(x.expect) == 0 {
		return
	}
	all := string(rec.Body) + "\n" + texts(rec.Body)
	for _, c := range x.expect {
		if is := strings.Contains(all, c.text); is == c.not {
			s.mistake(c.line, "request %d, answered by %q, %s %q", s.count(), x.name, map[bool]string{true: "contains", false: "does not contain"}[is], c.text)
		}
	}
}
