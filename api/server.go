package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads"
)

// Options is what a Server runs with.
type Options struct {
	Service *threads.Service
	// Ephemeral hosts the threads that are not to be kept; nil: there are none. If
	// it has a provider called title, threads that only find a title run there.
	Ephemeral *threads.Service
	// Token returns the token that clients must send. It is called for each
	// request, and often while streams are open: a replaced token counts at once
	// for requests and within a second for streams. It is called from many
	// goroutines. If it is nil, or returns the empty string, no request is let in.
	Token func() string
	// TokenHash, if set, returns the SHA-256 of the token instead, or false if no
	// request is to be let in. It is called as Token is, which is then not used.
	TokenHash func() ([sha256.Size]byte, bool)
	// Grants, if set, returns what the bearer of another token may do, whose SHA-256 is
	// given; false if it does not count (any more). It is called as Token is.
	Grants func(hash [sha256.Size]byte) (Scope, bool)
	// Hosts are names, without port, that clients may use for this server beside
	// localhost, 127.0.0.1 and [::1].
	Hosts []string
	// Origins are the only values of the Origin header that are let in, such as
	// http://127.0.0.1:4517.
	Origins []string
	Logger  *slog.Logger // nil: nothing is logged
	Version string       // of this server, shown to clients
	Home    string       // the folder of this server's files, shown to clients as codexHome
	Limits  Limits
}

// Server answers requests. It is safe for concurrent use. Its goroutines are
// those of its Serve calls, which wait for them; with a handler alone, a stream
// ends when its client is gone or the service closes.
type Server struct {
	svc       *threads.Service
	ephemeral *threads.Service
	passing   sync.Map // transcript.ThreadID of the threads of ephemeral

	token   func() ([sha256.Size]byte, bool)
	grants  func(hash [sha256.Size]byte) (Scope, bool)
	hosts   []string
	origins []string
	log     *slog.Logger
	version string
	home    string
	timing  timing
	caps    Limits
	opened  quota  // streams
	peers   quota  // WebSockets
	guests  guests // the same
	uses    uses   // of tokens
	crowd   crowd  // of the connections
	follow  hearers
	imports quota    // imports
	loose   *streams // of handlers that are used without Serve
	frames  *frames

	guarded http.Handler // for TCP
	private http.Handler // for a unix socket that only its owner can open
}

// timing is how long the door waits.
type timing struct {
	header    time.Duration // to read the headers of a request
	idle      time.Duration // between two requests of a connection
	rest      time.Duration // for what is left of the body of a request that failed
	body      time.Duration // to read a JSON body; for a file, between two reads of it
	file      time.Duration // to read a file
	write     time.Duration // for a client to take what was sent
	cut       time.Duration // the same, once the stream is to end
	token     time.Duration // between two looks at the token while there are streams
	knock     time.Duration // for the first message of a WebSocket that is to hold its token
	seat      time.Duration // for a connection to be closed before others are refused
	heartbeat time.Duration // of streams
	shutdown  time.Duration // for requests that run when a Serve call ends
}

var defaultTiming = timing{
	header:    5 * time.Second,
	idle:      120 * time.Second,
	rest:      5 * time.Second,
	body:      30 * time.Second,
	file:      15 * time.Minute,
	write:     10 * time.Second,
	cut:       150 * time.Millisecond, // three times: until it is noticed, for what is being written, for the end
	token:     300 * time.Millisecond, // and three times cut is less than a second
	knock:     5 * time.Second,
	seat:      time.Second,
	heartbeat: 15 * time.Second,
	shutdown:  10 * time.Second,
}

// New returns a Server. It does nothing until it serves.
func New(o Options) *Server {
	s := &Server{
		svc: o.Service, ephemeral: o.Ephemeral,
		token:   tokenOf(o),
		grants:  o.Grants,
		hosts:   []string{"localhost", "127.0.0.1", "[::1]"},
		origins: slices.Clone(o.Origins),
		log:     o.Logger,
		version: o.Version,
		home:    o.Home,
		timing:  defaultTiming,
		caps:    o.Limits.orDefault(),
		loose:   &streams{ctx: context.Background()},
	}
	for _, h := range o.Hosts {
		s.hosts = append(s.hosts, strings.ToLower(strings.TrimSuffix(h, ".")))
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.opened, s.imports, s.peers = make(quota, s.caps.Streams), make(quota, s.caps.Imports), make(quota, s.caps.Peers)
	s.uses.peers, s.uses.perSecond = s.caps.TokenPeers, s.caps.Requests
	s.frames = newFrames(s.encodeEvent)
	routes := s.upgrades(s.routes())
	s.guarded = s.chain(routes, s.checkSeat, s.checkHost, s.checkOrigin, s.checkLimits, s.checkToken)
	s.private = s.chain(routes, s.checkSeat, s.checkOrigin, s.checkLimits)
	return s
}

// Handler serves clients that must prove themselves. Whoever serves it bounds
// the connections.
func (s *Server) Handler() http.Handler { return s.guarded }

// PrivateHandler serves the clients of a unix socket that only the owner of the
// server can open: it checks neither Host nor token.
func (s *Server) PrivateHandler() http.Handler { return s.private }

// Serve answers the requests of a listener until ctx is done. It then ends the
// open streams and WebSockets, gives running requests 10 s, and returns when nothing is left of
// them. It closes the listener. Its error is why it stopped before ctx was done.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	return s.serve(ctx, ln, s.guarded)
}

// ServePrivate is Serve with PrivateHandler.
func (s *Server) ServePrivate(ctx context.Context, ln net.Listener) error {
	return s.serve(ctx, ln, s.private)
}

func (s *Server) serve(ctx context.Context, ln net.Listener, h http.Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group := &streams{ctx: ctx}
	base := context.WithValue(context.WithoutCancel(ctx), streamsKey{}, group)
	hall := newLobby(ln, s.caps.Connections, s.timing.seat)
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: s.timing.header,
		IdleTimeout:       s.timing.idle,
		MaxHeaderBytes:    32 << 10,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       hall.mark,
		ConnState:         hall.changed,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan error, 1)
	go func() { stopped <- srv.Serve(hall) }()
	select {
	case err := <-stopped:
		cancel()
		group.wait()
		return err
	case <-ctx.Done():
	}
	grace, release := context.WithTimeout(context.WithoutCancel(ctx), s.timing.shutdown)
	defer release()
	err := srv.Shutdown(grace)
	if err != nil {
		err = errors.Join(err, srv.Close())
	}
	group.wait()
	if serveErr := <-stopped; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// encode is how everything is written on every door: JSON on one line, < > & as
// they are.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
