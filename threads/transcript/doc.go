// Package transcript is the data of a thread: turns, items, and the boundaries
// that compactions draw through them. It holds values and pure functions only,
// does no I/O and starts no goroutine; every value may be shared between
// goroutines as long as nobody changes it.
//
// A Transcript never loses anything: a boundary does not remove items, it says
// from which item on the context of the next epoch is built and how each
// retained item is rendered in it. The context of any epoch, past or present,
// is therefore a pure function of the transcript (Context).
//
// A tool call and its result are two items joined by a CallID. They are never
// separated by a boundary (DESIGN I2).
package transcript
