package api

import "slices"

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

// A Coverage says what this server does with a method of codex.
type Coverage struct {
	Method string
	// Status is served, empty or refused.
	Status string
	// Reason says why it is answered emptily or refused; for what is served, how it
	// differs, if it does.
	Reason string
	// Experimental methods need capabilities.experimentalApi.
	Experimental bool
}

// The statuses of a Coverage.
const (
	Served  = "served"
	Emptily = "empty"
	Refused = "refused"
)

// CodexVersion is the version of codex that Coverages describes.
const CodexVersion = "0.171.0"

// Coverages lists every method of codex, in the order of its schema.
func Coverages() []Coverage { return slices.Clone(coverages) }

func coverageOf(name string) (Coverage, bool) {
	i := slices.IndexFunc(coverages, func(c Coverage) bool { return c.Method == name })
	if i < 0 {
		return Coverage{}, false
	}
	return coverages[i], true
}

// ExperimentalMembers lists the members of a method's parameters that need
// capabilities.experimentalApi.
func ExperimentalMembers(method string) []string { return slices.Clone(experimentalFields[method]) }
