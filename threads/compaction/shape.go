package compaction

import (
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A fit is a way to show an item; a shape is what comes out for one item.
type fit struct {
	mode       fitMode
	head, tail int // code points, for fitClip and fitRef
}

type fitMode uint8

const (
	fitWhole fitMode = iota
	fitClip          // head and tail
	fitRef           // the same, and the marker names the item
	fitArgs          // a call: each argument shortened
	fitBrief         // a call: its main argument and what the new text declares
	fitStub          // a marker, or the few words that say what it was
)

type shape struct {
	form   transcript.Form
	text   string // replaces the item's text unless the form is whole
	tokens int
}

type shot struct {
	fit   fit
	shape shape
}

// shape returns the node shown as f. It is never richer and never larger than
// what the node is now.
func (n *node) shape(f fit) shape {
	for i := range n.cache {
		if n.cache[i].fit == f {
			return n.cache[i].shape
		}
	}
	s := n.makeShape(f)
	n.cache = append(n.cache, shot{f, s})
	return s
}

// asIs is the node in the form that it has now.
func (n *node) asIs() shape {
	s := shape{form: n.form, tokens: n.tokens}
	if n.form != transcript.FormWhole {
		s.text = n.body
	}
	return s
}

func (n *node) makeShape(f fit) shape {
	if f.mode == fitWhole || n.form == transcript.FormStub {
		return n.asIs()
	}
	s := shape{form: transcript.FormClipped}
	switch f.mode {
	case fitClip:
		s.text = n.piece().clip(f.head, f.tail, n.reference())
	case fitRef:
		s.text = n.piece().clip(f.head, f.tail, n.item.ID)
	case fitArgs:
		s.text = n.shortArgs(f.head)
	case fitBrief:
		s.text = n.brief()
	case fitStub:
		s.form, s.text = transcript.FormStub, n.stub()
	case fitWhole: // returned above
	}
	if n.form == transcript.FormWhole && s.text == n.body && n.images == 0 {
		return n.asIs() // nothing was left out
	}
	s.text = strings.ToValidUTF8(s.text, "\uFFFD")
	s.tokens = tokensOf(n.fixed + utf8.RuneCountInString(s.text))
	if s.tokens >= n.tokens {
		return n.asIs()
	}
	return s
}

// piece is the replaceable text; of an item that is clipped already, what is
// left of it.
func (n *node) piece() piece {
	if n.form == transcript.FormWhole {
		return wholePiece(n.body, utf8.RuneCountInString(n.body))
	}
	return parsePiece(n.body)
}

// reference is what a marker names so that the model can ask for the text: only
// the user's own words are worth the tokens.
func (n *node) reference() transcript.ItemID {
	if n.kind == transcript.KindUserMessage {
		return n.item.ID
	}
	return ""
}

// shortArgs shows a call with each argument shortened.
func (n *node) shortArgs(chars int) string {
	switch {
	case n.form != transcript.FormWhole && n.kind == transcript.KindToolCall:
		return n.body // each argument was shortened then; a second cut would hit their markers
	case n.act == nil || len(n.act.fields) == 0:
		return n.piece().clip(2*chars, chars/2, "")
	}
	lines := make([]string, 0, len(n.act.fields))
	for _, f := range n.act.fields {
		limit := chars
		if isMainKey(f.key) {
			limit = max(limit, 600)
		}
		p := wholePiece(f.text, utf8.RuneCountInString(f.text))
		lines = append(lines, p.clip(limit*3/4, limit/4, ""))
	}
	return strings.Join(lines, "\n")
}

// brief shows what a call was about in a few words.
func (n *node) brief() string {
	if n.form != transcript.FormWhole || n.act == nil {
		return oneLine(firstLine(n.body), 160)
	}
	var s strings.Builder
	s.WriteString(n.act.about(160))
	for _, d := range declarations(n.act.text, 2) {
		s.WriteString("\n" + d)
	}
	return s.String()
}

// stub stands for the item; results that failed keep the line that says so.
func (n *node) stub() string {
	switch n.kind {
	case transcript.KindReasoning:
		return strings.TrimSpace(markOpen) + "]"
	case transcript.KindToolCall, transcript.KindFileChange:
		if n.form == transcript.FormWhole && n.act != nil && n.act.main != "" {
			return n.act.about(70)
		}
		return oneLine(firstLine(n.body), 70)
	default:
		s := stubMark(n.piece().total)
		if n.failed {
			s += " " + oneLine(errorLine(n.body), 120)
		}
		return s
	}
}
