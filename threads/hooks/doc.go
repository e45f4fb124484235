// Package hooks runs the user's commands around a compaction.
//
// A hook is a command: a program and its arguments, never a line for a shell. It is
// told what happens as one JSON object on its standard input and answers with its exit
// status, its standard output and its standard error. The field names are those that
// Claude Code 2.1 and codex 0.171 use for their hooks (observed), so that a program
// written for one of them works here, with what only this server knows beside them.
//
// Guarantees:
//
//   - Hooks run one after the other, in the order of the configuration. The first
//     one that denies ends it: the ones after it are not asked.
//   - Every hook has a time limit, and so have all hooks of one event together. When
//     it is over the hook is killed with all of its children; nothing of a hook that
//     ended is left running.
//   - A hook that fails — it cannot be started, crashes, hangs, prints too much or
//     what is no answer — passes or denies, as it was configured, and the reason is
//     told either way. It never fails the compaction by itself.
//   - A hook after a compaction cannot undo it: whatever it says is a warning.
//   - The environment of a hook holds what any program needs (proc.Environ), the
//     variables that its configuration names, and nothing else of the server's.
//   - What a hook says is bounded, free of control characters, and free of the values
//     of the variables that it was given and of keys that the server knows.
package hooks
