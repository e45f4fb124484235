package chat

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/httpx"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/overflow"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/sse"
)

// maxTries bounds the requests of one Stream beside what kit/httpx repeats: without
// each of the fields that a server can refuse, and after streams that failed before
// they said anything.
const (
	maxTries  = 8
	maxSilent = 2
)

// Stream implements adapters.Model.
func (m *Model) Stream(ctx context.Context, req adapters.Request) iter.Seq2[adapters.Chunk, error] {
	return func(yield func(adapters.Chunk, error) bool) {
		if req.Model == "" {
			req.Model = m.o.Model
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		r := &run{Model: m, req: req, cancel: cancel, yield: yield}
		err := r.perform(ctx)
		if err != nil && !r.over {
			yield(nil, err)
		}
	}
}

// run is one Stream.
type run struct {
	*Model
	req    adapters.Request
	cancel context.CancelFunc
	yield  func(adapters.Chunk, error) bool

	over   bool // the consumer wants no more
	spoken bool // something of an answer came
	silent int  // streams that failed before that
	fitted bool // the bound of the answer was lowered once
}

// errOver ends a run whose consumer wants no more.
var errOver = errors.New("nobody listens")

// give hands a chunk to the consumer.
func (r *run) give(c adapters.Chunk) bool {
	if !r.over && !r.yield(c, nil) {
		r.over = true
		r.cancel()
	}
	return !r.over
}

// perform makes the request until it is answered, or for good refused.
func (r *run) perform(ctx context.Context) error {
	pl := r.plan(ctx, r.without(r.req.Model))
	for _, f := range pl.findings {
		if f.Stuck {
			return &adapters.Error{Class: adapters.ClassOverflow, Message: f.Text, Requested: pl.estimate, Limit: pl.window}
		}
		if !r.give(adapters.Repaired{Rule: f.Rule, Text: strings.TrimPrefix(f.String(), f.Rule+": ")}) {
			return errOver
		}
	}
	if n := pl.unshown; n > 0 && !r.give(adapters.Repaired{Rule: adapters.RuleImages, Text: unshownText(n)}) {
		return errOver
	}
	for try := 1; ; try++ {
		err := r.try(ctx, pl)
		if err == nil || r.over || r.spoken || try == maxTries {
			return err
		}
		next, why, again := r.another(pl, err)
		if !again {
			return err
		}
		if !r.give(adapters.Retried{Message: why}) {
			return errOver
		}
		if err := r.rest(ctx, next, pl); err != nil {
			return err
		}
		pl = next
	}
}

// plan prepares the request with what is known of its model now.
func (r *run) plan(ctx context.Context, without set) plan {
	f := r.lookUp(ctx, r.req.Model)
	load, _ := r.windowOf(f)
	window := bounded(load, r.limit(r.req.Model))
	if f.images != nil && !*f.images {
		without = without.with(refusedImages)
	}
	most := r.configured(f.id, r.o.MaxOutput)
	if r.req.MaxOutput > 0 { // else nothing is bounded that nobody asked to be
		most = bounded(most, f.maxOutput)
	}
	pl := r.p.prepare(r.req, window, most, without)
	pl.load = load
	return pl
}

// another says what to try after a failure of which nothing was given out, and why.
// After an overflow that is the same request only if the bound of its answer was
// the reason.
func (r *run) another(pl plan, err error) (next plan, why string, again bool) {
	e, is := errors.AsType[*adapters.Error](err)
	if !is {
		return pl, "", false
	}
	if what := refused(pl, e.Status, e.Message); what != "" {
		next = r.p.prepare(r.req, pl.window, pl.max, r.refuse(pl.model, what).merge(pl.without))
		next.load = pl.load
		return next, fmt.Sprintf("the server takes no %s (%s): tried again without", what, e.Message), true
	}
	if room := roomFor(e.Message); e.Class == adapters.ClassOverflow && room > 0 && room < pl.max && !r.fitted {
		r.fitted = true
		pl.max = room
		return pl, fmt.Sprintf("the answer was bounded to more than the window has room for: tried again with %d tokens", room), true
	}
	if e.Status == 0 && e.Temporary() && e.Class != adapters.ClassUnreachable && r.silent < maxSilent && !r.req.Writer {
		r.silent++
		return pl, "the server began an answer and failed: " + e.Message, true
	}
	return pl, "", false
}

// rest waits before a request that is made again as it was.
func (r *run) rest(ctx context.Context, next, before plan) error {
	if next.max != before.max || len(next.without) != len(before.without) {
		return nil
	}
	t := time.NewTimer(r.o.Timeouts.Backoff << (r.silent - 1))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// request is the HTTP request of a plan.
func (r *run) request(pl plan) (httpx.Request, error) {
	url, body, err := r.base+"/chat/completions", []byte(nil), error(nil)
	if pl.p.native {
		url = r.root + "/api/chat"
		body, err = pl.ollamaBody()
	} else {
		body, err = pl.body()
	}
	h := r.header()
	h.Set("Accept", "text/event-stream, application/x-ndjson, application/json")
	attempts := 0 // as configured
	if r.req.Writer {
		attempts = 1
	}
	return httpx.Request{
		Method: http.MethodPost, URL: url, Header: h, Body: body, Attempts: attempts, Repeat: repeatable,
		Retried: func(t httpx.Retry) {
			r.give(adapters.Retried{Message: fmt.Sprintf("%s; attempt %d of %d in %v", t.Reason, t.Attempt+1, t.Attempts, t.Wait.Round(time.Millisecond))})
		},
	}, err
}

// hopeless are answers with a status of its own passing trouble whose cause stays:
// what the model wrote cannot be parsed (llama.cpp answers 500), or nobody has paid.
var hopeless = regexp.MustCompile(`(?i)failed to parse|insufficient_quota|insufficient balance|exceeded your current quota|billing|out of credits|credit balance`)

// repeatable reports whether an answer of 429 or 5xx may be another one next time.
func repeatable(status int, body []byte) bool {
	class := adapters.Class(overflow.Classify(status, body).Class)
	return (&adapters.Error{Class: class}).Temporary() && !hopeless.Match(body)
}

// try makes the request once, as far as this package is concerned.
func (r *run) try(ctx context.Context, pl plan) error {
	req, err := r.request(pl)
	if err != nil {
		return err
	}
	res, err := r.http.Stream(ctx, req)
	if err != nil {
		return r.unanswered(ctx, err)
	}
	if res.Stream == nil {
		return r.refusal(pl, res)
	}
	defer func() { _ = res.Stream.Close() }() // what it was to give was given
	return r.listen(ctx, pl, req, res.Stream)
}

// listen reads the answer to a request and gives it out.
func (r *run) listen(ctx context.Context, pl plan, req httpx.Request, stream io.ReadCloser) error {
	d := r.newDecoder(pl)
	d.redact = func(text []byte) []byte { return []byte(r.http.Redact(req, string(text))) }
	err := r.read(d, stream)
	r.spoken = r.spoken || d.size > 0 || len(d.calls.order) > 0
	if err == nil {
		err = d.over()
	}
	if r.over {
		return errOver
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, is := errors.AsType[*adapters.Error](err); is {
		e.Message = r.http.Redact(req, e.Message)
	} else if err != nil {
		err = r.unanswered(ctx, err)
	}
	return r.end(pl, d, err)
}

// refusal is the error of an answer that is no success.
func (r *run) refusal(pl plan, res *httpx.Response) error {
	e := failure(res.Status, res.Body)
	e.RetryAfter = res.RetryAfter
	if overflow.Classify(res.Status, res.Body).Ambiguous && pl.window > 0 && pl.estimate*10 >= pl.window*8 {
		e.Class, e.Requested, e.Limit = adapters.ClassOverflow, pl.estimate, pl.window
		e.Message = fmt.Sprintf("the server answered %d without a word to a request of about %d tokens for a window of %d", res.Status, pl.estimate, pl.window)
	}
	if e.Class == adapters.ClassOverflow {
		r.learn(pl.model, e.Limit)
	}
	return e
}

// end gives out what is left of an answer and returns how it failed, if it did.
func (r *run) end(pl plan, d *decoder, err error) error {
	var last []adapters.Chunk
	if err == nil {
		last, err = d.answer.end()
	} else {
		last = d.broken()
	}
	if e, is := errors.AsType[*adapters.Error](err); is && e.Class == adapters.ClassOverflow {
		r.learn(pl.model, e.Limit)
	}
	if err == nil {
		r.outgrow(pl.model, d.tally.now.InputTokens)
	}
	for _, c := range last {
		if _, ok := c.(adapters.Done); ok && !d.tally.told { // zeros tell that nobody counted: then the size is estimated
			r.give(adapters.UsageChunk{})
		}
		r.give(c)
	}
	return err
}

func (m *Model) newDecoder(pl plan) *decoder {
	return &decoder{redact: func(text []byte) []byte { return text }, answer: newAnswer(pl.p, sent{
		model: pl.model, window: pl.window, maxOutput: pl.max, estimate: pl.estimate, seed: pl.seed, names: pl.names,
	}, m.lim)}
}

// How long the end of a stream is waited for once the answer is over: for the
// usage, for one that may be told again with more in it, and after [DONE].
const (
	repeatGrace = 250 * time.Millisecond
	closeGrace  = 50 * time.Millisecond
)

// read gives the stream to the decoder, in whichever form it is, until it is over.
// Some servers never close it: then it is closed a moment after the answer's end.
func (r *run) read(d *decoder, stream io.ReadCloser) error {
	var closing *time.Timer
	defer func() {
		if closing != nil {
			closing.Stop()
		}
	}()
	took := func(err error) error {
		if err != nil {
			return err
		}
		for _, c := range d.take() {
			if !r.give(c) {
				return errOver
			}
		}
		if wait, over := d.grace(); over {
			if closing == nil {
				closing = time.AfterFunc(wait, func() { _ = stream.Close() })
			} else {
				closing.Reset(wait)
			}
		}
		return nil
	}
	err := r.events(d, stream, took)
	if _, ours := errors.AsType[*adapters.Error](err); !ours && (d.done || d.finish != "") && !r.over {
		return nil // the answer is complete; how the connection ended is nobody's concern
	}
	return err
}

// grace says how long to wait for more, once the answer is over.
func (d *decoder) grace() (wait time.Duration, over bool) {
	switch {
	case d.done:
		return closeGrace, true
	case d.finish == "":
		return 0, false
	case d.tally.told:
		return min(repeatGrace, d.p.grace), true
	default:
		return d.p.grace, true
	}
}

// events reads the stream as what it is: lines, events, or one JSON value from a
// server that does not stream.
func (r *run) events(d *decoder, stream io.Reader, took func(error) error) error {
	if d.p.native {
		return lines(stream, d.calls.lim.line, func(line []byte) error { return took(d.line(line)) })
	}
	in := bufio.NewReader(stream)
	switch first, err := firstByte(in); {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case first == '{' || first == '[':
		body, err := io.ReadAll(io.LimitReader(in, int64(d.calls.lim.line)+1))
		if err == nil && len(body) > d.calls.lim.line {
			return tooLarge("more than %d bytes", d.calls.lim.line)
		}
		if err == nil {
			err = d.event("", body)
			d.done = len(d.out) > 0 || len(d.calls.order) > 0 // all there will ever be
			err = took(err)
		}
		return err
	case first == '<':
		return &adapters.Error{Class: adapters.ClassBadRequest, Message: "the server answered with a web page: is the base URL right?"}
	}
	for e, err := range sse.Read(in, d.calls.lim.line) {
		if errors.Is(err, sse.ErrTooLarge) {
			return tooLarge("an event of more than %d bytes", d.calls.lim.line)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) { // what there is of an event that was not ended
			if e.Name != "error" && !json.Valid(e.Data) && !bytes.Equal(bytes.TrimSpace(e.Data), done) {
				return nil
			}
			return took(d.event(e.Name, e.Data))
		}
		if err != nil {
			return err
		}
		if err := took(d.event(e.Name, e.Data)); err != nil {
			return err
		}
	}
	return nil
}

// firstByte looks at the first byte that is no white space.
func firstByte(in *bufio.Reader) (byte, error) {
	for {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if !bytes.ContainsRune([]byte(" \t\r\n"), rune(b)) {
			return b, in.UnreadByte()
		}
	}
}

// lines reads lines of up to max bytes. One that the end of the stream cut is not
// read: it would be taken for a whole one.
func lines(stream io.Reader, most int, take func([]byte) error) error {
	s := bufio.NewScanner(stream)
	s.Buffer(nil, most)
	for s.Scan() {
		if err := take(s.Bytes()); err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return tooLarge("a line of more than %d bytes", most)
	}
	return s.Err()
}
