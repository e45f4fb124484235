package api

import (
	"context"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// sourceTitle is codex's threadSource of threads that only find a title for
// another one, and providerTitle who runs them.
const (
	sourceTitle   = "thread_title"
	providerTitle = "title"
)

// threadStart creates a thread.
func (s *Server) threadStart(ctx context.Context, p *ThreadStartParams) (*ThreadStartResult, error) {
	create, err := p.create(ctx)
	if err != nil {
		return nil, err
	}
	svc := s.svc
	if p.Ephemeral {
		if svc = s.ephemeral; svc == nil {
			return nil, invalid("ephemeral threads are not served here; leave ephemeral out")
		}
		if p.ThreadSource == sourceTitle && hasProvider(ctx, svc, providerTitle) {
			create.Settings.Provider, create.Settings.Model = providerTitle, ""
		}
	}
	r, err := svc.CreateThread(ctx, create)
	if err != nil {
		return nil, err
	}
	if p.Ephemeral {
		s.passing.Store(r.Thread.ID, p.ThreadSource)
	}
	return &ThreadStartResult{Thread: s.wireThread(r.Thread), ThreadRuns: wireRuns(r.Thread.Settings), AsOf: r.AsOf.String()}, nil
}

func hasProvider(ctx context.Context, svc *threads.Service, name string) bool {
	return slices.ContainsFunc(svc.Providers(ctx), func(p threads.ProviderInfo) bool { return p.Name == name })
}

// create is the thread that the parameters describe.
func (p *ThreadStartParams) create(ctx context.Context) (threads.CreateParams, error) {
	sandbox, err := sandboxOf(p.Sandbox, p.Permissions)
	if err != nil {
		return threads.CreateParams{}, err
	}
	tools, err := declared(p.DynamicTools)
	return threads.CreateParams{
		Settings: threads.Settings{
			Provider: p.ModelProvider, Model: listed(p.Model), Cwd: p.Cwd, ApprovalPolicy: p.ApprovalPolicy, Sandbox: sandbox,
		},
		Name: p.Name, Origin: threads.Origin{Client: clientOf(ctx), Source: p.ThreadSource}, Tools: tools,
		IdempotencyKey: p.ClientRequestID,
	}, err
}

// sandboxOf is the sandbox that either of two words for it names.
func sandboxOf(sandbox, permissions string) (string, error) {
	switch {
	case permissions == "":
		return sandbox, nil
	case sandbox != "":
		return "", invalid("`permissions` cannot be combined with `sandbox`; leave one out")
	}
	for mode, profile := range profiles {
		if profile == permissions {
			return mode, nil
		}
	}
	return "", invalid("there is no permission profile %q", clip(permissions))
}

// profiles are the permission profiles of codex that are sandboxes here.
var profiles = map[string]string{
	"read-only": ":read-only", "workspace-write": ":workspace", "danger-full-access": ":danger-full-access",
}

// declared flattens what a client declared into tools with their namespaces.
func declared(specs []DynamicToolSpec) ([]threads.DynamicTool, error) {
	var tools []threads.DynamicTool
	for i, spec := range specs {
		switch {
		case spec.Type == "function" && spec.InputSchema == nil:
			return nil, invalid("dynamicTools[%d] is a function: `inputSchema` is missing", i)
		case spec.Type == "function":
			tools = append(tools, threads.DynamicTool{Name: spec.Name, Description: spec.Description, Schema: spec.InputSchema})
		}
		for _, f := range spec.Tools {
			tools = append(tools, threads.DynamicTool{Namespace: spec.Name, Name: f.Name, Description: f.Description, Schema: f.InputSchema})
		}
	}
	return tools, nil
}

// joined implements joiner: who made a thread sees it from its first event on. Who
// made it before, and asks again with the same clientRequestId, takes part in it.
func (r *ThreadStartResult) joined() joining {
	j := joining{thread: transcript.ThreadID(r.Thread.ID)}
	if r.Thread.Plimsoll.Turns > 0 {
		if at, err := events.ParseCursor(r.AsOf); err == nil {
			j.after = &at
		}
	}
	return j
}

// joined implements joiner: who resumes a thread sees what comes after the answer.
func (r *ThreadResumeResult) joined() joining { return r.joins }

// threadResume takes part in a thread: what happens in it comes over this
// connection from now on, and requests that wait for an answer come again.
func (s *Server) threadResume(ctx context.Context, p *ThreadResumeParams) (*ThreadResumeResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	patch, err := p.patch()
	if err != nil {
		return nil, err
	}
	if patch != (threads.SettingsPatch{}) {
		if _, err := s.service(id).UpdateSettings(ctx, id, patch); err != nil {
			return nil, err
		}
	}
	j, page, err := s.joinFor(ctx, p)
	if err != nil {
		return nil, err
	}
	settings := wireSettings(j.Thread.Settings)
	return &ThreadResumeResult{
		Thread: s.wireWhole(j), InitialTurnsPage: page, ThreadRuns: wireRuns(j.Thread.Settings), CollaborationMode: settings.CollaborationMode,
		TimelineEnds: TimelineEnds{nullable(j.TurnsCursor), nullable(j.ItemsCursor)}, AsOf: j.AsOf.String(),
		joins: joining{thread: id, after: &j.AsOf, usage: j.Usage, requests: j.Requests},
	}, nil
}

// joinFor joins a thread with the turns that the parameters ask for: one moment.
func (s *Server) joinFor(ctx context.Context, p *ThreadResumeParams) (j threads.Joined, page *TurnListResult, err error) {
	id := transcript.ThreadID(p.ThreadID)
	q := threads.JoinQuery{}
	if !p.ExcludeTurns {
		q.Bytes = s.caps.PageBytes
	}
	first := p.InitialTurnsPage
	if first == nil {
		j, err = s.service(id).JoinWith(ctx, id, q)
		return j, nil, err
	}
	data, next, back, err := pageOf(s, PageParams{Limit: first.Limit}.query(first.SortDirection != "asc"), func(pq threads.PageQuery) ([]protocol.Turn, string, string, error) {
		q.Page = &threads.TurnQuery{PageQuery: pq, View: threads.ItemsView(orSummary(first.ItemsView))}
		if j, err = s.service(id).JoinWith(ctx, id, q); err != nil {
			return nil, "", "", err
		}
		return mapped(j.Page.Turns, wireTurnView), j.Page.Next, j.Page.Back, nil
	})
	return j, &TurnListResult{data, next, back}, err
}

func orSummary(view string) string {
	if view == "" {
		return string(threads.ItemsSummary)
	}
	return view
}

// patch is what the parameters change of a thread's settings.
func (p *ThreadOverrides) patch() (threads.SettingsPatch, error) {
	sandbox, err := sandboxOf(p.Sandbox, p.Permissions)
	return threads.SettingsPatch{
		Provider: nullable(p.ModelProvider), Model: nullable(listed(p.Model)), Cwd: nullable(p.Cwd),
		ApprovalPolicy: nullable(p.ApprovalPolicy), Sandbox: nullable(sandbox),
	}, err
}

// threadFork makes a thread of the beginning of another one. Turns and items keep
// their ids.
func (s *Server) threadFork(ctx context.Context, p *ThreadForkParams) (*ThreadStartResult, error) {
	if p.Ephemeral {
		return nil, invalid("a fork is always kept here; leave ephemeral out")
	}
	patch, err := p.patch()
	if err != nil {
		return nil, err
	}
	id := transcript.ThreadID(p.ThreadID)
	r, err := s.service(id).Fork(ctx, threads.ForkParams{
		Thread: id, LastTurn: transcript.TurnID(p.LastTurnID), BeforeTurn: transcript.TurnID(p.BeforeTurnID), Settings: patch,
		Origin: threads.Origin{Client: clientOf(ctx), Source: p.ThreadSource}, IdempotencyKey: p.ClientRequestID,
	})
	if err != nil {
		return nil, err
	}
	if source, ok := s.passing.Load(id); ok {
		s.passing.Store(r.Thread.ID, source)
	}
	if p.ExcludeTurns {
		return &ThreadStartResult{Thread: s.wireThread(r.Thread), ThreadRuns: wireRuns(r.Thread.Settings), AsOf: r.AsOf.String()}, nil
	}
	j, err := s.service(r.Thread.ID).JoinWith(ctx, r.Thread.ID, threads.JoinQuery{Bytes: s.caps.PageBytes})
	if err != nil {
		return nil, err
	}
	return &ThreadStartResult{Thread: s.wireWhole(j), ThreadRuns: wireRuns(j.Thread.Settings), AsOf: j.AsOf.String()}, nil
}

// threadList lists threads, newest change first.
func (s *Server) threadList(ctx context.Context, p *ThreadListParams) (*ThreadListResult, error) {
	if len(p.Originators) > 0 {
		return nil, invalid("field `originators` is not served; leave it out")
	}
	if p.selectsNothing() {
		return &ThreadListResult{Data: []protocol.Thread{}}, nil
	}
	query := threads.ThreadQuery{
		ByCreation: p.SortKey == "created_at", Ascending: p.SortDirection == "asc", Archived: p.Archived, Begun: p.Unused == "hide",
		Providers: p.ModelProviders, Cwds: p.Cwd, Search: p.SearchTerm, Except: mapped(p.ExcludedThreadIDs, threadID),
	}
	if p.IncludedThreadIDs != nil {
		query.Only = mapped(*p.IncludedThreadIDs, threadID)
	}
	data, next, back, err := pageOf(s, p.query(true), func(q threads.PageQuery) ([]protocol.Thread, string, string, error) {
		query.PageQuery = q
		page, err := s.svc.FindThreads(ctx, query)
		return mapped(page.Threads, s.wireThread), page.Next, page.Back, err
	})
	return &ThreadListResult{Data: data, NextPage: next, BackPage: back}, err
}

func threadID(id string) transcript.ThreadID { return transcript.ThreadID(id) }

// selectsNothing reports whether the parameters ask for threads of a kind that
// there is none of: in a section, of a project, below or beside another thread.
func (p *ThreadListParams) selectsNothing() bool {
	for _, id := range []*string{p.SectionID, p.ProjectID, p.ParentThreadID, p.AncestorThreadID, p.AttachedToThreadID} {
		if id != nil {
			return true
		}
	}
	return len(p.SourceKinds) > 0 && !slices.Contains(p.SourceKinds, "vscode") && !slices.Contains(p.SourceKinds, "appServer")
}

// threadRead reads a thread, and the cursor to follow it from.
func (s *Server) threadRead(ctx context.Context, p *ThreadReadParams) (*ThreadReadResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	if !p.IncludeTurns {
		r, err := s.service(id).ReadThread(ctx, id)
		if err != nil {
			return nil, err
		}
		return &ThreadReadResult{Thread: s.wireThread(r.Thread), AsOf: r.AsOf.String()}, nil
	}
	j, err := s.service(id).JoinWith(ctx, id, threads.JoinQuery{Bytes: s.caps.PageBytes})
	if err != nil {
		return nil, err
	}
	return &ThreadReadResult{Thread: s.wireWhole(j), AsOf: j.AsOf.String()}, nil
}

// wireWhole maps a thread with the turns that it was joined with. What does not fit
// into an answer is left out of the oldest ones, which say so in their itemsView.
func (s *Server) wireWhole(j threads.Joined) protocol.Thread {
	t, left := s.wireThread(j.Thread), s.caps.PageBytes
	t.Turns = mapped(j.Turns, wireTurnView)
	for i := range slices.Backward(t.Turns) {
		turn := &t.Turns[i]
		for k := range turn.Items {
			left -= weighItem(&turn.Items[k])
		}
		if left < 0 {
			turn.Items, turn.ItemsView = []protocol.ThreadItem{}, string(threads.ItemsNone)
		}
	}
	return t
}

// threadLoaded lists the threads that are in memory.
func (s *Server) threadLoaded(ctx context.Context, p *ListParams) (*ThreadLoadedResult, error) {
	ids := s.svc.Loaded()
	if s.ephemeral != nil {
		ids = append(ids, s.ephemeral.Loaded()...)
	}
	slices.Sort(ids)
	if p.Cursor != "" {
		at, found := slices.BinarySearch(ids, transcript.ThreadID(p.Cursor))
		if ids = ids[at:]; found {
			ids = ids[1:]
		}
	}
	r := &ThreadLoadedResult{}
	if p.Limit > 0 && len(ids) > p.Limit {
		ids = ids[:p.Limit]
		r.NextCursor = new(string(ids[len(ids)-1]))
	}
	r.Data = mapped(ids, func(id transcript.ThreadID) string { return string(id) })
	return r, nil
}

// threadDelete stops what a thread does and deletes it with all its events. Only
// the fact of the deletion remains.
func (s *Server) threadDelete(ctx context.Context, p *ThreadParams) (*Empty, error) {
	id := transcript.ThreadID(p.ThreadID)
	if err := s.service(id).DeleteThread(ctx, id); err != nil {
		return nil, err
	}
	s.passing.Delete(id)
	s.crowd.vanish(id)
	return &Empty{}, nil
}

// threadName gives a thread a title.
func (s *Server) threadName(ctx context.Context, p *ThreadNameParams) (*Empty, error) {
	if strings.TrimSpace(p.Name) == "" {
		return nil, invalid("thread name must not be empty") // codex's text (codex 0.171, observed)
	}
	id := transcript.ThreadID(p.ThreadID)
	return &Empty{}, s.service(id).SetName(ctx, id, p.Name)
}

// threadArchive puts a thread that is idle away: it is listed only if asked for,
// and takes no input.
func (s *Server) threadArchive(ctx context.Context, p *ThreadParams) (*Empty, error) {
	id := transcript.ThreadID(p.ThreadID)
	return &Empty{}, s.service(id).Archive(ctx, id)
}

// threadUnarchive brings a thread back.
func (s *Server) threadUnarchive(ctx context.Context, p *ThreadParams) (*ThreadResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	r, err := s.service(id).Unarchive(ctx, id)
	if err != nil {
		return nil, err
	}
	return &ThreadResult{Thread: s.wireThread(r.Thread), AsOf: r.AsOf.String()}, nil
}

// threadRevert takes a turn and all that follow it out of a thread that is idle.
// Nothing leaves the journal.
func (s *Server) threadRevert(ctx context.Context, p *ThreadRevertParams) (*ThreadRevertResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	if _, err := s.service(id).Revert(ctx, id, transcript.TurnID(p.BeforeTurnID)); err != nil {
		return nil, err
	}
	j, err := s.service(id).Join(ctx, id)
	if err != nil {
		return nil, err
	}
	return &ThreadRevertResult{
		Thread: s.wireThread(j.Thread), TimelineEnds: TimelineEnds{nullable(j.TurnsCursor), nullable(j.ItemsCursor)}, AsOf: j.AsOf.String(),
	}, nil
}

// threadInject adds raw items of the Responses API to what the model of an idle
// thread sees. No client is shown them.
func (s *Server) threadInject(ctx context.Context, p *InjectItemsParams) (*Empty, error) {
	id := transcript.ThreadID(p.ThreadID)
	return &Empty{}, s.service(id).InjectItems(ctx, id, p.Items)
}

// threadMetadata changes what is known about a thread.
func (s *Server) threadMetadata(ctx context.Context, p *MetadataUpdateParams) (*ThreadResult, error) {
	if p.GitInfo == nil {
		return nil, invalid("thread metadata update must include at least one field: gitInfo") // codex's text
	}
	if *p.GitInfo == (GitPatch{}) {
		return nil, invalid("gitInfo must include at least one field")
	}
	id := transcript.ThreadID(p.ThreadID)
	r, err := s.service(id).UpdateMetadata(ctx, id, threads.MetadataPatch{SHA: p.GitInfo.SHA, Branch: p.GitInfo.Branch, OriginURL: p.GitInfo.OriginURL})
	if err != nil {
		return nil, err
	}
	return &ThreadResult{Thread: s.wireThread(r.Thread), AsOf: r.AsOf.String()}, nil
}

// threadSettings changes what a thread runs with, from its next request on.
func (s *Server) threadSettings(ctx context.Context, p *SettingsUpdateParams) (*SettingsUpdateResult, error) {
	patch, err := p.patch()
	if err != nil {
		return nil, err
	}
	patch.Provider = nullable(p.ModelProvider)
	id := transcript.ThreadID(p.ThreadID)
	set, err := s.service(id).UpdateSettings(ctx, id, patch)
	if err != nil {
		return nil, err
	}
	return &SettingsUpdateResult{wireSettings(set)}, nil
}

// sandboxModes are the sandboxes by the types of codex's policies.
var sandboxModes = map[string]string{
	"dangerFullAccess": "danger-full-access", "readOnly": "read-only", "workspaceWrite": "workspace-write",
}

// patch is what the parameters change of a thread's settings.
func (o *SettingsOverrides) patch() (threads.SettingsPatch, error) {
	sandbox := ""
	if o.SandboxPolicy != nil {
		sandbox = sandboxModes[o.SandboxPolicy.Type]
	}
	sandbox, err := sandboxOf(sandbox, o.Permissions)
	p := threads.SettingsPatch{
		Model: nullable(listed(o.Model)), Cwd: nullable(o.Cwd), ApprovalPolicy: nullable(o.ApprovalPolicy),
		Sandbox: nullable(sandbox), Effort: nullable(o.Effort),
	}
	if m := o.CollaborationMode; m != nil {
		p.Mode = &m.Mode
		if model := listed(m.Settings.Model); model != "" {
			p.Model = &model
		}
		if m.Settings.ReasoningEffort != "" {
			p.Effort = &m.Settings.ReasoningEffort
		}
	}
	return p, err
}
