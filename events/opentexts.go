package events

// OpenTexts returns what was streamed so far of the open items of a thread, in
// the order in which they were opened, cut to whole runes.
func (h *Hub) OpenTexts(thread string) []OpenText {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.texts[thread]
	if t == nil {
		return nil
	}
	open := make([]OpenText, len(t.items))
	for i, o := range t.items {
		open[i] = OpenText{Item: o.item, Text: string(o.buf[:o.ready])}
	}
	return open
}
