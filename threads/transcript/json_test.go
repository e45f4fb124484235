package transcript

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// bodies has one of every kind; TestEveryKindRoundTrips fails for a kind that is
// missing here.
func bodies() []Body {
	code := 1
	ledger := RawJSON(`{"v":1}`)
	return []Body{
		UserMessage{Content: []Part{{Type: PartText, Text: "hi <b>&"}, {Type: PartImage, Blob: "ab", MediaType: "image/png"}}, ClientID: "c"},
		AgentMessage{Text: "yes\u2028\x00"},
		Reasoning{Text: "hm"},
		ToolCall{CallID: "1", Name: "run", Arguments: RawJSON(`{"html":"<b>&</b>","n":1e400}`)},
		ToolResult{CallID: "1", Output: TextParts("out"), IsError: true, Synthetic: true},
		Command{Command: "ls", Cwd: "/w", Output: "a", ExitCode: &code, Status: "failed"},
		FileChange{Changes: []Change{{Path: "a", Op: "add", Diff: "+1"}}, Status: "completed"},
		Plan{Steps: []PlanStep{{Step: "s", Status: "pending"}}},
		Image{Blob: "ab", MediaType: "image/png", Path: "p"},
		Notice{Source: "meta", Text: "n"},
		Checkpoint{Version: "v", Text: "t", Ledger: &ledger},
		ContextCompaction{CompactionID: "c"},
		Opaque{Origin: "o", Raw: RawJSON(`["<",null]`)},
		Opaque{Origin: "o", Raw: RawJSON(`{"content":"t"}`), Text: "t"},
	}
}

func TestEveryKindRoundTripsToTheByte(t *testing.T) {
	seen := map[Kind]bool{}
	at := time.UnixMilli(1796040000005).UTC()
	for _, b := range bodies() {
		seen[b.Kind()] = true
		want := Item{ID: "i", Turn: "t", StartedAt: at, Body: b}
		data, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Item
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", b.Kind(), diff)
		}
	}
	for kind := range decoders {
		if !seen[kind] {
			t.Errorf("kind %s has no example in bodies", kind)
		}
	}
}

func TestOpaqueItemSaysItsTextIfItHasOne(t *testing.T) {
	sealed := Opaque{Origin: "o", Raw: RawJSON(`{"content":"x"}`)}
	read := sealed
	read.Text = "what it says"
	if Text(sealed) != `{"content":"x"}` || Text(read) != "what it says" || Tokens(read) != 3 {
		t.Errorf("%q, %q, %d tokens", Text(sealed), Text(read), Tokens(read))
	}
	if data, err := Encode(sealed); err != nil || string(data) != `{"origin":"o","raw":{"content":"x"}}` {
		t.Errorf("stored as %s, %v: one without a text is stored as ever", data, err)
	}
}

func TestUnknownKindIsAnError(t *testing.T) {
	var it Item
	if err := json.Unmarshal([]byte(`{"id":"i","kind":"telepathy","body":{}}`), &it); err == nil {
		t.Error("an unknown kind decodes")
	}
	if _, err := json.Marshal(Item{ID: "i"}); err == nil {
		t.Error("an item without a body encodes")
	}
}

func TestTextOfACallIsItsNameAndValuesInOrder(t *testing.T) {
	for args, want := range map[string]string{
		`{"b":"x","a":{"k":[1,"y",true,null]}}`: "f\nx\n1\ny\ntrue\nnull",
		`{}`:                                    "f\n", `"text"`: "f\ntext", `[["deep"]]`: "f\ndeep", `{"cut":`: "f\n{\"cut\":", ``: "f\n",
	} {
		if got := Text(ToolCall{Name: "f", Arguments: RawJSON(args)}); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// What a boundary renders stays a valid item with that text.
func TestRenderedItemsSayTheGivenText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SampledFrom(bodies()).Draw(t, "body")
		text := rapid.String().Draw(t, "text")
		got := Render(Item{ID: "i", Body: b}, Kept{ItemID: "i", Form: FormClipped, Text: text}).Body
		want := text
		switch b := b.(type) {
		case ToolCall:
			want = b.Name + "\n" + text
		case Command:
			want = b.Command + "\n" + text
		case FileChange:
			want = "update \n" + text + "\n"
		case Plan:
			want = "[pending] " + text + "\n"
		case Checkpoint, ContextCompaction:
			want = Text(b)
		default:
		}
		if Text(got) != want {
			t.Errorf("%s renders as %q, want %q", b.Kind(), Text(got), want)
		}
		if same := Render(Item{ID: "i", Body: b}, Kept{ItemID: "i", Form: FormWhole}); !cmp.Equal(same.Body, b) {
			t.Errorf("%s rendered whole differs", b.Kind())
		}
	})
}
