package child

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// This file keeps what a program complains about, and makes it fit for clients and logs.

// A tail keeps the end of what is written to it.
type tail struct {
	max int

	mu sync.Mutex
	b  []byte
}

// Write implements io.Writer. It takes everything.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if len(p) > t.max {
		p = p[len(p)-t.max:]
	}
	if over := len(t.b) + len(p) - t.max; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	t.b = append(t.b, p...)
	return n, nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}

// escapes are what a program colours its lines with.
var escapes = regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\^_])`)

// secretName matches names of variables whose values are nobody's business.
var secretName = regexp.MustCompile(`(?i)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH)`)

// proxyUser matches who logs in to a proxy, in its address.
var proxyUser = regexp.MustCompile(`://([^/@\s]+)@`)

const (
	hidden = "[redacted]" // in place of a secret
	// minSecret is the length from which a value is worth hiding, in bytes. A shorter one
	// is a word that may be in any text.
	minSecret = 6
)

// Secrets returns the secrets of an environment, longest first, so that of two of which
// one begins like the other nothing is left.
func Secrets(env []string) []string {
	var out []string
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		if secretName.MatchString(name) {
			out = append(out, value)
		} else if m := proxyUser.FindStringSubmatch(value); m != nil {
			out = append(out, m[1])
		}
	}
	out = slices.DeleteFunc(out, func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}

// shown is a text without secrets, and without what could move a terminal's cursor.
func shown(text string, secrets []string) string {
	text = escapes.ReplaceAllString(strings.ToValidUTF8(text, ""), "")
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' && c != '\t' {
			return -1
		}
		return c
	}, text)
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, hidden)
	}
	return text
}

// lastLines is the end of a text in one line of at most n bytes.
func lastLines(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > n {
		s = "… " + strings.ToValidUTF8(s[len(s)-n:], "")
	}
	return s
}
