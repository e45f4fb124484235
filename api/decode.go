package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// Limits of a JSON body.
const (
	maxBody   = 4 << 20
	maxDepth  = 64
	maxValues = 100_000 // bounds what a body of empty values can make us hold
)

// A value is a JSON value as it was written: members keep their order and case,
// numbers their digits.
type value struct {
	kind    kind
	text    string // of a string, the digits of a number, true or false
	members []member
	elems   []value
}

type member struct {
	name  string
	value value
}

type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

// parse reads exactly one JSON value. What encoding/json lets pass and a request
// must not have is refused: a member twice, invalid UTF-8, a second value,
// nesting that could exhaust a stack.
func parse(data []byte) (value, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return value{}, invalid("the body is empty; send a JSON object, {} at least")
	}
	if !utf8.Valid(data) {
		return value{}, invalid("the body is not valid UTF-8")
	}
	p := parser{dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	v, err := p.value(0)
	if err != nil {
		return value{}, err
	}
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return value{}, invalid("the body has more than one JSON value; the second one starts after byte %d", p.dec.InputOffset())
	}
	return v, nil
}

type parser struct {
	dec    *json.Decoder
	values int
}

func (p *parser) value(depth int) (value, error) {
	if p.values++; p.values > maxValues {
		return value{}, invalid("the body has more than %d JSON values", maxValues)
	}
	tok, err := p.dec.Token()
	if err != nil {
		return value{}, p.syntax(err)
	}
	switch t := tok.(type) {
	case string:
		return value{kind: kindString, text: t}, nil
	case json.Number:
		return value{kind: kindNumber, text: t.String()}, nil
	case bool:
		return value{kind: kindBool, text: strconv.FormatBool(t)}, nil
	case json.Delim:
		if depth == maxDepth {
			return value{}, invalid("the body is nested deeper than %d levels", maxDepth)
		}
		if t == '{' {
			return p.object(depth)
		}
		return p.array(depth)
	}
	return value{kind: kindNull}, nil
}

func (p *parser) object(depth int) (value, error) {
	v := value{kind: kindObject}
	var seen map[string]bool
	for p.dec.More() {
		tok, err := p.dec.Token()
		if err != nil {
			return value{}, p.syntax(err)
		}
		name, ok := tok.(string)
		if !ok {
			return value{}, invalid("malformed JSON at byte %d: want a member's name", p.dec.InputOffset())
		}
		if seen[name] {
			return value{}, invalid("field `%s` is there twice", clip(name))
		}
		if seen == nil {
			seen = map[string]bool{}
		}
		seen[name] = true
		m, err := p.value(depth + 1)
		if err != nil {
			return value{}, err
		}
		v.members = append(v.members, member{name, m})
	}
	_, err := p.dec.Token()
	return v, p.syntax(err)
}

func (p *parser) array(depth int) (value, error) {
	v := value{kind: kindArray}
	for p.dec.More() {
		e, err := p.value(depth + 1)
		if err != nil {
			return value{}, err
		}
		v.elems = append(v.elems, e)
	}
	_, err := p.dec.Token()
	return v, p.syntax(err)
}

// syntax makes a decoder's error ours. The texts of encoding/json name the
// offending character and never the body around it.
func (p *parser) syntax(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return invalid("malformed JSON: the body ends in the middle of a value")
	}
	return invalid("malformed JSON at byte %d: %v", p.dec.InputOffset(), err)
}

// describe says what a client sent, in few words.
func (v value) describe() string {
	switch v.kind {
	case kindNull:
		return "null"
	case kindArray:
		return "a list"
	case kindObject:
		return "an object"
	case kindString:
		return strconv.Quote(clip(v.text))
	case kindBool, kindNumber:
		return clip(v.text)
	}
	panic("api: value of no kind")
}

// json appends the value as JSON, with the digits and the order it was written in.
func (v value) json(b []byte) []byte {
	switch v.kind {
	case kindNull:
		return append(b, "null"...)
	case kindBool, kindNumber:
		return append(b, v.text...)
	case kindString:
		return appendText(b, v.text)
	case kindArray:
		b = append(b, '[')
		for i, e := range v.elems {
			if i > 0 {
				b = append(b, ',')
			}
			b = e.json(b)
		}
		return append(b, ']')
	case kindObject:
		b = append(b, '{')
		for i, m := range v.members {
			if i > 0 {
				b = append(b, ',')
			}
			b = m.value.json(append(appendText(b, m.name), ':'))
		}
		return append(b, '}')
	}
	panic("api: value of no kind")
}

func appendText(b []byte, s string) []byte {
	text, err := encode(s)
	if err != nil { // a string always encodes
		panic(err)
	}
	return append(b, text...)
}

// clip bounds what an error message repeats of a request.
func clip(s string) string {
	const most = 40
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, format, args...)
}

// wrong is the error for a value that is not what the field takes.
func wrong(path, want string, got value) *fault.Error {
	return invalid("field `%s`: want %s, got %s", path, want, got.describe())
}
