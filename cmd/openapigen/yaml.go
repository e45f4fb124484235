package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// object is a mapping that keeps its order.
type object []pair

type pair struct {
	key string
	val any // object, []any, string, int, int64 or bool
}

// yaml writes block style; strings that could be read as anything else are
// quoted as in JSON, which YAML reads the same way.
func yaml(v object) []byte {
	var b bytes.Buffer
	writeObject(&b, v, 0)
	return b.Bytes()
}

func writeObject(b *bytes.Buffer, o object, indent int) {
	for _, p := range o {
		b.WriteString(strings.Repeat("  ", indent) + scalar(p.key) + ":")
		writeValue(b, p.val, indent)
	}
}

func writeValue(b *bytes.Buffer, v any, indent int) {
	switch v := v.(type) {
	case object:
		if len(v) == 0 {
			b.WriteString(" {}\n")
			return
		}
		b.WriteString("\n")
		writeObject(b, v, indent+1)
	case []any:
		if len(v) == 0 {
			b.WriteString(" []\n")
			return
		}
		b.WriteString("\n")
		for _, e := range v {
			writeElement(b, e, indent+1)
		}
	default:
		b.WriteString(" " + scalar(v) + "\n")
	}
}

// writeElement writes a mapping's first member on the line of its dash.
func writeElement(b *bytes.Buffer, v any, indent int) {
	b.WriteString(strings.Repeat("  ", indent) + "-")
	o, ok := v.(object)
	if !ok || len(o) == 0 {
		writeValue(b, v, indent)
		return
	}
	b.WriteString(" " + scalar(o[0].key) + ":")
	writeValue(b, o[0].val, indent+1)
	writeObject(b, o[1:], indent+1)
}

var plain = regexp.MustCompile(`^[A-Za-z/$][A-Za-z0-9_/{}$-]*( [A-Za-z0-9_/-]+)*$`)

// words are plain strings that YAML reads as something else.
var words = map[string]bool{"true": true, "false": true, "null": true, "yes": true, "no": true, "on": true, "off": true, "y": true, "n": true}

func scalar(v any) string {
	s, ok := v.(string)
	if !ok {
		return fmt.Sprint(v)
	}
	if plain.MatchString(s) && !words[strings.ToLower(s)] {
		return s
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil { // a string always encodes
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
