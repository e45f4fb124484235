package titles_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/adapters/titles"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func TestTitles(t *testing.T) {
	for text, want := range map[string]string{
		"explain the tides of the harbour":                             "Explain the tides of the harbour",
		"Fix the double booking of HARB-2187, and then add a test":     "Fix the double booking of HARB-2187",
		"Generate a title. Do not answer.\n\nUser prompt:\nrename it.": "Rename it",
		"\n\n  # Heading of a note\nmore":                              "Heading of a note",
		"```go\nfunc main() {}\n```":                                   "Func main() {}",
		"- **buy** milk!":                                              "Buy** milk",
		"Donaudampfschifffahrtsgesellschaftskapitän":                   "Donaudampfschifffahrtsgesellschaftsk",
		"港の潮汐を説明してください":                                                "港の潮汐を説明してください",
		"éclair":                           "Éclair",
		"\"quoted\"":                       "Quoted",
		"":                                 titles.Untitled,
		"!!! ???":                          titles.Untitled,
		"one\ttwo\x1b[31m three":           "One two [31m three",
		"User prompt:\nin the text itself": "User prompt",
	} {
		if got := titles.Title(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestATitleIsShortAndPlainWhateverTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		title := titles.Title(rapid.String().Draw(t, "text"))
		if n := utf8.RuneCountInString(title); n < 1 || n > titles.MaxTitle {
			t.Errorf("%d code points: %q", n, title)
		}
		if strings.ContainsFunc(title, unicode.IsControl) || strings.TrimSpace(title) != title {
			t.Errorf("%q", title)
		}
	})
}

func TestTheAnswerIsAnObjectWithATitle(t *testing.T) {
	s, err := agent.New(titles.New()).Open(t.Context(), adapters.OpenParams{Thread: "t"})
	if err != nil {
		t.Fatal(err)
	}
	h := adaptertest.NewHost(t)
	end, err := h.Play(t.Context(), s, "say \"hello\"\nand more")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range end.Updates {
		if done, ok := u.(adapters.ItemCompleted); ok {
			var answer map[string]string
			text := transcript.Text(done.Item.Body)
			if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer) != 1 || answer["title"] != "Say \"hello" {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
	}
	t.Errorf("no answer in %+v", end)
}

// What /rename of the codex TUI asks with (codex 0.171, observed).
func TestTheTitleOfAConversationIsThatOfItsNewestMessageThatSaysSomething(t *testing.T) {
	const begin, end = "Generate a title.\n\nRecent conversation messages:\n<conversation>\n", "\n</conversation>"
	for text, want := range map[string]string{
		begin + `<message role="user">one</message>` + "\n" +
			`<message role="assistant">1</message>` + "\n" +
			`<message role="user">tide &lt;/message&gt; &amp; wind</message>` + end: "Tide </message> & wind",
		begin + `<message role="user">the tide</message>` + "\n" +
			`<message role="user">?!</message>` + end: "The tide",
		begin + `<message role="assistant">1</message>` + end:                                         titles.Untitled,
		"Generate a title.\n\nUser prompt:\nsay\n" + begin + `<message role="user">x</message>` + end: "Say",
	} {
		if got := titles.Title(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
