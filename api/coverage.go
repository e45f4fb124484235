package api

// experimentalFields are the members of parameters that codex keeps behind
// capabilities.experimentalApi, by method. Those that this server does not read
// are among them: they get codex's answer, not silence.
var experimentalFields = map[string][]string{
	"thread/start": {
		"allowProviderModelFallback", "daybreakEnabled", "dynamicTools", "environments", "experimentalRawEvents", "historyMode",
		"mockExperimentalField", "multiAgentMode", "permissions", "projectId", "runtimeWorkspaceRoots", "selectedCapabilityRoots",
	},
	"thread/resume": {"history", "initialTurnsPage", "path", "permissions", "runtimeWorkspaceRoots"},
	"thread/fork": {
		"attachToSource", "beforeTurnId", "deferGoalContinuation", "experimentalDisablePredictionMcp", "experimentalPredictionMode",
		"path", "permissions", "runtimeWorkspaceRoots",
	},
	"thread/metadata/update": {"daybreakEnabled", "projectId"},
	"thread/list":            {"ancestorThreadId", "attachedToThreadId", "includeAttachedThreads", "parentThreadId", "projectId"},
	"turn/start": {
		"additionalContext", "collaborationMode", "cyberAccessProgram", "environments", "multiAgentMode", "permissions",
		"responsesapiClientMetadata", "responsesapiClientMetadataPatch", "runtimeWorkspaceRoots",
	},
	"turn/steer": {"additionalContext", "responsesapiClientMetadata", "responsesapiClientMetadataPatch"},
}
