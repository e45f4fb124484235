package api

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"time"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Problem is every error of REST: application/problem+json (RFC 9457).
type Problem struct {
	// Type names the code as a URN.
	Type string `json:"type"`
	// Title says what kind of problem it is, in few words.
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail says what was wrong and what is allowed.
	Detail string `json:"detail"`
	// Code says what the caller can do; the same on every door.
	Code fault.Code `json:"code"`
	// RequestID is in the server's log.
	RequestID string `json:"requestId"`
	// Data depends on the code: the record of a refused compaction, or the reason
	// why a cursor cannot be served; null otherwise.
	Data any `json:"data"`
}

// problems is what each fault is on the wire.
var problems = map[fault.Code]struct {
	status int
	title  string
}{
	fault.Invalid:     {http.StatusBadRequest, "Invalid request"},
	fault.NotFound:    {http.StatusNotFound, "Not found"},
	fault.Conflict:    {http.StatusConflict, "Conflict"},
	fault.Busy:        {http.StatusConflict, "Busy"},
	fault.Denied:      {http.StatusForbidden, "Denied"},
	fault.Refused:     {http.StatusConflict, "Refused"},
	fault.TooLarge:    {http.StatusRequestEntityTooLarge, "Too large"},
	fault.Overloaded:  {http.StatusTooManyRequests, "Overloaded"},
	fault.Full:        {http.StatusInsufficientStorage, "Storage full"},
	fault.Unavailable: {http.StatusServiceUnavailable, "Unavailable"},
	fault.Corrupt:     {http.StatusInternalServerError, "Corrupt data"},
	fault.Cancelled:   {http.StatusConflict, "Cancelled"},
	fault.Internal:    {http.StatusInternalServerError, "Internal error"},
}

// A doorError is a fault of the door itself, which has a status of its own.
type doorError struct {
	status int
	header [2]string // one header, if the name is set
	fault  *fault.Error
}

func (e *doorError) Error() string { return e.fault.Error() }
func (e *doorError) Unwrap() error { return e.fault }

func refuse(status int, code fault.Code, format string, args ...any) *doorError {
	return &doorError{status: status, fault: fault.New(code, format, args...)}
}

func (e *doorError) with(name, val string) *doorError {
	e.header = [2]string{name, val}
	return e
}

// resetData tells why a cursor cannot be served.
type resetData struct {
	Reason events.ResetReason `json:"reason"`
	Oldest int64              `json:"oldest"`
}

// asFault gives the journal's own errors their code; all others keep theirs.
func asFault(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	if reset, ok := errors.AsType[*events.Reset](err); ok {
		f := fault.Wrap(fault.Conflict, err, "the cursor cannot be served (%s): read again and continue from there", reset.Reason)
		f.Data = resetData{reset.Reason, reset.Oldest}
		return f
	}
	switch {
	case errors.Is(err, events.ErrNotFound):
		return fault.Wrap(fault.NotFound, err, "no such thread")
	case errors.Is(err, events.ErrFull):
		return fault.Wrap(fault.Full, err, "the database is full; nothing was changed")
	case errors.Is(err, events.ErrClosed):
		return fault.Wrap(fault.Unavailable, err, "the server is closing")
	case errors.Is(err, events.ErrCorrupt):
		return fault.Wrap(fault.Corrupt, err, "the journal is damaged: what was asked for cannot be read")
	}
	return err
}

// problemOf is the one place where errors become what clients see.
func problemOf(err error, requestID string) (Problem, [2]string) {
	err = asFault(err)
	code := fault.CodeOf(err)
	row, ok := problems[code]
	if !ok {
		code, row = fault.Internal, problems[fault.Internal]
	}
	p := Problem{
		Type:      "urn:plimsoll:problem:" + string(code),
		Title:     row.title,
		Status:    row.status,
		Detail:    fault.MessageOf(err),
		Code:      code,
		RequestID: requestID,
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		p.Data = f.Data
	}
	var header [2]string
	if d, ok := errors.AsType[*doorError](err); ok {
		p.Status, p.Title, header = d.status, http.StatusText(d.status), d.header
	}
	if header[0] == "" && (code == fault.Overloaded || code == fault.Unavailable) {
		header = [2]string{"Retry-After", "1"}
	}
	return p, header
}

// rpcProblem is what an error is on JSON-RPC. Its data tells the code, and what
// belongs to it, but for errors that codex clients know by their own data or by
// its absence.
func (s *Server) rpcProblem(ctx context.Context, m method, params any, err error) *jsonrpc.Error {
	err = asFault(err)
	code := fault.CodeOf(err)
	p := &jsonrpc.Error{Code: jsonrpc.CodeInvalid, Message: fault.MessageOf(err)}
	f, _ := errors.AsType[*fault.Error](err)
	switch code {
	case fault.Overloaded:
		return &jsonrpc.Error{Code: jsonrpc.CodeOverloaded, Message: "Server overloaded; retry later."}
	case fault.Full, fault.Unavailable, fault.Corrupt, fault.Internal:
		p.Code = jsonrpc.CodeInternal
	case fault.NotFound:
		p.Message = s.lacks(ctx, m, params, p.Message)
	case fault.Busy:
		if f, ok := f.Data.(threads.NotSteerable); ok {
			return notSteerable(f)
		}
	default: // the client could have done otherwise
	}
	data := rpcData{Code: code}
	if f != nil {
		data.Data = f.Data
	}
	if d, ok := data.Data.(inputTooLarge); ok {
		p.Code, data.Data, data.inputTooLarge = codeParams, nil, &d
	}
	var encErr error
	if p.Data, encErr = encode(data); encErr != nil {
		s.log.LogAttrs(ctx, slog.LevelError, "encode the data of an error", slog.String("method", m.name), slog.Any("error", encErr))
		p.Data = nil
	}
	return p
}

// rpcData is the data of an error on JSON-RPC.
type rpcData struct {
	Code fault.Code `json:"code"`
	Data any        `json:"data,omitempty"`
	*inputTooLarge
}

// lacks is the text for something that does not exist: codex's, if it is the
// thread.
func (s *Server) lacks(ctx context.Context, m method, params any, text string) string {
	id, ok := threadOf(params)
	if !ok || m.own {
		return text
	}
	if _, err := s.service(id).ReadThread(ctx, id); fault.CodeOf(err) != fault.NotFound {
		return text
	}
	return cmp.Or(m.missing, "thread not found: ") + string(id)
}

// threadOf returns the thread that parameters name.
func threadOf(params any) (transcript.ThreadID, bool) {
	v := reflect.Indirect(reflect.ValueOf(params))
	if v.Kind() != reflect.Struct {
		return "", false
	}
	f := v.FieldByName("ThreadID")
	if !f.IsValid() || f.Kind() != reflect.String {
		return "", false
	}
	return transcript.ThreadID(f.String()), true
}

// notSteerable is codex's error for a steer that came during a compaction: by its
// data the codex TUI knows that it may send the message later.
func notSteerable(f threads.NotSteerable) *jsonrpc.Error {
	const text = "cannot steer a compact turn"
	data, err := encode(map[string]any{
		"message":           text,
		"codexErrorInfo":    map[string]any{"activeTurnNotSteerable": map[string]any{"turnKind": f.TurnKind}},
		"additionalDetails": nil, "misalignment": nil,
	})
	if err != nil { // texts always encode
		panic(err)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalid, Message: text, Data: data}
}

// fail answers a request with a problem. The cause goes to the log only.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	id := requestID(r.Context())
	p, header := problemOf(err, id)
	if header[0] != "" {
		w.Header().Set(header[0], header[1])
	}
	level := slog.LevelDebug
	if p.Status >= 500 {
		level = slog.LevelError
	}
	s.log.LogAttrs(r.Context(), level, "request failed", slog.String("requestId", id),
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Int("status", p.Status), slog.Any("error", err))
	b, encErr := encode(p)
	if encErr != nil {
		s.log.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelError, "encode problem", slog.String("requestId", id), slog.Any("error", encErr))
		p.Data = nil
		b, _ = encode(p) // without data a problem always encodes
	}
	s.hurry(w, r)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	s.write(w, r, b)
}

// hurry bounds the time that net/http waits for what has not come of the body of
// a request that failed: nobody else reads it.
func (s *Server) hurry(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		return
	}
	err := supported(http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.timing.rest)))
	if err != nil {
		s.log.Debug("set read deadline", slog.String("requestId", requestID(r.Context())), slog.Any("error", err))
	}
}
