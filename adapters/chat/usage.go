package chat

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// count is a number of tokens as servers write it: an integer, a float, a string,
// null. What is none of these, or is negative, is 0.
type count int

// UnmarshalJSON implements json.Unmarshaler. It never fails: an odd number is no
// reason to lose an answer.
func (c *count) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(bytes.Trim(b, `"`)), 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > math.MaxInt32 {
		f = 0
	}
	*c = count(f)
	return nil
}

// wireUsage is the usage in all the shapes that are about. Sources of the fields:
// OpenAI; DeepSeek (prompt_cache_hit_tokens); Moonshot (cached_tokens at the top);
// OpenRouter (cache_write_tokens); gateways to Anthropic (cache_creation…).
type wireUsage struct {
	Prompt       count `json:"prompt_tokens"`
	Completion   count `json:"completion_tokens"`
	Total        count `json:"total_tokens"`
	Input        count `json:"input_tokens"`
	Output       count `json:"output_tokens"`
	CacheHit     count `json:"prompt_cache_hit_tokens"`
	Cached       count `json:"cached_tokens"`
	CacheCreated count `json:"cache_creation_input_tokens"`
	PromptParts  struct {
		Cached  count `json:"cached_tokens"`
		Written count `json:"cache_write_tokens"`
		Created count `json:"cache_creation_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionParts struct {
		Reasoning count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// timings are llama.cpp's own counts: what was read, what was found in the cache,
// what was written.
type timings struct {
	Prompt    count `json:"prompt_n"`
	Cached    count `json:"cache_n"`
	Predicted count `json:"predicted_n"`
}

// usage returns the counts. The prompt includes what was cached; the completion
// includes reasoning, except where the total says that it comes on top (xAI).
func (u wireUsage) usage() adapters.Usage {
	input, output := max(u.Prompt, u.Input), max(u.Completion, u.Output)
	reasoning := u.CompletionParts.Reasoning
	switch {
	case u.Total == 0:
	case output == 0 && u.Total > input && input > 0:
		output = u.Total - input
	case reasoning > 0 && u.Total == input+output+reasoning:
		output += reasoning
	}
	return adapters.Usage{
		InputTokens:           int(input),
		CachedInputTokens:     int(min(max(u.PromptParts.Cached, u.CacheHit, u.Cached), input)),
		CacheWriteInputTokens: int(min(max(u.PromptParts.Written, u.PromptParts.Created, u.CacheCreated), input)),
		OutputTokens:          int(output),
		ReasoningOutputTokens: int(min(reasoning, output)),
	}
}

// tally keeps the usage of one answer. Servers repeat it, send zeros at the end,
// or tell the cached part only the last time.
type tally struct {
	now  adapters.Usage
	told bool // something that is no zero came
}

// report takes a usage as the server sent it; null and zeros say nothing.
func (t *tally) report(raw json.RawMessage) {
	var u wireUsage
	if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &u) != nil && u == (wireUsage{}) {
		return
	}
	t.take(u.usage())
}

// take keeps the later report, but not the zeros in it.
func (t *tally) take(u adapters.Usage) {
	if u.InputTokens == 0 && u.OutputTokens == 0 {
		return
	}
	keep(&u.InputTokens, t.now.InputTokens)
	keep(&u.OutputTokens, t.now.OutputTokens)
	if u.InputTokens == t.now.InputTokens {
		keep(&u.CachedInputTokens, t.now.CachedInputTokens)
		keep(&u.CacheWriteInputTokens, t.now.CacheWriteInputTokens)
	}
	keep(&u.ReasoningOutputTokens, t.now.ReasoningOutputTokens)
	t.now, t.told = u, true
}

// time takes the counts of llama.cpp, where the usage did not say as much.
func (t *tally) time(n timings) {
	if n == (timings{}) {
		return
	}
	if !t.told {
		t.take(adapters.Usage{InputTokens: int(n.Prompt + n.Cached), OutputTokens: int(n.Predicted)})
	}
	if t.now.CachedInputTokens == 0 {
		t.now.CachedInputTokens = min(int(n.Cached), t.now.InputTokens)
	}
}

func keep(now *int, before int) {
	if *now == 0 {
		*now = before
	}
}
