package api

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/api/jsonrpc"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// codeUnsupported is codex's code for methods that it knows and does not serve.
const codeUnsupported = -32601

// errNotGreeted and errGreeted are codex's texts (codex 0.171, observed).
var (
	errNotGreeted = invalid("Not initialized")
	errGreeted    = invalid("Already initialized")
)

// unknownMethod is the answer to a method that is not served: codex's own words if
// codex does not have it, else the reason.
func unknownMethod(name string) *jsonrpc.Error {
	if c, ok := coverageOf(name); ok {
		reason := cmp.Or(c.Reason, "it is not served")
		return &jsonrpc.Error{Code: codeUnsupported, Message: name + " is not supported by this server: " + reason, Data: []byte(`{"code":"refused"}`)}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalid, Message: fault.MessageOf(unknownVariant(name, servedMethods())), Data: []byte(`{"code":"invalid"}`)}
}

// servedMethods are the names of what JSON-RPC serves.
func servedMethods() []string {
	var served []string
	for _, m := range methods {
		if m.call != nil {
			served = append(served, m.name)
		}
	}
	slices.Sort(served)
	return served
}

// validHeader reports whether a text can be the value of an HTTP header, as codex
// judges it.
func validHeader(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return (c < 0x20 || c > 0x7e) && c != '\t' })
}

// fail answers a request with an error. The cause goes to the log only.
func (p *peer) fail(ctx context.Context, m method, params any, r *jsonrpc.Request, err error) {
	problem := p.server.rpcProblem(ctx, m, params, err)
	level := slog.LevelDebug
	if problem.Code == jsonrpc.CodeInternal && !errors.Is(err, context.Canceled) {
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.String("method", m.name), slog.Int64("code", problem.Code), slog.String("fault", string(fault.CodeOf(err)))}
	if problem.Code == jsonrpc.CodeInternal { // others may quote what the client sent
		attrs = append(attrs, slog.Any("error", err))
	}
	p.log.LogAttrs(context.WithoutCancel(ctx), level, "request failed", attrs...)
	r.Fail(problem)
}
