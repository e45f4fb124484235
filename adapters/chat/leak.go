package chat

import (
	"encoding/json"
	"strings"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// DeepSeek's chat template writes its tokens between these. They stand in no text
// that a person would write, so in an answer they are the template's.
const (
	leakOpen  = "<｜"
	leakClose = "｜>"
	// leakMax is the length of the longest of its tokens, and some.
	leakMax = 64

	leakCalls   = "<｜tool▁calls▁begin｜>"
	leakCallEnd = "<｜tool▁call▁end｜>"
	leakCall    = "<｜tool▁call▁begin｜>"
	leakSep     = "<｜tool▁sep｜>"
)

// leakEnds are tokens that end a turn in other templates. They are taken off the
// very end of an answer only.
var leakEnds = []string{"<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|end|>", "<|eom_id|>"}

// sieve takes tokens of a chat template out of the text of an answer. From the
// token that begins tool calls on everything is kept apart: it was meant as calls.
type sieve struct {
	on    bool
	held  string
	calls strings.Builder // the leaked calls, tokens included
	in    bool            // inside them
}

// next takes a piece and says what is text of it.
func (s *sieve) next(piece string, say func(string)) {
	if !s.on {
		say(piece)
		return
	}
	if s.in {
		s.calls.WriteString(piece)
		return
	}
	s.held += piece
	for {
		i := strings.Index(s.held, leakOpen)
		if i < 0 {
			keep := s.undecided()
			say(s.held[:len(s.held)-keep])
			s.held = s.held[len(s.held)-keep:]
			return
		}
		say(s.held[:i])
		s.held = s.held[i:]
		if !s.token(say) {
			return
		}
	}
}

// token deals with a token at the beginning of what is held; false: not all of it
// is there yet, or it begins the calls.
func (s *sieve) token(say func(string)) bool {
	end := strings.Index(s.held, leakClose)
	switch {
	case end > leakMax || end < 0 && len(s.held) > leakMax: // no token after all
		say(s.held[:len(leakOpen)])
		s.held = s.held[len(leakOpen):]
		return true
	case end < 0:
		return false
	}
	if strings.HasPrefix(s.held, leakCalls) || strings.HasPrefix(s.held, leakCall) {
		s.calls.WriteString(s.held)
		s.held, s.in = "", true
		return false
	}
	s.held = s.held[end+len(leakClose):]
	return true
}

// undecided returns how many bytes at the end of what is held could begin a token,
// or are one that counts only at the end of the answer.
func (s *sieve) undecided() int {
	n := overlap(s.held, leakOpen)
	for _, e := range leakEnds {
		n = max(n, overlap(s.held, e))
		if strings.HasSuffix(s.held, e) {
			n = max(n, len(e))
		}
	}
	return n
}

// flush gives out what was held, without the token that ends the turn, and returns
// the calls that were meant; none if they cannot be read, then they are text.
func (s *sieve) flush(known func(name string) bool, say func(string)) []transcript.ToolCall {
	held := s.held
	s.held = ""
	for _, e := range leakEnds {
		held = strings.TrimSuffix(held, e)
	}
	if !strings.HasPrefix(held, leakOpen) {
		say(held)
	}
	if !s.in {
		return nil
	}
	meant, all := leakedCalls(s.calls.String(), known)
	if !all {
		say(withoutTokens(s.calls.String()))
		return nil
	}
	return meant
}

// leakedCalls reads the calls of DeepSeek's template, in both of its forms: name
// and arguments with the separator between them (V3.1), or type, separator, name
// and the arguments as a block of code (V3, R1). all is false unless every one of
// them is whole and names a tool that was offered.
func leakedCalls(text string, known func(string) bool) (meant []transcript.ToolCall, all bool) {
	for piece := range strings.SplitSeq(text, leakCall) {
		body, _, whole := strings.Cut(piece, leakCallEnd)
		if !whole {
			if strings.TrimSpace(withoutTokens(piece)) == "" { // what comes before the first
				continue
			}
			return nil, false
		}
		name, args, ok := strings.Cut(body, leakSep)
		if !ok {
			return nil, false
		}
		if strings.TrimSpace(name) == "function" {
			name, args, _ = strings.Cut(args, "\n")
			args = strings.TrimSuffix(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(args), "```json")), "```")
		}
		name, args = strings.TrimSpace(name), strings.TrimSpace(args)
		if !known(name) || !json.Valid([]byte(args)) {
			return nil, false
		}
		meant = append(meant, transcript.ToolCall{Name: name, Arguments: transcript.RawJSON(args)})
	}
	return meant, len(meant) > 0
}

// withoutTokens returns text without the template's tokens.
func withoutTokens(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, leakOpen)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if _, after, closed := strings.Cut(rest, leakClose); closed {
			text = after
		} else {
			text = rest
		}
	}
}
