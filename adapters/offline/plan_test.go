package offline

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

func TestWhichQuestionsAskForThePlan(t *testing.T) {
	for question, want := range map[string]planAsk{
		"what is still open in the plan":       planOpen,
		"what is open in the plan for staging": planOpen,
		"which steps of the plan remain":       planOpen,
		"what is the plan":                     planOpen,
		"what is left to do":                   planOpen,
		"which todos are not done yet":         planOpen,
		"which todos are done":                 planDone,
		"what is finished":                     planDone,
		"was ist im Plan noch offen":           planOpen,
		"was ist noch zu tun":                  planOpen,
		"was ist im Plan schon erledigt":       planDone,
		"qué falta en el plan":                 planOpen,
		"计划里还有什么没完成":                           planOpen,
		"计划里已经完成了什么":                           planDone,
		"还有哪些步骤未完成":                            planOpen,
		"計画で残っているのは何ですか":                       planOpen,
		"which port is open":                   planNone,
		"what was the plan for the cache":      planNone,
		"what has to run before it is done":    planNone,
		"is the test done":                     planNone,
		"还剩多少内存":                               planNone,
		"哪个端口是打开的":                             planNone,
	} {
		if got := asksForPlan(question); got != want {
			t.Errorf("%q: got %d, want %d", question, got, want)
		}
	}
}

const (
	firstTodos = `{"todos":[{"content":"Fix the pump","status":"in_progress","activeForm":"Fixing"},{"content":"Paint the hull","status":"pending","activeForm":"Painting"}]}`
	newTodos   = `{"todos":[{"content":"Fix the pump","status":"completed","activeForm":"Fixing"},{"content":"Paint the hull","status":"in_progress","activeForm":"Painting"},{"content":"Launch","status":"pending","activeForm":"Launching"}]}`
	notes      = "Notes.\n\n## Plan\n- [completed] Fix the pump\n- [inProgress] Paint the hull\n- [pending] Launch\n\n## Commands\n$ make pump -> ok"
)

func TestThePlanIsTheNewestOne(t *testing.T) {
	clippedTodos := call("2", "TodoWrite", `{"clipped":"TodoWrite\nFix the pump\n[…]"}`)
	for _, c := range []struct {
		name   string
		bodies []transcript.Body
		forms  map[int]transcript.Form
		want   []string // the quotes
	}{
		{
			name: "a todo list", bodies: []transcript.Body{call("1", "TodoWrite", firstTodos), call("2", "TodoWrite", newTodos)},
			want: []string{`call of TodoWrite: "[in_progress] Paint the hull"`, `call of TodoWrite: "[pending] Launch"`},
		},
		{
			name: "update_plan", bodies: []transcript.Body{call("1", "update_plan", `{"explanation":"x","plan":[{"step":"Fix the pump","status":"completed"},{"step":"Launch","status":"pending"}]}`)},
			want: []string{`call of update_plan: "[pending] Launch"`},
		},
		{
			name: "checkboxes", bodies: []transcript.Body{call("1", "update_todo_list", `{"todos":"- [x] Fix the pump\n- [ ] Launch\n"}`)},
			want: []string{`call of update_todo_list: "- [ ] Launch"`},
		},
		{
			name: "a plan item", bodies: []transcript.Body{call("1", "TodoWrite", firstTodos), transcript.Plan{Steps: []transcript.PlanStep{{Step: "Launch", Status: "pending"}}}},
			want: []string{`the plan: "[pending] Launch"`},
		},
		{
			name: "the notes of a checkpoint", bodies: []transcript.Body{transcript.Checkpoint{Text: notes}, user("Go on.")},
			want: []string{`checkpoint notes › Plan: "- [inProgress] Paint the hull"`, `checkpoint notes › Plan: "- [pending] Launch"`},
		},
		{
			name: "a todo list after a checkpoint", bodies: []transcript.Body{transcript.Checkpoint{Text: notes}, call("1", "TodoWrite", `{"todos":[{"content":"Sail","status":"pending"}]}`)},
			want: []string{`call of TodoWrite: "[pending] Sail"`},
		},
		{
			name:   "notes rather than an old list, when the new one was clipped",
			bodies: []transcript.Body{transcript.Checkpoint{Text: notes}, call("1", "TodoWrite", firstTodos), clippedTodos},
			forms:  map[int]transcript.Form{2: transcript.FormClipped},
			want:   []string{`checkpoint notes › Plan: "- [inProgress] Paint the hull"`, `checkpoint notes › Plan: "- [pending] Launch"`},
		},
		{
			name: "all done", bodies: []transcript.Body{call("1", "TodoWrite", `{"todos":[{"content":"Fix the pump","status":"completed"}]}`)},
			want: []string{"call of TodoWrite: none of its 1 steps"},
		},
		{
			name:   "no plan, but words about it",
			bodies: []transcript.Body{user("Still open: the hull."), call("1", "order", `{"items":[{"title":"an open can of paint"}]}`)},
			want:   []string{`your message: "Still open: the hull."`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			es := entries(append(c.bodies, user("What is still open in the plan?"))...)
			for i, f := range c.forms {
				es[i].Form = f
			}
			quotes := strings.Split(strings.Split(answer(es), "\n\nNothing")[0], "\n- ")[1:]
			if diff := cmp.Diff(c.want, quotes[:min(len(quotes), max(1, len(c.want)))]); diff != "" {
				t.Errorf("quotes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPlanInACompoundQuestion(t *testing.T) {
	for name, before := range map[string]transcript.Body{
		"before a checkpoint": call("1", "TodoWrite", newTodos), "after a checkpoint": transcript.Checkpoint{Text: notes},
	} {
		got := answer(entries(user("The port is 7480."), before, user("Which port is it, what is done and what remains in the plan?")))
		sections := labelled(t, got, "Which port is it:", "what is done:", "what remains in the plan:")
		for i, want := range []string{"7480", "Fix the pump", "Paint the hull"} {
			if !strings.Contains(sections[i], want) || i != 1 && strings.Contains(sections[i], "Fix the pump") {
				t.Errorf("%s: section %d lacks %q or has more:\n%s", name, i, want, got)
			}
		}
		if !strings.Contains(sections[2], "Launch") || strings.Contains(got, "Nothing in my context") {
			t.Errorf("%s: got:\n%s", name, got)
		}
	}
}

func TestAnOldPlanIsNoSource(t *testing.T) {
	got := answer(entries(
		call("1", "TodoWrite", `{"todos":[{"content":"Paint the hull red","status":"pending"}]}`),
		call("2", "TodoWrite", `{"todos":[{"content":"Paint the hull green","status":"pending"}]}`),
		user("In which colour do we paint the hull?"),
	))
	if !strings.Contains(got, "hull green") || strings.Contains(got, "hull red") {
		t.Errorf("answer:\n%s", got)
	}
}
