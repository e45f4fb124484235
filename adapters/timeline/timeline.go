// Package timeline tells a host what a runtime says about its items: what the runtime
// begins, streams and completes under keys of its own becomes items of the turn.
//
// Guarantees:
//
//   - An item has an id of the host, whatever the runtime calls it: ids of a provider
//     repeat.
//   - A text is opened by its first words, so that an empty one leaves no item, and is
//     completed with what was streamed of it.
//   - Completed texts and reports of usage are held back until something else is told,
//     so that the end of a turn is one commit; everything else is told at once.
//   - Nothing that was opened stays open at the end of a turn that went well, and no
//     call stays without a result.
//   - What is to be hidden is in no command, no change of files and in no result. Texts of
//     the model are as it said them.
//
// A Timeline is used by the goroutine of one turn.
package timeline

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A Timeline is the items of one turn.
type Timeline struct {
	host adapters.Host
	turn transcript.TurnID
	ctx  context.Context

	open  map[string]*item
	order []string // of open, oldest first
	held  []adapters.Update
	hide  []string // what no command and no result may tell
}

// item is one that the runtime has begun and not completed.
type item struct {
	transcript.Item
	shown bool   // the host knows it
	text  []byte // streamed so far
	ran   bool   // a call that was given to the host
}

// New returns the timeline of a turn. Its context ends what waits for the host.
func New(ctx context.Context, host adapters.Host, turn transcript.TurnID) *Timeline {
	return &Timeline{host: host, turn: turn, ctx: ctx, open: map[string]*item{}}
}

// Emit tells the host, with what was held back.
func (t *Timeline) Emit(updates ...adapters.Update) error {
	updates = append(t.held, updates...)
	t.held = nil
	if len(updates) == 0 {
		return nil
	}
	return t.host.Emit(t.ctx, updates...)
}

// Hold keeps an update for the next commit.
func (t *Timeline) Hold(u adapters.Update) { t.held = append(t.held, u) }

// Keep tells the host what was held back of a turn that fails, within a time.
func (t *Timeline) Keep(limit time.Duration) error {
	if len(t.held) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), limit)
	defer cancel()
	held := t.held
	t.held = nil
	return t.host.Emit(ctx, held...)
}

// End closes what is open and returns what ends the turn.
func (t *Timeline) End() []adapters.Update {
	t.close()
	held := t.held
	t.held = nil
	return held
}

// Begin opens a text, a message or reasoning, which is shown with its first words. One
// that is open already goes on.
func (t *Timeline) Begin(key string, empty transcript.Body) {
	if t.open[key] == nil {
		t.add(key, &item{Item: t.item(empty)})
	}
}

// Has reports whether an item is open.
func (t *Timeline) Has(key string) bool { return t.open[key] != nil }

func (t *Timeline) add(key string, it *item) {
	if t.open[key] == nil {
		t.order = append(t.order, key)
	}
	t.open[key] = it
}

func (t *Timeline) item(b transcript.Body) transcript.Item {
	b = t.safe(b)
	return transcript.Item{ID: t.host.NewItemID(), Turn: t.turn, Body: b}
}

// Show opens an item at once: a command, a change of files, a call.
func (t *Timeline) Show(key string, b transcript.Body) (transcript.Item, error) {
	it := &item{Item: t.item(b), shown: true}
	t.add(key, it)
	return it.Item, t.Emit(adapters.ItemStarted{Item: it.Item})
}

// About returns the item that a question is about. One that is not open is opened by
// the question.
func (t *Timeline) About(key string, b transcript.Body) transcript.Item {
	it := t.open[key]
	if it == nil {
		it = &item{Item: t.item(b), shown: true}
		t.add(key, it)
	}
	return it.Item
}

// Run marks a call as one that the host runs, and so answers, and returns its item.
func (t *Timeline) Run(key string) (transcript.Item, bool) {
	it := t.open[key]
	if it == nil {
		return transcript.Item{}, false
	}
	it.ran = true
	return it.Item, true
}

// Delta streams a piece of a text. One that was not begun begins as empty says.
func (t *Timeline) Delta(key string, empty transcript.Body, text string) error {
	if text == "" {
		return nil
	}
	t.Begin(key, empty)
	it := t.open[key]
	it.text = append(it.text, text...)
	if it.shown {
		return t.host.Emit(t.ctx, adapters.TextDelta{Item: it.ID, Text: text})
	}
	it.shown = true
	return t.Emit(adapters.ItemStarted{Item: it.Item}, adapters.TextDelta{Item: it.ID, Text: text})
}

// Text completes a text. What was not streamed of it comes as one more delta; if
// another text was streamed, that one stays, since it was shown.
func (t *Timeline) Text(key string, empty transcript.Body, text string) error {
	text = strings.ToValidUTF8(text, "\uFFFD")
	streamed := ""
	if it := t.open[key]; it != nil {
		streamed = string(it.text)
	}
	if rest, ok := strings.CutPrefix(text, streamed); ok {
		if err := t.Delta(key, empty, rest); err != nil {
			return err
		}
	}
	it := t.open[key]
	delete(t.open, key)
	if it == nil || !it.shown {
		return nil
	}
	it.Body = withText(it.Body, string(it.text))
	t.Hold(adapters.ItemCompleted{Item: it.Item})
	return nil
}

// withText is a body that grows by deltas, with its text.
func withText(b transcript.Body, text string) transcript.Body {
	switch b := b.(type) {
	case transcript.AgentMessage:
		b.Text = text
		return b
	case transcript.Reasoning:
		b.Text = text
		return b
	default:
		return b
	}
}

// Complete completes an item with its final body, or adds a whole one.
func (t *Timeline) Complete(key string, b transcript.Body) error {
	it := t.open[key]
	if it == nil {
		return t.Whole(b)
	}
	delete(t.open, key)
	it.Body = t.safe(b)
	return t.Emit(adapters.ItemCompleted{Item: it.Item})
}

// Whole adds an item that was never open.
func (t *Timeline) Whole(b transcript.Body) error {
	return t.Emit(adapters.ItemCompleted{Item: t.item(b)})
}

// Answer gives a call the result that the runtime has for it. A call that was never
// begun is added; one that the host runs has its answer.
func (t *Timeline) Answer(key string, call transcript.ToolCall, result transcript.ToolResult) error {
	it := t.open[key]
	if it == nil {
		it = &item{Item: t.item(call)}
		if err := t.Emit(adapters.ItemStarted{Item: it.Item}); err != nil {
			return err
		}
	}
	delete(t.open, key)
	begun, ok := it.Body.(transcript.ToolCall)
	if it.ran || !ok {
		return nil
	}
	result.CallID = begun.CallID
	return t.Whole(result)
}

// Body returns that of an open item.
func (t *Timeline) Body(key string) (transcript.Body, bool) {
	it := t.open[key]
	if it == nil {
		return nil, false
	}
	return it.Body, true
}

// unanswered is the result of a call that its runtime ended the turn without.
const unanswered = "the turn ended without a result of this call"

// close completes what the runtime left open.
func (t *Timeline) close() {
	for _, key := range t.order {
		it := t.open[key]
		if it == nil || !it.shown {
			continue
		}
		switch b := it.Body.(type) {
		case transcript.AgentMessage, transcript.Reasoning:
			it.Body = withText(b, string(it.text))
		case transcript.Command:
			b.Status = "failed"
			it.Body = b
		case transcript.FileChange:
			b.Status = "failed"
			it.Body = b
		case transcript.ToolCall:
			if !it.ran {
				t.Hold(adapters.ItemCompleted{Item: t.item(transcript.ToolResult{CallID: b.CallID, IsError: true, Output: transcript.TextParts(unanswered)})})
			}
			continue
		default:
		}
		t.Hold(adapters.ItemCompleted{Item: it.Item})
	}
	t.open, t.order = map[string]*item{}, nil
}

// CallIDs makes ids of calls unique within a session. It is safe for concurrent use.
type CallIDs struct {
	mu   sync.Mutex
	used map[string]bool
}

// Unique returns id, or if it is empty or was used before, one that begins with it.
func (c *CallIDs) Unique(id string) transcript.CallID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used == nil {
		c.used = map[string]bool{}
	}
	unique := id
	for n := 2; unique == "" || c.used[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", id, n)
	}
	c.used[unique] = true
	return transcript.CallID(unique)
}

// Clip keeps the beginning and the end of a text that is longer than n bytes, and makes
// it valid UTF-8.
func Clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	head, tail := strings.ToValidUTF8(s[:n/2], ""), strings.ToValidUTF8(s[len(s)-n/2:], "")
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", head, len(s)-len(head)-len(tail), tail)
}
