package adapters

import (
	"errors"
	"time"
)

// Errors that sessions return and the server understands.
var (
	// ErrNotSteerable: the running turn takes no more input.
	ErrNotSteerable = errors.New("adapters: the running turn cannot be steered")
	// ErrOverflow: the request did not fit the model's context window.
	ErrOverflow = errors.New("adapters: context window exceeded")
	// ErrNoSession: the provider does not know the session that is to be resumed.
	ErrNoSession = errors.New("adapters: the provider does not know the session any more")
	// ErrInUse: another process drives the session.
	ErrInUse = errors.New("adapters: another process drives the session")

	// ErrNothingToCompact: the provider found nothing that it could compact.
	ErrNothingToCompact = errors.New("adapters: the provider found nothing to compact")
	// ErrNotCompacted: a compaction that was asked for did not happen; the history is
	// as it was.
	ErrNotCompacted = errors.New("adapters: the compaction did not happen")
	// ErrUncertain: nobody can tell whether the provider compacted.
	ErrUncertain = errors.New("adapters: it is not known whether the provider compacted")
	// ErrLossy: the provider replaced its history by something that does not stand for
	// it. What it knew is only in the journal.
	ErrLossy = errors.New("adapters: the provider lost its history")
)

// A RefusedError is the error of a native compaction that turned out not to be
// possible, although the session had the ability when it was asked.
type RefusedError struct{ Refusal Refusal }

// Error implements error.
func (e *RefusedError) Error() string { return e.Refusal.Reason }

// A Class says what kind of failure a provider's answer is. The texts are codex's
// where it has one (codex 0.171, observed).
type Class string

// The classes.
const (
	ClassOverflow    Class = "contextWindowExceeded"
	ClassTooLarge    Class = "payloadTooLarge" // bytes, not tokens: no compaction of text helps
	ClassRateLimited Class = "usageLimitExceeded"
	ClassOverloaded  Class = "serverOverloaded"
	ClassServer      Class = "internalServerError"
	ClassDenied      Class = "unauthorized" // the key is missing, wrong or may not do this
	ClassBadRequest  Class = "badRequest"
	ClassUnreachable Class = "httpConnectionFailed"       // nobody answered
	ClassCut         Class = "responseStreamDisconnected" // the answer ended in the middle
	ClassFiltered    Class = "contentFilter"
)

// An Error is a provider's failure to answer a request. Its text may be shown to
// clients: keys are redacted, and of a long answer only the beginning is there.
type Error struct {
	Class   Class
	Status  int // of HTTP; 0 if there was none, or if the error came inside a stream
	Message string
	// Requested and Limit are tokens that the provider named; 0 if it did not.
	Requested, Limit int
	RetryAfter       time.Duration // as the provider asked; 0 if it did not
	Err              error
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes an overflow match ErrOverflow.
func (e *Error) Is(target error) bool { return target == ErrOverflow && e.Class == ClassOverflow }

// Temporary reports whether the same request may succeed later.
func (e *Error) Temporary() bool {
	switch e.Class {
	case ClassRateLimited, ClassOverloaded, ClassServer, ClassUnreachable, ClassCut:
		return true
	default:
		return false
	}
}
