package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// This file reads the parameters of JSON-RPC as codex does: a member that is not
// known is ignored, one that is null is absent, one that is there twice counts as
// the last one. The texts of its errors are those of codex 0.171, as observed.

// decodeRPC reads the parameters of a method. Experimental says that the client
// asked for capabilities.experimentalApi.
func decodeRPC(m method, params json.RawMessage, experimental bool) (any, error) {
	dst := reflect.New(m.params)
	given, err := m.readRPC(params, dst)
	if err != nil {
		return nil, err
	}
	if experimental || m.own {
		return dst.Interface(), nil
	}
	if m.experimental {
		return nil, invalid("%s requires experimentalApi capability", m.name)
	}
	for _, name := range experimentalFields[m.name] {
		if raw := given[name]; raw != nil && !isNull(raw) && string(raw) != "false" {
			return nil, invalid("%s.%s requires experimentalApi capability", m.name, name)
		}
	}
	return dst.Interface(), nil
}

// readRPC sets *dst and returns the members of the parameters.
func (m method) readRPC(params json.RawMessage, dst reflect.Value) (map[string]json.RawMessage, error) {
	if len(params) == 0 || isNull(params) || m.bare {
		if !m.bare && !m.own {
			return nil, invalid("Invalid request: missing field `params`")
		}
		params = json.RawMessage("{}")
	}
	var given map[string]json.RawMessage
	if err := lenientStruct(params, dst.Elem(), &given); err != nil {
		return nil, err
	}
	for _, f := range fieldsOf(m.params) {
		v := dst.Elem().FieldByIndex(f.index)
		if f.onRPC != "" && v.IsZero() {
			v.SetString(f.onRPC)
		}
	}
	return given, nil
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

// serdeError is a text that codex's decoder would have.
func serdeError(format string, args ...any) *fault.Error {
	return invalid("Invalid request: "+format, args...)
}

// lenientStruct sets the fields of dst from an object.
func lenientStruct(raw json.RawMessage, dst reflect.Value, members *map[string]json.RawMessage) error {
	if err := json.Unmarshal(raw, members); err != nil || isNull(raw) {
		return mistyped(raw, "struct "+dst.Type().Name())
	}
	for _, f := range fieldsOf(dst.Type()) {
		val, ok := (*members)[f.name]
		switch {
		case !ok && f.required:
			return serdeError("missing field `%s`", f.name)
		case !ok, isNull(val) && !f.required:
			continue
		}
		if err := lenient(val, dst.FieldByIndex(f.index), f.constraint, f.name); err != nil {
			return err
		}
	}
	return nil
}

// lenientInto sets the fields of *dst, a struct, from an object.
func lenientInto(raw json.RawMessage, dst any) error {
	var members map[string]json.RawMessage
	return lenientStruct(raw, reflect.ValueOf(dst).Elem(), &members)
}

// fromRPC is implemented by types that JSON-RPC writes in more than one way.
type fromRPC interface {
	fromRPC(raw json.RawMessage, name string) error
}

// lenient sets out from a value.
func lenient(raw json.RawMessage, out reflect.Value, c constraint, name string) error {
	if d, ok := reflect.TypeAssert[fromRPC](out.Addr()); ok {
		return d.fromRPC(raw, name)
	}
	if out.Type() == reflect.TypeFor[json.RawMessage]() {
		out.SetBytes(bytes.Clone(raw))
		return nil
	}
	switch out.Kind() {
	case reflect.String:
		return lenientText(raw, out, c, name)
	case reflect.Bool:
		var b bool
		if json.Unmarshal(raw, &b) != nil || isNull(raw) {
			return mistyped(raw, "a boolean")
		}
		out.SetBool(b)
	case reflect.Int:
		return lenientInt(raw, out, c, name)
	case reflect.Pointer:
		p := reflect.New(out.Type().Elem())
		if err := lenient(raw, p.Elem(), c, name); err != nil {
			return err
		}
		out.Set(p)
	case reflect.Struct:
		var members map[string]json.RawMessage
		return lenientStruct(raw, out, &members)
	case reflect.Slice:
		return lenientList(raw, out, c, name)
	default:
		panic("api: parameter of type " + out.Type().String())
	}
	return nil
}

func lenientText(raw json.RawMessage, out reflect.Value, c constraint, name string) error {
	var s string
	if json.Unmarshal(raw, &s) != nil || isNull(raw) {
		if c.enum == nil {
			return mistyped(raw, "a string")
		}
		var object map[string]json.RawMessage // a variant with a value, in codex's way
		if json.Unmarshal(raw, &object) != nil || len(object) != 1 {
			return mistyped(raw, "string or map")
		}
		for s = range object {
			return unknownVariant(s, c.enum)
		}
	}
	switch {
	case c.id == "thread":
		id, err := uuid.Parse(s)
		if err != nil {
			return invalid("invalid thread id: want a UUID, got %q", clip(s))
		}
		s = id.String() // as codex, whatever form it has
	case c.id != "" && !idPattern.MatchString(s):
		return invalid("invalid %s id: want 1 to 64 letters, digits, _ or -, got %q", c.id, clip(s))
	case c.enum != nil && !c.allowsText(s):
		return unknownVariant(s, c.enum)
	case !c.allowsText(s):
		return invalid("field `%s`: want %s, got %d", name, want(out.Type(), c), len([]rune(s)))
	}
	out.SetString(s)
	return nil
}

func unknownVariant(got string, allowed []string) error {
	text := "`" + strings.Join(allowed, "`, `") + "`"
	switch len(allowed) {
	case 1:
	case 2:
		text = "`" + allowed[0] + "` or `" + allowed[1] + "`"
	default:
		text = "one of " + text
	}
	return serdeError("unknown variant `%s`, expected %s", clip(got), text)
}

// lenientInt reads an integer. The size of a page is brought into its bounds, as
// codex does; any other number must be within its own.
func lenientInt(raw json.RawMessage, out reflect.Value, c constraint, name string) error {
	text := string(bytes.TrimSpace(raw))
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return mistyped(raw, "u32")
	case n < 0 || n > math.MaxUint32:
		return serdeError("invalid value: integer `%s`, expected u32", clip(text))
	case name == "limit":
		n = max(n, *c.min)
		n = min(n, *c.max)
	case !c.allowsNumber(n):
		return invalid("field `%s`: want %s, got %d", name, want(out.Type(), c), n)
	}
	out.SetInt(n)
	return nil
}

func lenientList(raw json.RawMessage, out reflect.Value, c constraint, name string) error {
	var elems []json.RawMessage
	if json.Unmarshal(raw, &elems) != nil || isNull(raw) {
		return mistyped(raw, "a sequence")
	}
	if !c.allowsNumber(int64(len(elems))) {
		return invalid("field `%s`: want %s, got %d", name, want(out.Type(), c), len(elems))
	}
	list := reflect.MakeSlice(out.Type(), len(elems), len(elems))
	for i, e := range elems {
		if err := lenient(e, list.Index(i), c.of(), fmt.Sprintf("%s[%d]", name, i)); err != nil {
			return err
		}
	}
	out.Set(list)
	return nil
}

// mistyped says what stood there and what was expected, in codex's words.
func mistyped(raw json.RawMessage, expected string) error {
	got := "map"
	switch text := string(bytes.TrimSpace(raw)); {
	case text == "" || text == "null":
		got = "null"
	case text == "true" || text == "false":
		got = "boolean `" + text + "`"
	case text[0] == '"':
		var s string
		if json.Unmarshal(raw, &s) == nil {
			got = "string " + strconv.Quote(clip(s))
		}
	case text[0] == '[':
		got = "sequence"
	case text[0] != '{' && strings.ContainsAny(text, ".eE"):
		got = "floating point `" + clip(text) + "`"
	case text[0] != '{':
		got = "integer `" + clip(text) + "`"
	}
	return serdeError("invalid type: %s, expected %s", got, expected)
}
