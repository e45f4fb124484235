package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// RawJSON is a JSON value kept as it came, up to white space between tokens. A nil RawJSON encodes as null.
type RawJSON = json.RawMessage

// itemJSON is the stored form of an Item: the body under its kind's name, times
// in unix milliseconds, 0 for unknown.
type itemJSON struct {
	ID          ItemID  `json:"id"`
	Turn        TurnID  `json:"turnId"`
	StartedAt   int64   `json:"startedAtMs"`
	CompletedAt int64   `json:"completedAtMs"`
	Kind        Kind    `json:"kind"`
	Body        RawJSON `json:"body"`
}

// MarshalJSON implements json.Marshaler.
func (it Item) MarshalJSON() ([]byte, error) {
	if it.Body == nil {
		return nil, fmt.Errorf("item %s has no body", it.ID)
	}
	body, err := Encode(it.Body)
	if err != nil {
		return nil, err
	}
	return Encode(itemJSON{it.ID, it.Turn, Millis(it.StartedAt), Millis(it.CompletedAt), it.Body.Kind(), body})
}

// Encode is json.Marshal without its escaping for HTML, so that a RawJSON comes
// back with the same bytes, but for the white space between its tokens.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (it *Item) UnmarshalJSON(b []byte) error {
	var raw itemJSON
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	body, err := decodeBody(raw.Kind, raw.Body)
	if err != nil {
		return fmt.Errorf("item %s: %w", raw.ID, err)
	}
	*it = Item{ID: raw.ID, Turn: raw.Turn, StartedAt: FromMillis(raw.StartedAt), CompletedAt: FromMillis(raw.CompletedAt), Body: body}
	return nil
}

// turnJSON is the stored form of a Turn: times in unix milliseconds, 0 for
// unknown.
type turnJSON struct {
	ID          TurnID     `json:"id"`
	Kind        TurnKind   `json:"kind"`
	Status      TurnStatus `json:"status"`
	Error       *TurnError `json:"error"`
	StartedAt   int64      `json:"startedAtMs"`
	CompletedAt int64      `json:"completedAtMs"`
}

// MarshalJSON implements json.Marshaler.
func (t Turn) MarshalJSON() ([]byte, error) {
	return Encode(turnJSON{t.ID, t.Kind, t.Status, t.Error, Millis(t.StartedAt), Millis(t.CompletedAt)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Turn) UnmarshalJSON(b []byte) error {
	var raw turnJSON
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*t = Turn{raw.ID, raw.Kind, raw.Status, raw.Error, FromMillis(raw.StartedAt), FromMillis(raw.CompletedAt)}
	return nil
}

// decoders is the closed set of bodies; a kind that is not here cannot be read.
var decoders = map[Kind]func([]byte) (Body, error){
	KindUserMessage:       decode[UserMessage],
	KindAgentMessage:      decode[AgentMessage],
	KindReasoning:         decode[Reasoning],
	KindToolCall:          decode[ToolCall],
	KindToolResult:        decode[ToolResult],
	KindCommand:           decode[Command],
	KindFileChange:        decode[FileChange],
	KindPlan:              decode[Plan],
	KindImage:             decode[Image],
	KindNotice:            decode[Notice],
	KindCheckpoint:        decode[Checkpoint],
	KindContextCompaction: decode[ContextCompaction],
	KindOpaque:            decode[Opaque],
}

func decode[B Body](b []byte) (Body, error) {
	var v B
	err := json.Unmarshal(b, &v)
	return v, err
}

func decodeBody(kind Kind, b []byte) (Body, error) {
	d, ok := decoders[kind]
	if !ok {
		return nil, fmt.Errorf("unknown kind %q", kind)
	}
	return d(b)
}

// Millis returns t in unix milliseconds, 0 for the zero time.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// FromMillis is the inverse of Millis; it yields UTC.
func FromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
