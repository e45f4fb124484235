package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// ThreadItem is one step of a conversation: one of the variants, told apart by
// the member type.
type ThreadItem struct {
	ItemVariant
}

// ItemVariant is the closed set of types in this file that end in Item.
type ItemVariant interface{ itemType() string }

// MarshalJSON implements json.Marshaler.
func (i ThreadItem) MarshalJSON() ([]byte, error) {
	if i.ItemVariant == nil {
		return nil, fmt.Errorf("protocol: thread item without a variant")
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // whether < > & are escaped is up to the outer encoder
	err := enc.Encode(i.ItemVariant)
	return buf.Bytes(), err
}

// UnmarshalJSON implements json.Unmarshaler.
func (i *ThreadItem) UnmarshalJSON(b []byte) error {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return err
	}
	decode, ok := itemDecoders[head.Type]
	if !ok {
		return fmt.Errorf("protocol: unknown item type %q", head.Type)
	}
	v, err := decode(b)
	i.ItemVariant = v
	return err
}

var itemDecoders = map[string]func([]byte) (ItemVariant, error){
	UserMessageItem{}.itemType():       decodeItem[UserMessageItem],
	AgentMessageItem{}.itemType():      decodeItem[AgentMessageItem],
	ReasoningItem{}.itemType():         decodeItem[ReasoningItem],
	DynamicToolCallItem{}.itemType():   decodeItem[DynamicToolCallItem],
	CommandExecutionItem{}.itemType():  decodeItem[CommandExecutionItem],
	FileChangeItem{}.itemType():        decodeItem[FileChangeItem],
	PlanItem{}.itemType():              decodeItem[PlanItem],
	ImageViewItem{}.itemType():         decodeItem[ImageViewItem],
	HookPromptItem{}.itemType():        decodeItem[HookPromptItem],
	ContextCompactionItem{}.itemType(): decodeItem[ContextCompactionItem],
}

// ItemVariants lists the variants in the order of their type.
func ItemVariants() []ItemVariant {
	var all []ItemVariant
	for _, name := range slices.Sorted(maps.Keys(itemDecoders)) {
		v, err := itemDecoders[name]([]byte("{}"))
		if err != nil { // an empty object decodes into every struct
			panic(err)
		}
		all = append(all, v)
	}
	return all
}

func decodeItem[V ItemVariant](b []byte) (ItemVariant, error) {
	var v V
	err := json.Unmarshal(b, &v)
	return v, err
}

// ItemTimes is when an item was open, in unix milliseconds; null if unknown or
// still open.
type ItemTimes struct {
	StartedAtMs   *int64 `json:"startedAtMs"`
	CompletedAtMs *int64 `json:"completedAtMs"`
}

// UserMessageItem is what the user said.
type UserMessageItem struct {
	Type string `json:"type" const:"userMessage"`
	ID   string `json:"id"`
	// ClientID is the id that the client gave the message.
	ClientID *string     `json:"clientId"`
	Content  []UserInput `json:"content"`
	ItemTimes
}

// UserInput is a piece of the user's message.
type UserInput struct {
	Type string `json:"type" enum:"text,image"`
	// Text is only present for text.
	Text *string `json:"text,omitempty"`
	// TextElements is codex's markup of the text; always empty here.
	TextElements *[]string `json:"text_elements,omitempty"`
	// URL names a stored image as urn:plimsoll:blob:SHA256; only for image.
	URL *string `json:"url,omitempty"`
}

// AgentMessageItem is what the model said to the user.
type AgentMessageItem struct {
	Type string `json:"type" const:"agentMessage"`
	ID   string `json:"id"`
	Text string `json:"text"`
	// Phase is codex's; always null here.
	Phase *string `json:"phase"`
	ItemTimes
}

// ReasoningItem is what the model disclosed of its thinking.
type ReasoningItem struct {
	Type    string   `json:"type" const:"reasoning"`
	ID      string   `json:"id"`
	Summary []string `json:"summary"`
	// Content is raw thinking; always empty here.
	Content []string `json:"content"`
	ItemTimes
}

// DynamicToolCallItem is a tool call together with its result.
type DynamicToolCallItem struct {
	Type string `json:"type" const:"dynamicToolCall"`
	// ID is that of the call.
	ID        string  `json:"id"`
	Namespace *string `json:"namespace"`
	// Tool is the name of the tool; unknown for a result without a call.
	Tool string `json:"tool"`
	// Arguments is any JSON value, as the model gave it.
	Arguments json.RawMessage `json:"arguments"`
	Status    string          `json:"status" enum:"inProgress,completed,failed"`
	// ContentItems is the result; null until there is one.
	ContentItems *[]ToolContent `json:"contentItems"`
	Success      *bool          `json:"success"`
	DurationMs   *int64         `json:"durationMs"`
	// ResultItemID is the id of the result in the context. Not in codex.
	ResultItemID *string `json:"resultItemId"`
	// Synthetic says that the server made the result because nothing else would
	// ever answer the call. Not in codex.
	Synthetic bool `json:"synthetic"`
	ItemTimes
}

// ToolContent is a piece of a tool's result.
type ToolContent struct {
	Type string `json:"type" enum:"inputText,inputImage"`
	// Text is only present for inputText.
	Text *string `json:"text,omitempty"`
	// ImageURL names a stored image as urn:plimsoll:blob:SHA256; only for inputImage.
	ImageURL *string `json:"imageUrl,omitempty"`
}

// CommandExecutionItem is a command that a runtime ran.
type CommandExecutionItem struct {
	Type      string  `json:"type" const:"commandExecution"`
	ID        string  `json:"id"`
	Command   string  `json:"command"`
	Cwd       string  `json:"cwd"`
	ProcessID *string `json:"processId"`
	Source    string  `json:"source" enum:"agent"`
	Status    string  `json:"status" enum:"inProgress,completed,failed,declined"`
	// CommandActions is codex's parsing of the command.
	CommandActions   []CommandAction `json:"commandActions"`
	AggregatedOutput *string         `json:"aggregatedOutput"`
	ExitCode         *int            `json:"exitCode"`
	DurationMs       *int64          `json:"durationMs"`
	ItemTimes
}

// CommandAction is a part of a command, as far as it is understood.
type CommandAction struct {
	Type    string `json:"type" enum:"unknown"`
	Command string `json:"command"`
}

// FileChangeItem is a change to files that a runtime made or proposed.
type FileChangeItem struct {
	Type    string             `json:"type" const:"fileChange"`
	ID      string             `json:"id"`
	Changes []FileUpdateChange `json:"changes"`
	Status  string             `json:"status" enum:"inProgress,completed,failed,declined"`
	ItemTimes
}

// FileUpdateChange is one file of a change.
type FileUpdateChange struct {
	Path string          `json:"path"`
	Kind PatchChangeKind `json:"kind"`
	// Diff is a unified diff, or the whole content of an added file.
	Diff string `json:"diff"`
}

// PatchChangeKind is what happens to the file.
type PatchChangeKind struct {
	Type string `json:"type" enum:"add,delete,update"`
	// MovePath is always null here.
	MovePath *string `json:"move_path"`
}

// PlanItem is a plan that the agent wrote down.
type PlanItem struct {
	Type string `json:"type" const:"plan"`
	ID   string `json:"id"`
	// Text has one step a line, each with its status in brackets.
	Text string `json:"text"`
	ItemTimes
}

// ImageViewItem is an image shown to the model outside a message.
type ImageViewItem struct {
	Type string `json:"type" const:"imageView"`
	ID   string `json:"id"`
	// Path is where the image came from, or urn:plimsoll:blob:SHA256.
	Path string `json:"path"`
	ItemTimes
}

// HookPromptItem is text that reached the model but is nobody's own words: a
// reminder of the host, the output of a local command, a re-anchor.
type HookPromptItem struct {
	Type      string         `json:"type" const:"hookPrompt"`
	ID        string         `json:"id"`
	Fragments []HookFragment `json:"fragments"`
	ItemTimes
}

// HookFragment is a piece of a HookPromptItem.
type HookFragment struct {
	Text string `json:"text"`
	// HookRunID says where the text came from.
	HookRunID string `json:"hookRunId"`
}

// ContextCompactionItem marks where a compaction happened.
type ContextCompactionItem struct {
	Type string `json:"type" const:"contextCompaction"`
	ID   string `json:"id"`
	// CompactionID is what thread/compact/read takes. Not in codex.
	CompactionID string `json:"compactionId"`
	ItemTimes
}

func (UserMessageItem) itemType() string       { return "userMessage" }
func (AgentMessageItem) itemType() string      { return "agentMessage" }
func (ReasoningItem) itemType() string         { return "reasoning" }
func (DynamicToolCallItem) itemType() string   { return "dynamicToolCall" }
func (CommandExecutionItem) itemType() string  { return "commandExecution" }
func (FileChangeItem) itemType() string        { return "fileChange" }
func (PlanItem) itemType() string              { return "plan" }
func (ImageViewItem) itemType() string         { return "imageView" }
func (HookPromptItem) itemType() string        { return "hookPrompt" }
func (ContextCompactionItem) itemType() string { return "contextCompaction" }
