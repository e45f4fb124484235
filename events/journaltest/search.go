package journaltest

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/events"
)

func (f *fixture) hits(thread, query string, limit int) []events.Hit {
	f.t.Helper()
	hits, err := f.j.Search(f.ctx(), thread, query, limit)
	if err != nil {
		f.t.Fatalf("search %.60q: %v", query, err)
	}
	return hits
}

func (f *fixture) found(thread, query string) []string {
	f.t.Helper()
	refs := []string{}
	for _, h := range f.hits(thread, query, 100) {
		refs = append(refs, h.Ref)
	}
	return refs
}

func search(t *testing.T, f *fixture) {
	f.add("a", 0, "1")
	f.add("b", 0, "1")
	long := strings.Repeat("filler words that say nothing\n", 50) + "the Needle is here " + strings.Repeat("and more ", 100)
	f.ok(f.j.Index(f.ctx(), "a", 1, []events.Doc{
		{Ref: "one", Text: "Compaction keeps call and result together"},
		{Ref: "two", Text: "compaction compaction compaction of contexts"},
		{Ref: "long", Text: long},
		{Ref: "code", Text: "run threads/compact_start.go:17 returned E_AGAIN"},
		{Ref: "cjk", Text: "上下文压缩保留工具调用。コンテキストを圧縮する"},
		{Ref: "nul", Text: "before\x00after \x1f separator"},
		{Ref: "bad", Text: "broken \xff\xfe bytes"},
	}))
	f.ok(f.j.Index(f.ctx(), "b", 1, []events.Doc{{Ref: "b", Text: "compaction needle 压缩"}}))
	for query, want := range map[string][]string{
		"COMPACTION":          {"two", "one"},
		"compaction together": {"one", "two"},
		"needle":              {"long"},
		"compact_start":       {"code"},
		"again e":             {"code"},
		"压缩":                  {"cjk"},
		"圧縮":                  {"cjk"},
		"缩压":                  {},
		"after":               {"nul"},
		"bytes":               {"bad"},
		"compacti":            {},
		"say-nothing":         {"long"},
		"":                    {},
	} {
		f.same("search "+query, f.found("a", query), want)
	}
	f.same("another thread", f.found("b", "compaction needle"), []string{"b"})
	f.same("limit", len(f.hits("a", "compaction", 1)), 1)
	f.same("no limit", len(f.hits("a", "compaction", 0)), 0)
	_, err := f.j.Search(f.ctx(), "nobody", "x", 1)
	f.fails(err, events.ErrNotFound)

	s := f.hits("a", "needle", 1)[0].Snippet
	if !strings.Contains(s, "the Needle is here") || len(s) > 300 || !strings.HasPrefix(s, "…") || !strings.HasSuffix(s, "…") || strings.Contains(s, "\n") {
		t.Errorf("snippet %q", s)
	}
	if s := f.hits("a", "压缩", 1)[0].Snippet; s != "上下文压缩保留工具调用。コンテキストを圧縮する" {
		t.Errorf("snippet %q", s)
	}
	for _, h := range f.hits("a", "compaction together needle", 10) {
		if h.Score <= 0 {
			t.Errorf("%s has score %v", h.Ref, h.Score)
		}
	}
}

func hostileSearch(t *testing.T, f *fixture) {
	f.add("a", 0, "1")
	f.ok(f.j.Index(f.ctx(), "a", 1, []events.Doc{{Ref: "r", Text: "plain needle near text"}}))
	for _, q := range []string{
		`"`, `'`, `""`, `"needle`, `needle"`, "*", "nee*", "NEAR", "x NEAR/3 y", "NOT", "AND OR NOT", "(", ")", "((((", "text:", "thread:1",
		"^needle", "-needle", "needle;drop table doc", "\x00", "a\x00b", "\xff\xfe", "\u2028", "%", "_", "\\", "😀", "👩‍👩‍👧", "\U0001E900\U0001E901",
		"𝟘 ꧰ ʰ ª", "\u0300", "\ue0001", "\x1f", strings.Repeat("word ", 10_000), strings.Repeat("(", 10_000), strings.Repeat("x", 100_000), manyWords(),
	} {
		f.hits("a", q, 10)
		if got := f.found("a", "needle "+q); len(got) != 1 {
			t.Errorf("needle with %.40q found %v", q, got)
		}
	}
	for _, q := range []string{"1", "thread", "text", "t1", "\ue0001"} {
		want := 0
		if q == "text" {
			want = 1
		}
		if got := f.found("a", q); len(got) != want {
			t.Errorf("%q found %v", q, got)
		}
	}
}

func manyWords() string {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "w%d ", i)
	}
	return b.String()
}

func index(t *testing.T, f *fixture) {
	f.fails(f.j.Index(f.ctx(), "a", 0, nil), events.ErrNotFound)
	_, err := f.j.IndexedTo(f.ctx(), "a")
	f.fails(err, events.ErrNotFound)
	f.add("a", 0, "1", "2", "3")
	cursor := func(want int64) {
		t.Helper()
		got, err := f.j.IndexedTo(f.ctx(), "a")
		f.ok(err)
		f.same("cursor", got, want)
	}
	cursor(0)
	f.ok(f.j.Index(f.ctx(), "a", 2, []events.Doc{{Ref: "r", Text: "first"}, {Ref: "s", Text: "second"}}))
	cursor(2)
	f.ok(f.j.Index(f.ctx(), "a", 3, []events.Doc{{Ref: "r", Text: "third"}}))
	cursor(3)
	f.same("replaced", f.found("a", "first"), []string{})
	f.same("replaced", f.found("a", "third"), []string{"r"})
	f.fails(f.j.Index(f.ctx(), "a", 4, []events.Doc{{Ref: "x", Text: "fourth"}}), events.ErrInvalid)
	cursor(3)
	f.same("refused", f.found("a", "fourth"), []string{})
	f.ok(f.j.PutSnapshot(f.ctx(), "a", events.Snapshot{Seq: 3, Data: []byte("s")}))
	f.ok(f.j.Trim(f.ctx(), "a", 3))
	f.same("stays searchable after trimming", f.found("a", "second"), []string{"s"})
	for _, h := range f.hits("a", "second third", 10) {
		if !utf8.ValidString(h.Snippet) || h.Snippet == "" {
			t.Errorf("snippet %q", h.Snippet)
		}
	}
}
