package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// doubleProgram is a program that keeps histories, without any wire, and the runtime that
// drives it. It does one thing wrong.
type doubleProgram struct {
	model *Model
	fault string

	mu     sync.Mutex // guards what follows
	told   map[string][]string
	driven map[string]bool
	opened []string // ids, in order
	late   []string // what is told with the next input
}

var _ adapters.Runtime = (*doubleProgram)(nil)

func newDouble(r Reporter, s Script, fault string) Program {
	p := &doubleProgram{model: NewModel(r, s), fault: fault, told: map[string][]string{}, driven: map[string]bool{}}
	return Program{
		Runtime: p,
		Told: func(id string) []string {
			p.mu.Lock()
			defer p.mu.Unlock()
			return slices.Clone(p.told[id])
		},
		Lose: func(id string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.told, id)
		},
	}
}

func (p *doubleProgram) does(fault string) bool { return p.fault == fault }

func (*doubleProgram) Models(context.Context) ([]adapters.ModelInfo, error) { return nil, nil }

var doubleAbility = adapters.Ability{Native: &adapters.Native{Form: "double"}}

func (p *doubleProgram) Probe(context.Context) adapters.Probe {
	out := adapters.Probe{Program: "double", Login: "ok", Compaction: doubleAbility}
	switch p.fault {
	case "probes no program":
		out.Program = ""
	case "has another word for a login":
		out.Login = "logged in"
	case "does not say how to log in":
		out.Login = "missing"
	case "has a problem that is none":
		out.Problems = []adapters.Problem{{Text: "it is Tuesday", Fix: "wait"}}
	case "probes another ability":
		out.Compaction = adapters.Ability{Refusal: &adapters.Refusal{Code: "nativeUnsupported"}}
	}
	return out
}

func (p *doubleProgram) Open(_ context.Context, o adapters.OpenParams) (adapters.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := o.NativeID
	if id != "" && p.does("begins anew instead of resuming") {
		id = ""
	}
	if id == "" {
		if id = fmt.Sprintf("double-%d", len(p.opened)+1); p.does("has one session for all") {
			id = "double-1"
		}
		p.told[id] = append([]string{}, p.told[id]...)
		p.seed(id, o.Seed)
		p.opened = append(p.opened, id)
	} else {
		if err := p.resumable(id); err != nil {
			return nil, err
		}
		p.resume(id)
	}
	p.driven[id] = o.NativeID != "" || !p.does("leases only what it resumes")
	return &doubleSession{p: p, id: id, fresh: o.NativeID == ""}, nil
}

// resumable says why a session is not resumed.
func (p *doubleProgram) resumable(id string) error {
	_, known := p.told[id]
	switch {
	case p.driven[id] && !p.does("lets two drive one session"):
		if p.does("says of what is in use only that it failed") {
			return fault.New(fault.Unavailable, "it failed")
		}
		if p.does("ends the session that is in use") {
			delete(p.told, id)
		}
		return fault.Wrap(fault.Unavailable, adapters.ErrInUse, "in use")
	case !known && p.does("makes the session that nobody knows"):
		p.told[id] = nil
	case !known && p.does("makes what was lost anew") && slices.Contains(p.opened, id):
		p.told[id] = nil
	case !known && p.does("says of what is unknown only that it failed"):
		return fault.New(fault.Unavailable, "it failed")
	case !known && p.does("tells no client why"):
		return adapters.ErrNoSession
	case !known:
		p.driven[id] = p.does("keeps the lease of what it did not open")
		return fault.Wrap(fault.Unavailable, adapters.ErrNoSession, "unknown")
	}
	return nil
}

func (p *doubleProgram) resume(id string) {
	switch p.fault {
	case "forgets what it resumes":
		p.told[id] = nil
	case "tells the history again when it resumes":
		p.told[id] = append(p.told[id], strings.Join(p.told[id], "\n"))
	}
}

func (p *doubleProgram) seed(id string, entries []transcript.Entry) {
	var texts []string
	for _, e := range entries {
		texts = append(texts, transcript.Text(e.Item.Body))
	}
	switch p.fault {
	case "takes no seed":
		return
	case "tells only the end of a seed":
		texts = texts[len(texts)/2:]
	case "tells a seed out of order":
		slices.Reverse(texts)
	case "tells a seed with the first input":
		p.late = texts
		return
	case "seeds the session that was there":
		if len(entries) > 0 && len(p.opened) > 0 {
			id = p.opened[0]
		}
	}
	if len(texts) > 0 {
		p.told[id] = append(p.told[id], texts...)
	}
}

// doubleSession is a session of a doubleProgram.
type doubleSession struct {
	p     *doubleProgram
	id    string
	fresh bool

	mu     sync.Mutex // guards what follows
	runs   int
	cancel context.CancelFunc // of what runs; nil: nothing does
	done   chan struct{}
	closed bool
}

func (s *doubleSession) NativeID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.p.does("has no id"):
		return ""
	case s.p.does("has another id with each turn"):
		return fmt.Sprint(s.id, "-", s.runs)
	case s.p.does("has no id once it is closed") && s.closed:
		return ""
	}
	return s.id
}

func (*doubleSession) Base() adapters.Base { return adapters.Base{} }

func (s *doubleSession) Compaction() adapters.Ability { return doubleAbility }

func (s *doubleSession) Steer(context.Context, []transcript.Part) error {
	if s.p.does("takes a steer although it is closed") {
		return nil
	}
	return adapters.ErrNotSteerable
}

func (s *doubleSession) Interrupt(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
	return nil
}

func (s *doubleSession) Close() error {
	s.mu.Lock()
	was, cancel, done := s.closed, s.cancel, s.done
	s.closed = true
	s.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	switch {
	case was && s.p.does("closes once only"):
		return errors.New("file already closed")
	case s.p.does("keeps the lease of what it closed") && !was:
		return nil
	case s.p.does("loses what is closed in a turn") && cancel != nil:
		delete(s.p.told, s.id)
	}
	delete(s.p.driven, s.id)
	return nil
}

// begin is the beginning of what runs, and what is to be done at its end.
func (s *doubleSession) begin(ctx context.Context) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed && !s.p.does("runs although it is closed") {
		return nil, nil, errors.New("closed")
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	s.cancel, s.done = cancel, done
	return ctx, func() {
		cancel()
		s.mu.Lock()
		s.cancel = nil
		s.runs++
		s.mu.Unlock()
		close(done)
	}, nil
}

// hear has the program told what a turn begins with.
func (s *doubleSession) hear(in adapters.TurnInput) {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	text := transcript.PartsText(in.Input)
	var told []string
	switch {
	case p.does("tells no notes"):
	case p.does("mixes the notes into the input") && in.Notes != "":
		text = in.Notes + "\n\n" + text
	case in.Notes != "":
		told = []string{in.Notes}
	}
	if p.does("tells the notes with every input") && in.Notes != "" {
		p.late = []string{in.Notes}
	} else if len(p.late) > 0 {
		text, p.late = strings.Join(append(p.late, text), "\n"), nil
	}
	switch {
	case p.does("runs the commands of users") && text == "/compact":
		p.told[s.id] = []string{"a summary"}
		return
	case p.does("tells an input twice"):
		told = append(told, text)
	case p.does("tells the newest session") && len(p.opened) > 0:
		newest := p.opened[len(p.opened)-1]
		p.told[newest] = append(p.told[newest], text)
		return
	}
	p.told[s.id] = append(p.told[s.id], append(told, text)...)
}

func (s *doubleSession) Run(ctx context.Context, in adapters.TurnInput, host adapters.Host) (adapters.End, error) {
	ctx, over, err := s.begin(ctx)
	if err != nil {
		return adapters.End{}, err
	}
	defer over()
	s.p.mu.Lock()
	_, lives := s.p.told[s.id]
	s.p.mu.Unlock()
	if !lives {
		return adapters.End{}, errors.New("there is no such session any more")
	}
	s.hear(in)
	it := transcript.Item{ID: host.NewItemID(), Turn: in.Turn, Body: transcript.AgentMessage{}}
	text := ""
	for step, err := range s.p.model.Next(ctx, adapters.Request{}) {
		if err != nil {
			if s.p.does("takes a turn that was cut for one that ended") {
				break
			}
			return adapters.End{}, err
		}
		c, is := step.Chunk.(adapters.MessageText)
		if !is {
			continue
		}
		var started []adapters.Update
		if text == "" {
			started = append(started, adapters.ItemStarted{Item: it})
		}
		text += c.Text
		if err := host.Emit(ctx, append(started, adapters.TextDelta{Item: it.ID, Text: c.Text})...); err != nil {
			return adapters.End{}, err
		}
	}
	it.Body = transcript.AgentMessage{Text: text}
	return adapters.End{Updates: []adapters.Update{adapters.ItemCompleted{Item: it}}}, nil
}

func (s *doubleSession) Compact(ctx context.Context, _ adapters.CompactInput, host adapters.Host) (adapters.NativeResult, error) {
	ctx, over, err := s.begin(ctx)
	if err != nil {
		return adapters.NativeResult{}, err
	}
	defer over()
	res := adapters.NativeResult{Form: "double", Reanchored: s.p.does("claims that it told how things stand")}
	for _, err := range s.p.model.Next(ctx, adapters.Request{}) {
		if err != nil {
			return res, s.misunderstood(err)
		}
	}
	if res.Reanchored {
		return res, nil
	}
	if text, err := host.Reanchor(ctx); err == nil && text != "" {
		s.p.mu.Lock()
		s.p.told[s.id] = append(s.p.told[s.id], text)
		s.p.mu.Unlock()
		res.Reanchored = !s.p.does("hides that it told how things stand")
	}
	if s.p.does("forgets the session when it compacts") {
		s.p.mu.Lock()
		delete(s.p.told, s.id)
		s.p.mu.Unlock()
	}
	return res, nil
}

// misunderstood is how the session tells what the program's compaction came to.
func (s *doubleSession) misunderstood(err error) error {
	switch kind := meaning(err); {
	case s.p.does("takes what is " + kind + " for a success"):
		return nil
	case s.p.does("takes what is " + kind + " for a failure"):
		return errors.New("it failed")
	case s.p.does("cannot name " + kind):
		return &adapters.RefusedError{}
	case s.p.does("is over when a compaction is " + kind):
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
	}
	return err
}
