// Package threads is the domain: it hosts agent threads, drives their adapter
// sessions and keeps their journal.
//
// One goroutine per loaded thread, its actor, is the only writer of that
// thread's state and stream. What happens is decided by a pure function
// (decide.go) that turns a command into payloads and effects; the payloads are
// journaled in one commit, folded into the state (state.go), and only then do
// the effects run and the caller learns the result. State is nothing but the
// fold of the journal: a thread that is loaded again, after an unload or a kill,
// is the same thread.
//
// Guarantees:
//
//   - What a method acknowledged survives kill -9.
//   - Turns and compactions of a thread never overlap; threads never wait for
//     each other.
//   - Every turn and every compaction that started ends exactly once, also when
//     the process dies: what was open is ended when the thread is loaded again,
//     but for a turn that only waits for answers, which goes on waiting, and for a
//     runtime's native compaction, whose end the provider is asked for.
//   - Every request to the clients ends exactly once; the first valid answer wins.
//   - Every tool call gets exactly one result, a synthetic one if need be.
//   - A thread compacts by itself before, inside and after turns, when it rests, and
//     when a request overflows, as its policy says and never twice for nothing: the
//     gate is journaled with what changes it. A turn gets one compaction for an
//     overflow. What a compaction that is not completed leaves is what was.
//   - Disconnecting cancels nothing; only Interrupt and Delete stop work.
package threads
