package prompt_test

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/prompt"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// png is the smallest thing that is taken for an image.
const png = "\x89PNG\r\n\x1a\n----"

const systemText = "You are a careful assistant."

// words are texts that trip a projection up.
var words = rapid.SampledFrom([]string{
	"", " ", "\u200b\ufeff", "\n\t", "hello", "naïve 日本語 🚢", "bad \xff byte", systemText, "x " + systemText + " y",
	transcript.WriterMark, "[plimsoll " + transcript.WriterMark + "checkpoint writer]", `{"a":1}`,
})

var callIDs = rapid.SampledFrom([]transcript.CallID{"", "c1", "c1", "c2", "call-item-7", "functions.look:0", "c1-2", "abcdefghi", "é\xff"})

var arguments = rapid.SampledFrom([]string{
	``, `{}`, `{"a":1}`, `{"a":`, `[1]`, `null`, `{"a":1}}`, `"patch"`, `{"a":"` + "\xff" + `"}`, `{"m":"` + transcript.WriterMark + `"}`,
})

func times(t *rapid.T) time.Time {
	return transcript.FromMillis(rapid.Int64Range(0, 5).Draw(t, "ms"))
}

func parts(t *rapid.T) []transcript.Part {
	var out []transcript.Part
	for range rapid.IntRange(0, 3).Draw(t, "parts") {
		if rapid.Bool().Draw(t, "image") {
			blob := rapid.SampledFrom([]string{"png", "garbage", "gone"}).Draw(t, "blob")
			out = append(out, transcript.Part{Type: transcript.PartImage, Blob: blob, MediaType: "image/png"})
		} else {
			out = append(out, transcript.Part{Type: transcript.PartText, Text: words.Draw(t, "text")})
		}
	}
	return out
}

func blob(hash string) ([]byte, error) {
	switch hash {
	case "png":
		return []byte(png), nil
	case "garbage":
		return []byte("<svg/>"), nil
	}
	return nil, fmt.Errorf("no blob %s", hash)
}

func body(t *rapid.T) transcript.Body {
	text := words.Draw(t, "text")
	switch rapid.IntRange(0, 12).Draw(t, "kind") {
	case 0:
		return transcript.UserMessage{Content: parts(t)}
	case 1:
		return transcript.AgentMessage{Text: text}
	case 2:
		return transcript.Reasoning{Text: text}
	case 3, 4:
		name := rapid.SampledFrom([]string{"look", "", "a tool with blanks", string(make([]byte, 90))}).Draw(t, "name")
		return transcript.ToolCall{CallID: callIDs.Draw(t, "id"), Name: name, Arguments: transcript.RawJSON(arguments.Draw(t, "args"))}
	case 5, 6:
		return transcript.ToolResult{CallID: callIDs.Draw(t, "id"), Output: parts(t), IsError: rapid.Bool().Draw(t, "isError")}
	case 7:
		return transcript.Command{Command: "make", Cwd: "/w", Output: text, Status: "completed"}
	case 8:
		return transcript.Plan{Steps: []transcript.PlanStep{{Step: text, Status: "pending"}}}
	case 9:
		return transcript.Image{Blob: "png", MediaType: "image/jpeg"}
	case 10:
		return transcript.Notice{Source: rapid.SampledFrom([]string{"meta", "reanchor"}).Draw(t, "source"), Text: text}
	case 11:
		return transcript.Checkpoint{Version: "v", Text: text}
	default:
		return transcript.Opaque{Origin: rapid.SampledFrom([]string{"home", "abroad"}).Draw(t, "origin"), Raw: transcript.RawJSON(`{"e":1}`), Text: text}
	}
}

// anyEntries are entries in any order whatever.
func anyEntries(t *rapid.T) []transcript.Entry {
	var out []transcript.Entry
	for range rapid.IntRange(0, 12).Draw(t, "entries") {
		form := rapid.SampledFrom([]transcript.Form{transcript.FormWhole, transcript.FormWhole, transcript.FormStub}).Draw(t, "form")
		it := transcript.Item{StartedAt: times(t), CompletedAt: times(t), Body: body(t)}
		out = append(out, transcript.Entry{Item: it, Form: form})
	}
	return out
}

// anyRules are the rules of some wire, without a bound of its size.
func anyRules(t *rapid.T) prompt.Rules {
	idents := rapid.SampledFrom([]prompt.Ident{
		{}, {Min: 9, Max: 9, Chars: prompt.Alnum}, {Max: 40, Chars: prompt.Word}, {Min: 1, Max: 64},
	})
	r := prompt.Rules{
		IDs: idents.Draw(t, "ids"), Names: prompt.Ident{Max: 64, Chars: prompt.Word},
		Images:     rapid.SampledFrom([]prompt.Images{prompt.ImagesNone, prompt.ImagesUser, prompt.ImagesAll}).Draw(t, "images"),
		Reasoning:  rapid.Bool().Draw(t, "reasoning"),
		MergeRoles: rapid.Bool().Draw(t, "merge"),
		UserFirst:  rapid.Bool().Draw(t, "user first"),
		Bridge:     rapid.Bool().Draw(t, "bridge"),
		Writer:     rapid.Bool().Draw(t, "writer"),
	}
	if rapid.Bool().Draw(t, "origins") {
		r.Origins = []string{"home"}
	}
	return r
}

// anyPart is a part that nobody built.
func anyPart(t *rapid.T) prompt.Part {
	p := prompt.Part{
		Kind: rapid.SampledFrom([]prompt.Kind{prompt.Text, prompt.Image, prompt.Call, prompt.Result, prompt.Reasoning, prompt.Opaque, "weird"}).Draw(t, "kind"),
		By: rapid.SampledFrom([]transcript.Kind{
			"", transcript.KindUserMessage, transcript.KindNotice, transcript.KindCheckpoint, transcript.KindAgentMessage,
		}).Draw(t, "by"),
		Source:    rapid.SampledFrom([]string{"", "reanchor"}).Draw(t, "source"),
		Text:      words.Draw(t, "text"),
		CallID:    string(callIDs.Draw(t, "id")),
		Name:      rapid.SampledFrom([]string{"look", "", "no good"}).Draw(t, "name"),
		Arguments: transcript.RawJSON(arguments.Draw(t, "args")),
		Data:      []byte(rapid.SampledFrom([]string{"", png, "<svg/>"}).Draw(t, "data")),
		MediaType: "image/png", Origin: "home", Raw: transcript.RawJSON(`{}`),
	}
	if rapid.Bool().Draw(t, "whole") {
		p.Sum = prompt.SumOf(p)
	}
	return p
}

func anyMessages(t *rapid.T) []prompt.Message {
	var out []prompt.Message
	for range rapid.IntRange(0, 8).Draw(t, "messages") {
		m := prompt.Message{Role: rapid.SampledFrom([]prompt.Role{
			prompt.System, prompt.User, prompt.Assistant, prompt.Tool, prompt.Assistant, prompt.Tool, "developer",
		}).Draw(t, "role")}
		for range rapid.IntRange(0, 3).Draw(t, "parts") {
			p := anyPart(t)
			for range rapid.IntRange(0, 2).Draw(t, "output") {
				p.Output = append(p.Output, anyPart(t))
			}
			m.Parts = append(m.Parts, p)
		}
		out = append(out, m)
	}
	return out
}
