package api

import (
	"net/http"
	"reflect"
	"slices"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads"
)

// Operation describes a method and its REST twin to cmd/openapigen.
type Operation struct {
	Name     string // of the JSON-RPC method; the operationId
	Verb     string
	Path     string
	Statuses []int  // of answers that are no problem
	Handler  string // name of the Server method whose comment describes it
	Params   []Parameter
	BodyType reflect.Type // the struct that Body are fields of
	Body     []Parameter  // members of a JSON body; nil if it has none
	Result   reflect.Type
	Accepts  []string // media types of the body; empty if it has none
	Sends    []string // media types of the answer
}

// OwnMethods lists the methods of JSON-RPC that codex does not have, with all their
// parameters as members of a body.
func OwnMethods() []Operation {
	var own []Operation
	for _, m := range methods {
		if m.own && m.call != nil {
			op := Operation{Name: m.name, Handler: m.handler, Result: m.result}
			for _, f := range fieldsOf(m.params) {
				if f.header == "" {
					op.Body = append(op.Body, f.describe(m.params))
				}
			}
			own = append(own, op)
		}
	}
	return own
}

// Parameter describes one parameter.
type Parameter struct {
	Name      string
	In        string // path, query, header or body
	GoField   string
	GoType    reflect.Type // of the struct that declares it
	Type      reflect.Type
	Required  bool
	Min, Max  *int64
	Enum      []string
	IsID      bool
	HeaderKey string
}

// Operations lists what REST serves, in the order of the table.
func Operations() []Operation {
	var ops []Operation
	for _, m := range methods {
		if m.verb == "" {
			continue
		}
		op := Operation{
			Name: m.name, Verb: m.verb, Path: m.path, Statuses: append([]int{m.status}, m.also...), Handler: m.handler,
			Result: m.result, Accepts: m.accepts, Sends: m.sends,
		}
		for _, f := range fieldsOf(m.params) {
			p := f.describe(m.params)
			switch where := m.place(f); where {
			case inRPC:
			case inBody:
				op.Body = append(op.Body, p)
			case inBoth:
				op.Body = append(op.Body, p)
				p.In = string(inQuery)
				op.Params = append(op.Params, p)
			default:
				p.In = string(where)
				op.Params = append(op.Params, p)
			}
		}
		if m.verb == http.MethodPost && m.accepts == nil {
			op.Accepts, op.BodyType = []string{jsonType}, m.params
		}
		if m.sends == nil {
			op.Sends = []string{jsonType}
		}
		ops = append(ops, op)
	}
	return ops
}

func (f field) describe(t reflect.Type) Parameter {
	for _, i := range f.index[:len(f.index)-1] { // into embedded structs
		t = t.Field(i).Type
	}
	return Parameter{
		Name: f.name, In: string(inBody), GoField: t.Field(f.index[len(f.index)-1]).Name, GoType: t, Type: f.typ,
		Required: f.required, Min: f.min, Max: f.max, Enum: f.enum, IsID: f.id != "", HeaderKey: f.header,
	}
}

// NotificationType describes a notification to cmd/openapigen.
type NotificationType struct {
	Method  string
	Params  reflect.Type
	Durable bool // it is in the journal: it has a seq
}

// Notifications lists everything that a stream can say.
func Notifications() []NotificationType {
	return slices.Clone(notifications)
}

var notifications = []NotificationType{
	durably[protocol.ThreadStartedParams](threads.ThreadStarted{}),
	durably[protocol.ThreadNameUpdatedParams](threads.NameUpdated{}),
	durably[protocol.ThreadArchivedParams](threads.ThreadArchived{}),
	durably[protocol.ThreadUnarchivedParams](threads.ThreadUnarchived{}),
	durably[protocol.ThreadSettingsUpdatedParams](threads.SettingsUpdated{}),
	durably[protocol.ThreadMetadataUpdatedParams](threads.MetadataUpdated{}),
	durably[protocol.ThreadRevertedParams](threads.ThreadReverted{}),
	durably[protocol.ServerRequestCreatedParams](threads.RequestCreated{}),
	durably[protocol.ServerRequestResolvedParams](threads.RequestResolved{}),
	durably[protocol.ThreadDeletedParams](threads.ThreadDeleted{}),
	durably[protocol.ThreadStatusChangedParams](threads.StatusChanged{}),
	durably[protocol.ThreadQueueChangedParams](threads.QueueChanged{}),
	durably[protocol.TurnStartedParams](threads.TurnStarted{}),
	durably[protocol.TurnCompletedParams](threads.TurnCompleted{}),
	durably[protocol.ItemStartedParams](threads.ItemStarted{}),
	durably[protocol.ItemCompletedParams](threads.ItemCompleted{}),
	{methodItemHidden, reflect.TypeFor[protocol.ItemHiddenParams](), true},
	durably[protocol.PlanUpdatedParams](threads.PlanUpdated{}),
	durably[protocol.TokenUsageUpdatedParams](threads.UsageUpdated{}),
	durably[protocol.ErrorParams](threads.ErrorRaised{}),
	durably[protocol.WarningParams](threads.WarningRaised{}),
	durably[CompactionUpdatedParams](threads.CompactionUpdated{}),
	durably[CompactionUndoneParams](threads.CompactionUndone{}),
	durably[PinsChangedParams](threads.PinsChanged{}),
	durably[SessionUpdatedParams](threads.SessionUpdated{}),
	{methodMessageDelta, reflect.TypeFor[protocol.AgentMessageDeltaParams](), false},
	{methodReasoningDelta, reflect.TypeFor[protocol.ReasoningSummaryTextDeltaParams](), false},
	{methodStreamLive, reflect.TypeFor[protocol.StreamLiveParams](), false},
	{methodStreamReset, reflect.TypeFor[protocol.StreamResetParams](), false},
}

func durably[P any](p threads.Payload) NotificationType {
	return NotificationType{p.EventType(), reflect.TypeFor[P](), true}
}
