package threads

import (
	"context"
	"errors"
	"fmt"

	"github.com/plimsoll-dev/plimsoll/events"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// Limits of the images of one input, and of the output of one tool call.
const (
	MaxImages     = 64
	MaxImageBytes = 8 << 20 // of each
	// MaxImagesBytes bounds all of them together: they are one transaction.
	MaxImagesBytes = 64 << 20
)

// Images holds the bytes of images by the hash under which parts name them
// (events.BlobHash). They are stored in the transaction of the event that the parts
// are in, or not at all.
type Images map[string][]byte

// Add takes an image in and returns the part that shows it. It fails if these are
// not the bytes of an image that models take, or too many.
func (im Images) Add(data []byte) (transcript.Part, error) {
	is := transcript.ImageType(data)
	switch {
	case len(data) > MaxImageBytes:
		return transcript.Part{}, fault.New(fault.TooLarge, "the image has %d bytes; at most %d are allowed", len(data), MaxImageBytes)
	case is == "":
		return transcript.Part{}, fault.New(fault.Invalid, "these are not the bytes of an image; allowed: PNG, JPEG, GIF, WebP")
	}
	hash := events.BlobHash(data)
	im[hash] = data
	return transcript.Part{Type: transcript.PartImage, Blob: hash, MediaType: is}, nil
}

// StoredImage returns the bytes of an image that the journal holds.
func (s *Service) StoredImage(ctx context.Context, hash string) ([]byte, error) {
	data, err := s.cfg.Journal.Blob(ctx, hash)
	if errors.Is(err, events.ErrNotFound) {
		return nil, fault.New(fault.Invalid, "no image is stored under %s", firstRunes(hash, 64))
	}
	if err != nil {
		return nil, fmt.Errorf("read an image: %w", err)
	}
	return data, nil
}

// blobs returns what must be stored with the images of parts, each once, in order.
// The bytes of one that im does not hold are looked up: they stay stored also if the
// thread that they came with is deleted meanwhile. field names parts in errors.
func (s *Service) blobs(ctx context.Context, field string, parts []transcript.Part, im Images) ([]events.Blob, error) {
	var out []events.Blob
	known, images, size := map[string]bool{}, 0, 0
	for i, p := range parts {
		if p.Type != transcript.PartImage {
			continue
		}
		if images++; images > MaxImages {
			return nil, fault.New(fault.TooLarge, "%s has more than %d images, which is the limit", field, MaxImages)
		}
		if known[p.Blob] {
			continue
		}
		known[p.Blob] = true
		data, given := im[p.Blob]
		if !given {
			var err error
			if data, err = s.StoredImage(ctx, p.Blob); err != nil {
				return nil, fault.Wrap(fault.CodeOf(err), err, "%s[%d]: %s", field, i, fault.MessageOf(err))
			}
		}
		if err := checkImage(p, data); err != nil {
			return nil, fault.Wrap(fault.CodeOf(err), err, "%s[%d]: %s", field, i, fault.MessageOf(err))
		}
		if size += len(data); size > MaxImagesBytes {
			return nil, fault.New(fault.TooLarge, "the images of %s have more than %d bytes together, which is the limit", field, MaxImagesBytes)
		}
		out = append(out, events.Blob{Hash: p.Blob, Data: data})
	}
	return out, nil
}

// checkImage refuses bytes that are not what a part says.
func checkImage(p transcript.Part, data []byte) error {
	is, err := Images{}.Add(data)
	switch {
	case err != nil:
		return err
	case is.Blob != p.Blob:
		return fault.New(fault.Invalid, "the bytes of the image do not have the hash %s", firstRunes(p.Blob, 64))
	case is.MediaType != p.MediaType:
		return fault.New(fault.Invalid, "the image is said to be %s and is %s", firstRunes(p.MediaType, 64), is.MediaType)
	}
	return nil
}
