package adaptertest

import (
	"encoding/json"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A Script is what a provider does: one Reply for each request it gets. A
// request beyond its end is an error of the test.
type Script []Reply

// A Reply is the answer to one request, step by step.
type Reply []Step

// A Step is one thing a provider does. Exactly one field is set, but for Then. A player whose
// wire cannot carry text that ends inside a character joins it with the next.
type Step struct {
	Chunk adapters.Chunk // sends this
	Err   error          // breaks the stream; ErrOverflow in the provider's own words
	Hang  bool           // sends nothing more until the request is cancelled
	Then  func()         // with Hang: called once the provider hangs

	Ask       *Asking     // wants to do something, and waits until it may
	Completed *Completion // ends a native compaction
}

// AskTool is the tool by which a model asks. Its arguments are an Asking; the
// Host of the suite runs it, and so asks in its place.
const AskTool = "run_command"

// An Asking is a command that the provider wants to run. A model plays it as a
// call of AskTool; a player of a runtime has its provider ask in its own way, and
// an allowed command do nothing. As after a call, what follows the answers is the
// next Reply.
type Asking struct {
	Command string `json:"command"`
	Cwd     string `json:"cwd"`
}

// A Completion tells that a native compaction is complete. The request that asked
// for the compaction takes a Reply of the script, as one for an answer does.
type Completion struct {
	// Other says that it belongs to another compaction than the one that was asked
	// for. A player whose wire cannot tell them apart leaves the step out.
	Other bool
	// Disclosed is text that the provider tells of the compaction, such as its
	// summary. A player whose wire has no place for it leaves it out.
	Disclosed string
}

// Say sends text of the answer.
func Say(text string) Step { return Step{Chunk: adapters.MessageText{Text: text}} }

// Think sends text of the disclosed thinking.
func Think(text string) Step { return Step{Chunk: adapters.ReasoningText{Text: text}} }

// Call sends a tool call.
func Call(id, name, arguments string) Step {
	return Step{Chunk: adapters.CallChunk{Call: transcript.ToolCall{
		CallID: transcript.CallID(id), Name: name, Arguments: transcript.RawJSON(arguments),
	}}}
}

// Ask wants to run a command in the folder /work.
func Ask(command string) Step { return Step{Ask: &Asking{Command: command, Cwd: "/work"}} }

// call is the tool call by which a model asks.
func (a Asking) call() adapters.CallChunk {
	args, err := json.Marshal(a)
	if err != nil { // two strings always encode
		panic(err)
	}
	return adapters.CallChunk{Call: transcript.ToolCall{CallID: transcript.CallID("ask-" + a.Command), Name: AskTool, Arguments: args}}
}

// Spend reports the usage of the request.
func Spend(input, output int) Step {
	return Step{Chunk: adapters.UsageChunk{Usage: adapters.Usage{InputTokens: input, OutputTokens: output}}}
}

// Stop ends the answer.
func Stop(r adapters.StopReason) Step { return Step{Chunk: adapters.Done{Stop: r}} }

// Fail breaks the stream.
func Fail(err error) Step { return Step{Err: err} }

// Hang keeps the stream open without sending anything.
func Hang() Step { return Step{Hang: true} }

// HangThen is Hang that calls then when the provider has got there.
func HangThen(then func()) Step { return Step{Hang: true, Then: then} }

// Compacted completes the native compaction that was asked for.
func Compacted(disclosed string) Step { return Step{Completed: &Completion{Disclosed: disclosed}} }

// CompactedOther completes another native compaction.
func CompactedOther(disclosed string) Step {
	return Step{Completed: &Completion{Other: true, Disclosed: disclosed}}
}

// Answer is a Reply that says text and stops.
func Answer(text string) Reply {
	return Reply{Say(text), Spend(10, 5), Stop(adapters.StopEnd)}
}
