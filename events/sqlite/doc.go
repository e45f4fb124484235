// Package sqlite stores the journal in one SQLite file.
//
// Guarantees beyond those of events.Journal:
//
//   - What Append, PutOpen, PutSnapshot, Trim and Index acknowledged is synced
//     to disk (WAL, synchronous=FULL): kill -9 and power loss keep it.
//   - One goroutine writes. What queues up while a commit syncs shares the next
//     commit; if one of a shared commit fails, the others are done without it.
//     Commits follow one another: a write waits for the one before, of whatever
//     thread, as long as that takes to write (bench/journal measures it).
//   - Readers never block the writer nor each other, and no read keeps the log
//     from being folded back for longer than one page of results takes.
//   - One process owns the file, by a lock on "<path>.lock" that dies with the
//     process. A second one gets *events.OwnedError.
//   - The file and what stands beside it (-wal, -shm, .lock) have mode 0600.
//   - A file of a newer program, of another program, or a damaged one is refused
//     (*events.VersionError, events.ErrCorrupt) and not written to.
//   - The file does not shrink: the space of trimmed and deleted events is used
//     again, and their content is overwritten where SQLite touches the page.
package sqlite
