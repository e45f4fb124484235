package transcript

// AbortedText is the text of every synthetic result.
const AbortedText = "aborted: this call was never answered"

// SyntheticID returns the id of the synthetic result of a call's item.
func SyntheticID(call ItemID) ItemID { return call + "-aborted" }

// SyntheticResult returns the result that the server gives a call which nothing
// else will ever answer.
func SyntheticResult(call Item, body ToolCall) Item {
	return Item{
		ID: SyntheticID(call.ID), Turn: call.Turn,
		StartedAt: call.StartedAt, CompletedAt: call.CompletedAt,
		Body: ToolResult{CallID: body.CallID, Output: TextParts(AbortedText), IsError: true, Synthetic: true},
	}
}

// AnswerOpenCalls returns t with exactly one result for every call, and how many
// synthetic ones that took. A synthetic result stands before the next item that
// is neither a call nor a result, where every wire format wants it, on its call's
// side of every boundary, and is kept where its call is kept. t itself is not
// changed; a transcript without open calls is returned as it is.
func AnswerOpenCalls(t Transcript) (Transcript, int) {
	unanswered := openCalls(t.Items)
	if len(unanswered) == 0 {
		return t, 0
	}
	items := make([]Item, 0, len(t.Items)+len(unanswered))
	newIndex := make([]int, len(t.Items)+1) // where the items before each old index end now
	drawn := map[int]bool{}
	for _, b := range t.Boundaries {
		drawn[b.Covered] = true
	}
	var waiting []Item
	flush := func() {
		items = append(items, waiting...)
		waiting = nil
	}
	for i, it := range t.Items {
		if k := it.Body.Kind(); k != KindToolCall && k != KindToolResult || drawn[i] {
			flush()
		}
		newIndex[i] = len(items)
		items = append(items, it)
		if unanswered[i] {
			waiting = append(waiting, SyntheticResult(it, it.Body.(ToolCall)))
		}
	}
	flush()
	newIndex[len(t.Items)] = len(items)
	out := Transcript{Turns: t.Turns, Items: items, Boundaries: make([]Boundary, len(t.Boundaries)), Prunes: t.Prunes}
	for i, b := range t.Boundaries {
		b.Covered, b.Kept = newIndex[b.Covered], keepAnswers(b.Kept, out.Items)
		out.Boundaries[i] = b
	}
	return out, len(unanswered)
}

// keepAnswers keeps the synthetic result of every call that is kept.
func keepAnswers(kept []Kept, items []Item) []Kept {
	synthetic := map[ItemID]bool{}
	for _, it := range items {
		if r, ok := it.Body.(ToolResult); ok && r.Synthetic {
			synthetic[it.ID] = true
		}
	}
	out := make([]Kept, 0, len(kept))
	for _, k := range kept {
		out = append(out, k)
		if id := SyntheticID(k.ItemID); synthetic[id] {
			out = append(out, Kept{ItemID: id, Form: FormWhole})
		}
	}
	return out
}

// openCalls returns the indexes of the calls that no later result answers. A
// call id that is used again opens a new call.
func openCalls(items []Item) map[int]bool {
	open := map[CallID][]int{}
	for i, it := range items {
		switch b := it.Body.(type) {
		case ToolCall:
			open[b.CallID] = append(open[b.CallID], i)
		case ToolResult:
			if waiting := open[b.CallID]; len(waiting) > 0 {
				open[b.CallID] = waiting[1:]
			}
		default:
		}
	}
	unanswered := map[int]bool{}
	for _, waiting := range open {
		for _, i := range waiting {
			unanswered[i] = true
		}
	}
	return unanswered
}
