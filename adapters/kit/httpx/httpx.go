// Package httpx makes the requests that leave the process: to model servers.
//
// Guarantees:
//
//   - every phase has a limit: connecting, waiting for the first byte of an answer,
//     and each wait for the next bytes of a body. An answer may take any time as
//     long as it goes on. The size of what is read whole has a bound;
//   - a request is repeated only before anything of an answer has come, and only
//     after 429, 5xx or a failed connection; the server's Retry-After is honoured.
//     Nothing that a repetition cannot mend is repeated;
//   - keys reach nobody but the host of the request: redirects go nowhere else, and
//     no error, log line or error body that comes out of here holds one;
//   - what a server answers, whatever its status, is a Response. An error means that
//     there was no answer, or only part of one, and says which.
package httpx

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// What an error of this package is, for errors.Is.
var (
	ErrUnreachable = errors.New("httpx: no answer")          // nobody answered, or not in time
	ErrRedirect    = errors.New("httpx: redirected away")    // the answer was to ask elsewhere
	ErrStalled     = errors.New("httpx: the answer stalled") // in the middle, for longer than Idle
	ErrCut         = errors.New("httpx: the answer was cut") // the connection broke in the middle
	ErrTooLarge    = errors.New("httpx: the answer is too large")
)

// Options are the limits of a Client. Zero values mean the defaults.
type Options struct {
	Connect   time.Duration // to connect, TLS included; 10 s
	FirstByte time.Duration // of one attempt, from its start to the head of the answer; 10 min: a large prompt on a small machine
	Idle      time.Duration // of each wait for more of a body; 5 min
	Attempts  int           // how often a request is made at most; 4
	MaxWait   time.Duration // the longest Retry-After that is waited for; 1 min. Beyond it the answer is returned
	MaxBody   int64         // bytes of a body that is read whole; 16 MiB

	// Secrets returns texts that no error may hold, beside the key headers of the
	// request itself, which are known.
	Secrets func() []string
	Logger  *slog.Logger   // nil: none
	Rand    func() float64 // jitter, in [0, 1)
	// Dial replaces the network. Nil: the usual one, with the proxy that the
	// environment names.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// A Client makes requests. It is safe for concurrent use.
type Client struct {
	o    Options
	http *http.Client
}

// New returns a client.
func New(o Options) *Client {
	o.Connect = cmp.Or(o.Connect, 10*time.Second)
	o.FirstByte = cmp.Or(o.FirstByte, 10*time.Minute)
	o.Idle = cmp.Or(o.Idle, 5*time.Minute)
	o.Attempts = cmp.Or(o.Attempts, 4)
	o.MaxWait = cmp.Or(o.MaxWait, time.Minute)
	o.MaxBody = cmp.Or(o.MaxBody, 16<<20)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Secrets == nil {
		o.Secrets = func() []string { return nil }
	}
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         o.Dial,
		TLSHandshakeTimeout: o.Connect,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     90 * time.Second,
		// A compressed stream is held back until a block of it is full.
		DisableCompression: true,
	}
	if o.Dial == nil {
		t.DialContext = (&net.Dialer{Timeout: o.Connect, KeepAlive: 30 * time.Second}).DialContext
	} else {
		t.Proxy = nil
	}
	return &Client{o: o, http: &http.Client{Transport: t, CheckRedirect: stayAtHome}}
}

// A Request is what to ask. Its body is sent anew with each attempt.
type Request struct {
	Method string
	URL    string
	Header http.Header
	Body   []byte

	// Attempts, if not 0, replaces that of the Options.
	Attempts int
	// Repeat judges an answer that would be repeated, 429 or 5xx: false returns it
	// at once. Nil: always.
	Repeat func(status int, body []byte) bool
	// Retried, if not nil, is told before the wait for another attempt.
	Retried func(Retry)
}

// A Retry is an attempt that failed and is followed by another one.
type Retry struct {
	Attempt  int // that failed, from 1
	Attempts int // that there are at most
	Status   int // 0 if there was no answer
	Wait     time.Duration
	Reason   string // for people
}

// A Response is what a server answered.
type Response struct {
	Status int
	Header http.Header
	// Body is the whole body; of an answer that is no success at most its first
	// 64 KiB, without secrets. It is nil if Stream is set.
	Body []byte
	// Stream is the body of a success that was asked for with Client.Stream. Its
	// Read fails with ErrStalled, ErrCut, or the error of the request's context.
	// Close ends the request; it must be called, and may be during a Read.
	Stream io.ReadCloser
	// RetryAfter is how long the server asks to be left alone; 0 if it did not.
	RetryAfter time.Duration
}

// OK reports whether the status is a success.
func (r *Response) OK() bool { return r.Status >= 200 && r.Status < 300 }

// Do performs a request and reads the answer whole.
func (c *Client) Do(ctx context.Context, req Request) (*Response, error) {
	res, err := c.Stream(ctx, req)
	if err != nil || res.Stream == nil {
		return res, err
	}
	stream := res.Stream
	res.Body, err = io.ReadAll(io.LimitReader(stream, c.o.MaxBody+1))
	_ = stream.Close() // what was to be read is read
	res.Stream = nil
	if err != nil {
		return nil, err
	}
	if int64(len(res.Body)) > c.o.MaxBody {
		return nil, c.fail(req, ErrTooLarge, nil, "the answer exceeds %d bytes", c.o.MaxBody)
	}
	return res, nil
}

// Stream performs a request and returns as soon as the answer begins.
func (c *Client) Stream(ctx context.Context, req Request) (*Response, error) {
	attempts := cmp.Or(req.Attempts, c.o.Attempts)
	for n := 1; ; n++ {
		start := time.Now()
		res, err := c.attempt(ctx, req)
		c.log(ctx, req, n, start, res, err)
		if n >= attempts || ctx.Err() != nil || !c.repeatable(req, res, err) {
			return res, err
		}
		r := Retry{Attempt: n, Attempts: attempts, Wait: c.backoff(n)}
		if err != nil {
			r.Reason = err.Error()
		} else {
			r.Status, r.Reason = res.Status, "the server answered "+statusText(res.Status)
			r.Wait = max(r.Wait, res.RetryAfter)
		}
		if req.Retried != nil {
			req.Retried(r)
		}
		if !c.wait(ctx, r.Wait) {
			return nil, c.ended(ctx, req)
		}
	}
}

// Close closes the connections that nobody uses. The client stays usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) log(ctx context.Context, req Request, n int, start time.Time, res *Response, err error) {
	attrs := []any{"method", req.Method, "url", c.Redact(req, place(req.URL)), "attempt", n, "ms", time.Since(start).Milliseconds()}
	if err != nil {
		attrs = append(attrs, "error", err.Error())
	} else {
		attrs = append(attrs, "status", res.Status)
	}
	c.o.Logger.DebugContext(ctx, "request", attrs...)
}
