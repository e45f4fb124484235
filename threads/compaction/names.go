package compaction

import (
	"iter"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// commonShare is the part of all items above which a name is common: a model
// meets it everywhere and needs nobody to introduce it.
const commonShare = 12 // one in so many

// An introduction is how a name came into the thread.
type introduction struct {
	line     string // declares or mentions it; empty if nothing does
	declared bool
	generic  bool  // of a library
	items    int   // that hold it
	last     int32 // of those, to count each once
}

// introductions finds for each of the used names the line of a summarised item
// that introduces it: the first that declares it, else the first in which the
// user or the agent speaks of it. Names of tools and libraries, and common ones,
// have none.
func (p *planner) introductions(used map[string]int) map[string]*introduction {
	found := make(map[string]*introduction, len(used))
	for name := range used {
		found[name] = &introduction{last: -1}
	}
	for i := range p.nodes {
		n := &p.nodes[i]
		if n.kind == transcript.KindOpaque || len(used) == 0 {
			continue
		}
		if c, ok := n.item.Body.(transcript.ToolCall); ok && found[c.Name] != nil {
			found[c.Name].generic = true
		}
		for m := range names(n.text) {
			if f := found[m.name]; f != nil {
				f.meet(n, int32(i), m)
			}
		}
	}
	for _, f := range found {
		if f.generic || f.items > 10 && f.items > len(p.nodes)/commonShare && !f.declared {
			f.line = ""
		}
	}
	return found
}

// meet notes that the item holds the name.
func (f *introduction) meet(n *node, i int32, m mention) {
	if f.last != i {
		f.last, f.items = i, f.items+1
	}
	if f.generic = f.generic || m.isForeign(); f.generic || n.kept || f.declared {
		return
	}
	spoken := f.line == "" && (n.kind == transcript.KindUserMessage || n.kind == transcript.KindAgentMessage)
	if f.declared = m.isDeclared(); f.declared || spoken {
		f.line = oneLine(withoutNumber(m.line), 140)
	}
}

// A mention is a name in its line.
type mention struct {
	name, line string
	at         int // of the name in the line
}

// names yields each identifier in s that is long and composed enough to be a name
// somebody chose.
func names(s string) iter.Seq[mention] {
	return func(yield func(mention) bool) {
		for line := range strings.Lines(s) {
			if len(line) > 2_000 {
				continue
			}
			for at := 0; at < len(line); {
				end := at
				for end < len(line) && inWord(line[end]) {
					end++
				}
				if w := line[at:end]; len(w) >= 8 && len(w) <= 60 && isComposed(w) && !yield(mention{w, line, at}) {
					return
				}
				at = end + 1
			}
		}
	}
}

func inWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func notInWord(r rune) bool { return r > 0x7f || !inWord(byte(r)) }

// isComposed reports camelCase and snake_case words.
func isComposed(w string) bool {
	for i := 1; i < len(w); i++ {
		c, before := w[i], w[i-1]
		if c == '_' && i < len(w)-1 || c >= 'A' && c <= 'Z' && before >= 'a' && before <= 'z' {
			return true
		}
	}
	return false
}

// declKeywords stand directly before the name that a line declares.
var declKeywords = []string{
	"func", "type", "class", "def", "const", "var", "let", "fn", "struct", "enum", "interface", "trait", "function", "module", "mod", "record", "object", "namespace", "macro_rules!", "#define", "resource", "table", "TABLE",
}

// isDeclared reports whether the line declares the name: after a keyword, as a
// method, or at its beginning with a type or a value behind it.
func (m mention) isDeclared() bool {
	before := strings.TrimSpace(withoutNumber(m.line[:m.at]))
	after := m.line[m.at+len(m.name):]
	if before == "" || before == "+" || before == "export" || before == "pub" {
		rest := strings.TrimLeft(after, " \t")
		return strings.HasPrefix(rest, "=") && !strings.HasPrefix(rest, "==") || strings.HasPrefix(rest, ":=") ||
			len(rest) < len(after) && rest != "" && inWord(rest[0])
	}
	if strings.HasPrefix(before, "func (") && strings.HasSuffix(before, ")") {
		return true
	}
	word := before[strings.LastIndexAny(before, " \t")+1:]
	return slices.Contains(declKeywords, word)
}

// libraries qualify names of standard libraries.
var libraries = map[string]bool{
	"atomic": true, "base64": true, "bufio": true, "bytes": true, "cmp": true, "context": true, "errors": true, "exec": true, "filepath": true, "fmt": true, "hex": true, "http": true, "httptest": true, "io": true, "iter": true, "json": true, "log": true, "maps": true, "math": true, "os": true, "path": true, "rand": true, "reflect": true, "regexp": true, "runtime": true, "signal": true, "slices": true, "slog": true, "sort": true, "sql": true, "strconv": true, "strings": true, "sync": true, "testing": true, "time": true, "unicode": true, "url": true, "utf8": true,
	"Array": true, "JSON": true, "Math": true, "Number": true, "Object": true, "Promise": true, "String": true, "console": true, "document": true, "fs": true, "process": true, "window": true,
	"asyncio": true, "collections": true, "datetime": true, "functools": true, "itertools": true, "logging": true, "re": true, "subprocess": true, "sys": true, "typing": true, "unittest": true,
}

// foreignNames belong to protocols and libraries without being qualified.
var foreignNames = map[string]bool{
	"ServeHTTP": true, "WriteHeader": true, "ListenAndServe": true, "RunParallel": true, "ReportAllocs": true, "ResetTimer": true, "MarshalJSON": true, "UnmarshalJSON": true,
	"in_progress": true, "tool_use": true, "tool_result": true, "file_path": true, "old_string": true, "new_string": true, "replace_all": true, "activeForm": true, "output_mode": true, "run_in_background": true,
	"getElementById": true, "addEventListener": true, "stringify": true, "toString": true, "useState": true, "useEffect": true, "__init__": true, "__name__": true, "__main__": true, "isinstance": true,
}

// isForeign reports a name that comes from a library or a protocol.
func (m mention) isForeign() bool {
	if foreignNames[m.name] {
		return true
	}
	if m.at == 0 || m.line[m.at-1] != '.' {
		return false
	}
	start := m.at - 1
	for start > 0 && inWord(m.line[start-1]) {
		start--
	}
	return libraries[m.line[start:m.at-1]]
}

// withoutNumber takes off what programs that show files put before a line: its
// number, and an arrow, a tab or a bar.
func withoutNumber(line string) string {
	t := strings.TrimLeft(line, " \t")
	i := 0
	for i < len(t) && t[i] >= '0' && t[i] <= '9' {
		i++
	}
	if i == 0 {
		return line
	}
	for _, mark := range []string{"→", "\t", "|", "│", ": ", " | "} {
		if rest, ok := strings.CutPrefix(t[i:], mark); ok {
			return rest
		}
	}
	return line
}
