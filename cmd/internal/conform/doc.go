// Package conform holds a provider to what clients rely on, from the outside: it
// drives a threads.Service with the provider under test as a client would, and looks
// at the journal, at the files, at the processes and, where the model is a scripted
// one, at what reached the model.
//
// Guarantees:
//
//   - A row passes only if what it demands was seen, in the journal and at the model;
//     what the provider says of itself is no evidence. The package's tests have a
//     provider that lies about each important row, and the row finds it out.
//   - A refusal is a result of its own, and only if it reached the client with code,
//     reason and remedy, and the thread went on as it was.
//   - Each row runs in a world of its own: folder, journal, model server, provider. When
//     it has ended nothing of that world is left, or the row fails: no child, no
//     goroutine, no file.
//   - Each row has a time limit.
package conform
