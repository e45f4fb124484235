package api

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// maxImport bounds a session file as it arrives.
const maxImport = 64 << 20

// serveImport makes a thread of a session file of another program. The body is
// the file, plain or compressed; its content decides what it is.
func (s *Server) serveImport(w http.ResponseWriter, r *http.Request, params any) error {
	p := params.(*ImportParams)
	if r.ContentLength > maxImport {
		w.Header().Set("Connection", "close")
		return tooLarge(maxImport)
	}
	if r.ContentLength == 0 {
		return invalid("the body is empty; send the session file")
	}
	if !s.imports.take() {
		w.Header().Set("Connection", "close")
		return refuse(http.StatusTooManyRequests, fault.Busy,
			"%d imports run, which is the limit: try again when one is done", s.caps.Imports).with("Retry-After", "5")
	}
	defer s.imports.give()
	body := &progress{
		r: http.MaxBytesReader(w, r.Body, maxImport), rc: http.NewResponseController(w),
		wait: s.timing.body, until: time.Now().Add(s.timing.file),
	}
	result, err := s.svc.Import(r.Context(), body, threads.ImportParams{
		Provider: p.Provider, Model: p.Model, Cwd: p.Cwd, IdempotencyKey: p.ClientRequestID,
	})
	if body.err != nil { // not a fault of the file
		return bodyError(w, body.err)
	}
	if err != nil {
		return err
	}
	s.reply(w, r, http.StatusCreated, wireImport(s, result))
	return nil
}

// progress reads a body that may take long as long as it keeps coming, but not
// for ever.
type progress struct {
	r     io.Reader
	rc    *http.ResponseController
	wait  time.Duration // for the next bytes
	until time.Time     // for the last ones
	err   error         // why reading stopped; nil at the end of the body
}

func (p *progress) Read(b []byte) (int, error) {
	if err := supported(p.rc.SetReadDeadline(earlier(p.until, time.Now().Add(p.wait)))); err != nil {
		return 0, err
	}
	n, err := p.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		p.err = err
	}
	return n, err
}

// serveExport sends a thread as a session file, one JSON value a line.
func (s *Server) serveExport(w http.ResponseWriter, r *http.Request, params any) error {
	id := params.(*ThreadParams).ThreadID
	out := &export{w: w, rc: http.NewResponseController(w), wait: s.timing.body, name: id + ".jsonl"}
	err := s.service(transcript.ThreadID(id)).Export(r.Context(), transcript.ThreadID(id), out)
	if err == nil || !out.begun {
		return err
	}
	// Half a file must not look like a whole one.
	s.log.Error("export broke", slog.String("requestId", requestID(r.Context())), slog.String("thread", id), slog.Any("error", err))
	panic(http.ErrAbortHandler)
}

// export begins the answer with the first byte, so that a thread that cannot be
// exported is still a problem.
type export struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	wait  time.Duration
	name  string
	begun bool
}

func (e *export) Write(b []byte) (int, error) {
	if !e.begun {
		e.begun = true
		h := e.w.Header()
		h.Set("Content-Type", ndjsonType)
		h.Set("Content-Disposition", `attachment; filename="`+e.name+`"`)
		e.w.WriteHeader(http.StatusOK)
	}
	if err := supported(e.rc.SetWriteDeadline(time.Now().Add(e.wait))); err != nil {
		return 0, err
	}
	return e.w.Write(b)
}
