package api

import (
	"encoding/json"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file maps what the journal says to what the wire says: each event to
// exactly one notification, so that seq has no holes on the wire either. The
// method is the event's type but for two cases, which methodOf names. Items are
// mapped in wire_items.go, answers in wire_views.go.

// Methods that are no event types: the text of open items and the state of a
// stream, which the journal does not hold, and the items that codex clients
// would not understand.
const (
	methodItemHidden     = "item/hidden"
	methodMessageDelta   = "item/agentMessage/delta"
	methodReasoningDelta = "item/reasoning/summaryTextDelta"
	methodStreamLive     = "stream/live"
	methodStreamReset    = "stream/reset"
)

// notification maps one journal event.
func (s *Server) notification(e events.Event) (protocol.Notification, error) {
	p, err := threads.Decode(e)
	if err != nil {
		return protocol.Notification{}, fault.Wrap(fault.Corrupt, err, "event %d of thread %s cannot be read", e.Seq, e.Thread)
	}
	method, params, err := s.paramsOf(e, p)
	if err != nil {
		return protocol.Notification{}, err
	}
	n, err := message(method, params, e.At)
	n.Seq = &e.Seq
	return n, err
}

// encodeEvent is the frame of an event: the same bytes on every door.
func (s *Server) encodeEvent(e events.Event) ([]byte, error) {
	n, err := s.notification(e)
	if err != nil {
		return nil, err
	}
	return encode(n)
}

// message is a notification that is not in the journal.
func message(method string, params any, at time.Time) (protocol.Notification, error) {
	b, err := encode(params)
	return protocol.Notification{Method: method, Params: b, EmittedAtMs: at.UnixMilli()}, err
}

// paramsOf is the mapping. It has a case for every payload
// (TestEveryEventTypeHasItsNotification).
func (s *Server) paramsOf(e events.Event, p threads.Payload) (method string, params any, err error) {
	thread := e.Thread
	switch p := p.(type) {
	case threads.ItemStarted:
		method, params = itemStarted(e, p.Item)
		return method, params, nil
	case threads.ItemCompleted:
		method, params = itemCompleted(e, p)
		return method, params, nil
	case threads.RequestCreated:
		r, err := wireRequest(thread, p.Request)
		return e.Type, protocol.ServerRequestCreatedParams{ThreadID: thread, Request: r}, err
	case threads.RequestResolved:
		return e.Type, protocol.ServerRequestResolvedParams{
			ThreadID: thread, RequestID: string(p.RequestID), Outcome: string(p.Outcome), By: nullable(p.By),
		}, nil
	}
	return e.Type, s.plainParams(e, p), nil
}

// plainParams is the mapping of what is told under the name of its event.
func (s *Server) plainParams(e events.Event, p threads.Payload) any {
	thread := e.Thread
	switch p := p.(type) {
	case threads.ThreadStarted:
		return protocol.ThreadStartedParams{Thread: s.wireThread(threads.Thread{
			ID: transcript.ThreadID(thread), Settings: p.Settings, Name: p.Name, Status: threads.StatusIdle,
			Origin: p.Origin, Git: p.Git,
			CreatedAt: transcript.FromMillis(p.CreatedAt), UpdatedAt: e.At, Imported: p.Imported,
			Occupancy: threads.Occupancy{Source: transcript.Ruler},
		})}
	case threads.NameUpdated:
		return protocol.ThreadNameUpdatedParams{ThreadID: thread, ThreadName: p.Name}
	case threads.ThreadArchived:
		return protocol.ThreadArchivedParams{ThreadID: thread}
	case threads.ThreadUnarchived:
		return protocol.ThreadUnarchivedParams{ThreadID: thread}
	case threads.SettingsUpdated:
		return protocol.ThreadSettingsUpdatedParams{ThreadID: thread, ThreadSettings: wireSettings(p.Settings)}
	case threads.MetadataUpdated:
		return protocol.ThreadMetadataUpdatedParams{ThreadID: thread, GitInfo: wireGit(p.Git)}
	case threads.ThreadReverted:
		return protocol.ThreadRevertedParams{ThreadID: thread, BeforeTurnID: string(p.BeforeTurn)}
	case threads.ThreadDeleted:
		return protocol.ThreadDeletedParams{ThreadID: thread}
	case threads.StatusChanged:
		return protocol.ThreadStatusChangedParams{ThreadID: thread, Status: wireStatus(p.Status, p.Flags)}
	case threads.QueueChanged:
		return protocol.ThreadQueueChangedParams{ThreadID: thread, Queue: mapped(p.Queue, wireQueued)}
	case threads.TurnStarted:
		return protocol.TurnStartedParams{ThreadID: thread, Turn: wireTurn(p.Turn)}
	case threads.TurnCompleted:
		return protocol.TurnCompletedParams{ThreadID: thread, Turn: wireTurn(p.Turn)}
	case threads.PlanUpdated:
		return protocol.PlanUpdatedParams{ThreadID: thread, TurnID: string(p.TurnID), Plan: mapped(p.Plan.Steps, wireStep)}
	case threads.UsageUpdated:
		return wireUsage(thread, p)
	case threads.ErrorRaised:
		return protocol.ErrorParams{ThreadID: thread, TurnID: string(p.TurnID), Error: wireTurnError(p.Error), WillRetry: p.WillRetry}
	case threads.WarningRaised:
		return protocol.WarningParams{ThreadID: &thread, Message: p.Message}
	case threads.CompactionUndone:
		return CompactionUndoneParams{ThreadID: thread, CompactionID: string(p.CompactionID), Epoch: epochOf(p.Boundary)}
	case threads.SessionUpdated:
		return SessionUpdatedParams{ThreadID: thread, Provider: p.Provider, NativeID: p.NativeID, Previous: nullable(p.Previous), Reason: string(p.Reason)}
	case threads.PinsChanged:
		return PinsChangedParams{ThreadID: thread, Pins: mapped(p.Pins, wirePin)}
	case threads.CompactionUpdated:
		rec := p.Record
		rec.ThreadID = transcript.ThreadID(thread)
		return CompactionUpdatedParams{ThreadID: thread, Compaction: rec}
	}
	panic("api: no notification for " + e.Type)
}

// itemStarted announces an open item. A call is open until its result is there.
func itemStarted(e events.Event, it transcript.Item) (string, any) {
	item, ok := wireItem(it, nil)
	if !ok {
		return methodItemHidden, hidden(e, it)
	}
	return threads.ItemStarted{}.EventType(), protocol.ItemStartedParams{
		ThreadID: e.Thread, TurnID: string(it.Turn), Item: item, StartedAtMs: orElse(it.StartedAt, e.At),
	}
}

// itemCompleted announces a whole item. A result completes its call's item. A
// call that is journaled whole is nevertheless open, since its result is not
// there yet: it is announced as started.
func itemCompleted(e events.Event, p threads.ItemCompleted) (string, any) {
	var item protocol.ThreadItem
	ok := true
	switch body := p.Item.Body.(type) {
	case transcript.ToolCall:
		return itemStarted(e, p.Item)
	case transcript.ToolResult:
		item = wireResult(p.Item, body, p.Call)
	default:
		item, ok = wireItem(p.Item, nil)
	}
	if !ok {
		return methodItemHidden, hidden(e, p.Item)
	}
	return threads.ItemCompleted{}.EventType(), protocol.ItemCompletedParams{
		ThreadID: e.Thread, TurnID: string(p.Item.Turn), Item: item, CompletedAtMs: orElse(p.Item.CompletedAt, e.At),
	}
}

func hidden(e events.Event, it transcript.Item) protocol.ItemHiddenParams {
	p := protocol.ItemHiddenParams{ThreadID: e.Thread, TurnID: string(it.Turn), ItemID: string(it.ID), Kind: string(it.Body.Kind())}
	if b, ok := it.Body.(transcript.Opaque); ok {
		p.Origin = b.Origin
	}
	return p
}

// An openItem is an item that grows, as its opening event announced it.
type openItem struct {
	event     *events.Event
	turn      transcript.TurnID
	reasoning bool
}

func openedBy(e *events.Event) (openItem, error) {
	p, err := threads.Decode(*e)
	if err != nil {
		return openItem{}, fault.Wrap(fault.Corrupt, err, "event %d of thread %s cannot be read", e.Seq, e.Thread)
	}
	started, ok := p.(threads.ItemStarted)
	if !ok {
		return openItem{}, fault.New(fault.Corrupt, "event %d of thread %s opens no item", e.Seq, e.Thread)
	}
	return openItem{e, started.Item.Turn, started.Item.Body.Kind() == transcript.KindReasoning}, nil
}

// more maps more text of an item. What its opening event says is decoded once, and
// not for each piece.
func (o *openItem) more(d events.Delta) (protocol.Notification, error) {
	if o.event != d.Opened {
		open, err := openedBy(d.Opened)
		if err != nil {
			return protocol.Notification{}, err
		}
		*o = open
	}
	return o.delta(d)
}

// delta maps more text of the item.
func (o openItem) delta(d events.Delta) (protocol.Notification, error) {
	thread, turn, now := o.event.Thread, string(o.turn), time.Now()
	if o.reasoning {
		return message(methodReasoningDelta, protocol.ReasoningSummaryTextDeltaParams{
			ThreadID: thread, TurnID: turn, ItemID: d.Item, Delta: d.Text, Offset: d.Offset,
		}, now)
	}
	return message(methodMessageDelta, protocol.AgentMessageDeltaParams{
		ThreadID: thread, TurnID: turn, ItemID: d.Item, Delta: d.Text, Offset: d.Offset,
	}, now)
}

func wireQueued(q threads.QueuedTurn) protocol.QueuedSubmission {
	return protocol.QueuedSubmission{ID: string(q.TurnID), Input: mapped(q.Input, wirePart), ClientUserMessageID: q.ClientID, QueuedAtMs: q.QueuedAt}
}

func wireStep(p transcript.PlanStep) protocol.PlanStep {
	return protocol.PlanStep{Step: p.Step, Status: p.Status}
}

// wireUsage tells the tokens in codex's way: the total of the last request is the
// size of the context.
func wireUsage(thread string, p threads.UsageUpdated) protocol.TokenUsageUpdatedParams {
	u := protocol.TokenUsage{Total: wireCounts(p.Total), Last: wireCounts(p.Last), ModelContextWindow: positive(p.Window)}
	u.Last.TotalTokens = p.Context
	return protocol.TokenUsageUpdatedParams{ThreadID: thread, TurnID: string(p.TurnID), TokenUsage: u, Source: p.Source}
}

func wireCounts(u adapters.Usage) protocol.TokenCounts {
	return protocol.TokenCounts{
		TotalTokens: u.InputTokens + u.OutputTokens, InputTokens: u.InputTokens, CachedInputTokens: u.CachedInputTokens,
		CacheWriteInputTokens: u.CacheWriteInputTokens, OutputTokens: u.OutputTokens, ReasoningOutputTokens: u.ReasoningOutputTokens,
	}
}

// codexErrors gives the classes of errors that codex has a word for; every other
// one is other.
var codexErrors = map[string]string{
	"contextWindowExceeded": "contextWindowExceeded",
	"budgetExhausted":       "sessionBudgetExceeded",
	"rateLimited":           "rateLimitExceeded",
	"usageLimit":            "usageLimitExceeded",
	"unauthorized":          "unauthorized",
	"modelNotFound":         "modelNotFound",

	string(fault.Invalid):    "badRequest",
	string(fault.Overloaded): "serverOverloaded",
	string(fault.Internal):   "internalServerError",
}

func wireTurnError(e transcript.TurnError) protocol.TurnError {
	info, ok := codexErrors[e.Code]
	if !ok {
		info = "other"
	}
	return protocol.TurnError{Message: e.Message, CodexErrorInfo: &info, Code: e.Code}
}

// orElse is t in unix milliseconds, or fallback's if the source did not say.
func orElse(t, fallback time.Time) int64 {
	if t.IsZero() {
		return fallback.UnixMilli()
	}
	return t.UnixMilli()
}

// rawJSON is a value that is certainly JSON: what a provider gave as arguments
// may not be, and is then sent as a text.
func rawJSON(raw transcript.RawJSON) json.RawMessage {
	if len(raw) == 0 || json.Valid(raw) {
		return raw
	}
	b, err := encode(string(raw))
	if err != nil { // a string always encodes
		panic(err)
	}
	return b
}
