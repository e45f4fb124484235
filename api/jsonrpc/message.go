package jsonrpc

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// A message is a frame of the client that was taken apart. Its members are the
// bytes that the client wrote.
type message struct {
	id     json.RawMessage // nil: none that an answer can carry
	number uint64          // that stands for the id in jsonrpc2
	method string
	quoted json.RawMessage // the method as it was written, if there is one
	params json.RawMessage // nil: none, or null
	result json.RawMessage // nil: none
	err    json.RawMessage // nil: none, or null
	size   int
}

// A kind is what a frame turned out to be.
type kind int

const (
	garbage kind = iota // no JSON
	invalid             // JSON, but no message
	request
	notification
	response
)

// parse takes a frame apart. What it returns refers to the frame.
//
// It looks at the outermost members only, compares their names exactly, lets the
// last of several with one name win, and passes over those it does not know. A
// method makes it a request, or without an id a notification, whatever else is
// there.
func parse(frame []byte) (message, kind) {
	m := message{size: len(frame)}
	if !utf8.Valid(frame) || !json.Valid(frame) {
		return m, garbage
	}
	frame = bytes.TrimLeft(frame, blanks)
	if frame[0] != '{' {
		return m, invalid
	}
	var noID bool
	for name, value := range members(frame) {
		switch string(name) {
		case "id":
			m.id, noID = value, false
			if !usableID(value) {
				m.id, noID = nil, true
			}
		case "method":
			m.quoted = value
		case "params":
			m.params = unlessNull(value)
		case "result":
			m.result = value
		case "error":
			m.err = unlessNull(value)
		}
	}
	named := len(m.quoted) > 0 && m.quoted[0] == '"' && json.Unmarshal(m.quoted, &m.method) == nil
	switch {
	case noID:
		return m, invalid
	case named && m.id != nil:
		return m, request
	case named:
		return m, notification
	case m.quoted != nil:
		return m, invalid
	case m.id != nil && (m.result != nil || m.err != nil):
		return m, response
	}
	return m, invalid
}

// fault says what is wrong with a message that has an id and is none.
func (m message) fault() string {
	if m.quoted == nil {
		return "Invalid request: missing field `method`"
	}
	return "Invalid request: `method` must be a string"
}

// clone makes m its own, as frames are valid for a short time only.
func (m message) clone() message {
	m.id, m.params = bytes.Clone(m.id), bytes.Clone(m.params)
	m.result, m.err = bytes.Clone(m.result), bytes.Clone(m.err)
	return m
}

// usableID reports whether a value can be the id of an answer: a string or a
// number of any kind.
func usableID(v json.RawMessage) bool {
	return v[0] == '"' || v[0] == '-' || v[0] >= '0' && v[0] <= '9'
}

func unlessNull(v json.RawMessage) json.RawMessage {
	if v[0] == 'n' {
		return nil
	}
	return v
}

// problem reads the error of a response. One that is no error object still says
// that the client failed.
func (m message) problem() *Error {
	if m.err == nil {
		return nil
	}
	var e Error
	if json.Unmarshal(m.err, &e) != nil {
		return &Error{Code: CodeInternal, Message: "the client answered with an error that is no error object", Data: m.err}
	}
	return &e
}

const blanks = " \t\r\n"

// members yields the outermost members of an object, which is valid JSON.
func members(obj []byte) func(yield func(name, value []byte) bool) {
	return func(yield func(name, value []byte) bool) {
		rest := obj[1:]
		for {
			rest = bytes.TrimLeft(rest, blanks+",")
			if rest[0] == '}' {
				return
			}
			n := valueLen(rest)
			name := rest[1 : n-1]
			if bytes.IndexByte(name, '\\') >= 0 {
				name = unescape(rest[:n])
			}
			rest = bytes.TrimLeft(rest[n:], blanks+":")
			n = valueLen(rest)
			if !yield(name, rest[:n:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

func unescape(quoted []byte) []byte {
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return nil
	}
	return []byte(s)
}

// valueLen returns the length of the value that b, which is valid JSON, starts
// with.
func valueLen(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth < 0 { // the end of what a bare value is in
				return i
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(b)
}
