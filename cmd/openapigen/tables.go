package main

import (
	"bytes"
	"fmt"
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
	for name, table := range map[string]string{"routes": routes, "notifications": notes} {
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
