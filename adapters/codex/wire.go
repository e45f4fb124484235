package codex

import (
	"encoding/json"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// A notice is what notifications say: one shape for all of them, of which each fills
// some fields.
type notice struct {
	Turn     *turnView   `json:"turn"`
	TurnID   string      `json:"turnId"`
	ItemID   string      `json:"itemId"`
	Item     *itemView   `json:"item"`
	Delta    string      `json:"delta"`
	Index    int         `json:"summaryIndex"`
	Usage    *tokenUsage `json:"tokenUsage"`
	Error    *turnError  `json:"error"`
	Retry    bool        `json:"willRetry"`
	Message  string      `json:"message"`
	Plan     []planStep  `json:"plan"`
	Run      *hookRun    `json:"run"`
	Request  json.Number `json:"requestId"`
	ThreadID string      `json:"threadId"`
}

// turn is the id of the turn that a notice is about.
func (n *notice) turn() string {
	if n.Turn != nil {
		return n.Turn.ID
	}
	return n.TurnID
}

type turnView struct {
	ID        string            `json:"id"`
	Status    string            `json:"status"`
	Error     *turnError        `json:"error"`
	Items     []json.RawMessage `json:"items"`
	StartedAt *int64            `json:"startedAt"` // seconds
}

type planStep struct {
	Step   string `json:"step"`
	Status string `json:"status"`
}

type hookRun struct {
	Event   string `json:"eventName"`
	Status  string `json:"status"`
	Entries []struct {
		Kind string `json:"kind"`
		Text string `json:"text"`
	} `json:"entries"`
}

type tokenUsage struct {
	Total  counts `json:"total"`
	Last   counts `json:"last"`
	Window int    `json:"modelContextWindow"`
}

type counts struct {
	Total      int `json:"totalTokens"`
	Input      int `json:"inputTokens"`
	Cached     int `json:"cachedInputTokens"`
	CacheWrite int `json:"cacheWriteInputTokens"`
	Output     int `json:"outputTokens"`
	Reasoning  int `json:"reasoningOutputTokens"`
}

func (c counts) usage() adapters.Usage {
	return adapters.Usage{
		InputTokens: c.Input, CachedInputTokens: c.Cached, CacheWriteInputTokens: c.CacheWrite,
		OutputTokens: c.Output, ReasoningOutputTokens: c.Reasoning,
	}
}

// An itemView is an item of codex, of any type.
type itemView struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Text      string          `json:"text"`
	Summary   []string        `json:"summary"`
	Content   json.RawMessage `json:"content"` // of a reasoning texts, of a message parts
	Command   string          `json:"command"`
	Cwd       string          `json:"cwd"`
	Status    string          `json:"status"`
	Output    *string         `json:"aggregatedOutput"`
	ExitCode  *int            `json:"exitCode"`
	Changes   []fileChange    `json:"changes"`
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Result    *mcpResult      `json:"result"`
	Failure   *mcpError       `json:"error"`
	Contents  []contentItem   `json:"contentItems"`
	Success   *bool           `json:"success"`
	Done      *int64          `json:"completedAtMs"`

	raw json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler: the item as it came is kept beside.
func (v *itemView) UnmarshalJSON(b []byte) error {
	type plain itemView
	if err := json.Unmarshal(b, (*plain)(v)); err != nil {
		return err
	}
	v.raw = append(json.RawMessage(nil), b...)
	return nil
}

type fileChange struct {
	Path string `json:"path"`
	Kind struct {
		Type string `json:"type"`
	} `json:"kind"`
	Diff string `json:"diff"`
}

type mcpResult struct {
	Content []json.RawMessage `json:"content"`
}

type mcpError struct {
	Message string `json:"message"`
}

type contentItem struct {
	Type string `json:"type"`
	Text string `json:"text"`
}
