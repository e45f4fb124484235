package threads

import (
	"errors"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file holds what providers say about compactions of their own: those that this
// server asked them for, and those that they make by themselves.

func nativeDone(r adapters.NativeResult) compaction.NativeDone {
	done := compaction.NativeDone{
		Info: compaction.NativeInfo{Form: r.Form}, Before: r.Before, After: r.After, Window: r.Window,
		Reanchored: r.Reanchored, Warnings: r.Warnings,
	}
	if r.Disclosed != nil {
		done.Info.Disclosed = &r.Disclosed
	}
	if r.Usage != nil {
		done.Usage = &compaction.Usage{InputTokens: r.Usage.InputTokens, OutputTokens: r.Usage.OutputTokens}
	}
	return done
}

// Codes of native compactions that did not complete.
const (
	codeNativeInvalid   = "nativeInvalid"   // the provider lost its history
	codeNativeUncertain = "nativeUncertain" // nobody can tell whether it compacted
	codeNotCompacted    = "notCompacted"    // it did not, and its history is as it was
)

// nativeError is how an error of Session.Compact ends a compaction; nil for nil, and
// the error itself if it is none of those that mean something.
func nativeError(err error) error {
	if err == nil {
		return nil
	}
	e := &compaction.NativeError{Outcome: compaction.Failed, Reason: messageOf(err)}
	refused, isRefused := errors.AsType[*adapters.RefusedError](err)
	failed, isFailed := errors.AsType[*adapters.Error](err)
	switch {
	case isRefused:
		e.Outcome, e.Code, e.Reason, e.Remedy = compaction.Refused, refused.Refusal.Code, refused.Refusal.Reason, refused.Refusal.Remedy
	case errors.Is(err, adapters.ErrLossy):
		e.Code, e.Lossy = codeNativeInvalid, true
		e.Reason = detailed(err, adapters.ErrLossy, "the provider replaced its history by something that does not stand for it")
		e.Remedy = "ask again with route local: the journal still has everything"
	case errors.Is(err, adapters.ErrUncertain):
		e.Outcome, e.Code = compaction.Uncertain, codeNativeUncertain
		e.Reason = detailed(err, adapters.ErrUncertain, "it is not known whether the provider compacted")
		e.Remedy = "go on: the next report of the provider shows the size of its context"
	case errors.Is(err, adapters.ErrNothingToCompact):
		e.Outcome, e.Code = compaction.Unchanged, compaction.CodeNothingToCompact
		e.Reason = detailed(err, adapters.ErrNothingToCompact, "the provider found nothing to compact")
		e.Remedy = "go on as it is, and compact again when the thread is longer"
	case errors.Is(err, adapters.ErrNotCompacted):
		e.Code, e.Reason = codeNotCompacted, detailed(err, adapters.ErrNotCompacted, "the provider did not compact; its history is as it was")
		e.Remedy = "ask again, or use route local"
	case fault.CodeOf(err) == fault.Denied:
		e.Outcome, e.Code, e.Remedy = compaction.Denied, string(fault.Denied), "change what denied it, or use route local"
	case isFailed:
		e.Code, e.Remedy = string(failed.Class), "mend what the provider complains about, or use route local"
		if failed.Temporary() {
			e.Remedy = "ask again later, or use route local"
		}
	default:
		return err
	}
	return e
}

// detailed is a sentence with what an adapter added to one of the errors that mean
// something, in one line.
func detailed(err, known error, sentence string) string {
	said := strings.ReplaceAll(err.Error(), known.Error(), "")
	for line := range strings.Lines(said) { // joined errors have one each
		line = strings.TrimPrefix(strings.Trim(line, ": \n"), "adapters: ")
		if line != "" && !strings.Contains(sentence, line) {
			sentence += "; " + line
		}
	}
	return sentence
}

// told is what the provider of a runtime counted last, or nil.
func (s *state) told(env env) *compaction.Measure {
	if s.Meter.Reported <= 0 || s.Meter.Model != env.auto.model {
		return nil
	}
	return compaction.Told(s.Meter.Reported, env.auto.limits.measured())
}

// taught is what decisions know once a window was learned in their commit.
func (e env) taught(w *LearnedWindow) env {
	if w != nil {
		e.auto.limits = e.auto.limits.taught(*w)
		e.window = e.auto.limits.window
	}
	return e
}

// compactedNatively reports whether the newest compaction that this server asked for was
// the provider's: then it can do so again, as far as anybody knows before its session is
// open.
func (s *state) compactedNatively() bool {
	for _, r := range slices.Backward(s.Compactions) {
		if r.Trigger != compaction.TriggerProvider && r.Terminal() {
			return r.Replaced()
		}
	}
	return false
}

// inCompactTurn reports whether the turn in progress is for a compaction and nothing
// else: then a session that asks for something does so because it compacts natively.
func (s *state) inCompactTurn() bool {
	turn := s.activeTurn()
	return turn != nil && turn.Kind == transcript.TurnCompact
}
