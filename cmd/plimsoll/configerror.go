package main

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// typeProblem is how the parser words a value of the wrong type.
var typeProblem = regexp.MustCompile(`^toml: line (\d+) \(last key "(.*)"\): (.*)$`)

// wrongType is what the parser says about a value of the wrong type: found and
// wanted, or, of a section, only found.
var wrongType = regexp.MustCompile(`^(?:incompatible types: TOML value has type (.*); destination has type (.*)|type mismatch for .*: expected table but found (.*))$`)

// typeText words a type as the file's author knows it.
func typeText(name string) string {
	switch name {
	case "string", "primitive (string-like)":
		return "a string"
	case "int64", "float64", "integer", "float":
		return "a number"
	case "bool", "boolean":
		return "true or false"
	case "time.Time":
		return "a date"
	case "slice":
		return "a list of strings" // there is no other
	case "map[string]any":
		return "a section"
	}
	if strings.HasPrefix(name, "[]") {
		return "a list"
	}
	return name
}

// parseProblem words an error of the parser as line, key and what is wrong.
func parseProblem(err error) error {
	if m := typeProblem.FindStringSubmatch(err.Error()); m != nil {
		line, key, text := m[1], m[2], m[3]
		w := wrongType.FindStringSubmatch(text)
		kind := typeOf(strings.Split(key, "."))
		switch {
		case w == nil:
			return fmt.Errorf("%s: %s: %s", line, key, text)
		case kind != nil && kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Struct:
			return fmt.Errorf("%s: %s must be a section for each, such as [[%s]], got %s", line, key, key, typeText(w[1]+w[3]))
		case w[3] != "":
			return fmt.Errorf("%s: %s must be a section, got %s", line, key, typeText(w[3]))
		case w[2] == "string" && kind == reflect.TypeFor[[]string]():
			return fmt.Errorf("%s: %s must be a list of strings, got %s in it", line, key, typeText(w[1]))
		case kind == reflect.TypeFor[int]() && w[1] == "float64":
			return fmt.Errorf("%s: %s must be a whole number", line, key)
		}
		return fmt.Errorf("%s: %s must be %s, got %s", line, key, typeText(w[2]), typeText(w[1]))
	}
	e, ok := errors.AsType[toml.ParseError](err)
	if !ok {
		return fmt.Errorf("1: %w", err)
	}
	msg := e.Message
	if msg == "" {
		msg = e.Error()
	}
	if e.LastKey != "" && !strings.Contains(msg, e.LastKey) {
		msg = e.LastKey + ": " + msg
	}
	return fmt.Errorf("%d: %s", e.Position.Line, msg)
}

// typeOf returns the type of what a key holds, nil if there is no such key. In a
// section of sections every name is a key.
func typeOf(key []string) reflect.Type {
	t := reflect.TypeFor[config]()
	for _, name := range key {
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Map:
			t = t.Elem()
		case reflect.Struct:
			f, ok := fieldOf(t, name)
			if !ok {
				return nil
			}
			t = f.Type
		default:
			return nil
		}
	}
	if t.Kind() == reflect.Pointer { // a key whose absence counts
		t = t.Elem()
	}
	return t
}

func fieldOf(section reflect.Type, name string) (reflect.StructField, bool) {
	for f := range section.Fields() {
		if f.Tag.Get("toml") == name && name != "" {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// keysOf lists the keys of a section, as the struct has them.
func keysOf(section reflect.Type) []string {
	var out []string
	for f := range section.Fields() {
		if name := f.Tag.Get("toml"); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// unknownKey says which key is not known, and what could have been meant.
func (c config) unknownKey(src []byte, key toml.Key) error {
	head := key[:len(key)-1]
	where, name := typeOf(head), strings.Join(head, ".")
	hint := "; the sections are [server], [providers.NAME], [compaction], [hooks], [checks] and [limits]"
	if len(head) > 0 && where != nil {
		if where.Kind() == reflect.Slice {
			where, name = where.Elem(), "["+name+"]"
		}
		if head[0] == "providers" {
			name = "providers.NAME"
		}
		if where.Kind() == reflect.Struct {
			hint = fmt.Sprintf("; [%s] knows %s", name, strings.Join(keysOf(where), ", "))
		}
	}
	if len(head) == 2 && head[0] == "providers" {
		adapter := c.Providers[head[1]].Adapter
		if kind, ok := adapterKinds[adapter]; ok {
			hint = fmt.Sprintf("; the adapter %s knows adapter, %s", adapter, strings.Join(kind.keys, ", "))
		}
	}
	return fmt.Errorf("%d: unknown key %s%s", lineOf(src, key), key, hint)
}

// wrong says what is wrong with the value of a key. Elements of lists in the key are
// numbers.
func wrong(src []byte, key toml.Key, format string, args ...any) error {
	shown := slices.DeleteFunc(slices.Clone(key), isNumber)
	return fmt.Errorf("%d: %s: %s", lineOf(src, key), strings.Join(shown, "."), fmt.Sprintf(format, args...))
}

func isNumber(name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil
}

// oneOfThese refuses a value that is not one of those that are allowed. The empty one
// always is.
func oneOfThese[T ~string](src []byte, key toml.Key, got T, allowed ...T) error {
	if got == "" || slices.Contains(allowed, got) {
		return nil
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	return wrong(src, key, "%q is not one of: %s", got, strings.Join(names, ", "))
}

// lineOf returns the line on which key is set. The parser does not say, but the
// shortest well-formed head of the file that has the key ends with it, and the
// well-formed head before that one ends on the line above.
func lineOf(src []byte, key toml.Key) int {
	above := 0
	for end, line := 0, 1; end < len(src); line++ {
		n := bytes.IndexByte(src[end:], '\n')
		if n < 0 {
			n = len(src) - end - 1
		}
		end += n + 1
		var tree map[string]any
		if _, err := toml.Decode(string(src[:end]), &tree); err != nil {
			continue
		}
		if has(tree, key) {
			return above + 1
		}
		above = line
	}
	return above
}

// has reports whether a key is set in a tree. In a list of sections it is that of the
// element whose number it names, or of any.
func has(tree any, key toml.Key) bool {
	if len(key) == 0 {
		return true
	}
	switch t := tree.(type) {
	case map[string]any:
		v, ok := t[key[0]]
		return ok && has(v, key[1:])
	case []map[string]any:
		if i, err := strconv.Atoi(key[0]); err == nil {
			return i < len(t) && has(t[i], key[1:])
		}
		return slices.ContainsFunc(t, func(m map[string]any) bool { return has(m, key) })
	case []any: // of inline sections
		if i, err := strconv.Atoi(key[0]); err == nil {
			return i < len(t) && has(t[i], key[1:])
		}
		return slices.ContainsFunc(t, func(v any) bool { return has(v, key) })
	}
	return false
}
