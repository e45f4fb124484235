package main

import (
	"bytes"
	"fmt"
	"iter"
	"reflect"
	"strings"

	"github.com/plimsoll-dev/plimsoll/api"
)

// fillTables replaces what stands between the markers of docs/wire.md.
func fillTables(src *source, doc []byte) ([]byte, error) {
	routes, err := routeTable(src)
	if err != nil {
		return nil, err
	}
	notes, err := notificationTable(src)
	if err != nil {
		return nil, err
	}
	own, err := ownTable(src)
	if err != nil {
		return nil, err
	}
	tables := map[string]string{"routes": routes, "notifications": notes, "own methods": own, "codex methods": codexTable(), "experimental members": experimentalTable()}
	for name, table := range tables {
		begin, end := []byte("<!-- generated: "+name+" -->\n"), []byte("<!-- end: "+name+" -->")
		before, rest, ok1 := bytes.Cut(doc, begin)
		_, after, ok2 := bytes.Cut(rest, end)
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("%s has no markers for the table of %s", wireDoc, name)
		}
		doc = bytes.Join([][]byte{before, begin, []byte(table), end, after}, nil)
	}
	return doc, nil
}

func routeTable(src *source) (string, error) {
	p, err := src.pkg(module + "/api")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| Request | Method | What it does |\n|---|---|---|\n")
	for _, op := range api.Operations() {
		query := ""
		for _, par := range op.Params {
			if par.In == "query" {
				query += " `" + par.Name + "`"
			}
		}
		if query != "" {
			query = " · query:" + query
		}
		fmt.Fprintf(&b, "| `%s %s`%s | `%s` | %s |\n", op.Verb, op.Path, query, op.Name, sentence(prose(op.Handler, p.funcs[op.Handler])))
	}
	return b.String(), nil
}

func notificationTable(src *source) (string, error) {
	var b strings.Builder
	b.WriteString("| Method | seq | What happened |\n|---|---|---|\n")
	for _, n := range api.Notifications() {
		doc, err := src.typeDoc(n.Params)
		if err != nil {
			return "", err
		}
		seq := "no"
		if n.Durable {
			seq = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", n.Method, seq, doc)
	}
	return b.String(), nil
}

// ownTable lists the methods of JSON-RPC that codex does not have.
func ownTable(src *source) (string, error) {
	p, err := src.pkg(module + "/api")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| Method | Parameters | Result | What it does |\n|---|---|---|---|\n")
	for _, m := range api.OwnMethods() {
		var params []string
		for _, f := range m.Body {
			name := f.Name
			if !f.Required {
				name += "?"
			}
			params = append(params, name)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, codes(params), codes(members(m.Result)), sentence(prose(m.Handler, p.funcs[m.Handler])))
	}
	return b.String(), nil
}

// codes writes names as code.
func codes(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "` `") + "`"
}

// members are the names of a struct's members in JSON, those of embedded ones first
// in their place.
func members(t reflect.Type) (names []string) {
	for f := range fieldsOf(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, members(f.Type)...)
		case f.IsExported() && name != "-":
			names = append(names, name)
		}
	}
	return names
}

// fieldsOf yields the fields of a struct, or of what a pointer to one points to.
func fieldsOf(t reflect.Type) iter.Seq[reflect.StructField] {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Fields()
}

// codexTable says of every method of codex what becomes of it here.
func codexTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Of codex %s; ᵉ marks what needs `capabilities.experimentalApi`.\n\n", api.CodexVersion)
	b.WriteString("| Method | Here | Remark |\n|---|---|---|\n")
	for _, c := range api.Coverages() {
		mark := ""
		if c.Experimental {
			mark = " ᵉ"
		}
		fmt.Fprintf(&b, "| `%s`%s | %s | %s |\n", c.Method, mark, c.Status, c.Reason)
	}
	return b.String()
}

// experimentalTable lists the members of parameters that need the capability.
func experimentalTable() string {
	var b strings.Builder
	b.WriteString("| Method | Members |\n|---|---|\n")
	for _, c := range api.Coverages() {
		if members := api.ExperimentalMembers(c.Method); len(members) > 0 && c.Status != api.Refused {
			fmt.Fprintf(&b, "| `%s` | `%s` |\n", c.Method, strings.Join(members, "` `"))
		}
	}
	return b.String()
}
