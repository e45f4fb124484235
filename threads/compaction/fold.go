package compaction

import (
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A history that is larger than what a writer takes is folded: a part is written up,
// and its notes are the notes so far of the next part. A call is never parted from
// its results; where a part ends in the middle of a turn, it says so.

// Bounds of folding.
const (
	windowShare   = 60     // of a writer's window that a request may have, in hundredths
	defaultWindow = 32_000 // where nobody knows a window
	maxParts      = 8      // a larger history is shown shorter instead
	minPart       = 400    // tokens; a window with less room is too small for a writer
	minClip       = 250
)

// part returns the blocks from one on that fit into room tokens, shown, and the
// index after them. There is at least one: alone it is cut to the room.
func (s *source) part(from, room int, st style) (text string, end int) {
	used := 0
	for end = from; end < len(s.blocks); end++ {
		n := transcript.EstimateText(s.blocks[end].render(st))
		if used+n > room && end > from {
			break
		}
		used += n
	}
	text = s.serialise(s.blocks[from:end], from, st)
	if n := transcript.EstimateText(text); n > room && end == from+1 {
		text = clipBlock(text, utf8.RuneCountInString(text)*room/n)
	}
	return text, end
}

// thin is the style in which the rest of the history has room in so many parts.
func (s *source) thin(from, room, parts int, st style) style {
	for s.size(from, st) > max(parts, 1)*room {
		switch {
		case st.clip/2 >= minClip:
			st.clip /= 2
		case st.level < levelNoOutput:
			st.level = levelNoOutput
		case st.level < levelTalk:
			st.level = levelTalk
		default:
			return st
		}
	}
	return st
}

// size is how many tokens the history has from a block on.
func (s *source) size(from int, st style) int {
	sum := 0
	for i := range s.blocks[from:] {
		sum += transcript.EstimateText(s.blocks[from+i].render(st))
	}
	return sum
}
