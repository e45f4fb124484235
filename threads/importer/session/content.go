package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Absent reports whether a JSON value is missing or null.
func Absent(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }

// Arguments returns the arguments of a call; a call without any has an empty
// object.
func Arguments(raw json.RawMessage) json.RawMessage {
	if Absent(raw) {
		return json.RawMessage("{}")
	}
	return raw
}

// Blocks decodes the content of a message: a list of blocks, or a string, which
// stands for one block {"type":"text","text":…}. Each block is given its JSON by
// keep. A block of another shape than B is zero but for that, and content of
// another shape is one such block.
func Blocks[B any](content json.RawMessage, keep func(block *B, raw json.RawMessage)) []B {
	var text string
	var list []json.RawMessage
	switch {
	case json.Unmarshal(content, &text) == nil:
		list = []json.RawMessage{fmt.Appendf(nil, `{"type":"text","text":%s}`, content)}
	case json.Unmarshal(content, &list) != nil:
		var unknown B
		keep(&unknown, content)
		return []B{unknown}
	}
	blocks := make([]B, len(list))
	for i, raw := range list {
		var b B
		if json.Unmarshal(raw, &b) == nil {
			blocks[i] = b
		}
		keep(&blocks[i], raw)
	}
	return blocks
}

// Blank reports whether text is only white space, and counts it as left out then.
func (b *Builder) Blank(kind, text string) bool {
	if strings.TrimSpace(text) != "" {
		return false
	}
	b.Skip(kind + "/blank")
	return true
}

// Time reads the timestamp of a record. One that is missing or cannot be read is
// zero, for which Add uses that of the item before.
func (b *Builder) Time(line int, s string) time.Time {
	if s == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		b.Warn(line, "timestamp %.40q cannot be read; that of the item before is used", s)
		return time.Time{}
	}
	return at.UTC()
}
