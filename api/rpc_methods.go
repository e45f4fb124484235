package api

import (
	"context"
	"slices"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// connectionMethods are about the connection itself, and so only on JSON-RPC.
var connectionMethods = []method{
	only("initialize", (*Server).initialize),
	only("thread/unsubscribe", (*Server).unsubscribe),
	only("thread/subscribe", (*Server).subscribe).subscribing().ours(),
}

// ownMethods are those that are not codex's. It is set by init, as methods refers
// to the handler that lists them.
var ownMethods []string

func init() {
	for _, m := range methods {
		if m.own && m.call != nil {
			ownMethods = append(ownMethods, m.name)
		}
	}
	slices.Sort(ownMethods)
}

// ownNotifications are those that codex does not have.
var ownNotifications = []string{
	"item/hidden", "serverRequest/created", methodStreamLive, methodStreamReset,
	"thread/compaction/updated", "thread/compaction/undone", "thread/pins/changed", "thread/session/updated", "thread/metadata/updated",
}

// InitializeParams introduces a client.
type InitializeParams struct {
	ClientInfo   ClientInfo          `json:"clientInfo"`
	Capabilities *ClientCapabilities `json:"capabilities,omitempty"`
}

// ClientInfo is how a client calls itself.
type ClientInfo struct {
	// Name is shown to other clients, and must be a valid value of an HTTP header.
	Name    string `json:"name" max:"1000"`
	Title   string `json:"title,omitempty" max:"1000"`
	Version string `json:"version" max:"1000"`
}

// ClientCapabilities is what a client can do and wants. Those of codex that are
// not here are ignored.
type ClientCapabilities struct {
	// ExperimentalAPI lets the client use what codex calls experimental.
	ExperimentalAPI bool `json:"experimentalApi,omitempty"`
	// OptOutNotificationMethods are notifications that the client does not want.
	OptOutNotificationMethods []string `json:"optOutNotificationMethods,omitempty" max:"1000"`
	// Plimsoll is not in codex.
	Plimsoll *PlimsollCapabilities `json:"plimsoll,omitempty"`
}

// PlimsollCapabilities is what a client wants that knows this server.
type PlimsollCapabilities struct {
	// RefusalAsError has thread/compact/start wait for the end of the compaction,
	// and answer with an error if it was refused. Without it the error is in the
	// notifications only: as an answer it would end the codex TUI.
	RefusalAsError bool `json:"refusalAsError,omitempty"`
}

// InitializeResult introduces this server.
type InitializeResult struct {
	UserAgent string `json:"userAgent"`
	// CodexHome is the folder of this server's files.
	CodexHome      string         `json:"codexHome"`
	PlatformFamily string         `json:"platformFamily" enum:"unix,windows"`
	PlatformOs     string         `json:"platformOs"`
	Plimsoll       PlimsollServer `json:"plimsoll"`
}

// PlimsollServer is what this server has beyond codex.
type PlimsollServer struct {
	Version       string   `json:"version"`
	Methods       []string `json:"methods"`
	Notifications []string `json:"notifications"`
}

// UnsubscribeResult says what there was to end.
type UnsubscribeResult struct {
	Status string `json:"status" enum:"unsubscribed,notSubscribed,notLoaded"`
}

// SubscribeParams says what to follow and from where.
type SubscribeParams struct {
	ThreadID string `json:"threadId" id:"thread"`
	// After is the cursor to follow from; default: the beginning.
	After string `json:"after,omitempty" max:"100"`
}

// SubscribeResult acknowledges a subscription.
type SubscribeResult struct {
	// AsOf is the cursor of the newest event there is.
	AsOf string `json:"asOf"`

	joins joining
}

func (r *SubscribeResult) joined() joining { return r.joins }

// initialize introduces client and server to each other. It comes first, and once.
func (s *Server) initialize(ctx context.Context, p *InitializeParams) (*InitializeResult, error) {
	if err := peerOf(ctx).greet(p); err != nil {
		return nil, err
	}
	return &InitializeResult{
		UserAgent: s.userAgent(), CodexHome: s.home, PlatformFamily: platformFamily, PlatformOs: platformOs,
		Plimsoll: PlimsollServer{Version: s.version, Methods: ownMethods, Notifications: ownNotifications},
	}, nil
}

// unsubscribe ends what thread/start, thread/resume, thread/fork or
// thread/subscribe began: when the answer comes, nothing of the thread follows. The
// thread goes on.
func (s *Server) unsubscribe(ctx context.Context, p *ThreadParams) (*UnsubscribeResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	switch {
	case peerOf(ctx).leave(id):
		return &UnsubscribeResult{"unsubscribed"}, nil
	case slices.Contains(s.service(id).Loaded(), id):
		return &UnsubscribeResult{"notSubscribed"}, nil
	}
	return &UnsubscribeResult{"notLoaded"}, nil
}

// subscribe follows a thread from a cursor: what happened since, stream/live once,
// and then what happens. It takes the place of a subscription that there is. A
// cursor that cannot be served gets stream/reset, which ends the subscription.
func (s *Server) subscribe(ctx context.Context, p *SubscribeParams) (*SubscribeResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	after, err := cursorOf("field `after`", p.After)
	if err != nil {
		return nil, err
	}
	j, err := s.service(id).Join(ctx, id)
	if err != nil {
		return nil, err
	}
	peerOf(ctx).replace(id)
	return &SubscribeResult{AsOf: j.AsOf.String(), joins: joining{thread: id, after: after, earlier: j.Requests}}, nil
}

// forkStart is where a connection begins to follow a thread that was forked: at its
// newest event, which tells its usage. What was copied is not told again, but that
// the thread was started.
func (s *Server) forkStart(ctx context.Context, j joining, asOf string) (joining, []events.Event, error) {
	end, err := events.ParseCursor(asOf)
	if err != nil {
		return j, nil, fault.Wrap(fault.Internal, err, "the cursor of the fork")
	}
	if end.N <= 2 {
		return j, nil, nil
	}
	first, _, err := s.service(j.thread).ReadEvents(ctx, j.thread, nil, 1)
	if err != nil {
		return j, nil, err
	}
	j.after = &events.Cursor{Journal: end.Journal, N: end.N - 1}
	return j, first, nil
}
