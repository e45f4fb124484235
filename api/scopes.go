package api

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// A Scope is what a token lets its bearer do, in any combination. It is a matter of
// the server alone: nothing that a client says of itself widens it.
type Scope uint8

// The scopes. Who may write or approve may read as well, because the answers of what
// is done hold what there is.
const (
	// ScopeRead is to see threads, and everything in them.
	ScopeRead Scope = 1 << iota
	// ScopeWrite is to make threads, to say something in them and to change them.
	ScopeWrite
	// ScopeApprove is to answer what an agent asks for, and whatever lets it go on
	// without asking: approval policies, sandboxes, and threads that bring their own.
	ScopeApprove
	// ScopeAdmin is to operate the server. It includes the others.
	ScopeAdmin

	// AllScopes is what the owner's token, and whoever needs none, may do.
	AllScopes = ScopeRead | ScopeWrite | ScopeApprove | ScopeAdmin
)

var scopeNames = []string{"read", "write", "approve", "admin"}

// ParseScope reads names, separated by commas.
func ParseScope(names string) (Scope, error) {
	var s Scope
	for name := range strings.SplitSeq(names, ",") {
		i := slices.Index(scopeNames, strings.TrimSpace(name))
		if i < 0 {
			return 0, fmt.Errorf("there is no scope %q; there are %s", clip(name), strings.Join(scopeNames, ", "))
		}
		s |= 1 << i
	}
	return s, nil
}

// String names the scopes as ParseScope reads them.
func (s Scope) String() string {
	var names []string
	for i, name := range scopeNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// Allows reports whether s includes everything that is needed.
func (s Scope) Allows(need Scope) bool {
	switch {
	case s&ScopeAdmin != 0:
		s = AllScopes
	case s&(ScopeWrite|ScopeApprove) != 0:
		s |= ScopeRead
	}
	return s&need == need
}

// scopeKey is the key of the scope of a connection in its context.
type scopeKey struct{}

// scopeOf is what a request may do: what the token allows that it, or its connection,
// came with. On a door that asks for no token that is everything.
func scopeOf(ctx context.Context) Scope {
	if s, ok := ctx.Value(scopeKey{}).(Scope); ok {
		return s
	}
	if p := visitOf(ctx).pass; p != nil {
		return p.scope
	}
	return AllScopes
}

// needing is for methods that need something else than what they change says.
func (m method) needing(s Scope) method { m.need = s; return m }

// scope is what a method needs.
func (m method) scope() Scope {
	switch {
	case m.need != 0:
		return m.need
	case m.mutates:
		return ScopeWrite
	}
	return ScopeRead
}

// permitted returns the parameters of a request whose bearer may make it. What is not
// allowed is refused before anything else is looked at.
func permitted(ctx context.Context, m method, decode func() (any, error)) (any, error) {
	if need := m.scope(); !scopeOf(ctx).Allows(need) {
		return nil, forbidden(ctx, need, m.name)
	}
	params, err := decode()
	if err == nil {
		err = permitParams(ctx, m, params)
	}
	return params, err
}

// loosening are the parameters that decide what an agent does without asking.
var loosening = []string{"approvalPolicy", "sandbox", "sandboxPolicy", "permissions"}

// permitParams refuses parameters that the bearer of a request may not set.
func permitParams(ctx context.Context, m method, params any) error {
	if scopeOf(ctx).Allows(ScopeApprove) {
		return nil
	}
	v := reflect.ValueOf(params).Elem()
	for _, f := range fieldsOf(m.params) {
		if slices.Contains(loosening, f.name) && !v.FieldByIndex(f.index).IsZero() {
			return forbidden(ctx, ScopeApprove, "`"+f.name+"`")
		}
	}
	return nil
}

func forbidden(ctx context.Context, need Scope, what string) error {
	return refuse(http.StatusForbidden, fault.Denied, "%s needs the scope %s, and this token has %s: use another token", what, need, scopeOf(ctx)).
		with("WWW-Authenticate", `Bearer realm="plimsoll", error="insufficient_scope", scope="`+strings.ReplaceAll(need.String(), ",", " ")+`"`)
}
