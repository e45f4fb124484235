package threads

import (
	"slices"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// automatic is what a decision knows of compactions that nobody asks for.
type automatic struct {
	policy compaction.Policy
	limits limits
	model  string // that requests go to, as the meter knows it
	key    string // of the model and the policy: a gate that was shut for another one is open
	bare   int    // estimate of the base
	route  compaction.Route
	// stateless: the provider is a model, whose whole context this server sends.
	stateless bool
	native    bool     // the session is a runtime's that compacts by itself
	rebases   bool     // it is one that is given a fresh session where it cannot
	settings  Settings // of the session of the turn in progress, or of the thread
}

// request is how a compaction is asked for that nobody asked for. A runtime keeps
// its own history: another route would be about a context that it does not use.
func (au automatic) request(t compaction.Trigger) *CompactRequest {
	switch {
	case !au.stateless && au.rebases:
		return &CompactRequest{} // native if it can
	case !au.stateless:
		return &CompactRequest{Route: compaction.RouteNative}
	case t == compaction.TriggerBudget:
		return &CompactRequest{Route: compaction.RouteLocal, Writer: compaction.WriterFixed}
	}
	return &CompactRequest{Route: au.route}
}

// due reports whether the thread is to be compacted now, with more added to its
// context. judge is Policy.Judge or Policy.JudgeIdle. Where no compaction can help
// one is due once: it ends unchanged and shuts the gate.
func (s *state) due(au automatic, more int, judge func(compaction.Load, compaction.Gate) compaction.Move) bool {
	if !au.stateless && !au.native && !au.rebases || s.running() != nil {
		return false
	}
	l := s.load(au, more)
	return judge(l, s.Gate.Measured(au.policy, l, au.key)) != compaction.MoveNone && s.grown(au.key)
}

// grown reports whether anything was said since the last automatic compaction that
// another one could take away. What the user said since is kept whatever happens.
func (s *state) grown(key string) bool {
	n := s.Transcript.Epoch()
	if n == 0 || s.Gate.Key != key {
		return true
	}
	b := s.Transcript.Boundaries[n-1]
	r := s.compaction(b.CompactionID)
	if r == nil || !r.Trigger.Automatic() || b.Undoes != "" {
		return true
	}
	return slices.ContainsFunc(s.Transcript.Items[min(b.Covered, len(s.Transcript.Items)):], func(it transcript.Item) bool {
		switch it.Body.Kind() {
		case transcript.KindUserMessage, transcript.KindNotice, transcript.KindContextCompaction:
			return false
		default:
			return true
		}
	})
}

// preTurn returns the trigger of the compaction that must run before an input
// becomes a turn; empty if none must.
func (s *state) preTurn(au automatic, q QueuedTurn) compaction.Trigger {
	if s.Overfull && !au.stateless && s.running() == nil && s.cannotRelieve(au) == "" {
		return compaction.TriggerOverflow
	}
	more := transcript.Estimate(transcript.UserMessage{Content: q.Input})
	if !s.due(au, more, au.policy.Judge) {
		return ""
	}
	l := s.load(au, more)
	if was := s.Usage.Window; was > l.Window && l.Window > 0 {
		if l.Window = was; l.Used < au.policy.Fire(l) {
			return compaction.TriggerWindow
		}
	}
	return compaction.TriggerPreTurn
}

// newCompaction is the record of a compaction that begins now.
func (s *state) newCompaction(env env, t compaction.Trigger) compaction.Record {
	r := compaction.NewRecord()
	r.CompactionID, r.ThreadID, r.Trigger = transcript.CompactionID(env.newID()), s.ID, t
	r.Epoch, r.BaseSeq, r.RequestedAt = s.Transcript.Epoch(), s.Seq, transcript.Millis(env.now)
	return r
}

// compactFirst returns a compaction turn that nobody asked for.
func (s *state) compactFirst(env env, au automatic, t compaction.Trigger) decision {
	r := s.newCompaction(env, t)
	r.TurnID = transcript.TurnID(env.newID())
	return decision{
		payloads: beginCompactTurn(env, r, au.request(t), nil),
		effects:  []effect{startCompaction{r.CompactionID}},
	}
}

// compactInside returns a compaction inside of the turn in progress, which waits for
// its end.
func (s *state) compactInside(env env, t compaction.Trigger, learned *LearnedWindow) decision {
	r := s.newCompaction(env, t)
	r.TurnID = s.Active
	return decision{
		payloads: []Payload{ItemStarted{Item: compactionItem(env, r)}, CompactionUpdated{Record: r, Request: env.auto.request(t), Learned: learned}},
		effects:  []effect{startCompaction{r.CompactionID}},
	}
}

// compactIdle compacts a thread that has rested for long enough.
type compactIdle struct{}

func (compactIdle) decide(s *state, env env) (decision, error) {
	if s.Deleted || s.Active != "" || len(s.Queue) > 0 || !s.due(env.auto, 0, env.auto.policy.JudgeIdle) {
		return decision{}, nil
	}
	return s.compactFirst(env, env.auto, compaction.TriggerIdle), nil
}

// gateAfter is the gate after the end of a compaction; nil if it stays as it is. The
// input that waits for it counts as the load: it is what would fire again.
func (s *state) gateAfter(env env, r compaction.Record) *compaction.Gate {
	g := s.Gate
	if r.Trigger == compaction.TriggerProvider {
		return s.gateAfterForeign(env, r)
	}
	if !r.Trigger.Automatic() {
		g = g.EndedManually(*r.Outcome)
		if r.Replaced() {
			g = g.Replaced(env.auto.key, s.load(env.auto, 0).Used)
		}
	} else {
		more := 0
		if len(s.Queue) > 0 && (r.Trigger == compaction.TriggerPreTurn || r.Trigger == compaction.TriggerWindow) {
			more = transcript.Estimate(transcript.UserMessage{Content: s.Queue[0].Input})
		}
		l := s.load(env.auto, more)
		g = g.Measured(env.auto.policy, l, env.auto.key).Ended(*r.Outcome, outcomeCode(r), env.auto.key, l)
		if r.Replaced() {
			g = g.Replaced(env.auto.key, l.Used)
		}
		if *r.Outcome == compaction.Completed && r.After != nil {
			l.Used = r.After.Tokens + more
			g = g.Relieved(env.auto.policy, l)
		}
	}
	if g == s.Gate {
		return nil
	}
	return &g
}

// repeats reports whether an automatic compaction ended as the one before it did:
// then there is nothing new to tell.
func (s *state) repeats(r compaction.Record) bool {
	if !r.Trigger.Automatic() || *r.Outcome == compaction.Completed {
		return false
	}
	for _, was := range slices.Backward(s.Compactions) {
		if was.CompactionID == r.CompactionID || !was.Trigger.Automatic() {
			continue
		}
		return was.Terminal() && *was.Outcome == *r.Outcome && outcomeCode(was) == outcomeCode(r)
	}
	return false
}
