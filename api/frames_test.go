package api

import (
	"testing"

	"github.com/plimsoll-dev/plimsoll/events"
)

// What panics while it is encoded is no empty frame for who comes later.
func TestAnEventThatCannotBeEncodedIsAnErrorForEveryone(t *testing.T) {
	f := newFrames(func(events.Event) ([]byte, error) { panic("encode") })
	for i := range 3 {
		func() {
			defer func() {
				if cause := recover(); (cause != nil) != (i == 0) {
					t.Errorf("call %d: panic %v", i, cause)
				}
			}()
			if b, err := f.of(events.Event{Thread: "t", Seq: 1}); err == nil {
				t.Errorf("call %d: frame %q", i, b)
			}
		}()
	}
}
