package plimsoll_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sources returns the files of the repository with an extension, relative to its
// root. It reads the folders itself, so that the go command knows when a cached
// result of these tests is out of date.
func sources(t *testing.T, ext string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != "." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "node_modules", "bin"}, name)) {
			return fs.SkipDir
		}
		if !d.IsDir() && filepath.Ext(path) == ext {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// maxLines is the length of a file that one can still read at a sitting.
const maxLines = 500

// longFiles may be longer, with the reason.
var longFiles = map[string]string{}

// generated is the line by which the go command knows generated files.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func TestFilesStayShort(t *testing.T) {
	files := slices.Concat(sources(t, ".go"), sources(t, ".js"), sources(t, ".css"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(string(text), "\n")
		_, excused := longFiles[file]
		switch {
		case strings.HasSuffix(file, "_test.go"), generated.Match(text):
		case lines > maxLines && !excused:
			t.Errorf("%s has %d lines, the limit is %d: split it by what its parts do", file, lines, maxLines)
		case lines <= maxLines && excused:
			t.Errorf("%s has only %d lines and needs no exception", file, lines)
		}
	}
}

// testFunc matches the declaration of a test, fuzz target or benchmark.
var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)

// tests returns the names of all tests, as package.Name.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, file := range sources(t, ".go") {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			found[filepath.ToSlash(filepath.Dir(file))+"."+m[1]] = true
		}
	}
	return found
}

// checkFieldCases reports what is wrong with the table of field cases: columns
// case, check and test, the last one a list of package.Test, or "-" where the
// part that the case is about does not exist yet.
func checkFieldCases(table string, tests map[string]bool) []string {
	var out []string
	seen := map[string]bool{}
	for i, line := range strings.Split(strings.TrimSuffix(table, "\n"), "\n") {
		cols := strings.Split(line, "\t")
		if i == 0 {
			if line != "case\tcheck\ttest" {
				out = append(out, "the first line must name the columns: case, check, test")
			}
			continue
		}
		if len(cols) != 3 || cols[1] == "" || cols[2] == "" || !caseID.MatchString(cols[0]) {
			out = append(out, "malformed line: "+line)
			continue
		}
		if seen[cols[0]] {
			out = append(out, cols[0]+" is listed twice")
		}
		seen[cols[0]] = true
		for name := range strings.FieldsSeq(cols[2]) {
			if name != "-" && !tests[name] {
				out = append(out, cols[0]+": there is no test "+name)
			}
		}
	}
	return out
}

var caseID = regexp.MustCompile(`^(P\d{3}|S\d{1,2})$`)

func TestFieldCasesNameTestsThatExist(t *testing.T) {
	table, err := os.ReadFile("docs/field-cases.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range checkFieldCases(string(table), tests(t)) {
		t.Error(v)
	}
}

func TestFieldCasesCheckCatches(t *testing.T) {
	known := map[string]bool{"api.TestA": true}
	head := "case\tcheck\ttest\n"
	for table, want := range map[string]int{
		head + "P001\tit holds\tapi.TestA\nP002\tlater\t-\n": 0,
		head + "P001\tit holds\tapi.TestB\n":                 1,
		head + "P001\tit holds\tapi.TestA api.TestB\n":       1,
		head + "P001\tit holds\n":                            1,
		head + "1\tit holds\tapi.TestA\n":                    1,
		head + "P001\tit holds\t\n":                          1,
		head + "P001\ta\t-\nP001\tb\t-\n":                    1,
		"P001\tit holds\tapi.TestA\n":                        1,
	} {
		if got := checkFieldCases(table, known); len(got) != want {
			t.Errorf("table %q: %d findings %q, want %d", table, len(got), got, want)
		}
	}
}

// dependency matches the first column of the tables of dependencies.
var dependency = regexp.MustCompile(`(?m)^\| ([a-z.]+\.[a-z]+/\S+) \|`)

func TestDependenciesAreExplained(t *testing.T) {
	page, err := os.ReadFile("docs/decisions/001-dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	unused := map[string]bool{}
	for _, m := range dependency.FindAllStringSubmatch(string(page), -1) {
		unused[m[1]] = true
	}
	explained := slices.Collect(maps.Keys(unused))
	for _, file := range sources(t, ".go") {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			first, _, _ := strings.Cut(path, "/")
			if _, ours := internal(path); ours || !strings.Contains(first, ".") {
				continue
			}
			i := slices.IndexFunc(explained, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
			if i < 0 {
				t.Errorf("%s imports %s: docs/decisions/001-dependencies.md does not say what it is for", file, path)
				continue
			}
			delete(unused, explained[i])
		}
	}
	for m := range unused {
		t.Errorf("docs/decisions/001-dependencies.md explains %s, which nothing imports", m)
	}
}

// named matches what a page names of the repository: paths in code quotes.
var named = regexp.MustCompile("`((?:adapters|api|bench|cmd|docs|events|threads)(?:/[a-z]+)*|[a-z./-]*[a-z]+\\.(?:go|md|mod|yaml|tsv))`")

func TestPagesNameWhatExists(t *testing.T) {
	for _, page := range []string{"AGENTS.md", "CONTRIBUTING.md", "docs/adapters.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := named.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s names nothing", page)
		}
		for _, m := range found {
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}
