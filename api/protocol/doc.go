// Package protocol holds the types that clients see: those of the codex
// app-server v2 protocol that this server speaks, with codex's member names, and
// our own members beside them. It is the wire and nothing else: the types have
// no behaviour beyond encoding and decoding.
//
// Guarantees:
//
//   - Every member that codex requires is always present; a value that is absent
//     is null, a list that is empty is [].
//   - Times of threads and turns are unix seconds, those of items and
//     notifications unix milliseconds, as in codex.
//   - What codex does not know is an additional member (Thread.plimsoll,
//     Turn.queued, …) or a method name that codex does not have.
//
// The doc comments of this package are the descriptions in openapi.yaml.
package protocol
