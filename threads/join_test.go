package threads_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func (b *bench) join(id transcript.ThreadID) threads.Joined {
	b.t.Helper()
	j, err := b.svc.Join(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return j
}

// whole joins a thread with all its turns.
func (b *bench) whole(id transcript.ThreadID) threads.Joined {
	b.t.Helper()
	j, err := b.svc.JoinWith(b.t.Context(), id, threads.JoinQuery{Bytes: 1 << 20})
	if err != nil {
		b.t.Fatal(err)
	}
	return j
}

// active is the turn in progress, or nil.
func (b *bench) active(id transcript.ThreadID) *threads.TurnView {
	b.t.Helper()
	for _, turn := range b.whole(id).Turns {
		if turn.Status == transcript.TurnInProgress {
			return &turn
		}
	}
	return nil
}

func itemTexts(items []threads.ItemView) []string {
	out := []string{}
	for _, v := range items {
		text := string(v.Item.Body.Kind()) + ": " + transcript.Text(v.Item.Body)
		if v.Result != nil {
			text += " = " + transcript.Text(v.Result.Body)
		}
		out = append(out, text)
	}
	return out
}

func TestJoinOfAnIdleThread(t *testing.T) {
	b := newBench(t)
	id := b.create()
	j := b.join(id)
	if j.Usage != nil || j.Turns != nil || j.Page != nil || len(j.Requests) != 0 || j.TurnsCursor != "" || j.ItemsCursor != "" || j.AsOf.N != 1 {
		t.Errorf("an empty thread is joined as %+v", j)
	}
	b.turn(id, "one", "1")
	j = b.join(id)
	if j.Usage == nil || j.Usage.Context != 7 || j.Turns != nil || j.Thread.Turns != 1 {
		t.Errorf("joined %+v", j)
	}
	if _, err := b.svc.Join(t.Context(), "nope"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("join of an unknown thread: %v", err)
	}
}

// What the joined client has and what it is told from AsOf on is the whole turn,
// each item once.
func TestJoinDuringATurnAndFollowingFromThereIsTheWholeTurn(t *testing.T) {
	b := newBench(t, func(c *threads.Config) {
		c.Tools = map[string]threads.Tool{"look": func(context.Context, transcript.ToolCall, threads.Asker) (transcript.ToolResult, error) {
			return transcript.ToolResult{Output: transcript.TextParts("seen")}, nil
		}}
	})
	id := b.create()
	b.turn(id, "before", "b")
	ack := b.start(id, "use it")
	b.request().send(t, adapters.CallChunk{Call: transcript.ToolCall{CallID: "c1", Name: "look", Arguments: []byte(`{}`)}}, adapters.Done{Stop: adapters.StopTools})
	r := b.request()
	r.send(t, adapters.MessageText{Text: "I have "}, adapters.MessageText{})
	j := b.whole(id)
	active := j.Turns[len(j.Turns)-1]
	if j.Thread.Status != threads.StatusActive || active.ID != ack.Turn.ID || active.View != threads.ItemsFull {
		t.Fatalf("joined %+v", j)
	}
	if diff := cmp.Diff([]string{"userMessage: use it", "toolCall: look\n = seen"}, itemTexts(active.Items)); diff != "" {
		t.Errorf("items of the turn in progress:\n%s", diff)
	}
	r.answer(t, "looked")
	var started, completed, text int
	for m, err := range b.svc.Follow(t.Context(), id, &j.AsOf, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind != events.KindEvent {
			continue
		}
		p, err := threads.Decode(m.Event)
		if err != nil {
			t.Fatal(err)
		}
		switch p := p.(type) {
		case threads.ItemStarted:
			started++
		case threads.ItemCompleted:
			completed++
			text += len(transcript.Text(p.Item.Body))
		}
		if ended(ack.Turn.ID)(p) {
			break
		}
	}
	// It is announced again only if it is still open when following begins.
	if started > 1 || completed != 1 || text != len("I have looked") {
		t.Errorf("after joining: %d items started, %d completed, %d bytes of text; want the streamed message once", started, completed, text)
	}
}

func TestJoinShowsWhatIsStillOpenButForStreamedTexts(t *testing.T) {
	hold, called := make(chan struct{}), make(chan struct{})
	b := newBench(t, func(c *threads.Config) {
		c.Tools = map[string]threads.Tool{"wait": func(ctx context.Context, _ transcript.ToolCall, _ threads.Asker) (transcript.ToolResult, error) {
			close(called)
			<-hold
			return transcript.ToolResult{Output: transcript.TextParts("done")}, nil
		}}
	})
	id := b.create()
	ack := b.start(id, "wait")
	b.request().send(t, adapters.CallChunk{Call: transcript.ToolCall{CallID: "c1", Name: "wait", Arguments: []byte(`{}`)}}, adapters.Done{Stop: adapters.StopTools})
	<-called
	if diff := cmp.Diff([]string{"userMessage: wait", "toolCall: wait\n"}, itemTexts(b.active(id).Items)); diff != "" {
		t.Error(diff)
	}
	close(hold)
	b.request().answer(t, "ok")
	b.await(id, ended(ack.Turn.ID))
}

// A page of a join is of its moment, too, and has no text that is still streamed.
func TestTheTurnsOfAJoinAreThoseOfItsMoment(t *testing.T) {
	b := newBench(t)
	id := b.create()
	b.turn(id, "one", "1")
	ack := b.start(id, "two")
	r := b.request()
	r.send(t, adapters.MessageText{Text: "so fa"}, adapters.MessageText{})
	for view, want := range map[threads.ItemsView][]string{
		threads.ItemsFull: {"userMessage: two"}, threads.ItemsSummary: {"userMessage: two"}, threads.ItemsNone: {},
	} {
		q := threads.JoinQuery{Bytes: 1, Page: &threads.TurnQuery{PageQuery: threads.PageQuery{Desc: true, Limit: 1}, View: view}}
		j, err := b.svc.JoinWith(t.Context(), id, q)
		if err != nil {
			t.Fatal(err)
		}
		if len(j.Page.Turns) != 1 || j.Page.Turns[0].ID != ack.Turn.ID || j.Page.Next == "" {
			t.Errorf("the page is %+v", j.Page)
		}
		if diff := cmp.Diff(want, itemTexts(j.Page.Turns[0].Items)); diff != "" {
			t.Errorf("items in view %s:\n%s", view, diff)
		}
		if len(j.Turns) != 2 || j.Turns[0].View != threads.ItemsNone || len(j.Turns[1].Items) != 0 {
			t.Errorf("with one byte, the turns are %+v", j.Turns)
		}
	}
	r.answer(t, "r")
	b.await(id, ended(ack.Turn.ID))
	if _, err := b.svc.JoinWith(t.Context(), id, threads.JoinQuery{Page: &threads.TurnQuery{View: "half"}}); fault.CodeOf(err) != fault.Invalid {
		t.Errorf("a view that does not exist: %v", err)
	}
}

// All turns come, the newest in full; one that fits on no page comes in summary.
func TestAJoinShowsTheNewestTurnsInFullAsFarAsTheyFit(t *testing.T) {
	t.Parallel()
	b := newBench(t, never)
	id := b.create()
	half := strings.Repeat("x", 5<<19) // 2.5 MiB
	for _, text := range []string{"small", half, "small", half} {
		b.turn(id, "q", text)
	}
	views := func(bytes int) (got []string) {
		t.Helper()
		j, err := b.svc.JoinWith(t.Context(), id, threads.JoinQuery{Bytes: bytes})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range j.Turns {
			got = append(got, fmt.Sprintf("%s %d", v.View, len(v.Items)))
		}
		return got
	}
	if diff := cmp.Diff([]string{"notLoaded 0", "notLoaded 0", "full 2", "full 2"}, views(4<<20)); diff != "" {
		t.Error(diff)
	}
	ack := b.start(id, half) // 5 MiB in one turn
	b.request().answer(t, half)
	b.await(id, ended(ack.Turn.ID))
	if diff := cmp.Diff([]string{"notLoaded 0", "full 2", "full 2", "full 2", "summary 2"}, views(10<<20+12)); diff != "" {
		t.Error(diff)
	}
}

func TestCursorsOfAJoinPageBackFromTheNewest(t *testing.T) {
	b := newBench(t)
	id := b.create()
	for i := range 3 {
		b.turn(id, fmt.Sprint("q", i), fmt.Sprint("a", i))
	}
	j := b.join(id)
	b.turn(id, "later", "later")
	turns, err1 := b.svc.ListTurns(t.Context(), id, threads.TurnQuery{PageQuery: threads.PageQuery{Cursor: j.TurnsCursor, Desc: true, Limit: 2}, View: threads.ItemsSummary})
	items, err2 := b.svc.ListItems(t.Context(), id, threads.ItemQuery{PageQuery: threads.PageQuery{Cursor: j.ItemsCursor, Desc: true, Limit: 2}})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"userMessage: q2", "agentMessage: a2"}, itemTexts(turns.Turns[0].Items)); diff != "" {
		t.Errorf("the first page of turns begins with:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"agentMessage: a2", "userMessage: q2"}, itemTexts(items.Items)); diff != "" {
		t.Errorf("the first page of items:\n%s", diff)
	}
	more, err := b.svc.ListTurns(t.Context(), id, threads.TurnQuery{PageQuery: threads.PageQuery{Cursor: turns.Next, Desc: true}})
	if err != nil || len(more.Turns) != 1 || more.Next != "" {
		t.Errorf("the page after: %+v, %v", more, err)
	}
	newer, err := b.svc.ListTurns(t.Context(), id, threads.TurnQuery{PageQuery: threads.PageQuery{Cursor: turns.Back}})
	if err != nil || len(newer.Turns) != 2 || newer.Turns[0].ID != turns.Turns[0].ID {
		t.Errorf("the way back begins with %+v, %v; want the turn that the page began with, then the newer one", newer.Turns, err)
	}
	back, err := b.svc.ListItems(t.Context(), id, threads.ItemQuery{PageQuery: threads.PageQuery{Cursor: items.Back}})
	if err != nil || len(back.Items) != 3 || back.Items[0].Item.ID != items.Items[0].Item.ID {
		t.Errorf("the way back has %d items, %v", len(back.Items), err)
	}
}

func TestBadPageCursorsAreToldInCodexsWords(t *testing.T) {
	b := newBench(t)
	id := b.create()
	b.turn(id, "q", "a")
	for _, cursor := range []string{"zzz", "-1", "@-1", "@1", "1", "@", "7", "1|x"} {
		_, err := b.svc.ListTurns(t.Context(), id, threads.TurnQuery{PageQuery: threads.PageQuery{Cursor: cursor}})
		if fault.CodeOf(err) != fault.Invalid || fault.MessageOf(err) != "invalid cursor: "+cursor {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

func TestTurnsShowTheirItemsAsAskedFor(t *testing.T) {
	b := newBench(t, func(c *threads.Config) {
		c.Tools = map[string]threads.Tool{"look": func(context.Context, transcript.ToolCall, threads.Asker) (transcript.ToolResult, error) {
			return transcript.ToolResult{Output: transcript.TextParts("seen")}, nil
		}}
	})
	id := b.create()
	ack := b.start(id, "first")
	b.request().send(t, adapters.MessageText{Text: "I look"}, adapters.CallChunk{Call: transcript.ToolCall{CallID: "c1", Name: "look", Arguments: []byte(`{}`)}}, adapters.Done{Stop: adapters.StopTools})
	b.request().answer(t, "I saw")
	b.await(id, ended(ack.Turn.ID))
	b.compact(threads.CompactParams{Thread: id, Route: compaction.RouteNative}) // a turn without messages
	for view, want := range map[threads.ItemsView][][]string{
		"":                   {{}, {}},
		threads.ItemsNone:    {{}, {}},
		threads.ItemsSummary: {{"userMessage: first", "agentMessage: I saw"}, {}},
		threads.ItemsFull:    {{"userMessage: first", "agentMessage: I look", "toolCall: look\n = seen", "agentMessage: I saw"}, {}},
	} {
		page, err := b.svc.ListTurns(t.Context(), id, threads.TurnQuery{View: view})
		if err != nil {
			t.Fatal(err)
		}
		var got [][]string
		for _, v := range page.Turns {
			got = append(got, itemTexts(v.Items))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("view %q:\n%s", view, diff)
		}
	}
	if _, err := b.svc.ListTurns(t.Context(), id, threads.TurnQuery{View: "half"}); fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "notLoaded, summary, full") {
		t.Errorf("a view that does not exist: %v", err)
	}
}

// Turns in full view come as far as they fit; one that fits nowhere is shown in
// summary. Together the pages have every turn once.
func TestTurnsInFullViewComeAsFarAsTheyFit(t *testing.T) {
	t.Parallel()
	b := newBench(t, never)
	id := b.create()
	half := strings.Repeat("x", 5<<19) // 2.5 MiB
	for _, text := range []string{"small", half, half, "small"} {
		b.turn(id, "q", text)
	}
	ack := b.start(id, half) // 5 MiB in one turn
	b.request().answer(t, half)
	b.await(id, ended(ack.Turn.ID))
	var views []string
	for cursor := ""; ; {
		page, err := b.svc.ListTurns(t.Context(), id, threads.TurnQuery{PageQuery: threads.PageQuery{Cursor: cursor}, View: threads.ItemsFull})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.Turns {
			views = append(views, fmt.Sprintf("%s %d", v.View, len(v.Items)))
		}
		views = append(views, "page")
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	want := []string{"full 2", "full 2", "page", "full 2", "full 2", "page", "summary 2", "page"}
	if diff := cmp.Diff(want, views); diff != "" {
		t.Error(diff)
	}
}

func TestSteerNamesTheTurnThatItIsFor(t *testing.T) {
	b := newBench(t)
	id := b.laden()
	steer := func(expect transcript.TurnID) error {
		_, err := b.svc.SteerTurn(t.Context(), threads.StartTurnParams{Thread: id, Input: transcript.TextParts("more")}, expect)
		return err
	}
	wants := func(err error, code fault.Code, text string) {
		t.Helper()
		if fault.CodeOf(err) != code || fault.MessageOf(err) != text {
			t.Errorf("%v (%s), want %s %q", err, fault.CodeOf(err), code, text)
		}
	}
	wants(steer("x"), fault.Invalid, "no active turn to steer")
	ack := b.start(id, "count")
	r := b.request()
	wants(steer("x"), fault.Invalid, "expected active turn id `x` but found `"+string(ack.Turn.ID)+"`")
	p := threads.StartTurnParams{Thread: id, Input: transcript.TextParts("backwards"), IdempotencyKey: "k"}
	for range 2 { // the second is the same request again
		got, err := b.svc.SteerTurn(t.Context(), p, ack.Turn.ID)
		if err != nil || !got.Steered || got.Turn.ID != ack.Turn.ID {
			t.Fatalf("steer: %+v, %v", got, err)
		}
	}
	r.answer(t, "one")
	if got := strings.Join(b.request().answerWith(t, "two").texts(), "\n"); strings.Count(got, "backwards") != 1 {
		t.Errorf("the model reads the steering input %d times", strings.Count(got, "backwards"))
	}
	b.await(id, ended(ack.Turn.ID))
	reached, release := holdAt(t, "compaction/running")
	comp, err := b.svc.StartCompaction(t.Context(), threads.CompactParams{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	<-reached
	err = steer(comp.Record.TurnID)
	wants(err, fault.Busy, "cannot steer a compact turn")
	f, ok := errors.AsType[*fault.Error](err)
	if data, is := f.Data.(threads.NotSteerable); !ok || !is || data.TurnKind != transcript.TurnCompact {
		t.Errorf("data %+v", f.Data)
	}
	release()
	b.await(id, ended(comp.Record.TurnID))
}

func TestQueueIsListedAndItsInputsAreTakenOut(t *testing.T) {
	b := newBench(t)
	id := b.create()
	first := b.start(id, "one")
	second, third := b.start(id, "two"), b.start(id, "three")
	q, err := b.svc.Queue(t.Context(), id)
	if err != nil || len(q) != 2 || q[0].TurnID != second.Turn.ID || transcript.PartsText(q[1].Input) != "three" {
		t.Fatalf("queue %+v, %v", q, err)
	}
	n := len(b.payloads(id))
	for _, c := range []struct {
		turn transcript.TurnID
		want bool
	}{{second.Turn.ID, true}, {second.Turn.ID, false}, {first.Turn.ID, false}, {"x", false}} {
		if got, err := b.svc.DeleteQueued(t.Context(), id, c.turn); err != nil || got != c.want {
			t.Errorf("delete %s: %v, %v, want %v", c.turn, got, err, c.want)
		}
	}
	if got := len(b.payloads(id)) - n; got != 1 {
		t.Errorf("%d events, want one thread/queue/changed", got)
	}
	b.request().answer(t, "1")
	b.request().answer(t, "3")
	b.await(id, ended(third.Turn.ID))
}

func TestThreadsAreLoadedOnDemandAndUnloadedWhenIdle(t *testing.T) {
	b := newBench(t)
	id, other := b.create(), b.create()
	b.turn(id, "q", "a")
	before := b.see(id)
	if got := b.svc.Loaded(); len(got) != 2 || got[0] > got[1] {
		t.Errorf("loaded: %v", got)
	}
	if err := b.svc.Unload(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]transcript.ThreadID{other}, b.svc.Loaded()); diff != "" {
		t.Error(diff)
	}
	for _, unloaded := range []transcript.ThreadID{id, "nope"} {
		if err := b.svc.Unload(t.Context(), unloaded); err != nil {
			t.Errorf("unload of what is not loaded: %v", err)
		}
	}
	if diff := cmp.Diff(before, b.see(id)); diff != "" {
		t.Errorf("the thread came back different:\n%s", diff)
	}
	ack := b.start(id, "busy")
	r := b.request()
	if err := b.svc.Unload(t.Context(), id); fault.CodeOf(err) != fault.Busy {
		t.Errorf("unload during a turn: %v, want busy", err)
	}
	r.answer(t, "done")
	b.await(id, ended(ack.Turn.ID))
	b.turn(id, "still there?", "yes")
}
