// Package fault holds the one error type of the domain.
//
// Every error that a client may see is a *Error with a Code. The doors map the
// code once to JSON-RPC and once to application/problem+json; nothing else in
// the program looks at error texts. An error that carries no Code is Internal,
// and its text is not shown to clients.
package fault

import (
	"context"
	"errors"
	"fmt"
)

// A Code says what kind of fault happened and so what the caller can do.
type Code string

// The codes, and what each one asks of the caller.
const (
	Invalid     Code = "invalid"     // the request is malformed; change it
	NotFound    Code = "notFound"    // no such thread, turn, item or compaction
	Conflict    Code = "conflict"    // the same idempotency key with another body, or a state that moved on
	Busy        Code = "busy"        // the thread does something else right now; try later
	Denied      Code = "denied"      // not allowed: token, host, origin or a hook said no
	Refused     Code = "refused"     // understood, and explicitly not done; the reason and a remedy say why
	TooLarge    Code = "tooLarge"    // over a limit; the message names the limit
	Overloaded  Code = "overloaded"  // over capacity; retry later
	Full        Code = "full"        // no space is left where the thread is kept; nothing was changed
	Unavailable Code = "unavailable" // closing, or a dependency is gone
	Corrupt     Code = "corrupt"     // stored data cannot be read; the message says which
	Cancelled   Code = "cancelled"   // the caller gave up, or the work was interrupted
	Internal    Code = "internal"    // a bug; details are in the log
)

// Error is a fault with its code. Message says what was wrong and what is
// allowed, in words meant for the client. Data, if set, is encoded beside it.
type Error struct {
	Code    Code
	Message string
	Data    any
	Err     error // cause, for the log and errors.Is; never shown to clients
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns an *Error with a formatted message.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap returns an *Error with a formatted message and a cause.
func Wrap(code Code, err error, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Err: err}
}

// CodeOf returns the code of err: that of the first *Error in its chain,
// Cancelled for a context error, Internal for anything else, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Cancelled
	}
	return Internal
}

// MessageOf returns the text that a client may see: the message of the first
// *Error in the chain, or a fixed sentence that reveals nothing.
func MessageOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Message
	}
	if CodeOf(err) == Cancelled {
		return "the request was cancelled"
	}
	return "internal error"
}
