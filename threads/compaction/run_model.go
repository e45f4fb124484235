package compaction

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Bounds of all requests of a compaction together. Every part of a history is asked
// for once; what goes wrong, and the repair, may cost two requests more. A model that
// takes over goes on where the one before it failed, and has its own first try.
const (
	spareRequests = 2
	maxAsking     = 180 * time.Second // after that no further request begins
	maxWait       = 30 * time.Second  // a provider that asks for more is not waited for
	defaultWait   = 2 * time.Second   // before a retry, where the provider names no time
	remarkRoom    = 200               // tokens for what is said about a rejected answer
)

// Codes of a model link that is not taken.
const (
	codeNoModel      = "noModel"
	codeNothingLost  = "nothingToWrite"
	codeNoRoom       = "noRoomForNotes"
	codeWindow       = "windowTooSmall"
	codeNothingElse  = "nothingElseToTry"
	codeBadRequest   = "badRequest"      // an adapters.Class
	codeTooLarge     = "payloadTooLarge" // an adapters.Class
	codeInterruption = "interrupted"
)

// A scribe asks models for the notes of one plan.
type scribe struct {
	job   *Job
	in    Input
	src   *source
	wish  string
	usage *Usage
	spare int
	spent time.Duration
	warn  func(format string, args ...any)

	notes string // so far
	pos   int    // blocks that they stand for
	parts int    // in which these were written up
}

// A try is how one model is asked.
type try struct {
	m       *ModelWriter
	st      style
	room    int    // tokens of history and notes so far in a request
	cap     int    // tokens of the answer
	remark  string // what was wrong with the last answer
	sent    map[[sha256.Size]byte]bool
	waited  bool
	smaller bool
	longer  bool
	told    bool
}

// write asks the models in order until one of them has written notes on the whole
// history. What a model wrote before it failed is kept for the next.
func (s *scribe) write(ctx context.Context) *defect {
	var d *defect
	for i := range s.job.Models {
		t := s.newTry(&s.job.Models[i])
		if d = s.writeWith(ctx, t); d == nil {
			s.repair(ctx, t)
			return nil
		}
		d.reason = t.m.Name + ": " + d.reason
		if ctx.Err() != nil || s.spent >= maxAsking {
			return d
		}
		if i < len(s.job.Models)-1 {
			s.warn("%s; %s is asked instead", d.reason, s.job.Models[i+1].Name)
		}
	}
	return d
}

// newTry starts with all that a model's window has room for.
func (s *scribe) newTry(m *ModelWriter) *try {
	t := &try{m: m, st: style{clip: clipOutput}, sent: map[[sha256.Size]byte]bool{}}
	t.cap = min(s.answerTokens(), s.mostTokens(m))
	t.room = s.window(m)*windowShare/100 - s.frame()
	if t.room < minPart {
		t.st.alone = true
		t.room = s.window(m)*windowShare/100 - s.frame() + s.visibleRoom(m)
	}
	t.room -= s.visibleRoom(m)
	return t
}

// previous are the notes so far: of earlier checkpoints, then of the parts before.
func (s *scribe) previous() string {
	if s.pos == 0 {
		return s.src.previous
	}
	return s.notes
}

// partRoom is what the notes so far leave of the room of a request.
func (s *scribe) partRoom(t *try) int {
	return max(t.room-transcript.EstimateText(s.previous()), minPart)
}

// window is a writer's, or the thread's if the writer's is unknown.
func (s *scribe) window(m *ModelWriter) int {
	switch {
	case m.Window > 0:
		return m.Window
	case s.in.Window > 0:
		return s.in.Window
	}
	return defaultWindow
}

// visibleRoom is what the items that stay visible may take of a request.
func (s *scribe) visibleRoom(m *ModelWriter) int { return min(2_000, s.window(m)/20) }

// frame is what a request has beside the history and the notes so far: the prompt
// and the facts.
func (s *scribe) frame() int {
	prompt := s.src.notesPrompt(s.wish, "", "", "", "", true)
	return transcript.EstimateText(systemPrompt) + transcript.EstimateText(prompt) + remarkRoom
}

// answerTokens is a cap for the answer: twice what the notes may have in their
// language, and something to think.
func (s *scribe) answerTokens() int {
	return s.src.limit*20/s.src.lang.perToken() + 1_024
}

// mostTokens is the largest cap that a model takes beside a prompt.
func (s *scribe) mostTokens(m *ModelWriter) int {
	most := s.window(m) * (100 - windowShare) / 100
	if m.MaxOutput > 0 {
		most = min(most, m.MaxOutput)
	}
	return most
}

// writeWith goes through the rest of the history with one model.
func (s *scribe) writeWith(ctx context.Context, t *try) *defect {
	if t.room < minPart {
		return &defect{code: codeWindow, reason: fmt.Sprintf("the prompt does not fit into its window of %d tokens", s.window(t.m))}
	}
	for s.pos < len(s.src.blocks) {
		if s.parts == 2*maxParts {
			return &defect{code: codeWindow, reason: fmt.Sprintf("the history does not fit into %d requests", s.parts)}
		}
		if d := s.writePart(ctx, t); d != nil {
			return d
		}
	}
	return nil
}

// writePart gets notes on the next part of the history. After each failure the
// request is another one: the same is never sent twice to one model.
func (s *scribe) writePart(ctx context.Context, t *try) *defect {
	failed := &defect{code: codeNothingElse, reason: "the request was made before"}
	for {
		p, exam, end := s.prompt(t)
		key := sha256.Sum256([]byte(p.System + "\x00" + p.Text + "\x00" + fmt.Sprint(p.MaxOutput)))
		if t.sent[key] { // nothing could be changed
			return failed
		}
		t.sent[key] = true
		a, d := s.ask(ctx, t.m, p)
		if d == nil {
			var notes string
			if notes, d = exam.judge(a); d == nil {
				s.notes, s.pos, t.remark = notes, end, ""
				s.parts++
				return nil
			}
		}
		if ctx.Err() != nil || s.spare == 0 || s.spent >= maxAsking {
			return d
		}
		how := s.adapt(ctx, t, d, transcript.EstimateText(p.Text)-s.frame())
		if how == "" || ctx.Err() != nil {
			return d
		}
		s.spare--
		failed = d
		s.warn("%s: %s; asked again %s", t.m.Name, d.reason, how)
	}
}

// prompt is the next request, what its answer is judged by, and the block that the
// history in it ends before.
func (s *scribe) prompt(t *try) (Prompt, *exam, int) {
	t.st = s.src.thin(s.pos, s.partRoom(t), maxParts-s.parts, t.st)
	history, end := s.src.part(s.pos, s.partRoom(t), t.st)
	previous := s.previous()
	last := end == len(s.src.blocks)
	visible := ""
	if last {
		visible = s.src.serialiseVisible(t.st, s.visibleRoom(t.m))
	}
	p := Prompt{System: systemPrompt, Text: s.src.notesPrompt(s.wish, previous, history, visible, t.remark, last), MaxOutput: t.cap}
	return p, &exam{history: history, previous: previous, lang: s.src.lang, limit: s.src.limit, wish: s.wish}, end
}

// ask performs one request. Whatever comes of it, it is counted.
func (s *scribe) ask(ctx context.Context, m *ModelWriter, p Prompt) (a Answer, d *defect) {
	defer func() {
		if v := recover(); v != nil {
			d = &defect{code: codePanic, reason: fmt.Sprintf("the request panicked: %v", v)}
		}
	}()
	s.count(Usage{Requests: 1})
	a, err := m.Ask(ctx, p)
	a.Usage.Requests = 0
	s.count(a.Usage)
	s.spent += time.Duration(a.Usage.DurationMs) * time.Millisecond
	if ctx.Err() != nil {
		return a, &defect{code: codeInterruption, reason: "the compaction was interrupted"}
	}
	if err == nil {
		return a, nil
	}
	ask, ok := errors.AsType[*AskError](err)
	if !ok {
		ask = &AskError{Code: codeWriterFailed, Message: err.Error()}
	}
	return a, &defect{code: orText(ask.Code, codeWriterFailed), reason: oneLine(orText(ask.Message, "the request failed"), 240), ask: ask}
}

// count adds to what the compaction cost. Money is known only if it is of every
// request that used something.
func (s *scribe) count(u Usage) {
	first := s.usage.InputTokens+s.usage.OutputTokens == 0
	used := u.InputTokens+u.OutputTokens > 0
	switch {
	case !used:
	case first:
		s.usage.CostUSD = u.CostUSD
	case s.usage.CostUSD != nil && u.CostUSD != nil:
		sum := *s.usage.CostUSD + *u.CostUSD
		s.usage.CostUSD = &sum
	default:
		s.usage.CostUSD = nil
	}
	s.usage.InputTokens += u.InputTokens
	s.usage.OutputTokens += u.OutputTokens
	s.usage.Requests += u.Requests
	s.usage.DurationMs += u.DurationMs
}

// adapt changes how the model is asked after a failure, and says in which way;
// empty if there is nothing more to try with it. Sent are the tokens of history that
// the last request had.
func (s *scribe) adapt(ctx context.Context, t *try, d *defect, sent int) string {
	switch {
	case d.ask == nil:
		return s.adaptAnswer(t, d, sent)
	case d.ask.Overflow:
		return t.halve(&t.smaller, sent)
	case d.ask.Temporary:
		return s.adaptAfterWait(ctx, t, d.ask)
	case d.code == codeBadRequest || d.code == codeTooLarge:
		return s.dropLevel(t)
	}
	return ""
}

// adaptAnswer is adapt for an answer that was rejected.
func (s *scribe) adaptAnswer(t *try, d *defect, sent int) string {
	switch {
	case d.code == codeTruncated && !t.longer:
		t.longer, t.remark = true, d.remark
		if more := min(2*t.cap, s.mostTokens(t.m)); more > t.cap {
			t.cap = more
			return "with room for a longer answer"
		}
		t.smaller = false
		return t.halve(&t.smaller, sent)
	case d.code == codeTruncated || t.told || d.remark == "":
		return ""
	}
	t.told, t.remark = true, d.remark
	return "and told what was wrong"
}

// halve makes the parts half as large as the last one, once.
func (t *try) halve(once *bool, sent int) string {
	if *once {
		return ""
	}
	*once = true
	t.room = max(min(t.room, sent)/2, minPart)
	return "with half of the history"
}

// adaptAfterWait waits as long as the provider wants, and then asks for less: the
// limit that was hit may be one of tokens.
func (s *scribe) adaptAfterWait(ctx context.Context, t *try, e *AskError) string {
	wait := e.RetryAfter
	if wait <= 0 {
		wait = defaultWait
	}
	if t.waited || s.job.Wait == nil || wait > maxWait || s.spent+wait >= maxAsking || !s.shrink(t) {
		return ""
	}
	t.waited = true
	if s.job.Wait(ctx, wait) != nil {
		return ""
	}
	s.spent += wait
	return fmt.Sprintf("after %s, with shorter items", wait)
}

// shrink makes what is shown of the next part smaller. It reports false if nothing
// can be left out.
func (s *scribe) shrink(t *try) bool {
	whole, _ := s.src.part(s.pos, s.partRoom(t), t.st)
	st := t.st
	for st.clip/2 >= minClip {
		st.clip /= 2
		if text, _ := s.src.part(s.pos, s.partRoom(t), st); text != whole {
			t.st = st
			return true
		}
	}
	if !t.st.alone && len(s.src.visible) > 0 {
		t.st.alone = true
		return true
	}
	return false
}

// dropLevel leaves out what a provider may have stumbled over: what tools printed,
// then all but what user and agent said.
func (s *scribe) dropLevel(t *try) string {
	whole, _ := s.src.part(s.pos, s.partRoom(t), t.st)
	for t.st.level < levelTalk {
		t.st.level++
		text, _ := s.src.part(s.pos, s.partRoom(t), t.st)
		if text == whole || strings.TrimSpace(text) == "" {
			continue
		}
		if t.st.level == levelNoOutput {
			return "without the output of tools"
		}
		return "with nothing but the messages of user and agent"
	}
	return ""
}
