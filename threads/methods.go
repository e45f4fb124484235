package threads

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/plimsoll-dev/plimsoll/threads/compaction"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// CreateParams describes a new thread; empty fields get defaults.
type CreateParams struct {
	Settings       Settings
	Name           string
	Origin         Origin        `json:",omitzero"`  // but ForkedFrom
	Tools          []DynamicTool `json:",omitempty"` // that the clients run
	Git            *GitInfo      `json:",omitempty"`
	IdempotencyKey string
}

func (p CreateParams) check() error {
	for _, t := range []struct {
		field, text string
		most        int
	}{
		{"name", p.Name, maxName}, {"client", p.Origin.Client, maxFact}, {"source", p.Origin.Source, maxFact},
	} {
		if err := checkText(t.field, t.text, t.most); err != nil {
			return err
		}
	}
	if g := p.Git; g != nil {
		if err := (MetadataPatch{&g.SHA, &g.Branch, &g.OriginURL}).check(); err != nil {
			return err
		}
	}
	return checkTools(p.Tools)
}

// CreateThread makes a thread.
func (s *Service) CreateThread(ctx context.Context, p CreateParams) (ThreadRead, error) {
	if err := p.check(); err != nil {
		return ThreadRead{}, err
	}
	settings, err := s.settle(p.Settings)
	if err != nil {
		return ThreadRead{}, err
	}
	key := p.IdempotencyKey
	p.IdempotencyKey, p.Origin.ForkedFrom = "", ""
	c := createThread{started: ThreadStarted{
		Settings: settings, Name: p.Name, CreatedAt: transcript.Millis(s.now()), Origin: p.Origin, Tools: p.Tools,
	}}
	if p.Git != nil {
		c.started.Git = p.Git.orNil()
	}
	return s.create(ctx, c, "thread/start", key, requestHash(p))
}

// create brings a thread to life. With an idempotency key the thread's id is
// derived from the key, so that the same request finds the same thread.
func (s *Service) create(ctx context.Context, c createThread, method, key, hash string) (ThreadRead, error) {
	id := transcript.ThreadID(s.newID())
	if key != "" {
		id = derivedID(s.cfg.Journal.ID(), method, key)
		c.started.Accepted = &Accepted{Key: key, Hash: hash, Result: string(id), At: transcript.Millis(s.now())}
	}
	for {
		a, err := s.slot(ctx, id, true)
		if err != nil {
			return ThreadRead{}, err
		}
		_, err = a.send(ctx, message{cmd: c})
		if errors.Is(err, errGone) {
			if err := a.left(ctx); err != nil {
				return ThreadRead{}, err
			}
			continue
		}
		if err != nil {
			return ThreadRead{}, err
		}
		return s.ReadThread(ctx, id)
	}
}

// derivedID is a UUID (version 8) made of a key.
func derivedID(parts ...string) transcript.ThreadID {
	h := sha256.New()
	for _, p := range parts {
		h.Write(fmt.Appendf(nil, "%d:%s", len(p), p))
	}
	u := uuid.UUID(h.Sum(nil)[:16])
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return transcript.ThreadID(u.String())
}

// requestHash identifies the body of a request.
func requestHash(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // plain structs of strings and numbers always encode
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// DeleteThread interrupts what runs and removes the thread: of its events only
// the last one, thread/deleted, remains.
func (s *Service) DeleteThread(ctx context.Context, id transcript.ThreadID) error {
	_, err := s.do(ctx, id, message{cmd: removeThread{}})
	return err
}

// StartTurnParams is one input of the user. The patch changes the settings of the
// thread from now on, in the same commit.
type StartTurnParams struct {
	Thread         transcript.ThreadID
	Input          []transcript.Part
	Images         Images `json:"-"` // that Input names; the hashes stand for them
	ClientID       string // echoed in the user message
	Mode           InputMode
	Settings       SettingsPatch `json:",omitzero"`
	MaxTotalTokens int           `json:",omitempty"` // of all requests of the turn; 0: no bound
	IdempotencyKey string
}

// InputMode says what happens to an input that arrives while a turn runs.
type InputMode string

// The input modes. The zero InputMode is ModeQueue.
const (
	ModeQueue InputMode = "queue" // it becomes a turn of its own, later
	ModeSteer InputMode = "steer" // it goes into the running turn; if there is none it starts one
)

// StartTurn accepts an input of the user. It returns when the input is durable;
// the turn goes on by itself.
func (s *Service) StartTurn(ctx context.Context, p StartTurnParams) (TurnAck, error) {
	mode, err := oneOf("mode", string(p.Mode), string(ModeQueue), string(ModeSteer))
	if err != nil {
		return TurnAck{}, err
	}
	p.Mode = InputMode(mode)
	if err := checkInput(p.Input); err != nil {
		return TurnAck{}, err
	}
	if p.MaxTotalTokens < 0 {
		return TurnAck{}, fault.New(fault.Invalid, "maxTotalTokens is %d; it must be a positive number of tokens, or left out", p.MaxTotalTokens)
	}
	blobs, err := s.blobs(ctx, "input", p.Input, p.Images)
	if err != nil {
		return TurnAck{}, err
	}
	hash := requestHash(p.hashed())
	return ask[TurnAck](ctx, s, p.Thread, inUse{acceptInput{p, hash, blobs}, p.IdempotencyKey, hash})
}

// hashed is what an idempotency key stands for.
func (p StartTurnParams) hashed() StartTurnParams {
	p.IdempotencyKey = ""
	return p
}

// checkInput refuses an input that says nothing.
func checkInput(input []transcript.Part) error {
	empty := true
	for i, part := range input {
		switch part.Type {
		case transcript.PartText:
			if !utf8.ValidString(part.Text) {
				return fault.New(fault.Invalid, "input[%d].text is not valid UTF-8", i)
			}
			empty = empty && part.Text == ""
		case transcript.PartImage:
			empty = false
		default:
			return fault.New(fault.Invalid, "input[%d].type is %q; allowed: text, image", i, part.Type)
		}
	}
	if empty {
		return fault.New(fault.Invalid, "input is empty; it needs at least one part with text, or an image")
	}
	return nil
}

// InterruptTurn stops a running turn, or takes a queued one out of the queue. It
// returns when the interruption is under way; turn/completed tells its end.
func (s *Service) InterruptTurn(ctx context.Context, id transcript.ThreadID, turn transcript.TurnID) error {
	_, err := s.do(ctx, id, message{cmd: interrupt{turn}})
	return err
}

// CompactParams asks for a compaction.
type CompactParams struct {
	Thread         transcript.ThreadID
	Route          compaction.Route  // empty: Config.CompactionRoute
	Writer         compaction.Writer // empty: the best that works
	Budget         int               // bound of the resulting context in tokens; 0: the policy's target
	Instructions   string            // for the model writer; at most 4,000 code points
	Wait           bool              // reply with the terminal record
	IdempotencyKey string
}

// maxInstructions bounds CompactParams.Instructions, in code points.
const maxInstructions = 4000

func (p CompactParams) check() error {
	if _, err := oneOf("route", string(p.Route), "", string(compaction.RouteNative), string(compaction.RouteLocal)); err != nil {
		return err
	}
	if _, err := oneOf("writer", string(p.Writer), "", string(compaction.WriterModel), string(compaction.WriterExtractive), string(compaction.WriterFixed)); err != nil {
		return err
	}
	if p.Budget < 0 {
		return fault.New(fault.Invalid, "budget is %d; it must be a positive number of tokens, or left out", p.Budget)
	}
	if n := utf8.RuneCountInString(p.Instructions); n > maxInstructions {
		return fault.New(fault.Invalid, "instructions have %d code points; at most %d are allowed", n, maxInstructions)
	}
	return nil
}

// checkRoute refuses what the route cannot heed: what a provider makes of its history, and
// how large, is its own affair.
func (p CompactParams) checkRoute() error {
	var name string
	switch {
	case p.Route != compaction.RouteNative:
		return nil
	case p.Budget > 0:
		name = "budget"
	case p.Writer != "":
		name = "writer"
	default:
		return nil
	}
	return fault.New(fault.Invalid, "%s is for the route local; on the route native the provider decides: leave %s out, or ask for the route local", name, name)
}

// StartCompaction asks for a compaction. While one runs its record is returned
// and no second one starts. The reply is an acknowledgement: a refusal, too, is
// an outcome of the record. With Wait the reply comes when the record is
// terminal; the caller that stops waiting cancels nothing.
func (s *Service) StartCompaction(ctx context.Context, p CompactParams) (CompactAck, error) {
	if err := p.check(); err != nil {
		return CompactAck{}, err
	}
	hashed := p
	hashed.IdempotencyKey, hashed.Wait = "", false
	hash := requestHash(hashed)
	p.Route = cmp.Or(p.Route, s.cfg.CompactionRoute) // journaled with the request, so a restart keeps it
	if err := p.checkRoute(); err != nil {
		return CompactAck{}, err
	}
	ack, err := ask[CompactAck](ctx, s, p.Thread, inUse{requestCompaction{p, hash}, p.IdempotencyKey, hash})
	if err == nil && p.Wait && !ack.Record.Terminal() {
		ack, err = s.awaitCompaction(ctx, p.Thread, ack.Record.CompactionID)
	}
	return ack, err
}

// awaitCompaction waits for the terminal record, over an unload or a reload. Where the
// thread is loaded again and again, because its journal cannot be written, it takes its
// time: every load asks a runtime's provider once more.
func (s *Service) awaitCompaction(ctx context.Context, id transcript.ThreadID, cid transcript.CompactionID) (CompactAck, error) {
	for again := false; ; again = true {
		type look struct {
			ack CompactAck
			end chan struct{} // nil if the record is terminal
		}
		l, err := query(ctx, s, id, func(a *actor) look {
			ack := recordOf(cid)(a.state).(CompactAck)
			if ack.Record.Terminal() {
				return look{ack: ack}
			}
			end := make(chan struct{})
			a.ended[cid] = append(a.ended[cid], end)
			return look{end: end}
		})
		if err != nil || l.end == nil {
			return l.ack, err
		}
		select {
		case <-l.end:
		case <-ctx.Done():
			return CompactAck{}, context.Cause(ctx)
		}
		if again {
			if err := pause(ctx, recoverAgain); err != nil {
				return CompactAck{}, err
			}
		}
	}
}

func valueOf(r *compaction.Record) compaction.Record {
	if r == nil {
		return compaction.Record{}
	}
	return *r
}
