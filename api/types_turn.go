package api

import (
	"encoding/json"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
)

// TurnStartParams is one input of the user.
type TurnStartParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	Input    Input  `json:"input"`
	// Mode says what happens while a turn runs: queue makes the input a turn of
	// its own, later; steer puts it into the running turn. Default: queue; on
	// JSON-RPC, as in codex, steer.
	Mode string `json:"mode,omitempty" enum:"queue,steer" rpc:"steer"`
	// ClientUserMessageID is given back in the user message.
	ClientUserMessageID string `json:"clientUserMessageId,omitempty" max:"200"`
	SettingsOverrides
	// MaxTotalTokens bounds what all requests of the turn use together, input and
	// output; default: no bound. Not in codex. An input that steers a running turn
	// keeps that turn's bound.
	MaxTotalTokens int `json:"maxTotalTokens,omitempty" min:"1" max:"1000000000"`
	// OutputSchema is codex's, and refused but in threads that find a title.
	OutputSchema json.RawMessage `json:"outputSchema,omitempty" in:"rpc"`
	// ClientRequestID makes the request idempotent.
	ClientRequestID string `json:"clientRequestId,omitempty" in:"header:Idempotency-Key" max:"200"`
}

// TurnStartResult tells which turn the input went to.
type TurnStartResult struct {
	Turn protocol.Turn `json:"turn"`
	// Queued says that the turn waits for another one, or for a compaction.
	Queued bool `json:"queued"`
	// Steered says that the input went into the running turn.
	Steered bool `json:"steered"`
	// AsOf is the cursor to follow the thread from.
	AsOf string `json:"asOf"`
}

// TurnSteerParams is an input for the turn that runs.
type TurnSteerParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	Input    Input  `json:"input"`
	// ExpectedTurnID is the turn that must be running.
	ExpectedTurnID string `json:"expectedTurnId" id:"turn"`
	// ClientUserMessageID is given back in the user message.
	ClientUserMessageID string `json:"clientUserMessageId,omitempty" max:"200"`
	// ClientRequestID makes the request idempotent.
	ClientRequestID string `json:"clientRequestId,omitempty" max:"200"`
}

// TurnSteerResult tells which turn the input went to.
type TurnSteerResult struct {
	TurnID string `json:"turnId"`
}

// TurnListParams selects a page of the turns of a thread.
type TurnListParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	PageParams
	// SortDirection is desc, newest first, by default.
	SortDirection string `json:"sortDirection,omitempty" enum:"asc,desc"`
	// ItemsView says how much of the items is there: none, the first of the user
	// and the last of the agent, or all. Default: notLoaded; on JSON-RPC, as in
	// codex, summary.
	ItemsView string `json:"itemsView,omitempty" enum:"notLoaded,summary,full" rpc:"summary"`
}

// TurnListResult is a page of turns.
type TurnListResult struct {
	Data []protocol.Turn `json:"data"`
	NextPage
	BackPage
}

// QueueListResult is what waits for its turn, in order.
type QueueListResult struct {
	Data []protocol.QueuedSubmission `json:"data"`
	NextPage
}

// QueueDeleteParams names an input that waits.
type QueueDeleteParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	// QueuedSubmissionID is the id of the turn it would become.
	QueuedSubmissionID string `json:"queuedSubmissionId" in:"path" id:"turn"`
}

// QueueDeleteResult tells whether it still waited.
type QueueDeleteResult struct {
	Deleted bool `json:"deleted"`
}

// RequestListResult is what the server asks and nobody has answered, oldest first.
type RequestListResult struct {
	Data []protocol.ServerRequest `json:"data"`
}

// RequestAnswerParams answers a request of the server.
type RequestAnswerParams struct {
	ThreadID  string `json:"threadId" in:"path" id:"thread"`
	RequestID string `json:"requestId" in:"path" id:"request"`
	// Result is what codex's clients answer: decision of an approval, contentItems
	// and success of a tool call.
	Result *RequestResult `json:"result,omitempty"`
	// Error says that the client cannot deal with the request: the item fails with
	// this text, and the turn goes on. Either result or error is given.
	Error string `json:"error,omitempty" max:"4000"`
}

// RequestResult is the answer to a request of the server.
type RequestResult struct {
	// Decision is accept, acceptForSession, decline or cancel; or, for a command,
	// accept with an amendment, as codex writes it.
	Decision json.RawMessage `json:"decision,omitempty"`
	// ContentItems is the output of a tool.
	ContentItems *[]ToolOutput `json:"contentItems,omitempty" max:"1000"`
	// Success is false for an output that tells of a failure; default: true.
	Success *bool `json:"success,omitempty"`
}

// ToolOutput is a piece of a tool's output.
type ToolOutput struct {
	Type string `json:"type" enum:"inputText,inputImage,inputAudio"`
	Text string `json:"text,omitempty"`
	// ImageURL holds an image, as the url of an input does. One that cannot be used
	// leaves a mark in the output.
	ImageURL string `json:"imageUrl,omitempty"`
}

// ShellCommandParams is a command that a person wants to run.
type ShellCommandParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	Command  string `json:"command"`
}
