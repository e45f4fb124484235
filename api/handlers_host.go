package api

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file answers what clients of codex ask about the server itself. What this
// server does not have is answered emptily; see coverage.go.

// accountRead says that there are no accounts: providers are configured.
func (s *Server) accountRead(context.Context, *Empty) (*AccountResult, error) {
	return &AccountResult{}, nil
}

// unlisted stands for the model of a provider that cannot list its models. It is
// a name for people: where a client sends it back, the default is meant.
const unlisted = "default"

// listed is the model that a client means.
func listed(model string) string {
	if model == unlisted {
		return ""
	}
	return model
}

// modelList lists the models of a provider, of the default one unless another is
// named; there is always one.
func (s *Server) modelList(ctx context.Context, p *ModelListParams) (*ModelListResult, error) {
	providers := s.svc.Providers(ctx)
	i := slices.IndexFunc(providers, func(i threads.ProviderInfo) bool {
		return i.Name == p.ModelProvider || p.ModelProvider == "" && i.Default
	})
	if i < 0 {
		return nil, invalid("provider %q is not configured", clip(p.ModelProvider))
	}
	all := codexModels(providers[i])
	page, next, err := pageOfAll(p.PageParams, all)
	return &ModelListResult{page, next}, err
}

func codexModels(p threads.ProviderInfo) []CodexModel {
	model := func(id, display, description string, first bool) CodexModel {
		return CodexModel{
			ID: id, Model: id, DisplayName: display, Description: description, IsDefault: first, ModelProvider: p.Name,
			SupportedReasoningEfforts: []EffortOption{}, DefaultReasoningEffort: "medium", InputModalities: []string{"text"},
			AdditionalSpeedTiers: []string{}, ServiceTiers: []Empty{},
		}
	}
	if len(p.Models) == 0 {
		return []CodexModel{model(unlisted, p.Name, cmp.Or(p.Error, "The provider lists no models."), true)}
	}
	var all []CodexModel
	for i, m := range p.Models {
		all = append(all, model(m.ID, cmp.Or(m.DisplayName, m.ID), "Provider "+p.Name, i == 0))
	}
	return all
}

// pageOfAll is a page of a list that is whole in memory. Its cursor is a position.
func pageOfAll[T any](p PageParams, all []T) ([]T, NextPage, error) {
	from := 0
	if p.Cursor != "" {
		n, err := strconv.Atoi(p.Cursor)
		if err != nil || n < 0 || n > len(all) {
			return nil, NextPage{}, invalid("invalid cursor: %s", clip(p.Cursor))
		}
		from = n
	}
	to := min(len(all), from+cmp.Or(p.Limit, defaultPage))
	next := NextPage{}
	if to < len(all) {
		next.NextCursor = new(strconv.Itoa(to))
	}
	return all[from:to], next, nil
}

// configRead tells what a thread gets that asks for nothing.
func (s *Server) configRead(ctx context.Context, _ *Empty) (*ConfigResult, error) {
	r := &ConfigResult{
		Config:  ConfigValues{ApprovalPolicy: "on-request", SandboxMode: "read-only"},
		Origins: map[string]Empty{},
	}
	for _, p := range s.svc.Providers(ctx) {
		if !p.Default {
			continue
		}
		r.Config.ModelProvider = p.Name
		if len(p.Models) > 0 {
			r.Config.Model, r.Config.ModelContextWindow = &p.Models[0].ID, positive(p.Models[0].ContextWindow)
		}
	}
	return r, nil
}

// requirementsRead says that nobody restricts the configuration.
func (s *Server) requirementsRead(context.Context, *Empty) (*RequirementsResult, error) {
	return &RequirementsResult{}, nil
}

// nothing answers with an empty list.
func (s *Server) nothing(context.Context, *ListParams) (*EmptyList, error) {
	return &EmptyList{Data: []Empty{}}, nil
}

// nothingOfThread answers with an empty list of a thread that exists.
func (s *Server) nothingOfThread(ctx context.Context, p *ThreadParams) (*EmptyList, error) {
	id := transcript.ThreadID(p.ThreadID)
	_, err := s.service(id).ReadThread(ctx, id)
	return &EmptyList{Data: []Empty{}}, err
}

// goalGet says that the thread has no goal.
func (s *Server) goalGet(ctx context.Context, p *ThreadParams) (*GoalResult, error) {
	id := transcript.ThreadID(p.ThreadID)
	_, err := s.service(id).ReadThread(ctx, id)
	return &GoalResult{}, err
}

// collaborationModes lists the one mode that changes nothing.
func (s *Server) collaborationModes(context.Context, *Empty) (*CollaborationModesResult, error) {
	return &CollaborationModesResult{[]CollaborationMask{{Name: "Default", Mode: "default"}}}, nil
}

// plugins says that there are none.
func (s *Server) plugins(context.Context, *Empty) (*PluginsResult, error) {
	return &PluginsResult{[]Empty{}, []Empty{}, []string{}}, nil
}

// apps says that there are none.
func (s *Server) apps(context.Context, *Empty) (*AppsResult, error) {
	return &AppsResult{[]Empty{}}, nil
}

// permissionProfiles lists the sandboxes under codex's other names.
func (s *Server) permissionProfiles(_ context.Context, p *ListParams) (*ProfilesResult, error) {
	all := []PermissionProfile{}
	for _, mode := range []string{"read-only", "workspace-write", "danger-full-access"} {
		all = append(all, PermissionProfile{ID: profiles[mode], Allowed: true})
	}
	page, next, err := pageOfAll(p.PageParams, all)
	return &ProfilesResult{page, next}, err
}

// govCloud says that there is nothing to warn of.
func (s *Server) govCloud(context.Context, *Empty) (*GovCloudResult, error) {
	return &GovCloudResult{}, nil
}
