package threads

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A Preview is what a compaction would do if it ran now.
type Preview struct {
	// Record is as the compaction's would be at its end, without ids, phases and times.
	// The sizes and the items of a local one are those of its plan, with a checkpoint
	// that no model wrote: one that a model writes differs in its text, within the same
	// target. A native one says only that it would be native.
	Record     compaction.Record
	Summarized []transcript.ItemID // that the checkpoint would stand for
	Clipped    []transcript.ItemID
	Stubbed    []transcript.ItemID
	Writers    []string // models that would be asked, in order; empty if none would
	// Cost is what the first of Writers would use at most, estimated; nil if no model
	// would be asked.
	Cost *compaction.Usage
	AsOf events.Cursor
}

// codePreview is the code of a model that is only looked at.
const codePreview = "preview"

// PreviewCompaction says what a compaction would do. Nothing is journaled, no hook
// runs and no model is asked for anything. A refusal is a value here too.
func (s *Service) PreviewCompaction(ctx context.Context, p CompactParams) (Preview, error) {
	if err := p.check(); err != nil {
		return Preview{}, err
	}
	p.Route = cmp.Or(p.Route, s.cfg.CompactionRoute)
	if err := p.checkRoute(); err != nil {
		return Preview{}, err
	}
	type look struct {
		a    *actor
		run  *compactionRun
		sess *session
		box  toolbox
		asOf events.Cursor
	}
	l, err := query(ctx, s, p.Thread, func(a *actor) look {
		return look{a, a.previewRun(p), a.session, a.toolbox(), a.state.cursor()}
	})
	if err != nil {
		return Preview{}, err
	}
	out := Preview{AsOf: l.asOf}
	sess, unopened := l.sess, error(nil)
	rt, runtime := s.runtimeOf(l.run.settings)
	if sess == nil && !runtime {
		if sess, unopened = s.openAside(ctx, p.Thread, l.run.settings, l.box.specs); unopened == nil {
			defer s.closeAside(sess)
			l.run.input.Base += sess.base
		}
	}
	if unopened != nil && (p.Route == compaction.RouteNative || ctx.Err() != nil) {
		return Preview{}, unopened
	}
	var can compaction.Ability
	switch {
	case unopened != nil:
		can = unreachable(unopened)
	case sess == nil: // another session would be in the way of the thread's own
		can = probed(rt.Probe(ctx))
	default:
		can = ability(sess.Compaction())
	}
	if p.Route != compaction.RouteLocal && can.Native != "" && len(l.run.input.Entries) > 0 {
		out.native(l.run, can)
		return out, nil
	}
	l.run.measure(ctx, sess)
	w := &writers{a: l.a, settings: l.run.settings}
	job := l.a.job(l.run, sess, can, w)
	ask := &asked{}
	job.Models = ask.instead(job.Models)
	job.Enter, job.PreHooks = nil, nil // the provider is not asked: of an empty thread nobody is
	v := compaction.Run(ctx, job)
	if ctx.Err() != nil {
		return Preview{}, context.Cause(ctx)
	}
	out.local(l.run, v, ask, s)
	return out, nil
}

// runtimeOf returns the program behind a thread's provider, if it is one.
func (s *Service) runtimeOf(settings Settings) (adapters.Runtime, bool) {
	p, ok := s.provider(settings.Provider)
	if !ok {
		return nil, false
	}
	rt, is := p.Adapter.(adapters.Runtime)
	return rt, is
}

// probed is what a program's session could do, if it were open.
func probed(p adapters.Probe) compaction.Ability {
	if len(p.Problems) > 0 {
		return unreachable(fault.New(fault.Unavailable, "%s", p.Problems[0].Text))
	}
	return ability(p.Compaction)
}

// previewRun is what a run of p would be given now. Its base is without that of a
// session if none is open.
func (a *actor) previewRun(p CompactParams) *compactionRun {
	s := a.state
	c := a.nextContext()
	au := a.automatic(s.Settings)
	rec := compaction.NewRecord()
	rec.ThreadID, rec.Trigger, rec.Epoch, rec.BaseSeq = s.ID, compaction.TriggerManual, s.Transcript.Epoch(), s.Seq
	base := a.carried.tokens
	if a.session != nil {
		base += a.session.base
	}
	return &compactionRun{
		record: rec, settings: s.Settings, auto: au, covered: len(s.Transcript.Items),
		request: CompactRequest{Route: p.Route, Writer: p.Writer, Budget: p.Budget, Instructions: p.Instructions},
		context: c, load: s.load(au, 0), counted: s.counted(au), runtime: a.keepsHistory(),
		input: compaction.Input{Entries: c.Entries, Open: a.unread(), Base: base, Facts: a.facts()},
	}
}

// openAside opens a session that nothing is run on.
func (s *Service) openAside(ctx context.Context, id transcript.ThreadID, settings Settings, tools []adapters.ToolSpec) (*session, error) {
	p, ok := s.provider(settings.Provider)
	if !ok {
		return nil, fault.New(fault.Unavailable, "provider %q is not configured any more", settings.Provider)
	}
	var opened adapters.Session
	err := guard(func() (err error) {
		opened, err = p.Adapter.Open(ctx, adapters.OpenParams{Thread: id, Model: settings.Model, Cwd: settings.Cwd, Tools: tools})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open session with %s: %w", settings.Provider, err)
	}
	return newSession(opened, settings), nil
}

func (s *Service) closeAside(sess *session) {
	if err := guard(sess.Close); err != nil {
		s.log.Warn("close session of a preview", "err", err)
	}
}

// native fills what can be said of the provider's own compaction: only that it would
// be asked for.
func (p *Preview) native(run *compactionRun, can compaction.Ability) {
	p.Record, _, _ = run.record.Conclude(compaction.Verdict{
		Outcome: compaction.Completed, Route: compaction.RouteNative, Native: &compaction.NativeDone{Info: compaction.NativeInfo{Form: can.Native}},
	}, compaction.End{Window: run.auto.limits.measured()})
	p.Record.Phase, p.Record.CompletedAt = compaction.PhaseRequested, nil
}

// local fills what a run came to whose models were only looked at.
func (p *Preview) local(run *compactionRun, v compaction.Verdict, ask *asked, s *Service) {
	v.Usage = nil
	v.Skipped = slices.DeleteFunc(v.Skipped, func(s compaction.Skip) bool { return s.Code == codePreview })
	var prune *transcript.Prune
	p.Record, _, prune = run.record.Conclude(v, compaction.End{
		Window: run.auto.limits.measured(), Scale: run.scale, Covered: run.covered, Checkpoint: "preview",
	})
	p.Record.Phase, p.Record.CompletedAt = compaction.PhaseRequested, nil
	if p.Record.Checkpoint != nil {
		p.Record.Checkpoint.ItemID = ""
	}
	if v.Outcome != compaction.Completed || v.Composed == nil {
		return
	}
	p.Summarized = v.Composed.Summarized
	kept := v.Composed.Kept
	if prune != nil {
		kept = prune.Kept
	}
	for _, k := range kept {
		switch k.Form {
		case transcript.FormClipped:
			p.Clipped = append(p.Clipped, k.ItemID)
		case transcript.FormStub:
			p.Stubbed = append(p.Stubbed, k.ItemID)
		case transcript.FormWhole:
		}
	}
	if len(ask.names) > 0 {
		p.Writers, p.Record.Writer = ask.names, new(compaction.WriterModel)
		p.Cost = ask.cost(run, v.Composed, s)
	}
}

// asked are the models that a preview looks at.
type asked struct {
	names  []string
	prompt compaction.Prompt // the first one
	tokens int               // of it
}

// instead returns the models as ones that only note what they are asked.
func (k *asked) instead(models []compaction.ModelWriter) []compaction.ModelWriter {
	out := slices.Clone(models)
	for i := range out {
		name := out[i].Name
		out[i].Ask = func(_ context.Context, p compaction.Prompt) (compaction.Answer, error) {
			if len(k.names) == 0 {
				k.prompt, k.tokens = p, transcript.EstimateText(p.System)+transcript.EstimateText(p.Text)
			}
			if !slices.Contains(k.names, name) {
				k.names = append(k.names, name)
			}
			return compaction.Answer{}, &compaction.AskError{Code: codePreview, Message: "only a preview"}
		}
	}
	return out
}

// cost estimates what the first model would use: as many requests like the first one
// as the summarised items fill.
func (k *asked) cost(run *compactionRun, c *compaction.Composed, s *Service) *compaction.Usage {
	gone := make(map[transcript.ItemID]bool, len(c.Summarized))
	for _, id := range c.Summarized {
		gone[id] = true
	}
	all := 0
	for _, e := range run.context.Entries {
		if gone[e.Item.ID] {
			all += min(transcript.Estimate(e.Item.Body), serialisedMost)
		}
	}
	requests := max(1, (all+k.tokens-1)/max(k.tokens, 1))
	u := &compaction.Usage{InputTokens: requests * k.tokens, OutputTokens: requests * k.prompt.MaxOutput, Requests: requests}
	u.CostUSD = costOf(s.priceOf(k.names[0]), adapters.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens})
	return u
}

// serialisedMost is about the most tokens that one item has in a writer's prompt.
const serialisedMost = 600

// priceOf returns the price of a model by the name of its writer; nil if unknown.
func (s *Service) priceOf(writer string) *adapters.Price {
	for _, p := range s.cfg.Providers {
		for _, m := range s.modelsOf(p.Name) {
			if (Settings{Provider: p.Name, Model: m.ID}).model() == writer {
				return m.Price
			}
		}
	}
	return nil
}
