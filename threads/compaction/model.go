package compaction

import (
	"context"
	"time"
)

// A ModelWriter is a model that writes checkpoints.
type ModelWriter struct {
	Name      string // provider/model, as warnings and skipped links call it
	Window    int    // tokens; 0 if unknown
	MaxOutput int    // tokens; 0 if unknown
	// Ask performs one request. It has a deadline of its own. Its errors are
	// *AskError; the usage counts also when it fails.
	Ask func(ctx context.Context, p Prompt) (Answer, error)
}

// A Prompt is one request to a model that writes.
type Prompt struct {
	System    string
	Text      string
	MaxOutput int // tokens
}

// An Answer is what a model wrote. Complete is false if it was cut, refused, or
// called a tool.
type Answer struct {
	Text     string
	Complete bool
	Stop     string // why it ended, in the adapters' words
	Usage    Usage
}

// An AskError is a request that failed.
type AskError struct {
	Code       string // an adapters.Class, or timeout
	Message    string
	Temporary  bool // the same request may succeed later
	Overflow   bool // the prompt was too long
	RetryAfter time.Duration
}

// Error implements error.
func (e *AskError) Error() string { return e.Message }
