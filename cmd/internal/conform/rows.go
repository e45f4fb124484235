package conform

import (
	"fmt"
	"strings"
)

// rows are what a subject is held to, in the order of the matrix.
var rows []row

func init() {
	rows = []row{
		{name: "start", what: "a turn runs, its answer is the model's, and the thread rests", real: true, paid: true, script: start},
		{name: "stream", what: "text is told while it comes, and adds up to the answer", real: true, paid: true, script: stream},
		{name: "approve", what: "a command waits for the approval, runs after it, and its result reaches the model", can: anything, script: approve},
		{name: "deny", what: "a command that is declined never runs, and the turn goes on", can: anything, script: deny},
		{name: "interrupt", what: "an interrupted turn ends so, keeps what was said, and the next one runs", can: anything, script: interrupt},
		{name: "steer", what: "what is said during a turn reaches the model once", can: anything, script: steer},
		{name: "usage", what: "the tokens and the window are those that the model told", real: true, paid: true, script: usage},
		{name: "turn 400", what: "a request that the model refuses fails its turn alone", can: anything, script: failing("status 400")},
		{name: "turn 500", what: "a model that breaks fails the turn alone", can: anything, script: failing("status 500")},
		{name: "turn overflow", what: "a request that does not fit fails as one", can: anything, script: failing("limit 10")},
		{name: "native", what: "a compaction of the provider's own is claimed only if it happened: the next request holds the summary, and not what it stands for", real: true, paid: true, script: native},
		{name: "nothing to do", what: "of an empty thread, and of one that begins with a summary, no compaction is claimed that was none, and none is a failure", can: anything, script: nothing},
		{name: "refusal", what: "what cannot be compacted says so with code, reason and remedy, and the context stays", real: true, paid: true, can: refusing, script: refusal},
		{name: "compaction 400", what: "a summary that is refused is no success, and the history stays", can: anything, script: failingSummary("status 400")},
		{name: "compaction 500", what: "a summary that breaks is no success, and the history stays", can: anything, script: failingSummary("status 500")},
		{name: "compaction overflow", what: "a summary whose request does not fit is no success", can: anything, script: failingSummary("limit 10")},
		{name: "empty summary", what: "a summary that says nothing is no success", can: anything, script: failingSummary("usage 10 0")},
		{name: "cancel", what: "a cancelled compaction ends so and leaves the history", can: anything, script: cancel},
		{name: "denied by hook", what: "a hook of the user keeps a compaction from beginning", real: true, paid: true, script: denied},
		{name: "compaction in a turn", what: "a compaction that is asked for during a turn waits for its end", can: anything, script: compactionInTurn},
		{name: "turn in a compaction", what: "an input during a compaction waits for its end", can: anything, script: turnInCompaction},
		{name: "kill in a turn", what: "a turn whose child is killed fails, and the next one goes on with the history", can: processes, script: killInTurn},
		{name: "kill in a compaction", what: "a compaction whose child is killed is no success, and the next turn goes on with the history", can: processes, script: killInCompaction},
		{name: "resume", what: "after a restart of the server the conversation goes on", real: true, paid: true, script: resume},
		{name: "foreign completion", what: "the completion of another session or turn ends nothing", can: foreigners, script: foreign},
		{name: "own compaction", what: "what the program compacts by itself is told of, and mistaken for nothing else", can: runtimes, script: own},
		{name: "two servers", what: "a session that another server drives is not driven, and the other one goes on", can: runtimes, script: twoServers},
		{name: "rebase and undo", what: "a local checkpoint is what the model goes on with, and undo brings back what was", real: true, paid: true, script: rebase},
		{name: "model down", what: "a model server that is away is told of, and the thread goes on when it is back", can: anything, script: down},
		{name: "long session", what: "30 turns with 5 compactions keep I1 to I10", limit: longLimit, can: anything, script: long},
	}
}

func anything(*Scripted) string { return "" }

func runtimes(s *Scripted) string {
	if !s.Runtime {
		return "a model keeps no history of its own"
	}
	return ""
}

func processes(s *Scripted) string {
	if !s.Process {
		return "it has no child process"
	}
	return ""
}

func foreigners(s *Scripted) string {
	switch {
	case !s.Runtime:
		return "a model has no completion that is not the answer to its request"
	case s.Foreign == nil:
		return "nothing foreign can be put into what it says"
	}
	return ""
}

func refusing(s *Scripted) string {
	if s.Runtime && !s.Refusing {
		return "it cannot be made to refuse"
	}
	return ""
}

// summaryText is what the model says when it is asked for a summary.
const summaryText = `<<END
## Goal
- SUMMARY-7F3: the tide tables are read, one gauge after the other, and the keel must not be touched.

## Done
- The gauges were read and their log was signed. High water is at 07:30, says the table of the north pier.
- The gauge at the south pier was compared with it, and the two differ by less than a hand, which is within what the harbour master allows.
- Nothing was changed in the tables themselves, and no entry of the log was taken back or written twice.
- The old readings stay where they are, in the order in which they were taken, so that the next watch finds them.

## Next
- Go on with the next tide gauge, and say what it says.
END`

// The exchanges that most rows use. The padding gives a compaction something to do.
const (
	summary = "-- summary --\nwriter\nrepeat\nsay " + summaryText + "\nusage 700 40\n"
	answers = "-- answers --\nrepeat\nsay \"ANSWER-${n}. \"\npad 6000\nusage 3000 1500\n"
	// slow answers PROMPT-SLOW in two parts.
	slow = "-- slow --\nwhen PROMPT-SLOW\nsay \"Beginning \"\nhold slow\nsay and the end.\nusage 1000 10\n"
)

// filler makes an input long enough that a checkpoint is smaller.
var filler = strings.Repeat("The gauge at the north pier was read again and the log was signed. ", 60)

// talk makes turns whose prompts and answers can be told apart.
func (w *world) talk(n int) {
	for i := range n {
		w.ids.turn(fmt.Sprintf("PROMPT-%d: what does tide gauge %d say? %s", i+1, i+1, filler))
	}
}

// runtime reports whether the subject is known to keep its own history.
func (w *world) runtime() bool { return w.sub.Scripted != nil && w.sub.Scripted.Runtime }
