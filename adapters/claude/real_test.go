package claude

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/clis"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/homes"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// real is Claude Code itself in front of a scripted model server.
type real struct {
	*testing.T
	server  *upstream.Server
	adapter adapters.Runtime
	home    homes.Home
	cwd     string
}

func newReal(t *testing.T, cassette string, env ...string) *real {
	t.Helper()
	program := clis.Claude(t)
	server := upstream.New(t, "server anthropic\n"+cassette)
	dir := t.TempDir()
	home, err := homes.Claude(dir, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	cwd := filepath.Join(dir, "work")
	if err := os.Mkdir(cwd, 0o700); err != nil {
		t.Fatal(err)
	}
	home.Env = append(home.Env, append(env, "CLAUDE_CODE_MAX_RETRIES=1")...)
	return &real{t, server, New(Options{Program: program, Env: home.Env}), home, cwd}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func (r *real) open(p adapters.OpenParams) adapters.Session {
	r.Helper()
	p.Thread, p.Cwd = "t", r.cwd
	s, err := r.adapter.Open(within(r.T), p)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := s.Close(); err != nil {
			r.Error(err)
		}
	})
	return s
}

func (r *real) play(h *adaptertest.Host, s adapters.Session, text string) adapters.End {
	r.Helper()
	end, err := h.Play(within(r.T), s, text)
	if err != nil {
		r.Fatalf("%s: %v", text, err)
	}
	return end
}

// texts is what was said, thought and run, in order.
func texts(h *adaptertest.Host) []string {
	var out []string
	for _, it := range h.Items() {
		out = append(out, string(it.Body.Kind())+": "+strings.TrimSpace(transcript.Text(it.Body)))
	}
	return out
}

func contains(t *testing.T, list []string, want string) {
	t.Helper()
	for _, s := range list {
		if strings.Contains(s, want) {
			return
		}
	}
	t.Errorf("no %q in %q", want, list)
}

func TestRealTurnsCompactAndResume(t *testing.T) {
	r := newReal(t, `-- summary --
writer
say <summary>We read the tide tables; high water is at 07:30.</summary>
usage 700 40
-- answers --
repeat
think Let me think.
say Answer number ${n}, in a few words.
deltas 5
usage 1200 30 cached=200
`)
	list, err := r.adapter.Models(within(t))
	if err != nil || len(list) == 0 {
		t.Fatalf("models %+v, %v", list, err)
	}
	s, h := r.open(adapters.OpenParams{}), adaptertest.NewHost(t)
	h.OnReanchor = func(context.Context) (string, error) { return "STATE: two steps remain", nil }
	r.play(h, s, "/compact is only a word here")
	contains(t, texts(h), "Answer number 1,")
	if u := h.Usages(); len(u) != 1 || u[0].InputTokens != 1200 || u[0].CachedInputTokens != 200 || u[0].OutputTokens != 30 {
		t.Errorf("usages %+v", u)
	}
	r.play(h, s, "go on")
	h.Instructions = "Keep  the\nports."
	res, err := h.Compact(within(t), s, "c1")
	if err != nil {
		t.Fatal(err)
	}
	if res.Before == 0 || res.After == 0 || res.Window == 0 || res.Usage == nil || res.Usage.InputTokens != 700 || !res.Reanchored {
		t.Errorf("result %+v, usage %+v", res, res.Usage)
	}
	if !strings.Contains(string(res.Disclosed), "07:30") || !strings.Contains(string(res.Disclosed), "preserved_messages") {
		t.Errorf("disclosed %s", res.Disclosed)
	}
	asked := r.server.Asked()
	if body := string(asked[len(asked)-1].Body); !asked[len(asked)-1].Writer || !strings.Contains(body, "Keep the ports.") {
		t.Errorf("the summary is asked for with %s", body)
	}
	r.play(h, s, "what next?")
	id := s.NativeID()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := r.open(adapters.OpenParams{NativeID: id})
	r.play(h, again, "and after a restart?")
	for i, body := range []string{string(r.server.Asked()[3].Body), string(r.server.Asked()[4].Body)} {
		if !strings.Contains(body, "07:30") || strings.Contains(body, "Answer number 1,") {
			t.Errorf("request %d after the compaction is %s", i, body)
		}
	}
	if body := string(r.server.Asked()[3].Body); !strings.Contains(body, "STATE: two steps remain") {
		t.Error("the model is not told how things stand")
	}
	got, err := again.(adapters.Recoverer).Recover(within(t), adapters.Unfinished{ID: "c1", StartedAt: time.Now().Add(-time.Minute)})
	if err != nil || !strings.Contains(string(got.Disclosed), "07:30") {
		t.Errorf("recovered %s, %v", got.Disclosed, err)
	}
	if _, err = again.(adapters.Recoverer).Recover(within(t), adapters.Unfinished{StartedAt: time.Now().Add(time.Minute)}); !errors.Is(err, adapters.ErrNotCompacted) {
		t.Errorf("a compaction that never was: %v", err)
	}
}

func TestRealPermissionsAreRelayed(t *testing.T) {
	const cassette = "-- run --\ncall Bash {\"command\":\"touch ../made; cat nothing-there\",\"description\":\"make it\"} toolu_1\n-- after --\nrepeat\nsay Done.\n"
	for decision, status := range map[adapters.Decision]string{adapters.Accept: "failed", adapters.Decline: "declined", adapters.Cancel: ""} {
		t.Run(string(decision), func(t *testing.T) {
			r := newReal(t, cassette)
			s, h := r.open(adapters.OpenParams{}), adaptertest.NewHost(t)
			h.OnAsk = func(_ context.Context, q adapters.Question) (adapters.Answer, error) {
				if a, ok := q.(adapters.CommandApproval); !ok || !strings.Contains(a.Command, "touch ../made") || a.Reason != "make it" {
					t.Errorf("asked %+v", q)
				}
				return adapters.Answer{Decision: decision}, nil
			}
			_, err := h.Play(within(t), s, "make it")
			if decision == adapters.Cancel {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("the turn ended with %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got transcript.Command
			for _, it := range h.Items() {
				if c, ok := it.Body.(transcript.Command); ok {
					got = c
				}
			}
			_, made := os.Stat(filepath.Join(r.cwd, "..", "made"))
			if got.Status != status || (made == nil) != decision.Allows() {
				t.Errorf("the command is %+v, its file %v", got, made)
			}
			if decision.Allows() && (got.ExitCode == nil || *got.ExitCode != 1) {
				t.Errorf("the exit code is %v of %q", got.ExitCode, got.Output)
			}
		})
	}
}

func TestRealFileChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new.txt")
	r := newReal(t, strings.ReplaceAll(`-- write --
call Write {"file_path":"FILE","content":"one\ntwo\n"} toolu_1
-- edit --
call Edit {"file_path":"FILE","old_string":"two","new_string":"three"} toolu_2
-- refused --
call Write {"file_path":"FILE","content":"gone"} toolu_3
-- after --
repeat
say Done.
`, "FILE", file))
	s, h := r.open(adapters.OpenParams{}), adaptertest.NewHost(t)
	asked := 0
	h.OnAsk = func(_ context.Context, q adapters.Question) (adapters.Answer, error) {
		if _, ok := q.(adapters.FileApproval); !ok {
			t.Errorf("asked %+v", q)
		}
		if asked++; asked > 2 {
			return adapters.Answer{Decision: adapters.Decline, Reason: "not that"}, nil
		}
		return adapters.Answer{Decision: adapters.Accept}, nil
	}
	r.play(h, s, "change it")
	var got []transcript.FileChange
	for _, it := range h.Items() {
		if c, ok := it.Body.(transcript.FileChange); ok {
			got = append(got, c)
		}
	}
	want := []transcript.FileChange{
		{Status: "completed", Changes: []transcript.Change{{Path: file, Op: "add", Diff: "+one\n+two\n"}}},
		{Status: "completed", Changes: []transcript.Change{{Path: file, Op: "update", Diff: "@@ -1,2 +1,2 @@\n one\n-two\n+three\n"}}},
		{Status: "declined", Changes: []transcript.Change{{Path: file, Op: "add", Diff: "+gone\n"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "one\nthree\n" {
		t.Errorf("the file is %q, %v", b, err)
	}
	contains(t, []string{string(r.server.Asked()[3].Body)}, "not that")
}

func TestRealSeedAndNotesReachTheModel(t *testing.T) {
	r := newReal(t, "-- any --\nrepeat\nsay Yes.\n")
	seed := []transcript.Entry{{Form: transcript.FormWhole, Item: transcript.Item{Body: transcript.Checkpoint{Version: "v", Text: "port 8443 is taken"}}}}
	s, h := r.open(adapters.OpenParams{Seed: seed}), adaptertest.NewHost(t)
	h.Notes = "PINNED: never touch prod"
	r.play(h, s, "hello")
	if n := len(r.server.Asked()); n != 1 {
		t.Errorf("%d requests for a seed, a note and a message", n)
	}
	body := string(r.server.Asked()[0].Body)
	for _, want := range []string{"port 8443 is taken", "PINNED: never touch prod", "hello"} {
		if !strings.Contains(body, want) {
			t.Errorf("the model is not told %q", want)
		}
	}
}

func TestRealFailures(t *testing.T) {
	for _, tt := range []struct {
		name, cassette string
		class          adapters.Class
	}{
		{"400", "-- a --\nrepeat\nstatus 400\n", adapters.ClassBadRequest},
		{"401", "-- a --\nrepeat\nstatus 401\n", adapters.ClassDenied},
		{"500", "-- a --\nrepeat\nstatus 500\n", adapters.ClassServer},
		{"529", "-- a --\nrepeat\nstatus 529\n", adapters.ClassOverloaded},
		{"overflow", "limit 10\n-- a --\nrepeat\nsay x\n", adapters.ClassOverflow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newReal(t, tt.cassette)
			s, h := r.open(adapters.OpenParams{}), adaptertest.NewHost(t)
			_, err := h.Play(within(t), s, "hello")
			if e, ok := errors.AsType[*adapters.Error](err); !ok || e.Class != tt.class {
				t.Errorf("%T %+v", err, err)
			}
			t.Logf("%v", err)
		})
	}
}

func TestRealCompactionThatFails(t *testing.T) {
	for name, how := range map[string]string{"500": "status 500", "400": "status 400", "empty": "usage 10 0", "cut": "say half\nfinish length"} {
		t.Run(name, func(t *testing.T) {
			r := newReal(t, "-- summary --\nwriter\nrepeat\n"+how+"\n-- a --\nrepeat\nsay Answer ${n} of many.\nusage 100 10\n")
			s, h := r.open(adapters.OpenParams{}), adaptertest.NewHost(t)
			r.play(h, s, "hello")
			_, err := h.Compact(within(t), s, "c1")
			if e, ok := errors.AsType[*adapters.Error](err); !ok {
				t.Errorf("the compaction ended with %T %v", err, err)
			} else {
				t.Logf("%s: %v", e.Class, err)
			}
			r.play(h, s, "still there?")
			contains(t, texts(h), "Answer 2 of many.")
		})
	}
}

func TestRealCompactionOfNothingAndWithoutTheCommand(t *testing.T) {
	r := newReal(t, "-- a --\nrepeat\nsay x\n")
	s, h := r.open(adapters.OpenParams{}), adaptertest.NewHost(t)
	if _, err := h.Compact(within(t), s, "c1"); !errors.Is(err, adapters.ErrNothingToCompact) {
		t.Errorf("with no message: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	off := newReal(t, "-- a --\nrepeat\nsay x\n", "DISABLE_COMPACT=1")
	s = off.open(adapters.OpenParams{})
	if a := s.Compaction(); a.Refusal == nil || a.Refusal.Code != "commandMissing" {
		t.Errorf("ability %+v", a)
	}
	_, err := h.Compact(within(t), s, "c2")
	if _, refused := errors.AsType[*adapters.RefusedError](err); !refused {
		t.Errorf("without the command: %v", err)
	}
}

// A hook in the settings of the user is asked as well, and may deny.
func TestRealHookOfTheUserDenies(t *testing.T) {
	r := newReal(t, "-- a --\nrepeat\nsay Hello there.\n")
	settings := `{"hooks":{"PreCompact":[{"hooks":[{"type":"command","command":"echo a release is on >&2; exit 2"}]}]}}`
	if err := os.WriteFile(filepath.Join(r.home.Dir, "settings.json"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	s, h := r.open(adapters.OpenParams{}), adaptertest.NewHost(t)
	r.play(h, s, "hello")
	_, err := h.Compact(within(t), s, "c1")
	if fault.CodeOf(err) != fault.Denied || !strings.Contains(err.Error(), "a release is on") {
		t.Errorf("%v", err)
	}
	r.play(h, s, "again")
}

func TestRealCompactionIsCancelled(t *testing.T) {
	r := newReal(t, "-- summary --\nwriter\nhold never\n-- a --\nrepeat\nsay Answer ${n} of many.\n")
	s, h := r.open(adapters.OpenParams{}), adaptertest.NewHost(t)
	r.play(h, s, "hello")
	ctx, cancel := context.WithCancel(within(t))
	go func() {
		for len(r.server.Asked()) < 2 && ctx.Err() == nil {
		}
		cancel()
	}()
	if _, err := h.Compact(ctx, s, "c1"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	r.play(h, s, "again")
	contains(t, texts(h), "Answer 2 of many.")
}

func TestRealInterruptAndSteer(t *testing.T) {
	r := newReal(t, "-- first --\nlast GO\nsay Beginning\nhold never\n-- slow --\nlast LOOK\ncall Bash {\"command\":\"echo hi\"} toolu_9\n-- steered --\nwhen AND THIS TOO\nsay I read both.\n-- second --\nrepeat\nsay Second answer.\n")
	s, h := r.open(adapters.OpenParams{}), adaptertest.NewHost(t)
	once := false
	h.OnUpdate = func(u adapters.Update) {
		if _, ok := u.(adapters.TextDelta); ok && !once {
			once = true
			go func() {
				if err := s.Interrupt(context.Background()); err != nil {
					t.Error(err)
				}
			}()
		}
	}
	if _, err := h.Play(within(t), s, "GO"); !errors.Is(err, context.Canceled) {
		t.Errorf("the turn ended with %v", err)
	}
	contains(t, texts(h), "agentMessage: Beginning")
	h.OnUpdate = func(u adapters.Update) {
		if st, ok := u.(adapters.ItemStarted); ok && st.Item.Body.Kind() == transcript.KindCommand {
			if err := s.Steer(context.Background(), transcript.TextParts("AND THIS TOO")); err != nil {
				t.Error(err)
			}
		}
	}
	r.play(h, s, "LOOK")
	contains(t, texts(h), "I read both.")
	if err := s.Steer(within(t), transcript.TextParts("late")); !errors.Is(err, adapters.ErrNotSteerable) {
		t.Errorf("a steer after the turn: %v", err)
	}
}

func TestRealProbe(t *testing.T) {
	r := newReal(t, "-- a --\nsay x\n")
	p := r.adapter.Probe(within(t))
	if p.Version != Tested || p.Compaction.Native == nil || len(p.Problems) != 0 || p.Login != "ok" {
		t.Errorf("%+v", p)
	}
}

func TestRealUnknownConversationAndLease(t *testing.T) {
	r := newReal(t, "-- a --\nrepeat\nsay x\n")
	_, err := r.adapter.Open(within(t), adapters.OpenParams{NativeID: "5fe45079-be74-4eb3-abfd-a6da72b6629a", Cwd: r.cwd})
	if !errors.Is(err, adapters.ErrNoSession) {
		t.Errorf("an unknown conversation: %v", err)
	}
	s, h := r.open(adapters.OpenParams{}), adaptertest.NewHost(t)
	r.play(h, s, "hi")
	_, err = r.adapter.Open(within(t), adapters.OpenParams{NativeID: s.NativeID(), Cwd: r.cwd})
	if !errors.Is(err, adapters.ErrInUse) {
		t.Errorf("a second session on one conversation: %v", err)
	}
}

func TestRealDeathInATurn(t *testing.T) {
	r := newReal(t, "-- first --\nlast GO\nsay Beginning\nhold never\n-- second --\nrepeat\nsay Second answer.\n")
	s, h := r.open(adapters.OpenParams{}), adaptertest.NewHost(t)
	r.play(h, s, "hello")
	done := false
	h.OnUpdate = func(u adapters.Update) {
		if _, ok := u.(adapters.TextDelta); ok && !done {
			done = true
			s.(*session).peer.conn.Kill()
		}
	}
	_, err := h.Play(within(t), s, "GO")
	if err == nil || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the turn it died in ended with %v", err)
	}
	h.OnUpdate = nil
	r.play(h, s, "again")
	asked := r.server.Asked()
	if body := string(asked[len(asked)-1].Body); !strings.Contains(body, "hello") {
		t.Errorf("the resumed conversation has not what was said before: %s", body)
	}
}

// A conversation whose very first turn its process did not survive goes on: what it
// wrote by then makes its id one that is in use.
func TestRealDeathInTheFirstTurn(t *testing.T) {
	r := newReal(t, "-- first --\nlast GO\nsay Beginning\nhold never\n-- second --\nrepeat\nsay Second answer.\n")
	s, h := r.open(adapters.OpenParams{}), adaptertest.NewHost(t)
	done := false
	h.OnUpdate = func(u adapters.Update) {
		if _, ok := u.(adapters.TextDelta); ok && !done {
			done = true
			s.(*session).peer.conn.Kill()
		}
	}
	if _, err := h.Play(within(t), s, "GO"); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the turn it died in ended with %v", err)
	}
	h.OnUpdate = nil
	r.play(h, s, "again")
	contains(t, texts(h), "Second answer.")
}

func TestRealWithoutALogin(t *testing.T) {
	r := newReal(t, "-- a --\nsay x\n", "ANTHROPIC_API_KEY=", "ANTHROPIC_AUTH_TOKEN=")
	if p := r.adapter.Probe(within(t)); p.Login != "missing" || !strings.Contains(p.LoginDetail, "ANTHROPIC_API_KEY") {
		t.Errorf("%+v", p)
	}
	s, h := r.open(adapters.OpenParams{}), adaptertest.NewHost(t)
	_, err := h.Play(within(t), s, "hi")
	if e, ok := errors.AsType[*adapters.Error](err); !ok || e.Class != adapters.ClassDenied {
		t.Errorf("a turn without a login: %v", err)
	}
}
