package api

import (
	"encoding/json"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Input is what the user says: a plain text, or codex's list of parts. All texts
// together have up to 1,048,576 characters.
type Input []InputPart

// InputPart is a piece of an input.
type InputPart struct {
	Type string `json:"type" enum:"text"`
	Text string `json:"text"`
	// TextElements is codex's markup of the text; accepted and not used.
	TextElements []TextElement `json:"text_elements,omitempty" max:"1000"`
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
	default:
		return wrong(path, "a text or a list of parts", v)
	}
	return in.check(path)
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
		if strings.TrimSpace(p.Text) != "" {
			return nil
		}
	}
	return invalid("field `%s`: want a text that is not blank", path)
}

// fromRPC reads what codex clients send, and a plain text.
func (in *Input) fromRPC(raw json.RawMessage, name string) error {
	var text string
	if json.Unmarshal(raw, &text) == nil && !isNull(raw) {
		*in = Input{{Type: "text", Text: text}}
	} else {
		if err := onlyText(raw, name); err != nil {
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

// onlyText refuses the kinds of parts that codex has and this server does not take.
func onlyText(raw json.RawMessage, name string) error {
	var parts []struct {
		Type string `json:"type"`
	}
	// What is wrong with it beside that is told by whoever reads it.
	if err := json.Unmarshal(raw, &parts); err != nil {
		parts = nil
	}
	for i, p := range parts {
		switch p.Type {
		case "image", "localImage", "audio", "localAudio", "skill", "mention":
			return invalid("%s[%d] is of type %s: this server takes text only; say it in words", name, i, p.Type)
		}
	}
	return nil
}

func (in Input) parts() []transcript.Part {
	parts := make([]transcript.Part, 0, len(in))
	for _, p := range in {
		parts = append(parts, transcript.Part{Type: transcript.PartText, Text: p.Text})
	}
	return parts
}
