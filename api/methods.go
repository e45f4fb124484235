package api

import (
	"context"
	"net/http"
	"reflect"
	"runtime"
	"strings"
)

// A method is one thing that clients can ask for. Its name is that of the
// JSON-RPC method; verb and path are its REST twin.
type method struct {
	name    string
	verb    string
	path    string
	status  int   // of REST's answer
	also    []int // other statuses that a result can have
	params  reflect.Type
	result  reflect.Type
	handler string // name of the Go method whose doc comment describes it
	call    func(s *Server, ctx context.Context, params any) (any, error)

	// serve, if set, answers the REST twin instead of call: its body, or its
	// answer, is not JSON. Accepts and sends are their media types.
	serve   func(s *Server, w http.ResponseWriter, r *http.Request, params any) error
	accepts []string
	sends   []string
}

// methods is everything that can be asked for, and the source of both doors and
// of openapi.yaml. A new method is a line here, its types in types.go and its
// handler.
var methods = []method{
	rpc("thread/start", "POST /v1/threads", http.StatusCreated, (*Server).threadStart),
	rpc("thread/list", "GET /v1/threads", http.StatusOK, (*Server).threadList),
	rpc("thread/read", "GET /v1/threads/{threadId}", http.StatusOK, (*Server).threadRead),
	rpc("thread/delete", "DELETE /v1/threads/{threadId}", http.StatusOK, (*Server).threadDelete),
	rpc("turn/start", "POST /v1/threads/{threadId}/turns", http.StatusAccepted, (*Server).turnStart),
	rpc("turn/interrupt", "POST /v1/threads/{threadId}/turns/{turnId}/interrupt", http.StatusOK, (*Server).turnInterrupt),
	rpc("thread/turns/list", "GET /v1/threads/{threadId}/turns", http.StatusOK, (*Server).turnList),
	rpc("thread/turns/read", "GET /v1/threads/{threadId}/turns/{turnId}", http.StatusOK, (*Server).turnRead),
	rpc("thread/items/list", "GET /v1/threads/{threadId}/items", http.StatusOK, (*Server).itemList),
	rpc("thread/compact/start", "POST /v1/threads/{threadId}/compact", http.StatusAccepted, (*Server).compactStart).or(http.StatusOK),
	rpc("thread/compact/list", "GET /v1/threads/{threadId}/compactions", http.StatusOK, (*Server).compactList),
	rpc("thread/compact/read", "GET /v1/threads/{threadId}/compactions/{compactionId}", http.StatusOK, (*Server).compactRead),
	rpc("thread/context/read", "GET /v1/threads/{threadId}/context", http.StatusOK, (*Server).contextRead),
	rpc("thread/events/read", "GET /v1/threads/{threadId}/events", http.StatusOK, (*Server).threadEventsRead).
		serving((*Server).serveThreadEvents, nil, []string{jsonType, sseType}),
	rpc("events/read", "GET /v1/events", http.StatusOK, (*Server).eventsRead).
		serving((*Server).serveEvents, nil, []string{jsonType, sseType}),
	rpc("provider/list", "GET /v1/providers", http.StatusOK, (*Server).providerList),
	rest[ImportParams, ImportResult]("thread/import", "POST /v1/imports", http.StatusCreated, (*Server).serveImport, importTypes, []string{jsonType}),
	rest[ThreadParams, Empty]("thread/export", "GET /v1/threads/{threadId}/export", http.StatusOK, (*Server).serveExport, nil, []string{ndjsonType}),
}

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
	verb, path, _ := strings.Cut(twin, " ")
	return method{
		name: name, verb: verb, path: path, status: status,
		params: reflect.TypeFor[P](), result: reflect.TypeFor[R](), handler: funcName(h),
	}
}

func (m method) serving(h func(*Server, http.ResponseWriter, *http.Request, any) error, accepts, sends []string) method {
	m.serve, m.accepts, m.sends = h, accepts, sends
	return m
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

// place is where REST takes a field from.
func (m method) place(f field) place {
	switch {
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
