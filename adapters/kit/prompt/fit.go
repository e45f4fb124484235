package prompt

import "slices"

// fit brings messages into the form of a wire: what every request of the wire
// needs and what is nobody's fault. It is idempotent.
func fit(ms []Message, r Rules) []Message {
	ms = slices.DeleteFunc(slices.Clone(ms), onlyThought)
	fitIDs(ms, r)
	ms = fitImages(ms, r)
	if r.MergeRoles {
		ms = mergeRoles(ms)
	}
	if r.UserFirst {
		ms = userFirst(ms)
	}
	if r.Bridge {
		ms = bridges(ms)
	}
	return ms
}

// onlyThought reports whether a message is thinking that came to nothing, as an
// interrupt leaves it. No wire takes one.
func onlyThought(m Message) bool {
	return len(m.Parts) > 0 && !slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Kind != Reasoning })
}

// fitIDs maps the ids of calls and results alike, different ones to different
// ones, and the names of tools. Empty ids stay: Lint finds them.
func fitIDs(ms []Message, r Rules) {
	given, taken := map[string]string{}, map[string]bool{}
	id := func(old string) string {
		if old == "" {
			return ""
		}
		if to, ok := given[old]; ok {
			return to
		}
		to := r.IDs.fit(old, 0)
		for try := 1; taken[to]; try++ {
			to = r.IDs.fit(old, try)
		}
		given[old], taken[to] = to, true
		return to
	}
	for _, m := range ms {
		for j := range m.Parts {
			if p := &m.Parts[j]; p.Kind == Call || p.Kind == Result {
				p.CallID, p.Name = id(p.CallID), r.Names.Fit(p.Name)
			}
		}
	}
}

// fitImages tells images where the endpoint takes none. Those of results go into a
// user message after the results if they may only be there.
func fitImages(ms []Message, r Rules) []Message {
	if r.Images == ImagesAll {
		return ms
	}
	var out []Message
	var waiting []Part
	for _, m := range ms {
		if m.Role != Tool && len(waiting) > 0 {
			out = append(out, Message{Role: User, Parts: waiting})
			waiting = nil
		}
		for j, p := range m.Parts {
			if p.Kind == Image && r.Images == ImagesNone {
				m.Parts[j] = told(p)
			}
			if p.Kind != Result {
				continue
			}
			output, images := splitImages(p.Output, r.Images)
			m.Parts[j].Output = output
			waiting = append(waiting, images...)
		}
		out = append(out, m)
	}
	if len(waiting) > 0 {
		out = append(out, Message{Role: User, Parts: waiting})
	}
	return out
}

// told is an image or an opaque item as text.
func told(p Part) Part { return Part{Kind: Text, By: p.By, Text: p.Text} }

// splitImages takes the images out of an output and leaves what tells of them.
func splitImages(output []Part, where Images) (left, images []Part) {
	for _, p := range output {
		switch {
		case p.Kind != Image:
			left = append(left, p)
		case where == ImagesNone:
			left = append(left, told(p))
		default:
			if len(images) == 0 {
				left = append(left, Part{Kind: Text, By: p.By, Text: imagesFollow})
			}
			images = append(images, p)
		}
	}
	return left, images
}

// mergeRoles joins messages of one role that follow each other.
func mergeRoles(ms []Message) []Message {
	var out []Message
	for _, m := range ms {
		if n := len(out); n > 0 && out[n-1].Role == m.Role && m.Role != System {
			out[n-1].Parts = append(slices.Clip(out[n-1].Parts), m.Parts...)
			continue
		}
		out = append(out, m)
	}
	return out
}

// first is the index of the first message that is not the system text.
func first(ms []Message) int {
	for i, m := range ms {
		if m.Role != System {
			return i
		}
	}
	return len(ms)
}

// userFirst puts a user message before a conversation that begins with the model.
func userFirst(ms []Message) []Message {
	i := first(ms)
	if i == len(ms) || ms[i].Role == User {
		return ms
	}
	return insert(ms, i, Message{Role: User, Parts: []Part{added(middle)}})
}

func insert(ms []Message, i int, m Message) []Message {
	out := append(ms[:i:i], m)
	return append(out, ms[i:]...)
}

// bridges puts a message of the assistant between results and the user's words.
func bridges(ms []Message) []Message {
	var out []Message
	for i, m := range ms {
		if i > 0 && m.Role == User && ms[i-1].Role == Tool {
			out = append(out, Message{Role: Assistant, Parts: []Part{added(bridge)}})
		}
		out = append(out, m)
	}
	return out
}
