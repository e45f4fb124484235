package main

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
)

const about = `Hosts threads of agents of many providers behind one wire, and keeps each one's context under the load line of its model.

Every request but the health checks carries the server's token. Every error is application/problem+json. Parameters are checked to the letter: an unknown member, a member twice or a wrong type is refused, never guessed at. The same methods are served over JSON-RPC under their operationId.`

// document is openapi.yaml.
func document(src *source) (object, error) {
	sch := newSchemas(src)
	paths, err := sch.paths()
	if err != nil {
		return nil, err
	}
	sch.ref(reflect.TypeFor[api.Problem]())
	sch.ref(reflect.TypeFor[protocol.Notification]())
	sch.ref(reflect.TypeFor[api.CompactStartResult]())
	if sch.err != nil {
		return nil, sch.err
	}
	return object{
		{"openapi", "3.1.0"},
		{"info", object{{"title", "Plimsoll"}, {"version", "v1"}, {"description", about}, {"license", object{{"name", "See LICENSE"}, {"url", "https://github.com/plimsoll-dev/plimsoll"}}}}},
		{"servers", []any{object{{"url", "http://127.0.0.1:4517"}}}},
		{"security", []any{object{{"token", []any{}}}}},
		{"paths", paths},
		{"components", object{
			{"securitySchemes", object{{"token", object{{"type", "http"}, {"scheme", "bearer"}, {"description", "The token that the server made on its first start."}}}}},
			{"responses", object{{"Problem", object{
				{"description", "What was wrong, and what is allowed."},
				{"content", object{{"application/problem+json", object{{"schema", refTo("Problem")}}}}},
			}}}},
			{"schemas", sch.components()},
		}},
	}, nil
}

// paths groups the operations by path, in the order of the table.
func (s *schemas) paths() (object, error) {
	var paths object
	add := func(path, verb string, op object) {
		verb = strings.ToLower(verb)
		for i := range paths {
			if paths[i].key == path {
				paths[i].val = append(paths[i].val.(object), pair{verb, op})
				return
			}
		}
		paths = append(paths, pair{path, object{{verb, op}}})
	}
	for _, op := range api.Operations() {
		o, err := s.operation(op)
		if err != nil {
			return nil, err
		}
		add(op.Path, op.Verb, o)
	}
	empty := s.of(reflect.TypeFor[api.Empty]())
	add("/openapi.yaml", "GET", door("door/openapi", "This description.", "application/yaml", object{{"type", "string"}}, false))
	add("/healthz", "GET", door("door/health", "The server answers.", "application/json", empty, true))
	add("/readyz", "GET", door("door/ready", "The journal can be read.", "application/json", empty, true))
	return paths, nil
}

// door is a route that is no method.
func door(id, doc, media string, schema object, open bool) object {
	o := object{{"operationId", id}, {"summary", doc}}
	if open {
		o = append(o, pair{"security", []any{}})
	}
	return append(o, pair{"responses", object{
		{"200", object{{"description", doc}, {"content", object{{media, object{{"schema", schema}}}}}}},
		{"default", problem()},
	}})
}

func problem() object { return object{{"$ref", "#/components/responses/Problem"}} }

func (s *schemas) operation(op api.Operation) (object, error) {
	p, err := s.src.pkg(module + "/api")
	if err != nil {
		return nil, err
	}
	doc := prose(op.Handler, p.funcs[op.Handler])
	o := object{{"operationId", op.Name}, {"summary", sentence(doc)}, {"description", doc}}
	if params := s.parameters(op); len(params) > 0 {
		o = append(o, pair{"parameters", params})
	}
	if len(op.Accepts) > 0 {
		o = append(o, pair{"requestBody", s.requestBody(op)})
	}
	responses := object{}
	for _, status := range op.Statuses {
		responses = append(responses, pair{strconv.Itoa(status), object{
			{"description", http.StatusText(status) + "."}, {"content", s.answer(op)},
		}})
	}
	return append(o, pair{"responses", append(responses, pair{"default", problem()})}), nil
}

func sentence(doc string) string {
	first, _, found := strings.Cut(doc, ". ")
	if found {
		first += "."
	}
	return first
}

func (s *schemas) parameters(op api.Operation) []any {
	var list []any
	for _, p := range op.Params {
		name := p.Name
		if p.In == "header" {
			name = p.HeaderKey
		}
		o := object{{"name", name}, {"in", p.In}}
		if p.In == "path" {
			o = append(o, pair{"required", true})
		}
		doc, err := s.src.fieldDoc(p.GoType, p.GoField)
		s.note(err)
		if doc != "" {
			o = append(o, pair{"description", doc})
		}
		list = append(list, append(o, pair{"schema", s.parameter(p)}))
	}
	return list
}

func (s *schemas) parameter(p api.Parameter) object {
	t := p.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	o := constrained(s.of(t), t, p)
	if p.In == "header" {
		o = append(o, pair{"minLength", 1}, pair{"pattern", "^[!-~]+$"})
	}
	return o
}

// requestBody describes the body. A JSON body is an object of its own, closed,
// without what the path, the query and the headers say.
func (s *schemas) requestBody(op api.Operation) object {
	content := object{}
	for _, media := range op.Accepts {
		schema := object{{"type", "string"}, {"format", "binary"}}
		if op.BodyType != nil {
			schema = s.bodySchema(op)
		}
		content = append(content, pair{media, object{{"schema", schema}}})
	}
	return object{{"required", true}, {"content", content}}
}

func (s *schemas) bodySchema(op api.Operation) object {
	name := op.BodyType.Name()
	if len(op.Body) == 0 {
		return s.of(reflect.TypeFor[api.Empty]())
	}
	props, required := object{}, []any{}
	for _, p := range op.Body {
		o := s.parameter(p)
		if !p.Required {
			o = nullable(o)
			o = nullableEnum(o)
		} else {
			required = append(required, p.Name)
		}
		doc, err := s.src.fieldDoc(p.GoType, p.GoField)
		s.note(err)
		props = append(props, pair{p.Name, described(o, doc)})
	}
	doc, err := s.src.typeDoc(op.BodyType)
	s.note(err)
	s.byKey[name] = append(object{{"type", "object"}, {"description", doc}}, closed(props, required)...)
	s.owner[name] = op.BodyType
	return refTo(name)
}

// nullableEnum lets null through where a list of values would not.
func nullableEnum(o object) object {
	for i, p := range o {
		if vals, ok := p.val.([]any); ok && p.key == "enum" {
			o[i].val = append(append([]any{}, vals...), null{})
		}
	}
	return o
}

// null is YAML's null.
type null struct{}

// String is what yaml writes.
func (null) String() string { return "null" }

// answer describes the bodies of an answer that is no problem.
func (s *schemas) answer(op api.Operation) object {
	content := object{}
	for _, media := range op.Sends {
		schema := object{{"type", "string"}}
		switch media {
		case "application/json":
			schema = s.of(op.Result)
		case "text/event-stream":
			schema = append(schema, pair{"description", "Each data line is one Notification; id is the cursor to resume from."})
		case "application/x-ndjson":
			schema = append(schema, pair{"description", "One JSON value a line."})
		}
		content = append(content, pair{media, object{{"schema", schema}}})
	}
	return content
}
