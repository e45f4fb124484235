package prompt

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Rules are what a wire and its endpoint ask of a request. The zero value is the
// most liberal endpoint that takes text and tools.
type Rules struct {
	IDs   Ident // of calls
	Names Ident // of tools

	Images    Images
	Reasoning bool     // the endpoint takes reasoning back
	Origins   []string // of opaque items that it takes

	MergeRoles bool // user and assistant messages take turns: two in a row become one
	UserFirst  bool // the first message after the system text is the user's
	Bridge     bool // no user message follows the results of tools directly (Mistral)

	MaxBytes int // of the body, about; 0: no cap is known
	// MaxTokens is the window less what is kept for the answer. Set it only where a
	// request that is too large would be cut in silence: it is held against an
	// estimate, and a finding cannot be mended.
	MaxTokens int

	// Writer says that this is the request of a checkpoint writer. It holds text only
	// and may hold transcript.WriterMark.
	Writer bool
}

// Images says where an endpoint takes images.
type Images string

// Where images may be.
const (
	ImagesNone Images = ""     // nowhere: they are told as text
	ImagesUser Images = "user" // in user messages; those of results follow in one
	ImagesAll  Images = "all"  // in user messages and in results
)

// An Ident is the form of an identifier. Zero limits mean none.
type Ident struct {
	Min, Max int
	Chars    string // the characters that it is made of; empty: any visible ones of ASCII
}

// Alnum and Word are the characters of many identifiers.
const (
	Alnum = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	Word  = Alnum + "_-"
)

// Fits reports whether s has the form.
func (d Ident) Fits(s string) bool {
	if s == "" || len(s) < d.Min || d.Max > 0 && len(s) > d.Max {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool { return !d.takes(c) })
}

func (d Ident) takes(c rune) bool {
	if d.Chars == "" {
		return c > ' ' && c < 0x7f
	}
	return strings.ContainsRune(d.Chars, c)
}

// digits are what Fit makes its hashes of: of every alphabet that is in use.
const digits = "abcdefghijklmnopqrstuvwxyz0123456789"

// hashLen is the length of the hash in a shortened name: 10 digits, 51 bits.
const hashLen = 10

// Fit returns s if it has the form, else an identifier that has it, always the same
// one for the same s. What can be read of s stays where there is room for it.
func (d Ident) Fit(s string) string { return d.fit(s, 0) }

// fit is Fit; another try gives another identifier.
func (d Ident) fit(s string, try int) string {
	if try == 0 && d.Fits(s) {
		return s
	}
	limit := d.Max
	if limit == 0 {
		limit = max(d.Min, 64)
	}
	size := min(hashLen, limit)
	if d.Min == d.Max && d.Max > 0 {
		size = d.Max
	}
	hash := hashOf(s, try, size)
	var head strings.Builder
	for _, c := range s {
		if !d.takes(c) {
			c = '_'
		}
		if !d.takes(c) || head.Len()+1 > limit-size-1 {
			break
		}
		head.WriteRune(c)
	}
	if head.Len() > 0 && d.takes('_') {
		hash = head.String() + "_" + hash
	}
	for len(hash) < d.Min {
		hash += hashOf(hash, try, min(d.Min-len(hash), hashLen))
	}
	return hash
}

func hashOf(s string, try, size int) string {
	out := make([]byte, 0, size)
	for round := 0; len(out) < size; round++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d/%s", try, round, s))
		for _, b := range sum {
			if len(out) < size {
				out = append(out, digits[int(b)%len(digits)])
			}
		}
	}
	return string(out)
}
