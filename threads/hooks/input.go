package hooks

// An input is what a hook reads.
type input struct {
	// In the words of Claude Code and codex.
	SessionID          string `json:"session_id"`
	TurnID             string `json:"turn_id"`
	PromptID           string `json:"prompt_id"`
	TranscriptPath     string `json:"transcript_path"` // always empty: the journal is no file of lines
	Cwd                string `json:"cwd"`
	HookEventName      string `json:"hook_event_name"`
	Model              string `json:"model"`
	Trigger            string `json:"trigger"` // manual | auto
	CustomInstructions string `json:"custom_instructions"`

	// In ours.
	ThreadID          string `json:"thread_id"`
	CompactionID      string `json:"compaction_id"`
	CompactionTrigger string `json:"compaction_trigger"` // exactly: preTurn, overflow, …
	Compaction        any    `json:"compaction"`         // the record
}

func inputOf(event string, e Event) input {
	trigger := MatchManual
	if e.Automatic {
		trigger = MatchAuto
	}
	return input{
		SessionID: e.Thread, TurnID: e.Turn, PromptID: e.Turn, Cwd: e.Cwd, HookEventName: event, Model: e.Model,
		Trigger: string(trigger), CustomInstructions: e.Instructions,
		ThreadID: e.Thread, CompactionID: e.Compaction, CompactionTrigger: e.Trigger, Compaction: e.Record,
	}
}
