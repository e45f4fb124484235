package api

import (
	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func (s *Server) wireThread(t threads.Thread) protocol.Thread {
	id := string(t.ID)
	return protocol.Thread{
		ID: id, SessionID: id, Preview: t.Preview, Ephemeral: s.service(t.ID) != s.svc, HistoryMode: "paginated",
		ModelProvider: t.Settings.Provider, Model: nullable(t.Settings.Model),
		CreatedAt: orZero(seconds(t.CreatedAt)), UpdatedAt: orZero(seconds(t.UpdatedAt)), RecencyAt: seconds(t.UpdatedAt),
		Status: wireStatus(t.Status, t.Flags), Cwd: t.Settings.Cwd, CLIVersion: s.version, Source: "vscode",
		CanAcceptDirectInput: new(t.Damaged == "" && !t.Archived),
		ForkedFromID:         nullable(string(t.Origin.ForkedFrom)), Originator: nullable(t.Origin.Client), ThreadSource: nullable(t.Origin.Source), GitInfo: wireGit(t.Git),
		ReasoningEffort: nullable(t.Settings.Effort),
		Name:            nullable(t.Name), Turns: []protocol.Turn{},
		Plimsoll: protocol.ThreadExtension{
			Epoch: t.Epoch, Turns: t.Turns, Items: t.Items, Queued: t.Queued,
			Occupancy:     protocol.Occupancy{Context: t.Occupancy.Context, Base: t.Occupancy.Base, Window: positive(t.Occupancy.Window), Source: t.Occupancy.Source},
			NativeSession: nullable(t.NativeSession),
			Imported:      wireImported(t.Imported), Damaged: nullable(t.Damaged), Archived: t.Archived,
		},
	}
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func wireImported(i *threads.Imported) *protocol.Imported {
	if i == nil {
		return nil
	}
	return &protocol.Imported{Source: i.Source, SourceID: i.SourceID, Hash: i.Hash, Warnings: i.Warnings}
}

func wireStatus(st threads.StatusType, flags []threads.StatusFlag) protocol.ThreadStatus {
	w := protocol.ThreadStatus{Type: string(st)}
	if st == threads.StatusActive {
		w.ActiveFlags = new(mapped(flags, func(f threads.StatusFlag) string { return string(f) }))
	}
	return w
}

// wireRuns tells what a thread runs with.
func wireRuns(set threads.Settings) ThreadRuns {
	return ThreadRuns{
		Model: set.Model, ModelProvider: set.Provider, Cwd: set.Cwd, ApprovalPolicy: set.ApprovalPolicy, ApprovalsReviewer: "user",
		Sandbox: wireSandbox(set.Sandbox), ActivePermissionProfile: PermissionProfileRef{ID: profiles[set.Sandbox]},
		ReasoningEffort: nullable(set.Effort), RuntimeWorkspaceRoots: []string{set.Cwd},
		DisabledPluginIDs: []string{}, InstructionSources: []string{}, MultiAgentMode: "explicitRequestOnly",
	}
}

func wireSandbox(mode string) protocol.SandboxPolicy {
	no := false
	switch mode {
	case "danger-full-access":
		return protocol.SandboxPolicy{Type: "dangerFullAccess"}
	case "workspace-write":
		return protocol.SandboxPolicy{Type: "workspaceWrite", WritableRoots: &[]string{}, NetworkAccess: &no, ExcludeTmpdirEnvVar: &no, ExcludeSlashTmp: &no}
	}
	return protocol.SandboxPolicy{Type: "readOnly", NetworkAccess: &no}
}

// wireTurn maps a turn without its items.
func wireTurn(t transcript.Turn) protocol.Turn {
	id := string(t.ID)
	w := protocol.Turn{
		ID: id, RootTurnID: &id, Items: []protocol.ThreadItem{}, ItemsView: "notLoaded", Status: string(t.Status),
		StartedAt: seconds(t.StartedAt), CompletedAt: seconds(t.CompletedAt), DurationMs: duration(t.StartedAt, t.CompletedAt), Kind: string(t.Kind),
	}
	if t.Status == transcript.TurnQueued {
		w.Status, w.Queued = string(transcript.TurnInProgress), true
	}
	if t.Error != nil {
		w.Error = new(wireTurnError(*t.Error))
	}
	return w
}

// wireTurnView maps a turn with the items that the view shows.
func wireTurnView(v threads.TurnView) protocol.Turn {
	w := wireTurn(v.Turn)
	w.ItemsView = string(v.View)
	for _, i := range v.Items {
		if item, shown := wireItem(i.Item, i.Result); shown {
			w.Items = append(w.Items, item)
		}
	}
	return w
}

func wireProvider(p threads.ProviderInfo) Provider {
	return Provider{Name: p.Name, Kind: p.Kind, IsDefault: p.Default, Models: mapped(p.Models, wireModel), Error: nullable(p.Error)}
}

func wireModel(m adapters.ModelInfo) Model {
	return Model{
		ID: m.ID, DisplayName: m.DisplayName, ContextWindow: positive(m.ContextWindow), WindowSource: nullable(m.WindowSource),
		MaxOutput: positive(m.MaxOutput), Price: (*Price)(m.Price),
	}
}

// wireContext maps a context without its entries.
func wireContext(c threads.ContextRead) *ContextReadResult {
	r := &ContextReadResult{
		Epoch: c.Epoch, CurrentEpoch: c.Epochs, Tokens: c.Tokens, Ruler: transcript.Ruler, Window: positive(c.Window), Reanchor: nullable(c.Reanchor),
		Base:    ContextBase{System: c.Base.System, Preamble: nullable(c.Preamble), Tools: mapped(c.Base.Tools, wireTool), Tokens: c.BaseTok},
		Entries: []ContextEntry{}, AsOf: c.AsOf.String(),
	}
	switch b := c.Boundary; {
	case b == nil:
	case b.Undoes != "":
		r.Undoes = new(string(b.Undoes))
	default:
		r.CompactionID = new(string(b.CompactionID))
	}
	return r
}

func wireTool(t adapters.ToolSpec) ContextTool {
	return ContextTool{Name: t.Name, Description: t.Description, Schema: rawJSON(t.Schema)}
}

// ContextEntryOf is an entry of a context as clients see it.
func ContextEntryOf(e transcript.Entry) ContextEntry {
	w := ContextEntry{
		ItemID: string(e.Item.ID), TurnID: string(e.Item.Turn), Kind: e.Item.Body.Kind(), Form: e.Form,
		Text: transcript.Text(e.Item.Body), Tokens: transcript.Tokens(e.Item.Body),
	}
	switch b := e.Item.Body.(type) {
	case transcript.ToolCall:
		w.CallID = new(string(b.CallID))
	case transcript.ToolResult:
		w.CallID = new(string(b.CallID))
	}
	return w
}

func wireImport(s *Server, r threads.ImportResult) *ImportResult {
	w := &ImportResult{
		Thread: s.wireThread(r.Thread), Source: r.Source, Items: map[string]int{}, Epochs: r.Epochs,
		Warnings: r.Warnings, Skipped: r.Skipped, AsOf: r.AsOf.String(),
	}
	for kind, n := range r.Items {
		w.Items[string(kind)] = n
	}
	if w.Warnings == nil {
		w.Warnings = []string{}
	}
	if w.Skipped == nil {
		w.Skipped = map[string]int{}
	}
	return w
}
