// Package prompt is the neutral form of a model request. Every adapter makes its
// wire body of it, so that what is true of one provider's requests is true of all.
//
//	Build   projects the entries of a context onto messages
//	Lint    says which of the rules L1 … L13 a list of messages breaks
//	Mend    repairs what Lint finds
//	Prepare is Build, and Mend as the last step before the wire
//
// Guarantees:
//
//   - Nothing here changes a journal: what is dropped or mended is so in the
//     request only, and in every request alike.
//   - Calls and results are paired as every wire wants them: the message with the
//     calls, then all of their results, in the order of the calls. A result whose
//     call is not part of the context, or has its answer already, is told as text.
//   - A Checkpoint is a user message. After Mend it is never the last one.
//   - Bytes are stable. Build of a history is a prefix of Build of the same history
//     with more at its end, as long as no call waits for its result; the last
//     message may grow. Providers' caches rely on it.
//   - Build of what our own server journals lints clean. A finding is a fault of
//     ours, or of a history that came from elsewhere.
//   - Mend is idempotent, changes nothing of a clean request, and leaves nothing
//     for Lint, but for what no repair can help (Finding.Stuck).
package prompt
