package api

import (
	"encoding/json"

	"github.com/plimsoll-dev/plimsoll/api/protocol"
)

// ThreadOverrides is what a new thread runs with; what is left out gets a
// default, or stays as it is.
type ThreadOverrides struct {
	// ModelProvider is the name of a configured provider; default: the first one.
	ModelProvider string `json:"modelProvider,omitempty" max:"200"`
	// Model is what the provider shall run; default: its first one.
	Model string `json:"model,omitempty" max:"200"`
	// Cwd is the working directory, an absolute path.
	Cwd string `json:"cwd,omitempty" max:"4096"`
	// ApprovalPolicy says when the agent has to ask.
	ApprovalPolicy string `json:"approvalPolicy,omitempty" enum:"untrusted,on-request,never"`
	// Sandbox says what commands may touch.
	Sandbox string `json:"sandbox,omitempty" enum:"read-only,workspace-write,danger-full-access"`
	// Permissions is codex's other word for sandbox.
	Permissions string `json:"permissions,omitempty" in:"rpc" enum:":read-only,:workspace,:danger-full-access"`
}

// ThreadStartParams describes a new thread; what is left out gets a default.
type ThreadStartParams struct {
	ThreadOverrides
	// Name is the thread's title.
	Name string `json:"name,omitempty" max:"200"`
	// Ephemeral threads are kept in memory, until the last JSON-RPC connection that
	// used them ends; one that only REST uses, until it is deleted.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// ThreadSource is the client's classification of the thread, such as user.
	ThreadSource string `json:"threadSource,omitempty" max:"200"`
	// DynamicTools are tools that the clients of the thread run when they are called.
	DynamicTools []DynamicToolSpec `json:"dynamicTools,omitempty" max:"256"`
	// ClientRequestID makes the request idempotent: the same id with the same
	// parameters gets the same answer, with others a conflict.
	ClientRequestID string `json:"clientRequestId,omitempty" in:"header:Idempotency-Key" max:"200"`
}

// DynamicToolSpec declares a tool, or a namespace of tools.
type DynamicToolSpec struct {
	Type string `json:"type" enum:"function,namespace"`
	Name string `json:"name" min:"1" max:"200"`
	// Description is for the model.
	Description string `json:"description" max:"20000"`
	// InputSchema is a JSON Schema of the arguments; a function needs it.
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	// DeferLoading is codex's; accepted and not used.
	DeferLoading bool `json:"deferLoading,omitempty"`
	// Tools are those of a namespace.
	Tools []DynamicToolFunction `json:"tools,omitempty" max:"256"`
}

// DynamicToolFunction declares a tool of a namespace.
type DynamicToolFunction struct {
	Type string `json:"type" enum:"function"`
	Name string `json:"name" min:"1" max:"200"`
	// Description is for the model.
	Description string `json:"description" max:"20000"`
	// InputSchema is a JSON Schema of the arguments.
	InputSchema json.RawMessage `json:"inputSchema"`
	// DeferLoading is codex's; accepted and not used.
	DeferLoading bool `json:"deferLoading,omitempty"`
}

// ThreadRuns is what a thread runs with.
type ThreadRuns struct {
	Model             string                 `json:"model"`
	ModelProvider     string                 `json:"modelProvider"`
	Cwd               string                 `json:"cwd"`
	ApprovalPolicy    string                 `json:"approvalPolicy"`
	ApprovalsReviewer string                 `json:"approvalsReviewer" enum:"user"`
	Sandbox           protocol.SandboxPolicy `json:"sandbox"`
	// ActivePermissionProfile is codex's other word for sandbox.
	ActivePermissionProfile PermissionProfileRef `json:"activePermissionProfile"`
	ReasoningEffort         *string              `json:"reasoningEffort"`
	// RuntimeWorkspaceRoots is the working directory.
	RuntimeWorkspaceRoots []string `json:"runtimeWorkspaceRoots"`
	// The members below are codex's and always the same here.
	ServiceTier        *string  `json:"serviceTier"`
	DisabledPluginIDs  []string `json:"disabledPluginIds"`
	InstructionSources []string `json:"instructionSources"`
	MultiAgentMode     string   `json:"multiAgentMode" enum:"explicitRequestOnly"`
}

// PermissionProfileRef names a permission profile.
type PermissionProfileRef struct {
	ID string `json:"id" enum:":read-only,:workspace,:danger-full-access"`
	// Extends is codex's; always null here.
	Extends *string `json:"extends"`
}

// ThreadStartResult is a new thread and what it runs with.
type ThreadStartResult struct {
	Thread protocol.Thread `json:"thread"`
	ThreadRuns
	// AsOf is the cursor to follow the thread from: nothing is missed, nothing is
	// seen twice.
	AsOf string `json:"asOf"`
}

// ThreadResumeParams names a thread to take part in.
type ThreadResumeParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	ThreadOverrides
	// ExcludeTurns leaves thread.turns empty.
	ExcludeTurns bool `json:"excludeTurns,omitempty"`
	// InitialTurnsPage asks for a page of turns with the answer.
	InitialTurnsPage *InitialTurnsPage `json:"initialTurnsPage,omitempty"`
}

// InitialTurnsPage selects the turns that come with the answer.
type InitialTurnsPage struct {
	// Limit is the most turns to return; default 100.
	Limit int `json:"limit,omitempty" min:"1" max:"1000"`
	// SortDirection is desc, newest first, by default.
	SortDirection string `json:"sortDirection,omitempty" enum:"asc,desc"`
	// ItemsView says how much of the items is there; default: summary.
	ItemsView string `json:"itemsView,omitempty" enum:"notLoaded,summary,full"`
}

// ThreadResumeResult is a thread, what it runs with and what it does right now.
type ThreadResumeResult struct {
	Thread protocol.Thread `json:"thread"`
	ThreadRuns
	CollaborationMode protocol.CollaborationMode `json:"collaborationMode"`
	// InitialTurnsPage is null unless it was asked for.
	InitialTurnsPage *TurnListResult `json:"initialTurnsPage"`
	TimelineEnds
	// AsOf is the cursor that the connection follows the thread from.
	AsOf string `json:"asOf"`

	joins joining
}

// TimelineEnds are where a timeline ends right now: cursors to list backwards
// from, with sortDirection desc.
type TimelineEnds struct {
	// TurnsBackwardsCursor is null if there are no turns.
	TurnsBackwardsCursor *string `json:"turnsBackwardsCursor"`
	// ItemsBackwardsCursor is null if there are no items.
	ItemsBackwardsCursor *string `json:"itemsBackwardsCursor"`
}

// ThreadForkParams says what a new thread takes over from another one: all turns
// that have ended, unless it says otherwise.
type ThreadForkParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	// LastTurnID is the last turn to take; it must have ended.
	LastTurnID string `json:"lastTurnId,omitempty" id:"turn"`
	// BeforeTurnID is the first turn to leave; not together with lastTurnId.
	BeforeTurnID string `json:"beforeTurnId,omitempty" id:"turn"`
	ThreadOverrides
	// ThreadSource is the client's classification of the fork.
	ThreadSource string `json:"threadSource,omitempty" max:"200"`
	// Ephemeral is codex's; a fork is always kept here, so true is refused.
	Ephemeral bool `json:"ephemeral,omitempty" in:"rpc"`
	// ExcludeTurns leaves thread.turns empty.
	ExcludeTurns bool `json:"excludeTurns,omitempty"`
	// ClientRequestID makes the request idempotent.
	ClientRequestID string `json:"clientRequestId,omitempty" in:"header:Idempotency-Key" max:"200"`
}

// ThreadListParams selects a page of threads, newest change first.
type ThreadListParams struct {
	PageParams
	// Archived selects those that are archived, and only those.
	Archived bool `json:"archived,omitempty"`
	// SortKey is updated_at by default; on JSON-RPC, as in codex, created_at.
	SortKey string `json:"sortKey,omitempty" enum:"created_at,updated_at,recency_at,section_position" rpc:"created_at"`
	// SortDirection is desc, newest first, by default.
	SortDirection string `json:"sortDirection,omitempty" enum:"asc,desc"`
	// Unused says whether threads are listed in which nobody has said anything: show
	// by default; on JSON-RPC, as in codex, hide. Not in codex.
	Unused string `json:"unused,omitempty" enum:"show,hide" rpc:"hide"`
	// SearchTerm is looked for in name and preview, without regard to case.
	SearchTerm string `json:"searchTerm,omitempty" max:"1000"`
	// Cwd selects threads with this working directory; on JSON-RPC also a list.
	Cwd Texts `json:"cwd,omitempty" max:"100"`
	// ModelProviders selects threads of this provider; on JSON-RPC a list.
	ModelProviders Texts `json:"modelProviders,omitempty" max:"100"`
	// SourceKinds is codex's. All threads here are of vscode, codex's word for an
	// app-server's; a list without it selects none.
	SourceKinds []string `json:"sourceKinds,omitempty" in:"rpc" max:"100" enum:"cli,vscode,exec,appServer,subAgent,subAgentReview,subAgentCompact,subAgentThreadSpawn,subAgentOther,unknown"`
	// IncludedThreadIDs selects from these only; an empty list selects none.
	IncludedThreadIDs *[]string `json:"includedThreadIds,omitempty" in:"rpc" max:"100" id:"thread"`
	// ExcludedThreadIDs leaves these out.
	ExcludedThreadIDs []string `json:"excludedThreadIds,omitempty" in:"rpc" max:"100" id:"thread"`
	// The members below select what no thread here has, so nothing.
	SectionID          *string `json:"sectionId,omitempty" in:"rpc"`
	ProjectID          *string `json:"projectId,omitempty" in:"rpc"`
	ParentThreadID     *string `json:"parentThreadId,omitempty" in:"rpc"`
	AncestorThreadID   *string `json:"ancestorThreadId,omitempty" in:"rpc"`
	AttachedToThreadID *string `json:"attachedToThreadId,omitempty" in:"rpc"`
	// Originators is refused, as by codex's own server.
	Originators []string `json:"originators,omitempty" in:"rpc"`
}

// Texts is one text or, on JSON-RPC, a list of them.
type Texts []string

// ThreadReadParams names a thread.
type ThreadReadParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	// IncludeTurns fills thread.turns with all turns and their items. What would
	// not fit into an answer is left out of the oldest turns, whose itemsView then
	// is notLoaded.
	IncludeTurns bool `json:"includeTurns,omitempty"`
}

// ThreadReadResult is a thread as of a cursor.
type ThreadReadResult struct {
	Thread protocol.Thread `json:"thread"`
	// ReadState is codex's; always null here.
	ReadState *Empty `json:"readState"`
	// AsOf is the cursor to follow the thread from.
	AsOf string `json:"asOf"`
}

// ThreadResult is a thread after a change.
type ThreadResult struct {
	Thread protocol.Thread `json:"thread"`
	// AsOf is the cursor to follow the thread from.
	AsOf string `json:"asOf"`
}

// ThreadLoadedResult names the threads that are in memory.
type ThreadLoadedResult struct {
	Data []string `json:"data"`
	NextPage
}

// ThreadNameParams names a thread.
type ThreadNameParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	// Name is the title; not blank.
	Name string `json:"name" max:"200"`
}

// ThreadRevertParams says which turns to take out of a thread.
type ThreadRevertParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	// BeforeTurnID is the first turn to take out; all that follow go with it.
	BeforeTurnID string `json:"beforeTurnId" id:"turn"`
}

// ThreadRevertResult is the thread without them.
type ThreadRevertResult struct {
	Thread protocol.Thread `json:"thread"`
	TimelineEnds
	// AsOf is the cursor to follow the thread from.
	AsOf string `json:"asOf"`
}

// InjectItemsParams adds to what the model sees.
type InjectItemsParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	// Items are raw items of the Responses API.
	Items []json.RawMessage `json:"items" max:"1000"`
}

// SettingsOverrides change what a thread runs with, from its next request on;
// what is left out stays as it is.
type SettingsOverrides struct {
	Model string `json:"model,omitempty" max:"200"`
	// Cwd is the working directory, an absolute path.
	Cwd string `json:"cwd,omitempty" max:"4096"`
	// ApprovalPolicy says when the agent has to ask.
	ApprovalPolicy string `json:"approvalPolicy,omitempty" enum:"untrusted,on-request,never"`
	// SandboxPolicy says what commands may touch.
	SandboxPolicy *SandboxChoice `json:"sandboxPolicy,omitempty"`
	// Effort is the reasoning effort, in the provider's words.
	Effort string `json:"effort,omitempty" max:"100"`
	// Permissions is codex's other word for sandboxPolicy.
	Permissions string `json:"permissions,omitempty" in:"rpc" enum:":read-only,:workspace,:danger-full-access"`
	// CollaborationMode wins over model and effort.
	CollaborationMode *CollaborationChoice `json:"collaborationMode,omitempty" in:"rpc"`
}

// SandboxChoice is a sandbox policy. The details of codex's are not read.
type SandboxChoice struct {
	Type string `json:"type" enum:"dangerFullAccess,readOnly,workspaceWrite"`
}

// CollaborationChoice is how the agent shall work with the user.
type CollaborationChoice struct {
	Mode     string                `json:"mode" enum:"default,plan"`
	Settings CollaborationSettings `json:"settings"`
}

// CollaborationSettings is what a mode runs with.
type CollaborationSettings struct {
	Model           string `json:"model,omitempty" max:"200"`
	ReasoningEffort string `json:"reasoning_effort,omitempty" max:"100"`
}

// SettingsUpdateParams changes the settings of a thread.
type SettingsUpdateParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	// ModelProvider is the name of a configured provider. Not in codex.
	ModelProvider string `json:"modelProvider,omitempty" max:"200"`
	SettingsOverrides
}

// SettingsUpdateResult is what the thread runs with now.
type SettingsUpdateResult struct {
	ThreadSettings protocol.ThreadSettings `json:"threadSettings"`
}

// MetadataUpdateParams changes what is known about a thread.
type MetadataUpdateParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	// GitInfo is what the client knows about the repository.
	GitInfo *GitPatch `json:"gitInfo,omitempty"`
}

// GitPatch changes what is known about the repository: a member that is left out
// stays, null clears it.
type GitPatch struct {
	SHA       *string `json:"sha,omitempty" max:"1000" nullable:"true"`
	Branch    *string `json:"branch,omitempty" max:"1000" nullable:"true"`
	OriginURL *string `json:"originUrl,omitempty" max:"1000" nullable:"true"`
}
