// Package jsonrpc carries JSON-RPC between this server and one client, over
// standard I/O, WebSockets and unix sockets, on top of sourcegraph/jsonrpc2.
//
// The envelope is that of the codex app-server (codex 0.171, observed): the member
// jsonrpc is accepted and never sent, ids are given back byte for byte, server
// and client number their requests independently.
//
// Guarantees:
//
//   - Nothing that a client sends ends the connection but a frame of more than
//     MaxFrame. What is no JSON is answered with -32700 and a null id; what is JSON
//     and no message, with -32600 if it has an id, else it is counted and dropped.
//   - Requests of one lane are handled one after the other, in the order of their
//     coming. Lanes do not wait for each other. What is more than may wait is
//     answered at once with -32001.
//   - Reading never waits for a handler, so a response to a request of the server
//     is always heard.
//   - What is sent is delivered whole and in the order of the Send calls, replies
//     included. A slow client slows down those who send to it, and nobody else:
//     the queue is bounded, in frames and in bytes. A client that takes nothing for
//     WriteTimeout is closed.
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
	// is none: io.EOF if the client ended the connection in order.
	Read() ([]byte, error)
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
	// and returns at once.
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
