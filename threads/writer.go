package threads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// How long writers may take where the configuration says nothing.
const (
	writerTimeout = 120 * time.Second // one request
	writerTotal   = 300 * time.Second // all requests of one compaction
)

// codeTimeout is the code of a writer that did not answer in time.
const codeTimeout = "timeout"

// writers are the models that one compaction may ask for a checkpoint. Only the
// goroutine of the compaction uses it.
type writers struct {
	a        *actor
	settings Settings
	deadline time.Time // of all requests; set by the first one
	opened   []adapters.Session
}

// models lists who may write: the configured model, then the thread's own. none says
// why there is nobody; it is nil if nobody is wanted.
func (w *writers) models(want compaction.Writer, own *session) (models []compaction.ModelWriter, none *compaction.Refusal) {
	if want != "" && want != compaction.WriterModel {
		return nil, nil
	}
	cfg := w.a.svc.cfg.Writer
	chosen := w.configured(cfg)
	if chosen != w.settings {
		models = append(models, w.other(chosen))
	}
	if own == nil {
		return models, nil
	}
	sum, ok := own.Session.(adapters.Summarizer)
	if !ok {
		return models, &compaction.Refusal{Code: "noWriter", Reason: "the thread's provider is no model that can be asked for a checkpoint", Remedy: "set [compaction] writer_provider in config.toml"}
	}
	if r := sum.Unfit(); r != nil {
		return models, new(compaction.Refusal(*r))
	}
	return append(models, w.writer(w.settings, func(context.Context) (adapters.Summarizer, error) { return sum, nil })), nil
}

// configured is the thread's settings with the model that the configuration names.
func (w *writers) configured(cfg WriterConfig) Settings {
	s := w.settings
	if cfg.Provider != "" && cfg.Provider != s.Provider {
		s.Provider, s.Model = cfg.Provider, cfg.Model
	}
	s.Model = cmp.Or(cfg.Model, s.Model)
	if s.Model == "" {
		if list := w.a.svc.modelsOf(s.Provider); len(list) > 0 {
			s.Model = list[0].ID
		}
	}
	return s
}

// other is a writer that gets a session of its own, opened when it is first asked.
func (w *writers) other(s Settings) compaction.ModelWriter {
	var sum adapters.Summarizer
	return w.writer(s, func(ctx context.Context) (adapters.Summarizer, error) {
		if sum != nil {
			return sum, nil
		}
		p, ok := w.a.svc.provider(s.Provider)
		if !ok {
			return nil, fault.New(fault.Unavailable, "provider %q, which is to write checkpoints, is not configured", s.Provider)
		}
		sess, err := p.Adapter.Open(ctx, adapters.OpenParams{Thread: w.a.id, Model: s.Model, Cwd: s.Cwd})
		if err != nil {
			return nil, fmt.Errorf("open a session with %s, which is to write checkpoints: %w", s.Provider, err)
		}
		w.opened = append(w.opened, sess)
		found, ok := sess.(adapters.Summarizer)
		if !ok {
			return nil, fault.New(fault.Refused, "provider %s is no model that can be asked for a checkpoint", s.Provider)
		}
		if r := found.Unfit(); r != nil {
			return nil, fault.New(fault.Refused, "%s", r.Reason)
		}
		sum = found
		return sum, nil
	})
}

// writer is a model as a compaction asks it.
func (w *writers) writer(s Settings, open func(context.Context) (adapters.Summarizer, error)) compaction.ModelWriter {
	l := w.a.svc.limits(s.Provider, s.Model)
	return compaction.ModelWriter{
		Name: s.model(), Window: l.window, MaxOutput: l.maxOutput,
		Ask: func(ctx context.Context, p compaction.Prompt) (compaction.Answer, error) {
			return w.ask(ctx, open, l.price, p)
		},
	}
}

// pause waits before a request is made again, or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask performs one request within its time.
func (w *writers) ask(ctx context.Context, open func(context.Context) (adapters.Summarizer, error), price *adapters.Price, p compaction.Prompt) (compaction.Answer, error) {
	cfg := w.a.svc.cfg.Writer
	began := w.a.svc.now()
	if w.deadline.IsZero() {
		w.deadline = began.Add(cmp.Or(cfg.Total, writerTotal))
	}
	limit := min(cmp.Or(cfg.Timeout, writerTimeout), w.deadline.Sub(began))
	if limit <= 0 {
		return compaction.Answer{}, &compaction.AskError{Code: codeTimeout, Message: "the time for writing the checkpoint is used up"}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sum, err := open(ctx)
	if err != nil {
		return compaction.Answer{}, askError(ctx, err, limit)
	}
	var s adapters.Summary
	err = guard(func() (err error) {
		s, err = sum.Summarize(ctx, adapters.SummaryRequest{System: p.System, Text: p.Text, MaxOutput: p.MaxOutput})
		return err
	})
	for _, what := range s.Repaired {
		w.a.svc.log.Warn("a writer's request was mended", "thread", w.a.id, "what", what)
	}
	answer := compaction.Answer{
		Text: s.Text, Complete: s.Stop == adapters.StopEnd, Stop: string(s.Stop),
		Usage: compaction.Usage{
			InputTokens: s.Usage.InputTokens, OutputTokens: s.Usage.OutputTokens, Requests: 1,
			DurationMs: w.a.svc.now().Sub(began).Milliseconds(), CostUSD: costOf(price, s.Usage),
		},
	}
	if err != nil {
		return answer, askError(ctx, err, limit)
	}
	return answer, nil
}

// askError is a writer's failure in the words of compactions. The end of the whole
// compaction is no failure of the writer.
func askError(ctx context.Context, err error, limit time.Duration) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &compaction.AskError{Code: codeTimeout, Message: fmt.Sprintf("no answer within %s", limit)}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*adapters.Error](err); ok {
		return &compaction.AskError{
			Code: string(e.Class), Message: e.Message, Temporary: e.Temporary(),
			Overflow: e.Class == adapters.ClassOverflow, RetryAfter: e.RetryAfter,
		}
	}
	return &compaction.AskError{Code: string(fault.CodeOf(err)), Message: err.Error(), Overflow: errors.Is(err, adapters.ErrOverflow)}
}

// costOf is what a request cost, in US dollars; nil where the price is unknown.
func costOf(p *adapters.Price, u adapters.Usage) *float64 {
	if p == nil {
		return nil
	}
	cached := min(u.CachedInputTokens, u.InputTokens)
	const perMillion = 1e6
	return new((float64(u.InputTokens-cached)*p.Input + float64(cached)*p.CachedInput + float64(u.OutputTokens)*p.Output) / perMillion)
}

// close ends the sessions that were opened for writing.
func (w *writers) close() {
	for _, s := range w.opened {
		if err := guard(s.Close); err != nil {
			w.a.svc.log.Warn("close the session of a writer", "thread", w.a.id, "err", err)
		}
	}
}

// preHooks asks those who may deny a compaction.
func (a *actor) preHooks(run compactionRun) func(context.Context) (string, []string, error) {
	hooks := a.svc.cfg.Hooks
	if hooks == nil {
		return nil
	}
	return func(ctx context.Context) (text string, warnings []string, denied error) {
		err := guard(func() error {
			v, err := a.send(ctx, message{query: func(a *actor) any { return valueOf(a.state.compaction(run.record.CompactionID)) }})
			if err != nil {
				return err
			}
			text, warnings, denied = hooks.PreCompact(ctx, a.hookEvent(v.(compaction.Record), run.settings, run.request.Instructions))
			return nil
		})
		return text, warnings, errors.Join(denied, err)
	}
}

func (a *actor) hookEvent(r compaction.Record, s Settings, instructions string) HookEvent {
	return HookEvent{Thread: a.id, Turn: r.TurnID, Cwd: s.Cwd, Model: s.Model, Instructions: instructions, Record: r}
}

// tellHooks runs the post hooks. What they could not do is added to the record.
func (a *actor) tellHooks(e tellHooks) {
	hooks := a.svc.cfg.Hooks
	if hooks == nil {
		return
	}
	event := a.hookEvent(e.record, a.state.Settings, e.instructions)
	ctx := a.ctx
	a.telling++
	a.work.Go(func() {
		var warnings []string
		if err := guard(func() error { warnings = hooks.PostCompact(ctx, event); return nil }); err != nil {
			warnings = append(warnings, "a hook after the compaction failed: "+fault.MessageOf(err))
		}
		a.tell(warnCompaction{event.Record.CompactionID, warnings})
	})
}

// warnCompaction adds warnings to the record of a compaction that has ended.
type warnCompaction struct {
	id       transcript.CompactionID
	warnings []string
}

func (c warnCompaction) ended(a *actor) { a.telling = max(0, a.telling-1) }

func (c warnCompaction) decide(s *state, _ env) (decision, error) {
	known := s.compaction(c.id)
	if known == nil || !known.Terminal() || len(c.warnings) == 0 || s.Deleted {
		return decision{}, nil
	}
	rec := *known
	rec.Warnings = append(append([]string{}, known.Warnings...), c.warnings...)
	return decision{payloads: []Payload{CompactionUpdated{Record: rec}}}, nil
}
