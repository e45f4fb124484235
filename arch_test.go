package plimsoll_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/plimsoll-dev/plimsoll"

// A row says what one package, or each package of a folder ("x/*"), may import
// from this module. "." is the root, "*" is everything above.
type row struct {
	pkg string
	may string
}

// law is the architecture. A row may name only packages of rows above it, so
// imports go strictly downward; a package without a row fails the test.
var law = []row{
	// L0: the standard library only.
	{".", ""},
	{"threads/fault", ""},
	{"threads/failpoint", ""},
	{"threads/instructions", ""},
	{"threads/transcript", ""},
	{"events", ""},
	{"api/protocol", ""},
	{"web", ""},
	{"adapters/kit/proc", ""},
	{"adapters/kit/*", "adapters/kit/proc"},
	{"adapters/kit/prompt", "threads/transcript"},
	{"adapters/kit/retell", "threads/transcript"},

	// L1: one thing each, on top of the data.
	{"threads/importer/session", "threads/fault threads/transcript"},
	{"threads/importer/*", "threads/importer/session threads/fault threads/transcript"},
	{"threads/importer", "threads/importer/* threads/importer/session threads/fault threads/transcript"},
	{"threads/compaction", "threads/transcript threads/fault threads/failpoint"},
	{"threads/hooks", "adapters/kit/proc threads/fault"},
	{"events/mem", "events"},
	{"events/sqlite", "events threads/failpoint"},
	{"events/journaltest", "events"},
	{"api/jsonrpc", ""},
	{"adapters", "threads/transcript threads/fault"},
	{"adapters/adaptertest/clis", ""},
	{"adapters/adaptertest/homes", ""},                                 // where real programs reach a scripted model only
	{"adapters/adaptertest/upstream", "threads/transcript"},            // plays a model server
	{"adapters/adaptertest/scripted", "adapters/adaptertest/upstream"}, // the same as a command

	// L2: adapters know the contract and the kit, never threads, api, events or
	// each other.
	{"adapters/timeline", "adapters threads/transcript"},
	{"adapters/*", "adapters adapters/timeline adapters/kit/* adapters/kit/proc threads/transcript threads/fault"},

	// L3: the domain service.
	{"threads", "threads/transcript threads/fault threads/failpoint threads/compaction threads/hooks " +
		"threads/importer threads/importer/* adapters events"},

	// L4: the doors. Of adapters they map value types only.
	{"api/codexschema", ". adapters/adaptertest/clis"}, // judges frames in tests
	{"api/wiretest", "api/jsonrpc api/codexschema"},    // plays scripts in tests
	{"api", ". api/protocol api/jsonrpc threads threads/transcript threads/compaction threads/fault events adapters web"},

	// L5: wiring and tools.
	{"cmd/openapigen", "api api/protocol"},
	{"cmd/internal/conform", "*"},
	{"cmd/plimsoll", "*"},
	{"cmd/plimsoll/demo/gen", ""}, // writes the demo session
	{"bench/*", "*"},
}

// confined says which packages alone may import something, or use some names of
// it, and why.
var confined = []struct {
	pkg   string
	names string // only these names count; empty: the import itself
	in    string
	why   string
}{
	{"database/sql", "", "events/sqlite bench/*", "one package knows SQL"},
	{"github.com/mattn/go-sqlite3", "", "events/sqlite bench/*", "one package knows SQLite"},
	{"github.com/gorilla/websocket", "", "api/jsonrpc cmd/plimsoll bench/*", "one package knows frames; cmd is a client"},
	{"github.com/sourcegraph/jsonrpc2", "", "api/jsonrpc bench/*", "its traps are dealt with in one place"},
	{"github.com/go-chi/chi/v5", "", "api", "routes are the business of the doors"},
	{"github.com/alecthomas/kong", "", "cmd/plimsoll", "the command line is"},
	{"github.com/BurntSushi/toml", "", "cmd/plimsoll", "so is the configuration"},
	{"os/exec", "", "adapters/kit/proc threads/hooks cmd/plimsoll api/codexschema adapters/adaptertest/clis bench/*", "children get a process group, a limit and an environment there"},
	{
		"net/http", "Get Post PostForm Head Client DefaultClient Transport DefaultTransport NewRequest NewRequestWithContext",
		"adapters/kit/httpx cmd/plimsoll bench/*", "requests get timeouts and redaction there",
	},
	{module + "/threads/failpoint", "Arm", "", "only tests arm a failpoint"},
}

// testOnly may be imported by test files and by the suites.
var testOnly = []string{
	"testing", "github.com/google/go-cmp", "go.uber.org/goleak", "pgregory.net/rapid",
	"github.com/rogpeppe/go-internal", "github.com/getkin/kin-openapi",
	"github.com/santhosh-tekuri/jsonschema",
}

// suites are packages that exist for tests.
var suites = []string{"adapters/adaptertest", "adapters/adaptertest/clis", "adapters/adaptertest/homes", "adapters/adaptertest/upstream", "adapters/adaptertest/scripted", "events/journaltest", "api/codexschema", "api/wiretest", "bench/*"}

// pkg is what the checks know of a package: its imports and the names it uses of
// each.
type pkg struct {
	path    string // below the module, "." for the root
	imports []string
	uses    map[string][]string
}

// matches reports whether a package is one of a space-separated list of
// patterns. A pattern x/* stands for what is one level below x.
func matches(path, patterns string) bool {
	for p := range strings.FieldsSeq(patterns) {
		dir, wild := strings.CutSuffix(p, "/*")
		if p == "*" || p == path || wild && filepath.Dir(path) == dir {
			return true
		}
	}
	return false
}

// rowOf returns the row of a package: the one that names it, else the one of its
// folder.
func rowOf(path string) (row, bool) {
	for _, r := range law {
		if r.pkg == path {
			return r, true
		}
	}
	for _, r := range law {
		if matches(path, r.pkg) {
			return r, true
		}
	}
	return row{}, false
}

// internal returns the path below the module, if imp is in it.
func internal(imp string) (path string, is bool) {
	if imp == module {
		return ".", true
	}
	return strings.CutPrefix(imp, module+"/")
}

// violations holds a package to the law.
func violations(p pkg) []string {
	r, known := rowOf(p.path)
	if !known {
		return []string{fmt.Sprintf("%s has no row in the law", p.path)}
	}
	var out []string
	for _, imp := range p.imports {
		if in, is := internal(imp); is && !matches(in, r.may) {
			out = append(out, fmt.Sprintf("%s must not import %s", p.path, in))
		}
		for _, only := range testOnly {
			if (imp == only || strings.HasPrefix(imp, only+"/")) && !matches(p.path, strings.Join(suites, " ")) {
				out = append(out, fmt.Sprintf("%s must not import %s: it is for tests", p.path, imp))
			}
		}
	}
	for _, c := range confined {
		if matches(p.path, c.in) {
			continue
		}
		if c.names == "" && slices.ContainsFunc(p.imports, func(imp string) bool {
			return imp == c.pkg || strings.HasPrefix(imp, c.pkg+"/")
		}) {
			out = append(out, fmt.Sprintf("%s must not import %s: %s", p.path, c.pkg, c.why))
		}
		for _, name := range p.uses[c.pkg] {
			if matches(name, c.names) {
				out = append(out, fmt.Sprintf("%s must not use %s.%s: %s", p.path, c.pkg, name, c.why))
			}
		}
	}
	return out
}

func TestImportLaw(t *testing.T) {
	for _, p := range load(t) {
		for _, v := range violations(p) {
			t.Error(v)
		}
	}
}

// The law can only say "downward" if its rows do.
func TestLawGoesDownward(t *testing.T) {
	var above []string
	for _, r := range law {
		for may := range strings.FieldsSeq(r.may) {
			if may != "*" && !slices.Contains(above, may) {
				t.Errorf("row %s allows %s, which is not above it", r.pkg, may)
			}
		}
		above = append(above, r.pkg)
	}
}

// TestImportLawCatches breaks each kind of rule once.
func TestImportLawCatches(t *testing.T) {
	use := func(names ...string) map[string][]string {
		return map[string][]string{"net/http": names, module + "/threads/failpoint": names}
	}
	for _, c := range []struct {
		pkg  pkg
		want []string
	}{
		{pkg{path: "threads", imports: []string{"context", module + "/events", module + "/threads/importer/pi"}}, nil},
		{pkg{path: "events", imports: []string{module + "/threads/fault"}}, []string{"events must not import threads/fault"}},
		{pkg{path: "threads", imports: []string{module + "/api"}}, []string{"threads must not import api"}},
		{pkg{path: "adapters/pi", imports: []string{module + "/adapters/codex"}}, []string{"adapters/pi must not import adapters/codex"}},
		{pkg{path: "adapters/pi", imports: []string{module + "/threads"}}, []string{"adapters/pi must not import threads"}},
		{pkg{path: "threads/transcript", imports: []string{module}}, []string{"threads/transcript must not import ."}},
		{pkg{path: "utils"}, []string{"utils has no row in the law"}},
		{pkg{path: "threads/importer/pi/deep"}, []string{"threads/importer/pi/deep has no row in the law"}},
		{pkg{path: "api", imports: []string{"database/sql/driver"}}, []string{"api must not import database/sql: one package knows SQL"}},
		{pkg{path: "threads", imports: []string{"os/exec"}}, []string{"threads must not import os/exec: children get a process group, a limit and an environment there"}},
		{pkg{path: "threads", imports: []string{"pgregory.net/rapid"}}, []string{"threads must not import pgregory.net/rapid: it is for tests"}},
		{pkg{path: "events/journaltest", imports: []string{"testing", "pgregory.net/rapid"}}, nil},
		{pkg{path: "adapters/chat", uses: use("StatusOK", "Get")}, []string{"adapters/chat must not use net/http.Get: requests get timeouts and redaction there"}},
		{pkg{path: "cmd/plimsoll", uses: use("Client", "Arm")}, []string{"cmd/plimsoll must not use " + module + "/threads/failpoint.Arm: only tests arm a failpoint"}},
		{pkg{path: "adapters/kit/httpx", uses: use("Client")}, nil},
	} {
		if diff := cmp.Diff(c.want, violations(c.pkg)); diff != "" {
			t.Errorf("violations of %+v (-want +got):\n%s", c.pkg, diff)
		}
	}
}

// load reads the packages of the module: what their production files import and
// use, for whatever platform a file is.
func load(t *testing.T) []pkg {
	t.Helper()
	pkgs := map[string]*pkg{}
	for _, file := range sources(t, ".go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		path := filepath.ToSlash(filepath.Dir(file))
		if pkgs[path] == nil {
			pkgs[path] = &pkg{path: path, uses: map[string][]string{}}
		}
		pkgs[path].add(t, file)
	}
	if len(pkgs) < 10 {
		t.Fatalf("only %d packages were found", len(pkgs))
	}
	var out []pkg
	for _, path := range slices.Sorted(maps.Keys(pkgs)) {
		out = append(out, *pkgs[path])
	}
	return out
}

// add notes what a file imports and which names it uses of each import.
func (p *pkg) add(t *testing.T, file string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	local := map[string]string{} // its name in the file → import path
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(p.imports, path) {
			p.imports = append(p.imports, path)
		}
		local[filepath.Base(path)] = path
		if spec.Name != nil {
			local[spec.Name.Name] = path
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, is := n.(*ast.SelectorExpr); is {
			if x, is := sel.X.(*ast.Ident); is && local[x.Name] != "" {
				p.uses[local[x.Name]] = append(p.uses[local[x.Name]], sel.Sel.Name)
			}
		}
		return true
	})
}
