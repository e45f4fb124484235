package threads

import (
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func TestTheMeterCountsAUserMessageOnce(t *testing.T) {
	s := newState("t")
	n := 0
	e := env{now: time.Unix(1, 0), newID: func() string { n++; return string(rune('a' + n)) }}
	seq := int64(0)
	fold := func(ps ...Payload) {
		for _, p := range ps {
			seq++
			evolve(s, seq, e.now, p)
		}
	}
	fold(UsageUpdated{Last: adapters.Usage{InputTokens: 100}, Source: compaction.SourceProvider, Model: s.Settings.model(), Estimate: 100})
	text := make([]byte, 4000)
	for i := range text {
		text[i] = "word "[i%5]
	}
	in := transcript.TextParts(string(text))
	fold(userMessage(e, QueuedTurn{TurnID: "x", Input: in}, nil)...)
	want := transcript.Estimate(transcript.UserMessage{Content: in})
	if s.Meter.Since != want {
		t.Errorf("since the report %d tokens were added, the meter says %d", want, s.Meter.Since)
	}
}

// What a fork inherits says nothing new: the meter and the gate are the source's.
func TestAForkInheritsMeterAndGate(t *testing.T) {
	n := 0
	e := env{now: time.Unix(1, 0), newID: func() string { n++; return string(rune('a' + n)) }}
	rec := compaction.NewRecord()
	rec.CompactionID, rec.Trigger, rec.TurnID = "c", compaction.TriggerMidTurn, "x"
	rec, _, _ = rec.Conclude(compaction.Verdict{Outcome: compaction.Failed, Code: "writerFailed", Route: compaction.RouteLocal}, compaction.End{At: 1})
	result := transcript.ToolResult{CallID: "1", Output: transcript.TextParts(string(make([]byte, 40_000)))}
	history := []Payload{
		TurnStarted{Turn: transcript.Turn{ID: "x", Kind: transcript.TurnUser, Status: transcript.TurnInProgress}},
		UsageUpdated{TurnID: "x", Last: adapters.Usage{InputTokens: 1000}, Context: 1000, Source: compaction.SourceProvider, Model: "/", Estimate: 1000, Gate: &compaction.Gate{}},
		ItemCompleted{Item: wholeItem(e, "x", result)},
		CompactionUpdated{Record: rec, Gate: &compaction.Gate{Failures: 3, Shut: compaction.ShutFailed, At: 20_000}},
		TurnCompleted{Turn: transcript.Turn{ID: "x", Kind: transcript.TurnUser, Status: transcript.TurnInterrupted}},
	}
	source := folded("s", history)
	fork := folded("f", append(append([]Payload{}, history...), inherited(folded("", history), 0)))
	if fork.Meter != source.Meter {
		t.Errorf("the meter of the fork is %+v, of the source %+v", fork.Meter, source.Meter)
	}
	if fork.Gate != source.Gate {
		t.Errorf("the gate of the fork is %+v, of the source %+v", fork.Gate, source.Gate)
	}
}
