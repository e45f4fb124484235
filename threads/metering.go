package threads

import (
	"cmp"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// model is the name under which the meter knows the settings' model.
func (s Settings) model() string { return s.Provider + "/" + s.Model }

// takeUsage folds a report of tokens into the meter, the gate and the task's budget.
// A report about a model that the thread does not use any more teaches its ratio and
// no more.
func (s *state) takeUsage(p UsageUpdated) {
	s.Usage = p
	if p.Gate != nil {
		s.Gate = *p.Gate
	}
	if s.Active != "" && p.TurnID == s.Active {
		s.Budget.Used += spent(p)
	}
	if p.Source != compaction.SourceProvider {
		return
	}
	model := cmp.Or(p.Model, s.Settings.model())
	s.Meter.Report(model, p.Last.InputTokens, p.Last.OutputTokens, p.Estimate)
	if model != s.Settings.model() {
		s.Meter.Forget()
	}
}

// spent is what a report adds to the budget of its turn: the input and output of a
// request, estimated where the provider counts nothing.
func spent(p UsageUpdated) int {
	if p.Last.InputTokens > 0 {
		return p.Last.InputTokens + p.Last.OutputTokens
	}
	return p.Estimate + p.Last.OutputTokens
}

// otherContext reports whether an event replaces the context, so that what the
// provider counted before says nothing about the next request.
func (s *state) otherContext(p Payload) bool {
	switch p := p.(type) {
	case CompactionUpdated:
		ended := p.Record.Outcome != nil && *p.Record.Outcome == compaction.Completed
		known := s.compaction(p.Record.CompactionID)
		return ended && (known == nil || !known.Terminal())
	case CompactionUndone, ThreadReverted:
		return true
	case SettingsUpdated:
		return p.Settings.model() != s.Settings.model()
	default:
		return false
	}
}

// remeasure drops what was counted of the context before, and takes what a provider
// told of the one that it made instead.
func (s *state) remeasure(p Payload) {
	s.Meter.Forget()
	if u, ok := p.(CompactionUpdated); ok && u.Record.Replaced() && u.Record.After != nil {
		s.Meter.Hold(s.Settings.model(), u.Record.After.Tokens)
	}
}

// load is how full the thread is with more (by transcript.Estimate) added to its
// context, in tokens of the model that au speaks of. Of a runtime only what it
// reported is known.
func (s *state) load(au automatic, more int) compaction.Load {
	m := s.Meter
	if au.model != s.Settings.model() {
		m.Forget()
	}
	l := compaction.Load{Window: au.limits.window, MaxOutput: au.limits.maxOutput}
	if au.stateless || m.Reported > 0 {
		l.Used, _ = m.Tokens(au.model, au.bare+s.bare)
	}
	m.Forget()
	l.Base, _ = m.Tokens(au.model, au.bare)
	more, _ = m.Tokens(au.model, more)
	l.Used += more
	return l
}

// counted reports whether the model's provider has counted something of this thread,
// by which estimates are scaled.
func (s *state) counted(au automatic) bool {
	return au.model == s.Settings.model() && s.Meter.Reported > 0 || s.Meter.Ratio > 0 && s.Meter.Model == au.model
}

// usageOf is the report of one request, as the provider counted it. Zeros are no
// count: then the size is an estimate.
//
// more is the estimate of what shares the report's commit.
func (s *state) usageOf(env env, turn transcript.TurnID, last UsageUpdated, rep adapters.UsageReported, more int) UsageUpdated {
	u := rep.Usage
	r := UsageUpdated{
		TurnID: turn, Last: u, Total: addUsage(last.Total, u), Base: env.base, Window: env.window,
		Context: u.InputTokens + u.OutputTokens, Source: compaction.SourceProvider,
		Estimate: env.asked, Model: env.auto.model,
	}
	au := env.auto
	if r.Learned = s.reportedWindow(env, rep.Window); r.Learned != nil {
		au.limits = au.limits.taught(*r.Learned)
		r.Window = au.limits.window
	}
	l, g := s.load(au, more), s.Gate
	if last.Gate != nil { // of the report before, in the same commit
		g = *last.Gate
	}
	if u.InputTokens > 0 {
		l.Used = r.Context
		g = g.Counted(au.policy, l)
	} else {
		r.Context, r.Source = l.Used+u.OutputTokens, compaction.SourceEstimate
	}
	if g = g.Measured(au.policy, l, au.key); g != s.Gate || last.Gate != nil {
		r.Gate = &g
	}
	return r
}

// uncounted reports the size of a context about whose request the provider said
// nothing; nil if it said something, or if there was none. Only a task's budget needs
// it as an event: codex has none where there is no usage, and the meter knows anyway.
func (s *state) uncounted(env env, turn transcript.TurnID, ps []Payload) []Payload {
	more := 0
	for _, p := range ps {
		switch p := p.(type) {
		case UsageUpdated:
			return nil
		case ItemCompleted:
			more += transcript.Estimate(p.Item.Body)
		default: // of no size
		}
	}
	if env.asked <= 0 {
		return nil
	}
	last := s.Usage
	last.Gate = nil
	return []Payload{s.usageOf(env, turn, last, adapters.UsageReported{}, more)}
}

// baseEstimate is what the base of each request weighs by transcript.EstimateText.
func baseEstimate(b adapters.Base) int {
	n := transcript.EstimateText(b.System)
	for _, t := range b.Tools {
		n += transcript.EstimateText(t.Name + t.Description + string(t.Schema))
	}
	return n
}
