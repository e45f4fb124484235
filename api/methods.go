package api

import (
	"context"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A method is one thing that clients can ask for. Its name is that of the
// JSON-RPC method; verb and path are its REST twin, if it has one.
type method struct {
	name    string
	verb    string // empty: only JSON-RPC has it
	path    string
	status  int   // of REST's answer
	also    []int // other statuses that a result can have
	params  reflect.Type
	result  reflect.Type
	handler string // name of the Go method whose doc comment describes it
	// call is nil for a method that only REST has.
	call func(s *Server, ctx context.Context, params any) (any, error)

	// serve, if set, answers the REST twin instead of call: its body, or its
	// answer, is not JSON. Accepts and sends are their media types.
	serve   func(s *Server, w http.ResponseWriter, r *http.Request, params any) error
	accepts []string
	sends   []string

	// What JSON-RPC has to know about it.

	// need is what the token must allow, if not what mutates says: write or read.
	need Scope
	// mutates: what it causes is told to the caller after the answer.
	mutates bool
	// subscribes: the connection follows the thread of the result, which is a
	// joiner, from then on.
	subscribes bool
	// waits: it may take as long as a turn does, so nothing waits for it.
	waits bool
	// own: it is not codex's, and never needs a capability.
	own bool
	// experimental: in codex it needs capabilities.experimentalApi, and so it does
	// here. Experimental members of its parameters are in experimentalFields.
	experimental bool
	// bare: in codex it has no params; what is sent as such is ignored.
	bare bool
	// missing is the text for a thread that does not exist, in codex's words.
	missing string
}

// methods is everything that can be asked for, and the source of both doors, of
// openapi.yaml and of the tables of docs/wire.md. A new method is a line here, its
// types and its handler. What belongs to a connection is in rpc_methods.go.
var methods = slices.Concat(threadMethods, turnMethods, compactMethods, readMethods, requestMethods, hostMethods, connectionMethods)

// threadMethods make threads, change them and list them.
var threadMethods = []method{
	rpc("thread/start", "POST /v1/threads", http.StatusCreated, (*Server).threadStart).mutating().subscribing(),
	only("thread/resume", (*Server).threadResume).mutating().subscribing().lacking(noRollout),
	rpc("thread/fork", "POST /v1/threads/{threadId}/fork", http.StatusCreated, (*Server).threadFork).mutating().subscribing().lacking(noRollout),
	rpc("thread/list", "GET /v1/threads", http.StatusOK, (*Server).threadList),
	only("thread/loaded/list", (*Server).threadLoaded),
	rpc("thread/read", "GET /v1/threads/{threadId}", http.StatusOK, (*Server).threadRead).lacking(notLoaded),
	rpc("thread/delete", "DELETE /v1/threads/{threadId}", http.StatusOK, (*Server).threadDelete).mutating().lacking(noRollout),
	rpc("thread/name/set", "POST /v1/threads/{threadId}/name", http.StatusOK, (*Server).threadName).mutating(),
	rpc("thread/archive", "POST /v1/threads/{threadId}/archive", http.StatusOK, (*Server).threadArchive).mutating().lacking(noRollout),
	rpc("thread/unarchive", "POST /v1/threads/{threadId}/unarchive", http.StatusOK, (*Server).threadUnarchive).mutating().lacking(noArchived),
	rpc("thread/settings/update", "POST /v1/threads/{threadId}/settings", http.StatusOK, (*Server).threadSettings).mutating().gated(),
	rpc("thread/metadata/update", "POST /v1/threads/{threadId}/metadata", http.StatusOK, (*Server).threadMetadata).mutating(),
	rpc("thread/revert", "POST /v1/threads/{threadId}/revert", http.StatusOK, (*Server).threadRevert).mutating(),
	only("thread/inject_items", (*Server).threadInject).mutating(),
	rest[ImportParams, ImportResult]("thread/import", "POST /v1/imports", http.StatusCreated, (*Server).serveImport, importTypes, []string{jsonType}).needing(ScopeWrite | ScopeApprove),
	rest[ThreadParams, Empty]("thread/export", "GET /v1/threads/{threadId}/export", http.StatusOK, (*Server).serveExport, nil, []string{ndjsonType}),
}

// turnMethods say something to a thread.
var turnMethods = []method{
	rpc("turn/start", "POST /v1/threads/{threadId}/turns", http.StatusAccepted, (*Server).turnStart).mutating(),
	only("turn/steer", (*Server).turnSteer).mutating(),
	rpc("turn/interrupt", "POST /v1/threads/{threadId}/turns/{turnId}/interrupt", http.StatusOK, (*Server).turnInterrupt).mutating(),
	rpc("thread/compact/start", "POST /v1/threads/{threadId}/compact", http.StatusAccepted, (*Server).compactStart).or(http.StatusOK).mutating().waiting(),
	only("thread/shellCommand", (*Server).shellCommand).mutating(),
	rpc("thread/queue/list", "GET /v1/threads/{threadId}/queue", http.StatusOK, (*Server).queueList).gated(),
	rpc("thread/queue/delete", "DELETE /v1/threads/{threadId}/queue/{queuedSubmissionId}", http.StatusOK, (*Server).queueDelete).mutating().gated(),
}

// compactMethods are about compactions, and about what survives them.
var compactMethods = []method{
	rpc("thread/compact/preview", "POST /v1/threads/{threadId}/compact/preview", http.StatusOK, (*Server).compactPreview).waiting().ours(),
	rpc("thread/compact/cancel", "POST /v1/threads/{threadId}/compactions/{compactionId}/cancel", http.StatusOK, (*Server).compactCancel).mutating().waiting().ours(),
	rpc("thread/compact/undo", "POST /v1/threads/{threadId}/compactions/{compactionId}/undo", http.StatusOK, (*Server).compactUndo).mutating().ours(),
	rpc("thread/context/search", "GET /v1/threads/{threadId}/context/search", http.StatusOK, (*Server).contextSearch).waiting().ours(),
	rpc("thread/pin/add", "POST /v1/threads/{threadId}/pins", http.StatusOK, (*Server).pinAdd).mutating().ours(),
	rpc("thread/pin/list", "GET /v1/threads/{threadId}/pins", http.StatusOK, (*Server).pinList).ours(),
	rpc("thread/pin/remove", "DELETE /v1/threads/{threadId}/pins/{pinId}", http.StatusOK, (*Server).pinRemove).mutating().ours(),
}

// readMethods tell what happened in a thread.
var readMethods = []method{
	rpc("thread/turns/list", "GET /v1/threads/{threadId}/turns", http.StatusOK, (*Server).turnList).lacking(notLoaded),
	rpc("thread/turns/read", "GET /v1/threads/{threadId}/turns/{turnId}", http.StatusOK, (*Server).turnRead).ours(),
	rpc("thread/items/list", "GET /v1/threads/{threadId}/items", http.StatusOK, (*Server).itemList).lacking(notLoaded),
	rpc("thread/compact/list", "GET /v1/threads/{threadId}/compactions", http.StatusOK, (*Server).compactList).ours(),
	rpc("thread/compact/read", "GET /v1/threads/{threadId}/compactions/{compactionId}", http.StatusOK, (*Server).compactRead).ours(),
	rpc("thread/context/read", "GET /v1/threads/{threadId}/context", http.StatusOK, (*Server).contextRead).ours(),
	rpc("thread/events/read", "GET /v1/threads/{threadId}/events", http.StatusOK, (*Server).threadEventsRead).
		serving((*Server).serveThreadEvents, nil, []string{jsonType, sseType}).ours(),
	rpc("events/read", "GET /v1/events", http.StatusOK, (*Server).eventsRead).
		serving((*Server).serveEvents, nil, []string{jsonType, sseType}).ours(),
}

// requestMethods are about what the server asks.
var requestMethods = []method{
	rpc("thread/request/list", "GET /v1/threads/{threadId}/requests", http.StatusOK, (*Server).requestList).ours(),
	rpc("thread/request/answer", "POST /v1/threads/{threadId}/requests/{requestId}/answer", http.StatusOK, (*Server).requestAnswer).mutating().needing(ScopeApprove).ours(),
}

// hostMethods are about the server itself. Those that answer emptily are asked by
// codex's clients when they start; see coverage.go.
var hostMethods = []method{
	rpc("provider/list", "GET /v1/providers", http.StatusOK, (*Server).providerList).ours(),
	only("account/read", (*Server).accountRead),
	only("model/list", (*Server).modelList),
	only("config/read", (*Server).configRead),
	only("configRequirements/read", (*Server).requirementsRead).without(),
	only("skills/list", (*Server).nothing),
	only("hooks/list", (*Server).nothing),
	only("collaborationMode/list", (*Server).collaborationModes).gated(),
	only("plugin/installed", (*Server).plugins),
	only("plugin/list", (*Server).plugins),
	only("app/list", (*Server).nothing),
	only("app/installed", (*Server).apps),
	only("mcpServerStatus/list", (*Server).nothing),
	only("permissionProfile/list", (*Server).permissionProfiles),
	only("experimentalFeature/list", (*Server).nothing),
	only("threadSection/list", (*Server).nothing),
	only("project/list", (*Server).nothing).gated(),
	only("thread/goal/get", (*Server).goalGet),
	only("thread/backgroundTerminals/list", (*Server).nothingOfThread).gated(),
	only("thread/attachment/list", (*Server).nothing),
	only("account/bedrock/checkGovCloudRequirements", (*Server).govCloud).gated(),
}

// codex's texts for a thread that is not there (codex 0.171, observed).
const (
	notLoaded  = "thread not loaded: "
	noRollout  = "no rollout found for thread id "
	noArchived = "no archived rollout found for thread id "
)

// Media types of bodies.
const (
	jsonType   = "application/json"
	sseType    = "text/event-stream"
	ndjsonType = "application/x-ndjson"
)

// importTypes are what a session file may be declared as; its content decides
// what it is.
var importTypes = []string{ndjsonType, "application/jsonl", "application/gzip", "application/octet-stream"}

// rpc is a method that both doors serve alike.
func rpc[P, R any](name, twin string, status int, h func(*Server, context.Context, *P) (*R, error)) method {
	m := describe[P, R](name, twin, status, h)
	m.call = func(s *Server, ctx context.Context, params any) (any, error) {
		return h(s, ctx, params.(*P))
	}
	return m
}

// rest is a method that only REST has.
func rest[P, R any](name, twin string, status int, h func(*Server, http.ResponseWriter, *http.Request, any) error, accepts, sends []string) method {
	m := describe[P, R](name, twin, status, h)
	return m.serving(h, accepts, sends)
}

func describe[P, R any](name, twin string, status int, h any) method {
	verb, path, _ := strings.Cut(twin, " ") // both empty without a twin
	return method{
		name: name, verb: verb, path: path, status: status,
		params: reflect.TypeFor[P](), result: reflect.TypeFor[R](), handler: funcName(h),
	}
}

func (m method) serving(h func(*Server, http.ResponseWriter, *http.Request, any) error, accepts, sends []string) method {
	m.serve, m.accepts, m.sends = h, accepts, sends
	return m
}

// only is a method that only JSON-RPC has.
func only[P, R any](name string, h func(*Server, context.Context, *P) (*R, error)) method {
	return rpc(name, "", 0, h)
}

func (m method) mutating() method { m.mutates = true; return m }

func (m method) subscribing() method { m.subscribes = true; return m }

func (m method) waiting() method { m.waits = true; return m }

func (m method) ours() method { m.own = true; return m }

func (m method) gated() method { m.experimental = true; return m }

func (m method) without() method { m.bare = true; return m }

func (m method) lacking(text string) method { m.missing = text; return m }

// methodNamed returns a method that JSON-RPC serves.
func methodNamed(name string) (method, bool) {
	i := slices.IndexFunc(methods, func(m method) bool { return m.name == name && m.call != nil })
	if i < 0 {
		return method{}, false
	}
	return methods[i], true
}

// A joiner is the result of a method that subscribes.
type joiner interface{ joined() joining }

// A joining is what a connection follows, from where, and what it is told first.
type joining struct {
	thread transcript.ThreadID
	// after is the position to follow from; nil is the beginning.
	after *events.Cursor
	// usage and requests are sent before what follows: the newest token counts, and
	// what waits for an answer.
	usage    *threads.UsageUpdated
	requests []threads.Request
	// earlier are requests that wait and whose event may be before after.
	earlier []threads.Request
}

func (m method) or(status int) method {
	m.also = append(m.also, status)
	return m
}

// funcName is the name of a method expression such as (*Server).threadStart.
func funcName(h any) string {
	full := runtime.FuncForPC(reflect.ValueOf(h).Pointer()).Name()
	return full[strings.LastIndexByte(full, '.')+1:]
}

// place is where REST takes a field from; inRPC if it does not.
func (m method) place(f field) place {
	switch {
	case f.in == inRPC || m.verb == "":
		return inRPC
	case f.in == inPath && !strings.Contains(m.path, "{"+f.name+"}"):
		panic("api: " + m.path + " lacks {" + f.name + "}")
	case f.in != "":
		return f.in
	case m.verb == http.MethodPost:
		return inBody
	}
	return inQuery
}

// fieldsIn returns the fields of the parameters that REST takes from one of
// places.
func (m method) fieldsIn(places ...place) []field {
	var in []field
	for _, f := range fieldsOf(m.params) {
		for _, p := range places {
			if m.place(f) == p {
				in = append(in, f)
			}
		}
	}
	return in
}
