package session

import (
	"bytes"
	"unicode/utf8"
)

// cleanUnicode replaces what strict JSON readers reject: bytes that are not
// UTF-8 and escapes of a surrogate without its partner. It says how many places
// it replaced and does not change raw.
func cleanUnicode(raw []byte) ([]byte, int) {
	n := 0
	if !utf8.Valid(raw) {
		raw, n = bytes.ToValidUTF8(raw, []byte("\uFFFD")), 1
	}
	if !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)) {
		return raw, n
	}
	out := raw
	for i := 0; i+1 < len(out); i++ {
		if out[i] != '\\' {
			continue
		}
		unit, ok := escapedUnit(out[i:])
		switch {
		case !ok:
			i++ // another escape: the character after the backslash is spent
		case unit < 0xD800 || unit > 0xDFFF:
			i += 5
		case unit < 0xDC00 && pairedWithLow(out[i+6:]):
			i += 11
		default:
			if &out[0] == &raw[0] {
				out = bytes.Clone(raw)
			}
			copy(out[i:], `\ufffd`)
			n++
			i += 5
		}
	}
	return out, n
}

func pairedWithLow(b []byte) bool {
	unit, ok := escapedUnit(b)
	return ok && unit >= 0xDC00 && unit <= 0xDFFF
}

// escapedUnit reads a \uXXXX escape at the start of b.
func escapedUnit(b []byte) (unit rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			unit = unit<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			unit = unit<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			unit = unit<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return unit, true
}
