// Package jsonrpc carries JSON-RPC between this server and one client, over
// standard I/O, WebSockets and unix sockets, on top of sourcegraph/jsonrpc2.
//
// The envelope is that of the codex app-server (codex 0.171, observed): the member
// jsonrpc is accepted and never sent, ids are given back byte for byte, server
// and client number their requests independently.
//
// Guarantees:
//
//   - Nothing that a client says ends the connection but a WebSocket frame of more
//     than MaxFrame, with status 1009; a longer line is passed over and answered as
//     what is no JSON. What is no JSON in UTF-8 is answered with -32700 and a null
//     id. What is JSON and no message is answered with -32600 if it has an id, which
//     is a string or a number of any kind; else, as a batch or a null id, it is
//     counted and dropped, as codex does.
//   - Each request is answered once, also one of several with the same id, and one
//     whose handler panics: with -32603.
//   - Requests of one lane are handled one after the other, in the order of their
//     coming. Lanes do not wait for each other, but all wait for what came before in
//     the lane without a name. Of one lane 64 may wait, of all together 256 may be
//     unanswered, 32 MiB large; one more is answered at once with -32001.
//   - Notifications have their place in the lanes and room of their own, as much as
//     requests. One more is counted and dropped, but never the first "initialized".
//   - Reading never waits for a handler, so a response to a request of the server
//     is always heard. It does wait for a client that has to be told of thousands of
//     errors and does not read.
//   - What is sent is delivered whole and in the order of the Send calls, replies
//     included. A slow client slows down those who send to it, and nobody else:
//     the queue is bounded, in frames and in bytes. A client that takes not a byte
//     for WriteTimeout is closed with 1013, as far as it can still be told.
//   - A WebSocket that leaves two pings unanswered, while it neither says nor takes
//     anything, is closed. Binary frames are passed over and counted. Nothing is
//     compressed.
//   - An idle connection has two goroutines beside that of Serve, no buffers for
//     writing and 1 KiB for reading.
//
// Limits are those of Options; the numbers are what its zero value stands for.
package jsonrpc

import (
	"context"
	"encoding/json"
)

// MaxFrame is the largest frame that is read, in bytes.
const MaxFrame = 16 << 20

// A Transport moves whole frames. Read is called by one goroutine, Write by one
// other; Close by any, and makes both return.
type Transport interface {
	// Read returns the next frame, which is valid until the next call, or why there
	// is none: an error that is io.EOF if the other end ended the connection in
	// order.
	Read() ([]byte, error)
	// Write does not keep the frame.
	Write(frame []byte) error
	// Close ends the connection with a WebSocket status and a reason that fits into
	// a close frame; other transports have no use for them.
	Close(status int, reason string) error
}

// Error is the error of a reply, as it is sent.
type Error struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Codes of errors.
const (
	CodeParse      = -32700
	CodeInvalid    = -32600
	CodeInternal   = -32603
	CodeOverloaded = -32001
)

// A Handler is what a connection does with what its client says. Its methods are
// called from several goroutines.
type Handler interface {
	// Lane names the lane of a request or notification. It is called while reading
	// and returns at once. The lane without a name comes first: what is in another
	// one begins when all is done that was put into it before.
	Lane(method string, params json.RawMessage) string
	// Request answers r: it calls Reply or Fail of r exactly once, before it
	// returns or later. The lane goes on when it returns.
	Request(ctx context.Context, r *Request)
	// Notification is told what asks for no answer. It has its place in its lane.
	Notification(ctx context.Context, method string, params json.RawMessage)
	// Response is told the answer to a request of the server: result or problem. It
	// is called while reading and returns at once. The id is as it was sent.
	Response(id, result json.RawMessage, problem *Error)
}

// A Request is a request of the client that waits for its reply.
type Request struct {
	Method string
	Params json.RawMessage // nil if the client sent none

	reply func(result any, problem *Error)
}

// Reply queues the result. It blocks while the queue is full, and does nothing
// once the connection has ended.
func (r *Request) Reply(result any) { r.reply(result, nil) }

// Fail queues an error instead.
func (r *Request) Fail(problem *Error) { r.reply(nil, problem) }
