package main

import (
	"context"
	"iter"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// hose is a model that says a fixed number of short pieces, as fast as it can or with
// a pause after each.
type hose struct {
	pieces int
	pause  time.Duration
}

const piece = "twenty letters here "

func (h hose) Models(context.Context) ([]adapters.ModelInfo, error) {
	return []adapters.ModelInfo{{ID: "hose", ContextWindow: 100_000_000}}, nil
}

func (h hose) Base() adapters.Base { return adapters.Base{} }

func (h hose) Count(context.Context, adapters.Request) (int, bool, error) { return 0, false, nil }

func (h hose) Compaction() adapters.Ability {
	return adapters.Ability{Refusal: &adapters.Refusal{Code: "nativeUnsupported", Reason: "a hose compacts nothing"}}
}

func (h hose) Stream(ctx context.Context, _ adapters.Request) iter.Seq2[adapters.Chunk, error] {
	return func(yield func(adapters.Chunk, error) bool) {
		for range h.pieces {
			if ctx.Err() != nil || !yield(adapters.MessageText{Text: piece}, nil) {
				return
			}
			if h.pause > 0 {
				time.Sleep(h.pause)
			}
		}
		yield(adapters.Done{Stop: adapters.StopEnd}, nil)
	}
}
