package chat

import (
	"fmt"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
)

// finish is why a server says that it stopped, folded into what matters.
type finish string

// The reasons. finishFailed is none: the answer did not succeed.
const (
	finishStop   finish = "stop"
	finishTools  finish = "tools"
	finishLength finish = "length"
	finishWindow finish = "window"
	finishFilter finish = "filter"
	finishFailed finish = "failed"
)

// finishes folds the words in use, in lower case. Gateways pass on those of
// Anthropic and of Gemini.
var finishes = map[string]finish{
	"stop": finishStop, "end": finishStop, "eos": finishStop, "end_turn": finishStop, "stop_sequence": finishStop,
	"complete": finishStop, "completed": finishStop, "finish_reason_unspecified": finishStop,
	"tool_calls": finishTools, "tool_call": finishTools, "function_call": finishTools, "tool_use": finishTools,
	"length": finishLength, "max_tokens": finishLength, "max_output_tokens": finishLength, "model_length": finishLength,
	"model_context_window_exceeded": finishWindow, "context_length_exceeded": finishWindow,
	"content_filter": finishFilter, "sensitive": finishFilter, "safety": finishFilter, "refusal": finishFilter,
	"recitation": finishFilter, "blocklist": finishFilter, "prohibited_content": finishFilter, "spii": finishFilter,
	"error": finishFailed, "network_error": finishFailed, "insufficient_system_resource": finishFailed,
	"abort": finishFailed, "aborted": finishFailed, "cancelled": finishFailed,
}

// fold returns what a finish_reason means. One that nobody knows is an end: the
// server did say that it was done.
func fold(reason string) finish {
	reason = strings.ToLower(strings.TrimSpace(reason))
	if reason == "" || reason == "null" {
		return ""
	}
	if f, known := finishes[reason]; known {
		return f
	}
	return finishStop
}

// cut reports whether the model was stopped before it was done.
func (f finish) cut() bool { return f == finishLength || f == finishWindow || f == finishFilter }

// full is from which share of the window on, in percent, an answer that was cut
// was cut by the window.
const full = 99

// stop says how an answer ended that is complete. The error is that of a request
// whose prompt filled the window without the server saying so. The rules:
//
//   - a prompt larger than the window, or far smaller than what was sent of one
//     that could not fit, where the server is one that drops the beginning in
//     silence: the window;
//   - a length without any answer, and a prompt of 99 % of the window, or from a
//     server that stops like that: no answer but an overflow;
//   - a length with prompt and answer together at 99 % of the window: the window;
//   - a length before the bound that was asked for, in a window that nobody knows:
//     the window, since it was not the bound.
func (a *answer) stop(calls bool) (adapters.StopReason, error) {
	u, w := a.tally.now, a.sent.window
	empty := !a.visible && !calls
	if a.p.silent && (w > 0 && u.InputTokens > w || a.dropped()) {
		if empty {
			return "", a.overflow("the server dropped the beginning of a prompt that did not fit, and answered nothing")
		}
		return adapters.StopWindow, nil
	}
	switch a.finish {
	case finishWindow:
		if empty {
			return "", a.overflow("the model stopped because its context window was full")
		}
		return adapters.StopWindow, nil
	case finishFilter:
		return adapters.StopFilter, nil
	case finishLength:
		return a.length(u, w, empty)
	case finishStop, finishTools, finishFailed: // the last one was an error before
	}
	if calls {
		return adapters.StopTools, nil
	}
	return adapters.StopEnd, nil
}

// dropped reports whether the server read far less than it was sent: more than the
// window by our own count, of which it counts less than 70 %. No text is estimated
// that badly too high.
func (a *answer) dropped() bool {
	read, w := a.tally.now.InputTokens, a.sent.window
	return w > 0 && read > 0 && read <= w && a.sent.estimate > w+w/10 && read*10 < a.sent.estimate*7
}

func (a *answer) length(u adapters.Usage, w int, empty bool) (adapters.StopReason, error) {
	nearly := func(n int) bool { return w > 0 && n*100 >= w*full }
	capped := a.sent.maxOutput > 0 && u.OutputTokens >= a.sent.maxOutput
	switch {
	case empty && nearly(u.InputTokens) && u.OutputTokens == 0,
		empty && a.p.blank && !capped:
		return "", a.overflow("the prompt filled the context window: the answer was cut before it began")
	case nearly(u.InputTokens + u.OutputTokens):
		return adapters.StopWindow, nil
	case w == 0 && a.sent.maxOutput > 0 && u.OutputTokens > 0 && !capped:
		return adapters.StopWindow, nil
	}
	return adapters.StopLength, nil
}

// overflow is the error of a request that did not fit although no server said so.
func (a *answer) overflow(format string, args ...any) error {
	return &adapters.Error{
		Class: adapters.ClassOverflow, Message: fmt.Sprintf(format, args...),
		Requested: a.tally.now.InputTokens, Limit: a.sent.window,
	}
}
