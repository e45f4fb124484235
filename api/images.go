package api

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/plimsoll-dev/plimsoll/threads"
	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// blobScheme is how items name stored bytes.
const blobScheme = "urn:plimsoll:blob:"

// maxBase64 bounds an image in base64 before it is decoded.
var maxBase64 = base64.StdEncoding.EncodedLen(threads.MaxImageBytes)

// parts turns an input into the parts of a message. Images are read here, once: what
// is journaled are their bytes, whatever becomes of a file.
func (in Input) parts(ctx context.Context, svc *threads.Service) ([]transcript.Part, threads.Images, error) {
	parts, images := make([]transcript.Part, 0, len(in)), threads.Images{}
	for i, p := range in {
		part := transcript.Part{Type: transcript.PartText, Text: p.Text}
		var err error
		switch p.Type {
		case "image":
			part, err = imageOf(ctx, svc, p.URL, images)
		case "localImage":
			part, err = localImage(p.Path, images)
		}
		if err != nil {
			return nil, nil, fault.Wrap(fault.CodeOf(err), err, "input[%d]: %s", i, fault.MessageOf(err))
		}
		parts = append(parts, part)
	}
	return parts, images, nil
}

// imageOf takes in the image of a URL.
func imageOf(ctx context.Context, svc *threads.Service, url string, images threads.Images) (transcript.Part, error) {
	scheme, _, _ := strings.Cut(url, ":")
	switch strings.ToLower(scheme) {
	case "data":
		return dataImage(url, images)
	case "urn":
		hash, is := strings.CutPrefix(url, blobScheme)
		if !is {
			break
		}
		data, err := svc.StoredImage(ctx, hash)
		if err != nil {
			return transcript.Part{}, err
		}
		return images.Add(data)
	case "http", "https":
		return transcript.Part{}, invalid("the server fetches no URLs; send the image as data:image/png;base64,… or as a localImage")
	}
	return transcript.Part{}, invalid("the URL of an image must begin with data: or %s, got %q", blobScheme, clip(url))
}

// dataImage takes in the image of a data URL (RFC 2397).
func dataImage(url string, images threads.Images) (transcript.Part, error) {
	none := transcript.Part{}
	head, body, found := strings.Cut(url[len("data:"):], ",")
	head, coded := strings.CutSuffix(strings.TrimRight(head, " "), ";base64")
	if !found || !coded {
		return none, invalid("the data URL of an image must be like data:image/png;base64,…, got %q", clip(url))
	}
	declared, _, err := mime.ParseMediaType(head)
	if err != nil || !strings.HasPrefix(declared, "image/") {
		return none, invalid("the data URL of an image must name its type, such as image/png, got %q", clip(head))
	}
	if len(body) > maxBase64 {
		return none, fault.New(fault.TooLarge, "the image has more than %d bytes, which is the limit", threads.MaxImageBytes)
	}
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(body, "="))
	if err != nil {
		return none, invalid("the data URL of an image is not valid base64: %s", err)
	}
	part, err := images.Add(data)
	if err == nil && part.MediaType != declared && (declared != "image/jpg" || part.MediaType != "image/jpeg") {
		return none, invalid("the image is said to be %s and is %s", clip(declared), part.MediaType)
	}
	return part, err
}

// localImage takes in the image of a file: a regular one, so that reading it ends.
func localImage(path string, images threads.Images) (part transcript.Part, err error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return part, invalid("the path of a localImage must be absolute, got %q", clip(path))
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // no wait for the writer of a pipe
	if err != nil {
		return part, unreadable(path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return part, unreadable(path, err)
	}
	if !info.Mode().IsRegular() {
		return part, invalid("%q is not a regular file", clip(path))
	}
	if info.Size() > threads.MaxImageBytes {
		return part, fault.New(fault.TooLarge, "%q has %d bytes; an image may have at most %d", clip(path), info.Size(), threads.MaxImageBytes)
	}
	data, err := io.ReadAll(io.LimitReader(f, threads.MaxImageBytes+1))
	if err != nil {
		return part, unreadable(path, err)
	}
	if part, err = images.Add(data); err != nil {
		return part, fault.Wrap(fault.CodeOf(err), err, "%q: %s", clip(path), fault.MessageOf(err))
	}
	return part, nil
}

// unreadable says why a file cannot be read, and no more than that.
func unreadable(path string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fault.Wrap(fault.Invalid, err, "%q cannot be read: %s", clip(path), err)
}

// toolOutput turns what a client's tool gave into the parts of a result. What the
// model cannot be given leaves a mark that says why: the call is done, and refusing
// its answer would leave the turn waiting.
func toolOutput(ctx context.Context, svc *threads.Service, items []ToolOutput) ([]transcript.Part, threads.Images) {
	parts, images := make([]transcript.Part, 0, len(items)), threads.Images{}
	shown, size := 0, 0
	for _, o := range items {
		part := transcript.Part{Type: transcript.PartText, Text: o.Text}
		switch o.Type {
		case "inputImage":
			before := len(images)
			image, err := imageOf(ctx, svc, o.ImageURL, images)
			if len(images) > before {
				size += len(images[image.Blob])
			}
			if err == nil {
				shown++
			}
			if shown > threads.MaxImages || size > threads.MaxImagesBytes {
				err = fault.New(fault.TooLarge, "the output has too many images")
			}
			if part = image; err != nil {
				part = transcript.Part{Type: transcript.PartText, Text: fmt.Sprintf("[an image of the tool's output was left out: %s]", fault.MessageOf(err))}
			}
		case "inputAudio":
			part.Text = "[audio of the tool's output was left out: this server passes on texts and images only]"
		}
		parts = append(parts, part)
	}
	return parts, images
}
