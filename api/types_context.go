package api

import (
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// CompactionUndoneParams: a compaction was taken back, and the context holds again
// what it held before, and everything that came since.
type CompactionUndoneParams struct {
	ThreadID     string `json:"threadId"`
	CompactionID string `json:"compactionId"`
	// Epoch that the undo opened; null if the compaction had only pruned.
	Epoch *int `json:"epoch"`
}

// PinsChangedParams: all pins of the thread after a change.
type PinsChangedParams struct {
	ThreadID string `json:"threadId"`
	Pins     []Pin  `json:"pins"`
}

// SessionUpdatedParams: a thread whose provider keeps its own history has another
// session there.
type SessionUpdatedParams struct {
	ThreadID string `json:"threadId"`
	Provider string `json:"provider"`
	// NativeID is the provider's own id of the session.
	NativeID string `json:"nativeId"`
	// Previous is that of the one before; null if there was none.
	Previous *string `json:"previous"`
	// Reason is `opened`, `replaced` (the one before is gone, or has another history; the
	// new one was told what the thread holds), `rebased` (a local compaction made it) or
	// `restored` (an undo did). The last two follow the event of the compaction or the undo.
	Reason string `json:"reason"`
}

// A Pin is a text that every request of the thread carries verbatim, as part of its
// base, whatever is compacted.
type Pin struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	// Hash is the sha256 of the text, in hex. It is checked after every compaction.
	Hash string `json:"hash"`
	// Tokens is an estimate.
	Tokens int `json:"tokens"`
	// AddedAt is in unix ms.
	AddedAt int64 `json:"addedAt"`
}

func wirePin(p threads.Pin) Pin {
	return Pin{ID: p.ID, Text: p.Text, Hash: p.Hash, Tokens: p.Tokens, AddedAt: p.AddedAt}
}

func epochOf(b *transcript.Boundary) *int {
	if b == nil {
		return nil
	}
	return &b.Epoch
}
