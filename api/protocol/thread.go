package protocol

// Thread is a conversation with one provider, without its turns.
type Thread struct {
	// ID names the thread: a UUID in lower-case text form.
	ID string `json:"id"`
	// SessionID is the id of the thread itself, as codex says it also of forks.
	SessionID string `json:"sessionId"`
	// ForkedFromID is the thread this one was forked from.
	ForkedFromID *string `json:"forkedFromId"`
	// ParentThreadID is the thread whose agent started this one.
	ParentThreadID *string `json:"parentThreadId"`
	// Preview is the first text of the user on one line, at most 120 code points.
	Preview string `json:"preview"`
	// Ephemeral threads are kept in memory, and only as long as somebody uses them.
	Ephemeral bool `json:"ephemeral"`
	// ProjectID is codex's project; always null here.
	ProjectID *string `json:"projectId"`
	// HistoryMode says that turns and items are read in pages.
	HistoryMode string `json:"historyMode" enum:"paginated"`
	// ModelProvider is the name of the configured provider.
	ModelProvider string `json:"modelProvider"`
	// Model is what the provider runs.
	Model *string `json:"model"`
	// CreatedAt is in unix seconds.
	CreatedAt int64 `json:"createdAt"`
	// UpdatedAt is in unix seconds.
	UpdatedAt int64 `json:"updatedAt"`
	// RecencyAt orders lists; unix seconds, the same as updatedAt.
	RecencyAt *int64 `json:"recencyAt"`
	// Status is what the thread does right now.
	Status ThreadStatus `json:"status"`
	// Path is codex's file of the thread; always null here, the journal is a database.
	Path *string `json:"path"`
	// Cwd is the working directory.
	Cwd string `json:"cwd"`
	// CLIVersion is the version of this server.
	CLIVersion string `json:"cliVersion"`
	// Originator is the client that created the thread, if known.
	Originator *string `json:"originator"`
	// Source says how the thread came to be, in codex's word for threads of an
	// app-server: its clients list these.
	Source string `json:"source" enum:"vscode"`
	// CanAcceptDirectInput says that turn/start may be sent.
	CanAcceptDirectInput *bool `json:"canAcceptDirectInput"`
	// AgentNickname belongs to codex's sub-agents; always null here.
	AgentNickname *string `json:"agentNickname"`
	// AgentRole belongs to codex's sub-agents; always null here.
	AgentRole *string `json:"agentRole"`
	// GitInfo is what a client said about the repository.
	GitInfo *GitInfo `json:"gitInfo"`
	// ThreadSource is the classification that the client gave the thread.
	ThreadSource *string `json:"threadSource"`
	// ReasoningEffort is in the provider's words; null if it is its default.
	ReasoningEffort *string `json:"reasoningEffort"`
	// Name is the title that the user gave.
	Name *string `json:"name"`
	// Turns is empty unless it was asked for, and in notifications always.
	Turns []Turn `json:"turns"`
	// Plimsoll is what codex does not know about a thread.
	Plimsoll ThreadExtension `json:"plimsoll"`
}

// ThreadExtension is what codex does not know about a thread.
type ThreadExtension struct {
	// Epoch is the number of the current context window; +1 per boundary.
	Epoch int `json:"epoch"`
	// Turns counts the turns of the timeline.
	Turns int `json:"turns"`
	// Items counts the items of the transcript.
	Items int `json:"items"`
	// Queued counts the inputs that wait for their turn.
	Queued int `json:"queued"`
	// Occupancy says how full the context is.
	Occupancy Occupancy `json:"occupancy"`
	// Imported says where the history came from; null for a thread made here.
	Imported *Imported `json:"imported"`
	// Archived threads are listed only if asked for, and take no input.
	Archived bool `json:"archived"`
	// NativeSession is the id of the thread's session at a provider that keeps its own
	// history; null if it has none.
	NativeSession *string `json:"nativeSession"`
	// Damaged says why the thread cannot be read; null for a healthy one.
	Damaged *string `json:"damaged"`
}

// Occupancy says how full a context is, in tokens.
type Occupancy struct {
	// Context is the size of the full next request, as far as known.
	Context int `json:"context"`
	// Base is the part of it that no compaction can shrink.
	Base int `json:"base"`
	// Window is the context window; null if unknown.
	Window *int `json:"window"`
	// Source says who counted: provider, estimate, or the name of a ruler. It is
	// unknown, and Context 0, from a provider's own compaction until it counts again.
	Source string `json:"source"`
}

// Imported says where the history of a thread came from.
type Imported struct {
	// Source is the program that wrote the file.
	Source string `json:"source"`
	// SourceID is that program's own id of the session.
	SourceID string `json:"sourceId"`
	// Hash is the lower-case hex SHA-256 of the imported bytes.
	Hash string `json:"hash"`
	// Warnings counts what could not be read as meant.
	Warnings int `json:"warnings"`
}

// ThreadStatus is what a thread does right now.
type ThreadStatus struct {
	Type string `json:"type" enum:"notLoaded,idle,active,systemError"`
	// ActiveFlags says what an active thread waits for; only present if active.
	ActiveFlags *[]string `json:"activeFlags,omitempty"`
}

// Turn groups the items that one input caused.
type Turn struct {
	// ID is unique within the thread.
	ID string `json:"id"`
	// RootTurnID is the turn's own id.
	RootTurnID *string `json:"rootTurnId"`
	// Items is empty unless itemsView says otherwise.
	Items []ThreadItem `json:"items"`
	// ItemsView says how much of the items is there.
	ItemsView string `json:"itemsView" enum:"notLoaded,summary,full"`
	// Status is how far the turn got.
	Status string `json:"status" enum:"inProgress,completed,interrupted,failed"`
	// Error says why a turn failed.
	Error *TurnError `json:"error"`
	// StartedAt is in unix seconds; null while the turn is queued.
	StartedAt *int64 `json:"startedAt"`
	// CompletedAt is in unix seconds; null while the turn is open.
	CompletedAt *int64 `json:"completedAt"`
	// DurationMs is in milliseconds; null while the turn is open.
	DurationMs *int64 `json:"durationMs"`
	// Kind says what the turn is for. Not in codex.
	Kind string `json:"kind" enum:"user,compact"`
	// Queued says that the turn was accepted and waits. Not in codex, where its
	// status is inProgress with startedAt null.
	Queued bool `json:"queued"`
}

// TurnError says why a turn failed.
type TurnError struct {
	Message string `json:"message"`
	// CodexErrorInfo is the class of the error in codex's words.
	CodexErrorInfo *string `json:"codexErrorInfo"`
	// AdditionalDetails is the cause behind a retry.
	AdditionalDetails *string `json:"additionalDetails"`
	// Code is the class of the error in this server's words. Not in codex.
	Code string `json:"code"`
}

// SandboxPolicy is what commands of a thread may touch.
type SandboxPolicy struct {
	Type string `json:"type" enum:"readOnly,workspaceWrite,dangerFullAccess"`
	// WritableRoots is only present for workspaceWrite.
	WritableRoots *[]string `json:"writableRoots,omitempty"`
	// NetworkAccess is absent for dangerFullAccess.
	NetworkAccess *bool `json:"networkAccess,omitempty"`
	// ExcludeTmpdirEnvVar is only present for workspaceWrite.
	ExcludeTmpdirEnvVar *bool `json:"excludeTmpdirEnvVar,omitempty"`
	// ExcludeSlashTmp is only present for workspaceWrite.
	ExcludeSlashTmp *bool `json:"excludeSlashTmp,omitempty"`
}
