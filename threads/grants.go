package threads

import (
	"slices"
	"strconv"

	"github.com/plimsoll-dev/plimsoll/threads/transcript"
)

// maxGranted is how many acceptances for the session are remembered: the newest.
// What was forgotten is asked again.
const maxGranted = 1000

// grant remembers what was accepted for the session.
func (s *state) grant(r Request) {
	for _, k := range s.grantKeys(r, nil) {
		s.Granted = append(slices.DeleteFunc(s.Granted, func(g string) bool { return g == k }), k)
	}
	if n := len(s.Granted) - maxGranted; n > 0 {
		s.Granted = slices.Delete(s.Granted, 0, n)
	}
}

// granted reports whether what r asks was accepted for the session before.
func (s *state) granted(r Request, about transcript.Item) bool {
	keys := s.grantKeys(r, about.Body)
	return len(keys) > 0 && !slices.ContainsFunc(keys, func(k string) bool { return !slices.Contains(s.Granted, k) })
}

// grantKeys names what an acceptance of r for the session allows: the same
// command in the same folder, the same root, or changes to the same files. A
// change whose files are not known can be allowed only once. Body is that of r's
// item if the transcript does not have it yet.
func (s *state) grantKeys(r Request, body transcript.Body) []string {
	if i, ok := s.itemAt[r.ItemID]; ok {
		body = s.Transcript.Items[i].Body
	}
	switch {
	case r.Command != nil:
		return []string{"command " + strconv.Quote(r.Command.Cwd) + " " + strconv.Quote(r.Command.Command)}
	case r.File != nil && r.File.GrantRoot != "":
		return []string{"root " + strconv.Quote(r.File.GrantRoot)}
	case r.File != nil:
		var keys []string
		if change, ok := body.(transcript.FileChange); ok {
			for _, c := range change.Changes {
				keys = append(keys, "file "+strconv.Quote(c.Path))
			}
		}
		return keys
	}
	return nil
}
