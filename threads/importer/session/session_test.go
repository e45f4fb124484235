package session_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll-dev/plimsoll/threads/importer/session"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func call(id string) transcript.Body {
	return transcript.ToolCall{CallID: transcript.CallID(id), Name: "Read", Arguments: []byte(`{}`)}
}

func result(id string) transcript.Body {
	return transcript.ToolResult{CallID: transcript.CallID(id), Output: transcript.TextParts("ok")}
}

func user(s string) transcript.Body { return transcript.UserMessage{Content: transcript.TextParts(s)} }

func add(b *session.Builder, bodies ...transcript.Body) {
	for _, body := range bodies {
		b.Add(session.Ref{Line: b.Len() + 1}, time.Time{}, body)
	}
}

func finish(t rapid.TB, b *session.Builder) *session.Session {
	t.Helper()
	s, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestACallAnsweredAfterTheBoundaryIsKept: the result would have no call in the
// context of the epoch.
func TestACallAnsweredAfterTheBoundaryIsKept(t *testing.T) {
	b := session.NewBuilder("test", session.Limits{})
	add(b, user("go"), call("a"))
	b.Compaction(session.Ref{Record: "c"}, time.Time{}, nil)
	add(b, result("a"))
	s := finish(t, b)
	if k := s.Transcript.Boundaries[0].Kept; len(k) != 1 || k[0].ItemID != s.Transcript.Items[1].ID || len(s.Warnings) != 1 {
		t.Errorf("kept %v, warnings %v", k, s.Warnings)
	}
}

// TestNoBoundarySeparatesAPair draws files with reused call ids, orphans, open
// calls and arbitrary kept ranges, and looks at the pairs of every epoch.
func TestNoBoundarySeparatesAPair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := session.NewBuilder("test", session.Limits{})
		add(b, user("go"))
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				add(b, call(id))
			case 1:
				add(b, result(id))
			case 2:
				b.Prompt()
				add(b, user(id))
			case 3:
				kept := rapid.SliceOfDistinct(rapid.IntRange(0, b.Len()-1), rapid.ID).Draw(t, "kept")
				b.Compaction(session.Ref{}, time.Time{}, kept)
			}
		}
		s := finish(t, b)
		orphans := unanswerable(s.Transcript.Items)
		for epoch := 1; epoch <= s.Transcript.Epoch(); epoch++ {
			entries, err := s.Transcript.Context(epoch)
			if err != nil {
				t.Fatal(err)
			}
			open := map[transcript.CallID]int{}
			for _, e := range entries {
				switch body := e.Item.Body.(type) {
				case transcript.ToolCall:
					open[body.CallID]++
				case transcript.ToolResult:
					if orphans[e.Item.ID] {
						continue
					}
					if open[body.CallID]--; open[body.CallID] < 0 {
						t.Fatalf("epoch %d has the result %s without its call", epoch, e.Item.ID)
					}
				}
			}
		}
	})
}

// unanswerable are the results that no call of the file can own.
func unanswerable(items []transcript.Item) map[transcript.ItemID]bool {
	open, orphans := map[transcript.CallID]int{}, map[transcript.ItemID]bool{}
	for _, it := range items {
		switch body := it.Body.(type) {
		case transcript.ToolCall:
			open[body.CallID]++
		case transcript.ToolResult:
			if open[body.CallID] == 0 {
				orphans[it.ID] = true
			} else {
				open[body.CallID]--
			}
		}
	}
	return orphans
}

func TestTurnStatusFollowsWhatHappenedToTheCalls(t *testing.T) {
	say := transcript.AgentMessage{Text: "done"}
	for name, c := range map[string]struct {
		items []transcript.Body
		want  transcript.TurnStatus
	}{
		"answered":                        {[]transcript.Body{call("a"), result("a")}, transcript.TurnCompleted},
		"open at the end":                 {[]transcript.Body{call("a")}, transcript.TurnInterrupted},
		"one of two open":                 {[]transcript.Body{call("a"), call("b"), result("b")}, transcript.TurnInterrupted},
		"open, but the agent went on":     {[]transcript.Body{call("a"), say}, transcript.TurnCompleted},
		"a reused id, the second is open": {[]transcript.Body{call("a"), result("a"), say, call("a")}, transcript.TurnInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			b := session.NewBuilder("test", session.Limits{})
			add(b, user("go"))
			add(b, c.items...)
			if got := finish(t, b).Transcript.Turns[0].Status; got != c.want {
				t.Errorf("status %s, want %s", got, c.want)
			}
		})
	}
}

// apiID is what the API takes as an id.
var apiID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// TestIdsOfFilesAreNotTrusted also looks at what is made of an id: an item that
// the API lists must be one that it can be asked for.
func TestIdsOfFilesAreNotTrusted(t *testing.T) {
	b := session.NewBuilder("test", session.Limits{})
	ids, turns := map[transcript.ItemID]bool{}, map[transcript.TurnID]bool{}
	for _, record := range []string{
		"ok", "ok", "", "", "a/b", "a.b", "a:b", "x\ny", "é", "ok-1", "ok-aborted",
		strings.Repeat("z", 500), strings.Repeat("z", 64), strings.Repeat("y", 56), strings.Repeat("x", 57),
	} {
		for block := range 2 {
			b.Prompt()
			id := b.Add(session.Ref{Record: record, Block: block}, time.Time{}, call("not an id: é/"))
			if ids[id] || !apiID.MatchString(string(id)) {
				t.Errorf("record %.10q, block %d: id %.80q", record, block, id)
			}
			ids[id] = true
		}
	}
	s := finish(t, b)
	for _, turn := range s.Transcript.Turns {
		if turns[turn.ID] || !apiID.MatchString(string(turn.ID)) {
			t.Errorf("turn id %.80q", turn.ID)
		}
		turns[turn.ID] = true
	}
	answered, n := transcript.AnswerOpenCalls(s.Transcript)
	if n != len(ids) || len(turns) != len(ids) {
		t.Fatalf("%d calls of %d were answered, in %d turns", n, len(ids), len(turns))
	}
	seen := map[transcript.ItemID]bool{}
	for _, it := range answered.Items {
		if seen[it.ID] || !apiID.MatchString(string(it.ID)) {
			t.Errorf("%s has the id %.80q", it.Body.Kind(), it.ID)
		}
		seen[it.ID] = true
		if c, ok := it.Body.(transcript.ToolCall); ok && c.CallID != "not an id: é/" {
			t.Errorf("the call id became %q", c.CallID)
		}
	}
}

// TestAnUnusableIDIsReplacedByOneThatDependsOnItOnly: the same message of
// a longer copy of the file has the same id.
func TestAnUnusableIDIsReplacedByOneThatDependsOnItOnly(t *testing.T) {
	idIn := func(before int, record string) transcript.ItemID {
		b := session.NewBuilder("test", session.Limits{})
		for range before {
			add(b, user("earlier"))
		}
		return b.Add(session.Ref{Record: record}, time.Time{}, user("x"))
	}
	if a, b := idIn(0, "msg.01"), idIn(3, "msg.01"); a != b || a == idIn(0, "msg.02") {
		t.Errorf("msg.01 became %s and %s", a, b)
	}
	if id := idIn(0, "msg_01-A"); id != "msg_01-A" {
		t.Errorf("an id that can be used became %s", id)
	}
}

func TestSkippedKindsAreBounded(t *testing.T) {
	b := session.NewBuilder("test", session.Limits{})
	for n := range 5000 {
		b.Skip(strings.Repeat("k", n%100) + string(rune('a'+n%26)))
	}
	sum := 0
	for _, n := range b.Session().Skipped {
		sum += n
	}
	if sum != 5000 || len(b.Session().Skipped) > 201 {
		t.Errorf("%d counted in %d kinds", sum, len(b.Session().Skipped))
	}
}

// TestNoticesBeforeTheFirstPromptBelongToItsTurn: what a program does at its
// start is no turn of its own, but what an older turn left behind is.
func TestNoticesBeforeTheFirstPromptBelongToItsTurn(t *testing.T) {
	notice := transcript.Notice{Source: "meta", Text: "hello"}
	for name, c := range map[string]struct {
		before []transcript.Body
		turns  int
	}{
		"nothing":               {nil, 1},
		"notices":               {[]transcript.Body{notice, notice}, 1},
		"a result and a notice": {[]transcript.Body{result("a"), notice}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := session.NewBuilder("test", session.Limits{})
			add(b, c.before...)
			b.Prompt()
			add(b, user("go"), notice)
			if got := len(finish(t, b).Transcript.Turns); got != c.turns {
				t.Errorf("%d turns, want %d", got, c.turns)
			}
			b.Prompt()
			add(b, user("again"))
			if got := len(finish(t, b).Transcript.Turns); got != c.turns+1 {
				t.Errorf("%d turns after another prompt, want %d", got, c.turns+1)
			}
		})
	}
}
