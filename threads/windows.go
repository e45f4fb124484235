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
	source    string // who told window: config, server, builtin or learned; empty if unknown
	maxOutput int
	images    bool            // it is shown images, and not told of them
	price     *adapters.Price // nil if unknown
}

// sourceLearned is the source of a window that a provider named in an error.
const sourceLearned = "learned"

// leastWindow is the smallest window that is believed.
const leastWindow = 256

// limits returns what is known of a model now. A learned window counts if it is the
// smaller one.
func (s *Service) limits(provider, model string) limits {
	var l limits
	for _, m := range s.modelsOf(provider) {
		if m.ID == model {
			l = limits{window: m.ContextWindow, source: m.WindowSource, maxOutput: m.MaxOutput, images: m.Images, price: m.Price}
		}
	}
	if w := s.learnedWindow(provider, model); w > 0 && (l.window <= 0 || w < l.window) {
		l.window, l.source = w, sourceLearned
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
func (s *Service) learnedWindow(provider, model string) int {
	key := LearnedWindow{Provider: provider, Model: model}.model()
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.learned[key]
	if ok && s.now().Sub(transcript.FromMillis(w.At)) > LearnedFor {
		delete(s.learned, key)
		return 0
	}
	return w.Tokens
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
