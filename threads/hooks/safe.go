package hooks

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// hidden stands for a secret in what is shown.
const hidden = "[redacted]"

// minSecret is the length, in bytes, from which a value is worth hiding. A shorter one
// is a word that may be in any text.
const minSecret = 6

// authorization matches the value of an Authorization header, wherever it is printed.
var authorization = regexp.MustCompile(`(?i)\b(authorization["']?\s*[:=]\s*["']?)((?:bearer|basic|token)\s+)?[^\s"',;]+|\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}`)

// safe is what a hook printed, without secrets and control characters, and of at most
// limit characters.
func (r *round) safe(h Hook, text string, limit int) string {
	text = strings.TrimSpace(r.redact(h, printable(text)))
	kept, cut := clip(text, limit)
	if cut {
		kept += " …"
	}
	return kept
}

func (r *round) redact(h Hook, text string) string {
	for _, secret := range r.secrets(h) {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	return authorization.ReplaceAllString(text, "${1}${2}${3}"+hidden)
}

// secrets are the values to hide, longest first, so that of two of which one begins
// like the other nothing is left.
func (r *round) secrets(h Hook) []string {
	out := slices.Clone(r.cfg.Secrets)
	for _, pair := range r.cfg.Environ {
		if name, value, _ := strings.Cut(pair, "="); slices.Contains(h.Env, name) {
			out = append(out, value)
		}
	}
	out = slices.DeleteFunc(out, func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}

// printable takes out what could move a terminal's cursor or is no text.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' && c != '\t' {
			return -1
		}
		return c
	}, strings.ToValidUTF8(text, "�"))
}
