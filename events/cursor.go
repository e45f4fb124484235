package events

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
)

// A Cursor is a position in one journal: everything up to and including N was
// seen. On the wire it is "<journal>.<n>", opaque to clients. A thread's
// cursor carries the thread's journal id and a Seq, the all-threads cursor the
// database's id and a Pos.
type Cursor struct {
	Journal string
	N       int64
}

// String returns the wire form.
func (c Cursor) String() string { return c.Journal + "." + strconv.FormatInt(c.N, 10) }

// idLen is the length of journal and database ids.
const idLen = 8

// ParseCursor reads the wire form. It accepts exactly what String writes.
func ParseCursor(s string) (Cursor, error) {
	journal, num, ok := strings.Cut(s, ".")
	n, err := strconv.ParseInt(num, 10, 64)
	if !ok || err != nil || n < 0 || !validID(journal) || strconv.FormatInt(n, 10) != num {
		return Cursor{}, fmt.Errorf("malformed cursor: want <journal>.<number> as returned by the server")
	}
	return Cursor{journal, n}, nil
}

// NewID makes a random id for a journal or a database.
func NewID() string { return strings.ToLower(rand.Text()[:idLen]) }

// validID reports whether s looks like an id made by NewID.
func validID(s string) bool {
	if len(s) != idLen {
		return false
	}
	for _, r := range []byte(s) {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return false
		}
	}
	return true
}
