// Package adaptertest is the suite that every adapter passes.
//
// Run holds an adapter to the rules that need no control over its provider.
// RunScripted adds the cases that do: it hands a Script to the adapter's test,
// which plays it on the adapter's own wire, with a fake server or a fake child
// process. Among them are those of a provider that asks before it acts: allowed,
// declined, cancelled, stopped while it waits, and gone on with by another session
// if the adapter is a Continuer. If the sessions compact natively, so do the cases of that: matching
// completion, failure, cancel. Model plays a script without any wire; it serves the tests of
// packages above the adapters as well.
//
// RunModel adds the cases of models, which look at the requests as well: what
// happens when one does not fit, the preamble, and completions beside the turn. A
// test of a wire calls it once, with a player that plays each script on that wire
// and records the bodies.
//
// RunRuntime adds the cases of runtimes, whose programs keep their own histories: which
// session is resumed, and when none is; what a seed, the notes and the words of the user
// come to in the program; that one driver has a session; what Close owes; what Probe says;
// and what each end of a native compaction means. It is handed a Program.
//
// Host is the other half: an in-memory implementation of adapters.Host that keeps
// the transcript and reports each broken rule as a test error:
//
//   - an item is started once, gets deltas only while it is open, and is completed
//     once, with a text that equals its deltas; every delta is valid UTF-8;
//   - a call is emitted before its tool is run, is answered exactly once, and all
//     calls are answered before the next context is asked for;
//   - ids come from the host, call ids are unique, arguments are JSON;
//   - a turn that ends well leaves no item open and no call unanswered;
//   - checkpoints and the marks of compactions are the server's to make;
//   - a question names what it asks, and is about a command or a file change that
//     is open, or that it opens, or about a call that waits;
//   - a session warns of nothing: a request that had to be mended is a fault, unless
//     the case is about that;
//   - an overflow is reported with the provider's error, when no call waits;
//   - a native compaction asks for no context, runs no tool and asks nothing;
//   - after Run or Compact has returned the host is left alone.
//
// A case fails as well if a goroutine outlives it.
package adaptertest
