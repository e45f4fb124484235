package compaction

import (
	"fmt"
	"strings"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// script builds a context from words: u user, a assistant, t reasoning, cX call X,
// rX result X, sX synthetic result X, p plan, o opaque; the whole repeated n
// times, each text about size characters long. A u begins a turn.
func script(words string, n, size int) []transcript.Entry {
	var entries []transcript.Entry
	turn := 0
	for range n {
		for w := range strings.FieldsSeq(words) {
			i := len(entries)
			if w == "u" || turn == 0 {
				turn++
			}
			it := transcript.Item{ID: transcript.ItemID(fmt.Sprintf("item-%d", i)), Turn: transcript.TurnID(fmt.Sprintf("turn-%d", turn))}
			it.Body = scriptBody(w, i, size)
			entries = append(entries, transcript.Entry{Item: it, Form: transcript.FormWhole})
		}
	}
	return entries
}

func scriptBody(w string, i, size int) transcript.Body {
	text := filler(i, size)
	id := transcript.CallID(w[1:])
	switch w[0] {
	case 'u':
		return transcript.UserMessage{Content: transcript.TextParts(text)}
	case 'a':
		return transcript.AgentMessage{Text: text}
	case 't':
		return transcript.Reasoning{Text: text}
	case 'c':
		return transcript.ToolCall{CallID: id, Name: "bash", Arguments: transcript.RawJSON(fmt.Sprintf(`{"command":"make target-%d # %s"}`, i, filler(i, min(size, 100))))}
	case 'r':
		return transcript.ToolResult{CallID: id, Output: transcript.TextParts(text)}
	case 's':
		return transcript.ToolResult{CallID: id, Output: transcript.TextParts("interrupted"), IsError: true, Synthetic: true}
	case 'p':
		return transcript.Plan{Steps: []transcript.PlanStep{{Step: fmt.Sprintf("step %d", i), Status: "pending"}}}
	case 'o':
		return transcript.Opaque{Origin: "x", Raw: transcript.RawJSON(`"` + text + `"`)}
	}
	panic("script: unknown word " + w)
}

// filler is text of n characters that differs from item to item.
func filler(i, n int) string {
	var b strings.Builder
	for k := 0; b.Len() < n; k++ {
		fmt.Fprintf(&b, "word%d of item %d ", k, i)
	}
	return strings.TrimSpace(b.String()[:n])
}

// withID makes an entry of a body.
func withID(id string, turn int, b transcript.Body) transcript.Entry {
	return transcript.Entry{Item: transcript.Item{ID: transcript.ItemID(id), Turn: transcript.TurnID(fmt.Sprintf("turn-%d", turn)), Body: b}, Form: transcript.FormWhole}
}

// openOf makes the set of open items.
func openOf(entries []transcript.Entry, at ...int) map[transcript.ItemID]bool {
	open := map[transcript.ItemID]bool{}
	for _, i := range at {
		open[entries[i].Item.ID] = true
	}
	return open
}

// formOf is how an item survives; empty if it was summarised.
func formOf(c *Composed, id transcript.ItemID) transcript.Form {
	for _, k := range c.Kept {
		if k.ItemID == id {
			return k.Form
		}
	}
	return ""
}

// renumber gives the entries of joined scripts ids of their own, and makes the
// later ones part of the turn before.
func renumber(entries []transcript.Entry) []transcript.Entry {
	turn := entries[0].Item.Turn
	for i := range entries {
		it := &entries[i].Item
		if it.Body.Kind() == transcript.KindUserMessage {
			turn = transcript.TurnID(fmt.Sprintf("turn-%d", i))
		}
		it.ID, it.Turn = transcript.ItemID(fmt.Sprintf("item-%d", i)), turn
	}
	return entries
}
