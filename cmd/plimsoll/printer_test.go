package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/plimsoll-dev/plimsoll/api"
	"github.com/plimsoll-dev/plimsoll/api/protocol"
	"github.com/plimsoll-dev/plimsoll/threads"
)

// Everything that a stream can say is told in words: no raw names, no raw types.
func TestEveryEventOfTheWireHasWords(t *testing.T) {
	t.Parallel()
	for _, n := range api.Notifications() {
		var out strings.Builder
		p := newEventPrinter(&out, style{})
		params, err := json.Marshal(reflect.New(n.Params).Interface())
		switch { // of what cannot be empty there is something
		case n.Method == "item/started" || n.Method == "item/completed":
			params, err = []byte(`{"item":{"type":"agentMessage","id":"i","text":"hello"}}`), nil
		case strings.HasSuffix(strings.ToLower(n.Method), "delta"):
			params, err = []byte(`{"itemId":"i","delta":"some words","offset":0}`), nil
		}
		mustDo(t, err)
		p.print(protocol.Notification{Method: n.Method, Params: params})
		if s := out.String(); s == "" || strings.Contains(n.Method, "/") && strings.Contains(s, n.Method) || strings.Contains(s, "json:") {
			t.Errorf("%s is told as %q", n.Method, s)
		}
	}
	for _, v := range protocol.ItemVariants() {
		if text := itemText(protocol.ThreadItem{ItemVariant: v}); text == "item" {
			t.Errorf("%T has no words", v)
		}
	}
	if name, text := describe(protocol.Notification{Method: "thread/newer"}); name != "event" || text != "thread/newer" {
		t.Errorf("an event of a newer server is told as %s, %s", name, text)
	}
}

func TestWhatHappenedToASessionIsTold(t *testing.T) {
	t.Parallel()
	epoch := 3
	for _, tt := range []struct {
		method string
		params any
		want   string
	}{
		{"thread/compaction/undone", api.CompactionUndoneParams{CompactionID: "c-1", Epoch: &epoch}, "compaction: undone: c-1, epoch 3"},
		{"thread/compaction/undone", api.CompactionUndoneParams{CompactionID: "c-1"}, "compaction: undone: c-1"},
		{"thread/session/updated", api.SessionUpdatedParams{Provider: "codex", NativeID: "n", Reason: string(threads.SessionRebased)}, "session: n at codex: a fresh one, which begins with the checkpoint"},
		{"thread/session/updated", api.SessionUpdatedParams{Provider: "codex", NativeID: "n", Reason: "newer\x1b"}, "session: n at codex: newer␛"},
		{"thread/pins/changed", api.PinsChangedParams{Pins: make([]api.Pin, 2)}, "pins: 2 pins"},
		{"item/hidden", protocol.ItemHiddenParams{Kind: "sealed", Origin: "codex"}, "item: hidden: sealed of codex"},
	} {
		params, err := json.Marshal(tt.params)
		mustDo(t, err)
		if name, text := describe(protocol.Notification{Method: tt.method, Params: params}); name+": "+text != tt.want {
			t.Errorf("%s: %s, want %q", name, text, tt.want)
		}
	}
	for _, r := range []threads.SessionReason{threads.SessionOpened, threads.SessionReplaced, threads.SessionRebased, threads.SessionRestored} {
		if sessionTexts[r] == "" {
			t.Errorf("%s has no words", r)
		}
	}
}
