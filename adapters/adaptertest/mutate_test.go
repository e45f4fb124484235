package adaptertest

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMutateBodyChangesOneThingAtATime(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user"},{"role":"assistant","tool_calls":[{"id":"1"},{"id":"2"}]}]}`
	all, err := MutateBody([]byte(body), "messages")
	if err != nil {
		t.Fatal(err)
	}
	var whats []string
	for _, m := range all {
		whats = append(whats, m.What)
		if !json.Valid(m.Body) || string(m.Body) == body {
			t.Errorf("%s: %s", m.What, m.Body)
		}
	}
	want := []string{
		"messages: 0 comes after the next", "messages: 0 is gone", "messages: 0 is there twice", "messages: 1 is gone", "messages: 1 is there twice",
		"messages[1].tool_calls: 0 comes after the next", "messages[1].tool_calls: 0 is gone", "messages[1].tool_calls: 0 is there twice",
		"messages[1].tool_calls: 1 is gone", "messages[1].tool_calls: 1 is there twice",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, whats); diff != "" {
		t.Errorf("mutations (-want +got):\n%s", diff)
	}
	for _, m := range all {
		if m.What == "messages[1].tool_calls: 0 is gone" {
			const want = `{"messages":[{"role":"user"},{"role":"assistant","tool_calls":[{"id":"2"}]}],"model":"m"}`
			if got := string(m.Body); got != want {
				t.Errorf("body %s, want %s", got, want)
			}
		}
	}
	if _, err := MutateBody([]byte(`{`), "messages"); err == nil {
		t.Error("what is no JSON was changed")
	}
}
