package compaction

import (
	"context"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Ability is what the session can do natively: Native is its form, or Refusal is
// set. A refusal is a value that reaches the client.
type Ability struct {
	Native  string
	Refusal *Refusal
}

// Refusal says why the session cannot compact natively, and what to do instead.
type Refusal struct {
	Code   string `json:"code"`
	Reason string `json:"reason"`
	Remedy string `json:"remedy"`
}

// A Job is one compaction to run. The function fields are given by the thread.
type Job struct {
	Route   Route // as requested; empty: native if there is, else local
	Writer  Writer
	Ability Ability
	Input   Input
	// Enter makes a phase durable before Run goes on. An error ends the run.
	Enter func(ctx context.Context, p Phase) error
	// Native runs the provider's own compaction until its matching completion.
	Native func(ctx context.Context) (NativeDone, error)
}

// NativeDone is what a provider disclosed of a compaction that completed.
type NativeDone struct {
	Info  NativeInfo
	Usage *Usage
}

// A Verdict is how a run ended. Exactly one of Composed and Native is set if the
// outcome is Completed; the thread commits it.
type Verdict struct {
	Outcome  Outcome
	Code     string
	Reason   string
	Remedy   string
	Route    Route
	Writer   Writer
	Skipped  []Skip
	Warnings []string
	Composed *Composed
	Native   *NativeDone
}

var _ = transcript.Ruler
