package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const module = "github.com/plimsoll-dev/plimsoll"

// source reads comments and constants of the module's packages, each package
// once.
type source struct {
	root string
	pkgs map[string]*pkg
}

type pkg struct {
	types  map[string]string   // type -> comment
	fields map[string]string   // type.field -> comment
	funcs  map[string]string   // function or method -> comment
	consts map[string][]string // type -> string values, in order
}

func newSource(root string) *source { return &source{root: root, pkgs: map[string]*pkg{}} }

func (s *source) pkg(path string) (*pkg, error) {
	if p, ok := s.pkgs[path]; ok {
		return p, nil
	}
	rel, ok := strings.CutPrefix(path, module+"/")
	if !ok {
		return nil, fmt.Errorf("type of package %s, which is not of this module", path)
	}
	names, err := filepath.Glob(filepath.Join(s.root, rel, "*.go"))
	if err != nil {
		return nil, err
	}
	p := &pkg{types: map[string]string{}, fields: map[string]string{}, funcs: map[string]string{}, consts: map[string][]string{}}
	for _, name := range names { // Glob sorts
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.add(f)
	}
	s.pkgs[path] = p
	return p, nil
}

func (p *pkg) add(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			p.funcs[d.Name.Name] = d.Doc.Text()
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					p.addType(spec, d.Doc)
				case *ast.ValueSpec:
					p.addConst(spec)
				}
			}
		}
	}
}

func (p *pkg) addType(spec *ast.TypeSpec, doc *ast.CommentGroup) {
	name := spec.Name.Name
	if spec.Doc != nil {
		doc = spec.Doc
	}
	p.types[name] = doc.Text()
	st, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range st.Fields.List {
		text := f.Doc.Text()
		if text == "" {
			text = f.Comment.Text()
		}
		for _, n := range f.Names {
			p.fields[name+"."+n.Name] = text
		}
	}
}

func (p *pkg) addConst(spec *ast.ValueSpec) {
	t, ok := spec.Type.(*ast.Ident)
	if !ok {
		return
	}
	for _, v := range spec.Values {
		if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				p.consts[t.Name] = append(p.consts[t.Name], s)
			}
		}
	}
}

// typeDoc describes a named type.
func (s *source) typeDoc(t reflect.Type) (string, error) {
	p, err := s.pkg(t.PkgPath())
	if err != nil {
		return "", err
	}
	return prose(t.Name(), p.types[t.Name()]), nil
}

// fieldDoc describes a field of a named struct.
func (s *source) fieldDoc(t reflect.Type, field string) (string, error) {
	p, err := s.pkg(t.PkgPath())
	if err != nil {
		return "", err
	}
	return prose(field, p.fields[t.Name()+"."+field]), nil
}

// values lists the constants of a named string type.
func (s *source) values(t reflect.Type) ([]string, error) {
	p, err := s.pkg(t.PkgPath())
	if err != nil {
		return nil, err
	}
	return p.consts[t.Name()], nil
}

// prose turns a Go comment into a sentence that does not begin with a Go name,
// each paragraph on one line.
func prose(name, comment string) string {
	var paragraphs []string
	for par := range strings.SplitSeq(strings.TrimSpace(comment), "\n\n") {
		if line := strings.Join(strings.Fields(par), " "); line != "" {
			paragraphs = append(paragraphs, line)
		}
	}
	text := strings.Join(paragraphs, "\n\n")
	for _, article := range []string{"A ", "An "} {
		text = strings.Replace(text, article+name+" ", name+" ", 1)
	}
	if rest, ok := strings.CutPrefix(text, name); ok {
		text = strings.TrimLeft(rest, ": ")
		for _, verb := range []string{"is ", "are "} {
			text = strings.TrimPrefix(text, verb)
		}
	}
	r, size := utf8.DecodeRuneInString(text)
	if size > 0 {
		text = string(unicode.ToUpper(r)) + text[size:]
	}
	if text != "" && !strings.ContainsAny(text[len(text)-1:], ".!?") {
		text += "."
	}
	return text
}
