package chat

import (
	"fmt"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// limits bounds what one answer may hold.
type limits struct {
	line  int // bytes of one event or line
	text  int // bytes of text, thoughts included
	args  int // bytes of tool arguments
	calls int
	name  int // bytes of an id or a name
}

// bounds are the limits in use: more than any honest answer has.
var bounds = limits{line: 16 << 20, text: 16 << 20, args: 16 << 20, calls: 256, name: 1 << 10}

// tooLarge is the error of an answer that exceeds a limit.
func tooLarge(format string, args ...any) error {
	return &adapters.Error{Class: adapters.ClassServer, Message: "the answer is too large: " + fmt.Sprintf(format, args...)}
}

// An answer collects what a server says to one request, on either wire, and makes
// chunks of it. Text is given out as it comes, calls when the answer is over.
type answer struct {
	p    profile
	sent sent
	out  []adapters.Chunk // waiting to be given out

	thoughts growing // as the server disclosed them
	content  growing
	tags     thinker
	sieve    sieve
	calls    calls
	tally    tally
	size     int // bytes of text

	finish  finish // empty: the server has not said
	visible bool   // something was said that is not white space
	done    bool   // the end of the stream was announced
}

// sent is what the end of an answer is judged by.
type sent struct {
	model     string
	window    int // of the model; 0: unknown
	maxOutput int // of the request; 0: unbounded
	estimate  int // tokens of the input, by our own count
	seed      string
	names     names
}

func newAnswer(p profile, s sent, lim limits) *answer {
	return &answer{
		p: p, sent: s,
		tags:  thinker{mode: p.think},
		sieve: sieve{on: p.leaks},
		calls: calls{lim: lim, known: s.names.offered, byIndex: map[int]*openCall{}, byID: map[string]*openCall{}},
		thoughts: growing{
			snapshots: p.snapshots,
		},
	}
}

// think takes disclosed thoughts.
func (a *answer) think(text string) error {
	if err := a.bound(text); err != nil {
		return err
	}
	a.thought(a.thoughts.next(text, a.p.snapshots))
	return nil
}

// say takes text of the answer as the server sent it. whole says that it is all of
// it, said again.
func (a *answer) say(text string, whole bool) error {
	if err := a.bound(text); err != nil {
		return err
	}
	if whole {
		text = a.content.next(text, true)
	} else {
		a.content.sofar.WriteString(text)
	}
	if a.thoughts.sofar.Len() > 0 && a.tags.held == "" {
		a.tags.mode = thinkOff // they come in a field of their own
	}
	a.tags.next(text, a.thought, a.sifted)
	return nil
}

func (a *answer) sifted(text string) { a.sieve.next(text, a.said) }

func (a *answer) thought(text string) {
	if text == "" {
		return
	}
	a.out = append(a.out, adapters.ReasoningText{Text: text})
}

func (a *answer) said(text string) {
	if text == "" {
		return
	}
	a.visible = a.visible || strings.TrimSpace(text) != ""
	a.out = append(a.out, adapters.MessageText{Text: text})
}

func (a *answer) bound(text string) error {
	if a.size += len(text); a.size > a.calls.lim.text {
		return tooLarge("more than %d bytes of text", a.calls.lim.text)
	}
	return nil
}

// take returns what can be given out now. Pieces that follow each other are one: an
// event may have thousands, and joining each at once would be quadratic.
func (a *answer) take() []adapters.Chunk {
	var out []adapters.Chunk
	var text strings.Builder
	for i, c := range a.out {
		piece, thought, is := textOf(c)
		if !is {
			out = append(out, c)
			continue
		}
		text.WriteString(piece)
		if i+1 < len(a.out) {
			if _, next, is := textOf(a.out[i+1]); is && next == thought {
				continue
			}
		}
		if thought {
			out = append(out, adapters.ReasoningText{Text: text.String()})
		} else {
			out = append(out, adapters.MessageText{Text: text.String()})
		}
		text.Reset()
	}
	a.out = nil
	return out
}

// textOf returns the text of a piece of a message or of thoughts.
func textOf(c adapters.Chunk) (text string, thought, is bool) {
	switch c := c.(type) {
	case adapters.ReasoningText:
		return c.Text, true, true
	case adapters.MessageText:
		return c.Text, false, true
	default:
		return "", false, false
	}
}

// end returns the last chunks of an answer that is complete: what was held back,
// the calls, the usage, and how it stopped. If the answer was none, because the
// prompt filled the window, it returns that error.
func (a *answer) end() ([]adapters.Chunk, error) {
	a.tags.flush(a.thought, a.sifted)
	meant := a.sieve.flush(a.sent.names.offered, a.said)
	if len(a.calls.order) == 0 {
		for _, c := range meant {
			o := &openCall{name: c.Name}
			o.args.Write(c.Arguments)
			a.calls.order = append(a.calls.order, o)
		}
	}
	found, err := a.calls.finish(a.sent.seed, a.finish.cut())
	if err != nil {
		return nil, err
	}
	stop, err := a.stop(len(found) > 0)
	for _, c := range found {
		c.Call.Name = a.sent.names.back(c.Call.Name)
		a.out = append(a.out, c)
	}
	if err != nil {
		a.out = nil
	}
	a.spent()
	if err == nil {
		a.out = append(a.out, adapters.Done{Stop: stop})
	}
	return a.take(), err
}

// broken returns what is left to say of an answer that broke off: the text so far
// and what it cost. Its calls are dropped.
func (a *answer) broken() []adapters.Chunk {
	a.tags.flush(a.thought, a.sifted)
	a.sieve.flush(a.sent.names.offered, a.said)
	a.spent()
	return a.take()
}

func (a *answer) spent() {
	if a.tally.told {
		a.out = append(a.out, adapters.UsageChunk{Usage: a.tally.now})
	}
}
