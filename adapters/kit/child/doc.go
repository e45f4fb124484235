// Package child talks with a program that reads and prints one JSON value a line:
// the app-server of codex, Claude Code, pi, agents that speak ACP.
//
// Guarantees:
//
//   - A Child is a process of package proc: a group of its own, a listed environment,
//     nothing left behind after Close, killed with the server.
//   - Its standard input stays open until Close, whatever it does.
//   - A line that it prints is given out whole, up to Spec.MaxLine; a longer one ends
//     the conversation with ErrLine, and costs no more memory than that.
//   - What it complained about is told without the secrets of its environment and without
//     what a terminal would obey.
//   - What it prints is read only as fast as Next is called, so that a flood stops at
//     the pipe. Its standard error is read always, and the end of it is kept.
//   - Send never waits longer than its context for a child that does not read.
//   - What ended the conversation is one error, the same for everybody who asks, which
//     says how the process ended and what it complained about last.
//
// A Desk sorts what comes: answers to who asked, everything else to who listens. A program
// that floods while nobody listens is ended.
//
// Pipe makes two ends without a process, for peers in tests.
package child
