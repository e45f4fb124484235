package offline

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// planAsk says which steps of the plan a clause asks for.
type planAsk int

const (
	planNone planAsk = iota
	planOpen
	planDone
)

// asksForPlan reports whether a clause asks how far the plan is: it names the plan
// and a status, or has no words but for one of these. "Which port is open?" does
// not, nor does "What was the plan for the cache?".
func asksForPlan(text string) planAsk {
	var names, open, done, not, other bool
	words(text, func(w []byte) {
		switch {
		case planNames[string(w)]:
			names = true
		case openWords[string(w)]:
			open = true
		case doneWords[string(w)]:
			done = true
		case negations[string(w)]:
			not = true
		case !planFillers[string(w)] && !stopWords[string(w)]:
			other = true
		}
	})
	if strings.ContainsFunc(text, unspaced) { // its words cannot be told apart
		is := func(w string) bool { return strings.Contains(text, w) }
		named := slices.ContainsFunc(unspacedPlan, is)
		names = names || named || slices.ContainsFunc(unspacedTasks, is)
		open = open || slices.ContainsFunc(unspacedOpen, is)
		done = done || slices.ContainsFunc(unspacedDone, is)
		other = !named || utf8.RuneCountInString(text) > 8
	}
	switch {
	case names && (open || done || !other), (open || done) && !other:
	default:
		return planNone
	}
	if done && !open && !not {
		return planDone
	}
	return planOpen
}

// A plan is the newest list of steps in a context.
type plan struct {
	from  string
	steps []planStep
	item  transcript.ItemID // that has it
}

type planStep struct {
	text string // as it is quoted, with its status
	done bool
}

// current finds the newest plan: a plan item, a call of a planning tool, or the
// lines of a checkpoint. A newer plan that was clipped is the one that the
// checkpoint took down, so an older item must not pass for it.
func current(entries []transcript.Entry, question int, say phrases) *plan {
	planners := map[string]bool{}
	for _, e := range entries {
		if c, is := e.Item.Body.(transcript.ToolCall); is && len(callSteps(c)) > 0 {
			planners[c.Name] = true
		}
	}
	var noted *plan
	clipped := false
	for i, e := range slices.Backward(entries) {
		p := plan{item: e.Item.ID}
		switch b := e.Item.Body.(type) {
		case transcript.Plan:
			p.from, p.steps = say.plan, itemSteps(b)
			clipped = clipped || e.Form != transcript.FormWhole
		case transcript.ToolCall:
			p.from, p.steps = say.call+b.Name, callSteps(b)
			clipped = clipped || e.Form != transcript.FormWhole && (planners[b.Name] || planTool(b.Name))
		case transcript.Checkpoint:
			if p.from, p.steps = say.checkpoint+" › Plan", notedSteps(b.Text); len(p.steps) > 0 && noted == nil {
				noted = &p
			}
			continue
		}
		if i != question && len(p.steps) > 0 && !clipped {
			return &p
		}
	}
	return noted
}

// planTool reports whether a tool has the name of one that keeps a plan.
func planTool(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "todo") || strings.Contains(name, "plan")
}

func itemSteps(p transcript.Plan) []planStep {
	var out []planStep
	for _, s := range p.Steps {
		out = append(out, newStep(s.Step, s.Status))
	}
	return out
}

// callSteps reads the steps from the arguments of a call: a list of objects that
// have a status, under one of the names that planning tools use, or checkboxes.
func callSteps(c transcript.ToolCall) []planStep {
	var args map[string]json.RawMessage
	if json.Unmarshal(c.Arguments, &args) != nil {
		return nil
	}
	for _, key := range []string{"todos", "plan", "steps", "tasks", "items"} {
		var list string
		if json.Unmarshal(args[key], &list) == nil && planTool(c.Name) {
			return notedSteps(list)
		}
		var steps []struct{ Content, Step, Title, Text, Task, Description, Status, State string }
		if json.Unmarshal(args[key], &steps) != nil {
			continue
		}
		var out []planStep
		known := planTool(c.Name)
		for _, s := range steps {
			status := cmp.Or(s.Status, s.State)
			known = known || status != ""
			if text := cmp.Or(s.Content, s.Step, s.Title, s.Text, s.Task, s.Description); text != "" {
				out = append(out, newStep(text, cmp.Or(status, "pending")))
			}
		}
		if known && len(out) > 0 {
			return out
		}
	}
	return nil
}

func newStep(text, status string) planStep {
	text = strings.Join(strings.Fields(text), " ")
	return planStep{text: "[" + status + "] " + text, done: isDone(status)}
}

// notedSteps reads lines such as "- [pending] Paint the hull".
func notedSteps(text string) []planStep {
	var out []planStep
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		rest, is := strings.CutPrefix(strings.TrimLeft(line, "-* "), "[")
		status, step, closed := strings.Cut(rest, "] ")
		if is && closed && (status == " " || planStatuses[strings.ToLower(status)]) && step != "" {
			out = append(out, planStep{text: line, done: isDone(status)})
		}
	}
	return out
}

func isDone(status string) bool {
	switch strings.ToLower(status) {
	case "completed", "complete", "done", "x", "cancelled", "canceled":
		return true
	}
	return false
}

var planStatuses = set(`pending in_progress inprogress completed complete done cancelled canceled todo open x - ~`)

// The words of questions about a plan, as words passes them on.
var (
	planNames = stems(`plan plans todo todos todolist tasklist backlog aufgabenliste tâches tareas tarefas`)
	openWords = stems(`open remain remains remaining left outstanding pending unfinished undone unchecked next
		offen offene offenen offener übrig ausstehend ausstehende unerledigt unerledigte tun
		reste restent ouvert falta faltan quedan pendiente pendientes abierto abiertos abertos pendentes`)
	doneWords = stems(`done complete completed finished ready fertig erledigt abgeschlossen terminé terminées hecho hechas terminado feito feitas`)
	negations = stems(`not isn aren wasn haven hasn yet nicht pas no não sin`)
	// planFillers say nothing about which plan.
	planFillers = stems(`step steps task tasks item items work list schritt schritte schritten punkte aufgaben liste étapes pasos passos things thing still
		current currently state status stand`)

	unspacedPlan  = []string{"计划", "計劃", "計画", "待办", "待辦", "やること"}
	unspacedTasks = []string{"任务", "任務", "步骤", "步驟", "タスク", "未完", "没完成", "沒完成"}
	unspacedOpen  = []string{"未完", "没完成", "沒完成", "没有完成", "沒有完成", "没做", "沒做", "剩下", "还剩", "還剩", "尚未", "残って", "残り"}
	unspacedDone  = []string{"完成", "完了", "做完"}
)

func stems(list string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		out[string(stem([]byte(w)))] = true
	}
	return out
}
