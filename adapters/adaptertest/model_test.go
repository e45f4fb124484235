package adaptertest

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/adapters/agent"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// faultyModel is a scripted model whose transport does something wrong.
type faultyModel struct {
	*Model
	fault string
	sent  atomic.Int64
}

func (m *faultyModel) Stream(ctx context.Context, req adapters.Request) iter.Seq2[adapters.Chunk, error] {
	return func(yield func(adapters.Chunk, error) bool) {
		for c, err := range m.Model.Stream(ctx, m.change(req)) {
			if m.fault == "has its own words for an overflow" && err != nil {
				err = errors.New("too long")
			}
			if d, is := c.(adapters.Done); is && m.fault == "calls every limit the output's" && d.Stop != adapters.StopEnd {
				c = adapters.Done{Stop: adapters.StopLength}
			}
			if _, is := c.(adapters.UsageChunk); is && m.fault == "loses usage" {
				continue
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// change puts a fault into a request.
func (m *faultyModel) change(req adapters.Request) adapters.Request {
	n := m.sent.Add(1)
	switch {
	case m.fault == "edits the system text" && n > 1:
		req.Base.System = strings.ReplaceAll(req.Base.System, "\t", " ")
	case m.fault == "sends the stubs" && !req.Writer:
		req.Entries = append(req.Entries, transcript.Entry{Item: transcript.Item{Body: transcript.Reasoning{Text: "[reasoning of 77 tokens]"}}})
	case m.fault == "offers the writer tools" && req.Writer:
		req.Base.Tools = []adapters.ToolSpec{{Name: suiteTool}}
	case m.fault == "does not bound the writer":
		req.MaxOutput = 0
	}
	return req
}

// faultySession is a session over such a model that does something wrong itself.
type faultySession struct {
	adapters.Session
	fault string
}

func (s faultySession) Run(ctx context.Context, in adapters.TurnInput, host adapters.Host) (adapters.End, error) {
	end, err := s.Session.Run(ctx, in, faultyHost{host, s.fault})
	switch {
	case s.fault == "does not warn":
		end.Updates = nil
	case s.fault == "takes a filter for an end":
		err = nil
	case s.fault == "hides that it was cancelled" && err != nil:
		return end, errors.New("broken")
	}
	return end, err
}

func (s faultySession) Unfit() *adapters.Refusal {
	if s.fault == "refuses without a reason" {
		return &adapters.Refusal{Code: "writerUnfit"}
	}
	return s.Session.(adapters.Summarizer).Unfit()
}

func (s faultySession) Summarize(ctx context.Context, req adapters.SummaryRequest) (adapters.Summary, error) {
	sum, err := s.Session.(adapters.Summarizer).Summarize(ctx, req)
	switch s.fault {
	case "forgets what a summary cost":
		sum.Usage = adapters.Usage{}
	case "takes any text for a summary":
		sum.Stop = adapters.StopEnd
	case "takes a failure for a summary":
		err = nil
	}
	return sum, err
}

// faultyHost stands between a session and its host.
type faultyHost struct {
	adapters.Host
	fault string
}

func (h faultyHost) Overflowed(ctx context.Context, o adapters.Overflow) (adapters.Context, error) {
	switch h.fault {
	case "never asks for room":
		return adapters.Context{}, o.Err
	case "asks for room twice":
		if _, err := h.Host.Overflowed(ctx, o); err != nil {
			return adapters.Context{}, err
		}
	case "calls every overflow one of the request":
		o.Length = false
	case "sends the same again":
		if _, err := h.Host.Overflowed(ctx, o); err != nil {
			return adapters.Context{}, err
		}
		return adapters.Context{Entries: []transcript.Entry{{Item: transcript.Item{
			Body: transcript.UserMessage{Content: transcript.TextParts("remember the plover")},
		}}}}, nil
	}
	return h.Host.Overflowed(ctx, o)
}

// TestTheModelCasesReportBrokenSessions is what makes them worth running.
func TestTheModelCasesReportBrokenSessions(t *testing.T) {
	for fault, want := range map[string]string{
		"":                                        "",
		"has its own words for an overflow":       "want ErrOverflow",
		"calls every limit the output's":          "overflows of answers",
		"loses usage":                             "usage {InputTokens:0",
		"edits the system text":                   "want it once, byte for byte",
		"sends the stubs":                         "holds the stub of reasoning",
		"offers the writer tools":                 `holds "suite_tool" of the thread`,
		"does not bound the writer":               `does not hold "500"`,
		"does not warn":                           "want length and one",
		"takes a filter for an end":               "want an error of class contentFilter",
		"hides that it was cancelled":             "want an error that is context.Canceled",
		"refuses without a reason":                "a refusal to write needs",
		"forgets what a summary cost":             "what a failed summary cost must be told",
		"takes any text for a summary":            `want "tools"`,
		"takes a failure for a summary":           "a summary that broke ended with <nil>",
		"never asks for room":                     "overflows of answers",
		"asks for room twice":                     "overflows of answers",
		"calls every overflow one of the request": "overflows of answers",
		"sends the same again":                    "is not the smaller context",
	} {
		t.Run(fault, func(t *testing.T) {
			n := &notes{}
			for _, c := range modelCases {
				script, check := c.make()
				m := &faultyModel{Model: NewModel(n, script), fault: fault}
				f := openModel(t.Context(), n, Provider{agent.New(m), m.Bodies})
				f.session = faultySession{f.session, fault}
				within(t, c.name, func() { check(t.Context(), n, f) })
				if err := f.session.Close(); err != nil {
					t.Error(err)
				}
			}
			all := strings.Join(n.errs, "\n")
			if (all == "") != (fault == "") || !strings.Contains(all, want) {
				t.Errorf("reports %q, want one with %q", all, want)
			}
		})
	}
}
