package adapters

import "github.com/plimsoll-dev/plimsoll/threads/transcript"

// A Question is what a session asks the people behind the clients: one of the
// types below. Item is what the question is about. An item that is not open yet
// is started by the server in the commit that makes the question durable, so that
// no client sees one without the other.
//
// A question is asked once: asking the same about the same item again, which a
// session does when it continues a turn that another process began, waits for the
// same answer, or returns it at once if it was given in this turn. One that stops
// waiting (ctx is done) while its turn goes on is taken back.
type Question interface{ question() }

// CommandApproval asks whether a Command may run.
type CommandApproval struct {
	Item    transcript.Item // its Body is a Command, or the ToolCall that runs it
	Command string
	Cwd     string
	Reason  string // why it asks; may be empty
	// Amendment, if set, is the prefix of commands that the user may allow for
	// good (Answer.Amended).
	Amendment []string
}

// FileApproval asks whether a FileChange may be made.
type FileApproval struct {
	Item      transcript.Item // its Body is a FileChange, or the ToolCall that makes it
	Reason    string
	GrantRoot string // the folder that the user is asked to open; empty: none
}

func (CommandApproval) question() {}
func (FileApproval) question()    {}

// A Decision answers an approval, in codex's words.
type Decision string

// The decisions. Anything a client sends that is not one of these is no answer.
const (
	Accept           Decision = "accept"
	AcceptForSession Decision = "acceptForSession" // and the same again without asking
	Decline          Decision = "decline"          // the turn goes on without it
	Cancel           Decision = "cancel"           // and the turn is interrupted
)

// Allows reports whether the decision lets the work be done.
func (d Decision) Allows() bool { return d == Accept || d == AcceptForSession }

// An Answer is what came of a Question. The server has already done what follows
// from it: Cancel interrupts the turn.
type Answer struct {
	Decision Decision
	// Amendment is the amendment that was accepted with it, as the client sent it:
	// an execpolicy or a network rule. Nil if there is none.
	Amendment transcript.RawJSON
	// Reason is why it was declined, for the model; empty if a person did that.
	Reason string
	// Auto says that nobody was asked: the policy, or an AcceptForSession given
	// before, decided.
	Auto bool
}

// A Continuer is an Adapter whose sessions can go on with a turn that another
// process began (TurnInput.Continue), because all there is to know is in the
// context. A turn that only waits for answers then survives a restart of the
// server, its questions with it.
type Continuer interface{ Continues() bool }
