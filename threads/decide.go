package threads

import (
	"slices"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A command asks a thread for something. Commands of clients may be refused with
// an error; commands of the actor's own goroutines report what happened.
type command interface {
	// decide returns what follows from the command in state s. It changes
	// nothing: s is only read, time and ids come from env.
	decide(s *state, env env) (decision, error)
}

// env is what a decision may know besides the state.
type env struct {
	now    time.Time
	newID  func() string
	window int // context window of the thread's model; 0 if unknown
	base   int // tokens no compaction can shrink; 0 until a session was open
	read   int // items of the transcript that the model has read

	auto      automatic // of the thread's settings, or of the turn in progress
	automatic func(Settings) automatic
	asked     int            // estimate of the request that nobody has counted yet; 0: none
	learned   *LearnedWindow // to be journaled with the next failure
	policy    compaction.Policy
	restate   func() string // what the first request after a compaction is to restate
	runtime   bool          // the thread's provider keeps its own history

	// resettle checks settings that were changed, and fills what is empty.
	resettle func(old, changed Settings) (Settings, error)
}

// A decision is journaled in one commit; after it the effects run in order.
type decision struct {
	payloads []Payload
	times    []time.Time // of the first payloads, if they are not of now
	blobs    []events.Blob
	effects  []effect
	answer   func(s *state) any // the reply, made from the state after the commit
}

// An effect is something for the actor to do once a decision is durable.
type effect interface{ effect() }

type (
	// runTurn starts the session on a turn.
	runTurn struct {
		turn  transcript.TurnID
		input []transcript.Part
		notes string // that restate how things stand
	}
	// steerTurn wakes the running session: it has more input.
	steerTurn struct{ input []transcript.Part }
	// stopTurn interrupts the running session.
	stopTurn struct{}
	// startCompaction runs a compaction whose request is journaled.
	startCompaction struct{ id transcript.CompactionID }
	// stopCompaction interrupts the running compaction.
	stopCompaction struct{}
	// resumeContext answers the step boundary that waited for a compaction.
	resumeContext struct{}
	// tellHooks runs the post hooks of a compaction that completed.
	tellHooks struct {
		record       compaction.Record
		instructions string // of the user
	}
	// retire ends the actor: the thread is deleted.
	retire struct{}
)

func (runTurn) effect()         {}
func (steerTurn) effect()       {}
func (stopTurn) effect()        {}
func (startCompaction) effect() {}
func (stopCompaction) effect()  {}
func (resumeContext) effect()   {}
func (tellHooks) effect()       {}
func (retire) effect()          {}

// sourceReanchor is the source of the notice that restates the facts after a
// boundary.
const sourceReanchor = "reanchor"

// beginTurn returns what opens a user turn: the first of its commits.
func beginTurn(s *state, env env, q QueuedTurn, accepted *Accepted) []Payload {
	ps := []Payload{
		StatusChanged{Status: StatusActive, Accepted: accepted},
		TurnStarted{
			Turn:           transcript.Turn{ID: q.TurnID, Kind: transcript.TurnUser, Status: transcript.TurnInProgress, StartedAt: env.now},
			MaxTotalTokens: q.MaxTotalTokens,
		},
	}
	if s.Reanchor != "" {
		note := transcript.Notice{Source: sourceReanchor, Text: s.Reanchor}
		ps = append(ps, ItemCompleted{Item: wholeItem(env, q.TurnID, note), Reanchor: true})
	}
	return append(ps, userMessage(env, q, nil)...)
}

// userMessage returns the events of a whole user message.
func userMessage(env env, q QueuedTurn, accepted *Accepted) []Payload {
	it := wholeItem(env, q.TurnID, transcript.UserMessage{Content: q.Input, ClientID: q.ClientID})
	started := it
	started.CompletedAt = time.Time{}
	return []Payload{ItemStarted{Item: started}, ItemCompleted{Item: it, Accepted: accepted}}
}

func wholeItem(env env, turn transcript.TurnID, body transcript.Body) transcript.Item {
	return transcript.Item{ID: transcript.ItemID(env.newID()), Turn: turn, StartedAt: env.now, CompletedAt: env.now, Body: body}
}

// beginCompactTurn returns what opens the turn of a manual compaction.
func beginCompactTurn(env env, r compaction.Record, req *CompactRequest, accepted *Accepted) []Payload {
	return []Payload{
		StatusChanged{Status: StatusActive, Accepted: accepted},
		TurnStarted{Turn: transcript.Turn{ID: r.TurnID, Kind: transcript.TurnCompact, Status: transcript.TurnInProgress, StartedAt: env.now}},
		ItemStarted{Item: compactionItem(env, r)},
		CompactionUpdated{Record: r, Request: req},
	}
}

// compactionItem is the open marker of a compaction in the timeline. Its id is
// the compaction's own.
func compactionItem(env env, r compaction.Record) transcript.Item {
	return transcript.Item{
		ID: transcript.ItemID(r.CompactionID), Turn: r.TurnID, StartedAt: env.now,
		Body: transcript.ContextCompaction{CompactionID: r.CompactionID},
	}
}

// serveNext returns what an idle thread does next: a compaction that was asked
// for during the turn, one that is due after it, then the queue in order, each with
// the compaction that must come before it. It is its own commit, after the terminal
// state of what ran before.
type serveNext struct {
	afterTurn bool // a turn has just completed
}

func (c serveNext) decide(s *state, env env) (decision, error) {
	if s.Deleted || s.Active != "" {
		return decision{}, nil
	}
	if r := s.running(); r != nil {
		rec := *r
		rec.TurnID = transcript.TurnID(env.newID())
		rec.BaseSeq, rec.Epoch = s.Seq, s.Transcript.Epoch()
		return decision{
			payloads: beginCompactTurn(env, rec, nil, nil),
			effects:  []effect{startCompaction{rec.CompactionID}},
		}, nil
	}
	au := env.auto
	if c.afterTurn && !au.policy.NoPostTurn && s.due(au, 0, au.policy.Judge) {
		return s.compactFirst(env, au, compaction.TriggerPostTurn), nil
	}
	if len(s.Queue) > 0 {
		q := s.Queue[0]
		if t := s.preTurn(au, q); t != "" {
			return s.compactFirst(env, au, t), nil
		}
		return decision{
			payloads: append([]Payload{QueueChanged{Queue: append([]QueuedTurn{}, s.Queue[1:]...)}}, beginTurn(s, env, q, nil)...),
			effects:  []effect{runTurn{q.TurnID, q.Input, s.Reanchor}},
		}, nil
	}
	return decision{}, nil
}

// acceptInput is StartTurn.
type acceptInput struct {
	p     StartTurnParams
	hash  string
	blobs []events.Blob // the images of the input
}

func (c acceptInput) decide(s *state, env env) (decision, error) {
	if prior, ok, err := s.repeated(c.p.IdempotencyKey, c.hash); err != nil || ok {
		return decision{answer: func(s *state) any {
			ack := ackOf(s, transcript.TurnID(prior.Result))
			ack.Steered = prior.Steered
			return ack
		}}, err
	}
	changed, err := s.patched(env, c.p.Settings)
	if err != nil {
		return decision{}, err
	}
	q := QueuedTurn{Input: c.p.Input, ClientID: c.p.ClientID, QueuedAt: transcript.Millis(env.now), MaxTotalTokens: c.p.MaxTotalTokens}
	if turn := s.activeTurn(); c.p.Mode == ModeSteer && turn != nil && turn.Kind == transcript.TurnUser && s.compacting() == nil {
		q.TurnID = turn.ID
		accepted := s.acceptance(env, c.p.IdempotencyKey, c.hash, string(turn.ID))
		if accepted != nil {
			accepted.Steered = true
		}
		return decision{
			payloads: append(changed, userMessage(env, q, accepted)...),
			blobs:    c.blobs,
			effects:  []effect{steerTurn{c.p.Input}},
			answer: func(s *state) any {
				ack := ackOf(s, turn.ID)
				ack.Steered = true
				return ack
			},
		}, nil
	}
	q.TurnID = transcript.TurnID(env.newID())
	accepted := s.acceptance(env, c.p.IdempotencyKey, c.hash, string(q.TurnID))
	d := decision{blobs: c.blobs, answer: func(s *state) any { return ackOf(s, q.TurnID) }}
	if s.Active != "" || s.running() != nil || len(s.Queue) > 0 {
		if len(s.Queue) >= maxQueue {
			return decision{}, fault.New(fault.Overloaded, "the queue of this thread is full: %d inputs wait already", maxQueue)
		}
		d.payloads = append(changed, QueueChanged{Queue: append(append([]QueuedTurn{}, s.Queue...), q), Accepted: accepted})
		return d, nil
	}
	if t := s.preTurn(env.after(changed), q); t != "" {
		first := s.compactFirst(env, env.after(changed), t)
		d.payloads = append(append(changed, QueueChanged{Queue: []QueuedTurn{q}, Accepted: accepted}), first.payloads...)
		d.effects = first.effects
		return d, nil
	}
	d.payloads = append(changed, beginTurn(s, env, q, accepted)...)
	d.effects = []effect{runTurn{q.TurnID, q.Input, s.Reanchor}}
	return d, nil
}

// after is what is known of automatic compactions once the settings have changed.
func (e env) after(changed []Payload) automatic {
	for _, p := range changed {
		if u, ok := p.(SettingsUpdated); ok {
			return e.automatic(u.Settings)
		}
	}
	return e.auto
}

// maxQueue bounds the inputs that wait on one thread.
const maxQueue = 256

// compacting returns the compaction that runs; nil if there is none, or if it only
// waits for a step boundary. One that runs has its place in the timeline.
func (s *state) compacting() *compaction.Record {
	r := s.running()
	if r == nil {
		return nil
	}
	if _, started := s.itemAt[transcript.ItemID(r.CompactionID)]; r.Phase != compaction.PhaseRequested || started {
		return r
	}
	return nil
}

// repeated reports whether an idempotency key was used before, and for what.
func (s *state) repeated(key, hash string) (prior Accepted, ok bool, err error) {
	a, ok := s.Accepted[key]
	if key == "" || !ok {
		return a, false, nil
	}
	if a.Hash != hash {
		return a, true, fault.New(fault.Conflict, "idempotency key %q was used for another request; use a new key for a new request", key)
	}
	return a, true, nil
}

func (s *state) acceptance(env env, key, hash, result string) *Accepted {
	if key == "" {
		return nil
	}
	return &Accepted{Key: key, Hash: hash, Result: result, At: transcript.Millis(env.now)}
}

// ackOf describes a turn that was accepted before or just now.
func ackOf(s *state, id transcript.TurnID) TurnAck {
	ack := TurnAck{AsOf: s.cursor(), Turn: TurnView{View: ItemsNone, Items: []ItemView{}}}
	if i, ok := s.turnAt[id]; ok {
		ack.Turn.Turn = s.Transcript.Turns[i]
		return ack
	}
	ack.Turn.Turn = transcript.Turn{ID: id, Kind: transcript.TurnUser, Status: transcript.TurnInterrupted}
	if slices.ContainsFunc(s.Queue, func(q QueuedTurn) bool { return q.TurnID == id }) {
		ack.Queued, ack.Turn.Status = true, transcript.TurnQueued
	} // else it was taken out of the queue: it never ran, and never will
	return ack
}

// interrupt is InterruptTurn. An input that still waits is taken out of the
// queue; it never becomes a turn.
type interrupt struct{ turn transcript.TurnID }

func (c interrupt) decide(s *state, _ env) (decision, error) {
	if rest, found := s.queueWithout(c.turn); found {
		return decision{payloads: []Payload{QueueChanged{Queue: rest}}}, nil
	}
	if s.Active == "" || s.Active != c.turn {
		code := fault.Conflict
		if _, ended := s.turnAt[c.turn]; !ended && s.Active == "" {
			code = fault.NotFound
		}
		return decision{}, fault.New(code, "no active turn to interrupt") // codex's text (codex 0.171, observed)
	}
	d := decision{}
	if len(s.Requests) > 0 && !s.Stopping { // durable: a restart goes on with what waits
		d.payloads = []Payload{StatusChanged{Status: StatusActive, Stopping: true}}
	}
	own := s.activeTurn().Kind == transcript.TurnCompact
	if own || s.compacting() != nil {
		d.effects = append(d.effects, stopCompaction{})
	}
	if !own {
		d.effects = append(d.effects, stopTurn{})
	}
	return d, nil
}

// createThread is CreateThread and Import: the whole history of the new thread
// is one commit.
type createThread struct {
	started ThreadStarted
	history []Payload
	times   []time.Time // of started and history, if they are not of now
	blobs   []events.Blob
}

func (c createThread) decide(s *state, _ env) (decision, error) {
	if s.Seq == 0 {
		return decision{payloads: c.payloads(), times: c.times, blobs: c.blobs}, nil
	}
	if c.started.Accepted == nil {
		return decision{}, fault.New(fault.Conflict, "thread %s exists already", s.ID)
	}
	_, again, err := s.repeated(c.started.Accepted.Key, c.started.Accepted.Hash)
	if err == nil && !again { // the key expired, its thread did not
		err = fault.New(fault.Conflict, "idempotency key %q made thread %s before", c.started.Accepted.Key, s.ID)
	}
	return decision{}, err
}

// removeThread is DeleteThread.
type removeThread struct{}

func (removeThread) decide(s *state, _ env) (decision, error) {
	return decision{
		payloads: []Payload{ThreadDeleted{}},
		effects:  []effect{stopCompaction{}, stopTurn{}, retire{}},
	}, nil
}

// report is what a session emitted; the payloads of one report share a commit.
type report struct {
	turn    transcript.TurnID
	updates []adapters.Update
}

func (c report) decide(s *state, env env) (decision, error) {
	if s.Active != c.turn {
		return decision{}, fault.New(fault.Cancelled, "turn %s is over", c.turn)
	}
	ps := reported(s, env, c.turn, c.updates)
	return decision{payloads: ps, effects: foreignHooks(ps)}, nil
}

// reported maps a session's updates to payloads. Times are the server's.
func reported(s *state, env env, turn transcript.TurnID, updates []adapters.Update) []Payload {
	ps := make([]Payload, 0, len(updates))
	usage, waiting, more := s.Usage, s.waitingCalls(nil), 0
	usage.Gate = nil
	foreign := s.watch(env, turn)
	for _, u := range updates {
		switch u := u.(type) {
		case adapters.ItemStarted:
			it := u.Item
			it.Turn, it.StartedAt, it.CompletedAt = turn, env.now, time.Time{}
			if call, ok := it.Body.(transcript.ToolCall); ok {
				it.CompletedAt = env.now // a call is whole; what is open is its answer
				waiting[call.CallID] = it
			}
			ps = append(ps, ItemStarted{Item: it})
		case adapters.ItemCompleted:
			it := u.Item
			it.Turn, it.CompletedAt = turn, env.now
			if it.StartedAt = s.startedAt(it.ID); it.StartedAt.IsZero() {
				it.StartedAt = env.now
			}
			done := ItemCompleted{Item: it}
			if r, ok := it.Body.(transcript.ToolResult); ok {
				if call, ok := waiting[r.CallID]; ok {
					done.Call = &call
					delete(waiting, r.CallID)
				}
			}
			ps = append(ps, done)
			more += transcript.Estimate(it.Body)
		case adapters.UsageReported:
			usage = s.usageOf(env, turn, usage, u, more)
			ps = append(ps, usage)
			foreign.counted(usage)
		case adapters.PlanUpdated:
			ps = append(ps, PlanUpdated{TurnID: turn, Plan: u.Plan})
		case adapters.Retrying:
			ps = append(ps, ErrorRaised{TurnID: turn, WillRetry: true, Error: transcript.TurnError{Message: u.Message, Code: "retrying"}})
		case adapters.Warned:
			ps = append(ps, WarningRaised{Message: u.Message})
		case adapters.CompactionBegan:
			ps = append(ps, foreign.to(compaction.PhaseRunning)...)
		case adapters.CompactionEnded:
			ps = append(ps, foreign.ended(u, &usage)...)
		case adapters.TextDelta:
			// goes to the hub, never to the journal
		}
	}
	return ps
}

func (s *state) startedAt(id transcript.ItemID) time.Time {
	if i, ok := s.itemAt[id]; ok {
		return s.Transcript.Items[i].StartedAt
	}
	return time.Time{}
}

// answerCall journals the result of a tool call.
type answerCall struct {
	turn   transcript.TurnID
	call   transcript.ItemID
	result transcript.ToolResult
}

func (c answerCall) decide(s *state, env env) (decision, error) {
	i, ok := s.itemAt[c.call]
	if s.Active != c.turn || !ok {
		return decision{}, fault.New(fault.Cancelled, "call %s of turn %s is over", c.call, c.turn)
	}
	call := s.Transcript.Items[i]
	body := call.Body.(transcript.ToolCall)
	if s.calls[body.CallID] != c.call {
		return decision{}, fault.New(fault.Conflict, "call %s was answered already", c.call)
	}
	it := wholeItem(env, c.turn, c.result)
	it.StartedAt = call.StartedAt
	return decision{payloads: []Payload{ItemCompleted{Item: it, Call: &call}}}, nil
}
