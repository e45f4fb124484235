package main

import (
	"strings"
	"testing"
)

func TestTargetTellsThreadsFromFiles(t *testing.T) {
	t.Parallel()
	const id = "0199c3a8-7f0e-7c43-9d3b-2f6b1f0a9e11"
	exists := func(p string) bool {
		return p == "session" || p == "decade" || p == "0199c3a8-7f0e-7c43-9d3b-000000000000"
	}
	tests := []struct {
		arg     string
		want    target
		problem string
	}{
		{arg: id, want: target{thread: id}},
		{arg: strings.ToUpper(id), want: target{thread: id}},
		{arg: id[:6], want: target{thread: id[:6]}},
		{arg: strings.ToUpper(id[:20]), want: target{thread: id[:20]}},
		{arg: id[:9], want: target{thread: id[:9]}},
		{arg: id[:5], problem: "neither a thread id"},
		{arg: id + "0", problem: "neither a thread id"},
		{arg: "0199c3a8_7f0", problem: "neither a thread id"},
		{arg: "decade", problem: "also the name of a file"},
		{arg: "./" + id, want: target{file: "./" + id}},
		{arg: "-", want: target{file: "-"}},
		{arg: "session", want: target{file: "session"}},
		{arg: "missing.jsonl", want: target{file: "missing.jsonl"}},
		{arg: "dir/missing", want: target{file: "dir/missing"}},
		{arg: "missing", problem: "neither a thread id"},
		{arg: "", problem: "neither a thread id"},
		{arg: "0199c3a87f0e7c439d3b2f6b1f0a9e11", problem: "neither a thread id"},
		{arg: "{" + id + "}", problem: "neither a thread id"},
		{arg: "0199c3a8-7f0e-7c43-9d3b-000000000000", problem: "also the name of a file"},
	}
	for _, tt := range tests {
		got, err := parseTarget(tt.arg, exists)
		if tt.problem != "" {
			if err == nil || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("%q: got %+v, %v; want an error with %q", tt.arg, got, err, tt.problem)
			}
			continue
		}
		if err != nil || got != tt.want {
			t.Errorf("%q: got %+v, %v; want %+v", tt.arg, got, err, tt.want)
		}
	}
}
