package protocol

// ThreadNameUpdatedParams: the thread has another name, or none.
type ThreadNameUpdatedParams struct {
	ThreadID   string `json:"threadId"`
	ThreadName string `json:"threadName,omitempty"`
}

// ThreadArchivedParams: the thread was put away.
type ThreadArchivedParams struct {
	ThreadID string `json:"threadId"`
}

// ThreadUnarchivedParams: the thread was brought back.
type ThreadUnarchivedParams struct {
	ThreadID string `json:"threadId"`
}

// ThreadRevertedParams: turns were taken out of the thread.
type ThreadRevertedParams struct {
	ThreadID string `json:"threadId"`
	// BeforeTurnID is the first of them. Not in codex.
	BeforeTurnID string `json:"beforeTurnId"`
}

// ThreadMetadataUpdatedParams: what clients said about the thread. Not in codex.
type ThreadMetadataUpdatedParams struct {
	ThreadID string   `json:"threadId"`
	GitInfo  *GitInfo `json:"gitInfo"`
}

// GitInfo is what a client said about the repository of a thread.
type GitInfo struct {
	SHA       *string `json:"sha"`
	Branch    *string `json:"branch"`
	OriginURL *string `json:"originUrl"`
}

// ThreadSettingsUpdatedParams: the thread runs with other settings from now on.
type ThreadSettingsUpdatedParams struct {
	ThreadID       string         `json:"threadId"`
	ThreadSettings ThreadSettings `json:"threadSettings"`
}

// ThreadSettings is what a thread runs with.
type ThreadSettings struct {
	Cwd               string            `json:"cwd"`
	ApprovalPolicy    string            `json:"approvalPolicy" enum:"untrusted,on-request,never"`
	ApprovalsReviewer string            `json:"approvalsReviewer" enum:"user"`
	SandboxPolicy     SandboxPolicy     `json:"sandboxPolicy"`
	Model             string            `json:"model"`
	ModelProvider     string            `json:"modelProvider"`
	Effort            *string           `json:"effort"`
	CollaborationMode CollaborationMode `json:"collaborationMode"`
	// The members below are codex's and always the same here.
	DisabledPluginIDs       []string `json:"disabledPluginIds"`
	Environments            *string  `json:"environments"`
	ActivePermissionProfile *string  `json:"activePermissionProfile"`
	ServiceTier             *string  `json:"serviceTier"`
	Summary                 *string  `json:"summary"`
	MultiAgentMode          string   `json:"multiAgentMode" enum:"explicitRequestOnly"`
	Personality             *string  `json:"personality"`
}

// CollaborationMode is how the agent works with the user.
type CollaborationMode struct {
	Mode     string                `json:"mode" enum:"default,plan"`
	Settings CollaborationSettings `json:"settings"`
}

// CollaborationSettings is what a mode runs with.
type CollaborationSettings struct {
	Model           string  `json:"model"`
	ReasoningEffort *string `json:"reasoning_effort"`
	// DeveloperInstructions is codex's; always null here.
	DeveloperInstructions *string `json:"developer_instructions"`
}
