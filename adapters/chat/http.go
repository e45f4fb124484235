package chat

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/httpx"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// get asks for JSON.
func (m *Model) get(ctx context.Context, url string, into any) error {
	return m.ask(ctx, httpx.Request{Method: http.MethodGet, URL: url}, into)
}

// post sends and asks for JSON.
func (m *Model) post(ctx context.Context, url string, body, into any) error {
	b, err := transcript.Encode(body)
	if err != nil {
		return err
	}
	return m.ask(ctx, httpx.Request{Method: http.MethodPost, URL: url, Body: b}, into)
}

// askTime bounds what is asked beside requests.
const askTime = 15 * time.Second

// ask makes one attempt: what is asked beside a request is never worth waiting for.
func (m *Model) ask(ctx context.Context, r httpx.Request, into any) error {
	short, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r.Header, r.Attempts = m.header(), 1
	res, err := m.http.Do(short, r)
	if err != nil {
		return m.unanswered(ctx, err)
	}
	if !res.OK() {
		e := failure(res.Status, res.Body)
		e.RetryAfter = res.RetryAfter
		return e
	}
	if err := json.Unmarshal(res.Body, into); err != nil {
		if _, is := errors.AsType[*json.UnmarshalTypeError](err); !is {
			return &adapters.Error{Class: adapters.ClassServer, Message: "the server answered with what is no JSON: " + excerpt([]byte(m.http.Redact(r, string(res.Body))))}
		}
	}
	return nil
}

// unanswered is the error of a request that got no answer, or not all of one.
func (m *Model) unanswered(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	e := &adapters.Error{Class: adapters.ClassUnreachable, Message: err.Error(), Err: err}
	switch {
	case errors.Is(err, httpx.ErrStalled), errors.Is(err, httpx.ErrCut):
		e.Class = adapters.ClassCut
	case errors.Is(err, httpx.ErrRedirect):
		e.Class = adapters.ClassBadRequest
	case errors.Is(err, httpx.ErrTooLarge):
		e.Class = adapters.ClassServer
	}
	return e
}
