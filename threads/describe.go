package threads

import (
	"context"
	"unicode/utf8"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file holds what clients say about a thread and what puts it away: nothing
// of it reaches a model.

// maxName bounds a thread's name, in code points.
const maxName = 200

// maxFact bounds each text that clients tell about a thread, in code points.
const maxFact = 1000

// checkText refuses a text that is none or too long.
func checkText(field, text string, most int) error {
	if !utf8.ValidString(text) {
		return fault.New(fault.Invalid, "%s is not valid UTF-8", field)
	}
	if n := utf8.RuneCountInString(text); n > most {
		return fault.New(fault.Invalid, "%s has %d code points; at most %d are allowed", field, n, most)
	}
	return nil
}

// SetName names a thread; an empty name takes the name away.
func (s *Service) SetName(ctx context.Context, id transcript.ThreadID, name string) error {
	if err := checkText("name", name, maxName); err != nil {
		return err
	}
	_, err := s.do(ctx, id, message{cmd: rename{name}})
	return err
}

type rename struct{ name string }

func (c rename) decide(s *state, _ env) (decision, error) {
	if c.name == s.Name {
		return decision{}, nil
	}
	return decision{payloads: []Payload{NameUpdated{c.name}}}, nil
}

// Archive puts a thread that is idle away: it is not listed unless asked for, and
// takes no input.
func (s *Service) Archive(ctx context.Context, id transcript.ThreadID) error {
	_, err := s.do(ctx, id, message{cmd: putAway{true}})
	return err
}

// Unarchive brings a thread back.
func (s *Service) Unarchive(ctx context.Context, id transcript.ThreadID) (ThreadRead, error) {
	if _, err := s.do(ctx, id, message{cmd: putAway{false}}); err != nil {
		return ThreadRead{}, err
	}
	return s.ReadThread(ctx, id)
}

// putAway is Archive and Unarchive. What is so already stays so.
type putAway struct{ archived bool }

func (c putAway) decide(s *state, _ env) (decision, error) {
	switch {
	case c.archived == s.Archived:
		return decision{}, nil
	case !c.archived:
		return decision{payloads: []Payload{ThreadUnarchived{}}}, nil
	}
	if err := s.mustRest(); err != nil {
		return decision{}, err
	}
	return decision{payloads: []Payload{ThreadArchived{}}}, nil
}

// mustRest refuses what only a thread at rest can do.
func (s *state) mustRest() error {
	if s.Active == "" && s.running() == nil && len(s.Queue) == 0 {
		return nil
	}
	return fault.New(fault.Busy, "thread %s is at work; interrupt it, or wait until it is idle", s.ID)
}

// inUse is a command that a thread which was put away does not take, unless it
// only repeats, under its idempotency key, what was taken before.
type inUse struct {
	command
	key, hash string
}

func (c inUse) decide(s *state, env env) (decision, error) {
	if s.Archived {
		if _, again, _ := s.repeated(c.key, c.hash); !again {
			return decision{}, fault.New(fault.Refused, "thread %s is archived; unarchive it first", s.ID)
		}
	}
	return c.command.decide(s, env)
}

// A MetadataPatch changes what is not nil; an empty text clears.
type MetadataPatch struct{ SHA, Branch, OriginURL *string }

// UpdateMetadata changes what clients said about a thread.
func (s *Service) UpdateMetadata(ctx context.Context, id transcript.ThreadID, p MetadataPatch) (ThreadRead, error) {
	if err := p.check(); err != nil {
		return ThreadRead{}, err
	}
	return ask[ThreadRead](ctx, s, id, tellMetadata{p})
}

func (p MetadataPatch) check() error {
	for _, f := range []struct {
		field string
		text  *string
	}{{"sha", p.SHA}, {"branch", p.Branch}, {"originUrl", p.OriginURL}} {
		if f.text == nil {
			continue
		}
		if err := checkText(f.field, *f.text, maxFact); err != nil {
			return err
		}
	}
	return nil
}

type tellMetadata struct{ p MetadataPatch }

func (c tellMetadata) decide(s *state, env env) (decision, error) {
	var old, git GitInfo
	if s.Git != nil {
		old, git = *s.Git, *s.Git
	}
	change(&git.SHA, c.p.SHA)
	change(&git.Branch, c.p.Branch)
	change(&git.OriginURL, c.p.OriginURL)
	d := decision{answer: func(s *state) any { return ThreadRead{s.view(env.window), s.cursor()} }}
	if git != old {
		d.payloads = []Payload{MetadataUpdated{Git: git.orNil()}}
	}
	return d, nil
}

// change sets what to a value, if there is one.
func change(what, value *string) {
	if value != nil {
		*what = *value
	}
}

// orNil is nil if nothing was said.
func (g GitInfo) orNil() *GitInfo {
	if g == (GitInfo{}) {
		return nil
	}
	return &g
}
