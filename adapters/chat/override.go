package chat

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/prompt"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
)

// setter changes one field of a profile by its text in the configuration. The
// error says what is allowed.
type setter func(p *profile, value string) error

// overrides holds what Options.Overrides may name.
var overrides = map[string]setter{
	"max_tokens_field":  oneOf(func(p *profile) *string { return &p.maxTokens }, "max_tokens", "max_completion_tokens"),
	"developer_role":    boolean(func(p *profile) *bool { return &p.developer }),
	"tool_ids":          toolIDs,
	"tool_name_length":  number(func(p *profile) *int { return &p.nameMax }, 16, 256),
	"reasoning_echo":    oneOf(func(p *profile) *string { return &p.echo }, "off", "reasoning_content", "reasoning", "reasoning_text"),
	"effort":            oneOf(func(p *profile) *string { return &p.effort }, slices.Sorted(maps.Keys(effortForms))...),
	"stream_usage":      boolean(func(p *profile) *bool { return &p.usage }),
	"parallel_tools":    boolean(func(p *profile) *bool { return &p.parallel }),
	"assistant_bridge":  boolean(func(p *profile) *bool { return &p.bridge }),
	"merge_messages":    boolean(func(p *profile) *bool { return &p.merge }),
	"max_request_bytes": number(func(p *profile) *int { return &p.bytes }, 100_000, 1_000_000_000),
	"images":            boolean(func(p *profile) *bool { return &p.images }),
	"think":             oneOf(func(p *profile) *string { return &p.think }, thinkOff, thinkTags, thinkPrefilled),
	"reasoning_repeats": boolean(func(p *profile) *bool { return &p.snapshots }),
	"template_tokens":   boolean(func(p *profile) *bool { return &p.leaks }),
	"silent_truncation": boolean(func(p *profile) *bool { return &p.silent }),
	"count":             oneOf(func(p *profile) *string { return &p.count }, "off", countTemplate, countTokenize),
}

// Settings returns the names that Options.Overrides may hold.
func Settings() []string { return slices.Sorted(maps.Keys(overrides)) }

// override applies the configuration's own values to a profile.
func override(p profile, values map[string]string) (profile, error) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		set, known := overrides[key]
		if !known {
			return p, fault.New(fault.Invalid, "a chat provider has no setting %q; there are: %s", key,
				strings.Join(Settings(), ", "))
		}
		if err := set(&p, values[key]); err != nil {
			return p, fault.New(fault.Invalid, "%s = %q: %s", key, values[key], err)
		}
	}
	return p, nil
}

func boolean(field func(*profile) *bool) setter {
	return func(p *profile, value string) error {
		b, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("want true or false")
		}
		*field(p) = b
		return nil
	}
}

func number(field func(*profile) *int, lowest, highest int) setter {
	return func(p *profile, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < lowest || n > highest {
			return fmt.Errorf("want a number from %d to %d", lowest, highest)
		}
		*field(p) = n
		return nil
	}
}

// oneOf sets a text to one of several; off is the empty one.
func oneOf(field func(*profile) *string, allowed ...string) setter {
	return func(p *profile, value string) error {
		if !slices.Contains(allowed, value) {
			return fmt.Errorf("want one of %s", strings.Join(allowed, ", "))
		}
		if value == "off" {
			value = ""
		}
		*field(p) = value
		return nil
	}
}

func toolIDs(p *profile, value string) error {
	rules := map[string]prompt.Ident{"64": idsLoose, "40": idsForty, "9": idsNine}
	r, known := rules[value]
	if !known {
		return fmt.Errorf("want 9 (letters and digits), 40 or 64")
	}
	p.ids = r
	return nil
}
