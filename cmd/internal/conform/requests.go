package conform

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters/adaptertest/upstream"
)

// This file reads what models are asked, whatever the wire.

// texts returns the strings in a body, in order.
func texts(body []byte) (all []string) {
	walk(body, func(m map[string]any) bool { return true }, func(s string) { all = append(all, s) })
	return all
}

// walk visits the objects and strings of a JSON value, in a fixed order. What object
// returns false for is not looked into.
func walk(body []byte, object func(map[string]any) bool, text func(string)) {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return
	}
	var visit func(any)
	visit = func(v any) {
		switch v := v.(type) {
		case string:
			text(v)
		case []any:
			for _, e := range v {
				visit(e)
			}
		case map[string]any:
			if !object(v) {
				return
			}
			for _, k := range slices.Sorted(maps.Keys(v)) {
				visit(v[k])
			}
		}
	}
	visit(v)
}

// pairsBroken returns the calls and results of requests that are not together, on the
// wires of chat completions, Responses and Messages.
func pairsBroken(requests []upstream.Recorded) (broken []string) {
	for n, r := range requests {
		open := map[string]bool{}
		result := func(id string) {
			if !open[id] {
				broken = append(broken, fmt.Sprintf("request %d has the result %s without its call before it", n+1, id))
			}
			delete(open, id)
		}
		walk(r.Body, func(m map[string]any) bool {
			str := func(k string) string { s, _ := m[k].(string); return s }
			switch kind := str("type"); {
			case kind == "function_call" || kind == "custom_tool_call" || kind == "local_shell_call":
				open[str("call_id")] = true
			case strings.HasSuffix(kind, "_call_output"):
				result(str("call_id"))
			case kind == "tool_use", kind == "function" && str("id") != "":
				open[str("id")] = true
				return false // arguments are the model's
			case kind == "tool_result":
				result(str("tool_use_id"))
			case str("role") == "tool" && str("tool_call_id") != "":
				result(str("tool_call_id"))
			}
			return true
		}, func(string) {})
		for _, id := range slices.Sorted(maps.Keys(open)) {
			broken = append(broken, fmt.Sprintf("request %d has the call %s without its result", n+1, id))
		}
	}
	return broken
}

// holds demands that no invariant is broken, now that the thread rests.
func (w *world) holds() {
	w.ids.settle()
	e := Evidence{Service: w.ids.svc, Thread: w.thread, Prompts: w.prompts, Earlier: w.before}
	if w.model != nil {
		e.Requests = w.model.Asked()
	}
	broken, seen, err := Invariants(w.ctx, e)
	w.must(err, "the invariants can be checked")
	w.before = seen
	var all []string
	for _, b := range broken {
		all = append(all, b.Invariant+": "+b.What)
	}
	w.demand(len(broken) == 0, "I1 to I10 hold", "%s", strings.Join(all, "; "))
}
