package transcript

import "unicode/utf8"

// ImageTokens is what one image costs where nobody says more.
const ImageTokens = 1_200

// itemTokens is what the frame of one item costs on the wire.
const itemTokens = 4

// Estimate returns the tokens of an item as a model's tokenizer would count them,
// about: it knows scripts, code and digits, and takes an image for what it costs,
// not for its bytes. It is what the meter scales; records of local compactions use
// Tokens.
func Estimate(b Body) int {
	return itemTokens + EstimateText(Text(b)) + ImageTokens*Images(b)
}

// EstimateText is Estimate for a text alone.
func EstimateText(s string) int { return (utf8.RuneCountInString(s) + 3) / 4 }

// Images counts the images of a body.
func Images(b Body) int {
	parts := []Part(nil)
	switch b := b.(type) {
	case UserMessage:
		parts = b.Content
	case ToolResult:
		parts = b.Output
	case Image:
		return 1
	default:
	}
	n := 0
	for _, p := range parts {
		if p.Type == PartImage {
			n++
		}
	}
	return n
}
