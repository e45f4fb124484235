package events

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Prepare checks a before a Journal looks at it, and sets Thread and At of its
// events. Journals call it first, in the caller's goroutine, so that nothing
// that cannot be read back ever reaches storage. Its errors are ErrInvalid.
func (a *Append) Prepare(now time.Time) error {
	switch {
	case a.Thread == "":
		return fmt.Errorf("%w: append without a thread", ErrInvalid)
	case a.Expect < 0:
		return fmt.Errorf("%w: append after seq %d", ErrInvalid, a.Expect)
	case len(a.Events) == 0:
		return fmt.Errorf("%w: append without events", ErrInvalid)
	case a.Delete && len(a.Blobs) > 0:
		return fmt.Errorf("%w: a deletion keeps no blobs", ErrInvalid)
	case a.Info != nil && !json.Valid(a.Info):
		return fmt.Errorf("%w: the info is not JSON", ErrInvalid)
	}
	for i := range a.Events {
		e := &a.Events[i]
		if e.Type == "" || !json.Valid(e.Data) {
			return fmt.Errorf("%w: event %d (%q) needs a type and JSON data", ErrInvalid, i, e.Type)
		}
		if e.At.IsZero() {
			e.At = now
		}
		e.Thread, e.At = a.Thread, time.UnixMilli(e.At.UnixMilli()).UTC()
	}
	for _, b := range a.Blobs {
		if err := b.check(); err != nil {
			return err
		}
	}
	return nil
}

func (b Blob) check() error {
	if b.Data == nil {
		if raw, err := hex.DecodeString(b.Hash); err != nil || len(raw) != sha256.Size || hex.EncodeToString(raw) != b.Hash {
			return fmt.Errorf("%w: %q is not a lower-case hex sha256", ErrInvalid, b.Hash)
		}
		return nil
	}
	if b.Hash != BlobHash(b.Data) {
		return fmt.Errorf("%w: blob %q does not have this hash", ErrInvalid, b.Hash)
	}
	return nil
}

// BlobHash returns the name under which data is stored.
func BlobHash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
