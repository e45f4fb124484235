// Package api is the door: what clients see of the server, over HTTP and over
// JSON-RPC connections: WebSockets, which are upgraded on every path, and whatever
// ServeConn is given.
//
// methods.go is the table of everything that can be asked for, problem.go the
// table of everything that can go wrong, wire.go the one mapping from what the
// journal says to what the wire says. A connection passes lobby.go. A request
// passes, in this order: recover, request id, seat, Host, Origin, limits, token,
// route, parameters, method.
//
// Guarantees:
//
//   - A request reaches a method only with a known Host, no or a listed Origin,
//     the right token (a private unix socket needs neither Host nor token), and
//     parameters that are exactly of the method's type: over REST no unknown
//     member, no member twice, no wrong type is ever let through or guessed at.
//     JSON-RPC reads them as codex does (decode_rpc.go).
//   - Every error is application/problem+json, or an error of JSON-RPC in codex's
//     words where it has them, and names what was wrong and what is allowed; an
//     unknown error reveals nothing but a request id.
//   - Streams never drop an event and never slow down anybody else: a client
//     that does not read for 10 s is disconnected and resumes by its cursor.
//   - A connection has the answer to a request before the first notification of
//     what the request did to its thread; it follows a thread once, and its frames
//     are, byte for byte, the data of SSE.
//   - What the server asks is asked of every connection that follows the thread, and
//     again of those that come later, under the same id, until one of them answers.
//   - Disconnecting cancels no turn.
//   - A stream ends within a second after the token that let it in was replaced, and
//     so does a WebSocket, with status 4401.
//   - No memory, time or depth that a request can claim is unbounded, and neither
//     are connections, streams, subscriptions and imports: one too many is told so.
package api
