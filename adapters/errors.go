package adapters

import "errors"

// Errors that sessions return and the server understands.
var (
	// ErrNotSteerable: the running turn takes no more input.
	ErrNotSteerable = errors.New("adapters: the running turn cannot be steered")
	// ErrOverflow: the request did not fit the model's context window.
	ErrOverflow = errors.New("adapters: context window exceeded")
)
