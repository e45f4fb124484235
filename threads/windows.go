package threads

import (
	"slices"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// limits is what is known of the model that a thread runs with. Counts are tokens,
// 0 if unknown.
type limits struct {
	window    int
	source    string // who told window: config, server, builtin, learned or provider; empty if unknown
	maxOutput int
	images    bool            // it is shown images, and not told of them
	price     *adapters.Price // nil if unknown
}

// Sources of a window: a provider named it in an error; a user bounded it.
const (
	sourceLearned = "learned"
	sourceConfig  = "config"
)

// leastWindow is the smallest window that is believed.
const leastWindow = 256

// limits returns what is known of a model now. A window that the provider reported
// counts, unless the configuration has a smaller one; one learned from a refusal if it
// is the smaller one.
func (s *Service) limits(provider, model string) limits {
	var l limits
	for _, m := range s.modelsOf(provider) {
		if m.ID == model {
			l = limits{window: m.ContextWindow, source: m.WindowSource, maxOutput: m.MaxOutput, images: m.Images, price: m.Price}
		}
	}
	return l.taught(s.learnedWindow(provider, model))
}

// taught is l with what a provider said of the window.
func (l limits) taught(w LearnedWindow) limits {
	smaller := w.Tokens > 0 && (l.window <= 0 || w.Tokens < l.window)
	switch {
	case w.Tokens > 0 && w.Source == compaction.SourceProvider && (smaller || l.source != sourceConfig):
		l.window, l.source = w.Tokens, compaction.SourceProvider
	case smaller:
		l.window, l.source = w.Tokens, sourceLearned
	}
	return l
}

// measured is the window as records show it.
func (l limits) measured() compaction.Window {
	return compaction.Window{Tokens: l.window, Source: l.source}
}

// window returns the context window of the model that a thread runs with.
func (s *Service) window(settings Settings) int {
	return s.limits(settings.Provider, settings.Model).window
}

// learn makes a learned window count for every thread of the service.
func (s *Service) learn(w *LearnedWindow) {
	if w == nil || w.Tokens < leastWindow {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.learned[w.model()]; !ok || was.At <= w.At {
		s.learned[w.model()] = *w
	}
}

// learnedWindow returns the newest window that was learned of a model; 0 if there is
// none, or if it was too long ago.
func (s *Service) learnedWindow(provider, model string) LearnedWindow {
	key := LearnedWindow{Provider: provider, Model: model}.model()
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.learned[key]
	if ok && w.Source != compaction.SourceProvider && s.now().Sub(transcript.FromMillis(w.At)) > LearnedFor {
		delete(s.learned, key)
		return LearnedWindow{}
	}
	return w
}

// model is the name under which the meter knows the model.
func (w LearnedWindow) model() string { return Settings{Provider: w.Provider, Model: w.Model}.model() }

// learnedFrom returns the window that an overflow names, or nil if it names none
// that is news.
func learnedFrom(o adapters.Overflow, settings Settings, known int, now time.Time) *LearnedWindow {
	if o.Limit < leastWindow || known > 0 && o.Limit >= known {
		return nil
	}
	return &LearnedWindow{Provider: settings.Provider, Model: settings.Model, Tokens: o.Limit, At: transcript.Millis(now)}
}

// reportedWindow is a window that the provider of a session reported beside its counts,
// or nil if it is none or no news.
func (s *state) reportedWindow(env env, tokens int) *LearnedWindow {
	w := LearnedWindow{
		Provider: env.auto.settings.Provider, Model: env.auto.settings.Model, Tokens: tokens, At: transcript.Millis(env.now),
		Source: compaction.SourceProvider,
	}
	if tokens < leastWindow || slices.ContainsFunc(s.Learned, func(l LearnedWindow) bool {
		return l.model() == w.model() && l.Tokens == tokens && l.Source == w.Source
	}) {
		return nil
	}
	return &w
}

// learn folds a learned window.
func (s *state) learn(w *LearnedWindow) {
	if w == nil {
		return
	}
	s.Learned = slices.DeleteFunc(slices.Clone(s.Learned), func(l LearnedWindow) bool { return l.model() == w.model() })
	s.Learned = append(s.Learned, *w)
}

// learnedIn returns the learned window that rides in an event, or nil.
func learnedIn(p Payload) *LearnedWindow {
	switch p := p.(type) {
	case ErrorRaised:
		return p.Learned
	case UsageUpdated:
		return p.Learned
	case CompactionUpdated:
		return p.Learned
	default:
		return nil
	}
}

// measure looks up the limits of the thread's model. The session of a turn keeps the
// model that it began with.
func (a *actor) measure() {
	if a.outdated && a.turn != nil {
		return
	}
	a.limits = a.svc.limits(a.state.Settings.Provider, a.state.Settings.Model)
	a.window = a.limits.window
}
