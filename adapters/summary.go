package adapters

import "context"

// A Summarizer is a Session whose model can be asked for one completion beside the
// turn: the writer of checkpoints. It may be called while Run waits in
// Host.Context or Host.Overflowed, and while no turn runs.
type Summarizer interface {
	// Unfit says why the model writes no checkpoints; nil if it does.
	Unfit() *Refusal
	// Summarize performs one request without tools. Its tokens are spent whatever
	// comes of it: the Usage of a Summary counts also when err is not nil. Errors of
	// the provider are *Error.
	Summarize(ctx context.Context, req SummaryRequest) (Summary, error)
}

// An Unwriting is a Model that writes no checkpoints, such as one that only quotes.
type Unwriting interface{ Unfit() *Refusal }

// A SummaryRequest is a system text and one message.
type SummaryRequest struct {
	System    string
	Text      string
	MaxOutput int // tokens
}

// A Summary is the answer to a SummaryRequest. Text that is not all of an answer
// has another Stop than StopEnd; a model that called a tool has StopTools.
type Summary struct {
	Text  string
	Stop  StopReason
	Usage Usage
	// Repaired says what had to be mended in the request.
	Repaired []string
}

// A Counter is a Session that can tell the size of its next request without a paid
// request.
type Counter interface {
	Count(ctx context.Context, c Context) (tokens int, known bool, err error)
}
