package threads

import (
	"context"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// RequestID names a request of the server to the clients. It is a UUID, unique
// among all threads, and stays the same over reconnects and restarts.
type RequestID string

// The methods of requests, in codex's words.
const (
	AskCommand = "item/commandExecution/requestApproval"
	AskFile    = "item/fileChange/requestApproval"
	AskTool    = "item/tool/call"
)

// A Request is what the server asks of the clients of a thread: one of Command,
// File and Tool is set, by Method. It is a durable row: it waits until a client
// answers, its turn ends, or its thread is deleted; no disconnect resolves it.
type Request struct {
	ID        RequestID         `json:"id"`
	Method    string            `json:"method"`
	TurnID    transcript.TurnID `json:"turnId"`
	ItemID    transcript.ItemID `json:"itemId"`
	CreatedAt int64             `json:"createdAtMs"`
	Command   *CommandQuestion  `json:"command,omitempty"`
	File      *FileQuestion     `json:"file,omitempty"`
	Tool      *ToolQuestion     `json:"tool,omitempty"`
}

// CommandQuestion asks whether a command may run.
type CommandQuestion struct {
	Command   string   `json:"command"`
	Cwd       string   `json:"cwd"`
	Reason    string   `json:"reason,omitempty"`
	Amendment []string `json:"amendment,omitempty"`
}

// FileQuestion asks whether files may be changed.
type FileQuestion struct {
	Reason    string `json:"reason,omitempty"`
	GrantRoot string `json:"grantRoot,omitempty"`
}

// ToolQuestion asks a client to run one of the tools that it declared.
type ToolQuestion struct {
	CallID    transcript.CallID  `json:"callId"`
	Namespace string             `json:"namespace,omitempty"`
	Tool      string             `json:"tool"`
	Arguments transcript.RawJSON `json:"arguments"`
}

// A RequestAnswer is a client's answer: of an approval the decision, of a tool
// call its output.
type RequestAnswer struct {
	Decision  adapters.Decision  `json:"decision,omitempty"`
	Amendment transcript.RawJSON `json:"amendment,omitempty"`
	Output    []transcript.Part  `json:"output,omitempty"`
	IsError   bool               `json:"isError,omitempty"`
	// Failed says that the client could not deal with the request at all: the item
	// fails with this text, and the turn goes on.
	Failed string `json:"failed,omitempty"`
}

// A RequestOutcome is how a request ended.
type RequestOutcome string

// The outcomes of a request.
const (
	RequestAnswered  RequestOutcome = "answered"
	RequestCancelled RequestOutcome = "cancelled" // its turn ended, or its runtime died, before anybody answered
)

// RequestCreated makes a request durable and known.
type RequestCreated struct {
	Request Request `json:"request"`
}

// RequestResolved ends a request. The result of a tool call, which is part of the
// answer, is journaled as an item in the same commit.
type RequestResolved struct {
	RequestID RequestID         `json:"requestId"`
	TurnID    transcript.TurnID `json:"turnId"`
	Outcome   RequestOutcome    `json:"outcome"`
	Answer    *RequestAnswer    `json:"answer,omitempty"`
	By        string            `json:"by,omitempty"` // the client that answered, as it calls itself
}

// EventType implements Payload.
func (RequestCreated) EventType() string { return "serverRequest/created" }

// EventType implements Payload.
func (RequestResolved) EventType() string { return "serverRequest/resolved" }

// Requests returns the requests of a thread that wait for an answer, oldest first.
func (s *Service) Requests(ctx context.Context, id transcript.ThreadID) ([]Request, error) {
	return query(ctx, s, id, func(a *actor) []Request { return append([]Request{}, a.state.Requests...) })
}
