package api

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	plimsoll "github.com/plimsoll-dev/plimsoll"
)

// A spec is openapi.yaml, ready to judge exchanges.
type spec struct {
	doc    *openapi3.T
	router routers.Router
	fine   sync.Map // component and value that was found valid: validating is slow
}

var loadSpecOnce = sync.OnceValues(func() (*spec, error) {
	doc, err := openapi3.NewLoader().LoadFromData(plimsoll.OpenAPI)
	if err != nil {
		return nil, err
	}
	doc.Servers = nil // any host
	r, err := gorillamux.NewRouter(doc)
	return &spec{doc: doc, router: r}, err
})

func loadSpec(t testing.TB) *spec {
	t.Helper()
	s, err := loadSpecOnce()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func init() {
	for _, media := range append([]string{ndjsonType, sseType, "application/yaml"}, importTypes...) {
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.FileBodyDecoder)
	}
	openapi3filter.RegisterBodyDecoder("application/problem+json", openapi3filter.JSONBodyDecoder)
}

// check validates an exchange. A request that was accepted must be one that
// openapi.yaml allows; every answer must be one that it promises.
func (s *spec) check(t testing.TB, req *http.Request, body string, a answer) {
	t.Helper()
	if a.status >= 400 {
		s.checkProblem(t, req, a)
	}
	route, path, err := s.router.FindRoute(req)
	if err != nil {
		if a.status < 400 {
			t.Errorf("%s %s: answered %d, but openapi.yaml does not know it: %v", req.Method, req.URL, a.status, err)
		}
		return
	}
	again := req.Clone(req.Context())
	again.Body = io.NopCloser(strings.NewReader(body))
	in := &openapi3filter.RequestValidationInput{
		Request: again, PathParams: path, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	}
	if a.status < 400 {
		if err := openapi3filter.ValidateRequest(req.Context(), in); err != nil {
			t.Errorf("%s %s %s: accepted, but openapi.yaml forbids it: %v", req.Method, req.URL, body, err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: a.status, Header: a.header, Options: in.Options}
	out.SetBodyBytes(a.body)
	if err := openapi3filter.ValidateResponse(req.Context(), out); err != nil {
		t.Errorf("%s %s: the answer is not what openapi.yaml promises: %v\n%s", req.Method, req.URL, err, a.body)
	}
}

// checkProblem holds for every error, also those of routes that do not exist.
func (s *spec) checkProblem(t testing.TB, req *http.Request, a answer) {
	t.Helper()
	if ct := a.header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("%s %s: error %d has content type %q: %s", req.Method, req.URL, a.status, ct, a.body)
		return
	}
	s.value(t, "Problem", a.body)
	var p Problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Errorf("decode problem: %v", err)
	}
	if p.Status != a.status || p.Detail == "" || p.RequestID == "" || p.RequestID != a.header.Get("X-Request-Id") {
		t.Errorf("%s %s: problem %+v does not match its answer (status %d, request id %q)", req.Method, req.URL, p, a.status, a.header.Get("X-Request-Id"))
	}
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("%s %s: header %s", req.Method, req.URL, name)
		}
	}
}

// value validates JSON against a component.
func (s *spec) value(t testing.TB, component string, data []byte) {
	t.Helper()
	if _, ok := s.fine.Load(component + string(data)); ok {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Errorf("%s: %v in %s", component, err, data)
		return
	}
	schema := s.doc.Components.Schemas[component]
	if schema == nil {
		t.Fatalf("openapi.yaml has no schema %s", component)
	}
	if err := schema.Value.VisitJSON(v, openapi3.EnableJSONSchema2020()); err != nil {
		t.Errorf("%s: %v in %s", component, err, data)
		return
	}
	s.fine.Store(component+string(data), true)
}

func TestSpecIsValid(t *testing.T) {
	if err := loadSpec(t).doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A schema that accepts everything would make every other test of the spec
// worthless, so prove that it bites.
func TestSpecRefusesWhatIsWrong(t *testing.T) {
	s := loadSpec(t)
	for component, wrong := range map[string]string{
		"Problem":         `{"type":"x","title":"","status":400,"detail":"d","code":"nonsense","requestId":"r","data":null}`,
		"ThreadStatus":    `{"type":"idle","more":1}`,
		"ThreadItem":      `{"type":"agentMessage","id":"i"}`,
		"Notification":    `{"method":"thread/deleted","params":{"threadId":"t"},"emittedAtMs":1}`,
		"TurnStartParams": `{"input":"x","more":1}`,
	} {
		var v any
		if err := json.Unmarshal([]byte(wrong), &v); err != nil {
			t.Fatal(err)
		}
		if err := s.doc.Components.Schemas[component].Value.VisitJSON(v, openapi3.EnableJSONSchema2020()); err == nil {
			t.Errorf("%s accepts %s", component, wrong)
		}
	}
}
