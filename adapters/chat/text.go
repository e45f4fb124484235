package chat

import (
	"bytes"
	"encoding/json"
	"strings"
)

// unquote decodes a JSON string. Servers cut the text of a model anywhere, also
// between the two halves of a surrogate pair (\ud83d | \ude00): then the first half
// waits in carry for the piece that follows.
func unquote(raw []byte, carry *[]byte) string {
	if len(*carry) > 0 {
		raw = append(append([]byte{'"'}, *carry...), raw[1:]...)
		*carry = nil
	}
	if half := cutPair(raw); half > 0 {
		*carry = bytes.Clone(raw[len(raw)-1-half : len(raw)-1])
		raw = append(bytes.Clone(raw[:len(raw)-1-half]), '"')
	}
	var s string
	if json.Unmarshal(raw, &s) != nil { // the chunk around it was valid: it is a string
		return ""
	}
	return s
}

// cutPair returns the length of an escaped first half of a pair at the end of a
// JSON string, 0 if there is none.
func cutPair(raw []byte) int {
	const half = len(`\ud83d`)
	if len(raw) < half+2 {
		return 0
	}
	end := raw[:len(raw)-1]
	esc := end[len(end)-half:]
	if esc[0] != '\\' || esc[1] != 'u' || esc[2]|0x20 != 'd' || !strings.ContainsRune("89abAB", rune(esc[3])) {
		return 0
	}
	slashes := len(end) - half + 1 - len(bytes.TrimRight(end[:len(end)-half+1], `\`))
	if slashes%2 == 0 { // the backslash is itself escaped: this is the text \ud83d
		return 0
	}
	return half
}

// growing is a text that arrives in pieces, or as the whole so far each time.
type growing struct {
	sofar     strings.Builder
	snapshots bool // every piece is the whole so far
}

// minSnapshot is from which length on a piece that repeats all there was before is
// taken for the whole so far, where nobody said so.
const minSnapshot = 24

// next returns what a piece adds. sure says that a piece that repeats what was
// there is never a repetition by the model.
func (g *growing) next(piece string, sure bool) string {
	was := g.sofar.Len()
	if was > 0 && len(piece) >= was && (sure || g.snapshots || was >= minSnapshot && len(piece) > was) &&
		strings.HasPrefix(piece, g.sofar.String()) {
		g.snapshots = true
		piece = piece[was:]
	}
	g.sofar.WriteString(piece)
	return piece
}

// The modes of reading thoughts out of the text of an answer.
const (
	thinkOff       = "off"
	thinkTags      = "tags"      // the answer may begin with <think>
	thinkPrefilled = "prefilled" // the template wrote <think> already: it begins inside
)

// thinkOpens are the tags that templates put thoughts in, each with its end.
var thinkOpens = []struct{ open, end string }{
	{"<think>", "</think>"},
	{"<thinking>", "</thinking>"},
	{"<thought>", "</thought>"},
	{"[THINK]", "[/THINK]"},
}

// thinker splits the text of an answer into thoughts and the rest. A tag counts
// only while nothing but white space was said: an answer that writes about
// <think> is left alone. What could still become a tag is held back.
type thinker struct {
	mode   string
	held   string // not yet known what it is
	end    string // the tag that ends the thought; empty: outside
	spoken bool   // something was said: no tag counts any more
	trim   bool   // white space after a thought is not part of the answer
}

// next takes a piece and gives what is known of it to think and say.
func (t *thinker) next(piece string, think, say func(string)) {
	if t.mode == "" || t.mode == thinkOff {
		say(piece)
		return
	}
	if t.mode == thinkPrefilled {
		t.mode, t.end = thinkTags, thinkOpens[0].end
		t.held = strings.TrimPrefix(strings.TrimLeft(t.held, " \n"), thinkOpens[0].open)
	}
	t.held += piece
	for t.held != "" && t.step(think, say) {
	}
}

// step deals with the beginning of what is held and reports whether to go on.
func (t *thinker) step(think, say func(string)) bool {
	switch {
	case t.spoken:
		say(t.held)
		t.held = ""
		return false
	case t.end != "":
		before, after, found := strings.Cut(t.held, t.end)
		if !found {
			keep := overlap(t.held, t.end)
			think(t.held[:len(t.held)-keep])
			t.held = t.held[len(t.held)-keep:]
			return false
		}
		think(before)
		t.held, t.end, t.trim = after, "", true
		return true
	default:
		return t.begin(say)
	}
}

// begin looks for a tag at the beginning.
func (t *thinker) begin(say func(string)) bool {
	text := strings.TrimLeft(t.held, " \t\r\n")
	if text == "" {
		if t.trim {
			t.held = ""
		}
		return false // white space alone may come before a tag
	}
	for _, tag := range thinkOpens {
		if rest, is := strings.CutPrefix(text, tag.open); is {
			t.held, t.end = rest, tag.end
			return true
		}
		if strings.HasPrefix(tag.open, text) {
			return false
		}
	}
	if t.trim {
		t.held = text
	}
	t.spoken = true
	return true
}

// flush gives out what was held when the answer ended. White space alone is not
// held for ever: it is no answer either.
func (t *thinker) flush(think, say func(string)) {
	held := t.held
	t.held = ""
	switch {
	case held == "" || t.end == "" && t.trim && strings.TrimSpace(held) == "":
	case t.end != "":
		think(held)
	default:
		say(held)
	}
}

// overlap returns how many bytes at the end of s could be the beginning of tag.
func overlap(s, tag string) int {
	for n := min(len(tag)-1, len(s)); n > 0; n-- {
		if strings.HasSuffix(s, tag[:n]) {
			return n
		}
	}
	return 0
}
