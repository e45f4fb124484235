package offline

import (
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func TestLaterStatementsReplaceEarlierOnes(t *testing.T) {
	for _, c := range []struct{ name, ask, old, now string }{
		{
			name: "another value, though the old one has more of the words", ask: "Which port does the staging server use?",
			old: "The staging server uses port 7443. Port 7443 of the staging server is behind the proxy.",
			now: "Staging listens on port 7480.",
		},
		{
			name: "a correction among other things", ask: "What are the capacity and the refill of the rate limit?",
			old: "Rate limit: token bucket, capacity 40, refill 8 tokens per second. The rate limit is per IP.",
			now: "Two corrections. The tablets share one address. Second: capacity 60 instead of 40. The refill stays.",
		},
		{
			name: "no number", ask: "Which database stores the bookings?",
			old: "The bookings are stored in the database Postgres, and the database is large.",
			now: "We moved, the bookings database is SQLite now.",
		},
		{
			name: "German", ask: "Auf welchem Port lauscht Staging?",
			old: "Staging lauscht auf Port 7443, der Port ist für Staging reserviert.", now: "Staging lauscht jetzt auf Port 7480.",
		},
		{
			name: "Chinese", ask: "预发环境用哪个端口？",
			old: "预发环境用端口 7443，这个端口是预发环境专用的。", now: "预发环境的端口改成 7480 了。",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			filler := result("1", strings.Repeat("nothing of interest here\nall is quiet\n", 20))
			got := answer(entries(user(c.old), filler, user(c.now), filler, user(c.ask)))
			say := phrasesFor(c.ask)
			now := strings.Index(got, "- "+say.message+": "+say.open+c.now)
			old := strings.Index(got, "- "+say.message+say.earlier+": "+say.open+c.old)
			if now < 0 || old >= 0 && old < now || old < 0 && strings.Contains(got, c.old) {
				t.Errorf("what was said last does not come first:\n%s", got)
			}
		})
	}
}

func TestWhatReplacesNothing(t *testing.T) {
	old := user("The staging port is 7443.")
	for name, now := range map[string]transcript.Body{
		"another subject":   user("The gate cameras need 12 volts now."),
		"the same value":    user("As I said: staging, port 7443."),
		"a question":        user("Is the staging port 9000 now?"),
		"the model's words": transcript.AgentMessage{Text: "The staging port is 9000 now."},
		"a tool's output":   result("1", "the staging port is 9000 now"),
	} {
		got := answer(entries(old, now, user("which port has staging?")))
		if strings.Contains(got, english.earlier) || !strings.Contains(got, "7443") {
			t.Errorf("%s replaces it:\n%s", name, got)
		}
	}
}

// The order of two statements decides, not their wording.
func TestRecencyIsSymmetric(t *testing.T) {
	texts := []string{"The port is 4000.", "The port is 4517."}
	for range 2 {
		got := answer(entries(user(texts[0]), user(texts[1]), user("which port?")))
		if first := strings.Index(got, texts[1]); first < 0 || strings.Index(got, texts[0]) < first {
			t.Errorf("%s was said last:\n%s", texts[1], got)
		}
		slices.Reverse(texts)
	}
}

// Without a contradiction that words could show, what was said later is still
// worth somewhat more.
func TestRecencyDecidesBetweenSimilarStatements(t *testing.T) {
	filler := result("1", strings.Repeat("all is quiet\nnothing to see\n", 20))
	got := answer(entries(user("The mast wants paint, the mast is bare."), filler, user("The mast wants varnish and oil."), filler, user("what does the mast want?")))
	if first := strings.Split(got, "\n- ")[1]; !strings.Contains(first, "varnish") {
		t.Errorf("the older statement comes first:\n%s", got)
	}
}
