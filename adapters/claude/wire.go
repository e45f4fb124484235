package claude

import "encoding/json"

// A frame is one line of Claude Code, of any type: each fills some fields (2.1.332,
// observed).
type frame struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`

	RequestID string           `json:"request_id"`
	Request   *controlRequest  `json:"request"`
	Response  *controlResponse `json:"response"`

	Command string `json:"command_uuid"` // of a command_lifecycle
	State   string `json:"state"`

	Status        *string         `json:"status"`
	CompactResult string          `json:"compact_result"`
	CompactError  string          `json:"compact_error"`
	Metadata      json.RawMessage `json:"compact_metadata"`

	Attempt    int `json:"attempt"` // of an api_retry
	MaxRetries int `json:"max_retries"`

	Message    *message        `json:"message"`
	Parent     *string         `json:"parent_tool_use_id"`
	Error      json.RawMessage `json:"error"`
	Synthetic  bool            `json:"isSynthetic"`
	ToolResult json.RawMessage `json:"tool_use_result"`
	Event      *streamEvent    `json:"event"`

	IsError    bool                  `json:"is_error"` // from here on: of a result
	Result     json.RawMessage       `json:"result"`
	Errors     []string              `json:"errors"`
	Terminal   string                `json:"terminal_reason"`
	Stop       string                `json:"stop_reason"`
	APIStatus  *int                  `json:"api_error_status"`
	ModelUsage map[string]modelUsage `json:"modelUsage"`
	Messages   []string              `json:"user_message_uuids"`
}

// child reports whether a frame is of a sub-agent.
func (f *frame) child() bool { return f.Parent != nil && *f.Parent != "" }

type controlRequest struct {
	Subtype string `json:"subtype"`
	// Of can_use_tool.
	Tool        string          `json:"tool_name"`
	Input       json.RawMessage `json:"input"` // of a hook_callback: the event
	Description string          `json:"description"`
	ToolUseID   string          `json:"tool_use_id"`
	Interactive bool            `json:"requires_user_interaction"`
	Message     mcpMessage      `json:"message"` // of mcp_message
}

// A hookEvent is what a hook is told.
type hookEvent struct {
	Name    string `json:"hook_event_name"`
	Source  string `json:"source"`
	Trigger string `json:"trigger"`
	Agent   string `json:"agent_id"` // of a sub-agent, whose history is none of ours
}

func (r *controlRequest) event() hookEvent {
	var e hookEvent
	_ = json.Unmarshal(r.Input, &e) // what is not there is no event of ours
	return e
}

type controlResponse struct {
	Subtype   string          `json:"subtype"`
	RequestID string          `json:"request_id"`
	Response  json.RawMessage `json:"response"`
	Error     string          `json:"error"`
}

type message struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"` // a text, or blocks
	Usage   *usage          `json:"usage"`
}

// blocks are the content of a message.
func (m *message) blocks() []block {
	var list []block
	if json.Unmarshal(m.Content, &list) == nil {
		return list
	}
	return []block{{Type: "text", Text: stringIn(m.Content)}}
}

// stringIn is a JSON string; empty if it is another value.
func stringIn(b json.RawMessage) string {
	var s string
	_ = json.Unmarshal(b, &s)
	return s
}

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"` // a text, or blocks
	IsError   bool            `json:"is_error"`
}

type streamEvent struct {
	Type    string   `json:"type"`
	Index   int      `json:"index"`
	Message *message `json:"message"`
	Delta   struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Thinking string `json:"thinking"`
	} `json:"delta"`
	Usage *usage `json:"usage"`
}

type usage struct {
	Input      int `json:"input_tokens"`
	CacheRead  int `json:"cache_read_input_tokens"`
	CacheWrite int `json:"cache_creation_input_tokens"`
	Output     int `json:"output_tokens"`
}

type modelUsage struct {
	Input      int `json:"inputTokens"`
	CacheRead  int `json:"cacheReadInputTokens"`
	CacheWrite int `json:"cacheCreationInputTokens"`
	Output     int `json:"outputTokens"`
	Window     int `json:"contextWindow"`
}
