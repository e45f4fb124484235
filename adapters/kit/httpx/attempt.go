package httpx

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Bounds of the answers that are no success.
const (
	maxErrorBody  = 64 << 10
	maxErrorWait  = 10 * time.Second // for more of one
	maxRedirects  = 5
	minSecret     = 6 // shorter texts are words
	redactedValue = "[redacted]"
)

// Why an attempt's context ended, if not by the caller.
var (
	errFirstByte = errors.New("no first byte in time")
	errIdle      = errors.New("no more bytes in time")
)

// attempt makes a request once.
func (c *Client) attempt(ctx context.Context, req Request) (*Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	r, err := http.NewRequestWithContext(ctx, req.Method, req.URL, bytes.NewReader(req.Body))
	if err != nil {
		cancel(nil)
		return nil, c.fail(req, ErrUnreachable, permanent{}, "the request cannot be made: %v", inner(err))
	}
	if r.URL.Scheme != "http" && r.URL.Scheme != "https" || r.URL.Host == "" {
		cancel(nil)
		return nil, c.fail(req, ErrUnreachable, permanent{}, "the address must begin with http:// or https:// and a host")
	}
	for k, v := range req.Header {
		r.Header[http.CanonicalHeaderKey(k)] = v
	}
	timer := time.AfterFunc(c.o.FirstByte, func() { cancel(errFirstByte) })
	raw, err := c.http.Do(r)
	late := !timer.Stop()
	if err == nil && late {
		_ = raw.Body.Close() // it is given up
		err = errFirstByte
	}
	if err != nil {
		defer cancel(nil)
		return nil, c.noAnswer(ctx, req, err)
	}
	body := &reader{
		body: raw.Body, cancel: cancel, idle: c.o.Idle,
		timer: time.AfterFunc(c.o.Idle, func() { cancel(errIdle) }),
		fail:  func(err error) error { return c.cut(ctx, req, err) },
	}
	body.timer.Stop()
	res := &Response{Status: raw.StatusCode, Header: raw.Header, RetryAfter: RetryAfter(raw.Header, time.Now())}
	if res.OK() {
		res.Stream = body
		return res, nil
	}
	body.idle = min(body.idle, maxErrorWait)
	// Of an error that breaks off, what came is all there is.
	res.Body, _ = io.ReadAll(io.LimitReader(body, maxErrorBody))
	res.Body = []byte(c.Redact(req, string(res.Body)))
	_ = body.Close()
	return res, nil
}

// noAnswer tells why there was no answer.
func (c *Client) noAnswer(ctx context.Context, req Request, err error) error {
	away, _ := errors.AsType[*elsewhere](err)
	certificate, _ := errors.AsType[*tls.CertificateVerificationError](err)
	switch cause := context.Cause(ctx); {
	case away != nil:
		return c.fail(req, ErrRedirect, nil, "%v", away)
	case errors.Is(cause, errFirstByte):
		return c.fail(req, ErrUnreachable, errFirstByte, "no answer within %v", c.o.FirstByte)
	case cause != nil:
		return c.ended(ctx, req)
	case certificate != nil:
		return c.fail(req, ErrUnreachable, permanent{}, "%v", certificate)
	default:
		return c.fail(req, ErrUnreachable, nil, "%v", inner(err))
	}
}

// ended tells that the caller gave up.
func (c *Client) ended(ctx context.Context, req Request) error {
	cause := context.Cause(ctx)
	return c.fail(req, ctx.Err(), cause, "%v", cause)
}

// inner is an error without the URL that net/http puts before it.
func inner(err error) error {
	if u, is := errors.AsType[*url.Error](err); is {
		return u.Err
	}
	return err
}

// cut tells why a body ended early.
func (c *Client) cut(ctx context.Context, req Request, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errIdle):
		return c.fail(req, ErrStalled, nil, "the answer stalled: nothing came for %v", c.o.Idle)
	case cause != nil:
		return c.ended(ctx, req)
	default:
		return c.fail(req, ErrCut, nil, "the answer was cut: %v", err)
	}
}

// permanent marks a failure that another attempt would meet again.
type permanent struct{}

func (permanent) Error() string { return "permanent" }

// failure is an error of this package: a text without secrets, what it is, and
// what caused it if that is safe to hand out.
type failure struct {
	text  string
	kinds []error
}

func (f *failure) Error() string   { return f.text }
func (f *failure) Unwrap() []error { return f.kinds }

// fail makes the error of a request.
func (c *Client) fail(req Request, kind, cause error, format string, args ...any) error {
	f := &failure{text: c.Redact(req, place(req.URL)+": "+fmt.Sprintf(format, args...))}
	for _, k := range []error{kind, cause} {
		if k != nil {
			f.kinds = append(f.kinds, k)
		}
	}
	return f
}

// reader is a body whose every wait has a limit. The time that its user takes
// between reads does not count.
type reader struct {
	body   io.ReadCloser
	cancel context.CancelCauseFunc
	idle   time.Duration
	timer  *time.Timer
	fail   func(error) error
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	r.timer.Reset(r.idle)
	n, err := r.body.Read(p)
	r.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.fail(err)
	}
	return n, err
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.cancel(context.Canceled)
	return r.body.Close()
}

// elsewhere is a redirect that is not followed.
type elsewhere struct{ to string }

func (e *elsewhere) Error() string {
	return "the server redirects to " + e.to + ", which is not asked: configure that address if it is right"
}

// stayAtHome follows redirects only where the same server is asked the same thing.
// Anything else would give the key and the request to whom they are not meant for, or
// turn a POST into a GET.
func stayAtHome(next *http.Request, via []*http.Request) error {
	first := via[0]
	same := next.URL.Scheme == first.URL.Scheme && next.URL.Host == first.URL.Host && next.Method == first.Method
	if !same || len(via) > maxRedirects {
		return &elsewhere{place(next.URL.String())}
	}
	return nil
}

// place is a URL as texts show it: without user, query and fragment.
func place(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "the configured address"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
