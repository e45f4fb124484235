package codex

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/clis"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/homes"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// real is codex itself in front of a scripted model server.
type real struct {
	*testing.T
	server  *upstream.Server
	adapter adapters.Runtime
	home    homes.Home
	cwd     string
}

func newReal(t *testing.T, cassette, config string) *real {
	t.Helper()
	program := clis.Codex(t)
	server := upstream.New(t, cassette)
	dir := t.TempDir()
	home, err := homes.Codex(dir, server.URL, config)
	if err != nil {
		t.Fatal(err)
	}
	cwd := filepath.Join(dir, "work")
	if err := os.Mkdir(cwd, 0o700); err != nil {
		t.Fatal(err)
	}
	return &real{t, server, New(Options{Program: program, Env: home.Env}), home, cwd}
}

func (r *real) open(p adapters.OpenParams) adapters.Session {
	r.Helper()
	p.Thread, p.Cwd, p.Approval, p.Sandbox = "t", r.cwd, "on-request", "workspace-write"
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

func (r *real) host() *adaptertest.Host {
	h := adaptertest.NewHost(r.T)
	h.WantWarnings = true // of a model that codex does not know
	return h
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
say We read the tide tables and found high water at 07:30.
usage 700 40
-- answers --
repeat
think Let me think.
say Answer number ${n}, in a few words.
deltas 5
usage 1200 30
`, "")
	list, err := r.adapter.Models(within(t))
	if err != nil || len(list) == 0 || list[0].ID != "scripted" {
		t.Fatalf("models %+v, %v", list, err)
	}
	s, h := r.open(adapters.OpenParams{}), r.host()
	r.play(h, s, "hello")
	if u := h.Usages(); len(u) != 1 || u[0].InputTokens != 1200 || u[0].OutputTokens != 30 {
		t.Errorf("usages %+v", u)
	}
	if a := s.Compaction(); a.Native == nil {
		t.Fatalf("ability %+v", a.Refusal)
	}
	res, err := h.Compact(within(t), s, "c1")
	if err != nil {
		t.Fatal(err)
	}
	if res.Before != 1230 || res.After == 0 || res.Window != 95_000 || res.Usage == nil || res.Usage.InputTokens != 700 || res.Usage.OutputTokens != 40 {
		t.Errorf("result %+v, usage %+v", res, res.Usage)
	}
	if !strings.Contains(string(res.Disclosed), "high water at 07:30") {
		t.Errorf("disclosed %s", res.Disclosed)
	}
	id := s.NativeID()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := r.open(adapters.OpenParams{NativeID: id})
	if again.NativeID() != id {
		t.Errorf("resumed %s as %s", id, again.NativeID())
	}
	r.play(h, again, "what next?")
	asked := r.server.Asked()
	last := string(asked[len(asked)-1].Body)
	if !strings.Contains(last, "high water at 07:30") || strings.Contains(last, "Answer number 1,") {
		t.Errorf("after the compaction and a restart the model is sent %s", last)
	}
	got, err := again.(adapters.Recoverer).Recover(within(t), adapters.Unfinished{ID: "c1", StartedAt: time.Now().Add(-time.Minute)})
	if err != nil || !strings.Contains(string(got.Disclosed), "07:30") {
		t.Errorf("recovered %+v, %v", got, err)
	}
	_, err = again.(adapters.Recoverer).Recover(within(t), adapters.Unfinished{ID: "c2", StartedAt: time.Now().Add(time.Minute)})
	if !errors.Is(err, adapters.ErrNotCompacted) {
		t.Errorf("a compaction that never was: %v", err)
	}
}

func TestRealApprovalsAreRelayed(t *testing.T) {
	for decision, status := range map[adapters.Decision]string{adapters.Accept: "completed", adapters.Decline: "declined", adapters.Cancel: ""} {
		t.Run(string(decision), func(t *testing.T) {
			r := newReal(t, "-- run --\ncall exec_command {\"cmd\":\"touch made\",\"sandbox_permissions\":\"require_escalated\",\"justification\":\"I need it\"} call_1\n-- after --\nrepeat\nsay Done.\n", "")
			s, h := r.open(adapters.OpenParams{}), r.host()
			h.OnAsk = func(_ context.Context, q adapters.Question) (adapters.Answer, error) {
				if a, ok := q.(adapters.CommandApproval); !ok || !strings.Contains(a.Command, "touch made") || a.Reason != "I need it" {
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
			var got string
			for _, it := range h.Items() {
				if c, ok := it.Body.(transcript.Command); ok {
					got = c.Status
				}
			}
			_, made := os.Stat(filepath.Join(r.cwd, "made"))
			if got != status || (made == nil) != decision.Allows() {
				t.Errorf("the command is %q, its file %v", got, made)
			}
		})
	}
}

func TestRealSeedAndNotesReachTheModel(t *testing.T) {
	r := newReal(t, "-- any --\nrepeat\nsay Yes.\n", "")
	seed := []transcript.Entry{{Form: transcript.FormWhole, Item: transcript.Item{Body: transcript.Checkpoint{Version: "v", Text: "port 8443 is taken"}}}}
	s, h := r.open(adapters.OpenParams{Seed: seed}), r.host()
	h.Notes = "PINNED: never touch prod"
	r.play(h, s, "/compact is only a word here")
	body := string(r.server.Asked()[0].Body)
	for _, want := range []string{"port 8443 is taken", "PINNED: never touch prod", "/compact is only a word here"} {
		if !strings.Contains(body, want) {
			t.Errorf("the model is not told %q", want)
		}
	}
	var req struct{ Input []struct{ Role string } }
	if err := json.Unmarshal([]byte(body), &req); err != nil {
		t.Fatal(err)
	}
}

func TestRealFailures(t *testing.T) {
	for _, tt := range []struct {
		name, cassette string
		class          adapters.Class
	}{
		{"400", "-- a --\nrepeat\nstatus 400\n", adapters.ClassBadRequest},
		{"500", "-- a --\nrepeat\nstatus 500\n", adapters.ClassServer},
		{"429", "-- a --\nrepeat\nstatus 429\n", adapters.ClassRateLimited},
		{"overflow", "server openai\nlimit 10\n-- a --\nrepeat\nsay x\n", adapters.ClassOverflow},
		{"cut", "-- a --\nrepeat\nsay half\ncut\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newReal(t, tt.cassette, "")
			s, h := r.open(adapters.OpenParams{}), r.host()
			_, err := h.Play(within(t), s, "hello")
			e, ok := errors.AsType[*adapters.Error](err)
			if !ok || tt.class != "" && e.Class != tt.class {
				t.Errorf("%T %+v", err, err)
			}
			t.Logf("%v", err)
		})
	}
}

func TestRealCompactionThatFails(t *testing.T) {
	for name, how := range map[string]string{"500": "status 500", "400": "status 400", "empty": "usage 10 0", "empty but for blanks": `say " \n "`} {
		t.Run(name, func(t *testing.T) {
			r := newReal(t, "-- summary --\nwriter\nrepeat\n"+how+"\n-- a --\nrepeat\nsay Answer ${n} of many.\nusage 100 10\n", "")
			s, h := r.open(adapters.OpenParams{}), r.host()
			r.play(h, s, "hello")
			_, err := h.Compact(within(t), s, "c1")
			if err == nil || strings.HasPrefix(name, "empty") != errors.Is(err, adapters.ErrLossy) {
				t.Errorf("the compaction ended with %v", err)
			}
			t.Logf("%v", err)
			r.play(h, s, "still there?")
			contains(t, texts(h), "Answer 2 of many.")
		})
	}
}

// Codex compacts by itself at 90 % of its window, whatever is configured.
func TestRealOwnCompactionIsRecognised(t *testing.T) {
	r := newReal(t, "-- summary --\nwriter\nsay The summary of everything so far.\nusage 700 40\n-- full --\nsay One.\nusage 95000 100\n-- a --\nrepeat\nsay Two.\nusage 900 10\n", "")
	s, h := r.open(adapters.OpenParams{}), r.host()
	r.play(h, s, "one")
	var began, ended int
	h.OnUpdate = func(u adapters.Update) {
		switch u := u.(type) {
		case adapters.CompactionBegan:
			began++
		case adapters.CompactionEnded:
			ended++
			if u.Err != nil || u.Result.Usage == nil || u.Result.Usage.InputTokens != 700 || !strings.Contains(string(u.Result.Disclosed), "everything so far") {
				t.Errorf("ended with %+v", u)
			}
		}
	}
	r.play(h, s, "two")
	if began != 1 || ended != 1 {
		t.Errorf("began %d times, ended %d times", began, ended)
	}
	if u := h.Usages(); len(u) != 2 || u[1].InputTokens != 900 {
		t.Errorf("usages %+v: what the compaction used is not the turn's", u)
	}
}

func TestRealInterruptAndSteer(t *testing.T) {
	r := newReal(t, "-- first --\nsay Beginning\nhold never\n-- second --\nrepeat\nsay Second answer.\n", "")
	s, h := r.open(adapters.OpenParams{}), r.host()
	said := make(chan struct{}, 1)
	h.OnUpdate = func(u adapters.Update) {
		if _, ok := u.(adapters.TextDelta); ok {
			select {
			case said <- struct{}{}:
			default:
			}
		}
	}
	go func() {
		<-said
		if err := s.Interrupt(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if _, err := h.Play(within(t), s, "go"); !errors.Is(err, context.Canceled) {
		t.Errorf("the turn ended with %v", err)
	}
	h.OnUpdate = nil
	r.play(h, s, "again")
	contains(t, texts(h), "Second answer.")
	contains(t, texts(h), "agentMessage: Beginning")
}

func TestRealProbe(t *testing.T) {
	r := newReal(t, "-- a --\nsay x\n", "")
	p := r.adapter.Probe(within(t))
	if p.Version != Tested || p.Compaction.Native == nil || len(p.Problems) != 0 || p.Login != "ok" {
		t.Errorf("%+v", p)
	}
}

func TestRealUnknownThreadAndLease(t *testing.T) {
	r := newReal(t, "-- a --\nrepeat\nsay x\n", "")
	_, err := r.adapter.Open(within(t), adapters.OpenParams{NativeID: "01a230ed-0000-70d3-aab2-c794b1a85cb4", Cwd: r.cwd})
	if !errors.Is(err, adapters.ErrNoSession) {
		t.Errorf("an unknown thread: %v", err)
	}
	s, h := r.open(adapters.OpenParams{}), r.host()
	r.play(h, s, "hi")
	_, err = r.adapter.Open(within(t), adapters.OpenParams{NativeID: s.NativeID(), Cwd: r.cwd})
	if !errors.Is(err, adapters.ErrInUse) {
		t.Errorf("a second session on one thread: %v", err)
	}
}

// What is left of a thread's file after a full disk or somebody's editor is no thread; what
// codex can read of it is one.
func TestRealThreadWhoseFileIsDamaged(t *testing.T) {
	for name, tt := range map[string]struct {
		damage func(b []byte) []byte
		lost   bool
	}{
		"empty":      {func([]byte) []byte { return nil }, true},
		"other text": {func([]byte) []byte { return []byte("not what it was\n") }, true},
		"no text":    {func([]byte) []byte { return []byte{0xff, 0xfe, 0x00, 0x80, '\n'} }, true},
		"cut":        {func(b []byte) []byte { return b[:len(b)-len(b)/4] }, false},
	} {
		r := newReal(t, "-- a --\nrepeat\nsay x\n", "")
		s, h := r.open(adapters.OpenParams{}), r.host()
		r.play(h, s, "hi")
		path := s.(*session).path
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, tt.damage(b), 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := r.adapter.Open(within(t), adapters.OpenParams{NativeID: s.NativeID(), Cwd: r.cwd})
		if (err != nil) != tt.lost || errors.Is(err, adapters.ErrNoSession) != tt.lost {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = again.Close() // always nil
		}
	}
}

func TestRealDeathInATurn(t *testing.T) {
	r := newReal(t, "-- first --\nsay Beginning\nhold never\n-- second --\nrepeat\nsay Second answer.\n", "")
	s, h := r.open(adapters.OpenParams{}), r.host()
	done := false
	h.OnUpdate = func(u adapters.Update) {
		if _, ok := u.(adapters.TextDelta); ok && !done {
			done = true
			s.(*session).peer.conn.Kill()
		}
	}
	_, err := h.Play(within(t), s, "go")
	if err == nil || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the turn it died in ended with %v", err)
	}
	h.OnUpdate = nil
	r.play(h, s, "again")
	contains(t, texts(h), "Second answer.")
	body := string(r.server.Asked()[1].Body)
	if !strings.Contains(body, `"go"`) {
		t.Errorf("the resumed thread has not what was said before: %s", body)
	}
}
