package overflow

import (
	"regexp"
	"strconv"
	"strings"
)

// maxTokens is the most that is taken for a number of tokens.
const maxTokens = 1_000_000_000

// n stands for a number in the expressions below: 8192 or 8,192.
const n = `(\d[\d,_]*)`

func numbers(exprs ...string) []*regexp.Regexp {
	var out []*regexp.Regexp
	for _, e := range exprs {
		out = append(out, regexp.MustCompile(`(?i)`+strings.ReplaceAll(e, `N`, n)))
	}
	return out
}

// requested finds the tokens of a request, the input alone first.
var requested = numbers(
	`N in the messages`, // OpenAI, DeepSeek, vLLM before 0.10
	`N input tokens`,    // vLLM
	`prompt is too long: N tokens`,
	`context limit: N \+ `, // Anthropic: input + max_tokens > window
	`request \(N tokens\)`,
	`prompt contains N tokens`, `prompt has N tokens`,
	`input token count \(N\)`, `token count of N`,
	`the input \(N tokens\)`, `input length N exceeds`,
	`prompt_tokens \(N\)`, `decoder prompt \(length N\)`,
	`keep the first N tokens`, `n_keep \(N\)`,
	`request contains N tokens`,
	`\(requested: N\)`, `received N`,
	`you requested (?:about )?N tokens`,
	`\(N > \d`, // what a server put in brackets
)

// limits finds the size of the window, or the bound of the input.
var limits = numbers(
	`maximum (?:context|prompt|model) length (?:is|of) N`,
	`context length (?:is|of) only N`,
	`model with N maximum context length`,
	`tokens > N maximum`,
	`context limit: N \+ N > N`,
	`available context size \(N`, `configured context size is N`,
	`number of tokens allowed \(N\)`,
	`exceeds the limit of N`,
	`context length \(N`, `context length of N`,
	`maximum allowed input length of N`,
	`model token limit: N`,
	`model'?s max of N`,
	`max_seq_len \(N\)`, `n_ctx \(N\)`,
	`input length should be \[\d+, ?N\]`,
	`cannot exceed N`,
)

// shares are the kinds of input that OpenRouter lists.
var shares = regexp.MustCompile(`(?i)` + n + ` of (?:text|tool|image|audio|file) input`)

// tokens returns what an overflow says about sizes.
func (a answer) tokens() (req, limit int) {
	req, limit = a.prompt, a.window
	for _, m := range a.messages {
		if req == 0 {
			for _, share := range shares.FindAllStringSubmatch(m, 16) {
				req += parse(share[1])
			}
		}
		if req == 0 {
			req = find(requested, m)
		}
		if limit == 0 {
			limit = find(limits, m)
		}
	}
	return req, limit
}

// find returns the last number of the first expression that matches.
func find(exprs []*regexp.Regexp, s string) int {
	for _, e := range exprs {
		m := e.FindStringSubmatch(s)
		if m == nil {
			continue
		}
		if v := parse(m[len(m)-1]); v > 0 {
			return v
		}
	}
	return 0
}

// parse reads a number with separators; 0 if it cannot count tokens.
func parse(digits string) int {
	v, err := strconv.Atoi(strings.NewReplacer(",", "", "_", "").Replace(digits))
	if err != nil || v > maxTokens {
		return 0
	}
	return v
}
