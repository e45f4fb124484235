package claude

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/proc"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// unavailable is an error about Claude Code itself, not about its model.
func unavailable(name, format string, args ...any) error {
	return fault.New(fault.Unavailable, "%s: "+format, append([]any{name}, args...)...)
}

func joinClose(err error, s *session) error { return errors.Join(err, s.Close()) }

// startProblem says why Claude Code could not be started.
func (o Options) startProblem(err error) error {
	if proc.Missing(err) {
		return fault.Wrap(fault.Unavailable, err,
			"%s: the program %s cannot be started; install Claude Code (npm install -g @anthropic-ai/claude-code), or set program in [providers.%s]", o.Name, o.Program, o.Name)
	}
	if _, said := errors.AsType[*fault.Error](err); said {
		return err
	}
	return died(o.Name, err)
}

// homeProblem says that the home which was named is not there.
func (a *adapter) homeProblem() error {
	if dir, missing := a.o.homeMissing(); missing && a.o.dial == nil {
		return unavailable(a.o.Name, "the home %s of Claude Code is not there; %s", dir, a.o.homeFix(dir))
	}
	return nil
}

// died tells that Claude Code ended, and what it said last.
func died(name string, err error) error {
	switch exit, ended := errors.AsType[*child.ExitError](err); {
	case ended && strings.Contains(exit.Stderr, "is already in use"):
		return fault.Wrap(fault.Unavailable, errors.Join(adapters.ErrInUse, err), "%s: another process has this conversation of Claude Code open", name)
	case ended:
		return fault.Wrap(fault.Unavailable, err, "%s: Claude Code %s", name, exit.Error())
	case errors.Is(err, child.ErrClosed):
		return fault.Wrap(fault.Unavailable, err, "%s: the session is closed", name)
	case errors.Is(err, child.ErrGarbage):
		return fault.Wrap(fault.Unavailable, err, "%s: the program prints what is no stream-json; is it Claude Code?", name)
	case errors.Is(err, child.ErrFlood):
		return fault.Wrap(fault.Unavailable, err, "%s: Claude Code printed without end while nothing ran, and was ended", name)
	}
	return fault.Wrap(fault.Unavailable, err, "%s: the conversation with Claude Code broke: %v", name, err)
}

// interrupted is the error of what was stopped.
func interrupted(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("claude: interrupted: %w", context.Canceled)
}

// classOf is the class of a status of HTTP; without one nobody answered.
func classOf(status int) adapters.Class {
	switch {
	case status == 0:
		return adapters.ClassUnreachable
	case status == 401 || status == 403:
		return adapters.ClassDenied
	case status == 413:
		return adapters.ClassTooLarge
	case status == 429:
		return adapters.ClassRateLimited
	case status == 529 || status == 503:
		return adapters.ClassOverloaded
	case status >= 500:
		return adapters.ClassServer
	}
	return adapters.ClassBadRequest
}

// classes are those of the words by which a message that Claude Code makes itself says
// what went wrong. A status of HTTP says more.
var classes = map[string]adapters.Class{
	"authentication_failed": adapters.ClassDenied, // also without a request: it is not logged in
	"billing_error":         adapters.ClassDenied,
	"rate_limit":            adapters.ClassRateLimited,
	"overloaded":            adapters.ClassOverloaded,
	"invalid_request":       adapters.ClassBadRequest,
}

// failure is why a turn failed (the matrix of terminal reasons, 2.1.332, observed).
// Cause is the word of the message that told it; it may be empty.
func (f *frame) failure(cause string) error {
	e := &adapters.Error{Message: f.text()}
	if f.APIStatus != nil {
		e.Status = *f.APIStatus
	}
	switch f.Terminal {
	case "prompt_too_long", "blocking_limit", "rapid_refill_breaker":
		e.Class = adapters.ClassOverflow
	case "api_error", "model_error":
		e.Class = classOf(e.Status)
		if known, ok := classes[cause]; ok && e.Status == 0 {
			e.Class = known
		}
	default:
		e.Class = adapters.ClassBadRequest
	}
	if e.Message == "" {
		e.Message = "Claude Code says that the turn failed (" + f.Subtype + ", " + f.Terminal + "), and not why"
	}
	return e
}

// text is what a result says: its errors, or its words.
func (f *frame) text() string {
	if len(f.Errors) > 0 {
		return strings.Join(f.Errors, "; ")
	}
	return stringIn(f.Result)
}

// isNothing reports whether Claude Code says that there is nothing to compact: an empty
// session, and one with a single exchange, as after a seed or a compaction (2.1.332,
// observed). It tells the one as a message and the other as a failure.
func isNothing(text string) bool {
	return strings.Contains(text, "No messages to compact") || strings.Contains(text, "Not enough messages to compact")
}

// statusIn finds the status of HTTP in what Claude Code says of an error of the API: it
// begins with it, or has it in brackets (2.1.332, observed).
var statusIn = regexp.MustCompile(`^(\d{3})\b|\((\d{3})\)`)

// compactFailure is why a compaction failed, of which Claude Code tells a sentence.
func compactFailure(text string) error {
	text = strings.TrimPrefix(strings.TrimSpace(text), "Error during compaction: ")
	if reason, blocked := strings.CutPrefix(text, "skipped: "); blocked {
		return fault.New(fault.Denied, "Claude Code: %s", reason)
	}
	if isNothing(text) {
		return adapters.ErrNothingToCompact
	}
	e := &adapters.Error{Class: adapters.ClassServer, Message: "Claude Code: " + text}
	if _, rest, api := strings.Cut(text, "API Error: "); api {
		switch m := statusIn.FindStringSubmatch(rest); {
		case m != nil:
			e.Status, _ = strconv.Atoi(m[1] + m[2]) // three digits
			e.Class = classOf(e.Status)
		case strings.HasPrefix(rest, "Connection "):
			e.Class = adapters.ClassUnreachable
		}
	}
	if strings.Contains(text, "below the context limit") {
		e.Class = adapters.ClassOverflow
	}
	return e
}
