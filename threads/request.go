package threads

import (
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
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
	Images    Images             `json:"-"` // that Output names
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

// RequestResolved ends a request. The output of a tool call is journaled as an
// item in the same commit, and not here.
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

func (p RequestCreated) check() error {
	r := p.Request
	asks := map[string]bool{AskCommand: r.Command != nil, AskFile: r.File != nil, AskTool: r.Tool != nil}
	if r.ID == "" || !asks[r.Method] {
		return fmt.Errorf("request %q asks nothing with method %q", r.ID, r.Method)
	}
	return nil
}

// Requests returns the requests of a thread that wait for an answer, oldest first.
func (s *Service) Requests(ctx context.Context, id transcript.ThreadID) ([]Request, error) {
	return query(ctx, s, id, func(a *actor) []Request { return append([]Request{}, a.state.Requests...) })
}

// Answer answers a request, in the name of the client by. The first valid answer
// wins. A later one fails with Conflict and an AlreadyResolved as data; one that
// is not valid for what was asked fails with Invalid, and the request goes on
// waiting. What follows from the answer is durable when Answer returns.
func (s *Service) Answer(ctx context.Context, id transcript.ThreadID, r RequestID, answer RequestAnswer, by string) error {
	blobs, err := s.blobs(ctx, "output", answer.Output, answer.Images)
	if err != nil {
		return err
	}
	_, err = s.do(ctx, id, message{cmd: answerRequest{r, answer, by, blobs}})
	return err
}

// AlreadyResolved is the data of the fault of an answer that came too late.
type AlreadyResolved struct {
	Kind      string         `json:"kind"` // alreadyResolved
	RequestID RequestID      `json:"requestId"`
	Outcome   RequestOutcome `json:"outcome"`
	By        string         `json:"by,omitempty"` // the client that answered
}

// check refuses an answer that is none to what r asks.
func (a RequestAnswer) check(r Request) error {
	if a.Failed != "" {
		if a.Decision != "" || a.Amendment != nil || a.Output != nil {
			return fault.New(fault.Invalid, "an answer that failed has neither a decision nor an output")
		}
		return nil
	}
	if r.Method == AskTool {
		if a.Decision != "" || a.Amendment != nil {
			return fault.New(fault.Invalid, "a tool call is answered with its output, not with a decision")
		}
		return checkOutput(a.Output)
	}
	return a.checkDecision(r)
}

func (a RequestAnswer) checkDecision(r Request) error {
	switch a.Decision {
	case adapters.Accept, adapters.AcceptForSession, adapters.Decline, adapters.Cancel:
	default:
		return fault.New(fault.Invalid, "the decision is %q; allowed: accept, acceptForSession, decline, cancel", a.Decision)
	}
	switch {
	case a.Output != nil || a.IsError:
		return fault.New(fault.Invalid, "an approval is answered with a decision, not with an output")
	case a.Amendment == nil:
		return nil
	case r.Method != AskCommand:
		return fault.New(fault.Invalid, "only the approval of a command takes an amendment")
	case a.Decision != adapters.Accept && a.Decision != adapters.Decline:
		return fault.New(fault.Invalid, "the decision is %q with an amendment; allowed with one: accept, decline", a.Decision)
	case len(a.Amendment) > maxText || !json.Valid(a.Amendment):
		return fault.New(fault.Invalid, "the amendment is not valid JSON of at most %d bytes", maxText)
	}
	return nil
}

// checkOutput refuses a tool's output that no model can be given.
func checkOutput(output []transcript.Part) error {
	for i, p := range output {
		if p.Type != transcript.PartText && p.Type != transcript.PartImage {
			return fault.New(fault.Invalid, "output[%d].type is %q; allowed: text, image", i, p.Type)
		}
		if !utf8.ValidString(p.Text) {
			return fault.New(fault.Invalid, "output[%d].text is not valid UTF-8", i)
		}
	}
	if n := len(transcript.PartsText(output)); n > maxText {
		return fault.New(fault.TooLarge, "the output has %d bytes; at most %d are allowed", n, maxText)
	}
	return nil
}
