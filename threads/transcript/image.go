package transcript

import "bytes"

// ImageType returns the media type of an image that models take, by its first
// bytes: PNG, JPEG, GIF or WebP. It is empty for everything else.
func ImageType(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(data, []byte("GIF87a")), bytes.HasPrefix(data, []byte("GIF89a")):
		return "image/gif"
	case len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// Blobs returns the blobs of the images that a body shows, in order.
func Blobs(b Body) (hashes []string) {
	var parts []Part
	switch b := b.(type) {
	case UserMessage:
		parts = b.Content
	case ToolResult:
		parts = b.Output
	case Image:
		parts = []Part{{Type: PartImage, Blob: b.Blob}}
	default:
	}
	for _, p := range parts {
		if p.Type == PartImage && p.Blob != "" {
			hashes = append(hashes, p.Blob)
		}
	}
	return hashes
}
