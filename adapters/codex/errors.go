package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/child"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/overflow"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/proc"
	"github.com/plimsoll-dev/plimsoll/adapters/timeline"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// unavailable is an error about codex itself, not about its model.
func unavailable(name, format string, args ...any) error {
	return fault.New(fault.Unavailable, "%s: "+format, append([]any{name}, args...)...)
}

func joinClose(err error, s *session) error { return errors.Join(err, s.Close()) }

// startProblem says why codex could not be started.
func (o Options) startProblem(err error) error {
	if proc.Missing(err) {
		f := fault.New(fault.Unavailable,
			"%s: the program %s cannot be started; install codex (npm install -g @openai/codex), or set program in [providers.%s]", o.Name, o.Program, o.Name)
		f.Err = err
		return f
	}
	return died(o.Name, err)
}

// homeProblem says that the home which was named is not there.
func (a *adapter) homeProblem() error {
	if dir, missing := a.o.homeMissing(); missing && a.o.dial == nil {
		return unavailable(a.o.Name, "the home %s of codex is not there; %s", dir, a.o.homeFix(dir))
	}
	return nil
}

// died tells that codex ended, and what it said last.
func died(name string, err error) error {
	switch exit, ended := errors.AsType[*child.ExitError](err); {
	case ended:
		f := fault.New(fault.Unavailable, "%s: codex %s", name, exit.Error())
		f.Err = err
		return f
	case errors.Is(err, child.ErrFlood):
		return fault.Wrap(fault.Unavailable, err, "%s: codex printed without end while nothing ran, and was ended", name)
	case errors.Is(err, child.ErrClosed):
		return fault.Wrap(fault.Unavailable, err, "%s: the session is closed", name)
	}
	return fault.Wrap(fault.Unavailable, err, "%s: the conversation with codex broke: %v", name, err)
}

// An rpcError is what codex answers to a request that it does not take.
type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// Error implements error.
func (e *rpcError) Error() string { return "codex: " + e.Message }

// notSteerable reports codex's answer to input while it compacts (codex 0.171,
// observed: -32600 with data for turn/steer, -32603 with the text for turn/start).
func (e *rpcError) notSteerable() bool {
	return strings.Contains(e.Message, "ActiveTurnNotSteerable") || strings.Contains(string(e.Data), "activeTurnNotSteerable") ||
		strings.Contains(e.Message, "cannot steer")
}

// unknownThread reports that the thread to resume is not there: its file was deleted,
// or was never written because nothing was said (codex 0.171, observed).
func (e *rpcError) unknownThread() bool {
	for _, text := range []string{"no rollout found", "thread not found", "not materialized"} {
		if strings.Contains(e.Message, text) {
			return true
		}
	}
	return false
}

// unreadable reports that the thread's file is none any more (codex 0.171, observed: it is
// empty, begins with no record, or is no text). A file that may not be read is as it was.
func (e *rpcError) unreadable() bool {
	return strings.Contains(e.Message, "failed to read session metadata") && !strings.Contains(e.Message, "(os error ")
}

// inUse reports that another process writes the thread's file.
func (e *rpcError) inUse() bool { return strings.Contains(e.Message, "active writer") }

// refused makes codex's answer to a request an error for clients.
func refused(name, method string, err error) error {
	e, ok := errors.AsType[*rpcError](err)
	switch {
	case !ok:
		return err
	case e.inUse():
		return fault.Wrap(fault.Unavailable, errors.Join(adapters.ErrInUse, err), "%s: another process has this codex thread open; close it there, or fork the thread", name)
	case e.unreadable():
		return fault.Wrap(fault.Unavailable, errors.Join(adapters.ErrNoSession, err), "%s: codex cannot read its thread any more: %s", name, timeline.Clip(e.Message, 300))
	case e.unknownThread():
		return fault.Wrap(fault.Unavailable, errors.Join(adapters.ErrNoSession, err), "%s: codex does not know its thread any more: %s", name, e.Message)
	}
	f := fault.New(fault.Unavailable, "%s: codex refuses %s: %s", name, method, e.Message)
	f.Err = err
	return f
}

// A turnError is how codex tells why a turn failed.
type turnError struct {
	Message string          `json:"message"`
	Info    json.RawMessage `json:"codexErrorInfo"`
	Details string          `json:"additionalDetails"`
}

// failure is the turn's error for the server. The classes are codex's words already;
// what it calls "other" is what its model's provider answered.
func (e *turnError) failure() error {
	if e == nil {
		return &adapters.Error{Class: adapters.ClassServer, Message: "codex says that the turn failed, and not why"}
	}
	kind, status := e.kind()
	out := &adapters.Error{Class: adapters.Class(kind), Status: status, Message: e.Message}
	switch kind {
	case "contextWindowExceeded":
		out.Class = adapters.ClassOverflow
	case "", "other":
		out.Class = adapters.ClassBadRequest
	case "responseStreamConnectionFailed":
		out.Class = adapters.ClassUnreachable
	case "responseTooManyFailedAttempts":
		out.Class = adapters.ClassRateLimited
	case "rateLimitExceeded":
		out.Class = adapters.ClassRateLimited
	}
	if said := overflow.Classify(0, []byte(e.Message)); said.Class != "" { // it hands on the body of the answer as it came
		out.Message = said.Message
		if out.Class == adapters.ClassBadRequest {
			out.Class = adapters.Class(said.Class)
		}
	}
	if out.Message == "" {
		out.Message = "codex failed: " + kind
	}
	if e.Details != "" && !strings.Contains(out.Message, e.Details) {
		out.Message += ": " + e.Details
	}
	return out
}

// kind is the name of the info, which is a word or an object with one key, and the
// status of HTTP in it.
func (e *turnError) kind() (name string, status int) {
	if json.Unmarshal(e.Info, &name) == nil {
		return name, 0
	}
	var object map[string]struct {
		Status int `json:"httpStatusCode"`
	}
	_ = json.Unmarshal(e.Info, &object) // what is no object names nothing
	for k, v := range object {
		return k, v.Status
	}
	return "", 0
}

// interrupted is the error of what was stopped.
func interrupted(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("codex: interrupted: %w", context.Canceled)
}
