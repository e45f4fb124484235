package protocol

import "encoding/json"

// ServerRequest is what the server asks of the clients of a thread. On a JSON-RPC
// connection it is a request of its own, with this id and these params, as long as
// nobody answered it; an answer can also be given with thread/request/answer.
type ServerRequest struct {
	// ID is a UUID. It stays the same over reconnects and restarts.
	ID string `json:"id"`
	// Method says what is asked, and so what params holds.
	Method string `json:"method" enum:"item/commandExecution/requestApproval,item/fileChange/requestApproval,item/tool/call"`
	// Params is CommandApprovalParams, FileApprovalParams or ToolCallParams.
	Params json.RawMessage `json:"params"`
}

// CommandApprovalParams asks whether a command may run.
type CommandApprovalParams struct {
	Kind     string `json:"kind" enum:"command"`
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	ItemID   string `json:"itemId"`
	// StartedAtMs is in unix milliseconds.
	StartedAtMs int64 `json:"startedAtMs"`
	// EnvironmentID is codex's; always null here.
	EnvironmentID  *string         `json:"environmentId"`
	Reason         *string         `json:"reason,omitempty"`
	Command        string          `json:"command"`
	Cwd            string          `json:"cwd"`
	CommandActions []CommandAction `json:"commandActions"`
	// ProposedExecpolicyAmendment is the prefix of commands that can be allowed for
	// good.
	ProposedExecpolicyAmendment *[]string `json:"proposedExecpolicyAmendment,omitempty"`
}

// FileApprovalParams asks whether files may be changed.
type FileApprovalParams struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	ItemID   string `json:"itemId"`
	// StartedAtMs is in unix milliseconds.
	StartedAtMs int64   `json:"startedAtMs"`
	Reason      *string `json:"reason"`
	// GrantRoot is the folder that the user is asked to open.
	GrantRoot *string `json:"grantRoot"`
}

// ToolCallParams asks a client to run a tool that it declared.
type ToolCallParams struct {
	ThreadID  string  `json:"threadId"`
	TurnID    string  `json:"turnId"`
	CallID    string  `json:"callId"`
	Namespace *string `json:"namespace"`
	Tool      string  `json:"tool"`
	// Arguments is any JSON value, as the model gave it.
	Arguments json.RawMessage `json:"arguments"`
}

// ServerRequestCreatedParams: the server asks something and waits. Not in codex.
type ServerRequestCreatedParams struct {
	ThreadID string        `json:"threadId"`
	Request  ServerRequest `json:"request"`
}

// ServerRequestResolvedParams: a request was answered, or nobody needs the answer
// any more.
type ServerRequestResolvedParams struct {
	ThreadID  string `json:"threadId"`
	RequestID string `json:"requestId"`
	// Outcome says which of the two. Not in codex.
	Outcome string `json:"outcome" enum:"answered,cancelled"`
	// By is the client that answered, as it calls itself. Not in codex.
	By *string `json:"by"`
}
