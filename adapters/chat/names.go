package chat

import (
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/kit/prompt"
)

// names maps the names of tools as the wire has them back to what they are.
type names map[string]string

// namesOf returns the names of the tools of a request on a wire that takes names
// of a form.
func namesOf(tools []adapters.ToolSpec, form prompt.Ident) names {
	n := names{}
	for _, t := range tools {
		n[form.Fit(t.Name)] = t.Name
	}
	return n
}

// offered reports whether a tool was in the request.
func (n names) offered(wire string) bool {
	_, is := n[wire]
	return is
}

// back returns the name of a tool that a model called. Models put spaces around
// it, or the name of the set it is in before it.
func (n names) back(wire string) string {
	if name, is := n[wire]; is {
		return name
	}
	trimmed := strings.TrimSpace(wire)
	if name, is := n[trimmed]; is {
		return name
	}
	for _, set := range []string{"functions.", "default_api.", "tools."} {
		if name, is := n[strings.TrimPrefix(trimmed, set)]; is {
			return name
		}
	}
	return wire
}

// sorted returns tools in the order of their names: the order in which clients
// declare them must not cost the provider's cache. Of two of a name the first
// counts.
func sorted(tools []adapters.ToolSpec) []adapters.ToolSpec {
	out := slices.Clone(tools)
	slices.SortStableFunc(out, func(a, b adapters.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(out, func(a, b adapters.ToolSpec) bool { return a.Name == b.Name })
}
