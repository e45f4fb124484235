package prompt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Mend repairs what Lint finds and returns it. The messages that it was given are
// not changed; those of a clean request are returned as they are. A finding that
// is Stuck is there still.
func Mend(ms []Message, r Rules) ([]Message, []Finding) {
	found := Lint(ms, r)
	if len(found) == 0 {
		return ms, nil
	}
	out := clone(ms)
	out = mendRoles(out)
	out = mendKinds(out, r)
	out = mendPairs(out)
	mendTexts(out, r)
	mendArguments(out)
	mendImages(out)
	out = mendRepetitions(mendEmpty(out))
	out = mendEmpty(out)
	out = fit(out, r)
	out = mendEnds(out, r)
	mendSize(out, r)
	for i, left := range Lint(out, r) {
		left.Stuck = true
		if i == 0 {
			found = slices.DeleteFunc(found, func(f Finding) bool { return f.Stuck })
		}
		found = append(found, left)
	}
	return out, found
}

// mendRoles leaves one system message, at the front (L5), and no role that is not
// known (L10). A later one with the same text goes (L11).
func mendRoles(ms []Message) []Message {
	text := systemText(ms)
	var out []Message
	for i, m := range ms {
		if m.Role == System && i > 0 {
			if same := systemText([]Message{m}); same == text {
				continue
			}
			m.Role = User
			for j := range m.Parts {
				m.Parts[j].By = transcript.KindNotice
			}
		}
		if allowed[m.Role] == nil {
			m.Role = User
		}
		out = append(out, m)
	}
	return out
}

// mendTexts makes texts UTF-8 (L4) and takes the writer's mark out (L12).
func mendTexts(ms []Message, r Rules) {
	unmark := func(s string) string {
		if r.Writer {
			return s
		}
		for strings.Contains(s, transcript.WriterMark) {
			s = strings.ReplaceAll(s, transcript.WriterMark, "")
		}
		return s
	}
	texts(ms, func(p Part) string {
		if p.Kind == Reasoning { // whole or not at all; mendKinds saw to it
			return p.Text
		}
		return unmark(clean(p.Text))
	})
	for _, m := range ms {
		for j := range m.Parts {
			m.Parts[j].Arguments = transcript.RawJSON(unmark(string(m.Parts[j].Arguments)))
		}
	}
}

// mendKinds tells as text, or drops, what cannot be where it is (L9, L10). Calls
// and results that are in a message of another role become text as well; the other
// half is then without its pair, which mendPairs sees to.
func mendKinds(ms []Message, r Rules) []Message {
	l := newLinter(ms, r)
	var out []Message
	for i, m := range ms {
		kept := Message{Role: m.Role}
		var after []Part // texts that a message of results cannot hold
		for _, p := range m.Parts {
			if p.Kind == Result {
				p.Output = mendOutput(p.Output, r)
			}
			switch {
			case p.Kind == Reasoning && !l.fresh(i, p), p.Kind == Opaque && p.Sum != SumOf(p):
				continue
			case l.foreign(m.Role, p) == "":
				kept.Parts = append(kept.Parts, p)
				continue
			}
			if p = asText(p); blank(p.Text) {
				continue
			}
			if m.Role == Tool {
				after = append(after, p)
			} else {
				kept.Parts = append(kept.Parts, p)
			}
		}
		if len(kept.Parts) > 0 {
			out = append(out, kept)
		}
		if len(after) > 0 {
			out = append(out, Message{Role: User, Parts: after})
		}
	}
	return out
}

// fresh reports whether reasoning of a message may be sent.
func (l *linter) fresh(i int, p Part) bool {
	probe := *l
	probe.found = nil
	probe.echo(i, 0, p)
	return len(probe.found) == 0
}

// asText tells a part as text; an empty one is to be dropped.
func asText(p Part) Part {
	switch p.Kind {
	case Call:
		p.Text = callText(p)
	case Result:
		p.Text = lateText(p.CallID, p.Name, p.Output)
	case Reasoning:
		p.Text = ""
	case Text, Image, Opaque:
	}
	return told(p)
}

// mendOutput leaves texts in an output, and images where they may be.
func mendOutput(output []Part, r Rules) []Part {
	var out []Part
	for _, o := range output {
		switch {
		case o.Kind == Text, o.Kind == Image && r.Images != ImagesNone:
		default:
			o = asText(o)
		}
		out = append(out, o)
	}
	return out
}

// mendArguments sends no arguments where they are no object, and has the result
// quote them (L7). Every call has an id of its own by now.
func mendArguments(ms []Message) {
	bad := map[string]string{}
	for _, m := range ms {
		for j := range m.Parts {
			p := &m.Parts[j]
			switch p.Kind {
			case Call:
				if !isObject(p.Arguments) {
					bad[p.CallID] = clip(clean(string(p.Arguments)), maxQuoted)
					p.Arguments = transcript.RawJSON("{}")
				}
			case Result:
				if raw, is := bad[p.CallID]; is && !quotes(p.Output, raw) {
					p.Output = append(p.Output, Part{
						Kind: Text, By: transcript.KindToolResult, Text: "[the arguments of this call were no JSON object: " + raw + "]",
					})
				}
			default:
			}
		}
	}
}

// quotes reports whether an output shows a text.
func quotes(output []Part, text string) bool {
	return slices.ContainsFunc(output, func(p Part) bool { return strings.Contains(p.Text, text) })
}

// mendRepetitions drops what occurs a second time (L11).
func mendRepetitions(ms []Message) []Message {
	text, said := systemText(ms), map[string]bool{}
	for i, m := range ms {
		kept := m.Parts[:0:0]
		for _, p := range m.Parts {
			if repeats(m, p, text) {
				p.Text = strings.ReplaceAll(p.Text, text, "")
				if strings.Contains(p.Text, text) { // it was nested in itself
					p.Text = ""
				}
			}
			if again := said[p.Text]; restates(m, p) && again {
				continue
			} else if restates(m, p) {
				said[p.Text] = true
			}
			kept = append(kept, p)
		}
		ms[i].Parts = kept
	}
	return ms
}

// mendImages names the true type of images, and tells those that are none as text
// (L8).
func mendImages(ms []Message) {
	mend := func(p *Part) {
		if p.Kind != Image {
			return
		}
		if is := transcript.ImageType(p.Data); is != "" {
			p.MediaType = is
			return
		}
		if *p = told(*p); blank(p.Text) {
			p.Text = imageText("", "")
		}
	}
	for _, m := range ms {
		for j := range m.Parts {
			mend(&m.Parts[j])
			for k := range m.Parts[j].Output {
				mend(&m.Parts[j].Output[k])
			}
		}
	}
}

// mendEmpty drops texts and messages that say nothing (L4). Something stands for an
// output and for what the user said.
func mendEmpty(ms []Message) []Message {
	var out []Message
	for _, m := range ms {
		for j, p := range m.Parts {
			if p.Kind == Result {
				m.Parts[j].Output = someOutput(p.Output)
			}
		}
		user := m.Role == User && slices.ContainsFunc(m.Parts, func(p Part) bool { return p.By == transcript.KindUserMessage })
		m.Parts = slices.DeleteFunc(m.Parts, func(p Part) bool { return p.Kind == Text && blank(p.Text) })
		if len(m.Parts) == 0 && user {
			m.Parts = []Part{{Kind: Text, By: transcript.KindUserMessage, Text: noMessage}}
		}
		if len(m.Parts) > 0 {
			out = append(out, m)
		}
	}
	return out
}

func someOutput(output []Part) []Part {
	output = slices.DeleteFunc(output, func(p Part) bool { return p.Kind == Text && blank(p.Text) })
	if len(output) == 0 {
		return []Part{{Kind: Text, By: transcript.KindToolResult, Text: noOutput}}
	}
	return output
}

// mendEnds gives a conversation its user, and an end that can be answered (L6).
func mendEnds(ms []Message, r Rules) []Message {
	if !slices.ContainsFunc(ms, func(m Message) bool { return m.Role == User && slices.ContainsFunc(m.Parts, isReal) }) {
		ms = insert(ms, first(ms), Message{Role: User, Parts: []Part{added(lost)}})
		ms = fit(ms, r)
	}
	if last := len(ms) - 1; last < 0 || !ends(ms[last]) {
		ms = fit(append(ms, Message{Role: User, Parts: []Part{added(goOn)}}), r)
	}
	return ms
}

// limits are the lengths, in bytes, to which texts are clipped in turn.
var limits = []int{64 << 10, 16 << 10, 4 << 10, 1 << 10, 256}

// mendSize makes a request smaller that the endpoint would not take (L13): images,
// the oldest first, then outputs and notes, then everything but the system text.
func mendSize(ms []Message, r Rules) {
	if r.MaxBytes <= 0 {
		return
	}
	over := Bytes(ms) - r.MaxBytes
	for _, m := range ms {
		for j := range m.Parts {
			over -= unshow(&m.Parts[j], over)
			for k := range m.Parts[j].Output {
				over -= unshow(&m.Parts[j].Output[k], over)
			}
		}
	}
	for _, all := range []bool{false, true} {
		for _, limit := range limits {
			for _, m := range ms {
				for j := range m.Parts {
					over -= shorten(m.Role, &m.Parts[j], limit, over, all)
				}
			}
		}
	}
}

// unshow tells an image as text while too much is there, and returns what it saved.
func unshow(p *Part, over int) int {
	if over <= 0 || p.Kind != Image {
		return 0
	}
	before := partBytes(*p)
	if *p = told(*p); blank(p.Text) {
		p.Text = imageText("", "")
	}
	return before - partBytes(*p)
}

// shorten clips a part while too much is there, and returns what it saved. What
// people and models said is clipped only if all is.
func shorten(role Role, p *Part, limit, over int, all bool) int {
	if over <= 0 || role == System {
		return 0
	}
	before := partBytes(*p)
	own := p.By == transcript.KindUserMessage || p.By == transcript.KindAgentMessage || p.By == transcript.KindCheckpoint
	switch p.Kind {
	case Text:
		if all || !own {
			p.Text = clip(p.Text, limit)
		}
	case Result:
		for k := range p.Output {
			if p.Output[k].Kind == Text {
				p.Output[k].Text = clip(p.Output[k].Text, limit)
			}
		}
	case Call:
		if all && len(p.Arguments) > limit {
			p.Arguments = transcript.RawJSON(fmt.Sprintf(`{"clipped":"%d bytes omitted"}`, len(p.Arguments)))
		}
	case Reasoning, Opaque, Image: // whole or not at all
	}
	return before - partBytes(*p)
}
