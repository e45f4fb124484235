package compaction

import "github.com/plimsoll-dev/plimsoll/threads/transcript"

// Sources of a count of tokens, in records and on the wire. transcript.Ruler is the
// third one.
const (
	SourceProvider = "provider" // the provider counted, and nothing was added since
	SourceEstimate = "estimate" // RulerMeter
	// SourceUnknown: the provider replaced its own history and has not counted since.
	SourceUnknown = "unknown"
)

// RulerMeter is the name of the Meter's ruler in records: the script-aware estimate
// (transcript.Estimate), scaled by what the provider counted of this thread.
const RulerMeter = "meter-1"

// A Meter knows how many tokens the next request of a thread has. What the provider
// counted is the truth; what was added since is estimated, with the ratio that the
// provider's counts of this thread had to the estimates of the same requests. It is
// part of the thread's state: a fold of journaled reports. Not safe for concurrent
// use.
type Meter struct {
	// Reported is what the provider counted last: input and output of one request.
	// 0 after a boundary and as long as nothing usable was reported.
	Reported int `json:"reported,omitempty"`
	// Since is the estimate of what was added after that.
	Since int `json:"since,omitempty"`
	// Answering: what the agent writes now is the rest of the answer that was counted.
	Answering bool `json:"answering,omitempty"`
	// Ratio is counted tokens per estimated one; 0 until there was a report.
	Ratio float64 `json:"ratio,omitempty"`
	Model string  `json:"model,omitempty"` // that counted
}

// Bounds of the ratio, and how fast it follows.
const (
	ratioMin   = 0.4
	ratioMax   = 4.0
	ratioShare = 0.3 // of a new sample
)

// Report takes in what the provider counted of a request whose estimate was
// estimated (0: unknown) tokens. Zeros are no report.
func (m *Meter) Report(model string, input, output, estimated int) {
	if input <= 0 {
		return
	}
	m.Reported, m.Since, m.Answering = input+max(output, 0), 0, true
	if m.Model != model {
		m.Model, m.Ratio = model, 0
	}
	if estimated <= 0 {
		return
	}
	r := min(max(float64(input)/float64(estimated), ratioMin), ratioMax)
	if m.Ratio > 0 {
		r = m.Ratio + ratioShare*(r-m.Ratio)
	}
	m.Ratio = r
}

// Add takes in an item that was added to the context.
func (m *Meter) Add(b transcript.Body) {
	if byAgent(b) && m.Answering {
		return
	}
	m.Answering = false
	m.Since += transcript.Estimate(b)
}

// Complete counts an item in its final form of which was counted before; nil if it was
// in no context.
func (m *Meter) Complete(was, b transcript.Body) {
	if was == nil {
		m.Add(b)
		return
	}
	if byAgent(b) && m.Answering {
		return
	}
	m.Since = max(m.Since+transcript.Estimate(b)-transcript.Estimate(was), 0)
}

// byAgent reports whether a body is what a model answers with.
func byAgent(b transcript.Body) bool {
	switch b.Kind() {
	case transcript.KindAgentMessage, transcript.KindReasoning, transcript.KindToolCall:
		return true
	default:
		return false
	}
}

// Hold takes what a provider told of its context at a time when it was asked nothing.
func (m *Meter) Hold(model string, tokens int) {
	if tokens <= 0 {
		return
	}
	m.Reported, m.Since, m.Answering = tokens, 0, false
	if m.Model != model {
		m.Model, m.Ratio = model, 0
	}
}

// Forget drops the last report: the context is another one, or another model's.
func (m *Meter) Forget() { m.Reported, m.Since, m.Answering = 0, 0, false }

// Tokens returns the size of the next request, whose estimate is all, and its
// source. Nothing of it is counted twice.
func (m *Meter) Tokens(model string, all int) (tokens int, source string) {
	switch {
	case m.Reported > 0 && m.Model != model: // another model counts otherwise
	case m.Reported > 0 && m.Since == 0:
		return m.Reported, SourceProvider
	case m.Reported > 0:
		return m.Reported + m.scaled(model, m.Since), SourceEstimate
	}
	return m.scaled(model, all), SourceEstimate
}

func (m *Meter) scaled(model string, estimate int) int {
	if m.Ratio <= 0 || m.Model != model {
		return estimate
	}
	return int(m.Ratio * float64(estimate))
}

// A Scale converts between tokens and the units of transcript.Ruler, in which a
// local compaction plans: tokens per unit. The zero Scale is 1.
type Scale float64

// Within these bounds a scale says no more than that rulers differ.
const (
	scaleNear    = 0.05 // with a count of the provider
	scaleGuessed = 0.25 // without
)

// NewScale returns the scale of a context that has tokens by the meter and units by
// the ruler. Without a count of the provider (source estimate and no ratio) only a
// context that the ruler clearly takes for too small is scaled.
func NewScale(tokens, units int, counted bool) Scale {
	if tokens <= 0 || units <= 0 {
		return 1
	}
	s := float64(tokens) / float64(units)
	near := s > 1-scaleNear && s < 1+scaleNear
	if !counted {
		near = s < 1+scaleGuessed
	}
	if near {
		return 1
	}
	return Scale(min(max(s, ratioMin), 2*ratioMax))
}

// Ruler names the ruler of sizes that were scaled.
func (s Scale) Ruler() string {
	if s == 0 || s == 1 {
		return transcript.Ruler
	}
	return RulerMeter
}

// slack is what a number of tokens needs beside Tokens(units) to be worth as many
// units again.
func (s Scale) slack() int {
	if s == 0 || s == 1 {
		return 0
	}
	return int(s) + 1
}

// Units converts tokens.
func (s Scale) Units(tokens int) int {
	if s == 0 || s == 1 {
		return tokens
	}
	return int(float64(tokens) / float64(s))
}

// Tokens converts units.
func (s Scale) Tokens(units int) int {
	if s == 0 || s == 1 {
		return units
	}
	return int(float64(units) * float64(s))
}
