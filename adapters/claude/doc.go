// Package claude drives Claude Code as a runtime, over its stream-json: Claude Code owns
// the loop, the tools and the history of a thread, and compacts it when it is told to.
// Everything that is said here about it was observed with 2.1.332, driven against a
// scripted model server.
//
// Guarantees:
//
//   - One process per session, whose standard input stays open for its whole life. It
//     leads a process group, has a listed environment, and ends with the session or with
//     the server. No two servers drive one conversation, which Claude Code itself would
//     allow and which destroys it: a lease beside its files is held while the session is
//     open.
//   - A process that died is started again by the next turn or compaction, which resume
//     the conversation; the turn it died in fails.
//   - Nothing is sent while a turn or a compaction is not over, but for what steers it:
//     Claude Code folds what waits into what runs, in an order of its own.
//   - What a user says is never a command, whatever it begins with.
//   - A compaction succeeded if, between our command and its result, Claude Code said
//     success and told the boundary. The result itself says success in every case. If no
//     end comes, its own transcript is looked at before anything is claimed.
//   - A request that does not fit ends the turn as an overflow. This package does not
//     compact and try again by itself: whether that may be, how often, and what it counts
//     for is the server's policy, which does it (threads, overflow.go).
//   - A working folder that is not there is an error, never another folder.
//   - Claude Code's automatic compaction is switched off, since the server has a policy.
//     Should it compact all the same, the user's hooks are asked, and it is reported as
//     its own.
//
// What a sandbox of codex would do, Claude Code does by asking: workspace-write lets it
// edit files in the working folder (its mode acceptEdits), danger-full-access lets it do
// anything unasked unless the approval policy is untrusted, and read-only asks before
// every change. Commands that only read never ask, in any mode.
package claude
