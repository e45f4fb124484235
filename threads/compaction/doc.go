// Package compaction decides what a thread's context looks like after a
// compaction, and says how a compaction ended. It is pure: it does no I/O, starts
// no goroutine, reads no clock and draws no random number. What is durable, when
// a compaction may run, and what the provider does, belong to its callers.
//
// # Who calls what
//
// The thread journals the request, then calls Run on a goroutine of its own. Run
// walks the phases through Job.Enter, which returns once a phase is durable,
// chooses the route, and either waits for the provider (Job.Native) or composes
// locally. The writers are tried in order: models (Job.Models), whose notes are
// judged before they are used, extractive, fixed. Each is Compose and then Check; one
// that fails is skipped with its reason. Models are asked only for a compaction that
// Compose shows to be worth it without them; what was asked, and how often, is bounded
// (see scribe). Run returns a Verdict in phase committing; the thread
// commits boundary, record and completion event in one transaction. compact FILE
// and the benches call Compose alone. Reanchor also serves native compactions.
//
// # Lifecycle
//
//	requested ─→ hooking ─→ running ─→ committing ─→ terminal
//	    └───────────┴──────────┴───────────────────────↗
//
// Each arrow is an event. CanEnd says which outcomes each phase may end with.
//
// # The contract
//
// The numbers are cited by tests and in other packages.
//
//	I1  One terminal outcome per started compaction.
//	I2  A call and its result are on the same side of the boundary.
//	I3  Summarised and retained items are disjoint and together all items.
//	I4  A local checkpoint that does not shrink the context is unchanged.
//	I5  A native completion carries what the provider disclosed, nothing made up.
//	I6  Compactions and turns are serialised; what the model has not read is kept.
//	I7  The result is a pure function of the input: atomic to commit, the same
//	    bytes whenever it is made again.
//	I8  Nothing is changed or removed: a boundary only says what to show.
//	I9  What must survive, survives verbatim: the last user request, user messages
//	    that say something, newest first within a bound, the plan with its
//	    statuses, open items. Rules of the user come next: they are the first facts
//	    to be kept, and the first to be listed where one does not fit.
//	I10 No loops: repeating a compaction on an unchanged context does nothing.
//
// Of these the package itself guarantees I2, I3, I4, I7, I9 and I10 (Check proves
// them on each result before it may be committed, apart from I7 and I10) and the
// order of phases; the thread guarantees the others.
//
// # How a local compaction works
//
// Calls and results are grouped into units. One cut divides the items: those
// before it are summarised, the tail is retained, except that units are never
// divided and that what I9 keeps as an item is kept wherever it stands. Each
// retained item is shown in one of a few forms; a form is chosen by what a token
// of it is worth at the item's age, at the lowest price at which everything fits
// (see grade). Stubs have a part of a small budget at most: the oldest units are
// summarised instead. The facts of all items, retained or not, go to a ledger, which
// travels in the checkpoint as JSON and is merged from generation to generation;
// the text of the checkpoint is written anew from it each time, so nothing of it is
// ever a summary of a summary. The notes of a model are the one exception: each
// replaces the last one, whole, and what must not be lost does not depend on them.
//
// # When, and what else
//
// Policy says when a compaction is due, of a Load that the thread's Meter measured;
// Gate keeps what did not help from being tried again. All three are values: the
// thread journals what changes them.
//
// An automatic compaction is content with a prune (Input.PruneTo): old results in a
// smaller form, no checkpoint, no epoch. Where the provider refused the context
// (Input.Recover) unchanged is no end: prune, plan, fixed, drop the oldest;
// Composed.Means says which promises of I9 are left. Pressure is the rule for a task that runs
// out of budget, and StripImages that for a request with too many bytes: neither looks
// at the window.
package compaction
