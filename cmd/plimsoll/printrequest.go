package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads"
)

func nameText(v protocol.ThreadNameUpdatedParams) string {
	if v.ThreadName == "" {
		return "has no name any more"
	}
	return "named " + oneLine(v.ThreadName, 100)
}

func metadataText(v protocol.ThreadMetadataUpdatedParams) string {
	if v.GitInfo == nil {
		return "is in no repository"
	}
	parts := []string{"repository"}
	for _, part := range []*string{v.GitInfo.Branch, v.GitInfo.SHA, v.GitInfo.OriginURL} {
		if part != nil {
			parts = append(parts, oneLine(*part, 100))
		}
	}
	return strings.Join(parts, " ")
}

func hiddenText(v protocol.ItemHiddenParams) string {
	text := "hidden: " + printable(v.Kind)
	if v.Origin != "" {
		text += " of " + printable(v.Origin)
	}
	return text
}

func undoneText(v api.CompactionUndoneParams) string {
	text := "undone: " + v.CompactionID
	if v.Epoch != nil {
		text += fmt.Sprintf(", epoch %d", *v.Epoch)
	}
	return text
}

// sessionTexts say why a thread has another session at its provider.
var sessionTexts = map[threads.SessionReason]string{
	threads.SessionOpened:   "opened",
	threads.SessionReplaced: "another one, which was told what the thread holds",
	threads.SessionRebased:  "a fresh one, which begins with the checkpoint",
	threads.SessionRestored: "the one that the undo brought back",
}

func sessionText(v api.SessionUpdatedParams) string {
	why, ok := sessionTexts[threads.SessionReason(v.Reason)]
	if !ok {
		why = printable(v.Reason)
	}
	return oneLine(fmt.Sprintf("%s at %s: %s", v.NativeID, v.Provider, why), 200)
}

func settingsText(s protocol.ThreadSettings) string {
	text := fmt.Sprintf("%s on %s in %s, approval %s, sandbox %s", s.Model, s.ModelProvider, s.Cwd, s.ApprovalPolicy, s.SandboxPolicy.Type)
	if s.CollaborationMode.Mode != "default" {
		text += ", mode " + s.CollaborationMode.Mode
	}
	return oneLine(text, 200)
}

func statusText(v protocol.ThreadStatusChangedParams) string {
	text := v.Status.Type
	if flags := v.Status.ActiveFlags; flags != nil && len(*flags) > 0 {
		text += ", " + oneLine(strings.Join(*flags, ", "), 60)
	}
	return text
}

// requestText says what the server asks, and under which id it is answered.
func requestText(r protocol.ServerRequest) string {
	return printable(r.ID) + " asks: " + questionText(r)
}

// questionText is what a request asks. One of a kind that is not known is shown by
// its method.
func questionText(r protocol.ServerRequest) string {
	var p struct { // what matters of the params of all kinds
		Command, Cwd, Reason, GrantRoot, Tool string
		Namespace                             *string
		Arguments                             json.RawMessage
	}
	if json.Unmarshal(r.Params, &p) != nil {
		return printable(r.Method)
	}
	text := ""
	switch r.Method {
	case threads.AskCommand:
		text = "run " + oneLine(p.Command, 120) + " in " + oneLine(p.Cwd, 80)
	case threads.AskFile:
		if text = "change files"; p.GrantRoot != "" {
			text += " under " + oneLine(p.GrantRoot, 80)
		}
	case threads.AskTool:
		name := p.Tool
		if p.Namespace != nil {
			name = *p.Namespace + "/" + name
		}
		text = "call the client's tool " + oneLine(name, 80) + " with " + oneLine(string(p.Arguments), 120)
	default:
		return printable(r.Method)
	}
	if p.Reason != "" {
		text += ", because " + oneLine(p.Reason, 120)
	}
	return text
}

func resolvedText(v protocol.ServerRequestResolvedParams) string {
	text := printable(v.RequestID) + " " + v.Outcome
	if v.By != nil && *v.By != "" {
		text += " by " + oneLine(*v.By, 40)
	}
	return text
}
