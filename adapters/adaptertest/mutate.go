package adaptertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/prompt"
)

// A Mutation is a request with one thing changed in it.
type Mutation struct {
	What     string // such as "message 2 is gone"
	Messages []prompt.Message
}

// Mutate takes each message and each part of a request away, doubles it, and has it
// change places with the next one; it empties ids and cuts arguments. A lint that
// misses what becomes invalid thereby guards nothing (P037).
func Mutate(ms []prompt.Message) []Mutation {
	var out []Mutation
	for what, list := range mutated(ms) {
		out = append(out, Mutation{"message " + what, list})
	}
	for i, m := range ms {
		with := func(what string, parts []prompt.Part) {
			c := slices.Clone(ms)
			c[i].Parts = parts
			out = append(out, Mutation{fmt.Sprintf("message %d: part %s", i, what), c})
		}
		for what, parts := range mutated(m.Parts) {
			with(what, parts)
		}
		for j, p := range m.Parts {
			if p.CallID == "" {
				continue
			}
			p.CallID = ""
			with(fmt.Sprintf("%d has no id", j), replaced(m.Parts, j, p))
			if p = m.Parts[j]; p.Kind == prompt.Call {
				p.Arguments = p.Arguments[:len(p.Arguments)-1]
				with(fmt.Sprintf("%d has its arguments cut", j), replaced(m.Parts, j, p))
			}
		}
	}
	slices.SortFunc(out, func(a, b Mutation) int { return strings.Compare(a.What, b.What) })
	return out
}

// mutated returns a list with each element taken away, doubled, and exchanged with
// the next, by what was done.
func mutated[T any](list []T) map[string][]T {
	out := map[string][]T{}
	for i := range list {
		out[fmt.Sprintf("%d is gone", i)] = slices.Delete(slices.Clone(list), i, i+1)
		out[fmt.Sprintf("%d is there twice", i)] = slices.Insert(slices.Clone(list), i, list[i])
		if i+1 < len(list) {
			c := slices.Clone(list)
			c[i], c[i+1] = c[i+1], c[i]
			out[fmt.Sprintf("%d comes after the next", i)] = c
		}
	}
	return out
}

func replaced[T any](list []T, i int, v T) []T {
	c := slices.Clone(list)
	c[i] = v
	return c
}

// A BodyMutation is a wire body with one thing changed in it.
type BodyMutation struct {
	What string // such as "messages: 2 is gone"
	Body []byte
}

// MutateBody does to the body of a wire what Mutate does to a request: to each
// element of each array that the top-level field list holds, at any depth.
func MutateBody(body []byte, list string) ([]BodyMutation, error) {
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, err
	}
	inner, err := mutateJSON(whole[list])
	if err != nil {
		return nil, err
	}
	var out []BodyMutation
	for what, v := range inner {
		whole[list] = v
		b, err := json.Marshal(whole)
		if err != nil {
			return nil, err
		}
		out = append(out, BodyMutation{list + what, b})
	}
	slices.SortFunc(out, func(a, b BodyMutation) int { return strings.Compare(a.What, b.What) })
	return out, nil
}

// mutateJSON returns a JSON value with each array in it changed in each way, by the
// path to it.
func mutateJSON(raw json.RawMessage) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	put := func(what string, v any) error {
		b, err := json.Marshal(v)
		out[what] = b
		return err
	}
	switch raw = bytes.TrimSpace(raw); {
	case len(raw) == 0:
	case raw[0] == '[':
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, err
		}
		for what, v := range mutated(list) {
			if err := put(": "+what, v); err != nil {
				return nil, err
			}
		}
		for i, e := range list {
			inner, err := mutateJSON(e)
			if err != nil {
				return nil, err
			}
			for what, v := range inner {
				if err := put(fmt.Sprintf("[%d]%s", i, what), replaced(list, i, v)); err != nil {
					return nil, err
				}
			}
		}
	case raw[0] == '{':
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			return nil, err
		}
		for name, e := range fields {
			inner, err := mutateJSON(e)
			if err != nil {
				return nil, err
			}
			for what, v := range inner {
				fields[name] = v
				if err := put("."+name+what, fields); err != nil {
					return nil, err
				}
			}
			fields[name] = e
		}
	}
	return out, nil
}
