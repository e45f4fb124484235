package threads

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// A SettingsPatch changes what is not nil. An empty text stands for the default;
// a provider without a model, for the provider's default model.
type SettingsPatch struct {
	Provider, Model, Cwd, ApprovalPolicy, Sandbox, Effort, Mode *string
}

// maxEffort bounds Settings.Effort, in code points.
const maxEffort = 64

// modeDefault is the collaboration mode that is stored as the empty text.
const modeDefault = "default"

// apply returns the settings after the patch; nothing is checked yet.
func (p SettingsPatch) apply(in Settings) Settings {
	if p.Provider != nil && *p.Provider != in.Provider {
		in.Provider, in.Model = *p.Provider, ""
	}
	change(&in.Model, p.Model)
	change(&in.Cwd, p.Cwd)
	change(&in.ApprovalPolicy, p.ApprovalPolicy)
	change(&in.Sandbox, p.Sandbox)
	change(&in.Effort, p.Effort)
	change(&in.Mode, p.Mode)
	return in
}

// UpdateSettings changes what a thread runs with, from its next request on. What
// changes nothing writes nothing. Another provider, model or folder takes effect
// with the next turn: the one that runs ends as it began.
func (s *Service) UpdateSettings(ctx context.Context, id transcript.ThreadID, p SettingsPatch) (Settings, error) {
	return ask[Settings](ctx, s, id, changeSettings{p})
}

type changeSettings struct{ p SettingsPatch }

func (c changeSettings) decide(s *state, env env) (decision, error) {
	ps, err := s.patched(env, c.p)
	return decision{payloads: ps, answer: func(s *state) any { return s.Settings }}, err
}

// patched returns the event of a change of settings, or none if there is none.
func (s *state) patched(env env, p SettingsPatch) ([]Payload, error) {
	if p == (SettingsPatch{}) {
		return nil, nil
	}
	settled, err := env.resettle(s.Settings, p.apply(s.Settings))
	if err != nil || settled == s.Settings {
		return nil, err
	}
	return []Payload{SettingsUpdated{settled}}, nil
}

// resettle checks settings that were changed. What the change did not touch was
// allowed before and stays, also if its provider is not configured any more.
func (s *Service) resettle(old, changed Settings) (Settings, error) {
	switch {
	case changed.Provider != old.Provider || changed.Model != old.Model:
		return s.settle(changed)
	case changed.Cwd != old.Cwd:
		return s.settleWhere(changed)
	}
	return s.settleRest(changed)
}

// settle fills what a client left out of a thread's settings, and refuses what is
// not configured.
func (s *Service) settle(in Settings) (Settings, error) {
	if in.Provider == "" {
		in.Provider = s.cfg.Providers[0].Name
	}
	if _, ok := s.provider(in.Provider); !ok {
		names := make([]string, len(s.cfg.Providers))
		for i, p := range s.cfg.Providers {
			names[i] = p.Name
		}
		return in, fault.New(fault.Invalid, "provider %q is not configured; configured: %s", in.Provider, strings.Join(names, ", "))
	}
	models := s.modelsOf(in.Provider)
	if in.Model == "" && len(models) > 0 {
		in.Model = models[0].ID
	}
	if len(models) > 0 && !slices.ContainsFunc(models, func(m adapters.ModelInfo) bool { return m.ID == in.Model }) {
		ids := make([]string, len(models))
		for i, m := range models {
			ids[i] = m.ID
		}
		return in, fault.New(fault.Invalid, "provider %q has no model %q; it has: %s", in.Provider, in.Model, strings.Join(ids, ", "))
	}
	return s.settleWhere(in)
}

// settleWhere is settle for all but the provider and the model. A runtime works in the
// folder, and would go on somewhere else without a word (codex 0.171, observed); for
// others it is only told.
func (s *Service) settleWhere(in Settings) (Settings, error) {
	in, err := s.settleRest(in)
	if err != nil {
		return in, err
	}
	if !s.hasFolder(in) {
		return in, fault.New(fault.Invalid, "cwd is %q, which is no folder here; %s works in it, so name one that is there", in.Cwd, in.Provider)
	}
	return in, nil
}

// hasFolder reports whether the folder that a runtime works in is there.
func (s *Service) hasFolder(in Settings) bool {
	if p, _ := s.provider(in.Provider); !isRuntime(p) {
		return true
	}
	info, err := os.Stat(in.Cwd)
	return err == nil && info.IsDir()
}

// settleRest is settle for all but the provider and the model.
func (s *Service) settleRest(in Settings) (Settings, error) {
	if in.Cwd == "" {
		in.Cwd = s.cfg.Cwd
	}
	if !filepath.IsAbs(in.Cwd) {
		return in, fault.New(fault.Invalid, "cwd is %q; it must be an absolute path", in.Cwd)
	}
	if err := checkText("effort", in.Effort, maxEffort); err != nil {
		return in, err
	}
	var err error
	if in.ApprovalPolicy, err = oneOf("approvalPolicy", in.ApprovalPolicy, "on-request", "untrusted", "never"); err != nil {
		return in, err
	}
	if in.Sandbox, err = oneOf("sandbox", in.Sandbox, "read-only", "workspace-write", "danger-full-access"); err != nil {
		return in, err
	}
	if in.Mode, err = oneOf("mode", in.Mode, modeDefault, "plan"); in.Mode == modeDefault {
		in.Mode = ""
	}
	return in, err
}
