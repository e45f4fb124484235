package agent

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/plimsoll-dev/plimsoll/adapters"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// This file is the second meter: bytes. Endpoints bound the body of a request apart
// from the window, and images fill it long before tokens do. No compaction of text
// makes them smaller, so they are left out of the context, the oldest first.

// Shares of a limit of bytes, in hundredths. The gap between them keeps most requests
// of a tool loop with screenshots from changing their beginning, which would cost the
// provider's cache each time.
const (
	heavyAt  = 80 // from here on images are left out before the request is made
	lightTo  = 60 // until this is left
	maxTries = 2  // requests in a row that are refused and made smaller
)

// frame is what an entry or an image has in a body beside its content, in bytes.
const frame = 100

// weight is about what a request has in bytes.
type weight struct {
	total  int
	shown  int            // of it, images
	images map[string]int // by the hash of the blob
}

// weigh weighs a request. Where no image is in it nothing can be left out: it weighs
// nothing then, which costs nothing.
func (s *session) weigh(req adapters.Request) weight {
	w := weight{images: map[string]int{}}
	for _, e := range req.Entries {
		for _, hash := range transcript.Blobs(e.Item.Body) {
			n := s.imageBytes(hash)
			w.images[hash] = n
			w.shown += n
		}
	}
	if w.shown == 0 {
		return w
	}
	w.total = w.shown + escaped(req.Base.System)
	for _, t := range req.Base.Tools {
		w.total += frame + escaped(t.Name+t.Description) + len(t.Schema)
	}
	for _, e := range req.Entries {
		w.total += frame + escaped(transcript.Text(e.Item.Body))
	}
	return w
}

// escaped is about the length of a text in JSON.
func escaped(s string) int {
	return len(s) + strings.Count(s, "\n") + strings.Count(s, `"`) + strings.Count(s, `\`)
}

// imageBytes is what an image has in a request; 0 if it is not shown. It is read once
// in the life of the session.
func (s *session) imageBytes(hash string) int {
	if n, known := s.sizes[hash]; known {
		return n
	}
	data, err := s.blob(hash)
	if err != nil { // then it is told as text
		return 0
	}
	s.sizes[hash] = frame + base64.StdEncoding.EncodedLen(len(data))
	return s.sizes[hash]
}

// carries reports whether requests show images, and how many bytes one may have: what
// is known of the model, or what it has refused if that is less. 0: unknown.
func (s *session) carries() (images bool, limit int) {
	images = s.blob != nil
	if c, ok := s.model.(adapters.Carrier); ok && images {
		images, limit = c.Carries(s.name)
	}
	if s.refused > 0 && (limit == 0 || s.refused < limit) {
		limit = s.refused
	}
	return images, limit
}

// lighten leaves images out of a request that has nearly as many bytes as the model
// takes, and returns the context to ask with.
func (t *turn) lighten(ctx context.Context, input adapters.Context) (adapters.Context, error) {
	shows, limit := t.carries()
	if !shows || limit == 0 {
		return input, nil
	}
	w := t.weigh(t.ask(input, t.effort))
	if w.total <= limit*heavyAt/100 {
		return input, nil
	}
	freed, err := t.host.Lighten(ctx, adapters.Heavy{
		Bytes: w.total, Limit: limit, Excess: w.total - limit*lightTo/100, Images: w.images,
	})
	if err != nil {
		return input, fmt.Errorf("leave images out of a request: %w", err)
	}
	if freed == 0 {
		return input, nil
	}
	return t.boundary(ctx)
}

// refusedBytes reports whether a model refused a request because of its bytes. A
// request of which something was answered was not refused.
func (st *step) refusedBytes(err error) bool {
	e, ok := errors.AsType[*adapters.Error](err)
	return ok && e.Class == adapters.ClassTooLarge && !st.said
}

// makeLight leaves images out of a request that was refused because of its bytes, and
// returns the context to try again with. What the endpoint takes is seldom known: it
// is less than it was sent. The second time in a row all images go. Without any there
// is nothing to be done, and the turn ends with the provider's error.
func (t *turn) makeLight(ctx context.Context, input adapters.Context, cause error) (adapters.Context, error) {
	failed := fmt.Errorf("model request: %w", cause)
	shows, _ := t.carries()
	if !shows || t.heavy == maxTries {
		return input, failed
	}
	t.heavy++
	w := t.weigh(t.ask(input, t.effort))
	if w.shown == 0 {
		return input, failed
	}
	if t.refused == 0 || w.total < t.refused {
		t.refused = w.total
	}
	excess := max(w.total-w.total*lightTo/100, 1)
	if t.heavy == maxTries {
		excess = w.shown
	}
	freed, err := t.host.Lighten(ctx, adapters.Heavy{Bytes: w.total, Excess: excess, Images: w.images, Refused: true})
	if err != nil {
		return input, fmt.Errorf("leave images out of a request: %w", err)
	}
	if freed == 0 {
		return input, failed
	}
	return t.boundary(ctx)
}
