package compaction

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Markers stand where text was left out. They carry the original size in code
// points, so that a text which is clipped again still says how long it once was:
//
//	[… 19200 of 20000 chars …]            between a head and a tail
//	[… 19200 of 20000 chars, item ID …]   the same, with what to ask recall for
//	[… 20000 chars …]                     instead of the whole text
const (
	markOpen  = "[… "
	markClose = " …]"
)

// gapMark is the marker between head and tail.
func gapMark(omitted, total int, ref transcript.ItemID) string {
	s := markOpen + strconv.Itoa(omitted) + " of " + strconv.Itoa(total) + " chars"
	if ref != "" {
		s += ", item " + string(ref)
	}
	return s + markClose
}

// stubMark is the marker that stands for a whole text.
func stubMark(total int) string { return markOpen + strconv.Itoa(total) + " chars" + markClose }

// A piece is a text that may already have been clipped: what is left of its
// head and tail, and how long it was when it was whole.
type piece struct {
	head, tail string
	total      int
	gap        bool // something is missing between head and tail
	ref        transcript.ItemID
}

// wholePiece is a text of which nothing is missing.
func wholePiece(s string, runes int) piece { return piece{head: s, total: runes} }

// parsePiece reads back what clip or stubMark wrote. A text without a marker is
// taken as whole.
func parsePiece(s string) piece {
	for at := 0; ; {
		i := strings.Index(s[at:], markOpen)
		if i < 0 {
			return wholePiece(s, utf8.RuneCountInString(s))
		}
		i += at
		j := strings.Index(s[i:], markClose)
		if j < 0 {
			return wholePiece(s, utf8.RuneCountInString(s))
		}
		if p, ok := parseMark(s[i+len(markOpen) : i+j]); ok {
			p.head = strings.TrimSuffix(s[:i], "\n")
			p.tail = strings.TrimPrefix(s[i+j+len(markClose):], "\n")
			return p
		}
		at = i + len(markOpen)
	}
}

// parseMark reads the inside of a marker.
func parseMark(m string) (piece, bool) {
	p := piece{gap: true}
	m, ref, ok := strings.Cut(m, ", item ")
	if ok {
		p.ref = transcript.ItemID(ref)
	}
	m, ok = strings.CutSuffix(m, " chars")
	if !ok {
		return p, false
	}
	if _, total, ok := strings.Cut(m, " of "); ok {
		m = total
	}
	n, err := strconv.Atoi(m)
	p.total = n
	return p, err == nil && n >= 0
}

// clip shortens the piece to about head code points of its beginning and tail of
// its end. The result never ends or begins inside a rune, always has a marker
// where text is missing, and is never longer than the piece was; clipping it
// again with the same bounds changes nothing.
func (p piece) clip(head, tail int, ref transcript.ItemID) string {
	if p.ref != "" {
		ref = p.ref
	}
	h, t := p.head, p.tail
	hRunes, tRunes := utf8.RuneCountInString(h), utf8.RuneCountInString(t)
	if !p.gap {
		mark := gapMark(p.total, p.total, ref)
		if hRunes <= head+tail+utf8.RuneCountInString(mark)+2 {
			return h
		}
		whole := h
		h = headOf(whole, head)
		t = tailOf(whole[len(h):], tail)
	} else {
		if hRunes > head {
			h = headOf(h, head)
		}
		if tRunes > tail {
			t = tailOf(t, tail)
		}
	}
	h, t = strings.TrimRight(h, "\r\n"), strings.TrimLeft(t, "\r\n")
	omitted := p.total - utf8.RuneCountInString(h) - utf8.RuneCountInString(t)
	return joinPiece(h, gapMark(max(omitted, 0), p.total, ref), t)
}

// joinPiece puts the marker on a line of its own.
func joinPiece(h, mark, t string) string {
	if h != "" {
		mark = h + "\n" + mark
	}
	if t != "" {
		mark += "\n" + t
	}
	return mark
}

// headOf returns about n code points of the beginning of s, less to end with a
// line or at least a word, never more.
func headOf(s string, n int) string {
	end := byteOf(s, n)
	if end == len(s) {
		return s
	}
	h := s[:end]
	if i := strings.LastIndexByte(h, '\n'); i >= end-end/4 {
		return h[:i]
	}
	if i := strings.LastIndexByte(h, ' '); i >= end-end/8 {
		return h[:i]
	}
	return h
}

// tailOf is headOf for the end of s.
func tailOf(s string, n int) string {
	if n <= 0 {
		return ""
	}
	start := len(s)
	for ; n > 0 && start > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:start])
		start -= size
	}
	t := s[start:]
	if start == 0 {
		return t
	}
	if i := strings.IndexByte(t, '\n'); i >= 0 && i <= len(t)/4 {
		return t[i+1:]
	}
	if i := strings.IndexByte(t, ' '); i >= 0 && i <= len(t)/8 {
		return t[i+1:]
	}
	return t
}

// byteOf returns the byte offset of code point n of s, or len(s).
func byteOf(s string, n int) int {
	if n <= 0 {
		return 0
	}
	if len(s) <= n {
		return len(s)
	}
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// unbounded is a limit that no text reaches.
const unbounded = math.MaxInt32

// oneLine returns the beginning of s as a single line of at most n code points;
// an ellipsis shows that something is missing.
func oneLine(s string, n int) string {
	var b strings.Builder
	space, count := false, 0
	for _, r := range s {
		switch {
		case r == '\n' || r == '\r' || r == '\t' || r == ' ':
			space = b.Len() > 0
			continue
		case r < ' ' || r == 0x7f:
			continue
		}
		if space {
			b.WriteByte(' ')
			space, count = false, count+1
		}
		if count >= n-1 {
			b.WriteString("…")
			return b.String()
		}
		b.WriteRune(r)
		count++
	}
	return b.String()
}

// firstLine returns the first line of s that is not blank, trimmed.
func firstLine(s string) string {
	for s != "" {
		line, rest, _ := strings.Cut(s, "\n")
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
		s = rest
	}
	return ""
}

// tokensOf is the ruler applied to a number of code points.
func tokensOf(runes int) int { return (runes + 3) / 4 }
