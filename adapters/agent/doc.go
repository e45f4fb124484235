// Package agent makes a Session of a Model: it runs the loop of request, tool
// calls, results, next request, and keeps no history of its own. What a request
// holds is asked of the Host at each step boundary, so a compaction takes effect
// in the middle of a turn.
//
// Guarantees, all of them checked by adapters/adaptertest:
//
//   - An item is durable before its first delta; the deltas of an item add up to
//     its completed text; each delta is valid UTF-8, also when the provider cuts
//     inside a character.
//   - Every call is answered before the next request. Calls of a step run at the
//     same time. A call whose arguments are not a JSON object is answered with an
//     error for the model and never reaches a tool.
//   - A request that does not fit, or an answer that the window cut, has the host make
//     room once; what was said of the answer stays, its calls are dropped. A second
//     one in a row ends the turn.
//   - The system text of a request is the base and then the preamble, byte for byte.
//   - A request that had to be mended is told once per rule and turn; an answer that
//     its limit cut, and a turn that said nothing, are told as well.
//   - A completion beside the turn (Summarizer) holds nothing of the thread but what
//     it is given, and ends when its context, or the session, does.
//   - Call ids are unique in a thread, whatever the provider sends.
//   - Input that Steer accepted is in a request before the turn ends.
//   - What belongs together shares a commit: a plain turn costs one Emit, the rest
//     is in its End. Reasoning before the answer costs one more.
//   - When Run returns, nothing of it is left running.
//
// A stream that breaks fails the turn and leaves the open item to the server,
// which completes it with the text so far. Calls of a broken stream are dropped:
// none of them was emitted, so none stays unanswered.
package agent
