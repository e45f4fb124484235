package main

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// millis is a duration that looks measured and is the same each run.
func millis(what string, n int) int {
	h := sha256.Sum256(fmt.Appendf(nil, "%s %d", what, n))
	return int(h[0])%90 + 3
}

// GoTest is the output of go test -v of a package, from the tests that its files
// have now. fail gives the output of the tests that fail.
func (s *story) GoTest(pkg string, fail map[string]string) string {
	var out strings.Builder
	failed := false
	for _, path := range s.paths(pkg + "/") {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		for i, m := range testFunc.FindAllStringSubmatch(s.files[path], -1) {
			name, ms := m[1], millis(m[1], i+s.n)
			fmt.Fprintf(&out, "=== RUN   %s\n", name)
			if text, ok := fail[name]; ok {
				failed = true
				fmt.Fprintf(&out, "%s\n--- FAIL: %s (0.%03ds)\n", text, name, ms)
				continue
			}
			fmt.Fprintf(&out, "--- PASS: %s (0.%03ds)\n", name, ms)
		}
	}
	if failed {
		fmt.Fprintf(&out, "FAIL\nFAIL\tharbour.example/api/%s\t1.%03ds", pkg, millis(pkg, s.n)*7)
	} else {
		fmt.Fprintf(&out, "PASS\nok  \tharbour.example/api/%s\t1.%03ds", pkg, millis(pkg, s.n)*7)
	}
	return out.String()
}

// packages are those of the module, in the order of go list.
var packages = []string{"cmd/harbour-api", "internal/berth", "internal/config", "internal/httpapi", "internal/ratelimit", "internal/store"}

// MakeTest is the output of make test; fail gives that of failing packages.
func (s *story) MakeTest(fail map[string]string) string {
	out := []string{"go vet ./...", "go test -race -count=1 ./..."}
	for _, pkg := range packages {
		files := s.paths(pkg + "/")
		switch {
		case len(files) == 0:
		case fail[pkg] != "":
			out = append(out, fail[pkg], "FAIL", fmt.Sprintf("FAIL\tharbour.example/api/%s\t1.%03ds", pkg, millis(pkg, s.n)*9))
		case slices.ContainsFunc(files, func(p string) bool { return strings.HasSuffix(p, "_test.go") }):
			out = append(out, fmt.Sprintf("ok  \tharbour.example/api/%s\t1.%03ds", pkg, millis(pkg, s.n)*9))
		default:
			out = append(out, fmt.Sprintf("?   \tharbour.example/api/%s\t[no test files]", pkg))
		}
	}
	if len(fail) > 0 {
		out = append(out, "FAIL", "make: *** [Makefile:7: test] Error 1")
	}
	return strings.Join(out, "\n")
}

// Status is the output of git status --short.
func (s *story) Status() string {
	var out []string
	for _, path := range s.paths("") {
		switch old, ok := s.base[path]; {
		case !ok:
			out = append(out, "?? "+path)
		case old != s.files[path]:
			out = append(out, " M "+path)
		}
	}
	return strings.Join(out, "\n")
}

// Diff is the output of git diff of one file: its changed lines between the
// equal ones before and after them, as one hunk.
func (s *story) Diff(path string) string {
	before, after := strings.Split(s.base[path], "\n"), strings.Split(s.files[path], "\n")
	head := 0
	for head < min(len(before), len(after)) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < min(len(before), len(after))-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	from := max(head-3, 0)
	var out strings.Builder
	fmt.Fprintf(&out, "diff --git a/%s b/%s\n--- a/%s\n+++ b/%s\n@@ -%d,%d +%d,%d @@\n", path, path, path, path, from+1, len(before)-tail-from, from+1, len(after)-tail-from)
	for _, l := range before[from:head] {
		out.WriteString(" " + l + "\n")
	}
	for _, l := range before[head : len(before)-tail] {
		out.WriteString("-" + l + "\n")
	}
	for _, l := range after[head : len(after)-tail] {
		out.WriteString("+" + l + "\n")
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// Commit makes the files as they are the last commit.
func (s *story) Commit(paths ...string) {
	for _, p := range paths {
		s.base[p] = s.content(p)
	}
}

// Journal is n lines of the server's request log, with a conflict every few.
func Journal(seed, n int) string {
	calls := []string{"GET /v1/berths", "POST /v1/bookings", "GET /v1/berths/B-07/bookings", "POST /v1/berths/B-07/hold", "GET /v1/ships", "POST /v1/bookings", "DELETE /v1/berths/B-02/hold"}
	var out []string
	for i := range n {
		h := sha256.Sum256(fmt.Appendf(nil, "journal %d %d", seed, i))
		method, path, _ := strings.Cut(calls[int(h[0])%len(calls)], " ")
		status := 200
		switch {
		case path == "/v1/bookings" && h[1]%4 == 0:
			status = 409
		case path == "/v1/bookings":
			status = 201
		case method == "DELETE":
			status = 204
		}
		out = append(out, fmt.Sprintf(`{"time":"2040-05-%02dT%02d:%02d:%02d.%03dZ","level":"INFO","msg":"request","method":%q,"path":%q,"status":%d,"ms":%d}`,
			9+seed%2, 6+i*12/max(n, 1), i*37%60, int(h[2])%60, int(h[3])*3, method, path, status, int(h[4])%14))
	}
	return strings.Join(out, "\n")
}
