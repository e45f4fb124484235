package chat

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"

	"github.com/plimsoll-dev/plimsoll/adapters/kit/prompt"
)

// set is what a model has refused. It is never changed, only replaced.
type set map[string]bool

func (s set) has(what string) bool { return s[what] }

// with returns the set and one more.
func (s set) with(what string) set {
	out := maps.Clone(s)
	if out == nil {
		out = set{}
	}
	out[what] = true
	return out
}

// merge returns the set and another.
func (s set) merge(more set) set {
	for what := range more {
		s = s.with(what)
	}
	return s
}

// What a server may refuse of a request that is otherwise right. It is left out
// from then on.
const (
	refusedUsage     = "stream_options"
	refusedParallel  = "parallel_tool_calls"
	refusedEffort    = "reasoning effort"
	refusedDeveloper = "the developer role"
	refusedImages    = "images"
	refusedTools     = "tools"
	refusedStream    = "tool_stream"
	refusedCount     = "counting"
)

func refusedMax(field string) string { return field }

// refusal says how to recognise one in the text of a 4xx answer, and whether the
// request had in it what it names.
type refusal struct {
	what  string
	words *regexp.Regexp
	sent  func(pl plan) bool
}

func words(s string) *regexp.Regexp { return regexp.MustCompile("(?i)" + s) }

// refusals is in the order of looking: names of fields before words.
var refusals = []refusal{
	{refusedUsage, words(`stream_options|include_usage`), func(pl plan) bool { return pl.p.usage && !pl.p.native }},
	{refusedParallel, words(`parallel_tool_calls`), func(pl plan) bool { return pl.p.parallel && len(pl.tools) > 0 }},
	{refusedStream, words(`tool_stream`), func(pl plan) bool { return pl.p.stream != "" && len(pl.tools) > 0 }},
	{
		refusedEffort, words(`reasoning[_. ]?effort|chat_template_kwargs|\bthink(ing)?\b.*(support|unknown|unrecogni[sz]ed|invalid|permitted|allowed)|(support|unknown|unrecogni[sz]ed|invalid).*\bthink(ing)?\b`),
		func(pl plan) bool { return pl.effort != "" },
	},
	{
		refusedMax("max_tokens"), words(`max_tokens.*(not supported|unsupported|not compatible|use .?max_completion_tokens)|unsupported parameter.*max_tokens`),
		func(pl plan) bool { return pl.max > 0 && pl.maxField() == "max_tokens" },
	},
	{
		refusedMax("max_completion_tokens"), words(`max_completion_tokens.*(not supported|unsupported|unknown|unrecogni[sz]ed|unexpected|not permitted|extra)|(unsupported|unknown|unrecogni[sz]ed|unexpected|extra).*max_completion_tokens`),
		func(pl plan) bool { return pl.max > 0 && pl.maxField() == "max_completion_tokens" },
	},
	{
		refusedDeveloper, words(`developer.*(role|support|invalid|expected|enum)|(role|unexpected|invalid).*developer`),
		func(pl plan) bool { return pl.p.developer },
	},
	{
		refusedImages, words(`(image|vision|multi-?modal|mmproj).{0,80}(not support|unsupported|n't support|not (allowed|enabled|available)|does not accept|hint: if)|(not support|unsupported|n't support|no endpoints.*support|unknown variant).{0,80}(image|vision|multi-?modal)`),
		func(pl plan) bool { return hasImages(pl.messages) },
	},
	{
		refusedTools, words(`(not support|unsupported|n't support|no endpoints.*support).{0,40}(tool|function)|tools? .{0,40}not supported`),
		func(pl plan) bool { return len(pl.tools) > 0 },
	},
}

// hasImages reports whether a request shows images.
func hasImages(ms []prompt.Message) bool {
	return slices.ContainsFunc(ms, func(m prompt.Message) bool {
		return slices.ContainsFunc(m.Parts, func(p prompt.Part) bool { return p.Kind == prompt.Image })
	})
}

// refused returns what of a request a server refused; empty if it is something
// that cannot be left out.
func refused(pl plan, status int, text string) string {
	if status != 400 && status != 404 && status != 422 {
		return ""
	}
	for _, r := range refusals {
		if !pl.without.has(r.what) && r.words.MatchString(text) && r.sent(pl) {
			return r.what
		}
	}
	return ""
}

// memory is what was learned of the models of one endpoint. It is guarded by mu.
type memory struct {
	mu      sync.Mutex
	refused map[string]set
	limits  map[string]int // windows that errors named
}

// without returns what a model has refused.
func (m *memory) without(model string) set {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refused[model]
}

// refuse remembers a refusal and returns all of the model.
func (m *memory) refuse(model, what string) set {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused == nil {
		m.refused = map[string]set{}
	}
	m.refused[model] = m.refused[model].with(what)
	return m.refused[model]
}

// learn keeps the smallest window that an error named.
func (m *memory) learn(model string, limit int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limits == nil {
		m.limits = map[string]int{}
	}
	if limit > 0 {
		m.limits[model] = bounded(m.limits[model], limit)
	}
}

// outgrow forgets the window that an error named if a larger request was answered.
func (m *memory) outgrow(model string, input int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if input > m.limits[model] {
		delete(m.limits, model)
	}
}

// forget forgets it.
func (m *memory) forget(model string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.limits, model)
}

// limit is the window that an error named; 0: none did.
func (m *memory) limit(model string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.limits[model]
}

// unshownText tells people of images that the model is told of in words.
func unshownText(n int) string {
	if n == 1 {
		return "the model takes no images: one in the context is told as text"
	}
	return fmt.Sprintf("the model takes no images: the %d in the context are told as text", n)
}

// Carries implements adapters.Carrier by what is known of a model without asking.
func (m *Model) Carries(model string) (images bool, maxBytes int) {
	if model == "" {
		model = m.o.Model
	}
	f := m.known(model)
	if !m.p.images || f.images != nil && !*f.images || m.without(model).has(refusedImages) {
		return false, 0
	}
	return true, m.p.bytes
}
