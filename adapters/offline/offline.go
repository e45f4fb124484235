// Package offline is the embedded model: no network, no key, the same answer to
// the same request. It answers the last message of the user by quoting the
// passages of its context that match it, each with where it came from, and says
// so when there are none. So one sees what a compaction kept and what it dropped.
//
// Each clause of a question is answered on its own, with the passages that
// complement each other; what the user said goes before what was printed, and what
// the user said last before what it replaces. A clause about the plan gets the
// steps of the newest one. An answer has about 600 tokens at most, and takes time
// linear in the context.
//
// It understands nothing. It matches words: case, plural endings, a few words that
// say nearly the same, the parts of identifiers, and pairs of characters where a
// script has no spaces.
package offline

import (
	"context"
	"fmt"
	"iter"
	"unicode"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// What the model is. Limits are tokens of transcript.Ruler.
const (
	ID        = "offline-extractive"
	Window    = 64_000
	MaxOutput = 4_096
)

const system = "You are Plimsoll's offline model. You have no network and no tools. " +
	"Answer with passages of this conversation, and say so if there are none."

// New returns the model. It holds no state.
func New() adapters.Model { return model{} }

type model struct{}

var _ adapters.Unwriting = model{}

// Models implements adapters.Model.
func (model) Models(context.Context) ([]adapters.ModelInfo, error) {
	return []adapters.ModelInfo{{ID: ID, DisplayName: "Offline (quotes its context)", ContextWindow: Window, MaxOutput: MaxOutput}}, nil
}

// Base implements adapters.Model.
func (model) Base() adapters.Base { return adapters.Base{System: system} }

// Count implements adapters.Model. It is exact.
func (model) Count(_ context.Context, req adapters.Request) (int, bool, error) {
	return inputTokens(req), true, nil
}

// Compaction implements adapters.Model.
func (model) Compaction() adapters.Ability {
	return adapters.Ability{Refusal: &adapters.Refusal{
		Code:   "nativeUnsupported",
		Reason: "the offline model has no compaction of its own",
		Remedy: adapters.UseLocal,
	}}
}

// Unfit implements adapters.Unwriting.
func (model) Unfit() *adapters.Refusal {
	return &adapters.Refusal{
		Code:   "writerUnfit",
		Reason: "the offline model quotes and writes nothing of its own",
		Remedy: "use the writer extractive, or name a model of another provider for the writer",
	}
}

// Stream implements adapters.Model. There is one model, so the name in the
// request is not looked at.
func (model) Stream(ctx context.Context, req adapters.Request) iter.Seq2[adapters.Chunk, error] {
	return func(yield func(adapters.Chunk, error) bool) {
		input := inputTokens(req)
		if input > Window {
			yield(nil, fmt.Errorf("offline: the request has %d tokens, the window holds %d: %w", input, Window, adapters.ErrOverflow))
			return
		}
		text := answer(req.Entries)
		for piece := range pieces(text) {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(adapters.MessageText{Text: piece}, nil) {
				return
			}
		}
		usage := adapters.Usage{InputTokens: input, OutputTokens: textTokens(text)}
		if !yield(adapters.UsageChunk{Usage: usage}, nil) {
			return
		}
		yield(adapters.Done{Stop: adapters.StopEnd}, nil)
	}
}

// inputTokens measures a request: its base and its entries.
func inputTokens(req adapters.Request) int {
	n := textTokens(req.Base.System)
	for _, t := range req.Base.Tools {
		n += textTokens(t.Name + t.Description + string(t.Schema))
	}
	for _, e := range req.Entries {
		n += transcript.Tokens(e.Item.Body)
	}
	return n
}

func textTokens(s string) int { return transcript.Tokens(transcript.AgentMessage{Text: s}) }

// maxPiece is the length of a piece of text without spaces, in characters.
const maxPiece = 8

// pieces cuts text as a model streams it: word by word, each with the space after
// it, and a few characters at a time where there are no spaces.
func pieces(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start, length, spaced := 0, 0, false
		for i, r := range text {
			space := unicode.IsSpace(r)
			full := length >= maxPiece && r >= utf8.RuneSelf
			if i > start && !space && (spaced || full) {
				if !yield(text[start:i]) {
					return
				}
				start, length = i, 0
			}
			spaced = space
			length++
		}
		if start < len(text) {
			yield(text[start:])
		}
	}
}
