package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// Input is what the user says: a plain text, or codex's list of parts. All texts
// together have up to 1,048,576 characters. Images are PNG, JPEG, GIF or WebP, of up
// to 8 MiB each.
type Input []InputPart

// InputPart is a piece of an input: a text, or an image.
type InputPart struct {
	Type string `json:"type" enum:"text,image,localImage"`
	Text string `json:"text,omitempty"` // of a text
	// TextElements is codex's markup of the text; accepted and not used.
	TextElements []TextElement `json:"text_elements,omitempty" max:"1000"`
	// URL holds an image: data:image/png;base64,… with its bytes, or
	// urn:plimsoll:blob:SHA256, as items name one that is stored already. The server
	// fetches nothing.
	URL string `json:"url,omitempty"`
	// Path of a localImage is absolute, on the server's machine; the file is read
	// when the input is accepted.
	Path string `json:"path,omitempty"`
	// Detail is codex's; accepted and not used.
	Detail string `json:"detail,omitempty" enum:"auto,low,high,original"`
}

// TextElement is a marked range of a text.
type TextElement struct {
	ByteRange   ByteRange `json:"byteRange"`
	Placeholder *string   `json:"placeholder,omitempty"`
}

// ByteRange is a range of a text in bytes of UTF-8.
type ByteRange struct {
	Start int `json:"start" min:"0"`
	End   int `json:"end" min:"0"`
}

// Limits of an Input. That of its characters is codex's.
const (
	maxParts      = 64
	maxInputChars = 1 << 20
)

// codeParams is the code that codex has for an input that is too long.
const codeParams = -32602

// inputTooLarge is the data of the error for a text that is too long, as codex has
// it.
type inputTooLarge struct {
	Kind   string `json:"input_error_code"`
	Max    int    `json:"max_chars"`
	Actual int    `json:"actual_chars"`
}

// carries names the member that a type of part needs.
var carries = map[string]string{"text": "text", "image": "url", "localImage": "path"}

func (in *Input) fromValue(v value, path string) error {
	switch v.kind {
	case kindString:
		*in = Input{{Type: "text", Text: v.text}}
	case kindArray:
		var parts []InputPart
		if err := assignValue(v, &parts, constraint{min: new(int64(1)), max: new(int64(maxParts))}, path); err != nil {
			return err
		}
		*in = parts
		for i, p := range parts {
			if err := p.fits(v.elems[i], fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	default:
		return wrong(path, "a text or a list of parts", v)
	}
	return in.check(path)
}

// fits refuses a part without the member that its type needs, and one with the
// member of another type.
func (p InputPart) fits(v value, path string) error {
	needs, found := carries[p.Type], false
	for _, m := range v.members {
		switch m.name {
		case needs:
			found = m.value.kind == kindString
		case "text", "url", "path":
			if m.value.kind != kindNull {
				return invalid("field `%s.%s` does not go with type %q, which has `%s`", path, m.name, p.Type, needs)
			}
		}
	}
	if !found {
		return invalid("field `%s.%s` is missing: want a text", path, needs)
	}
	return nil
}

// check refuses an input that says nothing, or too much.
func (in Input) check(path string) error {
	chars := 0
	for _, p := range in {
		chars += utf8.RuneCountInString(p.Text)
	}
	if chars > maxInputChars {
		err := fault.New(fault.TooLarge, "Input exceeds the maximum length of %d characters.", maxInputChars) // codex's text (codex 0.171, observed)
		err.Data = inputTooLarge{"input_too_large", maxInputChars, chars}
		return err
	}
	for _, p := range in {
		if p.Type != "text" || strings.TrimSpace(p.Text) != "" {
			return nil
		}
	}
	return invalid("field `%s`: want a text that is not blank, or an image", path)
}

// fromRPC reads what codex clients send, and a plain text.
func (in *Input) fromRPC(raw json.RawMessage, name string) error {
	var text string
	if json.Unmarshal(raw, &text) == nil && !isNull(raw) {
		*in = Input{{Type: "text", Text: text}}
	} else {
		if err := servedParts(raw, name); err != nil {
			return err
		}
		var parts []InputPart
		if err := lenientList(raw, reflect.ValueOf(&parts).Elem(), constraint{max: new(int64(maxParts))}, name); err != nil {
			return err
		}
		*in = parts
	}
	return in.check(name)
}

// servedParts refuses the kinds of parts that codex has and this server does not
// take, and parts without what they are about.
func servedParts(raw json.RawMessage, name string) error {
	var parts []map[string]json.RawMessage
	// What is wrong with it beside that is told by whoever reads it.
	if err := json.Unmarshal(raw, &parts); err != nil {
		parts = nil
	}
	for i, p := range parts {
		var kind string
		if json.Unmarshal(p["type"], &kind) != nil {
			continue
		}
		switch kind {
		case "audio", "localAudio", "skill", "mention":
			return invalid("%s[%d] is of type %s: this server takes texts and images; say it in words", name, i, kind)
		case "image":
			if p["fileId"] != nil && p["url"] == nil {
				return invalid("%s[%d] names a file of the provider: this server has none; send a data URL", name, i)
			}
		}
		if needs, known := carries[kind]; known && p[needs] == nil {
			return serdeError("missing field `%s`", needs)
		}
	}
	return nil
}
