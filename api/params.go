package api

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// A place is where REST takes a parameter from.
type place string

const (
	inBody   place = "body"
	inQuery  place = "query"
	inPath   place = "path"
	inHeader place = "header"
	inBoth   place = "both" // query or body
	inRPC    place = "rpc"  // only JSON-RPC takes it
)

// A field is one parameter, as its struct tags describe it.
type field struct {
	name     string
	index    []int
	typ      reflect.Type
	required bool
	in       place // empty: the method's default
	header   string
	onRPC    string // what a text is on JSON-RPC if it is left out
	constraint
}

// A constraint is what a value must satisfy beyond its type. Min and max bound a
// number, or the length of a string (code points) or list; enum and id are about
// the elements of a list.
type constraint struct {
	min, max *int64
	enum     []string
	id       string // what the id names; empty if it is none
}

var fieldCache sync.Map // reflect.Type -> []field

// fieldsOf returns the parameters of a struct type, embedded ones included.
func fieldsOf(t reflect.Type) []field {
	if f, ok := fieldCache.Load(t); ok {
		return f.([]field)
	}
	var fields []field
	for _, sf := range reflect.VisibleFields(t) {
		if sf.Anonymous || !sf.IsExported() {
			continue
		}
		name, opts, _ := strings.Cut(sf.Tag.Get("json"), ",")
		f := field{name: name, index: sf.Index, typ: sf.Type, required: opts != "omitempty"}
		in, header, _ := strings.Cut(sf.Tag.Get("in"), ":")
		f.in, f.header = place(in), header
		f.constraint, f.onRPC = constraintOf(sf.Tag), sf.Tag.Get("rpc")
		fields = append(fields, f)
	}
	fieldCache.Store(t, fields)
	return fields
}

func constraintOf(tag reflect.StructTag) constraint {
	c := constraint{id: tag.Get("id")}
	if s := tag.Get("enum"); s != "" {
		c.enum = strings.Split(s, ",")
	}
	for key, bound := range map[string]**int64{"min": &c.min, "max": &c.max} {
		if s := tag.Get(key); s != "" {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				panic(fmt.Sprintf("api: tag %s:%q is no integer", key, s))
			}
			*bound = &n
		}
	}
	return c
}

// fromValue is implemented by types that are written in more than one way.
type fromValue interface {
	fromValue(v value, path string) error
}

// assign sets the fields of dst, a pointer to a struct, from the members of an
// object. Members that are not among fields are refused; null is as good as
// absent for an optional one.
func assign(obj value, dst reflect.Value, fields []field, prefix string) error {
	if obj.kind != kindObject {
		if prefix == "" {
			return invalid("want a JSON object, got %s", obj.describe())
		}
		return wrong(strings.TrimSuffix(prefix, "."), "an object", obj)
	}
	given := make(map[string]bool, len(obj.members))
	for _, m := range obj.members {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == m.name })
		if i < 0 {
			return invalid("unknown field `%s`; known here: %s", clip(prefix+m.name), names(fields))
		}
		f := fields[i]
		if m.value.kind == kindNull && !f.required {
			continue
		}
		given[m.name] = true
		v := dst.Elem().FieldByIndex(f.index)
		if err := assignValue(m.value, v.Addr().Interface(), f.constraint, prefix+f.name); err != nil {
			return err
		}
	}
	for _, f := range fields {
		if f.required && !given[f.name] {
			return invalid("field `%s` is missing: want %s", prefix+f.name, want(f.typ, f.constraint))
		}
	}
	return nil
}

func names(fields []field) string {
	if len(fields) == 0 {
		return "none"
	}
	quoted := make([]string, len(fields))
	for i, f := range fields {
		quoted[i] = "`" + f.name + "`"
	}
	return strings.Join(quoted, ", ")
}

// assignValue sets *dst from v, or says what was wanted.
func assignValue(v value, dst any, c constraint, path string) error {
	if d, ok := dst.(fromValue); ok {
		return d.fromValue(v, path)
	}
	out := reflect.ValueOf(dst).Elem()
	if raw, ok := dst.(*json.RawMessage); ok {
		*raw = v.json(nil)
		return nil
	}
	bad := func() error { return wrong(path, want(out.Type(), c), v) }
	switch out.Kind() {
	case reflect.String:
		if v.kind != kindString || !c.allowsText(v.text) {
			return bad()
		}
		if c.id != "" && !idPattern.MatchString(v.text) {
			return bad()
		}
		out.SetString(v.text)
	case reflect.Bool:
		if v.kind != kindBool {
			return bad()
		}
		out.SetBool(v.text == "true")
	case reflect.Int:
		n, err := strconv.ParseInt(v.text, 10, 0)
		if v.kind != kindNumber || err != nil || !c.allowsNumber(n) {
			return bad()
		}
		out.SetInt(n)
	case reflect.Pointer:
		p := reflect.New(out.Type().Elem())
		if v.kind == kindNull {
			return nil
		}
		if err := assignValue(v, p.Interface(), c, path); err != nil {
			return err
		}
		out.Set(p)
	case reflect.Struct:
		return assign(v, out.Addr(), fieldsOf(out.Type()), path+".")
	case reflect.Slice:
		return assignList(v, out, c, path)
	default:
		panic("api: parameter of type " + out.Type().String())
	}
	return nil
}

func assignList(v value, out reflect.Value, c constraint, path string) error {
	if v.kind != kindArray {
		return wrong(path, want(out.Type(), c), v)
	}
	if !c.allowsNumber(int64(len(v.elems))) {
		return invalid("field `%s`: want %s, got %d", path, want(out.Type(), c), len(v.elems))
	}
	list := reflect.MakeSlice(out.Type(), len(v.elems), len(v.elems))
	for i, e := range v.elems {
		if err := assignValue(e, list.Index(i).Addr().Interface(), c.of(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	out.Set(list)
	return nil
}

// of is the constraint of the elements of a list.
func (c constraint) of() constraint { return constraint{enum: c.enum, id: c.id} }

func (c constraint) allowsText(s string) bool {
	if c.enum != nil {
		return slices.Contains(c.enum, s)
	}
	return c.allowsNumber(int64(utf8.RuneCountInString(s)))
}

func (c constraint) allowsNumber(n int64) bool {
	return (c.min == nil || n >= *c.min) && (c.max == nil || n <= *c.max)
}

// want says what a field takes.
func want(t reflect.Type, c constraint) string {
	switch t.Kind() {
	case reflect.Pointer:
		return want(t.Elem(), c)
	case reflect.String:
		switch {
		case c.id != "":
			return "an id: 1 to 64 letters, digits, _ or -"
		case c.enum != nil:
			return "one of `" + strings.Join(c.enum, "`, `") + "`"
		case c.max != nil:
			return fmt.Sprintf("a text of at most %d characters", *c.max)
		}
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "an integer" + c.span()
	case reflect.Slice:
		if t == reflect.TypeFor[Input]() {
			return "a text or a list of parts"
		}
		return "a list" + strings.Replace(c.span(), " between", " of between", 1)
	}
	return "an object"
}

func (c constraint) span() string {
	lo, hi := int64(math.MinInt64), int64(math.MaxInt64)
	if c.min != nil {
		lo = *c.min
	}
	if c.max != nil {
		hi = *c.max
	}
	switch {
	case c.min == nil && c.max == nil:
		return ""
	case c.max == nil:
		return fmt.Sprintf(" of at least %d", lo)
	case c.min == nil:
		return fmt.Sprintf(" of at most %d", hi)
	}
	return fmt.Sprintf(" between %d and %d", lo, hi)
}

// fromValue reads one text, or a list of them.
func (t *Texts) fromValue(v value, path string) error {
	if v.kind == kindString {
		*t = Texts{v.text}
		return nil
	}
	return assignList(v, reflect.ValueOf(t).Elem(), constraint{}, path)
}

// fromRPC reads one text, or a list of them.
func (t *Texts) fromRPC(raw json.RawMessage, name string) error {
	var one string
	if json.Unmarshal(raw, &one) == nil && !isNull(raw) {
		*t = Texts{one}
		return nil
	}
	return lenientList(raw, reflect.ValueOf(t).Elem(), constraint{}, name)
}

// fromValue reads a patch: null clears a member.
func (g *GitPatch) fromValue(v value, path string) error {
	for i := range v.members {
		if v.members[i].value.kind == kindNull {
			v.members[i].value = value{kind: kindString}
		}
	}
	return assign(v, reflect.ValueOf(g), fieldsOf(reflect.TypeFor[GitPatch]()), path+".")
}

// fromRPC reads a patch: null clears a member.
func (g *GitPatch) fromRPC(raw json.RawMessage, _ string) error {
	var members map[string]json.RawMessage
	if err := lenientStruct(raw, reflect.ValueOf(g).Elem(), &members); err != nil {
		return err
	}
	for name, member := range map[string]**string{"sha": &g.SHA, "branch": &g.Branch, "originUrl": &g.OriginURL} {
		if given := members[name]; given != nil && isNull(given) {
			*member = new("")
		}
	}
	return nil
}

// idPattern is what ids of threads, turns, items and compactions look like. Ids
// come from providers too, so it says nothing about UUIDs.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// fromText makes the text of a query, path or header parameter the value that a
// body would have had.
func fromText(f field, s string) value {
	t := f.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Int && isInteger(s):
		return value{kind: kindNumber, text: s}
	case t.Kind() == reflect.Bool && (s == "true" || s == "false"):
		return value{kind: kindBool, text: s}
	}
	return value{kind: kindString, text: s}
}

// isInteger accepts what JSON accepts, so that +1 and 01 are refused here too.
func isInteger(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && strconv.FormatInt(n, 10) == s
}

// notFoundID is the answer to an id in a path that can name nothing.
func notFoundID(what, id string) *fault.Error {
	return fault.New(fault.NotFound, "no %s %s: ids are 1 to 64 letters, digits, _ or -", what, strconv.Quote(clip(id)))
}
