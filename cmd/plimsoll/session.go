package main

import (
	"fmt"
	"io"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/importer"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// readSession reads a session file of any format into a transcript.
func readSession(r io.Reader) (*importer.Session, error) {
	s, err := importer.Read(r, importer.Limits{})
	if err != nil {
		return nil, err
	}
	if s.Events != nil {
		if s.Transcript, err = foldExport(s.Events); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// foldExport makes the transcript of an export of this program, as far as a
// compaction needs it: items and boundaries.
func foldExport(evs []importer.Event) (transcript.Transcript, error) {
	var t transcript.Transcript
	at := map[transcript.ItemID]int{}
	put := func(it transcript.Item) {
		if i, ok := at[it.ID]; ok {
			t.Items[i] = it
			return
		}
		at[it.ID] = len(t.Items)
		t.Items = append(t.Items, it)
	}
	for i, e := range evs {
		p, err := threads.Decode(events.Event{Seq: int64(i + 1), Type: e.Type, Data: e.Data})
		if err != nil {
			return t, fmt.Errorf("the export is damaged: %w", err)
		}
		switch p := p.(type) {
		case threads.ItemStarted:
			put(p.Item)
		case threads.ItemCompleted:
			put(p.Item)
		case threads.CompactionUpdated:
			if p.Boundary != nil {
				t.Boundaries = append(t.Boundaries, *p.Boundary)
			}
		default: // says nothing about the context
		}
	}
	return t, nil
}
