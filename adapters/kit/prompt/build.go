package prompt

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Options say how entries are told.
type Options struct {
	Rules Rules
	// Echo sends reasoning back to who said it. It is sent whole or not at all, and
	// none that is older than the last boundary. Rules.Reasoning must be set as well.
	Echo bool
	// Blob returns the bytes of an image by its hash. Nil: images are told as text.
	Blob func(hash string) ([]byte, error)
}

// Prepare returns the messages of a request, mended, and what had to be.
func Prepare(systemText string, entries []transcript.Entry, o Options) ([]Message, []Finding) {
	return Mend(Build(systemText, entries, o), o.Rules)
}

// Build projects a system text and the entries of a context onto messages. The
// system text is the first message, if it says anything.
func Build(systemText string, entries []transcript.Entry, o Options) []Message {
	b := &builder{o: o, entries: entries, pairs: pair(entries)}
	if s := clean(systemText); !blank(s) {
		b.out = append(b.out, system(s))
	}
	stale := staleAnchors(entries)
	for i := range entries {
		if !stale[i] {
			b.add(i)
		}
	}
	b.endStep()
	return fit(b.out, o.Rules)
}

// staleAnchors are the notices that restate facts and of which a newer one is there:
// a tail can hold one from an epoch before. A newer one comes with a boundary, where
// the context begins anew anyway.
func staleAnchors(entries []transcript.Entry) map[int]bool {
	stale, last := map[int]bool{}, -1
	for i, e := range entries {
		if n, is := e.Item.Body.(transcript.Notice); is && n.Source == sourceReanchor {
			if last >= 0 {
				stale[last] = true
			}
			last = i
		}
	}
	return stale
}

// pairs joins calls and results by their indexes among the entries.
type pairs struct {
	result map[int]int // of a call
	call   map[int]int // of a result
	name   map[transcript.CallID]string
}

// pair joins each result with the oldest call of its id that waits for one.
func pair(entries []transcript.Entry) pairs {
	p := pairs{map[int]int{}, map[int]int{}, map[transcript.CallID]string{}}
	open := map[transcript.CallID][]int{}
	for i, e := range entries {
		switch b := e.Item.Body.(type) {
		case transcript.ToolCall:
			open[b.CallID] = append(open[b.CallID], i)
			p.name[b.CallID] = b.Name
		case transcript.ToolResult:
			if waiting := open[b.CallID]; len(waiting) > 0 {
				p.result[waiting[0]], p.call[i] = i, waiting[0]
				open[b.CallID] = waiting[1:]
			}
		default:
		}
	}
	return p
}

// builder makes messages of entries, in order.
type builder struct {
	o       Options
	entries []transcript.Entry
	pairs   pairs
	out     []Message
	since   *transcript.Item // the checkpoint that the entries begin with
	calls   []int            // of the step that is open: their results come next
}

// add tells of one entry. Whatever follows calls, other than more calls, ends their
// step: their results go first.
func (b *builder) add(i int) {
	e := b.entries[i]
	if _, is := e.Item.Body.(transcript.ToolCall); !is {
		b.endStep()
	}
	switch body := e.Item.Body.(type) {
	case transcript.UserMessage:
		b.user(b.parts(transcript.KindUserMessage, body.Content, noMessage)...)
	case transcript.AgentMessage:
		b.say(Part{Kind: Text, By: transcript.KindAgentMessage, Text: clean(body.Text)})
	case transcript.Reasoning:
		if b.echoes(e) {
			p := Part{Kind: Reasoning, By: transcript.KindReasoning, Text: body.Text}
			p.Sum = SumOf(p)
			b.say(p)
		}
	case transcript.ToolCall:
		b.call(i, body)
	case transcript.ToolResult:
		if _, paired := b.pairs.call[i]; !paired {
			output := b.parts(transcript.KindToolResult, body.Output, noOutput)
			b.note(transcript.KindToolResult, "", lateText(string(body.CallID), b.pairs.name[body.CallID], output))
		}
	default:
		b.tell(e)
	}
}

// tell tells of what is nobody's message: as text of the user's side, because a
// model repeats the form of its own words.
func (b *builder) tell(e transcript.Entry) {
	kind := e.Item.Body.Kind()
	switch body := e.Item.Body.(type) {
	case transcript.Command:
		b.note(kind, "", commandText(body))
	case transcript.FileChange:
		b.note(kind, "", filesText(body))
	case transcript.Plan:
		b.note(kind, "", planText(body))
	case transcript.Notice:
		b.note(kind, body.Source, body.Text)
	case transcript.Checkpoint:
		b.since = &e.Item
		b.note(kind, "", body.Text)
	case transcript.Image:
		b.user(b.image(kind, body.Blob, body.MediaType, body.Path))
	case transcript.Opaque:
		if slices.Contains(b.o.Rules.Origins, body.Origin) && e.Form == transcript.FormWhole && !b.old(e.Item) {
			p := Part{Kind: Opaque, By: kind, Text: clean(body.Text), Origin: body.Origin, Raw: body.Raw}
			p.Sum = SumOf(p)
			b.say(p)
			return
		}
		b.note(kind, "", body.Text)
	default: // the marks of the timeline are not for models
	}
}

// echoes reports whether reasoning is sent back.
func (b *builder) echoes(e transcript.Entry) bool {
	return b.o.Echo && b.o.Rules.Reasoning && e.Form == transcript.FormWhole && !b.old(e.Item)
}

// old reports whether an item is from before the last boundary, as far as their
// times say; without them it is.
func (b *builder) old(it transcript.Item) bool {
	return b.since != nil && (b.since.CompletedAt.IsZero() || !it.StartedAt.After(b.since.CompletedAt))
}

func (b *builder) user(parts ...Part) {
	b.out = append(b.out, Message{Role: User, Parts: parts})
}

// note is a user message of one text. Texts that say nothing are dropped.
func (b *builder) note(by transcript.Kind, source, text string) {
	if text = clean(text); !blank(text) {
		b.user(Part{Kind: Text, By: by, Source: source, Text: text})
	}
}

// say adds to the assistant's message that is open, or opens one: nothing but more
// calls comes after calls.
func (b *builder) say(p Part) {
	if p.Kind != Call && p.Kind != Opaque && blank(p.Text) {
		return
	}
	if n := len(b.out); n > 0 && b.out[n-1].Role == Assistant && (p.Kind == Call || !b.out[n-1].has(Call)) {
		b.out[n-1].Parts = append(b.out[n-1].Parts, p)
		return
	}
	b.out = append(b.out, Message{Role: Assistant, Parts: []Part{p}})
}

// call adds a call to the step. Arguments that are no object were answered with an
// error that quotes them, so they are sent as none; those of an honest call are
// wrapped instead.
func (b *builder) call(i int, c transcript.ToolCall) {
	args, failed := c.Arguments, true
	if r, ok := b.pairs.result[i]; ok {
		failed = b.entries[r].Item.Body.(transcript.ToolResult).IsError
	}
	switch trimmed := bytes.TrimSpace(args); {
	case isObject(args):
	case failed || !json.Valid(args) || len(trimmed) == 0 || string(trimmed) == "null":
		args = transcript.RawJSON("{}")
	default:
		args = slices.Concat(transcript.RawJSON(`{"input":`), trimmed, transcript.RawJSON(`}`))
	}
	b.say(Part{Kind: Call, By: transcript.KindToolCall, CallID: clean(string(c.CallID)), Name: clean(c.Name), Arguments: args})
	b.calls = append(b.calls, i)
}

// isObject reports whether raw is one JSON object in UTF-8.
func isObject(raw transcript.RawJSON) bool {
	trimmed := bytes.TrimSpace(raw)
	return len(trimmed) > 0 && trimmed[0] == '{' && utf8.Valid(trimmed) && json.Valid(trimmed)
}

// endStep answers the calls of the step that is open. One without a result is left
// to Mend.
func (b *builder) endStep() {
	var results []Part
	for _, i := range b.calls {
		r, ok := b.pairs.result[i]
		if !ok {
			continue
		}
		call := b.entries[i].Item.Body.(transcript.ToolCall)
		body := b.entries[r].Item.Body.(transcript.ToolResult)
		results = append(results, Part{
			Kind: Result, By: transcript.KindToolResult, CallID: clean(string(call.CallID)), Name: clean(call.Name),
			Output: b.parts(transcript.KindToolResult, body.Output, noOutput), IsError: body.IsError,
		})
	}
	b.calls = nil
	if len(results) > 0 {
		b.out = append(b.out, Message{Role: Tool, Parts: results})
	}
}

// parts tells the parts of a message or of an output; instead stands for none.
func (b *builder) parts(by transcript.Kind, in []transcript.Part, instead string) []Part {
	var out []Part
	for _, p := range in {
		if p.Type == transcript.PartImage {
			out = append(out, b.image(by, p.Blob, p.MediaType, ""))
		} else if text := clean(p.Text); !blank(text) {
			out = append(out, Part{Kind: Text, By: by, Text: text})
		}
	}
	if len(out) == 0 {
		out = append(out, Part{Kind: Text, By: by, Text: instead})
	}
	return out
}

// image is an image with its bytes where they are wanted and can be had. One whose
// bytes are missing is found by Lint.
func (b *builder) image(by transcript.Kind, hash, mediaType, path string) Part {
	told := clean(imageText(mediaType, path))
	if b.o.Blob == nil || b.o.Rules.Images == ImagesNone {
		return Part{Kind: Text, By: by, Text: told}
	}
	data, err := b.o.Blob(hash)
	if err != nil {
		data = nil
	}
	return Part{Kind: Image, By: by, Text: told, MediaType: mediaType, Data: data}
}
