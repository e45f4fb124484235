package compaction

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func TestAFailedEditSupersedesNoRead(t *testing.T) {
	var es []transcript.Entry
	add := func(b transcript.Body) {
		es = append(es, transcript.Entry{Form: transcript.FormWhole, Item: transcript.Item{ID: transcript.ItemID(fmt.Sprint("i", len(es))), Turn: "t", Body: b}})
	}
	pair := func(id, name, args, out string, failed bool) {
		add(transcript.ToolCall{CallID: transcript.CallID(id), Name: name, Arguments: transcript.RawJSON(args)})
		add(transcript.ToolResult{CallID: transcript.CallID(id), Output: transcript.TextParts(out), IsError: failed})
	}
	add(transcript.UserMessage{Content: transcript.TextParts("mend a.go")})
	pair("r", "read", `{"path":"/w/a.go"}`, strings.Repeat("func a() {}\n", 2000), false)
	pair("e", "edit", `{"path":"/w/a.go","old_string":"x","new_string":"y"}`, "old_string was not found", true)
	for i := range 12 {
		pair(fmt.Sprint("o", i), "bash", `{"command":"ls"}`, strings.Repeat("out\n", 2000), false)
	}
	p, err := newPlanner(Input{Entries: es, Window: 40_000})
	if err != nil {
		t.Fatal(err)
	}
	p.group()
	p.measureAges()
	p.prunable()
	if p.nodes[2].superseded {
		t.Error("a read counts as superseded by an edit that failed: the file is as it was read")
	}
}

func TestAReadOfTwoFilesIsSupersededByBoth(t *testing.T) {
	var es []transcript.Entry
	add := func(b transcript.Body) {
		es = append(es, transcript.Entry{Form: transcript.FormWhole, Item: transcript.Item{ID: transcript.ItemID(fmt.Sprint("i", len(es))), Turn: "t", Body: b}})
	}
	pair := func(id, name, args, out string) {
		add(transcript.ToolCall{CallID: transcript.CallID(id), Name: name, Arguments: transcript.RawJSON(args)})
		add(transcript.ToolResult{CallID: transcript.CallID(id), Output: transcript.TextParts(out)})
	}
	add(transcript.UserMessage{Content: transcript.TextParts("mend")})
	pair("r", "read", `{"path":"/w/a.go","target_file":"/w/b.go"}`, strings.Repeat("func a() {}\n", 2000))
	pair("e", "edit", `{"path":"/w/b.go","old_string":"x","new_string":"y"}`, "ok")
	for i := range 12 {
		pair(fmt.Sprint("o", i), "bash", `{"command":"ls"}`, strings.Repeat("out\n", 2000))
	}
	p, err := newPlanner(Input{Entries: es, Window: 40_000})
	if err != nil {
		t.Fatal(err)
	}
	p.group()
	p.measureAges()
	p.prunable()
	if p.nodes[2].superseded {
		t.Error("what a read showed of a.go counts as superseded by an edit of b.go")
	}
}

func TestAFailedEditChangesNoFile(t *testing.T) {
	var es []transcript.Entry
	add := func(b transcript.Body) {
		es = append(es, transcript.Entry{Form: transcript.FormWhole, Item: transcript.Item{ID: transcript.ItemID(fmt.Sprint("i", len(es))), Turn: transcript.TurnID(fmt.Sprint("t", len(es)/8)), Body: b}})
	}
	pair := func(id, name, args, out string, failed bool) {
		add(transcript.ToolCall{CallID: transcript.CallID(id), Name: name, Arguments: transcript.RawJSON(args)})
		add(transcript.ToolResult{CallID: transcript.CallID(id), Output: transcript.TextParts(out), IsError: failed})
	}
	add(transcript.UserMessage{Content: transcript.TextParts("mend it")})
	pair("t", "bash", `{"command":"go test ./..."}`, "ok", false)
	pair("e", "edit", `{"path":"/w/a.go","old_string":"x","new_string":"y"}`, "old_string was not found in the file", true)
	for i := range 40 {
		add(transcript.AgentMessage{Text: strings.Repeat(fmt.Sprintf("Line %d of what the agent said. ", i), 80)})
		add(transcript.UserMessage{Content: transcript.TextParts(fmt.Sprintf("go on %d", i))})
	}
	c, err := Compose(Input{Entries: es, Window: 30_000, Writer: WriterExtractive, Facts: Facts{Checks: []string{"go test"}}})
	if err != nil || c.Outcome != Completed {
		t.Fatal(err, c)
	}
	for name, text := range map[string]string{"checkpoint": c.Checkpoint.Text, "re-anchor": c.Reanchor} {
		if strings.Contains(text, "## Files changed") || strings.Contains(text, "files changed: ") || strings.Contains(text, "files changed since") {
			t.Errorf("no file was changed, and the %s says:\n%s", name, text)
		}
	}
}

// What the user said survives verbatim (I9), also if only the image beside it was
// left out to save bytes before.
func TestWordsBesideAStrippedImageSurvive(t *testing.T) {
	said := "Use the blue variant of the header here. " + strings.Repeat("The gap between logo and menu is as in this picture, a bit wider at the left. ", 45)
	entries := func() []transcript.Entry {
		var es []transcript.Entry
		add := func(b transcript.Body) {
			es = append(es, transcript.Entry{Form: transcript.FormWhole, Item: transcript.Item{ID: transcript.ItemID(fmt.Sprint("i", len(es))), Turn: transcript.TurnID(fmt.Sprint("t", len(es)/2)), Body: b}})
		}
		add(transcript.UserMessage{Content: append(transcript.TextParts(said), transcript.Part{Type: transcript.PartImage, Blob: "h1", MediaType: "image/png"})})
		for i := range 30 {
			add(transcript.AgentMessage{Text: strings.Repeat(fmt.Sprintf("Line %d of what the agent did about the header and the menu. ", i), 80)})
			add(transcript.UserMessage{Content: transcript.TextParts(fmt.Sprintf("go on %d", i))})
		}
		return es
	}
	survives := func(es []transcript.Entry) bool {
		c, err := Compose(Input{Entries: es, Window: 20_000, Writer: WriterExtractive})
		if err != nil || c.Outcome != Completed {
			t.Fatal(err, c.Outcome, c.Code)
		}
		all := c.Checkpoint.Text
		for _, k := range c.Kept {
			for _, e := range es {
				if e.Item.ID == k.ItemID {
					all += "\n" + transcript.Text(transcript.Render(e.Item, k).Body)
				}
			}
		}
		flat := func(s string) string { return strings.Join(strings.Fields(strings.ReplaceAll(s, "\n> ", " ")), " ") }
		return strings.Contains(flat(all), flat(said))
	}
	whole := entries()
	if !survives(whole) {
		t.Fatal("the control does not survive")
	}
	light := entries()
	kept, _ := StripImages(light, nil, 1, func(string) int { return 10 })
	for _, k := range kept {
		for i := range light {
			if light[i].Item.ID == k.ItemID {
				light[i] = transcript.Entry{Item: transcript.Render(light[i].Item, k), Form: k.Form}
			}
		}
	}
	if !survives(light) {
		t.Error("after its image was left out, what the user said does not survive a compaction")
	}
}
