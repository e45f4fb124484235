// Package codex drives codex's app-server as a runtime: codex owns the loop, the tools
// and the history of a thread, and compacts it by itself. Everything that is said here
// about codex was observed with 0.171.0, driven against a scripted model server.
//
// Guarantees:
//
//   - One process of codex per session: what it floods, breaks or costs is one
//     thread's. It leads a process group, has a listed environment, and ends with the
//     session or with the server. No two servers drive one codex thread: a lease in
//     codex's own home is held while the session is open.
//   - A process that died is started again by the next turn or compaction, which resumes
//     the thread; the turn it died in fails, its questions with it.
//   - A compaction ends with the completion that belongs to it: the item of the turn
//     that our request opened. Others, and what was said before, end nothing. If no
//     completion comes, codex's own history is looked at, once, before anything is
//     claimed.
//   - A compaction that codex makes by itself in a turn is reported as its own.
//   - Whatever waits for codex has a limit, and ends when codex does.
//
// Ids of items are the server's: those of codex come from its model's provider and
// repeat.
package codex
