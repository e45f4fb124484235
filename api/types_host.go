package api

// ListParams selects a page of a list that is short.
type ListParams struct {
	PageParams
}

// ThreadPageParams selects a page of a list of a thread.
type ThreadPageParams struct {
	ThreadID string `json:"threadId" in:"path" id:"thread"`
	PageParams
}

// AccountResult says that this server has no accounts: what its providers need is
// in its configuration.
type AccountResult struct {
	Account            *Empty  `json:"account"`
	UserID             *string `json:"userId"`
	RequiresOpenAIAuth bool    `json:"requiresOpenaiAuth"`
	WorkspaceRouting   *Empty  `json:"workspaceRouting"`
}

// ModelListParams selects models.
type ModelListParams struct {
	PageParams
	// ModelProvider selects the models of one provider; default: of all, the
	// default one first.
	ModelProvider string `json:"modelProvider,omitempty" max:"200"`
}

// ModelListResult is a page of models.
type ModelListResult struct {
	Data []CodexModel `json:"data"`
	NextPage
}

// CodexModel is a model in codex's words.
type CodexModel struct {
	ID          string `json:"id"`
	Model       string `json:"model"`
	DisplayName string `json:"displayName"`
	Description string `json:"description"`
	IsDefault   bool   `json:"isDefault"`
	// ModelProvider is the provider that has it. Not in codex.
	ModelProvider string `json:"modelProvider"`
	// The members below are codex's and always the same here.
	Hidden                    bool           `json:"hidden"`
	SupportedReasoningEfforts []EffortOption `json:"supportedReasoningEfforts"`
	DefaultReasoningEffort    string         `json:"defaultReasoningEffort"`
	InputModalities           []string       `json:"inputModalities"`
	SupportsPersonality       bool           `json:"supportsPersonality"`
	AdditionalSpeedTiers      []string       `json:"additionalSpeedTiers"`
	ServiceTiers              []Empty        `json:"serviceTiers"`
	Upgrade                   *string        `json:"upgrade"`
	UpgradeInfo               *Empty         `json:"upgradeInfo"`
	AvailabilityNux           *Empty         `json:"availabilityNux"`
}

// EffortOption is a reasoning effort.
type EffortOption struct {
	ReasoningEffort string `json:"reasoningEffort"`
	Description     string `json:"description"`
}

// ConfigResult is the configuration in codex's words: what threads get that ask
// for nothing.
type ConfigResult struct {
	Config ConfigValues `json:"config"`
	// Origins and layers are codex's; the configuration of this server is its own.
	Origins map[string]Empty `json:"origins"`
	Layers  *[]Empty         `json:"layers"`
}

// ConfigValues are the defaults of threads.
type ConfigValues struct {
	Model              *string `json:"model"`
	ModelProvider      string  `json:"model_provider"`
	ModelContextWindow *int    `json:"model_context_window"`
	ApprovalPolicy     string  `json:"approval_policy"`
	SandboxMode        string  `json:"sandbox_mode"`
}

// RequirementsResult says that nobody restricts the configuration.
type RequirementsResult struct {
	Requirements                  *Empty `json:"requirements"`
	SupportsIndependentSpeedModes bool   `json:"supportsIndependentSpeedModes"`
}

// EmptyList is a list of what this server does not have.
type EmptyList struct {
	Data []Empty `json:"data"`
	NextPage
}

// CollaborationModesResult lists how an agent can work with the user.
type CollaborationModesResult struct {
	Data []CollaborationMask `json:"data"`
}

// CollaborationMask is a way to work with the user.
type CollaborationMask struct {
	Name            string  `json:"name"`
	Mode            string  `json:"mode" enum:"default,plan"`
	Model           *string `json:"model"`
	ReasoningEffort *string `json:"reasoning_effort"`
}

// PluginsResult says that there are no plugins.
type PluginsResult struct {
	Marketplaces          []Empty  `json:"marketplaces"`
	MarketplaceLoadErrors []Empty  `json:"marketplaceLoadErrors"`
	FeaturedPluginIDs     []string `json:"featuredPluginIds"`
}

// AppsResult says that there are no apps.
type AppsResult struct {
	Apps []Empty `json:"apps"`
}

// ProfilesResult lists what commands may be allowed to touch.
type ProfilesResult struct {
	Data []PermissionProfile `json:"data"`
	NextPage
}

// PermissionProfile is codex's word for a sandbox.
type PermissionProfile struct {
	ID          string  `json:"id"`
	Description *string `json:"description"`
	Allowed     bool    `json:"allowed"`
}

// GoalResult says that the thread has no goal.
type GoalResult struct {
	Goal *Empty `json:"goal"`
}

// GovCloudResult says that there is nothing to warn of.
type GovCloudResult struct {
	IsGovCloud bool `json:"isGovCloud"`
	ShouldWarn bool `json:"shouldWarn"`
}
