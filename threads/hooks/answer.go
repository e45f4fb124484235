package hooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/proc"
)

// An answer is what a hook said.
type answer struct {
	denied       bool
	reason       string // of a denial; never empty then
	instructions string // for the writer
	warning      string // for the user
}

// Bounds of what is taken from a hook, in bytes and in characters.
const (
	maxOutput = 64 << 10
	maxReason = 2_000
)

// statusDeny is the exit status that denies in both dialects.
const statusDeny = 2

// spoken is an answer in JSON: the members that Claude Code and codex know for hooks
// around a compaction. Others are ignored, for the sake of newer versions.
type spoken struct {
	Continue      *bool  `json:"continue"` // both: false denies
	StopReason    string `json:"stopReason"`
	Decision      string `json:"decision"` // Claude Code: block denies
	Reason        string `json:"reason"`
	SystemMessage string `json:"systemMessage"` // both: for the user
	Specific      *struct {
		AdditionalContext string `json:"additionalContext"`
	} `json:"hookSpecificOutput"`
}

// read takes a hook's answer from how it ended. The error says what the hook did
// wrong. say makes a text that a hook printed fit to be shown.
func read(r proc.Result, say func(text string, limit int) string) (answer, error) {
	switch {
	case r.Signal != "":
		return answer{}, fmt.Errorf("was ended by a signal (%s)%s", r.Signal, complaint(r, say))
	case r.Code == statusDeny:
		why := cmp.Or(say(string(r.Stderr.Bytes), maxReason), say(string(r.Stdout.Bytes), maxReason), "it exited with status 2 and said nothing")
		return answer{denied: true, reason: why}, nil
	case r.Code != 0:
		return answer{}, fmt.Errorf("exited with status %d%s", r.Code, complaint(r, say))
	case r.Stdout.Dropped > 0:
		return answer{}, fmt.Errorf("printed more than %d bytes", maxOutput)
	case !utf8.Valid(r.Stdout.Bytes):
		return answer{}, errors.New("printed what is no text (UTF-8)")
	}
	text := bytes.TrimSpace(r.Stdout.Bytes)
	if len(text) == 0 || text[0] != '{' {
		return answer{instructions: say(string(text), maxOutput)}, nil
	}
	return readJSON(text, say)
}

// complaint is what a hook that failed printed on stderr, to be added to how it
// ended.
func complaint(r proc.Result, say func(string, int) string) string {
	if text := say(string(r.Stderr.Bytes), maxReason); text != "" {
		return ": " + text
	}
	return ""
}

func readJSON(text []byte, say func(string, int) string) (answer, error) {
	var s spoken
	if err := json.Unmarshal(text, &s); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return answer{}, fmt.Errorf("answered with a %s that is a %s", wrong.Field, wrong.Value)
		}
		return answer{}, fmt.Errorf("printed an object that is no JSON: %w", err)
	}
	a := answer{warning: say(s.SystemMessage, maxReason)}
	if s.Specific != nil {
		a.instructions = say(s.Specific.AdditionalContext, maxOutput)
	}
	switch {
	case s.Decision != "" && s.Decision != "block" && s.Decision != "approve":
		return a, fmt.Errorf("answered the decision %q; allowed: block, approve, or none", say(s.Decision, 100))
	case s.Decision == "block", s.Continue != nil && !*s.Continue:
		first, second := s.Reason, s.StopReason
		if s.Decision != "block" {
			first, second = second, first
		}
		a.denied, a.reason = true, cmp.Or(say(first, maxReason), say(second, maxReason), "it gave no reason")
	}
	return a, nil
}

// clip returns at most limit characters of a text, and whether something is missing.
func clip(text string, limit int) (string, bool) {
	n := 0
	for i := range text {
		if n == limit {
			return strings.TrimRight(text[:i], " \n\t"), true
		}
		n++
	}
	return text, false
}
