// Package codexschema judges frames by the protocol of the codex that is
// installed: what `codex app-server generate-json-schema --experimental` prints.
// It exists for tests.
//
// Guarantees:
//
//   - A frame that codex knows is judged by codex's own schema, in both directions:
//     requests, notifications, results and errors of either side.
//   - A frame of the server is also judged by openapi.yaml, as far as that has it:
//     every notification, and every result of a method with a REST twin. There
//     everything is closed, so a member that nobody described is found.
//   - A name that is neither codex's nor this server's is an error.
//   - Without codex nothing is judged and nothing passes: Load skips the test, or
//     fails it where codex must be, and says how to get it.
package codexschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"

	plimsoll "github.com/plimsoll-dev/plimsoll"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/clis"
)

// Direction says who sent a frame.
type Direction int

// The directions.
const (
	FromClient Direction = iota
	FromServer
)

// A Schema is the protocol of one codex.
type Schema struct {
	Version string // of codex, as it says it

	told    map[string]*openapi3.Schema // by notification, of openapi.yaml
	answers map[string]*openapi3.Schema // by method, of openapi.yaml
	stable  map[string]object           // params of the client's requests without --experimental
	files   map[string]*jsonschema.Schema

	mu       sync.Mutex      // guards what follows
	own      map[string]bool // methods and notifications that neither codex nor openapi.yaml has
	families map[string]*family
}

type object = map[string]any

// A family is one of codex's unions of messages.
type family struct {
	doc    object
	at     map[string]int // position of a method in the union
	names  []string
	parsed map[string]*jsonschema.Schema
}

// The unions.
const (
	clientRequests      = "ClientRequest"
	clientNotifications = "ClientNotification"
	serverRequests      = "ServerRequest"
	serverNotifications = "ServerNotification"
)

var once struct {
	sync.Mutex
	schema *Schema
	err    error
}

// Load returns the schema of the installed codex, made once per run of a test
// binary. Without codex it ends the test: see clis.Codex.
func Load(t testing.TB) *Schema {
	t.Helper()
	path := clis.Codex(t)
	once.Lock()
	defer once.Unlock()
	if once.schema == nil && once.err == nil {
		once.schema, once.err = generate(path)
	}
	if once.err != nil {
		t.Fatal(once.err)
	}
	return once.schema
}

// generate lets codex print its schemas and reads all of them.
func generate(path string) (s *Schema, err error) {
	dir, err := os.MkdirTemp("", "codexschema-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	run := func(args ...string) (string, error) {
		cmd := exec.Command(path, args...)
		cmd.Env = append(os.Environ(), "CODEX_HOME="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("codexschema: %s %s: %w\n%s", path, strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out)), nil
	}
	all, stable := filepath.Join(dir, "all"), filepath.Join(dir, "stable")
	s = &Schema{own: map[string]bool{}, families: map[string]*family{}, files: map[string]*jsonschema.Schema{}}
	if s.Version, err = run("--version"); err != nil {
		return nil, err
	}
	if _, err := run("app-server", "generate-json-schema", "--experimental", "--out", all); err != nil {
		return nil, err
	}
	if _, err := run("app-server", "generate-json-schema", "--out", stable); err != nil {
		return nil, err
	}
	if err := s.describe(); err != nil {
		return nil, err
	}
	return s, s.read(all, stable)
}

// describe reads what openapi.yaml says of notifications and results.
func (s *Schema) describe() error {
	doc, err := openapi3.NewLoader().LoadFromData(plimsoll.OpenAPI)
	if err != nil {
		return err
	}
	s.told, s.answers = map[string]*openapi3.Schema{}, map[string]*openapi3.Schema{}
	for _, v := range doc.Components.Schemas["Notification"].Value.OneOf {
		s.told[v.Value.Properties["method"].Value.Const.(string)] = v.Value
	}
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			for status, r := range op.Responses.Map() {
				if media := r.Value.Content["application/json"]; strings.HasPrefix(status, "2") && media != nil {
					s.answers[op.OperationID] = media.Schema.Value
				}
			}
		}
	}
	return nil
}

// read compiles everything, since the files are gone afterwards.
func (s *Schema) read(dir, stable string) error {
	for _, name := range []string{clientRequests, clientNotifications, serverRequests, serverNotifications} {
		f, err := readFamily(filepath.Join(dir, name+".json"))
		if err != nil {
			return err
		}
		s.families[name] = f
	}
	plain, err := readFamily(filepath.Join(stable, clientRequests+".json"))
	if err != nil {
		return err
	}
	s.stable = map[string]object{}
	for _, m := range plain.names {
		s.stable[m] = plain.params(m)
	}
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		name := d.Name()
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "Response.json") && !strings.HasPrefix(name, "JSONRPC") {
			return err
		}
		doc, err := readDoc(path)
		if err != nil {
			return err
		}
		s.files[strings.TrimSuffix(name, ".json")], err = compile(doc, "")
		return err
	})
}

func readDoc(path string) (any, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(b))
}

func readFamily(path string) (*family, error) {
	doc, err := readDoc(path)
	if err != nil {
		return nil, err
	}
	f := &family{doc: doc.(object), at: map[string]int{}, parsed: map[string]*jsonschema.Schema{}}
	for i, v := range f.doc["oneOf"].([]any) {
		name := v.(object)["properties"].(object)["method"].(object)["enum"].([]any)[0].(string)
		f.at[name], f.names = i, append(f.names, name)
	}
	return f, nil
}

// compile compiles the part of a document that a pointer names.
func compile(doc any, pointer string) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	const url = "mem:///schema.json"
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	return c.Compile(url + "#" + pointer)
}

// variant returns the schema of the messages of a method.
func (s *Schema) variant(union, method string) (*jsonschema.Schema, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.families[union]
	i, known := f.at[method]
	if !known {
		return nil, false, nil
	}
	if f.parsed[method] == nil {
		c, err := compile(f.doc, fmt.Sprintf("/oneOf/%d", i))
		if err != nil {
			return nil, true, fmt.Errorf("codexschema: %s %s: %w", union, method, err)
		}
		f.parsed[method] = c
	}
	return f.parsed[method], true, nil
}

// params returns the schema of the parameters of a method; nil if it has none.
func (f *family) params(method string) object {
	p, _ := f.doc["oneOf"].([]any)[f.at[method]].(object)["properties"].(object)["params"].(object)
	if ref := refName(p); ref != "" {
		return f.doc["definitions"].(object)[ref].(object)
	}
	return p
}

// refName is the definition that a schema, or a nullable one, refers to.
func refName(p object) string {
	if ref, ok := p["$ref"].(string); ok {
		return strings.TrimPrefix(ref, "#/definitions/")
	}
	some, _ := p["anyOf"].([]any)
	for _, v := range some {
		if name := refName(v.(object)); name != "" {
			return name
		}
	}
	return ""
}

// Methods lists the requests of clients, in codex's order.
func (s *Schema) Methods() []string { return slices.Clone(s.families[clientRequests].names) }

// Names lists everything that codex has a name for: requests and notifications of
// both sides.
func (s *Schema) Names() []string {
	var all []string
	for _, f := range s.families {
		all = append(all, f.names...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Experimental reports whether a request of clients needs
// capabilities.experimentalApi, and which members of its parameters do, sorted.
func (s *Schema) Experimental(method string) (whole bool, members []string) {
	plain, known := s.stable[method]
	if !known {
		return true, nil
	}
	before, _ := plain["properties"].(object)
	after, _ := s.families[clientRequests].params(method)["properties"].(object)
	for name := range after {
		if before[name] == nil {
			members = append(members, name)
		}
	}
	slices.Sort(members)
	return false, members
}

// Own names methods and notifications of this server that openapi.yaml does not
// have, since only JSON-RPC does.
func (s *Schema) Own(names ...string) *Schema {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		s.own[n] = true
	}
	return s
}

// frame is any message.
type frame struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// Validate judges a frame. Method is that of the request that the frame answers,
// and empty for requests and notifications.
func (s *Schema) Validate(d Direction, data []byte, method string) error {
	var f frame
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("codexschema: no JSON object: %w in %s", err, clip(data))
	}
	var err error
	switch {
	case f.Method != nil && f.ID != nil:
		err = s.request(d, data, *f.Method)
	case f.Method != nil:
		err = s.notification(d, data, *f.Method)
	case f.Error != nil:
		err = s.file("JSONRPCError", data)
	case f.Result != nil && f.ID != nil:
		err = s.result(d, f.Result, method)
	default:
		err = errors.New("it is neither a request nor a notification nor an answer")
	}
	if err != nil {
		return fmt.Errorf("codexschema: %w\nin %s", err, clip(data))
	}
	return nil
}

func (s *Schema) request(d Direction, data []byte, method string) error {
	union := clientRequests
	if d == FromServer {
		union = serverRequests
	}
	schema, known, err := s.variant(union, method)
	switch {
	case err != nil:
		return err
	case known:
		return check(schema, data)
	case d == FromClient && s.ours(method):
		return s.file("JSONRPCRequest", data)
	}
	return fmt.Errorf("nobody knows the request %q", method)
}

func (s *Schema) notification(d Direction, data []byte, method string) error {
	union := clientNotifications
	if d == FromServer {
		union = serverNotifications
	}
	schema, known, err := s.variant(union, method)
	if err == nil && known {
		err = check(schema, data)
	}
	if err != nil || d == FromClient && known {
		return err
	}
	if d == FromClient {
		return fmt.Errorf("nobody knows the notification %q", method)
	}
	if schema := s.told[method]; schema != nil {
		return visit(schema, data)
	}
	if known || s.isOwn(method) {
		return nil // it belongs to a connection, and no journal has it
	}
	return fmt.Errorf("nobody knows the notification %q", method)
}

func (s *Schema) isOwn(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own[name]
}

// ours reports whether a method is this server's.
func (s *Schema) ours(method string) bool {
	return s.isOwn(method) || s.answers[method] != nil
}

// exceptions are results whose names do not follow from those of the parameters.
var exceptions = map[string]string{"configRequirements/read": "ConfigRequirementsReadResponse"}

func (s *Schema) result(d Direction, data []byte, method string) error {
	union := clientRequests
	if d == FromClient {
		union = serverRequests
	}
	if _, known := s.families[union].at[method]; known {
		name := exceptions[method]
		if name == "" {
			p := s.families[union].doc["oneOf"].([]any)[s.families[union].at[method]].(object)["properties"].(object)["params"].(object)
			name = strings.TrimSuffix(refName(p), "Params") + "Response"
		}
		if err := s.file(name, data); err != nil {
			return fmt.Errorf("result of %s: %w", method, err)
		}
	} else if !s.ours(method) {
		return fmt.Errorf("nobody knows the method %q that this answers", method)
	}
	if schema := s.answers[method]; schema != nil && d == FromServer {
		if err := visit(schema, data); err != nil {
			return fmt.Errorf("result of %s: %w", method, err)
		}
	}
	return nil
}

func (s *Schema) file(name string, data []byte) error {
	schema := s.files[name]
	if schema == nil {
		return fmt.Errorf("codex prints no schema %s", name)
	}
	return check(schema, data)
}

func check(schema *jsonschema.Schema, data []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

func visit(schema *openapi3.Schema, data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return err
	}
	if err := schema.VisitJSON(v, openapi3.EnableJSONSchema2020()); err != nil {
		return fmt.Errorf("openapi.yaml: %w", err)
	}
	return nil
}

// clip bounds what an error repeats of a frame.
func clip(data []byte) string {
	const most = 4000
	if len(data) > most {
		return string(data[:most]) + "…"
	}
	return string(data)
}
