package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// A scene is a session whose codex compacts as a test says.
type scene struct {
	s     adapters.Session
	h     *adaptertest.Host
	dials atomic.Int32
	saw   func() []string // the methods that the newest codex was asked for
}

// stage opens a session. Act is what codex does about a compaction that it is asked for,
// in a goroutine of its own; listed is the history that it lists.
func stage(t *testing.T, o Options, listed string, act func(d *double, id string)) *scene {
	t.Helper()
	sc := &scene{h: adaptertest.NewHost(t)}
	a := playWith(t, nil, func(d *double) {
		sc.dials.Add(1)
		sc.saw = func() []string {
			d.mu.Lock()
			defer d.mu.Unlock()
			return slices.Clone(d.seen)
		}
		d.override = func(d *double, id, method string, _ json.RawMessage) bool {
			switch method {
			case "thread/compact/start":
				d.work.Go(func() { act(d, id) })
				return true
			case "thread/turns/list":
				if listed == "" {
					d.say(`{"id":%s,"error":{"code":-32603,"message":"the disk is gone"}}`, id)
				} else {
					d.say(`{"id":%s,"result":{"data":[%s]}}`, id, listed)
				}
				return true
			}
			return false
		}
	}, o)
	s, err := a.Open(t.Context(), adapters.OpenParams{Thread: "t", Cwd: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	sc.s = s
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return sc
}

// What the history lists of a compaction that was completed, and of one that was not.
var (
	compacted    = fmt.Sprintf(`{"id":"c","status":"completed","startedAt":%d,"items":[{"type":"contextCompaction","id":"i","completedAtMs":1}]}`, time.Now().Add(time.Hour).Unix())
	notCompacted = fmt.Sprintf(`{"id":"c","status":"interrupted","startedAt":%d,"items":[]}`, time.Now().Add(time.Hour).Unix())
)

func (d *double) accept(id string) { d.say(`{"id":%s,"result":{}}`, id) }

func (d *double) starts(turn string) {
	d.note("turn/started", `"turn":%s`, view(turn, "inProgress", ""))
}

func (d *double) replaces(turn string) {
	d.note("item/completed", `"turnId":%q,"item":{"type":"contextCompaction","id":"i"}`, turn)
}

// other is note about another thread of the same process, such as that of a helper.
func (d *double) other(method, format string, args ...any) {
	d.say(`{"method":%q,"params":{"threadId":"01a00000-0000-7000-8000-00000000beef",%s}}`, method, fmt.Sprintf(format, args...))
}

func isNil(err error) bool { return err == nil }

func isA(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// isUnclaimed: it did not happen as far as anybody knows, and nobody says that it did.
func isUnclaimed(err error) bool { return err != nil && !errors.Is(err, adapters.ErrUncertain) }

// Only the item of our own turn completes a compaction: not that of another turn or
// thread, not one of before, and not the end of the turn.
func TestACompactionIsTheItemOfItsOwnTurn(t *testing.T) {
	for name, tt := range map[string]struct {
		act  func(d *double, id string)
		want func(err error) bool
	}{
		"its item": {func(d *double, id string) {
			d.accept(id)
			d.starts("c")
			d.replaces("c")
			d.finish("c", "completed", "")
		}, isNil},
		"its item, then interrupted": {func(d *double, id string) {
			d.accept(id)
			d.starts("c")
			d.replaces("c")
			d.finish("c", "interrupted", "")
		}, isNil},
		"its item, then failed": {func(d *double, id string) {
			d.accept(id)
			d.starts("c")
			d.replaces("c")
			d.finish("c", "failed", `{"message":"x"}`)
		}, isNil},
		"no item": {func(d *double, id string) { d.accept(id); d.starts("c"); d.finish("c", "completed", "") }, isUnclaimed},
		"the item of another turn": {func(d *double, id string) {
			d.accept(id)
			d.starts("c")
			d.replaces("other")
			d.finish("c", "completed", "")
		}, isUnclaimed},
		"the end of another turn": {func(d *double, id string) {
			d.accept(id)
			d.starts("c")
			d.finish("other", "completed", "")
			d.replaces("c")
			d.finish("c", "completed", "")
		}, isNil},
		"an item of before": {func(d *double, id string) {
			d.replaces("o")
			d.finish("o", "completed", "")
			d.accept(id)
			d.starts("c")
			d.finish("c", "completed", "")
		}, isUnclaimed},
		"an answer that comes last": {func(d *double, id string) {
			d.starts("c")
			d.replaces("c")
			d.finish("c", "completed", "")
			d.accept(id)
		}, isNil},
		"another item": {func(d *double, id string) {
			d.accept(id)
			d.starts("c")
			d.note("item/completed", `"turnId":"c","item":{"type":"agentMessage","id":"i"}`)
			d.finish("c", "completed", "")
		}, isUnclaimed},
		"an item that began": {func(d *double, id string) {
			d.accept(id)
			d.starts("c")
			d.note("item/started", `"turnId":"c","item":{"type":"contextCompaction","id":"i"}`)
			d.finish("c", "completed", "")
		}, isUnclaimed},
		"another thread's compaction": {func(d *double, id string) {
			d.accept(id)
			d.other("turn/started", `"turn":%s`, view("o", "inProgress", ""))
			d.other("item/completed", `"turnId":"o","item":{"type":"contextCompaction","id":"i"}`)
			d.other("turn/completed", `"turn":%s`, view("o", "completed", ""))
			d.starts("c")
			d.finish("c", "completed", "")
		}, isUnclaimed},
		"beside another thread": {func(d *double, id string) {
			d.accept(id)
			d.other("turn/started", `"turn":%s`, view("o", "inProgress", ""))
			d.starts("c")
			d.other("turn/completed", `"turn":%s`, view("o", "failed", `{"message":"x"}`))
			d.replaces("c")
			d.finish("c", "completed", "")
		}, isNil},
		"a failure": {func(d *double, id string) {
			d.accept(id)
			d.starts("c")
			d.finish("c", "failed", `{"message":"full","codexErrorInfo":"contextWindowExceeded"}`)
		}, isA(adapters.ErrOverflow)},
		"a refusal": {func(d *double, id string) { d.say(`{"id":%s,"error":{"code":-32600,"message":"not now"}}`, id) }, isUnclaimed},
		"garbage in it": {func(d *double, id string) {
			d.accept(id)
			d.say(`nonsense`)
			d.say(`{"method":"turn/started","params":7}`)
			d.starts("c")
			d.say(`[]`)
			d.replaces("c")
			d.finish("c", "completed", "")
		}, isNil},
		"a hook of the user's codex": {func(d *double, id string) {
			d.accept(id)
			d.starts("c")
			d.note("hook/completed", `"turnId":"c","run":{"eventName":"preCompact","status":"stopped","entries":[{"kind":"stop","text":"no"}]}`)
			d.finish("c", "interrupted", "")
		}, func(err error) bool { return fault.CodeOf(err) == fault.Denied && strings.Contains(err.Error(), "no") }},
	} {
		t.Run(name, func(t *testing.T) {
			sc := stage(t, Options{}, notCompacted, tt.act)
			if _, err := sc.h.Compact(within(t), sc.s, "c1"); !tt.want(err) {
				t.Errorf("%v", err)
			}
		})
	}
}

// Where the end was not seen, the history is looked at: what it has is claimed, with a
// warning; what it has not, is not; and where it cannot be read, nobody knows.
func TestAnEndThatWasNotSeenIsLookedFor(t *testing.T) {
	dies := func(d *double, id string) { d.accept(id); d.starts("c"); d.conn.Kill() }
	silent := func(d *double, id string) { d.accept(id); d.starts("c") }
	for name, tt := range map[string]struct {
		listed string
		o      Options
		act    func(d *double, id string)
		want   func(err error) bool
	}{
		"it died, and had done it":           {compacted, Options{}, dies, isNil},
		"it died, and had not":               {notCompacted, Options{}, dies, isUnclaimed},
		"it died, and who knows":             {"", Options{}, dies, isA(adapters.ErrUncertain)},
		"it died before it was asked":        {notCompacted, Options{}, func(d *double, _ string) { d.conn.Kill() }, isUnclaimed},
		"it hangs, and had done it":          {compacted, Options{CompactTimeout: time.Millisecond, StopTimeout: time.Millisecond}, silent, isNil},
		"it hangs, and had not":              {notCompacted, Options{CompactTimeout: time.Millisecond, StopTimeout: time.Millisecond}, silent, isUnclaimed},
		"it hangs before it accepts":         {notCompacted, Options{CompactTimeout: time.Millisecond, StopTimeout: time.Millisecond}, func(*double, string) {}, isUnclaimed},
		"it speaks of others without an end": {notCompacted, Options{CompactTimeout: 50 * time.Millisecond, StopTimeout: time.Millisecond}, floods, isUnclaimed},
	} {
		t.Run(name, func(t *testing.T) {
			sc := stage(t, tt.o, tt.listed, tt.act)
			res, err := sc.h.Compact(within(t), sc.s, "c1")
			if !tt.want(err) {
				t.Errorf("%v", err)
			}
			if err == nil && len(res.Warnings) == 0 {
				t.Error("nobody is told that the end was not seen")
			}
			if n := sc.dials.Load(); n != 2 {
				t.Errorf("%d processes, want another one after the first", n)
			}
			if !slices.Contains(sc.saw(), "thread/resume") {
				t.Errorf("the next codex was asked for %v", sc.saw())
			}
		})
	}
}

// floods tells of another turn until nobody listens.
func floods(d *double, id string) {
	d.accept(id)
	d.starts("c")
	for line := fmt.Appendf(nil, `{"method":"item/agentMessage/delta","params":{"threadId":%q,"turnId":"o","delta":"x"}}`, threadID); ; {
		if d.conn.Send(context.Background(), line) != nil {
			return
		}
	}
}

// What is interrupted in time ends in codex's own words, and the process stays.
func TestACompactionThatTakesTooLongIsInterrupted(t *testing.T) {
	sc := stage(t, Options{CompactTimeout: time.Millisecond}, notCompacted, func(d *double, id string) {
		d.accept(id)
		turn, stop := d.begin()
		d.starts(turn)
		<-stop
		d.finish(turn, "interrupted", "")
	})
	_, err := sc.h.Compact(within(t), sc.s, "c1")
	if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "its history is as it was") {
		t.Errorf("%v", err)
	}
	if n := sc.dials.Load(); n != 1 {
		t.Errorf("%d processes", n)
	}
}
