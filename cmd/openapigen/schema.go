package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
)

// schemas collects the component schemas that a document refers to.
type schemas struct {
	src   *source
	byKey map[string]object
	owner map[string]reflect.Type // of a component's name
	err   error                   // the first one
}

func newSchemas(src *source) *schemas {
	return &schemas{src: src, byKey: map[string]object{}, owner: map[string]reflect.Type{}}
}

func (s *schemas) note(err error) {
	if s.err == nil {
		s.err = err
	}
}

// of returns the schema of a value of type t as it encodes, a reference if t has
// a name.
func (s *schemas) of(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return object{{"type", anys(split("object,array,string,number,boolean,null"))}, {"description", "Any JSON value."}}
	case t.Kind() == reflect.Pointer:
		return nullable(s.of(t.Elem()))
	case t == reflect.TypeFor[api.Texts]():
		return object{{"type", "string"}} // a list of them is only on JSON-RPC
	case t.PkgPath() != "":
		return s.ref(t)
	}
	switch t.Kind() {
	case reflect.String:
		return object{{"type", "string"}}
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.Int, reflect.Int64:
		return object{{"type", "integer"}, {"format", "int64"}}
	case reflect.Float64:
		return object{{"type", "number"}, {"format", "double"}}
	case reflect.Slice:
		return object{{"type", "array"}, {"items", s.of(t.Elem())}}
	case reflect.Map:
		return object{{"type", "object"}, {"additionalProperties", s.of(t.Elem())}}
	}
	s.note(fmt.Errorf("no schema for %s", t))
	return nil
}

// nullable allows null beside what a schema allows.
func nullable(o object) object {
	if len(o) > 0 && o[0].key == "type" {
		if _, already := o[0].val.([]any); already {
			return o
		}
		o = slices.Clone(o)
		o[0].val = []any{o[0].val, "null"}
		return o
	}
	if len(o) > 0 && o[0].key == "$ref" {
		return object{{"anyOf", []any{o, object{{"type", "null"}}}}}
	}
	return o
}

// componentName is the type's name, with its package's unless that is one of the
// door's own.
func componentName(t reflect.Type) string {
	pkg := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
	if pkg == "api" || pkg == "protocol" {
		return t.Name()
	}
	return strings.ToUpper(pkg[:1]) + pkg[1:] + t.Name()
}

func (s *schemas) ref(t reflect.Type) object {
	name := componentName(t)
	if _, ok := s.byKey[name]; !ok {
		s.owner[name] = t
		s.byKey[name] = nil // for types that contain themselves
		s.byKey[name] = s.component(t)
	}
	if s.owner[name] != t {
		s.note(fmt.Errorf("two types are called %s: %s and %s", name, s.owner[name], t))
	}
	return refTo(name)
}

func refTo(name string) object { return object{{"$ref", "#/components/schemas/" + name}} }

// component returns the schema of a named type.
func (s *schemas) component(t reflect.Type) object {
	doc, err := s.src.typeDoc(t)
	s.note(err)
	o := object{}
	if doc != "" {
		o = append(o, pair{"description", doc})
	}
	switch {
	case t == reflect.TypeFor[protocol.ThreadItem]():
		return append(o, pair{"oneOf", s.variants()})
	case t == reflect.TypeFor[protocol.Notification]():
		return append(o, pair{"oneOf", s.notifications()})
	case t == reflect.TypeFor[api.Input]():
		return append(o, pair{"oneOf", []any{
			object{{"type", "string"}, {"minLength", 1}},
			object{{"type", "array"}, {"items", s.of(t.Elem())}, {"minItems", 1}, {"maxItems", 64}},
		}})
	case t.Kind() == reflect.String:
		vals, err := s.src.values(t)
		s.note(err)
		o = append(object{{"type", "string"}}, o...)
		if len(vals) > 0 {
			o = append(o, pair{"enum", anys(vals)})
		}
		return o
	case t.Kind() == reflect.Struct:
		return append(append(object{{"type", "object"}}, o...), s.members(t)...)
	}
	s.note(fmt.Errorf("no schema for %s", t))
	return nil
}

// members returns the keywords of a struct: closed, with everything required that
// is always written.
func (s *schemas) members(t reflect.Type) object {
	props, required := object{}, []any{}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		decl := t
		for _, i := range f.Index[:len(f.Index)-1] {
			decl = decl.Field(i).Type
		}
		props = append(props, pair{name, s.property(decl, f, opts == "omitempty")})
		if opts != "omitempty" {
			required = append(required, name)
		}
	}
	return closed(props, required)
}

func closed(props object, required []any) object {
	o := object{{"additionalProperties", false}}
	if len(required) > 0 {
		o = append(o, pair{"required", required})
	}
	return append(o, pair{"properties", props})
}

func (s *schemas) property(decl reflect.Type, f reflect.StructField, optional bool) object {
	t := f.Type
	if optional && t.Kind() == reflect.Pointer {
		t = t.Elem() // absent, never null
	}
	o := s.of(t)
	if f.Tag.Get("nullable") != "" {
		o = nullable(o)
	}
	foreign := !strings.HasPrefix(decl.PkgPath(), module+"/api")
	if foreign && (t.Kind() == reflect.Slice || t.Kind() == reflect.Map) && t != reflect.TypeFor[json.RawMessage]() {
		o = nullable(o) // only the door makes sure that lists are never nil
	}
	if c := f.Tag.Get("const"); c != "" {
		o = object{{"type", "string"}, {"const", c}}
	}
	o = constrained(o, t, api.Parameter{Enum: split(f.Tag.Get("enum")), Min: number(f.Tag.Get("min")), Max: number(f.Tag.Get("max"))})
	doc, err := s.src.fieldDoc(decl, f.Name)
	s.note(err)
	return described(o, doc)
}

// described adds a description; beside a reference it overrides the referenced
// one.
func described(o object, doc string) object {
	if doc == "" {
		return o
	}
	o = slices.DeleteFunc(slices.Clone(o), func(p pair) bool { return p.key == "description" })
	return append(o, pair{"description", doc})
}

// constrained adds what the tags of a field say. Min and max bound what the
// type has: a value, a length, a number of elements.
func constrained(o object, t reflect.Type, p api.Parameter) object {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[api.Texts]() {
		return o
	}
	lo, hi := "minimum", "maximum"
	switch t.Kind() {
	case reflect.String:
		lo, hi = "minLength", "maxLength"
	case reflect.Slice:
		lo, hi = "minItems", "maxItems"
	}
	if p.Min != nil {
		o = append(o, pair{lo, *p.Min})
	}
	if p.Max != nil {
		o = append(o, pair{hi, *p.Max})
	}
	if len(p.Enum) > 0 {
		o = append(o, pair{"enum", anys(p.Enum)})
	}
	if p.IsID {
		o = append(o, pair{"pattern", "^[A-Za-z0-9_-]{1,64}$"})
	}
	return o
}

func (s *schemas) variants() []any {
	var list []any
	for _, v := range protocol.ItemVariants() {
		list = append(list, s.ref(reflect.TypeOf(v)))
	}
	return list
}

func (s *schemas) notifications() []any {
	var list []any
	for _, n := range api.Notifications() {
		props := object{{"method", object{{"type", "string"}, {"const", n.Method}}}, {"params", s.of(n.Params)}}
		required := []any{"method", "params"}
		if n.Durable {
			props = append(props, pair{"seq", object{{"type", "integer"}, {"format", "int64"}, {"minimum", 1}}})
			required = append(required, "seq")
		}
		props = append(props, pair{"emittedAtMs", object{{"type", "integer"}, {"format", "int64"}}})
		list = append(list, append(object{{"type", "object"}}, closed(props, append(required, "emittedAtMs"))...))
	}
	return list
}

// components returns all schemas by name.
func (s *schemas) components() object {
	var o object
	for name, schema := range s.byKey {
		o = append(o, pair{name, schema})
	}
	slices.SortFunc(o, func(a, b pair) int { return strings.Compare(a.key, b.key) })
	return o
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, e := range list {
		out[i] = e
	}
	return out
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func number(s string) *int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}
