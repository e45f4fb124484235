package importer

import (
	"bytes"
	"encoding/json"

	"github.com/plimsoll-dev/plimsoll/threads/fault"
	"github.com/plimsoll-dev/plimsoll/threads/importer/session"
)

// sniffSize is how much of a file may be looked at to recognise its format. The
// keys that tell come before the long texts of a record.
const sniffSize = 64 << 10

const supported = "supported are session files of Claude Code and pi (JSONL) and exports of plimsoll, plain or gzipped"

// sniff names the format of a file that begins with head. The first line that
// tells decides, so that a damaged first record does not hide the format.
func sniff(head []byte) (string, error) {
	text := bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	if len(bytes.TrimSpace(text)) == 0 {
		return "", fault.New(fault.Invalid, "the file is empty; %s", supported)
	}
	other := ""
	for range 64 {
		text = bytes.TrimLeft(text, "\x00\r\n")
		k := topKeys(text)
		if format := k.format(); format != "" {
			return format, nil
		}
		if other == "" {
			other = k.foreign()
		}
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			break
		}
		text = text[end+1:]
	}
	if other == "" {
		other = foreignBytes(head)
	}
	return "", fault.New(fault.Invalid, "the file looks like %s; %s", other, supported)
}

// keys are the members of a JSON object's top level as far as the head shows
// them: the value of strings, "" for others.
type keys map[string]string

// has reports whether all names are keys.
func (k keys) has(names ...string) bool {
	for _, n := range names {
		if _, ok := k[n]; !ok {
			return false
		}
	}
	return true
}

// arrayKey stands for an array around the object whose keys these are.
const arrayKey = "\x00array"

// topKeys reads the keys of the object, or of the first object of the array,
// that text begins with.
func topKeys(text []byte) keys {
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return nil
	}
	k := keys{}
	dec := json.NewDecoder(bytes.NewReader(text))
	tok, err := dec.Token()
	if err == nil && tok == json.Delim('[') {
		k[arrayKey] = ""
		tok, err = dec.Token()
	}
	if err != nil || tok != json.Delim('{') {
		return k
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return k
		}
		key, ok := name.(string)
		if !ok {
			return k
		}
		k[key] = ""
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return k
		}
		var s string
		if json.Unmarshal(value, &s) == nil {
			k[key] = s
		}
	}
	return k
}

// format is the supported format that the keys belong to.
func (k keys) format() string {
	switch {
	case k.has(arrayKey):
		return ""
	case k.has("plimsoll", "version"):
		return session.SourcePlimsoll
	case k["type"] == "session" && k.has("id"), k["type"] == "title" && k.has("v", "title"):
		return session.SourcePi
	case k["type"] == "message" && k.has("message", "timestamp") && !k.has("sessionId"):
		return session.SourcePi // a file whose header is damaged
	case k.has("type") && (k.has("sessionId", "uuid") || k.has("parentUuid") || k.has("leafUuid") ||
		k.has("messageId", "snapshot") || k.has("sessionId", "timestamp")):
		return session.SourceClaudeCode
	}
	return ""
}

// foreign names formats that are known and not supported.
func (k keys) foreign() string {
	switch {
	case k.has("sessionId", "projectHash"):
		return "a Gemini CLI session (one JSON object)"
	case k.has("trajectory"), k.has("history"):
		return "an SWE-agent trajectory"
	case k.has(arrayKey, "task_id"):
		return "tau-bench results (a JSON array)"
	case k.has("timestamp", "type", "payload"):
		return "a codex rollout"
	case k.has("info", "messages"):
		return "an opencode export (one JSON object)"
	case k.has(arrayKey, "role"), k.has("messages"):
		return "a list of chat messages"
	case k.has(arrayKey):
		return "a JSON array"
	case len(k) > 0:
		return "JSON of an unknown kind"
	}
	return ""
}

// foreignBytes names what is not JSON at all.
func foreignBytes(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		return "zstd data; only gzip is decompressed"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return "a zip archive; only gzip is decompressed"
	case bytes.HasPrefix(head, []byte("SQLite format 3")):
		return "an SQLite database"
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return "UTF-16 text; save it as UTF-8"
	case bytes.IndexByte(head, 0) >= 0:
		return "binary data"
	}
	return "text that is not JSON"
}
