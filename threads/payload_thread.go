package threads

import "github.com/plimsoll-dev/plimsoll/threads/transcript"

// This file holds the payloads about a thread as a whole: what it is called,
// where it came from, how it may be used. What happens in it is in payload.go.

// Origin says who made a thread, and of what.
type Origin struct {
	ForkedFrom transcript.ThreadID `json:"forkedFrom,omitempty"`
	Client     string              `json:"client,omitempty"` // the client that made it, as it calls itself
	Source     string              `json:"source,omitempty"` // the client's classification, such as user or thread_title
}

// A DynamicTool is a tool that a client declared for a thread and runs when it is
// called (AskTool).
type DynamicTool struct {
	Namespace   string             `json:"namespace,omitempty"`
	Name        string             `json:"name"`
	Description string             `json:"description"`
	Schema      transcript.RawJSON `json:"schema"` // a JSON Schema object
}

// GitInfo is what a client says about the repository that a thread works in.
type GitInfo struct {
	SHA       string `json:"sha,omitempty"`
	Branch    string `json:"branch,omitempty"`
	OriginURL string `json:"originUrl,omitempty"`
}

// NameUpdated gives the thread a name; an empty one takes it away.
type NameUpdated struct {
	Name string `json:"name"`
}

// ThreadArchived puts the thread away: it is not listed unless asked for, and
// takes no input until it is unarchived.
type ThreadArchived struct{}

// ThreadUnarchived brings the thread back.
type ThreadUnarchived struct{}

// SettingsUpdated replaces the thread's settings, from the next request on.
type SettingsUpdated struct {
	Settings Settings `json:"settings"`
}

// MetadataUpdated replaces what clients said about the thread.
type MetadataUpdated struct {
	Git *GitInfo `json:"git"`
}

// ThreadReverted takes the turns from one on out of the thread, with the epochs
// that they opened. The events of before stay in the journal.
type ThreadReverted struct {
	BeforeTurn transcript.TurnID `json:"beforeTurnId"`
}

// EventType implements Payload.
func (NameUpdated) EventType() string { return "thread/name/updated" }

// EventType implements Payload.
func (ThreadArchived) EventType() string { return "thread/archived" }

// EventType implements Payload.
func (ThreadUnarchived) EventType() string { return "thread/unarchived" }

// EventType implements Payload.
func (SettingsUpdated) EventType() string { return "thread/settings/updated" }

// EventType implements Payload.
func (MetadataUpdated) EventType() string { return "thread/metadata/updated" }

// EventType implements Payload.
func (ThreadReverted) EventType() string { return "thread/reverted" }
